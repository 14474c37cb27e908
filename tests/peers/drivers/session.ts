// What both drivers need: a session as the host would hand it to the peer, the peer's own logger, and output by lines.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { DEFAULT_EXTENSION_CONFIG } from "#src/extension-config";
import { PermissionSessionLogger } from "#src/session-logger";

export function printLine(value: unknown): void {
  process.stdout.write(`${typeof value === "string" ? value : JSON.stringify(value)}\n`);
}

/** Where the peer keeps its configuration and logs. The stub of the host reads the variable. */
export function useAgentDir(dir: string): string {
  mkdirSync(dir, { recursive: true });
  process.env.PI_CODING_AGENT_DIR = dir;
  return dir;
}

/** The peer waits 250 ms between looks, in both its roles. A shorter wait makes races many times likelier. */
export function useTick(tickMs: number): void {
  const shorten = (ms: number | undefined) => (ms === 250 ? tickMs : ms);
  const { setTimeout: once, setInterval: often } = globalThis;
  globalThis.setTimeout = ((run: () => void, ms?: number) => once(run, shorten(ms))) as typeof setTimeout;
  globalThis.setInterval = ((run: () => void, ms?: number) => often(run, shorten(ms))) as typeof setInterval;
}

export interface Answers {
  select(title: string, options: string[]): Promise<string | undefined>;
  input(title: string): Promise<string | undefined>;
}

/** A session's context. With `answers` it has a user interface and serves; without, it is a subagent. */
export function hostContext(sessionId: string, agentDir: string, agentName: string | null, answers?: Answers): any {
  const silent: Answers = { select: async () => undefined, input: async () => undefined };
  return {
    hasUI: answers !== undefined,
    mode: "rpc",
    cwd: process.cwd(),
    ui: { ...(answers ?? silent), notify() {}, setStatus() {} },
    sessionManager: {
      getSessionId: () => sessionId,
      getSessionDir: () => join(agentDir, "sessions", "driver"),
      getEntries: () => (agentName ? [{ type: "custom", customType: "active_agent", data: { name: agentName } }] : []),
    },
  };
}

/** The peer's logger as it is shipped (review log on), each review entry also handed to `seen`. */
export function peerLogger(agentDir: string, seen: (event: string, details: Record<string, unknown>) => void) {
  const logger = new PermissionSessionLogger({
    globalLogsDir: join(agentDir, "logs"),
    getConfig: () => DEFAULT_EXTENSION_CONFIG,
    notify: (message) => process.stderr.write(`${message}\n`),
  });
  return {
    review(event: string, details: Record<string, unknown> = {}) {
      logger.review(event, details);
      seen(event, details);
    },
    debug: (event: string, details?: Record<string, unknown>) => logger.debug(event, details),
    warn: (message: string) => logger.warn(message),
  };
}

/** The peer's broadcasts go nowhere here. */
export const noBus = { emit() {}, on: () => () => {} };
