//! The words of a command line, each byte with its place in the line: for those who look at words and not at what is run.

use std::collections::HashSet;
use std::ops::Range;

use tree_sitter::Node;

use super::Floor;
use super::reader::{Frame, Input, Reader};
use super::script::Script;
use super::word::{Word, word};
use super::wrappers::{Program, program};

/// Text as a command gets it, with the place of each of its bytes in the line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Piece {
    text: String,
    places: Vec<Place>,
}

/// Where a byte of a piece stands in the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The bytes of the line that it was made from.
    pub range: Range<usize>,
    /// Whether it belongs to an expansion that holds no text of its own: a variable, or a command that is among the phrases.
    pub expands: bool,
}

impl Piece {
    /// A piece without text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text, all of which was made from `range`.
    pub fn push(&mut self, text: &str, range: &Range<usize>) {
        self.text.push_str(text);
        let place = Place {
            range: range.clone(),
            expands: false,
        };
        self.places.extend(std::iter::repeat_n(place, text.len()));
    }

    /// Adds an expansion that is written like this at `at`.
    pub fn push_expansion(&mut self, text: &str, at: usize) {
        self.text.push_str(text);
        let places = (at..at + text.len()).map(|at| Place {
            range: at..at + 1,
            expands: true,
        });
        self.places.extend(places);
    }

    /// The text. Expansions stand in it as they are written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where it stands in the line, without the quotes around it.
    pub(super) fn range(&self) -> Range<usize> {
        let start = self.places.first().map_or(0, |place| place.range.start);
        start..self.places.last().map_or(start, |place| place.range.end)
    }

    /// Where the bytes of a part of the text stand; nothing where there is no such part.
    pub fn places(&self, part: Range<usize>) -> &[Place] {
        self.places.get(part).unwrap_or_default()
    }

    /// What stands at `node`, in the line around `script`.
    fn at(script: &Script<'_>, node: Node<'_>) -> Self {
        Self::of(script, &word(&script.text, node))
    }

    fn of(script: &Script<'_>, word: &Word) -> Self {
        let places = word.value.places().iter().map(|(start, end)| Place {
            range: script.in_line(*start..*end),
            expands: word.expands_at(*start),
        });
        Self {
            text: word.value.text.clone(),
            places: places.collect(),
        }
    }
}

/// Something that is said on a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phrase {
    /// A command: its words, its name first. What it runs is a phrase of its own too; a word that is a command line itself is
    /// only there.
    Command(Vec<Piece>),
    /// An assignment to a variable.
    Assignment {
        /// What is assigned to, with its subscript.
        name: String,
        /// What is assigned; of an array, each element.
        values: Vec<Piece>,
    },
}

/// What is said on a command line, and in the command lines inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrases {
    /// All that was found, in no order.
    pub phrases: Vec<Phrase>,
    /// Whether the line was read to its end without a doubt: what is no phrase then is no word of a command.
    pub is_certain: bool,
}

/// Takes a command line apart into its words.
pub fn phrases(line: &str) -> Phrases {
    let (phrases, is_certain) = Reader::heard(line);
    Phrases {
        phrases,
        is_certain,
    }
}

/// Where the value of a word stands in the line.
pub(super) fn range(script: &Script<'_>, word: &Word) -> Range<usize> {
    let places = word.value.places();
    let (first, last) = (places.first(), places.last());
    let bounds = first.zip(last).map(|(first, last)| first.0..last.1);
    bounds.map_or(0..0, |range| script.in_line(range))
}

/// The words of a command.
pub(super) fn command(script: &Script<'_>, words: &[Word]) -> Phrase {
    Phrase::Command(words.iter().map(|word| Piece::of(script, word)).collect())
}

/// The words of a command that the grammar knows by itself. Its assignments are phrases of their own.
pub(super) fn builtin(script: &Script<'_>, node: Node<'_>) -> Phrase {
    let mut cursor = node.walk();
    let words = node
        .children(&mut cursor)
        .filter(|child| child.kind() != "variable_assignment")
        .map(|child| Piece::at(script, child));
    Phrase::Command(words.collect())
}

/// The assignment at `node`.
pub(super) fn assignment(script: &Script<'_>, node: Node<'_>) -> Option<Phrase> {
    let mut cursor = node.walk();
    let mut parts = node.children(&mut cursor);
    let name = script.part(parts.next()?.byte_range()).to_owned();
    let value = parts.find(|part| !matches!(part.kind(), "=" | "+="));
    let values = match value {
        Some(array) if array.kind() == "array" => {
            let mut cursor = array.walk();
            let elements = array.named_children(&mut cursor);
            elements.map(|node| Piece::at(script, node)).collect()
        }
        Some(value) => vec![Piece::at(script, value)],
        None => Vec::new(),
    };
    Some(Phrase::Assignment { name, values })
}

/// How many command lines that are several words are also read as those words.
pub(super) const MAX_ASIDES: usize = 16;

impl<'a> Reader<'a> {
    /// What is said on a line, and whether nothing of it was left unread.
    pub(super) fn heard(line: &'a str) -> (Vec<Phrase>, bool) {
        let mut reader = Self::new(line);
        reader.phrases = Some(Vec::new());
        reader.line();
        let fed_with_doubt = reader.has_hungry_shell && reader.doubts_text;
        let is_whole = !reader.doubts && !fed_with_doubt && !reader.is_full();
        let mut phrases = reader.phrases.unwrap_or_default();
        let code: HashSet<Range<usize>> = reader.code.into_iter().collect();
        for phrase in &mut phrases {
            if let Phrase::Command(words) = phrase {
                words.retain(|word| !code.contains(&word.range()));
            }
        }
        (phrases, is_whole)
    }

    /// Takes note of a doubt, which a weightier floor would cover.
    pub(super) fn doubt(&mut self, floor: Option<Floor>) {
        self.doubts |=
            floor.is_some_and(|floor| matches!(floor, Floor::UnparsedSubtree | Floor::Unparseable));
    }

    /// Takes down what is said, where somebody asked for it.
    pub(super) fn hear(&mut self, phrase: impl FnOnce() -> Option<Phrase>) {
        if let Some(phrases) = &mut self.phrases {
            phrases.extend(phrase());
        }
    }

    /// Takes note of words that are a command line together.
    ///
    /// A word that is one by itself is no longer a word of the command that hands it on. Several are words of both command lines,
    /// and may have been meant to stay what they are, so what they say as such is heard too: `ssh host curl -H 'X-Token: a'`.
    pub(super) fn takes_apart(
        &mut self,
        script: &Script<'_>,
        words: &[Word],
        input: Option<&Input>,
        within: &Frame,
    ) {
        if self.phrases.is_none() {
            return;
        }
        self.overhear_input(script, input, within);
        match words {
            [line] if line.value.text.contains([' ', '\t', '\n']) => {
                self.code.push(range(script, line));
            }
            [] | [_] => {}
            // One may be inside the other, and each is read twice.
            _ if self.asides == 0 => self.doubts = true,
            _ => {
                self.asides -= 1;
                self.argument(script, words, 0..words.len(), None, within);
            }
        }
    }

    /// The text on the standard input of a command, of which nobody knows whether it is code.
    fn overhear_input(&mut self, script: &Script<'_>, input: Option<&Input>, within: &Frame) {
        if let Some(input) = input {
            // That it is no code is no doubt about the line, unless some shell reads what the line does not show.
            let before = (std::mem::take(&mut self.doubts), self.left);
            self.handed_on(script, input.code.clone(), within);
            self.doubts_text |= self.doubts;
            (self.doubts, self.left) = before;
        }
    }

    /// Takes down what is said to a shell among the arguments of a program that nothing is seen through. It is only heard: what
    /// the program makes of it nobody knows. The same goes for the text of a here-document: it may be on its way to a shell, or to
    /// a file of assignments.
    pub(super) fn overhear(
        &mut self,
        script: &Script<'_>,
        words: &[Word],
        input: Option<&Input>,
        within: &Frame,
    ) {
        if self.phrases.is_none() {
            return;
        }
        self.overhear_input(script, input, within);
        let known = |word: &Word| word.literal().map(program);
        let is_a_shell = |word: &Word| matches!(known(word), Some(Program::Shell(_)));
        if matches!(
            words.first().and_then(known),
            Some(Program::Shell(_) | Program::OtherShell)
        ) {
            let option = |word: &Word| {
                let text = word.literal().unwrap_or_default();
                let letters = text.strip_prefix('-').unwrap_or_default();
                text == "--command" || !letters.starts_with('-') && letters.contains('c')
            };
            let line = words.iter().skip_while(|word| !option(word)).nth(1);
            if let Some(line) = line {
                self.takes_apart(script, std::slice::from_ref(line), None, within);
                self.handed_on(script, line.value.clone(), within);
            }
        } else if let Some(before) = words.iter().skip(1).position(is_a_shell) {
            self.argument(script, words, before + 1..words.len(), None, within);
        }
    }
}
