//! A client of Codex's app server: what the terminal of Codex is, for a program. It is asked what a person would be asked.

use serde_json::{Value, json};

use crate::agents::Agent;
use crate::model::Model;
use crate::support::{Process, TempSpool};

pub(crate) struct AppServer {
    process: Process,
    next: u32,
    /// How often Codex asked its own person.
    pub(crate) asked: usize,
}

impl AppServer {
    pub(crate) fn start(spool: &TempSpool, model: &Model) -> Self {
        let run = Agent::Codex.app_server(spool, model);
        let mut server = Self {
            process: Process::start_quietly("codex app-server", run),
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
