//! Programs that run a command again and again: for each file, for each argument, every few seconds.

use super::Floor;
use super::step::{Inner, Step, commands_from, is_literally, line_of};
use super::word::Word;

pub(super) fn find(words: &[Word]) -> Step {
    let mut commands = Vec::new();
    let mut at = 1;
    while at < words.len() {
        let word = words.get(at);
        at += 1;
        if word.is_some_and(|word| !word.is_one) {
            // It may be any number of words, `-exec` among them; a wildcard gives names of files, which may be called that.
            continue;
        }
        if !is_literally(word, &["-exec", "-execdir", "-ok", "-okdir"]) {
            continue;
        }
        let from = at;
        while at < words.len() && !is_literally(words.get(at), &[";", "+"]) {
            at += 1;
        }
        commands.push(from..at);
        at += 1;
    }
    if commands.is_empty() {
        return Step::plain();
    }
    Step {
        floor: Some(Floor::Indirection),
        ..Step::handing_on("find", Inner::Commands(commands))
    }
}

pub(super) fn fd(words: &[Word]) -> Step {
    let Some(at) = words.iter().position(|word| {
        word.literal().is_some_and(|text| {
            matches!(text, "--exec" | "--exec-batch")
                || text.starts_with("--exec")
                || text.starts_with('-') && !text.starts_with("--") && text.contains(['x', 'X'])
        })
    }) else {
        return Step::plain();
    };
    Step {
        floor: Some(Floor::Indirection),
        ..Step::handing_on("fd", commands_from(words, at + 1))
    }
}

pub(super) fn watch(words: &[Word]) -> Step {
    const FLAGS: &str = "bcCdegprtwx";
    let mut at = 1;
    let mut line = true;
    while let Some(text) = words.get(at).and_then(Word::literal) {
        let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            break;
        };
        at += 1;
        match letters {
            "-" => break,
            "-interval" | "n" | "q" | "-equexit" => at += 1,
            "x" | "-exec" => line = false,
            "-beep" | "-color" | "-no-color" | "-differences" | "-errexit" | "-chgexit"
            | "-precise" | "-no-title" | "-no-wrap" => {}
            _ if letters.starts_with("-interval=") || letters.starts_with("-differences=") => {}
            _ if letters.starts_with('n')
                && letters
                    .chars()
                    .skip(1)
                    .all(|c| c.is_ascii_digit() || c == '.') => {}
            _ if letters.chars().all(|letter| FLAGS.contains(letter)) => {
                line &= !letters.contains('x');
            }
            _ => return Step::floored(Floor::Indirection),
        }
    }
    if at >= words.len() {
        return Step::floored(Floor::Indirection);
    }
    let inner = if line {
        line_of(words, at)
    } else {
        commands_from(words, at)
    };
    Step {
        floor: Some(Floor::Wrapper),
        ..Step::handing_on("watch", inner)
    }
}

/// GNU parallel: the command up to the first source of arguments.
pub(super) fn parallel(words: &[Word]) -> Step {
    let mut at = 1;
    while let Some(text) = words.get(at).and_then(Word::literal) {
        match text {
            "-j" | "--jobs" | "-P" | "-n" | "-N" | "--delay" | "--timeout" | "-I" | "--joblog"
            | "-a" | "--colsep" => at += 2,
            "-k" | "--keep-order" | "--bar" | "--progress" | "-0" | "--null" | "-X" | "-m"
            | "--will-cite" | "--ungroup" | "-u" | "--line-buffer" | "--lb" | "--verbose"
            | "-t" | "--no-notice" | "--halt-on-error" => at += 1,
            _ if text
                .strip_prefix("-j")
                .is_some_and(|jobs| jobs.chars().all(|c| c.is_ascii_digit())) =>
            {
                at += 1;
            }
            _ if text.starts_with('-') => return Step::floored(Floor::Indirection),
            _ => break,
        }
    }
    let sources = [":::", "::::", ":::+", "::::+"];
    let end = words
        .iter()
        .skip(at)
        .position(|word| is_literally(Some(word), &sources))
        .map_or(words.len(), |count| at + count);
    Step {
        floor: Some(Floor::Indirection),
        ..Step::handing_on(
            "parallel",
            if at < end {
                Inner::Line(at..end)
            } else {
                Inner::Nothing
            },
        )
    }
}
