//! Authorizers: whoever may decide an ask before the person does.
//!
//! A configuration names them, in order. Which link is asked, when, what becomes of its verdict and who decided in the end is for
//! the pure step; this knows who answers to which name, asks one link at a time for each ask, and tells how that ended. Whatever
//! a link does, its outcome is a verdict or a failure.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};

use super::event::{Authorize, Authorized, Event};
use crate::clock;
use crate::policy::Family;
use crate::program::{Executable, Failure, Outcome};
use crate::wire::{AskFacts, Digest, LinkVerdict, RequestId};

/// Rules on an ask, or leaves it to whoever comes next.
pub trait Authorizer: Send + Sync {
    /// What it says. The future is dropped when somebody else has decided, nobody waits any more, or the time is over.
    fn authorize<'a>(
        &'a self,
        facts: &'a AskFacts,
    ) -> Pin<Box<dyn Future<Output = Outcome<LinkVerdict>> + Send + 'a>>;
}

impl Authorizer for Executable {
    fn authorize<'a>(
        &'a self,
        facts: &'a AskFacts,
    ) -> Pin<Box<dyn Future<Output = Outcome<LinkVerdict>> + Send + 'a>> {
        Box::pin(self.verdict(facts))
    }
}

/// The authorizers that a chain may name.
#[derive(Default)]
pub struct Authorizers {
    registered: HashMap<String, Registered>,
    numbers: u64,
}

struct Registered {
    number: u64,
    timeout: Duration,
    authorizer: Arc<dyn Authorizer>,
}

/// A name that was taken for an authorizer; whoever has this may give it up again.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Registration {
    name: String,
    number: u64,
}

/// A name that another authorizer answers to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("another authorizer answers to the name {0:?} already")]
pub struct NameTaken(String);

impl Authorizers {
    /// Has `authorizer` answer to `name`, within `timeout`. A name that is taken stays with who has it: nobody is to take the
    /// place of a judge that the operator trusts.
    pub fn register(
        &mut self,
        name: impl Into<String>,
        timeout: Duration,
        authorizer: impl Authorizer + 'static,
    ) -> Result<Registration, NameTaken> {
        let name = name.into();
        if self.registered.contains_key(&name) {
            return Err(NameTaken(name));
        }
        self.numbers += 1;
        let number = self.numbers;
        let registered = Registered {
            number,
            timeout,
            authorizer: Arc::new(authorizer),
        };
        self.registered.insert(name.clone(), registered);
        Ok(Registration { name, number })
    }

    /// Gives a name up. One that somebody else has taken since stays theirs. Chains that were made before are not changed.
    pub fn unregister(&mut self, registration: &Registration) {
        let own = self.registered.get(&registration.name);
        if own.is_some_and(|own| own.number == registration.number) {
            self.registered.remove(&registration.name);
        }
    }

    /// Those that `names` names, in this order, each with the families that it is trusted on. A name that nobody answers to is
    /// skipped, and so is one that stands there before: asking twice until somebody allows is no second opinion.
    pub fn chain(
        &self,
        names: &[String],
        trust: &BTreeMap<String, Vec<Family>>,
    ) -> AuthorizerChain {
        let mut chain = AuthorizerChain::default();
        for name in names {
            if chain.configured.contains(name) {
                continue;
            }
            chain.configured.push(name.clone());
            match self.registered.get(name) {
                Some(registered) => chain.links.push(Arc::new(Link {
                    name: name.clone(),
                    timeout: registered.timeout,
                    trusted: trust.get(name).cloned().unwrap_or_default(),
                    authorizer: Arc::clone(&registered.authorizer),
                })),
                None => chain.unregistered.push(name.clone()),
            }
        }
        chain
    }
}

/// The authorizers of a session, in order.
#[derive(Debug, Clone, Default)]
pub struct AuthorizerChain {
    configured: Vec<String>,
    links: Vec<Arc<Link>>,
    unregistered: Vec<String>,
}

impl AuthorizerChain {
    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// The names that the configuration has, whether anybody answers to them or not.
    pub fn configured(&self) -> &[String] {
        &self.configured
    }

    /// Those of them that nobody answers to.
    pub fn unregistered(&self) -> &[String] {
        &self.unregistered
    }

    /// Those who are asked, in order.
    pub(super) fn links(&self) -> &[Arc<Link>] {
        &self.links
    }
}

/// One authorizer of a chain.
#[derive(Clone)]
pub struct Link {
    name: String,
    timeout: Duration,
    trusted: Vec<Family>,
    authorizer: Arc<dyn Authorizer>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("name", &self.name)
            .field("trusted", &self.trusted)
            .finish_non_exhaustive()
    }
}

impl Link {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The families on which its allow counts although they are excluded.
    pub fn trusted(&self) -> &[Family] {
        &self.trusted
    }
}

/// The asks that links are asked about.
#[derive(Debug, Default)]
pub(super) struct Authorizing {
    running: JoinSet<(Outcome<LinkVerdict>, Duration)>,
    asks: HashMap<RequestId, Asked>,
}

#[derive(Debug)]
struct Asked {
    handle: AbortHandle,
    digest: Digest,
    link: String,
    since: clock::Moment,
}

impl Authorizing {
    pub(super) fn start(&mut self, authorize: Authorize) {
        let Authorize {
            digest,
            link,
            facts,
        } = authorize;
        let (id, name) = (facts.request_id.clone(), link.name.clone());
        let since = clock::now();
        let handle = self.running.spawn(async move {
            let verdict = link.authorizer.authorize(&facts);
            let outcome = tokio::time::timeout(link.timeout, verdict)
                .await
                .unwrap_or(Outcome::Failed(Failure::TooSlow(link.timeout)));
            (outcome, clock::now().since(since))
        });
        let asked = Asked {
            handle,
            digest,
            link: name,
            since,
        };
        if let Some(before) = self.asks.insert(id, asked) {
            before.handle.abort();
        }
    }

    pub(super) fn cancel(&mut self, id: &RequestId) {
        if let Some(asked) = self.asks.remove(id) {
            asked.handle.abort();
        }
    }

    pub(super) fn cancel_all(&mut self) {
        self.running.abort_all();
    }

    /// Waits until the next link has answered, or failed; `None` where none is asked.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            let (task, ended) = match self.running.join_next_with_id().await? {
                Ok((task, ended)) => (task, Some(ended)),
                // One that panics is as good as one that fails.
                Err(error) => (error.id(), None),
            };
            // One that was cancelled is not among them any more.
            let found = self
                .asks
                .iter()
                .find(|(_, asked)| asked.handle.id() == task)
                .map(|(id, _)| id.clone());
            if let Some(id) = found
                && let Some(asked) = self.asks.remove(&id)
            {
                let broken = || {
                    let latency = clock::now().since(asked.since);
                    (Outcome::Failed(Failure::Broken), latency)
                };
                let (outcome, latency) = ended.unwrap_or_else(broken);
                return Some(Event::Authorized(Authorized {
                    id,
                    digest: asked.digest,
                    link: asked.link,
                    outcome,
                    latency,
                }));
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::wire::ForwardedPermissionRequest;

    /// One that is never asked: what it says, a test says.
    pub(in crate::serve) struct Silent;

    impl Authorizer for Silent {
        fn authorize<'a>(
            &'a self,
            _facts: &'a AskFacts,
        ) -> Pin<Box<dyn Future<Output = Outcome<LinkVerdict>> + Send + 'a>> {
            Box::pin(std::future::pending())
        }
    }

    /// One that breaks.
    struct Breaks;

    impl Authorizer for Breaks {
        fn authorize<'a>(
            &'a self,
            _facts: &'a AskFacts,
        ) -> Pin<Box<dyn Future<Output = Outcome<LinkVerdict>> + Send + 'a>> {
            Box::pin(async { panic!("by a fault of its own") })
        }
    }

    const LONG: Duration = Duration::from_mins(1);

    /// What has to be done to ask this authorizer about an ask of this id.
    fn ask(name: &str, authorizer: impl Authorizer + 'static, within: Duration) -> Authorize {
        let mut authorizers = Authorizers::default();
        let _registered = authorizers.register(name, within, authorizer).unwrap();
        let chain = authorizers.chain(&names(&[name]), &BTreeMap::new());
        let bytes = format!(
            r#"{{"id":"{name}","createdAt":1,"requesterSessionId":"C","targetSessionId":"P","requesterAgentName":"scout"}}"#
        );
        let request = ForwardedPermissionRequest::from_json(bytes.as_bytes()).unwrap();
        Authorize {
            digest: Digest::of(bytes.as_bytes()),
            link: Arc::clone(&chain.links()[0]),
            facts: Arc::new(AskFacts::of(&request)),
        }
    }

    #[test]
    fn one_that_breaks_or_takes_too_long_has_failed_and_one_that_is_stopped_says_nothing() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut authorizing = Authorizing::default();
            let soon = Duration::from_millis(1);
            authorizing.start(ask("stopped", Silent, soon));
            authorizing.start(ask("breaks", Breaks, LONG));
            authorizing.start(ask("slow", Silent, soon));
            authorizing.cancel(&RequestId::parse("stopped").unwrap());
            let mut failures = BTreeMap::new();
            while let Some(event) = authorizing.next().await {
                let Event::Authorized(done) = event else {
                    panic!("{event:?}")
                };
                assert_eq!(done.link, done.id.as_str());
                failures.insert(done.link, done.outcome);
            }
            let failed = |why| Outcome::<LinkVerdict>::Failed(why);
            let expected = [
                ("breaks".to_owned(), failed(Failure::Broken)),
                ("slow".to_owned(), failed(Failure::TooSlow(soon))),
            ];
            assert_eq!(failures, BTreeMap::from(expected));
        });
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_name_is_taken_once_and_given_up_by_who_has_it() {
        let mut authorizers = Authorizers::default();
        let first = authorizers.register("judge", LONG, Silent).unwrap();
        let taken = authorizers.register("judge", LONG, Silent).unwrap_err();
        assert_eq!(
            taken.to_string(),
            "another authorizer answers to the name \"judge\" already"
        );
        authorizers.unregister(&first);
        let second = authorizers.register("judge", LONG, Silent).unwrap();
        // It is somebody else's by now.
        authorizers.unregister(&first);
        let chain = authorizers.chain(&names(&["judge"]), &BTreeMap::new());
        assert!(!chain.is_empty());
        authorizers.unregister(&second);
        assert!(
            authorizers
                .chain(&names(&["judge"]), &BTreeMap::new())
                .is_empty()
        );
        assert!(
            !chain.is_empty(),
            "a chain that was made before is as it was"
        );
    }

    #[test]
    fn a_chain_has_the_order_of_the_names_and_says_who_is_missing() {
        let mut authorizers = Authorizers::default();
        for name in ["a", "b", "c"] {
            let _registered = authorizers.register(name, LONG, Silent).unwrap();
        }
        let trust = BTreeMap::from([("a".to_owned(), vec![Family::Path])]);
        let chain = authorizers.chain(&names(&["c", "gone", "a", "c"]), &trust);
        let order: Vec<&str> = chain.links().iter().map(|link| link.name()).collect();
        assert_eq!(order, ["c", "a"]);
        assert_eq!(chain.configured(), ["c", "gone", "a"]);
        assert_eq!(chain.unregistered(), ["gone"]);
        let trusted: Vec<_> = chain.links().iter().map(|link| link.trusted()).collect();
        assert_eq!(trusted, [&[][..], &[Family::Path]]);
    }
}
