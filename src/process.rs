//! Which process is which, and whether it still lives.
//!
//! A pid alone says little: it is reused, and it means nothing in another boot or namespace. So a process is known by its
//! pid, its start time, the boot and the pid namespace, and "dead" is only said where all of that can be compared.
//!
//! A fault of the program itself, met while it works on one ask, is caught here, so that it costs that ask and no other.

#![expect(clippy::disallowed_methods, reason = "ring 1: reads /proc")]

use std::any::Any;
use std::cell::Cell;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process};

use crate::wire::ProcessMark;

/// Whether a process still lives, as far as this process can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Life {
    /// It exists.
    Alive,
    /// It does not exist any more, or its pid belongs to another process by now.
    Dead,
    /// Its pid cannot be judged from here: another boot, another pid namespace, or nothing known.
    Unknown,
}

/// Pid of this process.
pub fn own_pid() -> u32 {
    static PID: LazyLock<u32> = LazyLock::new(std::process::id);
    *PID
}

/// What makes this process's pid comparable. Read once.
pub fn own_mark() -> &'static ProcessMark {
    static MARK: LazyLock<ProcessMark> = LazyLock::new(|| ProcessMark {
        pid_start: start_time(own_pid()).ok().flatten(),
        boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .ok()
            .map(|id| id.trim().to_owned()),
        pid_ns: fs::read_link("/proc/self/ns/pid")
            .ok()
            .map(|link| link.to_string_lossy().into_owned()),
    });
    &MARK
}

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Does `work`, which is about one ask. A panic in it is given as a text, and whatever `work` was changing must not be used any
/// more: it should change nothing.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let before = CATCHING.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(before);
    done.map_err(|panic| text_of(panic.as_ref()))
}

/// Whether a panic of this thread would be caught: then nothing ends by it.
pub(crate) fn is_catching() -> bool {
    CATCHING.get()
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it is not said why").to_owned()
}

/// Whether the process that calls itself `pid` under `mark` still lives.
pub fn life(pid: u32, mark: &ProcessMark) -> Life {
    if !own_mark().same_pids(mark) {
        return Life::Unknown;
    }
    match exists(pid) {
        Life::Alive => match (start_time(pid), &mark.pid_start) {
            (Ok(Some(now)), Some(then)) if now != *then => Life::Dead,
            (Ok(_) | Err(_), _) => Life::Alive,
        },
        other @ (Life::Dead | Life::Unknown) => other,
    }
}

/// Whether any process has this pid, in this process's own namespace. Used for records of the peer, which name a pid only.
pub fn exists(pid: u32) -> Life {
    // Zero and negative numbers would address a process group.
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Life::Unknown;
    };
    match test_kill_process(pid) {
        // A process of another user answers with a permission error, which means that it exists.
        Ok(()) | Err(Errno::PERM) => Life::Alive,
        Err(Errno::SRCH) => Life::Dead,
        Err(_) => Life::Unknown,
    }
}

/// Closes the memory of this process to other processes of the same user: they cannot read it, trace it, or find it in a core
/// file. A process that it starts is open again.
pub fn close_memory() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(
        rustix::process::DumpableBehavior::NotDumpable,
    )?)
}

/// How a group of processes is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// So that it can put things in order first: SIGTERM.
    Asked,
    /// At once: SIGKILL.
    Forced,
}

/// Tells every process of the group that `leader` leads to end. A group without a process is none; one that belongs to
/// another user is left alone.
pub fn end_group(leader: u32, ending: Ending) {
    // Zero and one would address this process's own group, or everything.
    let leader = i32::try_from(leader).ok().filter(|leader| *leader > 1);
    let signal = match ending {
        Ending::Asked => Signal::TERM,
        Ending::Forced => Signal::KILL,
    };
    if let Some(group) = leader.and_then(Pid::from_raw) {
        // It has ended already, or may not be ended: nothing is left to do in either case.
        let _told = kill_process_group(group, signal);
    }
}

/// What a process must be shown to be before it is told to end: records that name one may come from anybody who can write a file.
#[derive(Debug, Clone, Copy)]
pub struct Proof<'a> {
    /// What makes its pid comparable, its start time included.
    pub mark: &'a ProcessMark,
    /// Its first argument.
    pub command: &'a str,
    /// A file that it has open, by device and inode.
    pub file: (u64, u64),
}

/// Tells a process to end in order, if it runs this very program and is all that `proof` says. Whether it was told.
pub fn ask_to_end(pid: u32, proof: Proof<'_>) -> bool {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    // What is looked at after it was opened is what is told, even if the pid is given away in between.
    let Ok(process) = pidfd_open(raw, PidfdFlags::empty()) else {
        return false;
    };
    is_proven(pid, proof) && pidfd_send_signal(&process, Signal::TERM).is_ok()
}

/// Whether a process is all that `proof` says, and runs this very program.
pub fn is_proven(
    pid: u32,
    Proof {
        mark,
        command,
        file,
    }: Proof<'_>,
) -> bool {
    let file_of = |path: &str| {
        let found = fs::metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    let has_started_then = || {
        let started = start_time(pid).ok().flatten();
        started.is_some() && started == mark.pid_start
    };
    let runs_this_program = || {
        let own = file_of("/proc/self/exe");
        own.is_some() && own == file_of(&format!("/proc/{pid}/exe"))
    };
    let runs_the_command = || {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).nth(1) == Some(command.as_bytes())
    };
    let has_it_open = || {
        let open = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        let mut open = open.flatten().map(|entry| entry.path());
        open.any(|path| path.to_str().and_then(file_of) == Some(file))
    };
    own_mark().same_pids(mark)
        && has_started_then()
        && runs_this_program()
        && runs_the_command()
        && has_it_open()
}

/// Whether anybody may read what this process prints: its output is not thrown away. One that was closed from the start is.
pub fn is_output_read() -> bool {
    let null = rustix::fs::stat("/dev/null");
    let output = rustix::fs::fstat(io::stdout());
    match (null, output) {
        (Ok(null), Ok(output)) => null.st_rdev != output.st_rdev || output.st_rdev == 0,
        (_, Err(_)) => false,
        (Err(_), Ok(_)) => true,
    }
}

/// The process that has started this one, as long as it lives; else whoever has taken its place.
pub fn parent_pid() -> Option<u32> {
    let parent = rustix::process::getppid()?;
    u32::try_from(parent.as_raw_nonzero().get()).ok()
}

/// What makes the pid of a process comparable; `None` where it is gone, or cannot be looked at.
pub fn mark_of(pid: u32) -> Option<ProcessMark> {
    Some(ProcessMark {
        pid_start: Some(start_time(pid).ok()??),
        ..own_mark().clone()
    })
}

/// The parent of a process, and the name of that process, where both can be had.
pub fn name_and_parent(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&stat);
    let (before, rest) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let parent = rest.split_whitespace().nth(1)?.parse().ok()?;
    Some((name.to_owned(), parent))
}

/// The values that a process was started with for these variables; nothing else of its environment is looked at.
pub fn started_with<const N: usize>(pid: u32, names: [&str; N]) -> [Option<String>; N] {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    names.map(|name| {
        environment.split(|byte| *byte == 0).find_map(|variable| {
            let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(value).into_owned()).filter(|value| !value.is_empty())
        })
    })
}

/// Start time from `/proc/<pid>/stat`, in clock ticks since boot; `None` where the process is gone or there is no `/proc`.
fn start_time(pid: u32) -> io::Result<Option<String>> {
    let stat = match fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // The name in parentheses may hold anything, spaces and parentheses included: count from the last one. The start time
    // is field 22, the 20th after the name.
    let text = String::from_utf8_lossy(&stat);
    Ok(text
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(19))
        .map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_text_for_whoever_catches_it() {
        assert_eq!(caught(|| 7), Ok(7));
        assert!(!is_catching());
        let deep = caught(|| {
            assert!(is_catching());
            let inner = caught(|| panic!("inner {}", 1));
            assert!(is_catching());
            inner
        });
        assert_eq!(deep, Ok(Err::<(), _>("inner 1".to_owned())));
        let plain: Result<(), _> = caught(|| panic!("outer"));
        assert_eq!(plain, Err("outer".to_owned()));
        let odd: Result<(), _> = caught(|| std::panic::panic_any(7));
        assert_eq!(odd, Err("it is not said why".to_owned()));
        assert!(!is_catching());
    }

    #[test]
    fn this_process_lives_under_its_own_mark() {
        assert!(own_mark().pid_start.is_some(), "no /proc here");
        assert_eq!(life(own_pid(), own_mark()), Life::Alive);
    }

    #[test]
    fn a_reused_pid_is_a_dead_process() {
        let mark = ProcessMark {
            pid_start: Some("1".into()),
            ..own_mark().clone()
        };
        assert_eq!(life(own_pid(), &mark), Life::Dead);
    }

    #[test]
    fn another_boot_or_namespace_says_nothing() {
        let mark = ProcessMark {
            boot_id: Some("another".into()),
            ..own_mark().clone()
        };
        assert_eq!(life(own_pid(), &mark), Life::Unknown);
        assert_eq!(life(own_pid(), &ProcessMark::default()), Life::Unknown);
    }

    #[test]
    fn only_what_is_shown_to_be_this_program_doing_that_is_told_to_end() {
        use std::os::fd::AsRawFd as _;
        let file = fs::File::open("/proc/self/exe").unwrap();
        let found = file.metadata().unwrap();
        let mark = mark_of(own_pid()).unwrap();
        assert_eq!(&mark, own_mark());
        let command = std::env::args().nth(1).unwrap_or_default();
        let proof = Proof {
            mark: &mark,
            command: &command,
            file: (found.dev(), found.ino()),
        };
        assert!(file.as_raw_fd() > 2 && is_proven(own_pid(), proof));
        let unnamed = ProcessMark {
            pid_start: None,
            ..mark.clone()
        };
        let elsewhere = ProcessMark {
            boot_id: Some("another".into()),
            ..mark.clone()
        };
        for other in [
            Proof {
                mark: &unnamed,
                ..proof
            },
            Proof {
                mark: &elsewhere,
                ..proof
            },
            Proof {
                command: "another",
                ..proof
            },
            Proof {
                file: (found.dev(), 0),
                ..proof
            },
        ] {
            assert!(!is_proven(own_pid(), other), "{other:?}");
        }
        let parent = parent_pid().unwrap();
        let of_parent = mark_of(parent).unwrap();
        let proof = Proof {
            mark: &of_parent,
            ..proof
        };
        assert!(!is_proven(parent, proof));
    }

    #[test]
    fn a_process_group_is_never_addressed() {
        assert_eq!(exists(0), Life::Unknown);
        assert_eq!(exists(u32::MAX), Life::Unknown);
    }

    #[test]
    fn an_ended_process_is_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(exists(pid), Life::Dead);
    }
}
