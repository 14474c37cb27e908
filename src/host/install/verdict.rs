//! What the answer of a hook means to its host, as that was seen to take it: a tool is let through, held, or nothing is said.
//!
//! This is the reader's side, for proving that a hook works. What a hook writes is no matter of this file.

use serde_json::Value;

use super::Host;

/// What a host makes of the end of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Said {
    /// The tool may run.
    Allows,
    /// It may not, and the model is told why.
    Denies(String),
    /// The host asks its own person.
    Asks,
    /// Nothing: the host goes on as without the hook.
    Nothing,
    /// The host takes it for a hook that failed, and goes on as without it, where it was not told to block.
    Failed(String),
}

/// What a host makes of it that its hook for `event` ended with this code, and wrote that.
pub fn said(host: Host, event: &str, code: Option<i32>, stdout: &str, stderr: &str) -> Said {
    match code {
        Some(0) => {}
        Some(2) if event != "PermissionRequest" || host == Host::Codex => {
            return Said::Denies(stderr.trim().to_owned());
        }
        Some(code) => return Said::Failed(format!("it ended with code {code}")),
        None => return Said::Failed("it was ended by a signal".to_owned()),
    }
    let text = stdout.trim();
    if text.is_empty() {
        return Said::Nothing;
    }
    let Ok(answer) = serde_json::from_str::<Value>(text) else {
        return Said::Failed("it wrote something that is no JSON".to_owned());
    };
    let at = |path: &[&str]| {
        let mut value = &answer;
        for key in path {
            value = value.get(key)?;
        }
        value.as_str()
    };
    let (decision, reason) = match (host, event) {
        (Host::Gemini, _) => (at(&["decision"]), at(&["reason"])),
        (_, "PermissionRequest") => (
            at(&["hookSpecificOutput", "decision", "behavior"]),
            at(&["hookSpecificOutput", "decision", "message"]),
        ),
        (Host::Opencode | Host::Pi, _) => (at(&["decision"]), at(&["reason"])),
        (Host::ClaudeCode | Host::Codex, _) => (
            at(&["hookSpecificOutput", "permissionDecision"]),
            at(&["hookSpecificOutput", "permissionDecisionReason"]),
        ),
    };
    match decision {
        Some("allow") => Said::Allows,
        Some("deny" | "block") => Said::Denies(reason.unwrap_or_default().to_owned()),
        Some("ask" | "defer") if host == Host::Codex => {
            Said::Failed("it asked, which Codex does not know".to_owned())
        }
        Some("ask" | "defer") => Said::Asks,
        Some(other) => Said::Failed(format!(
            "it decided {other:?}, which the host does not know"
        )),
        None => Said::Nothing,
    }
}

impl Said {
    /// Whether the tool runs without anybody else having to agree.
    pub fn lets_run(&self, host: Host, event: &str) -> bool {
        match self {
            Self::Allows => true,
            // Before a tool, Codex knows no other yes than silence.
            Self::Nothing => host == Host::Codex && event == "PreToolUse",
            Self::Denies(_) | Self::Asks | Self::Failed(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_means_what_its_host_takes_it_for() {
        let pre = |decision: &str| {
            format!(
                "{{\"hookSpecificOutput\":{{\"hookEventName\":\"PreToolUse\",\"permissionDecision\":\"{decision}\",\"permissionDecisionReason\":\"no\"}}}}"
            )
        };
        let read = |host, event, code, stdout: &str| said(host, event, Some(code), stdout, "err\n");
        let claude = Host::ClaudeCode;
        assert_eq!(read(claude, "PreToolUse", 0, &pre("allow")), Said::Allows);
        assert_eq!(
            read(claude, "PreToolUse", 0, &pre("deny")),
            Said::Denies("no".into())
        );
        assert_eq!(read(claude, "PreToolUse", 0, &pre("ask")), Said::Asks);
        assert_eq!(
            read(claude, "PreToolUse", 2, ""),
            Said::Denies("err".into())
        );
        assert!(matches!(
            read(claude, "PermissionRequest", 2, ""),
            Said::Failed(_)
        ));
        assert!(matches!(read(claude, "PreToolUse", 1, ""), Said::Failed(_)));
        assert!(matches!(
            read(claude, "PreToolUse", 0, "hello"),
            Said::Failed(_)
        ));
        assert!(matches!(
            read(Host::Codex, "PreToolUse", 0, &pre("ask")),
            Said::Failed(_)
        ));
        let nothing = read(Host::Codex, "PreToolUse", 0, "");
        assert!(nothing.lets_run(Host::Codex, "PreToolUse"));
        assert!(!nothing.lets_run(claude, "PreToolUse"));
        let request = "{\"hookSpecificOutput\":{\"hookEventName\":\"PermissionRequest\",\"decision\":{\"behavior\":\"deny\",\"message\":\"no\"}}}";
        assert_eq!(
            read(Host::Codex, "PermissionRequest", 0, request),
            Said::Denies("no".into())
        );
        let gemini = "{\"decision\":\"deny\",\"reason\":\"no\"}";
        assert_eq!(
            read(Host::Gemini, "BeforeTool", 0, gemini),
            Said::Denies("no".into())
        );
        assert!(matches!(
            said(claude, "PreToolUse", None, "", ""),
            Said::Failed(_)
        ));
    }
}
