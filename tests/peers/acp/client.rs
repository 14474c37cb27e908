//! A client that speaks ACP, as an editor does. It is never asked for permission, and fails where it is.

use std::process::Stdio;

use rustix::process::Pid;
use serde_json::{Value, json};

use super::{Scene, parsed};
use crate::support::{Process, until};

pub(super) struct Client {
    process: Process,
    next: u64,
    session: String,
    /// The request that the agent answers when its turn ends.
    turn: u64,
    /// Where the proxy writes what it tells whoever started it.
    told: std::path::PathBuf,
    /// Every line that came, and every one that went.
    pub(super) received: Vec<String>,
    pub(super) sent: Vec<String>,
}

impl Client {
    /// Starts the proxy and this agent behind it.
    pub(super) fn start(scene: &Scene, args: &[&str], agent: &[String]) -> Self {
        let told = scene.spool.home().join("told");
        let environment = scene.speaker.command(&scene.spool, &scene.model);
        let variables = environment
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        let mut run = scene.spool.askrelay("acp");
        run.args(["--session", "main"])
            .args(args)
            .arg("--")
            .args(agent)
            .current_dir(scene.spool.work())
            .envs(variables)
            .env("ASKRELAY_LOG", scene.spool.our_log_path("acp"))
            .stderr(Stdio::from(std::fs::File::create(&told).unwrap()));
        Self {
            process: Process::start_heard("askrelay acp", run),
            next: 1,
            session: String::new(),
            turn: 0,
            told,
            received: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Opens a session and has the agent begin its turn.
    pub(super) fn begin(&mut self) {
        let files = json!({ "readTextFile": false, "writeTextFile": false });
        let able = json!({ "protocolVersion": 1, "clientCapabilities": { "fs": files } });
        let greeting = self.request("initialize", &able);
        self.answer(greeting);
        let cwd = json!({ "cwd": self.work(), "mcpServers": [] });
        let opening = self.request("session/new", &cwd);
        let opened = self.answer(opening);
        let session = &opened["result"]["sessionId"];
        session
            .as_str()
            .unwrap_or_else(|| panic!("{opened}"))
            .clone_into(&mut self.session);
        let prompt = json!([{ "type": "text", "text": "do what there is to do" }]);
        self.turn = self.request(
            "session/prompt",
            &json!({ "sessionId": self.session, "prompt": prompt }),
        );
    }

    fn work(&self) -> String {
        let home = self.told.parent().unwrap();
        home.join("work").display().to_string()
    }

    /// The answer of the agent when its turn has ended.
    pub(super) fn turn(&mut self) -> Value {
        self.answer(self.turn)
    }

    pub(super) fn cancel(&mut self) {
        self.say(&json!({
            "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": self.session }
        }));
    }

    fn request(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn say(&mut self, message: &Value) {
        let line = message.to_string();
        self.process.say(&line);
        self.sent.push(line);
    }

    /// Reads until this request is answered. What the agent asks for meanwhile the client is not able to.
    fn answer(&mut self, id: u64) -> Value {
        loop {
            let line = self
                .line()
                .unwrap_or_else(|| panic!("the agent went: {}", self.heard()));
            let message = parsed(&line);
            match (message["method"].as_str(), message.get("id")) {
                (Some(method), Some(theirs)) => {
                    assert_ne!(method, "session/request_permission", "{message}");
                    let unable = json!({ "code": -32601, "message": "this client cannot" });
                    self.say(&json!({ "jsonrpc": "2.0", "id": theirs, "error": unable }));
                }
                (None, Some(ours)) if *ours == id => return message,
                _ => {}
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let line = self.process.next_line()?;
        self.received.push(line.clone());
        Some(line)
    }

    fn heard(&self) -> String {
        std::fs::read_to_string(&self.told).unwrap()
    }

    /// Waits until the proxy has told this to whoever started it.
    pub(super) fn has_heard(&self, what: &str) {
        until(&format!("{what:?} is told"), || self.heard().contains(what));
    }

    /// The process that the proxy has started.
    pub(super) fn agent(&self) -> Pid {
        let proxy = self.process.id().to_string();
        let processes = std::fs::read_dir("/proc").unwrap();
        let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let is_child = |id: &i32| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            // The name of the program may hold anything, and ends with the last bracket.
            let fields = stat.rsplit(')').next().unwrap_or_default();
            fields.split_whitespace().nth(1) == Some(&proxy)
        };
        ids.filter(is_child).find_map(Pid::from_raw).unwrap()
    }

    /// The client has nothing more to say.
    pub(super) fn hang_up(&mut self) {
        self.process.hang_up();
    }

    /// The code of the proxy, once all that it wrote is read.
    pub(super) fn code(&mut self) -> Option<i32> {
        while self.line().is_some() {}
        self.process.wait().code()
    }

    pub(super) fn kill(&mut self) {
        self.process.kill();
    }
}
