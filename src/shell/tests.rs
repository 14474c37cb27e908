//! What holds of every reading, whatever the line. What the right readings are stands in `fixtures/shell`.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Reads a line and checks what is promised of the answer.
fn checked(line: &str) -> Reading<'_> {
    let reading = read(line);
    for unit in &reading.units {
        assert_eq!(line.get(unit.range.clone()), Some(unit.text), "{line:?}");
        assert!(!unit.text.is_empty(), "{line:?}");
    }
    for whole in &reading.wholes {
        assert!(line.contains(whole), "{line:?}");
    }
    assert!(reading.units.len() + reading.wholes.len() <= MAX_UNITS);
    reading
}

/// Pieces that mean something to a shell, and some that only look like it.
const PIECES: [&str; 72] = [
    "ls",
    "rm -rf /",
    "a",
    "x=1",
    " ",
    " ",
    " ",
    "\n",
    "\t",
    ";",
    "&",
    "&&",
    "||",
    "|",
    "|&",
    "(",
    ")",
    "{",
    "}",
    "$(",
    "`",
    "<(",
    ">(",
    "$((",
    "))",
    "((",
    "[[",
    "]]",
    "[",
    "]",
    "\"",
    "'",
    "$'",
    "\\",
    "\\\n",
    "#",
    " #",
    "<<E\n",
    "\nE\n",
    "<<'E'\n",
    "<<<",
    ">",
    ">>",
    "<",
    "2>&1",
    "&>",
    "> /dev/null",
    "$x",
    "${x",
    "${x:-",
    "\"$@\"",
    "*",
    "?",
    "{a,b}",
    "if ",
    "then ",
    "; fi",
    "for x in ",
    "; do ",
    "; done",
    "case x in ",
    ") ",
    ";; esac",
    "f() ",
    "sudo ",
    "bash -c ",
    "eval ",
    "xargs ",
    "find . -exec ",
    " \\;",
    "ssh host ",
    "é\u{202e}\u{0}\r",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_text_can_be_read(line in any::<String>()) {
        checked(&line);
    }

    #[test]
    fn any_soup_of_shell_can_be_read(pieces in vec(proptest::sample::select(&PIECES[..]), 0..24)) {
        checked(&pieces.concat());
    }

    /// What is run can be hidden in a shell's argument, but not from the reading.
    #[test]
    fn what_stands_in_quotes_for_a_shell_is_read_as_if_it_stood_alone(
        pieces in vec(proptest::sample::select(&["ls", "rm x", "; ", " | ", " && ", "\"a b\"", " $x", "(b)", "\n", "sudo c"][..]), 1..8),
    ) {
        let line = pieces.concat();
        let alone = read(&line);
        let wrapped_line = format!("bash -c '{line}'");
        let wrapped = read(&wrapped_line);
        for unit in &alone.units {
            prop_assert!(
                wrapped.units.iter().any(|other| other.command == unit.command && other.floor == unit.floor),
                "{:?} is missing", unit.text
            );
        }
        prop_assert!(alone.floor.is_none() || wrapped.heaviest_floor() >= alone.floor);
    }

    /// Another command at the end takes nothing away from what stood there before.
    #[test]
    fn another_command_hides_none(
        pieces in vec(proptest::sample::select(&["ls", "rm x", "$(b)", "\"a\"", "(c)", " ", ";", "|", "sudo ", "d > f"][..]), 1..8),
    ) {
        let line = pieces.concat();
        let before = read(&line);
        let longer_line = format!("{line}\nlast");
        let after = read(&longer_line);
        let count = |reading: &Reading<'_>| reading.units.len();
        prop_assert!(before.floor.is_some() || after.floor.is_some() || count(&after) > count(&before));
    }
}

#[test]
fn deep_nesting_is_a_floor_and_no_overflow() {
    for (open, close) in [
        ("$(", ")"),
        ("(", ")"),
        ("{ ", "; }"),
        ("`", "`"),
        ("\"$(", ")\""),
        ("${x:-", "}"),
        ("<(", ")"),
        ("! ", ""),
        ("a && ", ""),
        ("a | ", ""),
        ("if a; then ", "; fi"),
        ("sudo ", ""),
        ("eval ", ""),
        ("[[ ( ", " ) ]]"),
        ("x=$((1+", "))"),
        ("bash -c ", ""),
    ] {
        for times in [100, 10_000, 100_000] {
            for close in [close, ""] {
                let line = format!("{}a{}", open.repeat(times), close.repeat(times));
                let reading = checked(&line);
                let bounded = line.len() <= MAX_LINE_BYTES;
                assert!(bounded || reading.floor == Some(Floor::Unparseable));
            }
        }
    }
}

#[test]
fn commands_behind_a_bound_are_a_floor() {
    let deep = format!("{}rm x{}", "$(".repeat(100), ")".repeat(100));
    assert_eq!(read(&deep).floor, Some(Floor::Unparseable));
    let many = "ls;".repeat(MAX_UNITS + 1);
    assert_eq!(read(&many).floor, Some(Floor::UnparsedSubtree));
    let long = format!("echo '{}'", "a".repeat(MAX_LINE_BYTES));
    assert_eq!(read(&long).floor, Some(Floor::Unparseable));
    let piped = "a|".repeat(2_000) + "a";
    assert_eq!(read(&piped).floor, Some(Floor::Unparseable));
    let wrapped = format!("{}rm x", "sudo ".repeat(100));
    assert_eq!(read(&wrapped).heaviest_floor(), Some(Floor::Indirection));
}

#[test]
fn a_plain_command_is_one() {
    for line in [
        "ls",
        " git log -p\n",
        "echo \"a b\" $HOME/*.txt",
        "rm 'a;b'",
    ] {
        assert!(read(line).is_one_plain_command(line), "{line:?}");
    }
    for line in [
        "",
        "# x",
        "a;b",
        "a | b",
        "a $(b)",
        "(a)",
        "{ a",
        "a > b",
        "a > /dev/null",
        "sudo a",
        "$a",
        "X=1 a",
        "eval a",
    ] {
        assert!(!read(line).is_one_plain_command(line), "{line:?}");
    }
}

#[test]
fn a_command_is_known_in_other_spellings() {
    let spellings = |line: &'static str| read(line).units.swap_remove(0).spellings;
    assert_eq!(spellings("ls -l"), Vec::<String>::new());
    assert_eq!(spellings("r\"\"m  -rf '/'"), ["rm -rf /"]);
    assert_eq!(spellings("/bin/rm x"), ["rm x"]);
    assert_eq!(spellings("\\rm  \"$x\""), ["rm \"$x\""]);
    assert_eq!(spellings("git > /dev/null push"), ["git push"]);
    assert_eq!(spellings("$'\\x72m' x"), ["rm x"]);
}
