//! The processes of a measurement: this program again in a role, or the product, and what the kernel counts for each.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::floor::Relay;

/// What this program does when it is started by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Hello,
    FloorServer,
    FloorChild,
    FloorDrain,
    FloorList,
}

impl Role {
    pub(crate) const ALL: [Self; 5] = [
        Self::Hello,
        Self::FloorServer,
        Self::FloorChild,
        Self::FloorDrain,
        Self::FloorList,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::FloorServer => "floor-server",
            Self::FloorChild => "floor-child",
            Self::FloorDrain => "floor-drain",
            Self::FloorList => "floor-list",
        }
    }
}

/// A running process, killed when dropped.
pub(crate) struct Spawned {
    child: Child,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: BufReader<ChildStdout>,
}

impl Spawned {
    pub(crate) fn command(role: Role, args: &[&OsStr]) -> Command {
        let mut run = Command::new(std::env::current_exe().unwrap());
        run.arg("--role").arg(role.name()).args(args);
        run
    }

    pub(crate) fn role(role: Role, args: &[&OsStr]) -> Self {
        Self::start(Self::command(role, args))
    }

    pub(crate) fn start(mut run: Command) -> Self {
        let mut child = run
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            stdin,
            stdout,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its first line.
    pub(crate) fn ready(&mut self) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    fn go(&mut self) {
        self.stdin.write_all(b"g").unwrap();
    }

    /// All times that it prints, one in nanoseconds a line, until it ends.
    pub(crate) fn times(&mut self) -> Vec<Duration> {
        let lines = (&mut self.stdout).lines().map(Result::unwrap);
        lines
            .map(|line| Duration::from_nanos(line.parse().unwrap()))
            .collect()
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Starts all children at once and collects what they report.
pub(crate) fn race(mut children: Vec<Spawned>) -> Relay {
    children.iter_mut().for_each(Spawned::ready);
    let started = Instant::now();
    children.iter_mut().for_each(Spawned::go);
    let times: Vec<Duration> = children.iter_mut().flat_map(Spawned::times).collect();
    #[expect(clippy::cast_precision_loss, reason = "a count of a few thousand")]
    let rate = times.len() as f64 / started.elapsed().as_secs_f64();
    Relay { times, rate }
}

/// Resident memory in megabytes.
pub(crate) fn resident(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kilobytes / 1024.0
}
