//! Bounded renders: what of a payload's facts stands on the first screen, under a budget of rows and of field width.
//!
//! A budget drops evidence, never a core fact: a core that is larger than the budget is shown whole. Evidence is taken whole, in
//! order, until an entry does not fit; what is cut is marked with `…` and nothing else, for a number of hidden lines is nothing
//! that a person could act on. Whoever draws the rows must offer the way to everything wherever something is [elided].
//!
//! It knows no screen: how many rows there really are is for those who draw.
//!
//! Invariants: every core fact has a row; no field is wider than its budget; rows never exceed the budget unless the core alone
//! does; [`Fitted::elided`] is told wherever a reader sees less than there is.
//!
//! [elided]: Fitted::elided

use super::dialog::{self, Fact, LaidRow};
use super::text::{self, ELLIPSIS};

/// How much a render may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Rows of core and evidence together.
    pub rows: usize,
    /// UTF-16 units of one field.
    pub field_units: usize,
}

impl Budget {
    /// Shows everything.
    pub const NONE: Self = Self {
        rows: usize::MAX,
        field_units: usize::MAX,
    };
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            rows: 24,
            field_units: 400,
        }
    }
}

/// How labels stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Labels {
    /// In a column of their own.
    Aligned,
    /// Each as wide as it is: more fits on a small screen.
    Tight,
}

/// What a row shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The core fact of this index.
    Core(usize),
    /// The evidence of this index.
    Evidence(usize),
    /// That something was left out.
    Marker,
}

/// A row of a bounded render.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What it shows.
    pub part: Part,
    /// The row itself.
    pub laid: LaidRow,
}

/// A bounded render.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fitted {
    /// The rows, the core's first.
    pub rows: Vec<Row>,
    /// How many of them are the core's.
    pub core_rows: usize,
    /// Whether anything was left out or cut.
    pub elided: bool,
}

/// Fits facts into a budget, on a screen of `columns` columns. Without columns there are no rows.
pub fn fit(
    core: &[Fact],
    evidence: &[Fact],
    budget: Budget,
    columns: usize,
    labels: Labels,
) -> Fitted {
    if columns == 0 {
        return Fitted {
            elided: !core.is_empty() || !evidence.is_empty(),
            ..Fitted::default()
        };
    }
    let width = dialog::label_width(core.iter().chain(evidence));
    let mut elided = false;
    let mut lay = |fact: &Fact| {
        let (fact, cut) = clip(fact, budget.field_units);
        elided |= cut;
        match labels {
            Labels::Aligned => dialog::layout(&fact, width, Some(columns)),
            Labels::Tight => dialog::layout_tight(&fact, columns),
        }
    };
    let mut rows: Vec<Row> = Vec::new();
    for (index, fact) in (0..).zip(core) {
        let part = Part::Core(index);
        rows.extend(lay(fact).into_iter().map(|laid| Row { part, laid }));
    }
    let core_rows = rows.len();
    let mut blocks: Vec<Vec<LaidRow>> = Vec::new();
    let mut total = core_rows;
    for fact in evidence {
        if total > budget.rows {
            break;
        }
        let block = lay(fact);
        total += block.len();
        blocks.push(block);
    }
    let fits = total <= budget.rows && blocks.len() == evidence.len();
    let limit = if fits {
        budget.rows
    } else {
        budget.rows.saturating_sub(1)
    };
    for (index, block) in (0..).zip(blocks) {
        if rows.len() + block.len() > limit {
            break;
        }
        let part = Part::Evidence(index);
        rows.extend(block.into_iter().map(|laid| Row { part, laid }));
    }
    if !fits {
        elided = true;
        if rows.len() < budget.rows {
            rows.push(marker());
        }
    }
    Fitted {
        rows,
        core_rows,
        elided,
    }
}

/// The row that says that something was left out.
pub fn marker() -> Row {
    Row {
        part: Part::Marker,
        laid: LaidRow {
            text: ELLIPSIS.to_string(),
            text_at: 0,
            line: None,
            from: 0,
        },
    }
}

/// A fact of at most `units` UTF-16 units, its line breaks included, and whether it was cut. An escape is never split.
fn clip(fact: &Fact, units: usize) -> (Fact, bool) {
    let mut left = units;
    for (index, line) in (0..).zip(&fact.lines) {
        let cut = text::clip_point(line, left);
        let used = text::utf16_len(line) + 1;
        let more = index + 1 < fact.lines.len();
        if let Some(at) = cut {
            let at = text::before_split_escape(line, at);
            return (cut_at(fact, index, at), true);
        }
        match left.checked_sub(used) {
            Some(rest) => left = rest,
            // The line break itself has no room any more.
            None if more => return (cut_at(fact, index, line.len()), true),
            None => {}
        }
    }
    (fact.clone(), false)
}

/// The fact up to byte `at` of its line `index`, marked as cut.
fn cut_at(fact: &Fact, index: usize, at: usize) -> Fact {
    let mut lines: Vec<String> = fact.lines.iter().take(index).cloned().collect();
    let line = fact.lines.get(index).and_then(|line| line.get(..at));
    lines.push(format!("{}{ELLIPSIS}", line.unwrap_or_default()));
    Fact {
        label: fact.label.clone(),
        lines,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn facts(sizes: &[usize]) -> Vec<Fact> {
        sizes
            .iter()
            .map(|lines| Fact::block("x", &vec!["a"; *lines].join("\n")))
            .collect()
    }

    fn budget(rows: usize) -> Budget {
        Budget {
            rows,
            field_units: 400,
        }
    }

    fn shape(core: &[usize], evidence: &[usize], rows: usize) -> (usize, usize, bool, bool) {
        let fitted = fit(
            &facts(core),
            &facts(evidence),
            budget(rows),
            80,
            Labels::Aligned,
        );
        let shown = fitted
            .rows
            .iter()
            .filter(|row| matches!(row.part, Part::Evidence(_)))
            .count();
        let marker = fitted
            .rows
            .last()
            .is_some_and(|row| row.part == Part::Marker);
        (fitted.core_rows, shown, marker, fitted.elided)
    }

    #[test]
    fn b66_a_core_larger_than_the_budget_is_shown_whole() {
        assert_eq!(shape(&[30], &[1], 24), (30, 0, false, true));
        assert_eq!(shape(&[24], &[1], 24), (24, 0, false, true));
        assert_eq!(shape(&[30], &[], 24), (30, 0, false, true));
    }

    #[test]
    fn b67_evidence_is_taken_whole_while_it_fits() {
        assert_eq!(shape(&[20], &[3, 2], 24), (20, 3, true, true));
        assert_eq!(shape(&[20], &[3, 1], 24), (20, 4, false, false));
        // The first that does not fit ends it: a later, smaller one would stand out of order.
        assert_eq!(shape(&[20], &[9, 1], 24), (20, 0, true, true));
    }

    #[test]
    fn a_field_is_cut_at_its_budget_and_no_escape_is_split() {
        let clipped = |text: &str, units| clip(&Fact::block("x", text), units).0.lines;
        assert_eq!(clipped("abcd", 4), ["abcd"]);
        assert_eq!(clipped("abcde", 4), ["abcd…"]);
        assert_eq!(clipped("ab\ncd", 5), ["ab", "cd"]);
        assert_eq!(clipped("ab\ncd", 4), ["ab", "c…"]);
        assert_eq!(clipped("ab\ncd", 3), ["ab", "…"]);
        assert_eq!(clipped("ab\ncd", 2), ["ab…"]);
        assert_eq!(clipped("ab\u{202E}cd", 6), ["ab…"]);
        assert_eq!(clipped("ab\u{202E}cd", 11), ["ab<U+202E>c…"]);
        let long = [Fact::line("x", &"a".repeat(401))];
        assert!(fit(&long, &[], Budget::default(), 80, Labels::Aligned).elided);
    }

    #[test]
    fn without_columns_nothing_is_shown_and_that_is_said() {
        let fitted = fit(&facts(&[1]), &[], budget(24), 0, Labels::Aligned);
        assert!(fitted.rows.is_empty() && fitted.elided);
    }

    proptest! {
        #[test]
        fn the_budget_holds_and_the_core_stands(
            core in proptest::collection::vec(("[a-z]{1,12}", "(\\PC|.|\n){0,600}"), 1..8),
            evidence in proptest::collection::vec("(\\PC|.|\n){0,900}", 0..6),
            rows in 1_usize..40,
            columns in 1_usize..90,
            labels in prop_oneof![Just(Labels::Aligned), Just(Labels::Tight)],
        ) {
            let core: Vec<Fact> = core.iter().map(|(label, text)| Fact::block(label, text)).collect();
            let evidence: Vec<Fact> = evidence.iter().map(|text| Fact::block("input", text)).collect();
            let fitted = fit(&core, &evidence, budget(rows), columns, labels);
            prop_assert!(fitted.rows.len() <= rows.max(fitted.core_rows));
            for index in 0..core.len() {
                prop_assert!(fitted.rows.iter().any(|row| row.part == Part::Core(index)));
            }
            for row in &fitted.rows {
                prop_assert!(text::width(&row.laid.text) <= columns, "{:?}", row);
            }
            let whole = core.iter().chain(&evidence).all(|fact| !clip(fact, 400).1);
            let every = (0..evidence.len())
                .all(|index| fitted.rows.iter().any(|row| row.part == Part::Evidence(index)));
            prop_assert_eq!(fitted.elided, !(whole && every && fitted.rows.len() <= rows));
        }
    }
}
