// The peer as the session in charge: its timer, its inbox, its rules, its questions. The person is a script. Prints
// `ready` once it serves, then one JSON line for each question and for each entry of its review log.
import { parseArgs } from "node:util";
import { buildAccessIntentForSurface } from "#src/access-intent/input-normalizer";
import { AuthorizerSelection } from "#src/authority/authorizer-selection";
import { ForwardedRequestServer } from "#src/authority/forwarded-request-server";
import { ForwardingManager } from "#src/authority/forwarding-manager";
import { PermissionPrompter } from "#src/authority/permission-prompter";
import { requestPermissionDecision } from "#src/authority/permission-prompt-component";
import { PathNormalizer } from "#src/path-normalizer";
import { pathFlavorForPlatform } from "#src/path/path-flavor";
import { PermissionManager } from "#src/permission-manager";
import { PermissionResolver } from "#src/permission-resolver";
import { SessionRules } from "#src/session-rules";
import { hostContext, noBus, peerLogger, printLine, useAgentDir, useTick } from "./session";

const { values: given } = parseArgs({
  options: {
    spool: { type: "string" },
    // With `--policy rules`, `<agent-dir>/extensions/pi-permission-system/config.json` is the configuration.
    "agent-dir": { type: "string" },
    session: { type: "string" },
    policy: { type: "string", default: "rules" },
    // approve | session | whole | deny | deny=REASON | hold. In order; the last one stands for all that follow.
    answer: { type: "string", multiple: true, default: ["hold"] },
    "tick-ms": { type: "string", default: "250" },
  },
});
if (!given.spool || !given["agent-dir"] || !given.session) throw new Error("needs --spool, --agent-dir and --session");

useTick(Number(given["tick-ms"]));
const agentDir = useAgentDir(given["agent-dir"]);
const logger = peerLogger(agentDir, (event, details) => printLine({ event, ...details }));

let reason = "";
let nextScope = 0;
let question = 0;
const pickFirstThat = (options: string[], wanted: RegExp) => options.find((option) => wanted.test(option));
const person = {
  async select(title: string, options: string[]): Promise<string | undefined> {
    // The second step of a session grant: which sessions it is for.
    if (options.length === 2) {
      printLine({ event: "scope", title, options });
      return options[nextScope];
    }
    const script = given.answer;
    const answer = script[Math.min(question, script.length - 1)] ?? "hold";
    question += 1;
    printLine({ event: "question", title, options, answer });
    if (answer === "hold") return new Promise(() => {});
    if (answer === "approve") return pickFirstThat(options, /^Yes$/);
    if (answer === "deny") return pickFirstThat(options, /^No$/);
    if (answer === "session" || answer === "whole") {
      nextScope = answer === "whole" ? 1 : 0;
      return pickFirstThat(options, /^Yes, .*session/);
    }
    reason = answer.replace(/^deny=/, "");
    return pickFirstThat(options, /^No, /);
  },
  async input(title: string): Promise<string | undefined> {
    printLine({ event: "input", title });
    return reason;
  },
};

const flavor = pathFlavorForPlatform(process.platform);
const grants = new SessionRules();
const manager = new PermissionManager({ agentDir, flavor });
manager.configureForCwd(process.cwd());
const resolver = new PermissionResolver(manager, grants);
const paths = new PathNormalizer(flavor, process.cwd());
const byRules = (surface: string, value: string | null) =>
  resolver.resolve(buildAccessIntentForSurface(surface, value ?? undefined, paths, undefined));
const allowAll = () => ({ state: "allow" });

const selection = new AuthorizerSelection({
  detection: { isSubagent: () => false },
  events: noBus,
  getPromptPreferences: () => ({ doublePressToConfirm: true }),
  requestPermissionDecision,
  forwardingDir: given.spool,
  logger,
  prompter: new PermissionPrompter({ logger }),
} as any);
const context = hostContext(given.session, agentDir, null, person);
selection.activate(context);

const serving = new ForwardingManager(
  { isSubagent: () => false },
  new ForwardedRequestServer({
    forwardingDir: given.spool,
    logger,
    policy: { check: (given.policy === "allow" ? allowAll : byRules) as any },
    escalator: selection,
    recorder: grants,
  }),
);
process.on("SIGTERM", () => {
  serving.stop();
  process.exit(0);
});
serving.start(context);
printLine("ready");
