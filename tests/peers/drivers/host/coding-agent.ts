// Stands in for the host's SDK: what the peer imports of it at run time.
export function getAgentDir(): string {
  const dir = process.env.PI_CODING_AGENT_DIR;
  if (!dir) throw new Error("the driver must set PI_CODING_AGENT_DIR");
  return dir;
}
