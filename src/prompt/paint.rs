//! Frames onto a terminal: a part of the screen below the scrollback, or the whole of it.
//!
//! It turns cells into the bytes that show them and keeps in mind what it painted, so that it can take it away again. It holds no
//! terminal: the bytes are the caller's to write. What the cells hold was made visible long before.
//!
//! An inline frame is placed by relative movement only. Asking the terminal where its cursor is would need its answer, among the keys
//! of a person, from terminals that may not give one.
//!
//! Invariants: an inline frame is never higher than the screen; lines that are printed for good stand above it, each once.

use ratatui::backend::IntoCrossterm as _;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::cursor::{Hide, MoveTo, MoveToColumn, MoveUp, Show};
use ratatui::crossterm::style::{ContentStyle, Print, PrintStyledContent};
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen,
};
use ratatui::crossterm::{Command, style::StyledContent};
use ratatui::layout::{Position, Size};
use ratatui::style::Style;
use ratatui::text::Line;

use crate::presentation::text;

/// What is on the screen.
#[derive(Debug)]
pub(super) struct Frame {
    /// Its cells, as wide as the screen.
    pub(super) cells: Buffer,
    /// Where it stands.
    pub(super) place: Place,
    /// Where the cursor blinks, if it does.
    pub(super) cursor: Option<Position>,
}

/// Where a frame stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Below what was printed before.
    Inline,
    /// On the whole of the alternate screen.
    Full,
}

/// Whether frames have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// They do.
    Shown,
    /// They make do with bold, dim and reversed text.
    Plain,
}

/// Turns frames into bytes.
#[derive(Debug)]
pub(super) struct Painter {
    colours: Colours,
    bytes: Vec<u8>,
    /// What is painted inline, if anything is.
    inline: Option<Painted>,
    full: bool,
    /// Lines that came while the whole screen was taken.
    held_back: Vec<Line<'static>>,
}

/// An inline frame as it was painted.
#[derive(Debug)]
struct Painted {
    /// Columns that each of its rows takes.
    widths: Vec<usize>,
    /// Its row with the cursor.
    cursor_row: usize,
}

impl Painter {
    pub(super) fn new(colours: Colours) -> Self {
        Self {
            colours,
            bytes: Vec::new(),
            inline: None,
            full: false,
            held_back: Vec::new(),
        }
    }

    /// Whether the whole screen is taken.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// The bytes since the last call, to be written in one go.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Shows a frame in place of the one before.
    pub(super) fn paint(&mut self, frame: &Frame, size: Size) {
        self.add(BeginSynchronizedUpdate);
        self.add(Hide);
        match frame.place {
            Place::Inline => {
                self.leave_full();
                self.erase_inline(size);
                let lines = std::mem::take(&mut self.held_back);
                self.print_lines(&lines);
                self.paint_inline(frame);
            }
            Place::Full => self.paint_full(frame),
        }
        self.add(EndSynchronizedUpdate);
    }

    /// Prints lines for good, above the frame. The frame has to be painted again.
    pub(super) fn print(&mut self, lines: Vec<Line<'static>>, size: Size) {
        if self.full {
            self.held_back.extend(lines);
            return;
        }
        self.erase_inline(size);
        self.print_lines(&lines);
    }

    /// Takes everything away that was painted, and leaves the printed lines.
    pub(super) fn clear(&mut self, size: Size) {
        self.leave_full();
        self.erase_inline(size);
        let lines = std::mem::take(&mut self.held_back);
        self.print_lines(&lines);
        self.add(Show);
    }

    /// The terminal may show anything by now: nothing of what was painted is counted on.
    pub(super) fn forget(&mut self) {
        self.inline = None;
        if std::mem::take(&mut self.full) {
            self.add(LeaveAlternateScreen);
        }
    }

    fn leave_full(&mut self) {
        if std::mem::take(&mut self.full) {
            self.add(LeaveAlternateScreen);
        }
    }

    fn erase_inline(&mut self, size: Size) {
        let Some(painted) = self.inline.take() else {
            return;
        };
        let columns = usize::from(size.width).max(1);
        // A screen that has become narrower since has wrapped the rows.
        let above: usize = painted
            .widths
            .iter()
            .take(painted.cursor_row)
            .map(|width| width.div_ceil(columns).max(1))
            .sum();
        let above = above.min(usize::from(size.height));
        if let Ok(rows @ 1..) = u16::try_from(above) {
            self.add(MoveUp(rows));
        }
        self.add(MoveToColumn(0));
        self.add(Clear(ClearType::FromCursorDown));
    }

    fn print_lines(&mut self, lines: &[Line<'static>]) {
        for line in lines {
            for span in &line.spans {
                self.styled(line.style.patch(span.style), span.content.to_string());
            }
            self.add(Print("\r\n"));
        }
    }

    fn paint_inline(&mut self, frame: &Frame) {
        let height = frame.cells.area.height;
        let mut widths = Vec::with_capacity(usize::from(height));
        for row in 0..height {
            if row > 0 {
                self.add(Print("\r\n"));
            }
            widths.push(self.row(&frame.cells, row));
        }
        let last = usize::from(height.saturating_sub(1));
        let mut cursor_row = last;
        if let Some(cursor) = frame.cursor {
            cursor_row = usize::from(cursor.y).min(last);
            if let Ok(up @ 1..) = u16::try_from(last - cursor_row) {
                self.add(MoveUp(up));
            }
            self.add(MoveToColumn(cursor.x));
            self.add(Show);
        }
        self.inline = Some(Painted { widths, cursor_row });
    }

    fn paint_full(&mut self, frame: &Frame) {
        if !std::mem::replace(&mut self.full, true) {
            self.add(EnterAlternateScreen);
        }
        for row in 0..frame.cells.area.height {
            self.add(MoveTo(0, row));
            self.row(&frame.cells, row);
            self.add(Clear(ClearType::UntilNewLine));
        }
        self.add(Clear(ClearType::FromCursorDown));
        if let Some(cursor) = frame.cursor {
            self.add(MoveTo(cursor.x, cursor.y));
            self.add(Show);
        }
    }

    /// Writes one row up to its last cell that shows something. Gives its columns.
    fn row(&mut self, cells: &Buffer, row: u16) -> usize {
        let blank = |x: &u16| {
            cells
                .cell((*x, row))
                .is_none_or(|cell| cell.symbol() == " " && cell.style() == Cell::EMPTY.style())
        };
        let width = (0..cells.area.width)
            .rev()
            .find(|x| !blank(x))
            .map_or(0, |x| x + 1);
        let mut run = (Cell::EMPTY.style(), String::new());
        let mut covered = 0;
        for x in 0..width {
            let Some(cell) = cells.cell((x, row)).filter(|_| x >= covered) else {
                continue;
            };
            if cell.style() != run.0 {
                let (style, shown) = std::mem::replace(&mut run, (cell.style(), String::new()));
                self.styled(style, shown);
            }
            run.1.push_str(cell.symbol());
            // A character of two columns stands over the cell behind it.
            covered = x.saturating_add(u16::try_from(text::width(cell.symbol())).unwrap_or(1));
        }
        self.styled(run.0, run.1);
        usize::from(width)
    }

    fn styled(&mut self, style: Style, shown: String) {
        if shown.is_empty() {
            return;
        }
        let mut style: ContentStyle = style.into_crossterm();
        if self.colours == Colours::Plain {
            style.foreground_color = None;
            style.background_color = None;
        }
        self.add(PrintStyledContent(StyledContent::new(style, shown)));
    }

    fn add(&mut self, command: impl Command) {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _written = command.write_ansi(&mut text);
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Stylize as _;

    use super::*;

    /// A terminal of our own that takes the bytes.
    struct Screen {
        parser: vt100::Parser,
        size: Size,
        painter: Painter,
    }

    impl Screen {
        fn new(columns: u16, rows: u16) -> Self {
            let (r, c) = (rows.try_into().unwrap(), columns.try_into().unwrap());
            Self {
                parser: vt100::Parser::new(r, c, 100),
                size: Size::new(columns, rows),
                painter: Painter::new(Colours::Shown),
            }
        }

        fn paint(&mut self, place: Place, rows: &[&str]) {
            let height = u16::try_from(rows.len()).unwrap();
            let mut cells = Buffer::empty(Rect::new(0, 0, self.size.width, height));
            for (y, row) in (0..).zip(rows) {
                cells.set_string(0, y, row, Style::default());
            }
            let cursor = None;
            self.painter.paint(
                &Frame {
                    cells,
                    place,
                    cursor,
                },
                self.size,
            );
            self.flush();
        }

        fn print(&mut self, line: &'static str) {
            self.painter.print(vec![Line::from(line)], self.size);
            self.flush();
        }

        fn flush(&mut self) {
            let bytes = self.painter.take();
            self.parser.process(&bytes);
        }

        fn rows(&self) -> Vec<String> {
            let rows = self.parser.screen().contents();
            rows.lines().map(str::to_owned).collect()
        }
    }

    #[test]
    fn an_inline_frame_takes_the_place_of_the_one_before() {
        let mut screen = Screen::new(20, 6);
        screen.parser.process(b"$ askrelay serve\r\n");
        screen.paint(Place::Inline, &["one", "two", "three"]);
        assert_eq!(screen.rows(), ["$ askrelay serve", "one", "two", "three"]);
        screen.paint(Place::Inline, &["four"]);
        assert_eq!(screen.rows(), ["$ askrelay serve", "four"]);
        screen.print("closed");
        screen.paint(Place::Inline, &["five", "six"]);
        assert_eq!(screen.rows(), ["$ askrelay serve", "closed", "five", "six"]);
        screen.painter.clear(screen.size);
        screen.flush();
        assert_eq!(screen.rows(), ["$ askrelay serve", "closed"]);
    }

    #[test]
    fn a_frame_at_the_bottom_pushes_what_is_above_into_the_scrollback() {
        let mut screen = Screen::new(10, 4);
        screen.parser.process(b"a\r\nb\r\nc\r\n");
        screen.paint(Place::Inline, &["1", "2", "3", "4"]);
        assert_eq!(screen.rows(), ["1", "2", "3", "4"]);
        screen.paint(Place::Inline, &["5"]);
        assert_eq!(screen.rows(), ["5"]);
    }

    #[test]
    fn the_whole_screen_gives_back_what_was_below() {
        let mut screen = Screen::new(12, 4);
        screen.paint(Place::Inline, &["small"]);
        screen.paint(Place::Full, &["all", "of", "it", "here"]);
        assert_eq!(screen.rows(), ["all", "of", "it", "here"]);
        screen.print("held back");
        assert_eq!(screen.rows(), ["all", "of", "it", "here"]);
        screen.paint(Place::Full, &["less", "", "", "x"]);
        assert_eq!(screen.rows(), ["less", "", "", "x"]);
        screen.paint(Place::Inline, &["small"]);
        assert_eq!(screen.rows(), ["held back", "small"]);
    }

    #[test]
    fn wide_characters_and_styles_come_through() {
        let mut screen = Screen::new(12, 2);
        let mut cells = Buffer::empty(Rect::new(0, 0, 12, 1));
        cells.set_line(0, 0, &Line::from(vec!["你好".red(), "!x".bold()]), 12);
        let frame = Frame {
            cells,
            place: Place::Inline,
            cursor: Some(Position::new(4, 0)),
        };
        screen.painter.paint(&frame, screen.size);
        screen.flush();
        assert_eq!(screen.rows(), ["你好!x"]);
        let shown = screen.parser.screen();
        assert_eq!(shown.cell(0, 0).unwrap().fgcolor(), vt100::Color::Idx(1));
        assert!(shown.cell(0, 5).unwrap().bold());
        assert_eq!(shown.cursor_position(), (0, 4));
        assert!(!shown.hide_cursor());
        screen.painter.colours = Colours::Plain;
        screen.painter.paint(&frame, screen.size);
        screen.flush();
        let shown = screen.parser.screen();
        assert_eq!(shown.cell(0, 0).unwrap().fgcolor(), vt100::Color::Default);
        assert!(shown.cell(0, 5).unwrap().bold());
    }
}
