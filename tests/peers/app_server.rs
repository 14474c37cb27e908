//! A client of Codex's app server: what the terminal of Codex is, for a program. It is asked what a person would be asked.

use serde_json::{Value, json};

use crate::agents::{Agent, Hook};
use crate::model::Model;
use crate::support::{Process, TempSpool};

pub(crate) struct AppServer {
    process: Process,
    next: u32,
    /// How often Codex asked its own person.
    pub(crate) asked: usize,
}

impl AppServer {
    /// Starts it with the hook, which is trusted as a person does it who has looked at it.
    pub(crate) fn start(spool: &TempSpool, model: &Model, hook: &Hook) -> Self {
        Agent::Codex.configure(spool, model, hook);
        let mut first = Self::connect(spool, model);
        let list = first.call("hooks/list", &json!({ "cwds": [spool.work()] }));
        drop(first);
        let known = list["data"][0]["hooks"].as_array().unwrap().iter();
        let trusted: Vec<String> = known
            .map(|hook| {
                let (key, hash) = (&hook["key"], &hook["currentHash"]);
                format!("[hooks.state.{key}]\ntrusted_hash = {hash}\n")
            })
            .collect();
        spool.append("codex/config.toml", &trusted.concat());
        Self::connect(spool, model)
    }

    fn connect(spool: &TempSpool, model: &Model) -> Self {
        let process =
            Process::start_quietly("codex app-server", Agent::Codex.app_server(spool, model));
        let mut server = Self {
            process,
            next: 1,
            asked: 0,
        };
        let client = json!({ "clientInfo": { "name": "askrelay-tests", "version": "0" } });
        server.call("initialize", &client);
        server.say(&json!({ "method": "initialized" }));
        server
    }

    fn say(&mut self, message: &Value) {
        self.process.say(&message.to_string());
    }

    /// The result of a request.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next;
        self.next += 1;
        self.say(&json!({ "id": id, "method": method, "params": params }));
        loop {
            let message = self.message();
            if message["id"] == id && message.get("method").is_none() {
                return message["result"].clone();
            }
        }
    }

    /// The next message. Who asks gets a no.
    fn message(&mut self) -> Value {
        let message = self.process.json();
        if let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) {
            if method.ends_with("requestApproval") {
                self.asked += 1;
            }
            let no = json!({ "id": id, "result": { "decision": "decline" } });
            self.say(&no);
        }
        message
    }

    /// One turn to its end, in which the person is asked before anything is written.
    pub(crate) fn turn(&mut self, spool: &TempSpool) {
        let start =
            json!({ "cwd": spool.work(), "approvalPolicy": "on-request", "sandbox": "read-only" });
        let started = self.call("thread/start", &start);
        let input = json!([{ "type": "text", "text": "do what there is to do" }]);
        let turn = json!({ "threadId": started["thread"]["id"], "input": input });
        self.call("turn/start", &turn);
        while self.message()["method"] != "turn/completed" {}
    }
}
