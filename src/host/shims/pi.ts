// askrelay for pi: puts every call of a tool to the session that is in charge, and keeps pi to the answer.
//
// One file without dependencies. `askrelay install pi` writes it, with the place of the program in it; changes made here are lost
// with the next install. docs/pi.md of askrelay says what it does and why.
//
// pi has no permissions of its own, so askrelay's rules answer for it, and somebody is asked about what they leave open. Nothing here
// decides. No answer is a refusal that says what to do.
import { type ChildProcess, spawn } from "node:child_process";

const INSTALLED = "askrelay";

const PROGRAM = process.env.ASKRELAY_BIN || INSTALLED;
/** More than any answer, and than anybody reads of what a program had to complain about. */
const MOST = 1 << 20;

interface Answer {
  decision: "allow" | "deny" | "none";
  reason: string;
}

/** As much of pi as is used here, so that nothing has to be installed. */
interface ToolCall {
  toolName: string;
  toolCallId: string;
  parentToolCallId?: string;
  input: Record<string, unknown>;
}
interface Context {
  cwd: string;
  signal?: AbortSignal;
  sessionManager: { getSessionId(): string };
}
interface Pi {
  on(event: "tool_call", handler: (event: ToolCall, ctx: Context) => Promise<{ block: true; reason: string } | undefined>): void;
  on(event: "session_shutdown", handler: () => void): void;
}

/** What keeps a call from running when askrelay cannot say anything. */
const broken = (what: string): Answer => ({
  decision: "deny",
  reason: `[askrelay] Not allowed, for nobody could be asked: ${what}. Tell the user to run \`askrelay doctor pi\`.`,
});

/** What was asked about is what runs: no extension that comes later changes it. */
function seal(value: unknown): void {
  if (value && typeof value === "object" && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const member of Object.values(value)) seal(member);
  }
}

export default function askrelay(pi: Pi): void {
  const waiting = new Set<ChildProcess>();

  /** Asks, and never fails. Ending the process withdraws the ask. */
  function ask(call: object, cwd: string, signal?: AbortSignal): Promise<Answer> {
    return new Promise((resolve) => {
      let child: ChildProcess;
      try {
        child = spawn(PROGRAM, ["hook", "pi"], { cwd, stdio: ["pipe", "pipe", "pipe"] });
      } catch (error) {
        resolve(broken(`${PROGRAM} cannot be started (${(error as Error).message})`));
        return;
      }
      waiting.add(child);
      const stop = () => child.kill("SIGTERM");
      signal?.addEventListener("abort", stop);
      if (signal?.aborted) stop();
      const said = { stdout: "", stderr: "" };
      for (const name of ["stdout", "stderr"] as const) {
        child[name]?.setEncoding("utf8");
        child[name]?.on("data", (text: string) => {
          if (said[name].length < MOST) said[name] += text;
        });
      }
      const end = (answer: Answer) => {
        waiting.delete(child);
        signal?.removeEventListener("abort", stop);
        resolve(answer);
      };
      child.on("error", (error) => end(broken(`${PROGRAM} cannot be started (${error.message})`)));
      child.on("close", (code, ended) => {
        try {
          const { decision, reason } = JSON.parse(said.stdout);
          if (["allow", "deny", "none"].includes(decision)) {
            end({ decision, reason: reason || "[askrelay] Denied." });
            return;
          }
        } catch {
          // It said nothing that is an answer.
        }
        const last = said.stderr.trim().slice(-500);
        end(broken(`${PROGRAM} ended with ${ended ?? code}${last && `, and said: ${last}`}`));
      });
      // Who ends without having read is heard of above.
      child.stdin?.on("error", () => {});
      child.stdin?.end(`${JSON.stringify(call)}\n`);
    });
  }

  pi.on("tool_call", async (event, ctx) => {
    seal(event.input);
    const call = {
      sessionId: ctx.sessionManager.getSessionId(),
      tool: event.toolName,
      input: event.input,
      cwd: ctx.cwd,
      callId: event.toolCallId,
      parentCallId: event.parentToolCallId,
    };
    const { decision, reason } = await ask(call, ctx.cwd, ctx.signal);
    // What no rule is about runs where it only looks at what the agent works on.
    return decision === "deny" ? { block: true, reason } : undefined;
  });

  pi.on("session_shutdown", () => {
    for (const child of waiting) child.kill("SIGTERM");
  });
}
