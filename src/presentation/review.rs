//! The whole of an ask as a document: what a person scrolls through before they decide.
//!
//! ```text
//! subagent  │ scout · session c-1         a fact: its label, a bar, its text
//! command   │ printf '%s' one two
//!           │ rm -rf build                a line of the text
//!           ┊ /very/long                  the same line, broken for want of room
//! ─ diff                                  evidence: its label on a row of its own
//! │ -old
//! │ +new
//! ```
//!
//! Nothing is left out and nothing is wrapped at words: rows are as full as can be, and the texts of the rows of a line, one
//! after the other, are exactly the visible line. On a screen too small for bars there is the [compact form](Form::Compact): what
//! the bars would tell stands in the text itself, as escapes.
//!
//! It draws nothing and knows no key. A layout is made once for a width and a form; a row is then found in it without a look at
//! the others, however long the text is.
//!
//! Invariants: every text went through [`super::text`]; in the full form all text of an ask stands right of a bar, in the
//! compact form none of it holds a blank, and ours does.

mod layout;

use std::ops::Range;

use self::layout::{BAR_COLUMNS, Kind, Laid, Layout, wide};
use super::dialog::{self, Fact};
use super::evidence::{self, LineClass};
use super::select::Ask;
use super::table::{self, Asker};
use super::text;

/// How a document is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Bars before the texts.
    Full,
    /// No bars; line ends, blanks and backslashes are escaped.
    Compact,
}

impl Form {
    /// The form for a screen of this size.
    pub fn of(columns: usize, rows: usize) -> Self {
        if columns < 40 || rows < 6 {
            Self::Compact
        } else {
            Self::Full
        }
    }
}

/// What a row shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Words of ours.
    Own,
    /// A label on a row of its own.
    Label,
    /// Text of the ask.
    Text,
    /// A line that a change would bring.
    Added,
    /// A line that a change would take.
    Removed,
    /// Where in a file a change is, or which file it is.
    Place,
}

/// One row of a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row<'a> {
    /// Label, bar and what else stands before the text.
    pub gutter: String,
    /// The text.
    pub text: &'a str,
    /// What it is.
    pub class: Class,
    /// Where in the text something is that was searched for, in bytes.
    pub found: Vec<Range<usize>>,
}

/// A document, and its layout for one width.
#[derive(Debug)]
pub struct Review {
    blocks: Vec<Block>,
    /// How many of them are the core's.
    core: usize,
    label_columns: usize,
    layout: Option<Layout>,
    /// Whether the layout is of what was said before.
    is_stale: bool,
    search: Option<Search>,
}

/// A fact or a piece of evidence.
#[derive(Debug)]
struct Block {
    label: Label,
    text: Text,
    place: BlockPlace,
    /// What its lines are, where it is a diff.
    classes: Option<Vec<LineClass>>,
}

/// Where the text of a block stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockPlace {
    /// Beside the label.
    Beside,
    /// Below it.
    Below,
}

/// A label, visible.
#[derive(Debug)]
struct Label {
    text: String,
    /// Whether the asker made it up.
    is_foreign: bool,
}

#[derive(Debug)]
enum Text {
    /// As it came.
    Raw(String),
    /// Lines that are visible already.
    Shown(Vec<String>),
}

#[derive(Debug)]
struct Search {
    query: String,
    /// Line and place in it of everything found in the present layout, in order.
    found: Vec<(usize, Range<usize>)>,
}

impl Review {
    /// The document of an ask.
    pub fn new(ask: &Ask<'_>) -> Self {
        let payload = ask.payload;
        let core = ask.core();
        let label_columns = dialog::label_width(&core);
        let mut blocks: Vec<Block> = core.into_iter().map(|fact| core_block(ask, fact)).collect();
        let core = blocks.len();
        for entry in dialog::evidence_beside_core(payload) {
            let label = Label {
                text: dialog::evidence_label(&entry.label),
                is_foreign: !dialog::is_gate_label(&entry.label),
            };
            let arrow = entry.detail.as_ref().map(|detail| Block {
                label: Label {
                    text: format!("{} →", label.text),
                    is_foreign: label.is_foreign,
                },
                text: Text::Raw(detail.clone()),
                place: BlockPlace::Below,
                classes: None,
            });
            blocks.push(Block {
                label,
                text: Text::Raw(entry.text.clone()),
                place: BlockPlace::Below,
                classes: evidence::line_classes(entry),
            });
            blocks.extend(arrow);
        }
        blocks.extend(payload.annotations.iter().map(|note| Block {
            label: Label {
                text: format!("{} by {}", dialog::MODEL_LABEL, dialog::name(&note.source)),
                is_foreign: true,
            },
            text: Text::Raw(note.text.clone()),
            place: BlockPlace::Below,
            classes: None,
        }));
        Self {
            blocks,
            core,
            label_columns,
            layout: None,
            is_stale: false,
            search: None,
        }
    }

    /// What several asks that are alike have in common, and each of them. All of it is core.
    pub fn of_table(ask: &Ask<'_>, askers: &[Asker<'_>], more: bool) -> Self {
        let mut facts = ask.core();
        facts.retain(|fact| !dialog::is_of_one_ask(fact));
        let mut blocks: Vec<Block> = facts
            .into_iter()
            .map(|fact| core_block(ask, fact))
            .collect();
        let own = [table::head(askers.len())]
            .into_iter()
            .chain(table::rows(askers))
            .chain(more.then(table::beyond));
        blocks.extend(own.map(|fact| Block {
            label: Label {
                text: fact.label,
                is_foreign: false,
            },
            text: Text::Shown(fact.lines),
            place: BlockPlace::Beside,
            classes: None,
        }));
        let labels = blocks.iter().map(|block| text::width(&block.label.text));
        Self {
            core: blocks.len(),
            label_columns: labels.max().unwrap_or(0),
            blocks,
            layout: None,
            is_stale: false,
            search: None,
        }
    }

    /// Another link of the chain thinks about the ask now, or none does any more: where that was said, it is said anew.
    pub fn waits_for(&mut self, link: Option<&str>) {
        let fact = dialog::waits_for(link);
        let mut core = self.blocks.iter_mut().take(self.core);
        if let Some(block) = core.find(|block| block.label.text == fact.label) {
            block.text = Text::Shown(fact.lines);
            self.is_stale = true;
        }
    }

    /// Lays the document out for a width, unless it is. Gives where these rows have gone to.
    pub fn lay_out<const N: usize>(
        &mut self,
        columns: usize,
        form: Form,
        rows: [usize; N],
    ) -> [usize; N] {
        let stale = std::mem::take(&mut self.is_stale);
        let fits = |layout: &Layout| !stale && layout.columns == columns && layout.form == form;
        if self.layout.as_ref().is_some_and(fits) {
            return rows;
        }
        let layout = Layout::of(&self.blocks, self.label_columns, columns, form);
        let rows = rows.map(|row| match &self.layout {
            // What stands above the first fact belongs to no place in it.
            _ if row == 0 => 0,
            None => 0,
            Some(before) => before
                .place(row)
                .map_or(layout.rows, |place| layout.row_of(place)),
        });
        if let Some(search) = &mut self.search {
            search.found = layout.find(&search.query);
        }
        self.layout = Some(layout);
        rows
    }

    /// How many rows, from the first one, have the core facts.
    pub fn core_rows(&self) -> usize {
        let layout = self.layout.as_ref();
        layout.map_or(0, |layout| layout.rows_before(self.core))
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.layout.as_ref().map_or(0, |layout| layout.rows)
    }

    /// The row of this number.
    pub fn row(&self, number: usize) -> Option<Row<'_>> {
        let layout = self.layout.as_ref()?;
        let (at, line, range) = layout.row(number)?;
        let block = self.blocks.get(wide(line.key.block));
        let whole = layout.line_text(at);
        let is_first = range.start == 0;
        let gutter = match layout.form {
            Form::Compact => String::new(),
            Form::Full => self.gutter(&line, block, is_first),
        };
        let class = match line.kind {
            Kind::Notice | Kind::Blank => Class::Own,
            Kind::Label => Class::Label,
            Kind::Text => block.map_or(Class::Text, |block| block.class(line.key.line)),
        };
        let found = self
            .search
            .as_ref()
            .map_or_else(Vec::new, |search| search.within(at, &range));
        Some(Row {
            gutter,
            text: whole.get(range).unwrap_or_default(),
            class,
            found,
        })
    }

    fn gutter(&self, line: &Laid, block: Option<&Block>, is_first: bool) -> String {
        let bar = if is_first { '│' } else { '┊' };
        match (line.kind, block) {
            (Kind::Label, _) => if is_first { "─ " } else { "  " }.to_owned(),
            (Kind::Text, Some(block)) if self.is_beside(block, line) => {
                let label = if is_first && line.key.line == 1 {
                    block.label.text.as_str()
                } else {
                    ""
                };
                let padding = self.label_columns.saturating_sub(text::width(label));
                format!("{label}{:padding$} {bar} ", "")
            }
            (Kind::Text, _) => format!("{bar} "),
            (Kind::Notice | Kind::Blank, _) => String::new(),
        }
    }

    fn is_beside(&self, block: &Block, line: &Laid) -> bool {
        block.place == BlockPlace::Beside
            && self.layout.as_ref().is_some_and(|layout| {
                wide(line.columns) < layout.columns.saturating_sub(BAR_COLUMNS)
            })
    }

    /// Searches for `query`, whether in capitals or not; an empty one ends the search. Gives how many there are.
    pub fn search(&mut self, query: &str) -> usize {
        let found = match &self.layout {
            Some(layout) if !query.is_empty() => layout.find(query),
            Some(_) | None => Vec::new(),
        };
        let count = found.len();
        self.search = (!query.is_empty()).then(|| Search {
            query: query.to_owned(),
            found,
        });
        count
    }

    /// How many places were found, where something is searched for.
    pub fn found(&self) -> Option<usize> {
        self.search.as_ref().map(|search| search.found.len())
    }

    /// The row of the first place found at or below the row `from`, or of the very first one.
    pub fn found_from(&self, from: usize) -> Option<usize> {
        let rows = || self.found_rows();
        rows().find(|row| *row >= from).or_else(|| rows().next())
    }

    /// The row of the last place found above the row `before`, or of the very last one.
    pub fn found_before(&self, before: usize) -> Option<usize> {
        let rows = || self.found_rows().rev();
        rows().find(|row| *row < before).or_else(|| rows().next())
    }

    fn found_rows(&self) -> impl DoubleEndedIterator<Item = usize> {
        let layout = self.layout.as_ref();
        let found = self.search.iter().flat_map(|search| &search.found);
        found.filter_map(move |(line, range)| layout?.row_at(*line, range.start))
    }
}

/// A core fact as a block: where its text may have tabs and line ends, as it came.
fn core_block(ask: &Ask<'_>, fact: Fact) -> Block {
    let request = &ask.payload.request;
    let raw = match fact.label.as_str() {
        "command" if dialog::value_label(ask.payload) == "command" => Some(request.value.clone()),
        // There are others, which the serving session has worked out.
        "runs" => request
            .executed_unit
            .clone()
            .filter(|unit| text::lines(unit) == fact.lines),
        _ => None,
    };
    Block {
        label: Label {
            text: fact.label,
            is_foreign: false,
        },
        text: raw.map_or(Text::Shown(fact.lines), Text::Raw),
        place: BlockPlace::Beside,
        classes: None,
    }
}

impl Block {
    /// What the line of this number is, from 1.
    fn class(&self, line: u32) -> Class {
        let classes = self.classes.as_deref().unwrap_or_default();
        let at = wide(line).checked_sub(1);
        match at.and_then(|at| classes.get(at)) {
            Some(LineClass::Added) => Class::Added,
            Some(LineClass::Removed) => Class::Removed,
            Some(LineClass::FileHeader | LineClass::Hunk) => Class::Place,
            Some(LineClass::Context | LineClass::Note) | None => Class::Text,
        }
    }
}

impl Search {
    /// What was found within these bytes of a line, as bytes of the row that shows them.
    fn within(&self, line: usize, row: &Range<usize>) -> Vec<Range<usize>> {
        let before = |(at, found): &(usize, Range<usize>)| (*at, found.end) <= (line, row.start);
        let first = self.found.partition_point(before);
        let found = self.found.iter().skip(first);
        found
            .take_while(|(at, found)| *at == line && found.start < row.end)
            .map(|(_, found)| {
                let start = found.start.max(row.start) - row.start;
                start..found.end.min(row.end) - row.start
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
