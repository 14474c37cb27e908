//! Looks after the files of the configuration while a session runs, and hands it what they say when that has changed.
//!
//! A thread of its own waits for a change in their directories, or a few seconds, and looks at the files from outside. Where
//! anything was done to one of them everything is read again. The same content says nothing new. A file that cannot be used may
//! just be in the middle of being written: it is given a moment to come to rest, and the old rules hold for that long.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use super::layers::{FileSeen, InForce, Layout, Seen, Wanted};
use super::place::Loaded;
use super::programs::Programs;
use crate::clock;
use crate::policy::{Layered, Notice};
use crate::serve::{Renewal, SourceFile, Trouble};
use crate::spool::{LookedAt, OnWake, Wake, Watch, WatchId, look_at_operator_file};

/// How often the files are looked at behind a watch that works, and without one.
const LOOK_BEHIND_WATCH: Duration = Duration::from_secs(5);
const LOOK_ALONE: Duration = Duration::from_secs(2);
/// A file that cannot be used is looked at again after this long, until it has stayed as it is for [`AT_REST`] looks, or for all
/// of [`REST_MOST`].
const REST_LOOK: Duration = Duration::from_millis(100);
const AT_REST: u32 = 3;
const REST_MOST: Duration = Duration::from_secs(1);

/// How long after they were read nothing is looked at: whoever writes a file again and again floods neither the log nor the person,
/// and keeps no processor busy.
const APART: Duration = Duration::from_millis(250);

/// What was done to a file at most so long before it was looked at may hide one more change behind the same time stamp.
const COARSEST_STAMP: Duration = Duration::from_secs(2);

/// What a session takes over of a configuration: at its start, and with every renewal.
pub(super) fn renewal(
    programs: &Programs,
    force: &InForce,
    layered: &Layered,
    home: Option<&str>,
    files: Vec<SourceFile>,
) -> Renewal {
    let config = &layered.config;
    Renewal {
        policy: Arc::new(force.policy(layered, home)),
        trouble: force.trouble.clone(),
        files,
        notices: Vec::new(),
        authorizers: programs.authorizers(config),
        annotators: programs.annotators(config),
        forwarding_timeout: config.forwarding_timeout,
        request_max_age: config.request_max_age,
        limits: config.limits,
    }
}

/// What looks after the files.
pub(super) struct Reload {
    programs: Programs,
    home: Option<String>,
    layout: Layout,
    /// Whether the user's configuration was a link at the start: one that becomes one leads to what nobody has named.
    was_link: bool,
    /// What is in force.
    force: InForce,
    layered: Layered,
    /// Whether the session has started with a trouble that is not in the log yet.
    is_unrecorded: bool,
    /// What was said already.
    said: HashSet<String>,
    /// The paths that are looked at, and how they looked before they were read last.
    places: Vec<PathBuf>,
    looks: Vec<LookedAt>,
    /// Whether one more change of them would perhaps not show in how they look.
    looks_are_fresh: bool,
    renewals: UnboundedSender<Renewal>,
}

impl Reload {
    /// Starts to look after what `loaded` was read from. What changes goes to `renewals`, until nobody takes it any more.
    pub(super) fn start(
        programs: Programs,
        home: Option<String>,
        loaded: Loaded,
        watch: Option<Arc<Watch>>,
        renewals: UnboundedSender<Renewal>,
    ) -> std::io::Result<()> {
        let notices = loaded.layered.config.notices.iter();
        let said = notices
            .map(notice_text)
            .chain(loaded.force.remarks.iter().cloned())
            .collect();
        let look = loaded.layout.look_at_global();
        let reload = Self {
            programs,
            home,
            was_link: look.is_some_and(|look| look.is_link()),
            layout: loaded.layout,
            is_unrecorded: loaded.force.trouble.is_some(),
            force: loaded.force,
            layered: loaded.layered,
            said,
            places: loaded.places,
            // It was read before anybody looked: the first look reads it again.
            looks: Vec::new(),
            looks_are_fresh: true,
            renewals,
        };
        let (wake, woken) = sync_channel(1);
        let watched = watch.map(|watch| Watched::new(watch, wake.clone()));
        // A thread of its own: reading and compiling many rules must hold up no answer.
        std::thread::Builder::new()
            .name("configuration".to_owned())
            .spawn(move || reload.run(watched, &woken, wake))?;
        Ok(())
    }

    fn run(mut self, mut watched: Option<Watched>, woken: &Receiver<()>, _open: SyncSender<()>) {
        let (mut arms, mut is_woken) = (false, false);
        while !self.renewals.is_closed() {
            let looks = self.looks();
            // A wake is mostly about something else in the same directory. What was written so fast that no time stamp tells it
            // apart is read as well.
            let is_lost = watched.as_ref().is_some_and(Watched::is_lost);
            if looks != self.looks || (is_woken && self.looks_are_fresh) || is_lost {
                // Watched before it is read, so that no change comes in between.
                arms = watched
                    .as_mut()
                    .is_some_and(|watched| watched.arm(&self.layout));
                self.look(looks);
                std::thread::sleep(APART);
            }
            let wait = match (arms, self.looks.is_empty()) {
                (_, true) => Duration::ZERO,
                (true, false) => LOOK_BEHIND_WATCH,
                (false, false) => LOOK_ALONE,
            };
            is_woken = match woken.recv_timeout(wait) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
        }
    }

    fn looks(&self) -> Vec<LookedAt> {
        self.places
            .iter()
            .map(|path| look_at_operator_file(path))
            .collect()
    }

    /// The files look like this, and are read now.
    fn looked(&mut self, looks: Vec<LookedAt>) {
        let coarsest_ns = i128::try_from(COARSEST_STAMP.as_nanos()).unwrap_or_default();
        let since_ns = clock::wall_ns().saturating_sub(coarsest_ns);
        self.looks_are_fresh = looks.iter().any(|look| look.changed_since(since_ns));
        self.looks = looks;
    }

    /// Something was done to the files, which looked like this before they are read: hands on what has come of it.
    fn look(&mut self, looks: Vec<LookedAt>) {
        self.looked(looks);
        let (mut force, mut files) = self.read();
        if force.trouble != self.force.trouble && matches!(force.trouble, Some(Trouble::Broken(_)))
        {
            (force, files) = self.let_it_rest(force, files);
        }
        self.hand_on(force, files);
    }

    /// Reads again until what cannot be used can be, or stays as it is.
    fn let_it_rest(
        &mut self,
        mut force: InForce,
        mut files: Vec<SourceFile>,
    ) -> (InForce, Vec<SourceFile>) {
        let until = clock::now().after(REST_MOST);
        let mut at_rest = 0;
        while at_rest < AT_REST && clock::now() < until {
            std::thread::sleep(REST_LOOK);
            let looks = self.looks();
            if looks == self.looks {
                at_rest += 1;
                continue;
            }
            at_rest = 0;
            self.looked(looks);
            (force, files) = self.read();
            if force.trouble == self.force.trouble || force.trouble.is_none() {
                break;
            }
        }
        (force, files)
    }

    fn read(&mut self) -> (InForce, Vec<SourceFile>) {
        let mut seen = self.layout.read(Wanted::Everything);
        self.refuse_new_link(&mut seen);
        let places = self.layout.places(&seen);
        if places != self.places {
            // How the new ones looked before they were read is not known: the next look reads them again.
            self.places = places;
            self.looks = Vec::new();
        }
        let files = seen.files();
        (seen.in_force(Some(&self.force.sources)), files)
    }

    fn refuse_new_link(&self, seen: &mut Seen) {
        let is_link = self
            .layout
            .look_at_global()
            .is_some_and(|look| look.is_link());
        if let (true, false, Some(path)) = (is_link, self.was_link, &self.layout.global) {
            let why = "a symbolic link stands there now, and none did when the session started";
            seen.global = FileSeen::broken(path, why, None);
        }
    }

    /// Hands on what is in force by now, where that is not what was.
    fn hand_on(&mut self, mut force: InForce, files: Vec<SourceFile>) {
        let (sources, trouble) = (&self.force.sources, &self.force.trouble);
        let is_new = force.sources != *sources || force.trouble != *trouble;
        let layered = force.layered();
        let mut notices = Vec::new();
        if is_new {
            notices.extend(self.what_changed(&force, &layered));
        }
        // A project that nobody has trusted may be new, and changes nothing.
        notices.extend(self.what_is_unsaid(&force, &layered));
        let is_unrecorded = std::mem::take(&mut self.is_unrecorded);
        if !is_new && !is_unrecorded && notices.is_empty() {
            return;
        }
        let mut renewal = renewal(
            &self.programs,
            &force,
            &layered,
            self.home.as_deref(),
            files,
        );
        renewal.notices = notices;
        self.force = force;
        self.layered = layered;
        // Where nobody takes it, the session has ended.
        let _taken = self.renewals.send(renewal);
    }

    /// What the person is told of a change.
    fn what_changed(&self, force: &InForce, layered: &Layered) -> Vec<String> {
        let was_troubled = self.force.trouble.is_some();
        let mut notices = vec![match &force.trouble {
            Some(Trouble::Broken(text)) if force.sources.is_broken => format!(
                "the configuration cannot be used, and whatever it allowed is asked until it can: {text}"
            ),
            Some(trouble) => trouble.text().to_owned(),
            None if was_troubled => {
                "the configuration can be used again: its rules hold".to_owned()
            }
            None => "the configuration was read again: its rules hold from now on".to_owned(),
        }];
        let late = layered.counts_from_next_start(&self.layered);
        if !late.is_empty() {
            let names = late.join(", ");
            notices.push(format!(
                "changed in the configuration, and heeded when the session is started again: {names}"
            ));
        }
        notices
    }

    /// What is worth a word and was not said yet: a deprecated key is named once, however often its file is read.
    fn what_is_unsaid(&mut self, force: &InForce, layered: &Layered) -> Vec<String> {
        let notices = layered.config.notices.iter().map(notice_text);
        let mut unsaid: Vec<String> = force.remarks.iter().cloned().chain(notices).collect();
        unsaid.retain(|text| self.said.insert(text.clone()));
        unsaid
    }
}

/// A notice without its place: the same one further down is not news.
fn notice_text(notice: &Notice) -> String {
    format!("{}: {}", notice.label, notice.text)
}

/// The watched directories.
struct Watched {
    watch: Arc<Watch>,
    on_wake: OnWake,
    armed: Vec<(PathBuf, WatchId)>,
    lost: Arc<AtomicBool>,
}

impl Watched {
    fn new(watch: Arc<Watch>, wake: SyncSender<()>) -> Self {
        let lost = Arc::new(AtomicBool::new(false));
        let on_wake: OnWake = {
            let lost = Arc::clone(&lost);
            Arc::new(move |why| {
                if why == Wake::Lost {
                    lost.store(true, Ordering::Relaxed);
                }
                // Where one wake waits to be taken already, this one is in it.
                let _waits = wake.try_send(());
            })
        };
        Self {
            watch,
            on_wake,
            armed: Vec::new(),
            lost,
        }
    }

    /// Whether changes may have been missed, and directories have to be watched anew.
    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Watches every directory that is there and not watched yet. Tells whether the one of the user's configuration is.
    fn arm(&mut self, layout: &Layout) -> bool {
        if self.lost.swap(false, Ordering::Relaxed) {
            for (_, id) in self.armed.drain(..) {
                self.watch.forget(&id);
            }
        }
        for path in layout.directories() {
            let is_armed = self.armed.iter().any(|(armed, _)| *armed == path);
            if !is_armed && let Ok(id) = self.watch.watch_any(&path, Arc::clone(&self.on_wake)) {
                self.armed.push((path, id));
            }
        }
        let of_global = layout.global.as_deref().and_then(Path::parent);
        of_global.is_some_and(|of_global| self.armed.iter().any(|(armed, _)| armed == of_global))
    }
}
