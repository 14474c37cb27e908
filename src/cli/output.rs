//! What is written for a person and for programs. Data goes to stdout, everything else to stderr; nothing of an ask reaches
//! either unescaped.

use std::io::{self, Write as _};

use anyhow::Context as _;
use serde_json::Value;

use crate::presentation::{json, text};

/// Writes lines to stdout. A reader that went away is no error: the program just stops writing.
#[derive(Debug)]
pub(super) struct Out {
    stdout: io::BufWriter<io::Stdout>,
    closed: bool,
}

impl Out {
    /// The standard output.
    pub(super) fn stdout() -> Self {
        Self {
            stdout: io::BufWriter::new(io::stdout()),
            closed: false,
        }
    }

    /// Writes one line.
    pub(super) fn line(&mut self, line: &str) -> anyhow::Result<()> {
        self.raw(line.as_bytes())
    }

    /// Writes one JSON value as one line.
    pub(super) fn json(&mut self, value: &Value) -> anyhow::Result<()> {
        self.line(&json::line(value).context("cannot write JSON")?)
    }

    /// Writes one line of bytes as they are.
    pub(super) fn raw(&mut self, line: &[u8]) -> anyhow::Result<()> {
        self.write(line)?;
        self.write(b"\n")
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        if self.closed {
            return Ok(());
        }
        match self.stdout.write_all(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            other => other.context("cannot write to stdout"),
        }
    }

    /// Whether the reader went away.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Writes out what is buffered.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        match self.stdout.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            other => other.context("cannot write to stdout"),
        }
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        // Whoever must know that it worked has flushed before.
        let _flushed = self.stdout.flush();
    }
}

/// Writes a line for the person. One that reads no more changes nothing about what is done.
fn to_stderr(line: &str) {
    let _nobody_reads = writeln!(io::stderr(), "{line}");
}

/// Says something to the person that is no data.
pub(super) fn say(line: &str) {
    to_stderr(line);
}

/// Warns of something that does not stop the program.
pub(super) fn warn(message: &str) {
    to_stderr(&format!("warning: {}", text::visible(message)));
}

/// Prints an error with its causes, and what to do next.
pub(super) fn error(error: &anyhow::Error, hint: Option<&str>) {
    to_stderr(&format!("error: {}", text::visible(&error.to_string())));
    for cause in error.chain().skip(1) {
        to_stderr(&format!(
            "  caused by: {}",
            text::visible(&cause.to_string())
        ));
    }
    if let Some(hint) = hint {
        to_stderr(&format!("\nhint: {hint}"));
    }
}

/// Rows of text in aligned columns; the last column is not padded.
pub(super) fn table(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| text::width(cell))
                .max()
                .unwrap_or(0)
        })
        .collect();
    rows.iter()
        .map(|row| {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                line.push_str(cell);
                if at + 1 < row.len() {
                    let wide = widths
                        .get(at)
                        .copied()
                        .unwrap_or(0)
                        .saturating_sub(text::width(cell));
                    line.extend(std::iter::repeat_n(' ', wide + 2));
                }
            }
            line
        })
        .collect()
}

/// How long something took or is old, in the largest unit that says it.
pub(super) fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_width() {
        let rows = [vec!["a".into(), "b".into()], vec!["界".into(), "c".into()]];
        assert_eq!(table(&rows), ["a   b", "界  c"]);
    }

    #[test]
    fn spans_name_two_units_at_most() {
        assert_eq!(
            [span(5), span(65), span(3_700), span(90_000)],
            ["5s", "1m05s", "1h01m", "1d01h"]
        );
    }
}
