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
  on(event: "tool_execution_start", handler: (event: { toolCallId: string; args: unknown }) => void): void;
  on(event: "tool_execution_end", handler: (event: { toolCallId: string }) => void): void;
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

/** What all copies of this file that pi has loaded know together, so that a call is asked about once. */
interface Shared {
  /** What came of a call, by the object that pi hands to every extension. */
  answers: WeakMap<object, Promise<Answer>>;
}
const shared: Shared = ((globalThis as Record<symbol, unknown>)[Symbol.for("askrelay.pi")] ??= { answers: new WeakMap() }) as Shared;

/** All that an input says, whatever its shape. */
function leaves(value: unknown, into = new Set<string>()): Set<string> {
  if (value && typeof value === "object") {
    for (const member of Object.values(value)) leaves(member, into);
  } else if (value !== null && value !== undefined) {
    into.add(String(value));
  }
  return into;
}

/** What a text says that is JSON of more than one thing. */
function within(text: string): Set<string> | undefined {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" ? leaves(value) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Whether an input says what the model has said, and nothing else. pi and its tools bring that into the shape that they want: a number
 * for a text, a list for one thing, what is told as JSON within a text.
 */
function isSame(model: unknown, input: unknown): boolean {
  const asked = leaves(input);
  const told = leaves(model);
  for (const text of [...told]) {
    if (asked.has(text)) continue;
    const inner = within(text);
    if (!inner || [...inner].some((one) => !asked.has(one))) return false;
    for (const one of inner) told.add(one);
  }
  return [...asked].every((text) => told.has(text));
}

const unclear = (why: string): Answer => ({
  decision: "deny",
  reason: `[askrelay] Not allowed, for it is not certain what would run: ${why}. Tell the user to look at docs/pi.md of askrelay, "What was asked about is what runs".`,
});

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

  /** What the model has said, by the id of the call, as a text: nobody changes that any more. Of two calls with one id, nothing. */
  const model = new Map<string, string | undefined>();
  pi.on("tool_execution_start", ({ toolCallId, args }) => {
    model.set(toolCallId, model.has(toolCallId) ? undefined : JSON.stringify(args ?? {}));
  });
  pi.on("tool_execution_end", ({ toolCallId }) => void model.delete(toolCallId));

  async function answer(event: ToolCall, ctx: Context): Promise<Answer> {
    seal(event.input);
    const told = model.get(event.toolCallId);
    if (told === undefined) {
      return unclear(model.has(event.toolCallId) ? `two calls have the id ${event.toolCallId}` : "pi did not say what the model wants");
    }
    if (!isSame(JSON.parse(told), event.input)) {
      return unclear("the input is not what the model has said. Another extension, which comes before askrelay, changes it");
    }
    const call = {
      sessionId: ctx.sessionManager.getSessionId(),
      tool: event.toolName,
      input: event.input,
      cwd: ctx.cwd,
      callId: event.toolCallId,
      parentCallId: event.parentToolCallId,
    };
    return ask(call, ctx.cwd, ctx.signal);
  }

  pi.on("tool_call", async (event, ctx) => {
    // Another copy of this file is asked by the same pi, with the same object.
    let answered = shared.answers.get(event);
    if (!answered) shared.answers.set(event, (answered = answer(event, ctx)));
    const { decision, reason } = await answered;
    // What no rule is about runs where it only looks at what the agent works on.
    return decision === "deny" ? { block: true, reason } : undefined;
  });

  pi.on("session_shutdown", () => {
    for (const child of waiting) child.kill("SIGTERM");
  });
}
