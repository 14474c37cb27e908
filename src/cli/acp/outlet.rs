//! One way out: what is written to one side, in order, by a task of its own.
//!
//! What passes is counted, so that whoever reads the other side can wait until there is room. A line that is added here never
//! lands within another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// How many bytes may wait to be written before no more are read.
const ROOM: usize = 1 << 20;

/// What the writing task and its owner share.
#[derive(Default)]
struct Shared {
    /// Bytes that wait.
    waiting: AtomicUsize,
    /// Told after each write.
    written: Notify,
    /// The other end does not take any more.
    is_broken: AtomicBool,
    broke: Notify,
}

/// A way out.
pub(super) struct Outlet {
    shared: Arc<Shared>,
    queue: Option<mpsc::UnboundedSender<Vec<u8>>>,
    writer: JoinHandle<()>,
    /// Whether the last piece that passed has not ended its line.
    within_line: bool,
    /// What is added when that line has ended.
    held: Vec<Vec<u8>>,
}

impl Outlet {
    pub(super) fn to(writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let (queue, queued) = mpsc::unbounded_channel();
        let writer = tokio::spawn(write_all(writer, queued, Arc::clone(&shared)));
        Self {
            shared,
            queue: Some(queue),
            writer,
            within_line: false,
            held: Vec::new(),
        }
    }

    /// Whether more may be read for it.
    pub(super) fn has_room(&self) -> bool {
        self.shared.waiting.load(Ordering::Relaxed) < ROOM
    }

    /// Waits until something was written.
    pub(super) async fn room(&self) {
        self.shared.written.notified().await;
    }

    /// Waits until the other end does not take any more.
    pub(super) async fn broken(&self) {
        while !self.shared.is_broken.load(Ordering::Relaxed) {
            self.shared.broke.notified().await;
        }
    }

    /// Passes a piece on as it came.
    pub(super) fn pass(&mut self, bytes: Vec<u8>, ends_line: bool) {
        self.send(bytes);
        self.within_line = !ends_line;
        if ends_line {
            for line in std::mem::take(&mut self.held) {
                self.send(line);
            }
        }
    }

    /// Adds a line, behind the one that passes now.
    pub(super) fn add(&mut self, line: Vec<u8>) {
        if self.within_line {
            self.held.push(line);
        } else {
            self.send(line);
        }
    }

    fn send(&self, bytes: Vec<u8>) {
        if let Some(queue) = &self.queue {
            self.shared
                .waiting
                .fetch_add(bytes.len(), Ordering::Relaxed);
            // The writing task ends only where nothing can be written any more.
            let _queued = queue.send(bytes);
        }
    }

    /// Nothing more comes: what waits is written, then the other side sees the end.
    pub(super) fn close(&mut self) {
        self.queue = None;
    }

    /// The same, and waits for it.
    pub(super) async fn finish(mut self) {
        self.close();
        // A fault of the task has nothing to tell.
        let _ended = self.writer.await;
    }
}

async fn write_all(
    mut writer: impl AsyncWrite + Unpin,
    mut queued: mpsc::UnboundedReceiver<Vec<u8>>,
    shared: Arc<Shared>,
) {
    let mut broken = false;
    while let Some(bytes) = queued.recv().await {
        if !broken {
            let written = async {
                writer.write_all(&bytes).await?;
                if queued.is_empty() {
                    writer.flush().await?;
                }
                std::io::Result::Ok(())
            };
            broken = written.await.is_err();
        }
        // What nobody takes any more waits for nobody.
        shared.waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
        shared.written.notify_one();
        if broken && !shared.is_broken.swap(true, Ordering::Relaxed) {
            shared.broke.notify_one();
        }
    }
}
