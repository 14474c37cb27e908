//! The processes of a measurement: this program again in a role, or the product, and what the kernel counts for each.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What this program does when it is started by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Hello,
    FloorServer,
    FloorChild,
    FloorDrain,
    FloorList,
    ProductChild,
    LogFloor,
    LogWriter,
}

impl Role {
    pub(crate) const ALL: [Self; 8] = [
        Self::Hello,
        Self::FloorServer,
        Self::FloorChild,
        Self::FloorDrain,
        Self::FloorList,
        Self::ProductChild,
        Self::LogFloor,
        Self::LogWriter,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::FloorServer => "floor-server",
            Self::FloorChild => "floor-child",
            Self::FloorDrain => "floor-drain",
            Self::FloorList => "floor-list",
            Self::ProductChild => "product-child",
            Self::LogFloor => "log-floor",
            Self::LogWriter => "log-writer",
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

    /// Waits for a line that fits.
    pub(crate) fn line_that(&mut self, fits: impl Fn(&str) -> bool) {
        let mut line = String::new();
        while !fits(&line) {
            line.clear();
            assert!(
                self.stdout.read_line(&mut line).unwrap() > 0,
                "the process ended"
            );
        }
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn go(&mut self) {
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

/// What one relay took: each ask, and asks in a second.
pub(crate) struct Relay {
    pub(crate) times: Vec<Duration>,
    pub(crate) rate: f64,
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

/// Processor time that all threads have used, by the scheduler's own count.
pub(crate) fn cpu(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanos = threads.map(|thread| {
        // A thread may end in between; then its time is not counted.
        let line =
            std::fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap_or_default();
        line.split(' ')
            .next()
            .and_then(|first| first.parse().ok())
            .unwrap_or(0)
    });
    Duration::from_nanos(nanos.sum())
}

/// System calls in a second, as strace counts them over `window`; nothing where strace cannot be run.
pub(crate) fn system_calls(pid: u32, window: Duration) -> Option<f64> {
    let mut strace = Command::new("strace");
    strace
        .args(["-c", "-f", "-U", "calls,name", "-p", &pid.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut strace = strace.spawn().ok()?;
    std::thread::sleep(window);
    let strace_id = rustix::process::Pid::from_raw(strace.id().try_into().ok()?)?;
    rustix::process::kill_process(strace_id, rustix::process::Signal::INT).ok()?;
    let mut table = String::new();
    strace.stderr.take()?.read_to_string(&mut table).ok()?;
    strace.wait().ok()?;
    // No table at all means that nothing was called.
    let total = table
        .lines()
        .find(|line| line.trim_end().ends_with("total"));
    let calls: f64 = total.map_or(Some(0.0), |line| {
        line.split_whitespace().next()?.parse().ok()
    })?;
    Some(calls / window.as_secs_f64())
}
