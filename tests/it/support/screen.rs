//! A process on a terminal of its own, and what a person would see there.

use std::io::{Read as _, Write};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

use super::picture::{assert_picture, svg};
use super::spool::{eventually, pass};

/// Longer than the time within which keys do not count as pressed by a person.
const APART: Duration = Duration::from_millis(60);

/// A process on a terminal; killed when it is dropped.
pub(crate) struct OnScreen {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    /// All bytes that it has written.
    written: Arc<Mutex<Vec<u8>>>,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize {
        rows,
        cols: columns,
        pixel_width: 0,
        pixel_height: 0,
    }
}

fn parser(columns: u16, rows: u16) -> vt100::Parser {
    vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 1000)
}

impl OnScreen {
    /// Starts `command` on a terminal of this size.
    pub(crate) fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let pty = native_pty_system().openpty(size(columns, rows)).unwrap();
        let mut builder = CommandBuilder::new(command.get_program());
        builder.args(command.get_args());
        builder.env_clear();
        builder.env("TERM", "xterm-256color");
        for (name, value) in command.get_envs() {
            builder.env(name, value.unwrap());
        }
        if let Some(directory) = command.get_current_dir() {
            builder.cwd(directory);
        }
        let child = pty.slave.spawn_command(builder).unwrap();
        let mut output = pty.master.try_clone_reader().unwrap();
        let screen = Arc::new(Mutex::new(parser(columns, rows)));
        let written = Arc::new(Mutex::new(Vec::new()));
        std::thread::spawn({
            let (screen, written) = (Arc::clone(&screen), Arc::clone(&written));
            move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = output.read(&mut buffer) {
                    screen.lock().unwrap().process(&buffer[..count]);
                    written.lock().unwrap().extend_from_slice(&buffer[..count]);
                }
            }
        });
        Self {
            child,
            keyboard: pty.master.take_writer().unwrap(),
            master: pty.master,
            screen,
            written,
        }
    }

    /// The rows that are to be seen now, without blanks at their ends.
    pub(crate) fn text(&self) -> String {
        let screen = self.screen.lock().unwrap();
        let contents = screen.screen().contents();
        let rows: Vec<&str> = contents.lines().map(str::trim_end).collect();
        rows.join("\n")
    }

    /// Fails unless the screen, from the row with `from`, is the picture of this name in the documentation.
    #[track_caller]
    pub(crate) fn assert_picture(&self, name: &str, from: &str, title: &str) {
        assert_picture(name, title, |title| {
            svg(self.screen.lock().unwrap().screen(), from, title)
        });
    }

    /// All that was ever written, control sequences included.
    pub(crate) fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// Waits until this is to be seen, and gives the screen.
    #[track_caller]
    pub(crate) fn await_text(&self, wanted: &str) -> String {
        eventually(&format!("{wanted:?} on the screen"), || {
            let text = self.text();
            text.contains(wanted).then_some(text)
        })
    }

    /// Waits until this is to be seen and keys count.
    #[track_caller]
    pub(crate) fn await_question(&self, wanted: &str) -> String {
        eventually(&format!("a question with {wanted:?}"), || {
            let text = self.text();
            (text.contains(wanted) && !text.contains("keys wake")).then_some(text)
        })
    }

    /// Presses one key, given as the bytes that a terminal sends for it, as a person would: not right after another one.
    pub(crate) fn press(&mut self, key: &str) {
        pass(APART);
        self.send(key);
    }

    /// Sends bytes, all at once.
    pub(crate) fn send(&mut self, bytes: &str) {
        self.keyboard.write_all(bytes.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Pastes, as a terminal does that says so.
    pub(crate) fn paste(&mut self, text: &str) {
        self.send(&format!("\x1b[200~{text}\x1b[201~"));
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        *self.screen.lock().unwrap() = parser(columns, rows);
        self.master.resize(size(columns, rows)).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.process_id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Whether the terminal is in the mode in which a shell leaves it: lines, echo, signals by keys.
    pub(crate) fn is_cooked(&self) -> bool {
        let modes = self.master.get_termios().unwrap();
        let wanted = ["ICANON", "ECHO", "ISIG"];
        let set = format!("{:?}", modes.local_flags);
        wanted
            .iter()
            .all(|mode| set.split([' ', '|', '(', ')']).any(|flag| flag == *mode))
    }

    /// Waits for the end, and gives the exit code.
    #[track_caller]
    pub(crate) fn exit_code(&mut self) -> u32 {
        let status = eventually("the end of a process", || self.child.try_wait().unwrap());
        status.exit_code()
    }
}

impl Drop for OnScreen {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
        if std::thread::panicking() {
            use std::io::stderr;
            let text = format!("--- the screen showed:\n{}\n---\n", self.text());
            let _shown = stderr().write_all(text.as_bytes());
        }
    }
}
