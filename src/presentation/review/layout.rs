//! The layout of a document: its lines broken into rows, kept so that any row is found at once.

use std::ops::Range;

use memchr::memmem;

use super::{Block, BlockPlace, Form, Text};
use crate::presentation::text;

/// What the first row of a compact layout says.
const COMPACT_NOTICE: &str = "compact view: each line end, blank and \\ of the ask is shown as <…>";

/// A place in the document that stays the same in every layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) block: u32,
    /// 0 for what stands above the text, else the line of the text, from 1.
    pub(super) line: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Notice,
    Blank,
    Label,
    Text,
}

/// A line as it is laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Laid {
    pub(super) key: Key,
    pub(super) kind: Kind,
    /// Its first row.
    row: u32,
    /// Where its text begins in the text of the layout; it ends where that of the next line begins.
    start: u32,
    /// Where its breaks begin in those of the layout; `None` where every row is as many bytes as there are columns.
    breaks: Option<u32>,
    /// Columns for its text.
    pub(super) columns: u32,
}

#[derive(Debug)]
pub(super) struct Layout {
    pub(super) columns: usize,
    pub(super) form: Form,
    text: String,
    lines: Vec<Laid>,
    /// Places of the rows of the lines that need them, in bytes of the line.
    breaks: Vec<u32>,
    pub(super) rows: usize,
}

/// Columns of the bar before a text below its label, and of the blank behind it.
pub(super) const BAR_COLUMNS: usize = 2;
/// Columns that a bar takes behind a label, with the blanks around it.
const BAR_BESIDE_COLUMNS: usize = 3;

/// A place in a document, as one layout had it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    key: Key,
    /// Row within its line, of so many.
    nth: usize,
    of: usize,
}

impl Key {
    /// The keys of the lines of the text of this block.
    fn lines(self) -> impl Iterator<Item = Self> {
        (1..).map(move |line| Self { line, ..self })
    }
}

/// The keys of the blocks.
fn block_keys() -> impl Iterator<Item = Key> {
    (0..).map(|block| Key { block, line: 0 })
}

/// Layouts may have millions of lines, so their numbers are short. A request is far too small to need more.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(super) fn wide(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Layout {
    pub(super) fn of(blocks: &[Block], label_columns: usize, columns: usize, form: Form) -> Self {
        let mut layout = Self {
            columns,
            form,
            text: String::new(),
            lines: Vec::new(),
            breaks: Vec::new(),
            rows: 0,
        };
        if columns == 0 {
            return layout;
        }
        match form {
            Form::Full => layout.full(blocks, label_columns),
            Form::Compact => layout.compact(blocks),
        }
        layout
    }

    fn full(&mut self, blocks: &[Block], label_columns: usize) {
        let below = self.columns.saturating_sub(BAR_COLUMNS).max(1);
        // A label column that takes half of the screen gives way: labels then stand on rows of their own.
        let gutter = label_columns + BAR_BESIDE_COLUMNS;
        let beside = (gutter <= self.columns / 2).then(|| self.columns - gutter);
        for (block, key) in blocks.iter().zip(block_keys()) {
            let columns = match (block.place, beside) {
                (BlockPlace::Beside, Some(beside)) => beside,
                (BlockPlace::Below, _) | (BlockPlace::Beside, None) => {
                    if block.place == BlockPlace::Below {
                        self.push(key, Kind::Blank, below, |_| {});
                    }
                    self.push(key, Kind::Label, below, |out| {
                        out.push_str(&block.label.text);
                    });
                    below
                }
            };
            match &block.text {
                Text::Raw(raw) => {
                    for (line, key) in raw.split('\n').zip(key.lines()) {
                        self.push(key, Kind::Text, columns, |out| text::push_line(out, line));
                    }
                }
                Text::Shown(lines) => {
                    for (line, key) in lines.iter().zip(key.lines()) {
                        self.push(key, Kind::Text, columns, |out| out.push_str(line));
                    }
                }
            }
        }
    }

    fn compact(&mut self, blocks: &[Block]) {
        let columns = self.columns;
        let first = Key { block: 0, line: 0 };
        self.push(first, Kind::Notice, columns, |out| {
            out.push_str(COMPACT_NOTICE);
        });
        for (block, key) in blocks.iter().zip(block_keys()) {
            self.push(key, Kind::Label, columns, |out| {
                out.push_str("[ ");
                if block.label.is_foreign {
                    text::push_compact(out, &block.label.text, columns);
                } else {
                    out.push_str(&block.label.text);
                }
                out.push_str(" ]");
            });
            let mut keys = key.lines();
            let mut push = |line: &str, is_last: bool| {
                let Some(key) = keys.next() else { return };
                self.push(key, Kind::Text, columns, |out| {
                    text::push_compact(out, line, columns);
                    if !is_last {
                        out.push_str("<LF>");
                    }
                });
            };
            match &block.text {
                Text::Raw(raw) => {
                    let mut lines = raw.split('\n').peekable();
                    while let Some(line) = lines.next() {
                        push(&text::visible(line), lines.peek().is_none());
                    }
                }
                Text::Shown(shown) => {
                    let mut lines = shown.iter().peekable();
                    while let Some(line) = lines.next() {
                        push(line, lines.peek().is_none());
                    }
                }
            }
        }
    }

    /// Takes in one line, whose text `write` appends.
    fn push(&mut self, key: Key, kind: Kind, columns: usize, write: impl FnOnce(&mut String)) {
        let start = self.text.len();
        write(&mut self.text);
        let line = self.text.get(start..).unwrap_or_default();
        let (breaks, rows) = if line.is_ascii() {
            (None, line.len().div_ceil(columns).max(1))
        } else {
            let before = self.breaks.len();
            let breaks = text::hard_breaks(line, columns);
            self.breaks.extend(breaks.map(small));
            (Some(small(before)), self.breaks.len() - before + 1)
        };
        self.lines.push(Laid {
            key,
            kind,
            row: small(self.rows),
            start: small(start),
            breaks,
            columns: small(columns),
        });
        self.rows += rows;
    }

    /// The line that this row belongs to, and which bytes of it the row shows.
    pub(super) fn row(&self, number: usize) -> Option<(usize, Laid, Range<usize>)> {
        let at = self
            .lines
            .partition_point(|line| wide(line.row) <= number)
            .checked_sub(1)?;
        let line = *self.lines.get(at)?;
        let nth = number - wide(line.row);
        if nth >= self.height(at) {
            return None;
        }
        let end = self.line_text(at).len();
        let starts = |nth| self.row_start(at, line, nth).unwrap_or(end);
        Some((at, line, starts(nth).min(end)..starts(nth + 1).min(end)))
    }

    /// The whole text of a line.
    pub(super) fn line_text(&self, at: usize) -> &str {
        let start_of = |at: usize| self.lines.get(at).map(|line| wide(line.start));
        let end = start_of(at + 1).unwrap_or(self.text.len());
        start_of(at)
            .and_then(|start| self.text.get(start..end))
            .unwrap_or_default()
    }

    /// How many rows a line has.
    fn height(&self, at: usize) -> usize {
        let row_of = |at: usize| self.lines.get(at).map(|line| wide(line.row));
        row_of(at).map_or(0, |row| row_of(at + 1).unwrap_or(self.rows) - row)
    }

    /// Where the row of this number within a line begins, in bytes of the line; `None` where it has no such row.
    fn row_start(&self, at: usize, line: Laid, nth: usize) -> Option<usize> {
        if nth >= self.height(at) {
            return None;
        }
        match (line.breaks, nth.checked_sub(1)) {
            (_, None) => Some(0),
            (None, Some(_)) => Some(nth * wide(line.columns)),
            (Some(first), Some(later)) => self
                .breaks
                .get(wide(first) + later)
                .map(|place| wide(*place)),
        }
    }

    /// The row that shows this byte of a line.
    pub(super) fn row_at(&self, at: usize, byte: usize) -> Option<usize> {
        let line = self.lines.get(at)?;
        let nth = match line.breaks {
            None => byte / wide(line.columns).max(1),
            Some(first) => {
                let first = wide(first);
                let of_line = self.breaks.get(first..first + self.height(at) - 1)?;
                of_line.partition_point(|place| wide(*place) <= byte)
            }
        };
        Some(wide(line.row) + nth)
    }

    /// The place that a row shows.
    pub(super) fn place(&self, row: usize) -> Option<Place> {
        let (at, line, _) = self.row(row)?;
        Some(Place {
            key: line.key,
            nth: row - wide(line.row),
            of: self.height(at),
        })
    }

    /// How many rows stand before this block.
    pub(super) fn rows_before(&self, block: usize) -> usize {
        let at = self
            .lines
            .partition_point(|line| wide(line.key.block) < block);
        self.lines.get(at).map_or(self.rows, |line| wide(line.row))
    }

    /// The row that shows a place, as nearly as another layout can.
    pub(super) fn row_of(&self, place: Place) -> usize {
        let at = self.lines.partition_point(|line| line.key < place.key);
        let first = self.lines.get(at).map_or(0, |line| wide(line.row));
        first + place.nth * self.height(at) / place.of.max(1)
    }

    /// Everything that reads like `query`, in capitals or not.
    pub(super) fn find(&self, query: &str) -> Vec<(usize, Range<usize>)> {
        let mut needle = String::new();
        match self.form {
            Form::Full => text::push_line(&mut needle, query),
            Form::Compact => text::push_compact(&mut needle, &text::visible(query), self.columns),
        }
        needle.make_ascii_lowercase();
        let text = self.text.to_ascii_lowercase();
        let finder = memmem::Finder::new(&needle);
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(rest) = text.as_bytes().get(from..)
            && let Some(place) = finder.find(rest)
        {
            let start = from + place;
            let at = self.lines.partition_point(|line| wide(line.start) <= start);
            let at = at.saturating_sub(1);
            let within = start - self.lines.get(at).map_or(0, |line| wide(line.start));
            from = start + 1;
            // What begins in one line and ends in another is nothing that stands there.
            if within + needle.len() <= self.line_text(at).len() {
                found.push((at, within..within + needle.len()));
                from = start + needle.len();
            }
        }
        found
    }
}
