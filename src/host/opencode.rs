//! What the plugin of opencode says, and what it is told.
//!
//! The plugin is ours (`shims/opencode.js`), so it says what is wanted here in one JSON object:
//!
//! | member | |
//! |---|---|
//! | `sessionId` | the session that calls |
//! | `parents` | the sessions above it, outermost first, each with `sessionId` and `agent` |
//! | `agent` | the agent that calls |
//! | `tool`, `input`, `cwd` | the call |
//! | `mcpServers` | the names of the MCP servers, which opencode puts before the names of their tools |
//! | `gate` | `asks`: opencode asks by itself where its own permissions say so; `whole`: it would ask about this call, and nobody would answer; everything else: it asks nobody |
//! | `question` | there when opencode asks: its `permission` and `patterns` |

use std::path::PathBuf;

use serde_json::{Value, json};

use super::hook::{Asking, Gate, Input, Reach, Unusable, Verdict};
use super::{Subagent, ToolCall};
use crate::wire::Evidence;

/// Tools that only look at files.
const LOOKING: [&str; 4] = ["glob", "grep", "list", "read"];

/// Tools that touch nothing but the host's own state. What a subagent does is asked about by itself.
const OWN: [&str; 7] = [
    "invalid",
    "plan_enter",
    "plan_exit",
    "question",
    "task",
    "todoread",
    "todowrite",
];

/// What the plugin asks.
pub(super) fn read(input: &Value) -> Result<Input, Unusable> {
    let question = input.get("question");
    let gate = if question.is_some() {
        Gate::Permission
    } else {
        Gate::BeforeTool
    };
    let fields = Shim { input, gate };
    let mut call = fields.call()?;
    call.path_members = match call.tool.as_str() {
        "read" | "write" | "edit" | "multiedit" => &["filePath"],
        "glob" | "grep" | "list" => &["path"],
        _ => &[],
    };
    call.mcp_readings = of_servers(&call.tool, &texts(input.get("mcpServers")));
    if let Some((_, tool)) = call.mcp_readings.first() {
        let tool = tool.clone();
        call.spelled = Some(std::mem::replace(&mut call.tool, tool));
    }
    let own = fields.required("sessionId")?;
    let agent = fields.text("agent");
    let parents = input.get("parents").and_then(Value::as_array);
    let above: Vec<(&str, Option<&str>)> = parents
        .into_iter()
        .flatten()
        .filter_map(|parent| {
            let text = |name| parent.get(name).and_then(Value::as_str);
            Some((text("sessionId")?, text("agent")))
        })
        .collect();
    let (session, agent_name) = match above.split_first() {
        None => (own, agent),
        Some((&(root, root_agent), between)) => {
            let ids: Vec<&str> = between.iter().map(|(id, _)| *id).chain([own]).collect();
            call.agent = Some(Subagent {
                id: ids.join("."),
                kind: agent.unwrap_or("subagent").to_owned(),
            });
            (root, root_agent)
        }
    };
    if let Some(question) = question {
        call.evidence.extend(why(question));
    }
    let tool = call.tool.as_str();
    let is_own = call.mcp_readings.is_empty();
    let reach = match fields.text("gate") {
        _ if question.is_some() => Reach::All,
        Some("asks") => Reach::Rules,
        Some("whole") => Reach::All,
        _ if is_own && OWN.contains(&tool) => Reach::Rules,
        _ if is_own && LOOKING.contains(&tool) => Reach::RulesWithin,
        _ => Reach::All,
    };
    Ok(Input::Ask(Box::new(Asking {
        gate,
        session: session.to_owned(),
        agent_name: agent_name.map(str::to_owned),
        call,
        reach,
        suggestions: Vec::new(),
    })))
}

/// The servers and the tools that a name may mean which opencode made of both. Of two servers, the longer name says more.
fn of_servers(name: &str, servers: &[&str]) -> Vec<(String, String)> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let found = servers.iter().filter_map(|server| {
        let each = server.chars().map(|c| if plain(c) { c } else { '_' });
        let prefix: String = each.chain(['_']).collect();
        let tool = name.strip_prefix(&prefix).filter(|tool| !tool.is_empty())?;
        Some(((*server).to_owned(), tool.to_owned()))
    });
    let mut found: Vec<(String, String)> = found.collect();
    found.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    found.dedup();
    found
}

/// Why opencode asks.
fn why(question: &Value) -> Option<Evidence> {
    let permission = question.get("permission")?.as_str()?;
    let patterns = texts(question.get("patterns")).join("\n");
    Some(Evidence {
        label: "opencode asks".to_owned(),
        text: format!("{permission}\n{patterns}").trim().to_owned(),
        detail: None,
    })
}

fn texts(list: Option<&Value>) -> Vec<&str> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}

/// What a shim is told. It acts on an answer only, so there is always one.
pub(super) fn answer(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Allow { .. } => json!({"decision": "allow", "reason": null}),
        Verdict::Deny { reason, .. } => json!({"decision": "deny", "reason": reason}),
        Verdict::Leave => json!({"decision": "none", "reason": null}),
    }
}

/// The members that our shims spell alike.
pub(super) struct Shim<'a> {
    pub(super) input: &'a Value,
    pub(super) gate: Gate,
}

impl<'a> Shim<'a> {
    /// A text that may be missing; a blank one is.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        let text = self.input.get(name)?.as_str()?;
        Some(text).filter(|text| !text.trim().is_empty())
    }

    pub(super) fn required(&self, name: &str) -> Result<&'a str, Unusable> {
        self.text(name).ok_or_else(|| Unusable {
            reason: format!("the input has no text under \"{name}\""),
            gate: Some(self.gate),
        })
    }

    pub(super) fn call(&self) -> Result<ToolCall, Unusable> {
        let tool = self.required("tool")?;
        let input = self.input.get("input").cloned().unwrap_or(Value::Null);
        let cwd = self.text("cwd").map(PathBuf::from).unwrap_or_default();
        Ok(ToolCall::new(tool, input, cwd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(input: &Value) -> Asking {
        match read(input).unwrap() {
            Input::Ask(asking) => *asking,
            other @ (Input::Ended(_) | Input::Nothing) => panic!("{other:?}"),
        }
    }

    fn call(tool: &str, more: &Value) -> Value {
        let mut whole = json!({"sessionId": "ses_1", "agent": "build", "tool": tool, "input": {}, "cwd": "/w", "gate": "calls"});
        let members = whole.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        whole
    }

    #[test]
    fn a_call_is_put_before_somebody_unless_it_only_looks_or_opencode_asks() {
        for (tool, more, reach) in [
            ("bash", json!({}), Reach::All),
            ("nobody_knows", json!({}), Reach::All),
            ("read", json!({}), Reach::RulesWithin),
            ("todowrite", json!({}), Reach::Rules),
            ("task", json!({}), Reach::Rules),
            ("bash", json!({"gate": "asks"}), Reach::Rules),
            ("bash", json!({"gate": "nobody knows"}), Reach::All),
            ("read", json!({"gate": "whole"}), Reach::All),
            (
                "bash",
                json!({"gate": "asks", "question": {"permission": "bash", "patterns": []}}),
                Reach::All,
            ),
            ("x_read", json!({"mcpServers": ["x"]}), Reach::All),
        ] {
            let asking = asking(&call(tool, &more));
            assert_eq!(asking.reach, reach, "{tool} {more}");
        }
    }

    #[test]
    fn a_subagent_is_named_below_the_session_that_a_person_started() {
        let root = asking(&call("bash", &json!({})));
        assert_eq!(
            (root.session.as_str(), root.agent_name.as_deref()),
            ("ses_1", Some("build"))
        );
        assert_eq!(root.call.agent, None);
        let parents = json!([{"sessionId": "ses_a", "agent": "plan"}, {"sessionId": "ses_b", "agent": "general"}]);
        let child = asking(&call(
            "bash",
            &json!({"agent": "explore", "parents": parents}),
        ));
        assert_eq!(
            (child.session.as_str(), child.agent_name.as_deref()),
            ("ses_a", Some("plan"))
        );
        let agent = child.call.agent.unwrap();
        assert_eq!(
            (agent.id.as_str(), agent.kind.as_str()),
            ("ses_b.ses_1", "explore")
        );
    }

    #[test]
    fn a_tool_of_a_server_is_known_by_both_names() {
        let servers = json!({"mcpServers": ["tick.ets", "other"]});
        let call = asking(&call("tick_ets_close", &servers)).call;
        assert_eq!(call.asked().value, "tick.ets:close");
        assert_eq!(call.spelled.as_deref(), Some("tick_ets_close"));
        assert_eq!(call.floor(), None);
        for (name, servers) in [
            ("tick_", vec!["tick"]),
            ("ticket", vec!["tick"]),
            ("bash", vec![]),
        ] {
            assert_eq!(of_servers(name, &servers), [], "{name}");
        }
    }

    #[test]
    fn a_name_that_two_servers_may_have_is_held_against_rules_for_both_and_asked() {
        let servers = json!({"mcpServers": ["tick", "tick_ets"]});
        let call = asking(&call("tick_ets_wipe", &servers)).call;
        let asked = call.asked();
        assert_eq!(asked.value, "tick_ets:wipe");
        let guards = call.guards(&asked, |_| false);
        let guards: Vec<(&str, &str)> = guards
            .iter()
            .map(|guard| (guard.surface.as_str(), guard.value.as_str()))
            .collect();
        assert_eq!(
            guards,
            [
                ("wipe", "tick_ets:wipe"),
                ("tick_ets_wipe", "tick_ets:wipe"),
                ("mcp", "tick:ets_wipe")
            ]
        );
        assert_eq!(call.floor(), Some("<server-unclear>"));
    }

    #[test]
    fn a_question_says_why_opencode_asks() {
        let question = json!({"question": {"permission": "external_directory", "patterns": ["/etc/*", "/srv/*"]}});
        let asking = asking(&call("read", &question));
        assert_eq!(asking.gate, Gate::Permission);
        assert_eq!(
            asking.call.evidence[0].text,
            "external_directory\n/etc/*\n/srv/*"
        );
    }

    #[test]
    fn what_is_no_call_is_unusable_and_never_nothing() {
        for input in [
            json!(null),
            json!([]),
            json!({}),
            json!({"sessionId": "S"}),
            json!({"tool": "bash"}),
            json!({"sessionId": "S", "tool": 7}),
            json!({"sessionId": " ", "tool": "bash"}),
        ] {
            assert!(read(&input).is_err(), "{input}");
        }
    }

    #[test]
    fn there_is_always_an_answer() {
        let denied = Verdict::Deny {
            reason: "no".to_owned(),
            stops: false,
        };
        assert_eq!(answer(&denied), json!({"decision": "deny", "reason": "no"}));
        assert_eq!(answer(&Verdict::Leave)["decision"], "none");
        let allowed = Verdict::Allow {
            because: "x".to_owned(),
            remember: Vec::new(),
        };
        assert_eq!(answer(&allowed)["decision"], "allow");
    }
}
