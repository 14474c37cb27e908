//! What holds of every line. Which values are masked in which lines stands in `fixtures/secrets`.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// Masks a line and checks what is promised of every line.
fn checked(line: &str) -> String {
    let once = masked(line);
    if once == line {
        assert!(matches!(once, Cow::Borrowed(_)), "{line:?}");
    }
    assert_eq!(masked(&once), once, "{line:?}");
    once.into_owned()
}

/// How a text can be written so that a shell reads it.
#[derive(Debug, Clone, Copy)]
enum Style {
    Single,
    Double,
    Ansi,
    Numbered,
    Escaped,
    Mixed,
}

const STYLES: [Style; 6] = [
    Style::Single,
    Style::Double,
    Style::Ansi,
    Style::Numbered,
    Style::Escaped,
    Style::Mixed,
];

impl Style {
    fn write(self, text: &str) -> String {
        let escaped = |text: &str, special: &str| -> String {
            let escape = |c: char| {
                let slash = special.contains(c).then_some('\\');
                slash.into_iter().chain([c])
            };
            text.chars().flat_map(escape).collect()
        };
        match self {
            Self::Single => format!("'{}'", text.replace('\'', r"'\''")),
            Self::Double => format!("\"{}\"", escaped(text, "$`\"\\")),
            Self::Ansi => format!("$'{}'", escaped(text, "'\\")),
            Self::Numbered => {
                let numbered = |c: char| format!("\\x{:02x}", u32::from(c));
                format!("$'{}'", text.chars().map(numbered).collect::<String>())
            }
            Self::Escaped => {
                let escape = |c: char| {
                    let slash = (!c.is_ascii_alphanumeric()).then_some('\\');
                    slash.into_iter().chain([c])
                };
                text.chars().flat_map(escape).collect()
            }
            Self::Mixed => {
                let characters: Vec<char> = text.chars().collect();
                let pieces = characters.chunks(3).zip(STYLES.iter().cycle());
                pieces
                    .map(|(piece, style)| style.write(&piece.iter().collect::<String>()))
                    .collect()
            }
        }
    }
}

/// Lines around a secret: `NAME` is a telling name, `VALUE` the value, `{…}` is written in the style.
const LINES: [&str; 35] = [
    "NAME={VALUE} make",
    "NAME={VALUE}",
    "a && NAME+={VALUE} b | c",
    "export NAME={VALUE} PATH",
    "export {NAME=VALUE}",
    "declare -x NAME={VALUE}; local NAME={VALUE}; readonly NAME={VALUE}; typeset NAME={VALUE}",
    "NAME=(a {VALUE} c)",
    "NAME[3]={VALUE}",
    "declare -A x=([NAME]={VALUE} [b]=c)",
    "env NAME={VALUE} make",
    "env -i -u A {NAME=VALUE} B=c make",
    "sudo -u me NAME={VALUE} make",
    "sudo env {NAME=VALUE} nice -n 3 make",
    "make {NAME=VALUE} all",
    "docker run -e {NAME=VALUE} image",
    "tool --NAME {VALUE} x",
    "tool {--NAME} {VALUE} x",
    "tool {--NAME=VALUE} x",
    "tool --set={NAME=VALUE}",
    "curl -H {Authorization: Bearer VALUE} x",
    "curl -sSfH {NAME: VALUE} x",
    "curl --header={X-NAME: VALUE}",
    "curl -u {me:VALUE} x",
    "curl -b {sid=VALUE} x",
    "curl --oauth2-bearer {VALUE} x",
    "curl -d {a=b&NAME=CLEAN&c=d} x",
    "wget --header {Cookie: a=VALUE} x",
    "http POST x {NAME:VALUE}",
    "sshpass -p {VALUE} ssh host",
    "mysql {-NpVALUE} db",
    "zip -rP {VALUE} a.zip f",
    "helm upgrade x --set {a=b,NAME=VALUE}",
    "aws configure set NAME {VALUE}",
    "tool {--NAME:VALUE}",
    "for x in 1 2; do (if y; then echo \"$(NAME={VALUE} z)\"; fi); done",
];

const NAMES: [&str; 10] = [
    "TOKEN",
    "API_KEY",
    "github_token",
    "DB_PASSWORD",
    "MYSQL_PWD",
    "clientSecret",
    "AWS_SECRET_ACCESS_KEY",
    "key",
    "SESSION_COOKIE",
    "passphrase",
];

/// Command lines within command lines.
const SHELLS: [&str; 10] = [
    "bash -c {}",
    "sh -lc {} && x",
    "eval {}",
    "ssh host {}",
    "sudo -E bash -euo pipefail -c {}",
    "timeout 5 xargs -0 sh -c {}",
    "docker exec -it c bash -c {}",
    "echo $(eval {})",
    "cat <(eval {}) > out",
    "sh <<< {}",
];

/// The same, where the inner line stands as it is.
const AROUND: [&str; 9] = [
    "x=\"$({})\"",
    "if a; then {}; fi",
    "bash <<'E'\n{}\nE\n",
    "cat << 'E' | sh -s\n{}\nE",
    "f() { {}; }; f",
    "diff <({}) b",
    "ssh host {}",
    "sudo ssh -p 22 host -- {}",
    "eval {}",
];

/// Ways to make a line one that cannot be taken apart.
const BROKEN: [&str; 8] = [
    "{}\n)",
    "{}; echo \"a",
    "{}\r",
    "{} # it's",
    "( {}",
    "{}; if x",
    "cat <<EOF\n{}",
    "echo `{}",
];

/// A line with a secret in it.
fn line() -> impl Strategy<Value = (String, String)> {
    let value = "Zq[A-Y0-9]{3}[ !%+/:=@$\"'\\\\]?[A-Y0-9]{5}";
    let shells = proptest::collection::vec((select(&SHELLS[..]), select(&STYLES[..])), 0..3);
    let parts = (select(&LINES[..]), select(&NAMES[..]), select(&STYLES[..]));
    let around = proptest::option::of(select(&AROUND[..]));
    (parts, value, shells, around).prop_map(|((template, name, style), value, shells, around)| {
        let mut line = String::new();
        let mut rest = template;
        while let Some((before, behind)) = rest.split_once('{') {
            let (inner, behind) = behind.split_once('}').unwrap();
            line.push_str(&before.replace("NAME", name));
            let clean: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
            let inner = inner
                .replace("NAME", name)
                .replace("VALUE", &value)
                .replace("CLEAN", &clean);
            line.push_str(&style.write(&inner));
            rest = behind;
        }
        line.push_str(&rest.replace("NAME", name));
        for (shell, style) in shells {
            line = shell.replace("{}", &style.write(&line));
        }
        if let Some(around) = around {
            line = around.replace("{}", &line);
        }
        (line, value)
    })
}

/// Whether a part of the value that tells it from anything else is left, however it is written.
fn survives(masked: &str, value: &str) -> bool {
    let parts = [value.get(..5), value.get(value.len() - 5..)];
    let parts = parts.into_iter().flatten();
    let numbered = |part: &str| -> String {
        let number = |c: char| format!("\\x{:02x}", u32::from(c));
        part.chars().map(number).collect()
    };
    let bare: String = masked.replace("$'", "").replace(['\'', '"', '\\'], "");
    parts
        .flat_map(|part| [part.to_owned(), numbered(part).replace('\\', "")])
        .any(|part| bare.contains(&part))
}

/// Whether all of `inner` is covered by `outer`.
fn covers(outer: &[Range<usize>], inner: &[Range<usize>]) -> bool {
    let mut bytes = inner.iter().flat_map(Clone::clone);
    bytes.all(|byte| outer.iter().any(|range| range.contains(&byte)))
}

const PIECES: [&str; 48] = [
    "TOKEN=",
    "key",
    "=",
    "abc",
    " ",
    " ",
    " ",
    "\n",
    "'",
    "\"",
    "$'",
    "\\",
    "\\x41",
    "$(",
    ")",
    "`",
    "${",
    "}",
    "$X",
    "-H",
    "-u",
    "--password",
    "Authorization:",
    "Bearer ",
    "curl ",
    "mysql ",
    "-p",
    "://",
    "https://",
    "@",
    ":",
    "/",
    "?",
    "&",
    ";",
    "|",
    "(",
    "<<E\n",
    "\nE\n",
    "bash -c ",
    "eval ",
    "env ",
    "export ",
    "#",
    "[redacted]",
    "é",
    "\r",
    "[",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_secret_survives_however_it_is_quoted((line, value) in line()) {
        let masked = checked(&line);
        prop_assert!(!survives(&masked, &value), "{}\n{}", line, masked);
    }

    #[test]
    fn nor_where_the_line_is_broken((line, value) in line(), how in select(&BROKEN[..])) {
        let line = how.replace("{}", &line);
        let masked = checked(&line);
        prop_assert!(!survives(&masked, &value), "{}\n{}", line, masked);
    }

    #[test]
    fn what_is_not_taken_apart_shows_no_more((line, _) in line()) {
        if let Some(exact) = exact_spots(&line) {
            let scanned = scan::spots(&line);
            prop_assert!(covers(&scanned, &exact), "{}\n{}\n{}", line, replaced(&line, exact), replaced(&line, scanned));
        }
    }

    #[test]
    fn nor_where_anything_stands_in_the_line(pieces in proptest::collection::vec(select(&PIECES[..]), 0..14)) {
        let line: String = pieces.concat();
        checked(&line);
        if let Some(exact) = exact_spots(&line) {
            let scanned = scan::spots(&line);
            prop_assert!(covers(&scanned, &exact), "{}\n{}\n{}", line, replaced(&line, exact), replaced(&line, scanned));
            // What is not looked at holds none.
            prop_assert!(scan::may_hold_any(&line) || exact.is_empty(), "{}", line);
        }
    }

    #[test]
    fn any_text_is_masked_once(line in "\\PC{0,60}") {
        checked(&line);
    }
}
