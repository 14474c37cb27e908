//! Asks that hide what they do: where the dangerous part is to be seen.

use ratatui::crossterm::event::KeyCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::tests::{at, control, draw, entry, open, payload, press, rows_of, shown};

#[derive(Deserialize)]
struct Corpus {
    what: String,
    asks: Vec<Hostile>,
}

/// An ask with something that a person must not miss.
#[derive(Deserialize)]
struct Hostile {
    what: String,
    value: Text,
    #[serde(default)]
    surface: Option<String>,
    #[serde(default)]
    agent: Option<Text>,
    #[serde(default)]
    rule: Option<String>,
    #[serde(default)]
    evidence: Vec<(String, Text)>,
    /// What must not be missed, as it is shown.
    danger: String,
    /// Where it is on a screen of 80 columns and 24 rows.
    shown: Place,
}

#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Place {
    /// On the first screen.
    Here,
    /// Behind the mark of a cut, with the key to it in sight.
    Marked,
}

/// A text, or the parts that make it, repeated.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Whole(String),
    Parts(Vec<PartOfText>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PartOfText {
    Once(String),
    Times(String, usize),
}

impl Text {
    fn text(&self) -> String {
        let part = |part: &PartOfText| match part {
            PartOfText::Once(text) => text.clone(),
            PartOfText::Times(text, times) => text.repeat(*times),
        };
        match self {
            Self::Whole(text) => text.clone(),
            Self::Parts(parts) => parts.iter().map(part).collect(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the corpus is files")]
fn corpus() -> Vec<(String, Hostile)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/adversarial");
    let mut asks = Vec::new();
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        let corpus: Corpus = serde_json::from_slice(&std::fs::read(&path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let named = |ask: Hostile| (format!("{}: {}", corpus.what, ask.what), ask);
        asks.extend(corpus.asks.into_iter().map(named));
    }
    asks
}

fn build(ask: &Hostile) -> crate::serve::Shown {
    let surface = ask.surface.as_deref().unwrap_or("bash");
    let (kind, tool) = match surface {
        "bash" => ("bash", "bash"),
        "mcp" => ("mcp", "mcp"),
        "external_directory_read" => ("external_directory", "read"),
        _ => ("path", "write"),
    };
    let evidence: Vec<Value> = ask
        .evidence
        .iter()
        .map(|(label, text)| entry(label, &text.text()))
        .collect();
    let mut payload = payload(
        kind,
        surface,
        Some(tool),
        &ask.value.text(),
        &json!(evidence),
    );
    if let Some(rule) = &ask.rule {
        payload["request"]["matchedPattern"] = rule.as_str().into();
    }
    let mut shown = shown(&payload, &json!([]));
    if let Some(agent) = &ask.agent {
        shown.request.requester_agent_name = agent.text();
    }
    shown
}

/// Content of a screen without gaps: what is wrapped reads on.
fn content(rows: &[String]) -> String {
    let content = rows.iter().filter_map(|row| row.strip_prefix('│'));
    content
        .flat_map(str::chars)
        .filter(|c| !c.is_whitespace())
        .collect()
}

#[test]
fn everything_holds_the_dangerous_part() {
    for (name, ask) in &corpus() {
        let mut dialog = open(build(ask));
        let _drawn = draw(&mut dialog, (80, 24), at(0));
        assert!(control(&mut dialog, 'o', 1_000).is_empty());
        let danger: String = ask.danger.split_whitespace().collect();
        // Rows without their bars, one after the other: what is broken for want of room reads on.
        let mut all = String::new();
        let mut page = String::new();
        for step in 2..100_000 {
            let rows = rows_of(&draw(&mut dialog, (200, 60), at(step * 1_000)));
            let body = rows[1..rows.len() - 1].iter();
            let text = body.flat_map(|row| {
                row.split_once(['│', '┊'])
                    .map_or(row.as_str(), |(_, text)| text)
                    .chars()
            });
            let next: String = text.filter(|c| !c.is_whitespace()).collect();
            if rows[0] == page {
                break;
            }
            all.push_str(&next);
            if all.contains(&danger) {
                break;
            }
            page.clone_from(&rows[0]);
            let _moved = press(&mut dialog, KeyCode::PageDown, step * 1_000 + 500);
        }
        assert!(all.contains(&danger), "{name}: {all}");
    }
}

#[test]
fn the_dangerous_part_is_on_the_first_screen_or_the_mark_and_the_key_to_it_are() {
    let corpus = corpus();
    assert!(corpus.len() >= 100, "{}", corpus.len());
    let mut wrong = Vec::new();
    for (name, ask) in &corpus {
        let danger: String = ask.danger.split_whitespace().collect();
        for size in [(80, 24), (40, 10)] {
            let mut dialog = open(build(ask));
            let rows = rows_of(&draw(&mut dialog, size, at(0)));
            let here = content(&rows).contains(&danger);
            let marked = rows.iter().any(|row| row.starts_with("… ^O"));
            if !here && !marked {
                wrong.push(format!("{name}, at {size:?}: neither\n{}", rows.join("\n")));
            }
            let place = if here { Place::Here } else { Place::Marked };
            if size == (80, 24) && place != ask.shown {
                wrong.push(format!("{name}: it is {place:?}\n{}", rows.join("\n")));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
}
