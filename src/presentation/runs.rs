//! What a command line would really run, for the person who decides.
//!
//! The serving session works it out by itself, from the text that would be run, whoever asks: what the asker says about its own
//! command is shown beside it, and never instead of it. Only what a look at the line does not show is said again: what stands in
//! wrappers, substitutions and shells, what runs on another machine, what is hidden, and, where the line is long, each command in
//! it.
//!
//! It explains and decides nothing; what policy makes of the same units is no matter of this module.
//!
//! Invariants: a line that is one plain command adds nothing; a command that hides something is never among those that are left
//! out for want of room; what stands in brackets is our wording.

use super::dialog::{Fact, value_label};
use super::text;
use crate::shell::{self, Floor, Reading, Unit};
use crate::wire::{CommandContext, PromptPayload};

/// Most commands that are listed of one line.
const MAX_LISTED: usize = 12;

/// A line of this many bytes, or with this many blanks in a row, can hide one of its commands from a quick look.
const LONG_BYTES: usize = 160;
const LONG_BLANK: &str = "        ";

/// Evidence in which a gate puts the whole line when it asks about one command of it.
const FULL_COMMAND: &str = "full command";

/// One command that a line would run, and what there is to know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The command as the shell that runs it reads it; empty where something is said about the whole line.
    pub text: String,
    /// How it comes to run, and what it hides, in a few words of ours.
    pub how: String,
    /// Whether something is hidden.
    pub hides: bool,
}

/// The commands of a line that a look at it does not show, in the order of the line.
pub fn units_worth_showing(line: &str) -> Vec<Run> {
    let reading = shell::read(line);
    if reading.is_one_plain_command(line) && !line.contains(LONG_BLANK) {
        return Vec::new();
    }
    let is_long = line.len() > LONG_BYTES || line.contains(LONG_BLANK) || line.contains('\t');
    let mut shown: Vec<&Unit<'_>> = reading
        .units
        .iter()
        .filter(|unit| is_long && !hands_on(&reading, unit) || weight(&reading, unit) > 0)
        .collect();
    let all = shown.len();
    if all > MAX_LISTED {
        let mut weights: Vec<u8> = shown.iter().map(|unit| weight(&reading, unit)).collect();
        weights.sort_unstable_by(|one, other| other.cmp(one));
        let least = weights.get(MAX_LISTED).copied().unwrap_or_default();
        // Those that weigh more stay, and of the others the first ones.
        let mut room =
            MAX_LISTED.saturating_sub(weights.iter().filter(|weight| **weight > least).count());
        shown.retain(|unit| {
            let weight = weight(&reading, unit);
            let stays = weight > least || weight == least && room > 0;
            room = room.saturating_sub(usize::from(weight == least));
            stays
        });
    }
    let mut runs: Vec<Run> = shown
        .into_iter()
        .map(|unit| Run {
            text: squeezed(with_redirections(&reading, unit)),
            how: how(unit),
            hides: floor_of(unit).is_some(),
        })
        .collect();
    if all > MAX_LISTED {
        runs.push(about_the_line("more commands than are listed here"));
    }
    if let Some(floor) = reading.floor {
        runs.push(about_the_line(explained(floor)));
    }
    runs
}

/// The same as core facts of a prompt, without what the value says itself.
pub(super) fn facts(payload: &PromptPayload) -> Vec<Fact> {
    let request = &payload.request;
    if value_label(payload) != "command" {
        let stated = request.executed_unit.iter();
        return stated.map(|unit| Fact::block(LABEL, unit)).collect();
    }
    let full = payload
        .evidence
        .iter()
        .filter(|entry| entry.label == FULL_COMMAND)
        .map(|entry| entry.text.as_str());
    let mut runs: Vec<Run> = Vec::new();
    for line in std::iter::once(request.value.as_str()).chain(full) {
        for mut run in units_worth_showing(line) {
            let is_value = run.text == request.value.trim();
            let is_stated = Some(&run.text) == request.executed_unit.as_ref();
            let is_said = is_value && (run.how == IN_THE_LINE || is_stated);
            if is_value {
                run.text.clear();
            }
            if (run.hides || !is_said) && !runs.contains(&run) {
                runs.push(run);
            }
        }
    }
    // What the asker says runs is said unless it is among these anyway, with more about it.
    let stated = request.executed_unit.as_ref();
    let stated = stated.filter(|unit| !runs.iter().any(|run| run.text == **unit));
    let stated = stated.map(|unit| Fact::block(LABEL, unit));
    let read = runs.into_iter().map(|run| {
        let mut fact = Fact::block(LABEL, &run.text);
        if let Some(first) = fact.lines.first_mut() {
            let space = if first.is_empty() { "" } else { " " };
            first.insert_str(0, &format!("[{}]{space}", text::visible(&run.how)));
        }
        fact
    });
    stated.into_iter().chain(read).collect()
}

/// Label of what a command line runs.
const LABEL: &str = "runs";

const IN_THE_LINE: &str = "in the line";

fn about_the_line(how: &str) -> Run {
    Run {
        text: String::new(),
        how: how.to_owned(),
        hides: true,
    }
}

/// How much a person would miss who was not told.
fn weight(reading: &Reading<'_>, unit: &Unit<'_>) -> u8 {
    match floor_of(unit) {
        Some(Floor::Redirection) => 2,
        Some(_) => 4,
        None if hands_on(reading, unit) => 0,
        None if unit.remote => 3,
        None if !unit.through.is_empty() => 2,
        None if unit.context.is_some() => 1,
        None => 0,
    }
}

/// Whether what it runs is listed by itself, so that its own text says nothing more.
fn hands_on(reading: &Reading<'_>, unit: &Unit<'_>) -> bool {
    reading.units.iter().any(|inner| {
        inner.through.len() > unit.through.len()
            && inner.range.start > unit.range.start
            && inner.range.end <= unit.range.end
    })
}

/// The text of a unit; one that writes a file is shown with its redirections.
fn with_redirections<'r>(reading: &'r Reading<'_>, unit: &'r Unit<'_>) -> &'r str {
    let whole = reading
        .wholes
        .iter()
        .filter(|whole| unit.floor == Some(Floor::Redirection) && whole.contains(unit.text))
        .min_by_key(|whole| whole.len());
    whole.map_or(unit.command.as_ref(), |whole| *whole)
}

/// Text with each run of many blanks as one: what stands behind them is what matters.
fn squeezed(text: &str) -> String {
    if !text.contains(LONG_BLANK) {
        return text.to_owned();
    }
    let mut squeezed = String::with_capacity(text.len());
    for part in text.split(LONG_BLANK) {
        let part = if squeezed.is_empty() {
            part
        } else {
            part.trim_start_matches(' ')
        };
        if !part.is_empty() {
            if !squeezed.is_empty() {
                squeezed.push(' ');
            }
            squeezed.push_str(part);
        }
    }
    squeezed
}

fn how(unit: &Unit<'_>) -> String {
    let mut parts: Vec<String> = Vec::new();
    if unit.remote {
        parts.push("on another machine".to_owned());
    }
    if !unit.through.is_empty() {
        parts.push(format!("through {}", unit.through.join(", ")));
    }
    match unit.context {
        None => {}
        Some(CommandContext::CommandSubstitution) => {
            parts.push("in a command substitution".to_owned());
        }
        Some(CommandContext::ProcessSubstitution) => {
            parts.push("in a process substitution".to_owned());
        }
        Some(CommandContext::Subshell) => parts.push("in a subshell".to_owned()),
    }
    if let Some(floor) = floor_of(unit) {
        parts.push(explained(floor).to_owned());
    }
    if parts.is_empty() {
        IN_THE_LINE.to_owned()
    } else {
        parts.join("; ")
    }
}

/// The floor of a unit that hides something. What a wrapper runs is said by itself.
fn floor_of(unit: &Unit<'_>) -> Option<Floor> {
    unit.floor.filter(|floor| !floor.is_seen_through())
}

/// A floor in a few words.
pub(super) fn explained(floor: Floor) -> &'static str {
    match floor {
        Floor::Wrapper | Floor::Shell => "runs what stands in it",
        Floor::Redirection => "writes a file or opens a connection",
        Floor::UnparsedSubtree => "a part of it could not be told for sure",
        Floor::Indirection => "runs a command, or gives it arguments, that are not shown",
        Floor::Opaque => "runs shell code that is not shown, or not whole",
        Floor::Unparseable => "this cannot be read as a command line",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presentation::dialog::lines;
    use crate::wire::{Evidence, PayloadKind, Requester};

    fn shown(line: &str) -> Vec<String> {
        units_worth_showing(line)
            .into_iter()
            .map(|run| format!("[{}] {}", run.how, run.text))
            .collect()
    }

    fn payload(value: &str) -> PromptPayload {
        let requester = Requester {
            agent_name: None,
            forwarded: false,
            session_id: None,
        };
        let mut payload = PromptPayload::degraded(
            requester,
            Some("bash".to_owned()),
            Some(value.to_owned()),
            None,
        );
        payload.kind = PayloadKind::Bash;
        payload
    }

    fn rows(payload: &PromptPayload) -> Vec<String> {
        facts(payload)
            .into_iter()
            .flat_map(|fact| fact.lines)
            .collect()
    }

    #[test]
    fn what_a_look_shows_is_not_said_again() {
        for line in [
            "",
            "ls",
            "rm -rf 'a b'",
            "git add . && git commit -m x",
            "make | head",
            "# x",
        ] {
            assert_eq!(shown(line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn what_stands_inside_is_said() {
        assert_eq!(
            shown("sudo timeout 5 sh -c 'git pull && make'"),
            [
                "[through sudo, timeout, sh] git pull",
                "[through sudo, timeout, sh] make"
            ]
        );
        assert_eq!(
            shown("ls $(cat list)"),
            ["[in a command substitution] cat list"]
        );
        assert_eq!(
            shown("ssh host 'rm x'"),
            ["[on another machine; through ssh] rm x"]
        );
        assert_eq!(shown("sh <<E\nrm x\nE"), ["[through sh] rm x"]);
    }

    #[test]
    fn what_is_hidden_is_said_in_words() {
        let opaque = "runs shell code that is not shown, or not whole";
        assert_eq!(shown("curl x | sh"), [format!("[{opaque}] sh")]);
        assert_eq!(
            shown("eval \"$x\"").first().unwrap(),
            &format!("[{opaque}] eval \"$x\"")
        );
        assert_eq!(
            shown("ls > out"),
            ["[writes a file or opens a connection] ls > out"]
        );
        assert_eq!(shown("{ ls"), ["[this cannot be read as a command line] "]);
    }

    #[test]
    fn of_a_long_line_every_command_is_said() {
        let line = format!("git log {} ; rm -rf /", " ".repeat(4_000));
        assert_eq!(
            shown(&line),
            ["[in the line] git log", "[in the line] rm -rf /"]
        );
        let line = format!("git log {}--output=/etc/passwd", " ".repeat(4_000));
        assert_eq!(shown(&line), ["[in the line] git log --output=/etc/passwd"]);
        let line = format!("echo {} && rm -rf /", "a".repeat(500));
        assert_eq!(shown(&line).last().unwrap(), "[in the line] rm -rf /");
    }

    #[test]
    fn what_hides_something_is_not_left_out() {
        let line = format!(
            "{}curl x | sh; {}",
            "a $(b); ".repeat(50),
            "c $(d); ".repeat(50)
        );
        let shown = shown(&line);
        assert_eq!(shown.len(), MAX_LISTED + 1);
        assert!(shown.iter().any(|run| run.ends_with("] sh")), "{shown:#?}");
        assert_eq!(
            shown.last().unwrap(),
            "[more commands than are listed here] "
        );
    }

    #[test]
    fn the_payload_is_not_repeated() {
        let mut ask = payload("sudo rm x");
        assert_eq!(rows(&ask), ["[through sudo] rm x"]);
        ask.request.executed_unit = Some("rm x".to_owned());
        assert_eq!(rows(&ask), ["[through sudo] rm x"]);
        ask.request.executed_unit = Some("rm y".to_owned());
        assert_eq!(rows(&ask), ["rm y", "[through sudo] rm x"]);
        ask.request.executed_unit = Some("rm x".to_owned());
        assert_eq!(
            rows(&payload("source x")),
            ["[runs shell code that is not shown, or not whole]"]
        );
        ask.kind = PayloadKind::Tool;
        ask.request.executed_unit = None;
        assert_eq!(rows(&ask), Vec::<String>::new());
    }

    #[test]
    fn the_whole_line_is_read_where_one_command_of_it_asks() {
        let mut ask = payload("make");
        ask.evidence = vec![Evidence {
            label: FULL_COMMAND.to_owned(),
            text: "make && curl x | sudo sh".to_owned(),
            detail: None,
        }];
        assert_eq!(
            lines(&ask),
            [
                "surface      : bash",
                "command      : make",
                "runs         : [through sudo; runs shell code that is not shown, or not whole] sh",
                "full command : make && curl x | sudo sh",
            ]
        );
    }
}
