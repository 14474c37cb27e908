//! Annotators: whoever adds a text to a question before a person sees it.
//!
//! A configuration names them, in order. All of a chain are asked at once, each for a bounded time, and whatever one does, its
//! outcome is a text or none: there is no way to decide anything here. Which ask is annotated, and when, is decided by the pure
//! step; this performs it.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};

use super::event::{Annotate, AnnotatorOutcome, Event};
use crate::program::{Executable, Failure, Outcome};
use crate::wire::{AskFacts, Digest, RequestId};

/// Writes a text about an ask.
pub trait Annotator: Send + Sync {
    /// The text; a blank one adds nothing. The future is dropped when the ask is settled, or the time is over.
    fn annotate<'a>(
        &'a self,
        facts: &'a AskFacts,
    ) -> Pin<Box<dyn Future<Output = Outcome<String>> + Send + 'a>>;
}

impl Annotator for Executable {
    fn annotate<'a>(
        &'a self,
        facts: &'a AskFacts,
    ) -> Pin<Box<dyn Future<Output = Outcome<String>> + Send + 'a>> {
        Box::pin(self.annotation(facts))
    }
}

/// The annotators that a chain may name.
#[derive(Default)]
pub struct Annotators {
    registered: HashMap<String, (Duration, Arc<dyn Annotator>)>,
}

impl Annotators {
    /// Has `annotator` answer to `name`, within `timeout`. A later one of the same name takes its place.
    pub fn register(
        &mut self,
        name: impl Into<String>,
        timeout: Duration,
        annotator: impl Annotator + 'static,
    ) {
        self.registered
            .insert(name.into(), (timeout, Arc::new(annotator)));
    }

    /// Those that `names` names, in this order. A name that nobody answers to is skipped.
    pub fn chain(&self, names: &[String]) -> AnnotatorChain {
        let mut chain = AnnotatorChain::default();
        for name in names {
            match self.registered.get(name) {
                Some((timeout, annotator)) => chain.links.push(Link {
                    name: name.clone(),
                    timeout: *timeout,
                    annotator: Arc::clone(annotator),
                }),
                None => chain.unregistered.push(name.clone()),
            }
        }
        chain
    }
}

/// The annotators of a session, in order.
#[derive(Clone, Default)]
pub struct AnnotatorChain {
    links: Vec<Link>,
    unregistered: Vec<String>,
}

#[derive(Clone)]
struct Link {
    name: String,
    timeout: Duration,
    annotator: Arc<dyn Annotator>,
}

impl std::fmt::Debug for AnnotatorChain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.links.iter().map(|link| &link.name);
        f.debug_list().entries(names).finish()
    }
}

impl AnnotatorChain {
    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Asks all of them at once, and gives what came of it in their order.
    async fn annotate(self, facts: Arc<AskFacts>) -> Vec<AnnotatorOutcome> {
        let mut running = JoinSet::new();
        let mut links = Vec::with_capacity(self.links.len());
        for link in self.links {
            let facts = Arc::clone(&facts);
            let task = running.spawn(async move {
                let text = link.annotator.annotate(&facts);
                tokio::time::timeout(link.timeout, text)
                    .await
                    .unwrap_or(Outcome::Failed(Failure::TooSlow(link.timeout)))
            });
            links.push((task.id(), link.name));
        }
        let mut ended = HashMap::with_capacity(links.len());
        while let Some(task) = running.join_next_with_id().await {
            // One that panics is as good as one that fails.
            let (id, outcome) =
                task.unwrap_or_else(|error| (error.id(), Outcome::Failed(Failure::Broken)));
            ended.insert(id, outcome);
        }
        links
            .into_iter()
            .filter_map(|(id, name)| {
                let outcome = ended.remove(&id)?;
                Some(AnnotatorOutcome { name, outcome })
            })
            .collect()
    }
}

/// The asks that are being annotated.
#[derive(Debug, Default)]
pub(super) struct Annotating {
    chain: AnnotatorChain,
    running: JoinSet<Vec<AnnotatorOutcome>>,
    asks: HashMap<RequestId, (AbortHandle, Digest)>,
}

impl Annotating {
    pub(super) fn new(chain: AnnotatorChain) -> Self {
        Self {
            chain,
            ..Self::default()
        }
    }

    /// Has another chain annotate from now on. Tells whether it names somebody new who is not there.
    pub(super) fn replace(&mut self, chain: &AnnotatorChain) -> bool {
        let news = self.chain.unregistered != chain.unregistered;
        self.chain = chain.clone();
        news
    }

    pub(super) fn unregistered(&self) -> &[String] {
        &self.chain.unregistered
    }

    pub(super) fn start(&mut self, annotate: Annotate) {
        let facts = Arc::new(annotate.facts);
        let id = facts.request_id.clone();
        let handle = self.running.spawn(self.chain.clone().annotate(facts));
        self.asks.insert(id, (handle, annotate.digest));
    }

    pub(super) fn cancel(&mut self, id: &RequestId) {
        if let Some((handle, _)) = self.asks.remove(id) {
            handle.abort();
        }
    }

    pub(super) fn cancel_all(&mut self) {
        self.running.abort_all();
    }

    /// Waits until the next ask has its annotations; `None` where none is being annotated.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            let (task, outcomes) = match self.running.join_next_with_id().await? {
                Ok(ended) => ended,
                Err(error) => (error.id(), Vec::new()),
            };
            // One that was cancelled is not among them any more.
            let found = self
                .asks
                .iter()
                .find(|(_, (handle, _))| handle.id() == task)
                .map(|(id, (_, digest))| (id.clone(), *digest));
            if let Some((id, digest)) = found {
                self.asks.remove(&id);
                return Some(Event::Annotated(id, digest, outcomes));
            }
        }
    }
}
