#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out files and look at which events come of them"
)]

use std::fs;

use notify::event::{CreateKind, DataChange, Flag, MetadataKind, RemoveKind};

use super::*;
use crate::spool::testing::{Place, until};

/// What somebody was woken for, in the order in which it came.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn on_wake(&self) -> OnWake {
        let heard = Arc::clone(&self.0);
        Arc::new(move |wake| heard.lock().unwrap().push(format!("{wake:?}")))
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn forget(&self) {
        self.0.lock().unwrap().clear();
    }

    #[track_caller]
    fn await_wake(&self, wake: &str) {
        until(wake, || {
            self.all().iter().any(|heard| heard.starts_with(wake))
        });
    }
}

fn all_kinds() -> Vec<EventKind> {
    let mut kinds = vec![
        EventKind::Any,
        EventKind::Other,
        EventKind::Create(CreateKind::File),
        EventKind::Create(CreateKind::Folder),
        EventKind::Remove(RemoveKind::File),
        EventKind::Remove(RemoveKind::Folder),
        EventKind::Modify(ModifyKind::Any),
        EventKind::Modify(ModifyKind::Other),
        EventKind::Modify(ModifyKind::Data(DataChange::Any)),
        EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)),
        EventKind::Access(AccessKind::Any),
        EventKind::Access(AccessKind::Read),
        EventKind::Access(AccessKind::Other),
    ];
    for mode in [
        RenameMode::Any,
        RenameMode::To,
        RenameMode::From,
        RenameMode::Both,
        RenameMode::Other,
    ] {
        kinds.push(EventKind::Modify(ModifyKind::Name(mode)));
    }
    for mode in [
        AccessMode::Any,
        AccessMode::Execute,
        AccessMode::Read,
        AccessMode::Write,
        AccessMode::Other,
    ] {
        kinds.push(EventKind::Access(AccessKind::Open(mode)));
        kinds.push(EventKind::Access(AccessKind::Close(mode)));
    }
    kinds
}

#[test]
fn watch_1_what_an_event_on_a_request_means() {
    for kind in all_kinds() {
        let expected = match kind {
            EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => {
                Some(Wake::Removed)
            }
            EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_)) => {
                Some(Wake::Changed(Some("r1.json")))
            }
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => {
                Some(Wake::Closed("r1.json"))
            }
            EventKind::Access(_) | EventKind::Modify(_) | EventKind::Any | EventKind::Other => None,
        };
        assert_eq!(wake_of_child(kind, "r1.json"), expected, "{kind:?}");
        // What no reader looks at wakes nobody, and a probe file proves one thing alone.
        for name in ["r1.json.1.2.tmp", ".askrelay-keep", "", "json", "r1.JSON"] {
            assert_eq!(wake_of_child(kind, name), None, "{kind:?} {name:?}");
        }
        let proof = matches!(
            kind,
            EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_))
        )
        .then_some(Wake::Proof);
        assert_eq!(wake_of_child(kind, ".probe-1.tmp"), proof, "{kind:?}");
        assert_eq!(wake_of_child(kind, ".probe-1.json"), proof, "{kind:?}");
    }
}

#[test]
fn watch_7_what_an_event_on_the_watched_path_itself_means() {
    for kind in all_kinds() {
        let expected = match kind {
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
        };
        assert_eq!(wake_of_itself(kind), expected, "{kind:?}");
    }
}

#[test]
fn watch_2_lost_events_wake_everybody() {
    let table = Table::default();
    let (one, other) = (Heard::default(), Heard::default());
    let subscriber = |on_wake| Subscriber {
        on_wake,
        names: Names::Documents,
    };
    table.write().insert("/a".into(), subscriber(one.on_wake()));
    table
        .write()
        .insert("/b".into(), subscriber(other.on_wake()));
    table.dispatch(&Event::new(EventKind::Other).set_flag(Flag::Rescan));
    table.overflow();
    for heard in [&one, &other] {
        assert_eq!(heard.all(), ["Overflow", "Overflow"]);
        heard.forget();
    }
    // An event of one directory is none of the other's, nor is one further down.
    let created = EventKind::Create(CreateKind::File);
    for path in ["/a/r1.json", "/a/deep/r1.json", "/c/r1.json", "/"] {
        table.dispatch(&Event::new(created).add_path(path.into()));
    }
    assert_eq!(one.all(), ["Changed(Some(\"r1.json\"))"]);
    assert_eq!(other.all(), [""; 0]);
}

#[test]
fn watch_1_each_way_of_publishing_wakes() {
    let place = Place::new();
    let requests = place.dir("requests");
    let at = |name: &str| place.at("requests").join(name);
    fs::write(place.at("outside"), "{}").unwrap();
    let heard = Heard::default();
    let watch = Watch::start().unwrap();
    let watched = watch.watch(requests.path(), heard.on_wake()).unwrap();
    let ways: [(&str, &dyn Fn()); 6] = [
        ("Changed", &|| {
            fs::rename(place.at("outside"), at("moved-in.json")).unwrap();
        }),
        ("Changed", &|| {
            fs::write(at("x.tmp"), "{}").unwrap();
            fs::rename(at("x.tmp"), at("renamed.json")).unwrap();
        }),
        ("Changed", &|| {
            fs::write(at("y.tmp"), "{}").unwrap();
            fs::hard_link(at("y.tmp"), at("linked.json")).unwrap();
        }),
        ("Closed(\"written.json\")", &|| {
            fs::write(at("written.json"), "{}").unwrap();
        }),
        ("Removed", &|| fs::remove_file(at("written.json")).unwrap()),
        ("Removed", &|| {
            fs::rename(at("linked.json"), place.at("moved-out.json")).unwrap();
        }),
    ];
    for (wake, act) in ways {
        heard.forget();
        act();
        heard.await_wake(wake);
    }
    // Reading wakes nobody: the next thing that is heard after it is something else.
    heard.forget();
    fs::read(at("renamed.json")).unwrap();
    fs::write(at(".probe-1.tmp"), "").unwrap();
    heard.await_wake("Proof");
    assert_eq!(heard.all(), ["Proof"]);
    heard.forget();
    watch.forget(&watched);
    fs::write(at("after.json"), "").unwrap();
    // Only a second watch can tell that the first one has nothing to say.
    let again = Heard::default();
    let _watched = watch.watch(requests.path(), again.on_wake()).unwrap();
    fs::write(at(".probe-2.tmp"), "").unwrap();
    again.await_wake("Proof");
    assert_eq!(heard.all(), [""; 0]);
}

#[test]
fn watch_7_a_directory_that_comes_back_is_watched_again() {
    let place = Place::new();
    drop(place.dir("requests"));
    let path = place.at("requests");
    let heard = Heard::default();
    let watch = Watch::start().unwrap();
    let watched = watch.watch(&path, heard.on_wake()).unwrap();
    for moved in [false, true] {
        if moved {
            fs::rename(&path, place.at("moved")).unwrap();
        } else {
            fs::remove_dir(&path).unwrap();
        }
        heard.await_wake("Lost");
        assert!(
            matches!(watch.rearm(&watched), Err(WatchError::Missing { .. })),
            "there is nothing to watch"
        );
        fs::create_dir(&path).unwrap();
        watch.rearm(&watched).unwrap();
        heard.forget();
        fs::write(path.join("r1.json"), "").unwrap();
        heard.await_wake("Changed");
        fs::remove_file(path.join("r1.json")).unwrap();
        heard.await_wake("Removed");
        heard.forget();
    }
}

#[test]
fn a_watched_file_wakes_when_its_name_goes_while_it_is_open() {
    let place = Place::new();
    place.write("r1.json", "{}");
    let open = fs::File::open(place.at("r1.json")).unwrap();
    let heard = Heard::default();
    let watch = Watch::start().unwrap();
    let watched = watch.watch(&place.at("r1.json"), heard.on_wake()).unwrap();
    fs::remove_file(place.at("r1.json")).unwrap();
    heard.await_wake("Changed");
    watch.forget_removed(&watched);
    drop(open);
    assert!(matches!(
        watch.watch(&place.at("r1.json"), heard.on_wake()),
        Err(WatchError::Missing { path }) if path == place.at("r1.json")
    ));
}

#[test]
fn watch_4_a_limit_is_called_by_its_name_and_not_a_full_disk() {
    let path = Path::new("/spool");
    let named = |error: notify::Error| named(error, path).to_string();
    let io = |errno: rustix::io::Errno| notify::Error::io(errno.into());
    let watches = named(notify::Error::new(notify::ErrorKind::MaxFilesWatch));
    assert!(watches.contains("fs.inotify.max_user_watches"), "{watches}");
    assert!(watches.contains("polling instead"), "{watches}");
    let instances = named(io(rustix::io::Errno::MFILE));
    assert!(
        instances.contains("fs.inotify.max_user_instances"),
        "{instances}"
    );
    for missing in [
        io(rustix::io::Errno::NOENT),
        notify::Error::path_not_found(),
    ] {
        let text = named(missing);
        assert!(text.contains("nothing at \"/spool\""), "{text}");
    }
    for other in [io(rustix::io::Errno::ACCESS), notify::Error::generic("x")] {
        let text = named(other);
        assert!(text.contains("cannot watch \"/spool\""), "{text}");
    }
}

#[test]
fn whoever_watches_files_of_any_name_hears_of_each_change_and_of_no_reading() {
    let place = Place::new();
    let path = place.at("");
    let watch = Watch::start().unwrap();
    let heard = Heard::default();
    let id = watch.watch_any(&path, heard.on_wake()).unwrap();
    for step in 0..3 {
        match step {
            0 => fs::write(path.join("scout.md"), "a").unwrap(),
            1 => fs::write(path.join("scout.md"), "b").unwrap(),
            _ => fs::remove_file(path.join("scout.md")).unwrap(),
        }
        heard.await_wake("Changed(None)");
        heard.forget();
    }
    watch.forget(&id);
    assert_eq!(wake_of_any(EventKind::Access(AccessKind::Read)), None);
    let closed = AccessKind::Close(AccessMode::Read);
    assert_eq!(wake_of_any(EventKind::Access(closed)), None);
}
