//! What was done to a prompt, for people and for programs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::super::output;
use super::making::Made;
use crate::identity::{CutAt, Directories, Excision, Identity, Kept, Shape, line_number};
use crate::presentation::text::visible;

/// Says on stderr what was recognised and what was cut.
pub(super) fn explain(prompt: &[u8], directories: &Directories<'_>, identity: &Identity<'_>) {
    for line in explained(prompt, directories, identity) {
        output::say(&line);
    }
}

fn explained(prompt: &[u8], directories: &Directories<'_>, identity: &Identity<'_>) -> Vec<String> {
    let parent = visible(&String::from_utf8_lossy(directories.parent)).into_owned();
    let Some(tail) = identity.tail else {
        return vec![
            format!(
                "anchor    none: no line states the working directory {parent}, and there is no catalogue of skills"
            ),
            "cut       nothing: the prompt is not one that the host assembled, or not that directory's".to_owned(),
            format!("bytes     {} of {}", identity.len(), prompt.len()),
        ];
    };
    let line = |at| line_number(prompt, at);
    let anchor = match tail.shape {
        Shape::Footer => format!("the footer that states {parent}"),
        Shape::Section => format!("the <cwd> section that states {parent}"),
        Shape::Unanchored => {
            "the end of a catalogue of skills, with no working directory".to_owned()
        }
    };
    let cut = match tail.cut_at {
        CutAt::Anchor => "there",
        CutAt::Catalogue => "the catalogue of skills",
        CutAt::Skills => "the section of skills",
        CutAt::ProjectContext => "the parent's project context, for the child works elsewhere",
    };
    let excised = match &identity.excision {
        Excision::Done(bytes) => format!(
            "lines {} to {}, <tools> and <rules>: {} bytes",
            line(bytes.start),
            line(bytes.end).saturating_sub(1),
            bytes.len()
        ),
        Excision::Kept(kept) => format!("nothing: {}", why(*kept)),
    };
    vec![
        format!(
            "anchor    {}, line {}: {anchor}",
            tail.shape.name(),
            line(tail.anchor)
        ),
        format!("cut       from line {} on: {cut}", line(tail.cut)),
        format!("excised   {excised}"),
        format!(
            "bytes     {} of {}, the first {} shared with the parent",
            identity.len(),
            prompt.len(),
            identity.shared
        ),
    ]
}

/// Why the tools and rules stay.
const fn why(kept: Kept) -> &'static str {
    match kept {
        Kept::NoTail => "nothing shows that the host assembled the prompt",
        Kept::OtherShape => "only a prompt of sections has tools and rules in sections",
        Kept::NoTools => "there is no <tools> above the cut",
        Kept::BelowTheBound => {
            "the first <tools> stands below a later section, so somebody quotes it"
        }
        Kept::ToolsOpen => "<tools> is not closed above the next section",
        Kept::Apart => "<tools> is not followed by one empty line and <rules>",
        Kept::RulesOpen => "<rules> is not closed above the next section",
    }
}

/// Says on stderr what a whole prompt was made of.
pub(super) fn explain_made(made: &Made) {
    let prompt = &made.prompt;
    output::say(&format!("agent     {}", visible(&made.agent)));
    for line in &prompt.headers {
        output::say(&format!(
            "header    at line {line} of the parent's prompt, its own: left out"
        ));
    }
    for path in &made.context {
        output::say(&format!("context   {}", visible(&path.to_string_lossy())));
    }
    output::say(&format!("prompt    {} bytes", prompt.text.len()));
}

/// What was done, as JSON.
pub(super) fn json(prompt: &[u8], identity: &Identity<'_>) -> Value {
    let mut object = facts(prompt, identity);
    put_text(&mut object, "identity", &identity.to_vec());
    Value::Object(object)
}

fn facts(prompt: &[u8], identity: &Identity<'_>) -> Map<String, Value> {
    let line = |at| line_number(prompt, at);
    let tail = identity.tail;
    let excised = match &identity.excision {
        Excision::Done(bytes) => json!({
            "fromLine": line(bytes.start),
            "toLine": line(bytes.end).saturating_sub(1),
            "bytes": bytes.len(),
        }),
        Excision::Kept(_) => Value::Null,
    };
    let kept = match &identity.excision {
        Excision::Done(_) => None,
        Excision::Kept(kept) => Some(kept.name()),
    };
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("shape", json!(tail.map(|tail| tail.shape.name())));
    put("anchorLine", json!(tail.map(|tail| line(tail.anchor))));
    put("cutLine", json!(tail.map(|tail| line(tail.cut))));
    put("cutAt", json!(tail.map(|tail| tail.cut_at.name())));
    put("excised", excised);
    put("notExcisedBecause", json!(kept));
    put("parentBytes", json!(prompt.len()));
    put("bytes", json!(identity.len()));
    put("sharedBytes", json!(identity.shared));
    put("trimmedBytes", json!(identity.trimmed));
    object
}

/// The whole prompt and what it was made of, as JSON.
pub(super) fn made_json(prompt: &[u8], identity: &Identity<'_>, made: &Made) -> Value {
    let inherited = if made.is_inherited {
        Value::Object(facts(prompt, identity))
    } else {
        Value::Null
    };
    let paths = made.context.iter().map(|path| path.to_string_lossy());
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("agentName", json!(made.agent));
    put("inherited", inherited);
    put("generic", json!(made.prompt.is_generic));
    put("headersLeftOut", json!(made.prompt.headers));
    put("tagsLeftOut", json!(made.prompt.tags));
    put("contextFiles", json!(paths.collect::<Vec<_>>()));
    put("bytes", json!(made.prompt.text.len()));
    put("sharedBytes", json!(made.prompt.shared));
    put_text(&mut object, "prompt", &made.prompt.text);
    Value::Object(object)
}

/// A text under its name; where it is none, its bytes under `<name>Base64`.
fn put_text(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).ok();
    object.insert(name.to_owned(), json!(text));
    if text.is_none() {
        object.insert(format!("{name}Base64"), json!(STANDARD.encode(bytes)));
    }
}
