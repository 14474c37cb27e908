//! What is on a terminal, as a picture for the documentation.

use std::fmt::Write as _;

use super::spool::eventually;

/// Size of a cell, in the units of the picture.
const CELL: (usize, usize) = (9, 20);
const MARGIN: usize = 14;

/// How a run of cells looks.
#[derive(Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "a cell has as many")]
struct Look {
    colour: vt100::Color,
    bold: bool,
    dim: bool,
    italic: bool,
    reversed: bool,
}

impl Look {
    fn of(cell: &vt100::Cell) -> Self {
        Self {
            colour: cell.fgcolor(),
            bold: cell.bold(),
            dim: cell.dim(),
            italic: cell.italic(),
            reversed: cell.inverse(),
        }
    }

    fn fill(&self) -> &'static str {
        let colour = match self.colour {
            vt100::Color::Idx(1 | 9) => "#e06c75",
            vt100::Color::Idx(2 | 10) => "#98c379",
            vt100::Color::Idx(3 | 11) => "#e5c07b",
            vt100::Color::Idx(4 | 12) => "#61afef",
            vt100::Color::Idx(5 | 13) => "#c678dd",
            vt100::Color::Idx(6 | 14) => "#56b6c2",
            vt100::Color::Default | vt100::Color::Idx(_) | vt100::Color::Rgb(..) if self.dim => {
                "#7f848e"
            }
            vt100::Color::Default | vt100::Color::Idx(_) | vt100::Color::Rgb(..) => "#d7dae0",
        };
        if self.reversed { "#1e2127" } else { colour }
    }
}

/// The screen as SVG, from the row in which `from` stands down to its last row that shows something.
pub(crate) fn svg(screen: &vt100::Screen, from: &str, title: &str) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let shows = |row: &u16| {
        (0..columns).any(|column| {
            screen
                .cell(*row, column)
                .is_some_and(|cell| cell.has_contents() && cell.contents() != " ")
        })
    };
    let first = screen.rows(0, columns).position(|row| row.contains(from));
    let first = u16::try_from(first.unwrap_or_default()).unwrap();
    let rows = (0..rows).rev().find(shows).map_or(1, |row| row + 1);
    let width = usize::from(columns) * CELL.0 + 2 * MARGIN;
    let height = usize::from(rows - first) * CELL.1 + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1e2127\"/>\n\
         <g font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"15\">\n",
        escaped(title)
    );
    for row in first..rows {
        for (column, look, text) in runs(screen, row, columns) {
            let (x, y) = (
                MARGIN + column * CELL.0,
                MARGIN + usize::from(row - first) * CELL.1,
            );
            let cells = text.chars().count();
            if look.reversed {
                let (w, h) = (cells * CELL.0, CELL.1);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"#d7dae0\"/>"
                );
            }
            if text.trim().is_empty() {
                continue;
            }
            let mut style = String::new();
            if look.bold {
                style.push_str(" font-weight=\"bold\"");
            }
            if look.italic {
                style.push_str(" font-style=\"italic\"");
            }
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{}\" textLength=\"{}\" fill=\"{}\"{style} xml:space=\"preserve\">{}</text>",
                y + 15,
                cells * CELL.0,
                look.fill(),
                escaped(&text)
            );
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// The cells of a row that look alike, as their column, their look, and their text.
fn runs(screen: &vt100::Screen, row: u16, columns: u16) -> Vec<(usize, Look, String)> {
    let mut runs: Vec<(usize, Look, String)> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column) else {
            continue;
        };
        if cell.is_wide_continuation() {
            continue;
        }
        let shown = if cell.has_contents() {
            cell.contents()
        } else {
            " "
        };
        let look = Look::of(cell);
        match runs.last_mut() {
            Some((_, last, text)) if *last == look => text.push_str(shown),
            _ => runs.push((usize::from(column), look, shown.to_owned())),
        }
    }
    for (_, _, text) in &mut runs {
        if !text.trim().is_empty() {
            let end = text.trim_end().len();
            text.truncate(end);
        }
    }
    runs
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Waits until the screen is the picture of this name in docs/pictures. With `ASKRELAY_UPDATE_PICTURES` set, it is written anew.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "the pictures are files")]
pub(crate) fn assert_picture(name: &str, title: &str, draw: impl Fn(&str) -> String) {
    let path = format!("{}/docs/pictures/{name}.svg", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("ASKRELAY_UPDATE_PICTURES").is_some() {
        std::fs::write(&path, draw(title)).unwrap();
        return;
    }
    let picture = std::fs::read_to_string(&path).unwrap_or_default();
    eventually(&format!("the screen of {path}"), || {
        (draw(title) == picture).then_some(())
    });
}
