// askrelay for opencode: puts what the agent wants to do to the session that is in charge, and keeps opencode to the answer.
//
// One file without dependencies. `askrelay install opencode` writes it, with the place of the program in it; changes made here are
// lost with the next install. docs/opencode.md of askrelay says what it does and why.
//
// Every call of a tool passes "tool.execute.before". There askrelay's rules are asked: what they deny does not run, what they allow
// opencode does not ask about either. What no rule is about is opencode's own matter, and where opencode asks somebody
// ("permission.asked"), askrelay is asked as well, beside the dialog: the first answer counts, and the other question is taken back.
// Where nobody could answer opencode, as with `opencode run`, every call is put to askrelay whole.
//
// Nothing here decides, and nothing here waits for ever on a program that is gone: no answer is a refusal that says what to do.
import { spawn } from "node:child_process";

const INSTALLED = "askrelay";

const PROGRAM = process.env.ASKRELAY_BIN || INSTALLED;
/** More than any answer, and than anybody reads of what a program had to complain about. */
const MOST = 1 << 20;
/** How long opencode may take to say what a call would run. It says so at once. */
const TOLD_MS = 10_000;

/** Commands behind which somebody answers what opencode asks, and options that may stand before them. */
const ATTENDED = ["acp", "serve", "web"];
const SWITCHES = ["--print-logs", "--pure", "--mdns", "--continue", "-c", "--fork", "--mini", "--no-replay"];
const VALUES = ["--log-level", "--port", "--hostname", "--mdns-domain", "--cors", "--model", "-m", "--session", "-s", "--prompt", "--agent", "--replay-limit"];

/** Whether nobody answers what opencode asks, as far as its command line says. What is not known is nobody. */
function isUnattended([, script, ...words], directory) {
  // The program behind the screen, which is told nothing of the command line.
  if (/[\\/]tui[\\/]worker\.[jt]s$/.test(script ?? "")) return false;
  const bare = [];
  for (let at = 0; at < words.length; at += 1) {
    const [name, value] = words[at].split("=", 2);
    if (name === "run" || name === "github") return true;
    if (!name.startsWith("-")) bare.push(words[at]);
    else if (VALUES.includes(name)) at += value === undefined ? 1 : 0;
    else if (!SWITCHES.includes(name)) return true;
  }
  if (words.some((word) => word === "run" || word === "github")) return true;
  const [command, ...more] = bare;
  if (command === undefined || ATTENDED.includes(command)) return false;
  // The directory of a project.
  const last = (path) => path.replace(/[\\/]+$/, "").split(/[\\/]/).pop();
  return more.length > 0 || !(/^\.{1,2}$/.test(command) || last(command) === last(directory ?? ""));
}

/** What all copies of this file that opencode has loaded know together, so that a call is asked about once. */
const shared = (globalThis[Symbol.for("askrelay.opencode")] ??= {
  /** Calls between their start and their end, by session and call. */
  calls: new Map(),
  /** Questions of opencode that are put to askrelay as well, by their id. */
  questions: new Map(),
  /** Questions that a copy has seen to. */
  seen: new Set(),
  /** What opencode says that a call would run, by session and call; and who waits to be told. */
  told: new Map(),
  waiting: new Map(),
  /** What came of a call, by the object that opencode hands to every plugin. */
  answers: new WeakMap(),
});

/** What keeps a call from running when askrelay cannot say anything. */
const broken = (what) => ({
  decision: "deny",
  reason: `[askrelay] Not allowed, for nobody could be asked: ${what}. Tell the user to run \`askrelay doctor opencode\`.`,
});

/** Starts one ask. `stop` withdraws it; `answer` never fails. */
function ask(call, cwd) {
  let child;
  const answer = new Promise((resolve) => {
    try {
      child = spawn(PROGRAM, ["hook", "opencode"], { cwd, stdio: ["pipe", "pipe", "pipe"] });
    } catch (error) {
      resolve(broken(`${PROGRAM} cannot be started (${error.message})`));
      return;
    }
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"]) {
      child[name].setEncoding("utf8");
      child[name].on("data", (text) => {
        if (said[name].length < MOST) said[name] += text;
      });
    }
    child.on("error", (error) => resolve(broken(`${PROGRAM} cannot be started (${error.message})`)));
    child.on("close", (code, signal) => {
      try {
        const { decision, reason } = JSON.parse(said.stdout);
        if (["allow", "deny", "none"].includes(decision)) {
          resolve({ decision, reason: reason || "[askrelay] Denied." });
          return;
        }
      } catch {
        // It said nothing that is an answer.
      }
      const last = said.stderr.trim().slice(-500);
      resolve(broken(`${PROGRAM} ended with ${signal ?? code}${last && `, and said: ${last}`}`));
    });
    // Who ends without having read is heard of above.
    child.stdin.on("error", () => {});
    child.stdin.end(`${JSON.stringify(call)}\n`);
  });
  return { answer, stop: () => child?.kill("SIGTERM") };
}

/** What was asked about is what runs: no plugin that comes later changes it. */
function seal(value) {
  if (value && typeof value === "object" && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const member of Object.values(value)) seal(member);
  }
}

/** Whether two inputs are the same, as JSON. */
function isSame(one, other) {
  if (one === other) return true;
  if (!one || !other || typeof one !== "object" || typeof other !== "object") return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const keys = (value) => Object.keys(value).filter((key) => value[key] !== undefined);
  return keys(one).length === keys(other).length && keys(one).every((key) => isSame(one[key], other[key]));
}

/** Whether a pattern of opencode's permissions fits. */
function fits(text, pattern) {
  const literal = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${literal.replace(/\*/g, ".*").replace(/\?/g, ".")}$`, "s").test(text);
}

export const Askrelay = async ({ client, directory }, options) => {
  const wanted = options?.gate ?? process.env.ASKRELAY_OPENCODE_GATE;
  const asksAll = wanted ? wanted !== "asks" : isUnattended(process.argv, directory);
  const { calls, questions, seen, told, waiting, answers } = shared;
  /** Whose calls and questions end with this plugin. */
  const owner = {};
  const keyOf = (sessionID, callID) => `${sessionID} ${callID}`;

  /** The session, what is above it, and where it works. */
  async function session(sessionID) {
    const above = [];
    let info = (await client.session.get({ path: { id: sessionID } })).data;
    const own = info;
    while (info?.parentID && above.length < 8) {
      info = (await client.session.get({ path: { id: info.parentID } })).data;
      if (info) above.unshift({ sessionId: info.id, agent: info.agent });
    }
    return { sessionId: sessionID, agent: own?.agent, parents: above, cwd: own?.directory ?? directory };
  }

  async function put(sessionID, call) {
    const who = await session(sessionID).catch(() => ({ sessionId: sessionID, cwd: directory }));
    const gate = call.gate === "calls" && (await mayAsk(call, who.agent)) ? "whole" : call.gate;
    return ask({ ...who, ...call, gate }, who.cwd);
  }

  /** Whether opencode itself may ask about a call of this agent, as far as its permissions say. Where nobody answers, it rejects. */
  async function mayAsk({ tool, input }, agent) {
    const agents = (await client.app.agents().catch(() => undefined))?.data ?? [];
    const rules = agents.find(({ name }) => name === agent)?.permission;
    if (!Array.isArray(rules)) return false;
    const about = rules.filter(({ permission }) => fits(tool, permission));
    if (about.findLast(({ pattern }) => pattern === "*")?.action === "ask") return true;
    const path = input?.filePath;
    const isAbout = (pattern) => tool !== "read" || typeof path !== "string" || fits(path, pattern) || fits(path, `*/${pattern}`);
    return about.some(({ pattern, action }) => action === "ask" && pattern !== "*" && isAbout(pattern));
  }

  /** Answers opencode's own question. Somebody else may have been first, which is as good. */
  async function reply(id, sessionID, answer, message) {
    if (answer === "reject") {
      // The only way that takes a message along, without which the agent's turn would end here.
      const route = { url: "/permission/{requestID}/reply", path: { requestID: id }, body: { reply: answer, message } };
      const sent = await client._client?.post({ ...route, headers: { "Content-Type": "application/json" } });
      if (sent?.response?.ok || sent?.response?.status === 404) return;
    }
    await client.postSessionIdPermissionsPermissionId({
      path: { id: sessionID, permissionID: id },
      body: { response: answer },
    });
  }

  /** The calls that a question may be about: the one that it names, or those that this one makes. */
  function callsOf(sessionID, callID, permission) {
    const key = keyOf(sessionID, callID);
    const inner = [...calls].filter(([of, { tool }]) => of.startsWith(`${key}/`) && tool === permission);
    if (inner.length > 0) return inner.map(([, call]) => call);
    const call = calls.get(key);
    return call ? [call] : [];
  }

  async function asked({ id, sessionID, permission, patterns, metadata, tool }) {
    const about = tool ? callsOf(sessionID, tool.callID, permission) : [];
    // A script asks for the calls that it makes, and was not allowed those by being allowed itself.
    const isScript = about.length === 1 && about[0].tool === "execute" && permission !== "execute";
    if (about.length > 0 && !isScript && about.every(({ approved }) => approved)) return reply(id, sessionID, "once");
    const call = about.length === 1 && !isScript ? about[0] : undefined;
    const question = { stop() {}, sessionID, owner, text: [permission, ...(patterns ?? [])].join(" ") };
    questions.set(id, question);
    const { stop, answer } = await put(sessionID, {
      tool: call?.tool ?? permission,
      input: call?.args ?? metadata ?? {},
      callId: tool?.callID,
      question: { permission, patterns },
      mcpServers: await servers(),
    });
    question.stop = stop;
    // Answered meanwhile.
    if (questions.get(id) !== question) stop();
    const { decision, reason } = await answer;
    if (questions.get(id) !== question) return;
    questions.delete(id);
    // Never "always": what was granted for longer is remembered where it can be taken back.
    await (decision === "allow" ? reply(id, sessionID, "once") : reply(id, sessionID, "reject", `${reason}${alsoRejected(sessionID)}`));
  }

  /** With one question of a session opencode rejects all of them, and tells the model nothing of why. */
  function alsoRejected(sessionID) {
    const others = [...questions.values()].filter((question) => question.sessionID === sessionID);
    if (others.length === 0) return "";
    const texts = others.map(({ text }) => text).join("; ");
    return `. opencode rejects with it whatever else it had asked about in this session, which nobody has decided: ${texts}. Ask for that again, one call at a time.`;
  }

  /** Names of the MCP servers, which opencode puts before the names of their tools. */
  async function servers() {
    const status = await client.mcp?.status?.().catch(() => undefined);
    return Object.keys(status?.data ?? {});
  }

  /** What opencode says that this call runs, whatever another plugin has handed on. */
  function toldOf(key) {
    if (told.has(key)) return Promise.resolve(told.get(key));
    return new Promise((resolve) => {
      const late = setTimeout(() => tell(undefined), TOLD_MS);
      const tell = (input) => {
        clearTimeout(late);
        waiting.delete(key);
        resolve(input);
      };
      waiting.set(key, tell);
    });
  }

  /** Takes back what is asked for a call or a question that is over. */
  function end(map, key) {
    const over = map.get(key);
    map.delete(key);
    over?.stop();
  }

  function endCall(key) {
    end(calls, key);
    told.delete(key);
    waiting.get(key)?.(undefined);
  }

  function endAll(isOver) {
    for (const [key, call] of calls) if (isOver(call)) endCall(key);
    for (const [id, question] of questions) if (isOver(question)) end(questions, id);
  }

  /** What keeps a call from running, or nothing. */
  async function refusal({ tool, sessionID, callID }, output) {
    const key = keyOf(sessionID, callID);
    // opencode's questions could not tell them apart.
    if (calls.has(key)) return `[askrelay] Not allowed: another call with the id ${callID} is not over yet. Make one call at a time.`;
    const call = { tool, args: output.args, sessionID, owner, stop() {}, approved: false };
    calls.set(key, call);
    seal(output.args);
    // What a script of code calls is told of nowhere.
    const parent = keyOf(sessionID, callID.split("/")[0]);
    const isOfScript = callID.includes("/") && calls.get(parent)?.tool === "execute";
    const input = isOfScript ? output.args : await toldOf(key);
    if (!isSame(input, output.args)) {
      endCall(key);
      return `[askrelay] Not allowed, for it is not certain what would run: ${
        input === undefined ? "opencode did not say so" : "another plugin, which comes before askrelay, puts another input in the place of this one"
      }. Tell the user to look at docs/opencode.md of askrelay, "What was asked about is what runs".`;
    }
    const asking = await put(sessionID, {
      tool,
      input: output.args,
      callId: callID,
      gate: asksAll ? "calls" : "asks",
      mcpServers: await servers(),
    });
    call.stop = asking.stop;
    // Ended before it was asked.
    if (calls.get(key) !== call) asking.stop();
    const { decision, reason } = await asking.answer;
    call.stop = () => {};
    call.approved = decision === "allow";
    if (decision !== "deny") return undefined;
    if (calls.get(key) === call) endCall(key);
    return reason;
  }

  return {
    async "tool.execute.before"(input, output) {
      // Another copy of this file is asked by the same opencode, with the same object.
      if (!answers.has(output)) answers.set(output, refusal(input, output));
      const reason = await answers.get(output);
      if (reason !== undefined) throw new Error(reason);
    },

    async "tool.execute.after"({ sessionID, callID }) {
      endCall(keyOf(sessionID, callID));
    },

    /** An agent that is started by a command finds out whose command it was. */
    async "shell.env"({ sessionID }, output) {
      if (sessionID) output.env.ASKRELAY_OPENCODE_SESSION = sessionID;
    },

    async event({ event: { type, properties } }) {
      if (type === "permission.asked") {
        if (seen.has(properties.id)) return;
        seen.add(properties.id);
        // What cannot be answered stays with opencode's own dialog, and is rejected where there is none.
        asked(properties).catch(() => end(questions, properties.id));
      } else if (type === "permission.replied") {
        end(questions, properties.requestID);
      } else if (type === "message.part.updated" && properties.part?.type === "tool") {
        const { id, sessionID, callID, state } = properties.part;
        // A subagent that is started by a command is called by the id of the part.
        for (const key of [keyOf(sessionID, callID), keyOf(sessionID, id)]) {
          if (state?.status === "error" || state?.status === "completed") {
            endCall(key);
          } else if (state?.status === "running" && !told.has(key)) {
            told.set(key, state.input);
            waiting.get(key)?.(state.input);
          }
        }
      } else if (type === "session.idle" || type === "session.error" || type === "session.deleted") {
        const sessionID = properties.sessionID ?? properties.info?.id;
        if (sessionID) endAll((held) => held.sessionID === sessionID);
      }
    },

    async dispose() {
      endAll((held) => held.owner === owner);
    },
  };
};
