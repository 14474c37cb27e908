//! Command lines for a POSIX shell: words in, one line out, and back, as far as a line that we wrote needs it.

/// `words` as one line that a shell takes apart into them again.
pub fn command_line(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    quoted.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '+' | '@' | ':' | ',')
    };
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The words of a line without expansions; `None` where a shell would do more than split it, or its quotes are not closed.
pub(super) fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '$' | '`' => return None,
                        '\\' => word.push(chars.next()?),
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next()?),
            '$' | '`' | '|' | '&' | ';' | '<' | '>' | '(' | ')' | '\n' | '*' | '?' | '[' | '#'
            | '~' => {
                return None;
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_that_does_more_than_call_a_program_is_not_split() {
        for line in [
            "a; b",
            "a $(b)",
            "a && b",
            "a > b",
            "a '",
            "\"$HOME/a\" b",
            "# a",
        ] {
            assert_eq!(split(line), None, "{line}");
        }
        assert_eq!(split("\"a b\" c\\ d  ''").unwrap(), ["a b", "c d", ""]);
    }

    proptest! {
        #[test]
        fn words_come_back_from_their_line(words in proptest::collection::vec("[^\0]{0,8}", 0..5)) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            prop_assert_eq!(split(&command_line(&words)).unwrap(), words);
        }
    }
}
