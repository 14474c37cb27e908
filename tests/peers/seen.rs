//! What was seen of each agent, held against the table in the documentation: a page that says what an agent does is only as good as
//! the last look at it.

use std::sync::{Mutex, PoisonError};

/// Held while the page is read and written.
static PAGE: Mutex<()> = Mutex::new(());

/// A row of a table as its cells.
fn cells(row: &str) -> Vec<String> {
    let inner = row.trim().trim_start_matches('|').trim_end_matches('|');
    inner
        .split(" | ")
        .map(|cell| cell.trim().to_owned())
        .collect()
}

/// Fails unless the page about hooks says so, as [`is_documented_in`] does.
#[track_caller]
pub(crate) fn is_documented(heading: &str, row: &[&str], column: &str, seen: &str) {
    is_documented_in("docs/hosts.md", heading, row, column, seen);
}

/// Fails unless the table below this heading of a page says so in the column of the row that begins with these cells. With
/// `ASKRELAY_UPDATE_SEEN` set, it is made to.
#[track_caller]
pub(crate) fn is_documented_in(name: &str, heading: &str, row: &[&str], column: &str, seen: &str) {
    let path = format!("{}/{name}", env!("CARGO_MANIFEST_DIR"));
    let _held = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let page = std::fs::read_to_string(&path).unwrap();
    let (_, section) = page
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("{name} has no section {heading:?}"));
    let mut rows = section.lines().filter(|line| line.starts_with('|'));
    let at = cells(rows.next().unwrap())
        .iter()
        .position(|name| name == column)
        .unwrap_or_else(|| panic!("no column below {heading:?} is called {column:?}"));
    let line = rows
        .find(|line| cells(line).iter().zip(row).all(|(cell, name)| cell == name))
        .unwrap_or_else(|| panic!("no row below {heading:?} begins with {row:?}"));
    let mut said = cells(line);
    if said[at] == seen {
        return;
    }
    assert!(
        std::env::var_os("ASKRELAY_UPDATE_SEEN").is_some(),
        "{name} says of {row:?}, {column}:\n  {}\nbut this was seen:\n  {seen}\n\
         hint: if that is as it should be, run the test with ASKRELAY_UPDATE_SEEN=1",
        said[at]
    );
    seen.clone_into(&mut said[at]);
    let new = format!("| {} |", said.join(" | "));
    std::fs::write(path, page.replacen(line, &new, 1)).unwrap();
}
