//! The floors: the least that any program can do that answers files with files.
//!
//! Two plain processes exchange one file of 2 KB each way by write, rename and inotify. They sync nothing, log nothing, check nothing
//! and decide nothing; the answering side parses the JSON, because it has to find the id.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::inotify;

use crate::place::Place;
use crate::process::{Relay, Role, Spawned};

/// Bytes of a request and of an answer.
const SIZE: usize = 2048;

/// A JSON object of that size.
pub(crate) fn body(id: &str) -> Vec<u8> {
    let head = format!(r#"{{"id":"{id}","padding":""#);
    let padding = "x".repeat(SIZE - head.len() - 2);
    format!("{head}{padding}\"}}").into_bytes()
}

fn publish(dir: &Path, name: &str, bytes: &[u8]) {
    let tmp = dir.join(format!("{name}.tmp"));
    fs::write(&tmp, bytes).unwrap();
    fs::rename(&tmp, dir.join(name)).unwrap();
}

/// Calls with the name of every file that is renamed into the directory, until told to stop.
struct Arrivals {
    inotify: rustix::fd::OwnedFd,
}

impl Arrivals {
    fn watch(dir: &Path) -> Self {
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&inotify, dir, inotify::WatchFlags::MOVED_TO).unwrap();
        Self { inotify }
    }

    fn each(&self, mut arrived: impl FnMut(&str) -> bool) {
        let mut buffer = [MaybeUninit::uninit(); 16_384];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            let event = events.next().unwrap();
            let name = event
                .file_name()
                .map(|name| OsStr::from_bytes(name.to_bytes()));
            if let Some(name) = name.and_then(OsStr::to_str)
                && !arrived(name)
            {
                return;
            }
        }
    }
}

/// Answers everything, for ever.
pub(crate) fn server(dir: &Path) {
    let (requests, responses) = (dir.join("requests"), dir.join("responses"));
    let arrivals = Arrivals::watch(&requests);
    println!("ready");
    arrivals.each(|name| {
        answer(&requests, &responses, name);
        true
    });
}

fn answer(requests: &Path, responses: &Path, name: &str) {
    let request = requests.join(name);
    let read: serde_json::Value = serde_json::from_slice(&fs::read(&request).unwrap()).unwrap();
    let id = read["id"].as_str().unwrap();
    publish(responses, &format!("{id}.json"), &body(id));
    fs::remove_file(request).unwrap();
}

/// Asks `count` times with `in_flight` questions open at once, `gap` after each answer. Prints one time in nanoseconds a line.
pub(crate) fn child(dir: &Path, me: &str, count: usize, in_flight: usize, gap: Duration) {
    let (requests, responses) = (dir.join("requests"), dir.join("responses"));
    let arrivals = Arrivals::watch(&responses);
    println!("ready");
    let mut go = [0];
    std::io::stdin().read_exact(&mut go).unwrap();

    let mut open = HashMap::new();
    let mut asked = 0;
    let mut ask = |open: &mut HashMap<String, Instant>| {
        if asked < count {
            let id = format!("{me}-{asked}");
            asked += 1;
            let name = format!("{id}.json");
            let bytes = body(&id);
            open.insert(name.clone(), Instant::now());
            publish(&requests, &name, &bytes);
        }
    };
    for _ in 0..in_flight {
        ask(&mut open);
    }
    let mut times = Vec::with_capacity(count);
    arrivals.each(|name| {
        // Everybody's answers arrive here. That is part of the floor.
        let Some(asked_at) = open.remove(name) else {
            return true;
        };
        let answer = responses.join(name);
        fs::read(&answer).unwrap();
        times.push(asked_at.elapsed());
        fs::remove_file(answer).unwrap();
        if gap > Duration::ZERO {
            std::thread::sleep(gap);
        }
        ask(&mut open);
        !open.is_empty()
    });
    for time in times {
        println!("{}", time.as_nanos());
    }
}

fn inbox(dir: &Path) {
    fs::create_dir(dir.join("requests")).unwrap();
    fs::create_dir(dir.join("responses")).unwrap();
}

/// `count` asks of `processes` children to one server.
pub(crate) fn relay(
    place: &Place,
    processes: usize,
    in_flight: usize,
    count: usize,
    gap: Duration,
) -> Relay {
    let dir = place.fresh();
    inbox(dir.path());
    let mut server = Spawned::role(Role::FloorServer, &[dir.path().as_os_str()]);
    server.ready();
    let each = [count / processes, in_flight / processes].map(|n| n.to_string());
    let gap = gap.as_micros().to_string();
    let children = (0..processes).map(|me| {
        let me = format!("c{me}");
        let args = [
            dir.path().as_os_str(),
            OsStr::new(&me),
            OsStr::new(&each[0]),
            OsStr::new(&each[1]),
            OsStr::new(&gap),
        ];
        Spawned::role(Role::FloorChild, &args)
    });
    crate::process::race(children.collect())
}

/// Answers what lies there already, and says how long that took.
pub(crate) fn drain_role(dir: &Path) {
    let (requests, responses) = (dir.join("requests"), dir.join("responses"));
    let started = Instant::now();
    for name in names(&requests) {
        answer(&requests, &responses, &name);
    }
    println!("{}", started.elapsed().as_nanos());
}

/// Looks at everything that lies there, and says how long that took.
pub(crate) fn list_role(dir: &Path) {
    let requests = dir.join("requests");
    let started = Instant::now();
    let mut bytes = 0;
    for name in names(&requests) {
        let path = requests.join(name);
        bytes += fs::symlink_metadata(&path).unwrap().len();
        let read: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert!(read["id"].is_string());
    }
    assert!(bytes > 0);
    println!("{}", started.elapsed().as_nanos());
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

/// One pass of such a role over so many waiting requests.
pub(crate) fn pass(place: &Place, role: Role, waiting: usize) -> f64 {
    let dir = place.fresh();
    inbox(dir.path());
    let requests = dir.path().join("requests");
    for n in 0..waiting {
        let id = format!("w-{n}");
        fs::write(requests.join(format!("{id}.json")), body(&id)).unwrap();
    }
    let times = Spawned::role(role, &[dir.path().as_os_str()]).times();
    times[0].as_secs_f64()
}

/// Start to exit of a program that does nothing: this one, dynamically linked, and a static one if a compiler is at hand.
pub(crate) fn spawn(place: &Place, repeats: usize) -> (Vec<Duration>, Option<Vec<Duration>>) {
    let time = |mut command: Command| {
        let started = Instant::now();
        assert!(command.status().unwrap().success());
        started.elapsed()
    };
    let hello = || Spawned::command(Role::Hello, &[]);
    let dynamic = (0..repeats).map(|_| time(hello())).collect();

    let dir = place.fresh();
    let (source, program) = (dir.path().join("hello.rs"), dir.path().join("hello"));
    fs::write(&source, "fn main() {}").unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc
        .args([
            "-O",
            "-C",
            "target-feature=+crt-static",
            "-C",
            "panic=abort",
            "-o",
        ])
        .arg(&program)
        .arg(&source);
    let built = rustc.status().is_ok_and(|status| status.success());
    let fixed = built.then(|| (0..repeats).map(|_| time(Command::new(&program))).collect());
    (dynamic, fixed)
}

/// Memory of a process that is blocked in inotify, in megabytes.
pub(crate) fn memory(place: &Place) -> f64 {
    let dir = place.fresh();
    inbox(dir.path());
    let mut server = Spawned::role(Role::FloorServer, &[dir.path().as_os_str()]);
    server.ready();
    crate::process::resident(server.id())
}
