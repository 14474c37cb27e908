// The peer as a subagent: its gate finds "ask", its authorizer writes the request and waits for the answer, its session
// rules remember a grant. One JSON line for each decision.
import { parseArgs } from "node:util";
import { AuthorizerSelection } from "#src/authority/authorizer-selection";
import { PermissionPrompter } from "#src/authority/permission-prompter";
import { requestPermissionDecision } from "#src/authority/permission-prompt-component";
import { SubagentDetection } from "#src/authority/subagent-detection";
import { GateRunner } from "#src/handlers/gates/runner";
import { pathFlavorForPlatform } from "#src/path/path-flavor";
import { PermissionManager } from "#src/permission-manager";
import { PermissionResolver } from "#src/permission-resolver";
import { SessionApproval } from "#src/session-approval";
import { SessionRules } from "#src/session-rules";
import { hostContext, noBus, peerLogger, printLine, useAgentDir, useTick } from "./session";

const { values: given } = parseArgs({
  options: {
    spool: { type: "string" },
    "agent-dir": { type: "string" },
    parent: { type: "string" },
    me: { type: "string" },
    agent: { type: "string" },
    surface: { type: "string", default: "bash" },
    command: { type: "string", default: "ls -l" },
    // The grant that the child offers for its session; may be given several times.
    pattern: { type: "string", multiple: true, default: [] },
    concurrency: { type: "string", default: "1" },
    rounds: { type: "string", default: "1" },
    "tick-ms": { type: "string", default: "250" },
  },
});
if (!given.spool || !given["agent-dir"] || !given.parent || !given.me) {
  throw new Error("needs --spool, --agent-dir, --parent and --me");
}

useTick(Number(given["tick-ms"]));
const agentDir = useAgentDir(given["agent-dir"]);
process.env.PI_IS_SUBAGENT = "1";
process.env.PI_SUBAGENT_PARENT_SESSION = given.parent;
delete process.env.PI_AGENT_ROUTER_PARENT_SESSION_ID;

// The peer denies without a word when it cannot write or read a file. These two entries say what went wrong.
const troubles: string[] = [];
const logger = peerLogger(agentDir, (event, details) => {
  if (event === "permission_forwarding.error" || event === "permission_forwarding.warning") {
    troubles.push(`${details.message}: ${details.error ?? ""}`);
  }
});

const flavor = pathFlavorForPlatform(process.platform);
const grants = new SessionRules();
const selection = new AuthorizerSelection({
  detection: new SubagentDetection({ subagentSessionsDir: `${agentDir}/subagent-sessions`, flavor }),
  events: noBus,
  getPromptPreferences: () => ({ doublePressToConfirm: true }),
  requestPermissionDecision,
  forwardingDir: given.spool,
  logger,
  prompter: new PermissionPrompter({ logger }),
});
selection.activate(hostContext(given.me, agentDir, given.agent ?? null));

async function ask(worker: number, round: number): Promise<void> {
  let decision: any;
  const escalator = {
    async escalate(details: any) {
      decision = await selection.escalate(details);
      return decision;
    },
  };
  const manager = new PermissionManager({ agentDir, flavor });
  const runner = new GateRunner(new PermissionResolver(manager, grants), grants, escalator, {
    writeReviewLog: (event: string, details: Record<string, unknown>) => logger.review(event, details),
    emitDecision() {},
  });
  const { surface, command, pattern } = given;
  const outcome = await runner.run(
    {
      surface,
      input: { command },
      denialContext: { kind: "tool", check: { toolName: surface, state: "ask" } } as any,
      sessionApproval: pattern.length > 0 ? SessionApproval.multiple(surface, pattern) : undefined,
      promptDetails: {
        source: "tool_call",
        agentName: given.agent ?? null,
        toolName: surface,
        command,
        message: `${given.agent ?? given.me} asks to use ${surface}: ${command}`,
      },
      logContext: { source: "tool_call", toolName: surface },
      decision: { surface, value: command },
    },
    given.agent ?? null,
    `call-${worker}-${round}`,
  );
  printLine({
    worker,
    round,
    // False when a rule that an earlier grant left behind answered, so that nothing was written.
    forwarded: decision !== undefined,
    allowed: outcome.action === "allow",
    approved: decision?.approved ?? null,
    state: decision?.state ?? null,
    denialReason: decision?.denialReason ?? null,
    troubles: troubles.splice(0),
  });
}

async function work(worker: number): Promise<void> {
  for (let round = 0; round < Number(given.rounds); round += 1) await ask(worker, round);
}
await Promise.all(Array.from({ length: Number(given.concurrency) }, (_, worker) => work(worker)));
