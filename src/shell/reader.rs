//! Gathers the units of a line and of the command lines inside it.

use std::borrow::Cow;
use std::ops::Range;

use super::phrases::{self, Phrase};
use super::script::{Decoded, Script};
use super::step::{Inner, Step, step};
use super::trust::{has_only_bash_blanks, nests_backticks, splits_an_operator};
use super::walk::{KEYWORDS, Walk};
use super::word::Word;
use super::wrappers::{Program, base_name, program};
use super::{Floor, MAX_LINE_BYTES, MAX_SHELLS, MAX_UNITS, Reading, Unit};
use crate::wire::CommandContext;

/// Most steps from one command to the next inside it.
const MAX_STEPS: usize = 16;

/// Takes a line apart.
pub(super) fn read(line: &str) -> Reading<'_> {
    plain(line).unwrap_or_else(|| parsed(line))
}

/// A line of plain words: most lines are no more than that, and what the parser needs for them is time and memory.
fn plain(line: &str) -> Option<Reading<'_>> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" _./:-".contains(&byte);
    let text = line.trim_matches(' ');
    let name = text.split(' ').next().unwrap_or_default();
    // A number in front may be a file descriptor or a jump of the grammar's.
    let begins = name.bytes().next()?;
    let is_one = line.len() <= MAX_LINE_BYTES
        && line.bytes().all(is_plain)
        && (begins.is_ascii_alphabetic() || matches!(begins, b'.' | b'/'))
        && matches!(program(name), Program::Plain)
        && !KEYWORDS.contains(&name);
    let start = line.len() - line.trim_start_matches(' ').len();
    is_one.then(|| {
        let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
        let mut spellings = spelled(words.join(" "), Some(name));
        spellings.retain(|spelling| spelling != text);
        Reading {
            units: vec![Unit {
                text,
                range: start..start + text.len(),
                command: Cow::Borrowed(text),
                spellings,
                context: None,
                floor: None,
                remote: false,
                through: Vec::new(),
            }],
            wholes: Vec::new(),
            floor: None,
        }
    })
}

/// Takes a line apart with the parser.
fn parsed(line: &str) -> Reading<'_> {
    let mut reader = Reader::new(line);
    let floor = reader.line();
    reader.finish(floor)
}

/// Where a command line stands in the others.
#[derive(Debug, Clone, Default)]
pub(super) struct Frame {
    pub(super) context: Option<CommandContext>,
    through: Vec<&'static str>,
    remote: bool,
    shells: usize,
    /// How many steps led here.
    steps: usize,
}

/// What is on the standard input of a command, as far as the line says.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) code: Decoded,
    pub(super) is_literal: bool,
}

pub(super) struct Reader<'a> {
    line: &'a str,
    units: Vec<Unit<'a>>,
    wholes: Vec<Range<usize>>,
    /// How many units and wholes may still come.
    pub(super) left: usize,
    /// What is said, for those who ask for it.
    pub(super) phrases: Option<Vec<Phrase>>,
    /// Where words stand that are command lines and were taken apart as such.
    pub(super) code: Vec<Range<usize>>,
    /// How many more of them are read as words too.
    pub(super) asides: usize,
    /// Whether anything was left unread or was not understood, whatever floor else there is.
    pub(super) doubts: bool,
    /// The same of texts of here-documents that may be no code.
    pub(super) doubts_text: bool,
    /// Whether a shell reads code that is not on the line, or is the text of another command's here-document.
    pub(super) has_hungry_shell: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self {
            line,
            units: Vec::new(),
            wholes: Vec::new(),
            left: MAX_UNITS,
            phrases: None,
            code: Vec::new(),
            asides: phrases::MAX_ASIDES,
            doubts: false,
            doubts_text: false,
            has_hungry_shell: false,
        }
    }

    /// Reads the line.
    pub(super) fn line(&mut self) -> Option<Floor> {
        self.script(&Script::line(self.line), &Frame::default())
    }

    /// Reads one piece of code; says why it, as a whole, may not be allowed.
    pub(super) fn script(&mut self, script: &Script<'_>, frame: &Frame) -> Option<Floor> {
        if script.text.len() > MAX_LINE_BYTES {
            self.doubts = true;
            return Some(Floor::Unparseable);
        }
        let Some(tree) = super::parse::parse(&script.text) else {
            self.doubts = true;
            return Some(Floor::Unparseable);
        };
        let floor = Walk::new(self, script, frame, &tree).run();
        let mut doubt = None;
        if tree.root_node().has_error() || !has_only_bash_blanks(&script.text) {
            doubt = Some(Floor::Unparseable);
        }
        if self.is_full() || splits_an_operator(&script.text) || nests_backticks(&script.text) {
            doubt = doubt.max(Some(Floor::UnparsedSubtree));
        }
        self.doubt(doubt);
        floor.max(doubt)
    }

    /// A command made of commands.
    pub(super) fn whole(&mut self, script: &Script<'_>, part: Range<usize>) {
        if self.take() {
            self.wholes.push(script.in_line(part));
        }
    }

    /// Whether no more can be listed.
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    fn take(&mut self) -> bool {
        let more = self.left > 0;
        self.left = self.left.saturating_sub(1);
        more
    }

    /// One command that nothing can be seen through; gives its place in the list.
    pub(super) fn unit(
        &mut self,
        script: &Script<'_>,
        part: Range<usize>,
        words: &[Word],
        floor: Option<Floor>,
        frame: &Frame,
    ) -> Option<usize> {
        let range = script.in_line(part.clone());
        let text = self.line.get(range.clone())?;
        if text.is_empty() || !self.take() {
            return None;
        }
        let read = script.part(part);
        let command = if read == text {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(read.to_owned())
        };
        let mut spellings = spellings(script, words);
        spellings.retain(|spelling| *spelling != command);
        spellings.dedup();
        self.units.push(Unit {
            text,
            range,
            command,
            spellings,
            context: frame.context,
            floor,
            remote: frame.remote,
            through: frame.through.clone(),
        });
        Some(self.units.len() - 1)
    }

    /// One command with everything that it runs. `part` is its text, `words` are all its words.
    pub(super) fn command(
        &mut self,
        script: &Script<'_>,
        part: Range<usize>,
        words: &[Word],
        floor: Option<Floor>,
        input: Option<&Input>,
        frame: &Frame,
    ) {
        self.doubt(floor);
        self.hear(|| Some(phrases::command(script, words)));
        let step = step(words);
        let floor = floor.max(step.floor);
        let Some(place) = self.unit(script, part, words, floor, frame) else {
            return;
        };
        let raise = |reader: &mut Self, floor: Option<Floor>| {
            if let Some(unit) = reader.units.get_mut(place) {
                unit.floor = unit.floor.max(floor);
            }
        };
        if frame.steps >= MAX_STEPS && !matches!(step.inner, Inner::Nothing) {
            self.doubts = true;
            raise(self, Some(Floor::Indirection));
            return;
        }
        let within = frame.within(&step);
        match step.inner {
            Inner::Nothing => self.overhear(script, words, input, &within),
            Inner::Command(command) => self.argument(script, words, command, input, &within),
            Inner::Commands(commands) => {
                for command in commands {
                    self.argument(script, words, command, input, &within);
                }
            }
            Inner::Line(range) => {
                let words = words.get(range).unwrap_or_default();
                self.takes_apart(script, words, input, &within);
                let (code, is_literal) = joined(words);
                let hidden = (!is_literal).then_some(Floor::Opaque);
                let floor = self.handed_on(script, code, &within);
                raise(self, floor.max(hidden));
            }
            Inner::Input => match input {
                None => {
                    self.has_hungry_shell = true;
                    raise(self, Some(Floor::Opaque));
                }
                Some(input) => {
                    let hidden = (!input.is_literal).then_some(Floor::Opaque);
                    let floor = self.handed_on(script, input.code.clone(), &within);
                    raise(self, floor.max(hidden));
                }
            },
        }
    }

    /// A command that is made of some of the words of another.
    pub(super) fn argument(
        &mut self,
        script: &Script<'_>,
        words: &[Word],
        command: Range<usize>,
        input: Option<&Input>,
        within: &Frame,
    ) {
        let words = words.get(command).unwrap_or_default();
        if let (Some(first), Some(last)) = (words.first(), words.last()) {
            let part = first.range.start..last.range.end.max(first.range.start);
            self.command(script, part, words, None, input, within);
        }
    }

    /// Reads a command line that is handed to a shell.
    pub(super) fn handed_on(
        &mut self,
        script: &Script<'_>,
        code: Decoded,
        within: &Frame,
    ) -> Option<Floor> {
        if within.shells >= MAX_SHELLS {
            self.doubts = true;
            return Some(Floor::Opaque);
        }
        let mut frame = within.clone();
        frame.shells += 1;
        self.script(&script.inner(code), &frame)
    }

    /// What was found, in the order of the line. What was found twice stands there once, with the heavier floor.
    fn finish(mut self, floor: Option<Floor>) -> Reading<'a> {
        self.units.sort_by(|one, other| {
            let by_end = other.range.end.cmp(&one.range.end);
            one.range.start.cmp(&other.range.start).then(by_end)
        });
        self.units.dedup_by(|later, kept| {
            let same = later.range == kept.range
                && later.command == kept.command
                && later.remote == kept.remote;
            if same {
                kept.floor = kept.floor.max(later.floor);
                kept.context = kept.context.or(later.context);
            }
            same
        });
        let line = self.line;
        let mut wholes: Vec<&str> = self
            .wholes
            .into_iter()
            .filter_map(|range| line.get(range))
            .collect();
        wholes.dedup();
        Reading {
            units: self.units,
            wholes,
            floor,
        }
    }
}

impl Frame {
    fn within(&self, step: &Step) -> Self {
        let mut frame = self.clone();
        if !step.name.is_empty() {
            frame.through.push(step.name);
        }
        frame.remote |= step.remote;
        frame.steps += 1;
        frame
    }
}

/// Words as one command line, and whether it is known.
fn joined(words: &[Word]) -> (Decoded, bool) {
    let mut code = Decoded::default();
    let mut end = None;
    for word in words {
        if let Some(end) = end {
            code.push_made(" ", end..word.range.start.max(end));
        }
        code.append(word.value.clone());
        end = Some(word.range.end);
    }
    (code, words.iter().all(|word| word.is_literal))
}

/// Other ways to write a command, which a rule might name.
fn spellings(script: &Script<'_>, words: &[Word]) -> Vec<String> {
    let mut plain = String::new();
    for (place, word) in words.iter().enumerate() {
        if place > 0 {
            plain.push(' ');
        }
        match word.literal() {
            Some(value) => plain.push_str(value),
            None => plain.push_str(script.part(word.range.clone())),
        }
    }
    spelled(plain, words.first().and_then(Word::literal))
}

/// A command of plain words, and the same without the directory of its program.
fn spelled(plain: String, name: Option<&str>) -> Vec<String> {
    if plain.is_empty() {
        return Vec::new();
    }
    let short = name
        .filter(|name| name.contains('/'))
        .and_then(|name| plain.get(name.len() - base_name(name).len()..))
        .filter(|short| !short.is_empty() && !short.starts_with(' '))
        .map(str::to_owned);
    std::iter::once(plain).chain(short).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: [&str; 40] = [
        "ls",
        "rm",
        "/bin/rm",
        "./a",
        "../a",
        "a.b",
        "-l",
        "--",
        "-",
        "x/y",
        "x:y",
        "if",
        "then",
        "for",
        "in",
        "do",
        "done",
        "case",
        "esac",
        "function",
        "select",
        "until",
        "while",
        "time",
        "coproc",
        "exec",
        "sudo",
        "bash",
        "eval",
        ".",
        "..",
        "source",
        "2",
        "2x",
        "x2",
        "/",
        ":",
        "true",
        "test",
        "python3.11",
    ];

    proptest! {
        #[test]
        fn plain_words_are_what_the_parser_makes_of_them(
            words in proptest::collection::vec(proptest::sample::select(&WORDS[..]), 0..5),
            blanks in " {1,3}",
            other in "[a-z0-9 _./:-]{0,16}",
        ) {
            for line in [words.join(&blanks), format!(" {}  ", words.join(&blanks)), other.clone(), format!("ls {other}")] {
                if let Some(reading) = plain(&line) {
                    prop_assert_eq!(reading, parsed(&line), "{:?}", line);
                }
            }
        }
    }
}
