use super::*;

#[test]
fn names_sort_by_utf16_unit() {
    let mut names = ["a", "B", "9", "10", "\u{ff5e}", "\u{1f600}"];
    names.sort_by(|a, b| in_utf16_order(a.as_bytes(), b.as_bytes()));
    assert_eq!(names, ["10", "9", "B", "a", "\u{1f600}", "\u{ff5e}"]);
}
