// Parts of the peer in the middle of a chain: its inbox below, its escalation above. Its own session never has both (one that
// serves has a user interface and is no subagent, one that escalates is the opposite), so this puts them together. Prints
// `ready` once it looks, then one JSON line for each entry of its review log.
import { parseArgs } from "node:util";
import { AuthorizerSelection } from "#src/authority/authorizer-selection";
import { ForwardedRequestServer } from "#src/authority/forwarded-request-server";
import { PermissionPrompter } from "#src/authority/permission-prompter";
import { requestPermissionDecision } from "#src/authority/permission-prompt-component";
import { SessionRules } from "#src/session-rules";
import { hostContext, noBus, peerLogger, printLine, useAgentDir, useTick } from "./session";

const { values: given } = parseArgs({
  options: {
    spool: { type: "string" },
    "agent-dir": { type: "string" },
    session: { type: "string" },
    parent: { type: "string" },
    "tick-ms": { type: "string", default: "250" },
  },
});
if (!given.spool || !given["agent-dir"] || !given.session || !given.parent) {
  throw new Error("needs --spool, --agent-dir, --session and --parent");
}

useTick(Number(given["tick-ms"]));
const agentDir = useAgentDir(given["agent-dir"]);
process.env.PI_IS_SUBAGENT = "1";
process.env.PI_SUBAGENT_PARENT_SESSION = given.parent;
delete process.env.PI_AGENT_ROUTER_PARENT_SESSION_ID;

const logger = peerLogger(agentDir, (event, details) => printLine({ event, ...details }));
const selection = new AuthorizerSelection({
  detection: { isSubagent: () => true },
  events: noBus,
  getPromptPreferences: () => ({ doublePressToConfirm: true }),
  requestPermissionDecision,
  forwardingDir: given.spool,
  logger,
  prompter: new PermissionPrompter({ logger }),
} as any);
const context = hostContext(given.session, agentDir, "hop");
selection.activate(context);

const server = new ForwardedRequestServer({
  forwardingDir: given.spool,
  logger,
  policy: { check: () => ({ state: "ask" }) as any },
  escalator: selection,
  recorder: new SessionRules(),
});
let looking = false;
setInterval(async () => {
  if (looking) return;
  looking = true;
  await server.processInbox(context).finally(() => {
    looking = false;
  });
}, 250);
printLine("ready");
