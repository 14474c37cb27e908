//! Names that tell that what they name is a secret.

/// Whether a key tells that its value is a secret, by the peer's rules: a telling word anywhere, `key` or `keys` as a word of
/// its own, or `Key` or `Keys` as the last word of a camel-case name.
pub fn is_telling(key: &str) -> bool {
    first_telling(key.as_bytes()).is_some()
}

/// Where the first telling word begins.
pub(super) fn first_telling(bytes: &[u8]) -> Option<usize> {
    (0..bytes.len()).find(|at| {
        let (before, rest) = bytes.split_at(*at);
        let Some(first) = rest.first() else {
            return false;
        };
        match first.to_ascii_lowercase() {
            b'a' => begins(rest, "authorization") || begins_joined(rest, "api", "key"),
            b'c' => begins(rest, "credential") || begins(rest, "cookie"),
            b'p' => {
                begins(rest, "password")
                    || begins(rest, "passwd")
                    || begins_joined(rest, "private", "key")
            }
            b's' => begins(rest, "secret"),
            b't' => begins(rest, "token"),
            b'k' => begins(rest, "key") && is_key_word(before, rest),
            _ => false,
        }
    })
}

/// Whether the `key` at the start of `rest` is a word of its own behind `before`.
fn is_key_word(before: &[u8], rest: &[u8]) -> bool {
    let Some(behind) = rest.get(3..) else {
        return false;
    };
    let behind = behind
        .strip_prefix(b"s")
        .or(behind.strip_prefix(b"S"))
        .unwrap_or(behind);
    let bounded = matches!(before.last(), None | Some(b'-' | b'_'))
        && matches!(behind.first(), None | Some(b'-' | b'_'));
    let camel_tail = matches!(rest, b"Key" | b"Keys")
        && before
            .last()
            .is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    bounded || camel_tail
}

pub(super) fn begins(text: &[u8], word: &str) -> bool {
    text.get(..word.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
}

/// Two words, with at most one `-` or `_` between them.
fn begins_joined(text: &[u8], first: &str, second: &str) -> bool {
    if !begins(text, first) {
        return false;
    }
    let rest = text.get(first.len()..).unwrap_or_default();
    let joint = rest.strip_prefix(b"-").or(rest.strip_prefix(b"_"));
    begins(joint.unwrap_or(rest), second)
}

/// Last words of names that tell of a secret on a command line, and of nothing in a log.
const SHORT: [&str; 5] = ["pass", "pwd", "passphrase", "passcode", "sshpass"];

/// What a name is that stands before a value on a command line, when it is made of several.
const JOINTS: [char; 8] = ['.', '[', ']', ':', '/', '@', '%', '+'];

/// Whether a name on a command line tells that its value is a secret.
pub(super) fn names_a_secret(name: &str) -> bool {
    name.split(JOINTS).any(|part| {
        let mut words = part.trim_matches(['-', '_']).rsplit(['-', '_']);
        let last = words.next().unwrap_or_default();
        let short = SHORT.iter().any(|word| last.eq_ignore_ascii_case(word));
        short || is_telling(part)
    })
}

/// Whether a variable of this name holds a secret. `PWD` is the working directory.
pub(super) fn is_variable_for_a_secret(name: &str) -> bool {
    name != "PWD" && names_a_secret(name)
}

/// Whether a character may stand in a name before a value.
pub(super) fn is_of_a_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_-".contains(character) || JOINTS.contains(&character)
}

/// Ends of names of options that say where a secret is, and not what it is; and beginnings of those that take no value.
const WHERE: [&str; 7] = ["file", "path", "dir", "jar", "stdin", "name", "prompt"];
const WHETHER: [&str; 8] = [
    "no-", "ask-", "show-", "with-", "without-", "use-", "enable-", "disable-",
];

/// Whether an option of this name, without its dashes, has a secret for a value.
pub(super) fn is_option_for_a_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    name.chars().all(is_of_a_name)
        && names_a_secret(name)
        && !WHERE.iter().any(|end| lower.ends_with(end))
        && !WHETHER.iter().any(|start| lower.starts_with(start))
}

/// Whether a header of this name authenticates, whatever stands around it.
pub(super) fn is_telling_header(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let known = matches!(
        lower.as_str(),
        "apikey" | "api-key" | "private-token" | "job-token" | "access-token" | "auth-token"
    );
    known
        || lower.contains("authorization")
        || lower.contains("cookie")
        || lower.contains("x-") && names_a_secret(&lower)
}

/// Ways to authenticate, which stand before what authenticates.
const SCHEMES: [&str; 7] = [
    "basic",
    "bearer",
    "digest",
    "negotiate",
    "token",
    "apikey",
    "aws4-hmac-sha256",
];

/// How many bytes at the start of a header's value are blanks and the name of a way to authenticate.
pub(super) fn scheme(value: &str) -> usize {
    let start = value.len() - value.trim_start_matches([' ', '\t']).len();
    let rest = value.get(start..).unwrap_or_default();
    let word = rest.split([' ', '\t']).next().unwrap_or_default();
    let behind = rest.get(word.len()..).unwrap_or_default();
    let blanks = behind.len() - behind.trim_start_matches([' ', '\t']).len();
    if blanks > 0
        && SCHEMES
            .iter()
            .any(|scheme| word.eq_ignore_ascii_case(scheme))
    {
        start + word.len() + blanks
    } else {
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_telling_by_the_peers_rules() {
        for key in [
            "authorization",
            "Proxy-Authorization",
            "apikey",
            "apiKey",
            "API_KEY",
            "api-keys",
            "secret",
            "clientSecrets",
            "token",
            "access_tokens",
            "tokenCount",
            "secretary",
            "password",
            "userPasswords",
            "passwd",
            "credential",
            "credentials",
            "Set-Cookie",
            "cookies",
            "privatekey",
            "private_key",
            "private-keys",
            "key",
            "KEYS",
            "x-key",
            "key_id",
            "ssh-keys-dir",
            "servingKey",
            "publicKeys",
            "md5Key",
        ] {
            assert!(is_telling(key), "{key}");
        }
        for key in [
            "",
            "k",
            "keyboard",
            "monkey",
            "turkeys",
            "hotKeyMap",
            "KEYnote",
            "aKeyed",
            "ABKey",
            "apiXkey",
            "api",
            "private",
            "pass",
            "requestId",
            "decidedBy",
            "matchedPattern",
            "toolInputPreview",
            "ключ",
        ] {
            assert!(!is_telling(key), "{key}");
        }
    }

    #[test]
    fn on_a_command_line_more_names_are_telling() {
        for name in [
            "TOKEN",
            "DB_PASS",
            "MYSQL_PWD",
            "SSHPASS",
            "passphrase",
            "--db-pass",
            "cfg[token]",
            "spring.datasource.password",
            "TOKENS[0]",
            "auth.key",
            "/p:Password",
            "pwd",
            "Pwd",
            "PWD",
        ] {
            assert!(names_a_secret(name), "{name}");
        }
        for name in [
            "OLDPWD", "BYPASS", "passed", "PATH", "compass", "monkey", "",
        ] {
            assert!(!names_a_secret(name), "{name}");
        }
        assert!(!is_variable_for_a_secret("PWD"));
        assert!(is_variable_for_a_secret("pwd"));
        for name in [
            "password",
            "token",
            "api-key",
            "db_pass",
            "passphrase",
            "pwd",
        ] {
            assert!(is_option_for_a_secret(name), "{name}");
        }
        for name in [
            "password-file",
            "key-path",
            "cookie-jar",
            "password-stdin",
            "secret-name",
            "no-password",
            "ask-vault-pass",
            "show-token",
            "verbose",
        ] {
            assert!(!is_option_for_a_secret(name), "{name}");
        }
    }

    #[test]
    fn the_way_to_authenticate_is_no_secret() {
        for (value, shown) in [
            (" Bearer abc", 8),
            ("Basic  abc", 7),
            (" bearer", 1),
            ("abc def", 0),
            ("", 0),
            ("  ", 2),
            (" Token x y", 7),
        ] {
            assert_eq!(scheme(value), shown, "{value:?}");
        }
    }
}
