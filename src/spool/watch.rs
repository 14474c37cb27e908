//! Being woken by changes, without ever depending on it.
//!
//! A wake says "look again", it carries no news: whoever is woken scans the directory, and a slow poll stands behind it for
//! the wakes that never come (network mounts, a full queue, a watch that died with its directory). One process has one
//! watcher, whatever it waits for, for the number of them is limited for a whole user.
//!
//! The system also reports that a file was *opened*, which reading it does: those events are dropped, or a scan would wake
//! itself for ever.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind, RenameMode};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};

/// Why somebody is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake<'a> {
    /// Something came or changed; in a watched directory, under this name.
    Changed(Option<&'a str>),
    /// Something went: a request was taken back, or this process removed it.
    Removed,
    /// The file of this name was closed by a process that could write it: a requester may have ended.
    Closed(&'a str),
    /// Events were lost: look at everything.
    Overflow,
    /// The watched directory is gone or was moved: watch it anew.
    Lost,
    /// The own probe file was seen: events do come here.
    Proof,
}

/// What is called on a wake, on the watcher's own thread: it must not block.
pub type OnWake = Arc<dyn Fn(Wake<'_>) + Send + Sync>;

/// Names of probe files begin so. They end in `.tmp`, so no reader looks at one.
pub(super) const PROBE_PREFIX: &str = ".probe-";

/// Watching does not work. Whoever asked for it polls instead.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The user's limit of watched files is reached.
    #[error("the limit of watched files is reached (fs.inotify.max_user_watches), polling instead")]
    WatchLimit,
    /// The user's limit of watchers is reached.
    #[error("the limit of watchers is reached (fs.inotify.max_user_instances), polling instead")]
    InstanceLimit,
    /// There is nothing to watch.
    #[error("there is nothing at {path:?} to watch")]
    Missing {
        /// What should have been watched.
        path: PathBuf,
    },
    /// Anything else.
    #[error("cannot watch {path:?}, polling instead")]
    Other {
        /// What should have been watched.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: notify::Error,
    },
}

/// The watcher of this process.
pub struct Watch {
    watcher: Mutex<RecommendedWatcher>,
    table: Arc<Table>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// One watched path. Given back to [`Watch::forget`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchId(PathBuf);

#[derive(Default)]
struct Table {
    subscribers: RwLock<HashMap<PathBuf, Subscriber>>,
}

struct Subscriber {
    on_wake: OnWake,
    names: Names,
}

/// Which names in a watched directory somebody is woken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Those that a reader of a spool looks at.
    Documents,
    /// All of them.
    Any,
}

impl Watch {
    /// Starts the watcher; it watches nothing yet.
    pub fn start() -> Result<Self, WatchError> {
        let table = Arc::new(Table::default());
        let seen_by = Arc::clone(&table);
        let watcher =
            notify::recommended_watcher(move |event: notify::Result<Event>| match event {
                Ok(event) => seen_by.dispatch(&event),
                // An error of the watcher itself: whatever it was, looking at everything is right.
                Err(_) => seen_by.overflow(),
            })
            .map_err(|error| named(error, Path::new("")))?;
        Ok(Self {
            watcher: Mutex::new(watcher),
            table,
        })
    }

    /// Wakes `on_wake` for changes in the directory `path`, or of the file `path`.
    pub fn watch(&self, path: &Path, on_wake: OnWake) -> Result<WatchId, WatchError> {
        self.subscribe(path, on_wake, Names::Documents)
    }

    /// As [`Watch::watch`], for whatever is changed in a directory, under any name: files that people write, in place as well.
    pub fn watch_any(&self, path: &Path, on_wake: OnWake) -> Result<WatchId, WatchError> {
        self.subscribe(path, on_wake, Names::Any)
    }

    fn subscribe(&self, path: &Path, on_wake: OnWake, names: Names) -> Result<WatchId, WatchError> {
        let subscriber = Subscriber { on_wake, names };
        self.table.write().insert(path.to_owned(), subscriber);
        let watched = self.lock().watch(path, RecursiveMode::NonRecursive);
        match watched {
            Ok(()) => Ok(WatchId(path.to_owned())),
            Err(error) => {
                self.table.write().remove(path);
                Err(named(error, path))
            }
        }
    }

    /// Watches a path anew whose watch was lost.
    pub fn rearm(&self, id: &WatchId) -> Result<(), WatchError> {
        let mut watcher = self.lock();
        // The old watch may be gone with its directory; that is why this is called.
        let _old = watcher.unwatch(&id.0);
        watcher
            .watch(&id.0, RecursiveMode::NonRecursive)
            .map_err(|error| named(error, &id.0))
    }

    /// Stops waking for `id`.
    pub fn forget(&self, id: &WatchId) {
        self.table.write().remove(&id.0);
        // A watch on a file ends by itself when the file does.
        let _gone = self.lock().unwatch(&id.0);
    }

    /// Stops waking for a file that has been removed, whose watch the kernel has ended by itself.
    pub fn forget_removed(&self, id: &WatchId) {
        self.table.write().remove(&id.0);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, RecommendedWatcher> {
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<PathBuf, Subscriber>> {
        self.subscribers
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<PathBuf, Subscriber>> {
        self.subscribers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn overflow(&self) {
        for subscriber in self.read().values() {
            (subscriber.on_wake)(Wake::Overflow);
        }
    }

    fn dispatch(&self, event: &Event) {
        if event.need_rescan() {
            return self.overflow();
        }
        let subscribers = self.read();
        for path in &event.paths {
            if let Some(Subscriber { on_wake, .. }) = subscribers.get(path) {
                if let Some(wake) = wake_of_itself(event.kind) {
                    on_wake(wake);
                }
            } else if let Some(Subscriber { on_wake, names }) =
                path.parent().and_then(|parent| subscribers.get(parent))
            {
                let name = path
                    .file_name()
                    .and_then(|name| name.to_str())
                    .unwrap_or_default();
                let wake = match names {
                    Names::Documents => wake_of_child(event.kind, name),
                    Names::Any => wake_of_any(event.kind),
                };
                if let Some(wake) = wake {
                    on_wake(wake);
                }
            }
        }
    }
}

/// What an event on a watched path itself means: a file whose last name went raises a change of its metadata, at once, even
/// while somebody holds it open.
fn wake_of_itself(kind: EventKind) -> Option<Wake<'static>> {
    match kind {
        EventKind::Remove(_)
        | EventKind::Modify(ModifyKind::Name(RenameMode::From | RenameMode::Any)) => {
            Some(Wake::Lost)
        }
        EventKind::Modify(ModifyKind::Metadata(_)) => Some(Wake::Changed(None)),
        EventKind::Access(_)
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Any
        | EventKind::Other => None,
    }
}

/// What an event on a file in a watched directory means. Only names that a reader looks at count.
fn wake_of_child(kind: EventKind, name: &str) -> Option<Wake<'_>> {
    if name.starts_with(PROBE_PREFIX) {
        return matches!(
            kind,
            EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_))
        )
        .then_some(Wake::Proof);
    }
    if !name.ends_with(".json") {
        return None;
    }
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => Some(Wake::Closed(name)),
        // Moved away is gone, too: this process does so with what it cannot use.
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => {
            Some(Wake::Removed)
        }
        // A hard link raises only a creation, a rename only a move.
        EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_)) => {
            Some(Wake::Changed(Some(name)))
        }
        EventKind::Access(_) | EventKind::Modify(_) | EventKind::Any | EventKind::Other => None,
    }
}

/// What an event on a file of any name in a watched directory means. Reading it means nothing.
fn wake_of_any(kind: EventKind) -> Option<Wake<'static>> {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_) => Some(Wake::Changed(None)),
        EventKind::Access(_) | EventKind::Any | EventKind::Other => None,
    }
}

fn named(error: notify::Error, path: &Path) -> WatchError {
    // The system reports the watch limit as "no space left on device" and the watcher limit as "too many open files".
    const EMFILE: i32 = 24;
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => WatchError::WatchLimit,
        notify::ErrorKind::Io(cause) if cause.raw_os_error() == Some(EMFILE) => {
            WatchError::InstanceLimit
        }
        notify::ErrorKind::PathNotFound => WatchError::Missing {
            path: path.to_owned(),
        },
        notify::ErrorKind::Io(cause) if cause.kind() == io::ErrorKind::NotFound => {
            WatchError::Missing {
                path: path.to_owned(),
            }
        }
        notify::ErrorKind::Generic(_)
        | notify::ErrorKind::Io(_)
        | notify::ErrorKind::WatchNotFound
        | notify::ErrorKind::InvalidConfig(_) => WatchError::Other {
            path: path.to_owned(),
            source: error,
        },
    }
}

#[cfg(test)]
mod tests;
