//! The log file and the one way into it.

use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{AuditError, Entry, Event, Refusal, line};

/// How often, and how far apart, a missing newline is looked at again: another process may be writing just now.
const TAIL_LOOKS: usize = 5;
const TAIL_PAUSE: Duration = Duration::from_millis(1);

/// Mode of the log, from its first byte on.
const OWNER_ONLY: Mode = Mode::RUSR.union(Mode::WUSR);

/// No torn tail is to be recorded.
const NONE: u64 = u64::MAX;

/// How a review log is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Most UTF-16 units of one text.
    pub field_max_width: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            field_max_width: 1000,
        }
    }
}

/// An open review log, or none where the operator switched it off.
#[derive(Debug)]
pub struct ReviewLog {
    target: Option<Target>,
}

#[derive(Debug)]
struct Target {
    file: File,
    path: PathBuf,
    options: Options,
    /// Length of the file whose torn tail the next write records, or [`NONE`]. Records need a time, and opening has none.
    torn_at: AtomicU64,
    /// Whether a write of our own was cut off, so that the next one must start a fresh line.
    cut_off: AtomicBool,
}

impl ReviewLog {
    /// Opens the log at `path` for appending; makes it, and the directories above it, where they are missing. Behind a line
    /// that was cut off it starts a fresh one, and records that with the first append.
    pub fn open(path: &Path, options: Options) -> Result<Self, AuditError> {
        make_parent(path)?;
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        let file = open_checked(path, flags)?;
        close_to_others(&file).map_err(|source| AuditError::Open {
            path: path.to_owned(),
            source,
        })?;
        let target = Target {
            file,
            path: path.to_owned(),
            options,
            torn_at: AtomicU64::new(NONE),
            cut_off: AtomicBool::new(false),
        };
        if let Some(length) = target.torn_tail().map_err(|source| AuditError::Read {
            path: path.to_owned(),
            source,
        })? {
            target.write(b"\n")?;
            target.torn_at.store(length, Ordering::Relaxed);
        }
        Ok(Self {
            target: Some(target),
        })
    }

    /// A log that takes every record and keeps none.
    pub fn disabled() -> Self {
        Self { target: None }
    }

    /// Whether records are kept.
    pub fn is_enabled(&self) -> bool {
        self.target.is_some()
    }

    /// Appends one record of what happened at `at_ms`, in epoch milliseconds.
    pub fn append(&self, at_ms: i64, entry: &Entry) -> Result<(), AuditError> {
        self.append_all(at_ms, std::slice::from_ref(entry))
    }

    /// Appends several records with one write: they stand next to each other, whoever else writes.
    pub fn append_all(&self, at_ms: i64, entries: &[Entry]) -> Result<(), AuditError> {
        match &self.target {
            Some(target) if !entries.is_empty() => target.append(at_ms, entries),
            Some(_) | None => Ok(()),
        }
    }
}

impl Target {
    fn append(&self, at_ms: i64, entries: &[Entry]) -> Result<(), AuditError> {
        let width = self.options.field_max_width;
        let mut out = Vec::with_capacity(1024 * entries.len());
        if self.cut_off.swap(false, Ordering::Relaxed) {
            out.push(b'\n');
        }
        let torn_at = self.torn_at.swap(NONE, Ordering::Relaxed);
        let torn = (torn_at != NONE).then(|| Entry::new(Event::TornTail).with("atByte", torn_at));
        for entry in torn.iter().chain(entries) {
            line::write(&mut out, at_ms, entry, width)
                .map_err(|error| self.failed(error.into()))?;
        }
        let written = self.write(&out);
        if written.is_err() && torn_at != NONE {
            self.torn_at.store(torn_at, Ordering::Relaxed);
        }
        written
    }

    /// Writes whole lines. The kernel takes them in one piece, but on a full disk or another odd day; the rest then follows,
    /// or the next write starts a fresh line.
    fn write(&self, lines: &[u8]) -> Result<(), AuditError> {
        let mut rest = lines;
        while !rest.is_empty() {
            let written = match (&self.file).write(rest) {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other,
            };
            match written {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(source) => {
                    // A fresh line that was due, and was not begun, is due still.
                    let begun = rest.len() < lines.len();
                    if begun || lines.starts_with(b"\n") {
                        self.cut_off.store(true, Ordering::Relaxed);
                    }
                    return Err(self.failed(source));
                }
            }
        }
        Ok(())
    }

    /// Length of the file where its last line has no end.
    fn torn_tail(&self) -> io::Result<Option<u64>> {
        for look in 0..TAIL_LOOKS {
            if look > 0 {
                std::thread::sleep(TAIL_PAUSE);
            }
            let length = self.file.metadata()?.len();
            let Some(last) = length.checked_sub(1) else {
                return Ok(None);
            };
            let mut byte = [0];
            self.file.read_exact_at(&mut byte, last)?;
            if byte == *b"\n" {
                return Ok(None);
            }
        }
        Ok(Some(self.file.metadata()?.len()))
    }

    fn failed(&self, source: io::Error) -> AuditError {
        AuditError::Write {
            path: self.path.clone(),
            source,
        }
    }
}

fn make_parent(path: &Path) -> Result<(), AuditError> {
    let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    else {
        return Ok(());
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(parent)
        .map_err(|source| AuditError::Directory {
            path: parent.to_owned(),
            source,
        })
}

/// Takes from others what a log of an older or another program may have left open to them.
fn close_to_others(file: &File) -> io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(file)?.st_mode);
    if mode.intersects(Mode::RWXG | Mode::RWXO) {
        rustix::fs::fchmod(file, OWNER_ONLY)?;
    }
    Ok(())
}

/// Opens `path` without following a link or waiting for a pipe, and looks at what was opened: a regular file of ours.
pub(super) fn open_checked(path: &Path, flags: OFlags) -> Result<File, AuditError> {
    let refused = |reason| AuditError::Refused {
        path: path.to_owned(),
        reason,
    };
    let failed = |error: Errno| AuditError::Open {
        path: path.to_owned(),
        source: error.into(),
    };
    let guards = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags | guards, OWNER_ONLY) {
        Ok(descriptor) => File::from(descriptor),
        Err(Errno::LOOP) => return Err(refused(Refusal::SymbolicLink)),
        Err(Errno::ISDIR | Errno::NXIO) => return Err(refused(Refusal::NotRegular)),
        Err(error) => return Err(failed(error)),
    };
    let status = rustix::fs::fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(refused(Refusal::NotRegular));
    }
    if status.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refused(Refusal::ForeignOwner(status.st_uid)));
    }
    Ok(file)
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests lay out odd files and look at what was written"
)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::Barrier;

    use super::*;
    use crate::audit::{Record, read_entries};

    fn log_in(directory: &Path) -> PathBuf {
        directory.join("a/b/review.jsonl")
    }

    fn open(path: &Path) -> ReviewLog {
        ReviewLog::open(path, Options::default()).unwrap()
    }

    fn events(path: &Path) -> Vec<String> {
        read_entries(path)
            .unwrap()
            .map(|record| match record.unwrap() {
                Record::Entry(entry) => entry["event"].as_str().unwrap().to_owned(),
                Record::Torn { line, bytes } => format!("torn {line} {bytes}"),
            })
            .collect()
    }

    fn refusal(path: &Path) -> Refusal {
        match ReviewLog::open(path, Options::default()) {
            Err(AuditError::Refused { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn records_are_appended_and_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = log_in(directory.path());
        let log = open(&path);
        log.append(0, &Entry::test("one").with("requestId", "r"))
            .unwrap();
        log.append_all(1, &[Entry::test("two"), Entry::test("three")])
            .unwrap();
        log.append_all(1, &[]).unwrap();
        open(&path).append(2, &Entry::test("four")).unwrap();
        assert_eq!(events(&path), ["one", "two", "three", "four"]);
        assert!(log.is_enabled());
    }

    #[test]
    fn a_disabled_log_takes_everything_and_keeps_nothing() {
        let log = ReviewLog::disabled();
        log.append(0, &Entry::test("one")).unwrap();
        assert!(!log.is_enabled());
    }

    #[test]
    fn audit_1_a_torn_tail_costs_itself_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("review.jsonl");
        fs::write(&path, "{\"event\":\"first\"}\n{\"ts\":1,\"ev").unwrap();
        let log = open(&path);
        log.append(5, &Entry::test("good")).unwrap();
        log.append(5, &Entry::test("better")).unwrap();
        assert_eq!(
            events(&path),
            [
                "first",
                "torn 2 11",
                Event::TornTail.name(),
                "good",
                "better"
            ]
        );
        let torn = fs::read_to_string(&path).unwrap();
        assert!(
            torn.contains("\"event\":\"review_log.torn_tail\",\"atByte\":29}"),
            "{torn}"
        );
        // It is recorded once.
        open(&path).append(6, &Entry::test("last")).unwrap();
        assert_eq!(events(&path).len(), 6);
    }

    #[test]
    fn a_record_that_was_glued_to_a_torn_piece_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("review.jsonl");
        let good = r#"{"timestamp":"t","event":"good","nested":{"timestamp":"x"}}"#;
        fs::write(&path, format!("{{\"ts\":1,\"ev{good}\n\n\u{FFFD}\n{good}")).unwrap();
        assert_eq!(events(&path), ["torn 1 11", "good", "torn 3 3", "good"]);
    }

    #[test]
    fn lines_without_end_and_bad_bytes_stop_no_reader() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("review.jsonl");
        let mut bytes = vec![b'x'; 17 << 20];
        bytes.extend_from_slice(b"\n\xff\xfe\n[1]\n{\"event\":\"good\"}");
        fs::write(&path, bytes).unwrap();
        assert_eq!(
            events(&path),
            ["torn 1 17825792", "torn 2 2", "torn 3 3", "good"]
        );
    }

    /// Eight writers with descriptors of their own stand in for eight processes: the kernel makes no difference.
    #[test]
    fn audit_2_records_of_several_writers_are_never_mixed() {
        const WRITERS: usize = 8;
        const RECORDS: usize = 500;
        let directory = tempfile::tempdir().unwrap();
        let path = log_in(directory.path());
        let start = Barrier::new(WRITERS);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (path, start) = (&path, &start);
                scope.spawn(move || {
                    let options = Options {
                        field_max_width: 10_000,
                    };
                    let log = ReviewLog::open(path, options).unwrap();
                    start.wait();
                    for record in 0..RECORDS {
                        let text = "x".repeat(3000 + (writer * 7919 + record * 104_729) % 6000);
                        let entry = Entry::test("e")
                            .with("writer", writer)
                            .with("record", record)
                            .with("text", text);
                        log.append(0, &entry).unwrap();
                    }
                });
            }
        });
        let mut next = [0; WRITERS];
        for record in read_entries(&path).unwrap() {
            let Record::Entry(entry) = record.unwrap() else {
                panic!("a torn record")
            };
            let writer = usize::try_from(entry["writer"].as_u64().unwrap()).unwrap();
            assert_eq!(entry["record"], next[writer]);
            next[writer] += 1;
        }
        assert_eq!(next, [RECORDS; WRITERS]);
    }

    #[test]
    fn fsobj_8_modes_hold_under_any_umask() {
        let directory = tempfile::tempdir().unwrap();
        let path = log_in(directory.path());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let before = rustix::process::umask(Mode::empty());
        let log = ReviewLog::open(&path, Options::default());
        rustix::process::umask(before);
        log.unwrap().append(0, &Entry::test("one")).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&directory.path().join("a/b")), 0o700);
        assert_eq!(mode(&directory.path().join("a")), 0o700);
        // What was open to others is not any more.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        open(&path).append(0, &Entry::test("two")).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn what_is_no_file_of_ours_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "").unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), FileType::Fifo, OWNER_ONLY, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert_eq!(refusal(&at("link")), Refusal::SymbolicLink);
        assert_eq!(refusal(&at("dangling")), Refusal::SymbolicLink);
        for name in ["directory", "pipe", "socket"] {
            assert_eq!(refusal(&at(name)), Refusal::NotRegular, "{name}");
        }
        assert!(!at("nowhere").exists());
        // Only root can give a file away.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(at("file"), Some(12345), None).unwrap();
            assert_eq!(refusal(&at("file")), Refusal::ForeignOwner(12345));
        }
    }

    #[test]
    fn a_log_that_cannot_be_written_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("review.jsonl");
        fs::write(&path, "").unwrap();
        let target = |file| Target {
            file,
            path: path.clone(),
            options: Options::default(),
            torn_at: AtomicU64::new(7),
            cut_off: AtomicBool::new(false),
        };
        let unwritable = target(File::open(&path).unwrap());
        let error = unwritable.append(0, &[Entry::test("one")]).unwrap_err();
        assert!(error.to_string().contains("review.jsonl"), "{error}");
        // What the next record has to tell is not forgotten.
        assert_eq!(unwritable.torn_at.load(Ordering::Relaxed), 7);
        assert!(!unwritable.cut_off.load(Ordering::Relaxed));

        let cut = ReviewLog {
            target: Some(target(File::options().append(true).open(&path).unwrap())),
        };
        let inner = cut.target.as_ref().unwrap();
        inner.torn_at.store(NONE, Ordering::Relaxed);
        inner.write(b"{\"timestamp\":\"half a rec").unwrap();
        inner.cut_off.store(true, Ordering::Relaxed);
        cut.append(0, &Entry::test("two")).unwrap();
        cut.append(0, &Entry::test("three")).unwrap();
        assert_eq!(events(&path), ["torn 1 24", "two", "three"]);
        let blocked = ReviewLog::open(&path.join("below"), Options::default()).unwrap_err();
        assert!(
            matches!(blocked, AuditError::Directory { .. }),
            "{blocked:?}"
        );
    }
}
