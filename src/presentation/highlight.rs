//! What of a shown text is the thing that the ask is about.
//!
//! Only whole words are found: `/etc` does not light up within `/etcetera`, for that would say something that is not so. The
//! finder gives places; how they look is for those who draw. Nothing is ever left out of a text because of it.

use std::ops::Range;

use super::text;
use crate::wire::{PayloadKind, PromptPayload};

/// The flagged texts of an ask, visible, one line each: its value, or the paths outside where those are what the gate objects to.
pub fn flagged(payload: &PromptPayload) -> Vec<String> {
    let paths = payload
        .evidence
        .iter()
        .filter(|entry| entry.label == "external path")
        .map(|entry| entry.text.as_str());
    let texts: Vec<&str> = if payload.kind == PayloadKind::BashExternalDirectory {
        paths.collect()
    } else {
        vec![payload.request.value.as_str()]
    };
    texts
        .into_iter()
        .flat_map(text::lines)
        .filter(|line| !line.trim().is_empty())
        .collect()
}

/// Where `flagged` stands in `line` as whole words, in bytes, in order and apart from each other.
pub fn places(line: &str, flagged: &[String]) -> Vec<Range<usize>> {
    let mut places: Vec<Range<usize>> = flagged
        .iter()
        .flat_map(|word| {
            line.match_indices(word.as_str())
                .map(|(at, word)| at..at + word.len())
        })
        .filter(|place| {
            let before = line
                .get(..place.start)
                .and_then(|text| text.chars().next_back());
            let behind = line.get(place.end..).and_then(|text| text.chars().next());
            !before.is_some_and(is_word) && !behind.is_some_and(is_word)
        })
        .collect();
    places.sort_unstable_by_key(|place| (place.start, std::cmp::Reverse(place.end)));
    let mut end = 0;
    places.retain(|place| {
        let apart = place.start >= end;
        if apart {
            end = place.end;
        }
        apart
    });
    places
}

/// A character that words of a command line are made of.
fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '/' | '.' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Evidence, Requester};

    fn found<'a>(line: &'a str, flagged: &[&str]) -> Vec<&'a str> {
        let flagged: Vec<String> = flagged.iter().map(|&word| word.to_owned()).collect();
        places(line, &flagged)
            .into_iter()
            .map(|place| &line[place])
            .collect()
    }

    #[test]
    fn only_whole_words_are_found() {
        assert_eq!(
            found("cd srv && make deploy", &["make deploy"]),
            ["make deploy"]
        );
        assert_eq!(found("cat /etc/x /etcetera /etc", &["/etc"]), ["/etc"]);
        assert!(found("rm-x rm.x xrm rm_", &["rm"]).is_empty());
        assert_eq!(found("rm;rm", &["rm"]), ["rm", "rm"]);
        assert_eq!(found("a b c", &["a b", "b c", "b"]), ["a b"]);
        assert_eq!(found("«rm»", &["rm"]), ["rm"]);
        assert!(found("anything", &[]).is_empty());
    }

    #[test]
    fn the_value_is_flagged_or_the_paths_outside() {
        let requester = Requester {
            agent_name: None,
            forwarded: true,
            session_id: None,
        };
        let mut ask = PromptPayload::degraded(
            requester,
            Some("bash".to_owned()),
            Some("rm\u{202E} x\n\nls".to_owned()),
            None,
        );
        assert_eq!(flagged(&ask), ["rm<U+202E> x", "ls"]);
        ask.kind = PayloadKind::BashExternalDirectory;
        ask.evidence = vec![Evidence {
            label: "external path".to_owned(),
            text: "/etc".to_owned(),
            detail: None,
        }];
        assert_eq!(flagged(&ask), ["/etc"]);
    }
}
