// askrelay for opencode: puts what the agent wants to do to the session that is in charge, and keeps opencode to the answer.
//
// One file without dependencies. `askrelay install opencode` writes it, with the place of the program in it; changes made here are
// lost with the next install. docs/opencode.md of askrelay says what it does and why.
//
// Every call of a tool passes "tool.execute.before". There askrelay's rules are asked: what they deny does not run, what they allow
// opencode does not ask about either. What no rule is about is opencode's own matter, and where opencode asks somebody
// ("permission.asked"), askrelay is asked as well, beside the dialog: the first answer counts, and the other question is taken back.
// With `opencode run` nobody could answer opencode, so there every call is put to askrelay whole.
//
// Nothing here decides, and nothing here waits for ever on a program that is gone: no answer is a refusal that says what to do.
import { spawn } from "node:child_process";

const INSTALLED = "askrelay";

const PROGRAM = process.env.ASKRELAY_BIN || INSTALLED;
/** More than any answer, and than anybody reads of what a program had to complain about. */
const MOST = 1 << 20;
const HEADLESS = ["run", "github"];

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

export const Askrelay = async ({ client, directory }, options) => {
  const wanted = options?.gate ?? process.env.ASKRELAY_OPENCODE_GATE;
  const asksAll = wanted ? wanted !== "asks" : HEADLESS.includes(process.argv[2]);
  /** Calls between their start and their end, by session and call. */
  const calls = new Map();
  /** Questions of opencode that are put to askrelay as well, by their id. */
  const questions = new Map();
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
    return ask({ ...who, ...call }, who.cwd);
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

  async function asked({ id, sessionID, permission, patterns, metadata, tool }) {
    const call = tool && calls.get(keyOf(sessionID, tool.callID));
    if (call?.approved && !call.doubtful) return reply(id, sessionID, "once");
    const question = { stop() {}, sessionID };
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
    await (decision === "allow" ? reply(id, sessionID, "once") : reply(id, sessionID, "reject", reason));
  }

  /** Names of the MCP servers, which opencode puts before the names of their tools. */
  async function servers() {
    const status = await client.mcp?.status?.().catch(() => undefined);
    return Object.keys(status?.data ?? {});
  }

  /** Takes back what is asked for a call or a question that is over. */
  function end(map, key) {
    const over = map.get(key);
    map.delete(key);
    over?.stop();
  }

  function endAll(sessionID) {
    for (const map of [calls, questions])
      for (const [key, held] of map) if (!sessionID || held.sessionID === sessionID) end(map, key);
  }

  return {
    async "tool.execute.before"({ tool, sessionID, callID }, output) {
      const key = keyOf(sessionID, callID);
      const call = { tool, args: output.args, sessionID, stop() {}, approved: false, doubtful: calls.has(key) };
      // Two calls under one id cannot be told apart by opencode's questions.
      if (call.doubtful) calls.get(key).doubtful = true;
      calls.set(key, call);
      seal(output.args);
      const asking = await put(sessionID, {
        tool,
        input: output.args,
        callId: callID,
        gate: asksAll ? "calls" : "asks",
        mcpServers: await servers(),
      });
      call.stop = asking.stop;
      // Ended before it was asked.
      if (calls.get(key) !== call && !call.doubtful) asking.stop();
      const { decision, reason } = await asking.answer;
      call.stop = () => {};
      call.approved = decision === "allow";
      if (decision === "deny") throw new Error(reason);
    },

    async "tool.execute.after"({ sessionID, callID }) {
      end(calls, keyOf(sessionID, callID));
    },

    /** An agent that is started by a command finds out whose command it was. */
    async "shell.env"({ sessionID }, output) {
      if (sessionID) output.env.ASKRELAY_OPENCODE_SESSION = sessionID;
    },

    async event({ event: { type, properties } }) {
      if (type === "permission.asked") {
        // What cannot be answered stays with opencode's own dialog, and is rejected where there is none.
        asked(properties).catch(() => end(questions, properties.id));
      } else if (type === "permission.replied") {
        end(questions, properties.requestID);
      } else if (type === "message.part.updated" && properties.part?.type === "tool") {
        const { sessionID, callID, state } = properties.part;
        if (state?.status === "error" || state?.status === "completed") end(calls, keyOf(sessionID, callID));
      } else if (type === "session.idle" || type === "session.error" || type === "session.deleted") {
        const sessionID = properties.sessionID ?? properties.info?.id;
        if (sessionID) endAll(sessionID);
      }
    },

    async dispose() {
      endAll();
    },
  };
};
