//! One record of the review log, before it is written.

use serde_json::{Map, Value};

use super::event::{Ending, Event};
use super::line::is_header_key;
use crate::wire::DecisionSource;

/// Key of the decider.
const DECIDER: &str = "decidedBy";

/// One record: an event and its details, in order. Details are taken as they are; capping, redacting and escaping is the
/// writer's business.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Entry {
    event: &'static str,
    details: Map<String, Value>,
}

impl Entry {
    /// A record of something that decides nothing, without details.
    pub fn new(event: Event) -> Self {
        Self::named(event.name())
    }

    /// A record of how an ask ends, with who decided it, as `decidedBy`. There is no other way to an ending, and no other one
    /// to a decider.
    pub fn ending(ending: Ending, decided_by: &DecisionSource) -> Self {
        // Nothing in a decider can fail to become a value.
        let decided_by = serde_json::to_value(decided_by).unwrap_or(Value::Null);
        let mut entry = Self::named(ending.name());
        entry.details.insert(DECIDER.to_owned(), decided_by);
        entry
    }

    /// A record of any name, for tests of the writer and the reader.
    #[cfg(test)]
    pub(crate) fn test(event: &'static str) -> Self {
        Self::named(event)
    }

    fn named(event: &'static str) -> Self {
        Self {
            event,
            details: Map::new(),
        }
    }

    /// Adds a detail; one of the same name is replaced. A detail may not pose as a part of the header, nor as the decider: named
    /// like one, it becomes `detail_<key>`.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        let key = if is_header_key(key) || key == DECIDER {
            format!("detail_{key}")
        } else {
            key.to_owned()
        };
        self.details.insert(key, value.into());
        self
    }

    /// Adds a detail that is written as null where it is unknown.
    pub fn with_opt(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        self.with(key, value.map_or(Value::Null, Into::into))
    }

    /// Adds a detail only where it is known.
    pub fn with_known(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds all members of `facts`, in their order.
    pub fn with_facts(self, facts: Map<String, Value>) -> Self {
        facts
            .into_iter()
            .fold(self, |entry, (key, value)| entry.with(&key, value))
    }

    /// Name of the event.
    pub fn event(&self) -> &'static str {
        self.event
    }

    /// The details, in order.
    pub fn details(&self) -> &Map<String, Value> {
        &self.details
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_keep_their_order_and_never_overwrite_the_header_or_the_decider() {
        let decider = DecisionSource::forwarded_from(
            Some("P".to_owned()),
            Some(DecisionSource::InfrastructureRead),
        );
        let entry = Entry::ending(Ending::Denied, &decider)
            .with("requestId", "perm-1")
            .with_opt("denialReason", None::<String>)
            .with_known("floor", None::<String>)
            .with("event", "forwarded_permission.approved")
            .with("decidedBy", "the user")
            .with_facts(Map::from_iter([("stream".to_owned(), 1.into())]));
        assert_eq!(entry.event(), "forwarded_permission.denied");
        assert_eq!(
            Value::Object(entry.details().clone()).to_string(),
            r#"{"decidedBy":{"kind":"forwarded","responderSessionId":"P","decision":{"kind":"infrastructure_read"}},"requestId":"perm-1","denialReason":null,"detail_event":"forwarded_permission.approved","detail_decidedBy":"the user","detail_stream":1}"#
        );
    }
}
