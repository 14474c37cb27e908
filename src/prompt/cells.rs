//! Visible text into cells, one cluster after the other.
//!
//! Columns are counted as [`text::width`] counts them, by the same clusters: what is counted is what is drawn, and no part of a text is
//! lost between two opinions about the width of a character.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use crate::presentation::text;

/// Cells of a screen part: so many columns, so many rows, all blank.
pub(super) fn blank(columns: u16, rows: u16) -> Buffer {
    Buffer::empty(Rect::new(0, 0, columns, rows))
}

/// Writes `line` from column `x` of row `y`, as far as it fits. Gives the column behind it.
pub(super) fn put(cells: &mut Buffer, x: u16, y: u16, line: &Line<'_>) -> u16 {
    let mut x = x;
    for span in &line.spans {
        let style = line.style.patch(span.style);
        x = put_text(cells, x, y, &span.content, style);
    }
    x
}

/// Writes `shown` from column `x` of row `y`, as far as it fits. Gives the column behind it.
pub(super) fn put_text(cells: &mut Buffer, x: u16, y: u16, shown: &str, style: Style) -> u16 {
    let columns = cells.area.width;
    let mut x = x;
    for (cluster, wide) in text::clusters(shown) {
        let Some(behind) = u16::try_from(wide)
            .ok()
            .and_then(|wide| x.checked_add(wide))
            .filter(|behind| *behind <= columns)
        else {
            break;
        };
        if let Some(cell) = cells.cell_mut((x, y)) {
            cell.set_symbol(cluster).set_style(style);
        }
        x = behind;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_drawn_as_wide_as_it_is_counted_and_never_beyond_the_edge() {
        for shown in ["plain", "你好", "👍🏽x", "e\u{301}x", "🇩🇪x", "❤\u{FE0F}x"] {
            let width = u16::try_from(text::width(shown)).unwrap();
            let mut cells = blank(20, 1);
            assert_eq!(put_text(&mut cells, 0, 0, shown, Style::default()), width);
            let drawn: String = (0..20)
                .map(|x| cells[(x, 0)].symbol())
                .filter(|symbol| *symbol != " ")
                .collect();
            assert_eq!(drawn, shown);
        }
        let mut cells = blank(3, 1);
        assert_eq!(put_text(&mut cells, 0, 0, "ab你", Style::default()), 2);
        assert_eq!(put_text(&mut cells, 9, 9, "x", Style::default()), 9);
    }
}
