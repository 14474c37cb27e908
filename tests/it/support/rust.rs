//! As much of Rust as it takes to see which paths a source file names.

/// Words and marks of a source text, without comments and literals. `::` is one mark.
pub(crate) fn tokens(source: &str) -> Vec<String> {
    let chars: Vec<char> = source.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    let word = |c: char| c.is_alphanumeric() || c == '_';
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        match (c, next) {
            ('/', Some('/')) => {
                while chars.get(at).is_some_and(|c| *c != '\n') {
                    at += 1;
                }
            }
            ('/', Some('*')) => {
                let mut depth = 0;
                while at < chars.len() {
                    match (chars[at], chars.get(at + 1)) {
                        ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
                        ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
                        _ => at += 1,
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
            ('"', _) => at = end_of_text(&chars, at),
            // A lifetime has no closing quote, a character has one behind its first character or escape.
            ('\'', Some('\\')) => {
                at += 3;
                while chars.get(at).is_some_and(|c| *c != '\'') {
                    at += 1;
                }
                at += 1;
            }
            ('\'', _) if chars.get(at + 2) == Some(&'\'') => at += 3,
            (':', Some(':')) => {
                tokens.push("::".to_owned());
                at += 2;
            }
            _ if word(c) => {
                let start = at;
                while chars.get(at).copied().is_some_and(word) {
                    at += 1;
                }
                let text: String = chars[start..at].iter().collect();
                match (text.as_str(), chars.get(at)) {
                    ("r" | "br" | "cr", Some('"' | '#'))
                        if end_of_raw_text(&chars, at).is_some() =>
                    {
                        at = end_of_raw_text(&chars, at).unwrap_or(chars.len());
                    }
                    // A word that is written raw is the word.
                    ("r", Some('#')) => at += 1,
                    ("b" | "c", Some('"')) => {}
                    _ => tokens.push(text),
                }
            }
            _ => {
                if !c.is_whitespace() {
                    tokens.push(c.to_string());
                }
                at += 1;
            }
        }
    }
    tokens
}

fn end_of_text(chars: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(c) = chars.get(at) {
        match c {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// Where a raw text ends whose hashes start at `at`; `None` where this is no raw text.
fn end_of_raw_text(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars.get(at..)?.iter().take_while(|c| **c == '#').count();
    let mut end = at + hashes;
    if chars.get(end) != Some(&'"') {
        return None;
    }
    loop {
        end += 1;
        let close = chars.get(end..=end + hashes)?;
        if close[0] == '"' && close[1..].iter().all(|c| *c == '#') {
            return Some(end + hashes + 1);
        }
    }
}

/// Whether the attribute that starts at `at` is exactly `#[cfg(test)]`.
fn is_cfg_test(tokens: &[String], at: usize) -> bool {
    let attribute = ["#", "[", "cfg", "(", "test", ")", "]"];
    tokens
        .get(at..at + attribute.len())
        .is_some_and(|found| found == attribute)
}

/// `tokens` without the inline modules that are compiled for tests only: a test may use more than the code beside it.
pub(crate) fn without_tests(tokens: &[String]) -> Vec<String> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        if is_cfg_test(tokens, at) {
            let item = end_of_attributes(tokens, at);
            if tokens.get(item).is_some_and(|word| word == "mod")
                && tokens.get(item + 2).is_some_and(|mark| mark == "{")
            {
                at = end_of_group(tokens, item + 2);
                continue;
            }
        }
        kept.push(tokens[at].clone());
        at += 1;
    }
    kept
}

fn end_of_attributes(tokens: &[String], mut at: usize) -> usize {
    while tokens.get(at).is_some_and(|mark| mark == "#") {
        at = end_of_group(tokens, at + 1);
    }
    at
}

/// Index behind the bracket that closes the one at `at`.
fn end_of_group(tokens: &[String], mut at: usize) -> usize {
    let mut depth = 0;
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "{" | "[" | "(" => depth += 1,
            "}" | "]" | ")" => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

/// Names of the modules that a file declares for tests only, as files of their own.
pub(crate) fn test_modules(tokens: &[String]) -> Vec<String> {
    (0..tokens.len())
        .filter(|at| is_cfg_test(tokens, *at))
        .filter_map(|at| {
            let item = end_of_attributes(tokens, at);
            let is_file = tokens.get(item)? == "mod" && tokens.get(item + 2)? == ";";
            is_file.then(|| tokens.get(item + 1).cloned()).flatten()
        })
        .collect()
}

/// Every path that the code names, those of `use` trees written out, as seen from `module`. The ones in inline modules are
/// seen from there.
pub(crate) fn paths(module: &[String], tokens: &[String]) -> Vec<(Vec<String>, Vec<String>)> {
    let mut paths = Vec::new();
    let mut module = module.to_vec();
    // One entry for each open brace: whether it is the body of a module.
    let mut braces = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let mut found = Vec::new();
        match tokens[at].as_str() {
            "use" => at = use_tree(tokens, at + 1, &[], &mut found),
            "extern" if tokens.get(at + 1).is_some_and(|word| word == "crate") => {
                found.extend(tokens.get(at + 2).map(|name| vec![name.clone()]));
                at += 3;
            }
            "mod" if tokens.get(at + 2).is_some_and(|mark| mark == "{") => {
                module.push(tokens[at + 1].clone());
                braces.push(true);
                at += 3;
            }
            "{" => {
                braces.push(false);
                at += 1;
            }
            "}" => {
                if braces.pop() == Some(true) {
                    module.pop();
                }
                at += 1;
            }
            _ if is_word(&tokens[at]) => {
                let mut path = vec![tokens[at].clone()];
                at += 1;
                while tokens.get(at).is_some_and(|mark| mark == "::")
                    && tokens.get(at + 1).is_some_and(|word| is_word(word))
                {
                    path.push(tokens[at + 1].clone());
                    at += 2;
                }
                // A lone word is a local name, never an import.
                if path.len() > 1 {
                    found.push(path);
                }
            }
            _ => at += 1,
        }
        paths.extend(found.into_iter().map(|path| (module.clone(), path)));
    }
    paths
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Writes out one `use` tree that starts at `at`; gives the index behind it.
fn use_tree(
    tokens: &[String],
    mut at: usize,
    prefix: &[String],
    paths: &mut Vec<Vec<String>>,
) -> usize {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|mark| mark != "}") {
                    at = use_tree(tokens, at, &path, paths);
                    if tokens.get(at).is_some_and(|mark| mark == ",") {
                        at += 1;
                    }
                }
                return at + 1;
            }
            "*" => {
                path.push("*".to_owned());
                at += 1;
            }
            "as" => at += 2,
            // `use a::b::{self}` names `a::b`.
            "self" if !path.is_empty() => at += 1,
            word if is_word(word) => {
                path.push(word.to_owned());
                at += 1;
            }
            _ => break,
        }
    }
    if !path.is_empty() {
        paths.push(path);
    }
    at
}
