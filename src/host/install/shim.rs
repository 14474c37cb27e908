//! Files of ours that are put into a host whole: the plugin of opencode and the extension of pi.
//!
//! There is nothing of anybody else in them, so they are written and removed as they are.

use super::Host;
use crate::host::shims;

/// How each of them begins.
const MARK: &str = "// askrelay for ";
/// What stands before the path of the program in it, which is a text of JSON.
const PROGRAM: &str = "const INSTALLED = ";

/// The file for a host that is gated by one, with the path of the program in it.
pub fn shim(host: Host, program: &str) -> Option<String> {
    match host {
        Host::Opencode => Some(shims::opencode(program)),
        Host::Pi => Some(shims::pi(program)),
        Host::ClaudeCode | Host::Codex | Host::Gemini => None,
    }
}

/// Whether a file is one of ours, of whatever version.
pub fn is_shim(text: &str) -> bool {
    text.starts_with(MARK)
}

/// The program that a file of ours starts.
pub fn program_of(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(PROGRAM))?;
    serde_json::from_str(line.strip_suffix(';')?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_ours_is_known_again_and_names_its_program() {
        for host in [Host::Opencode, Host::Pi] {
            let text = shim(host, "/opt/a \"b\"/askrelay").unwrap();
            assert!(is_shim(&text));
            assert_eq!(program_of(&text).as_deref(), Some("/opt/a \"b\"/askrelay"));
        }
        assert!(!is_shim("// mine\nexport const A = 1;\n"));
        assert_eq!(shim(Host::Codex, "askrelay"), None);
    }
}
