//! One record of the review log, before it is written.

use serde_json::{Map, Value};

use crate::wire::DecisionSource;

/// One record: an event and its details, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub(super) event: &'static str,
    pub(super) details: Map<String, Value>,
}

impl Entry {
    /// A record of `event`, without details.
    pub fn new(event: &'static str) -> Self {
        Self {
            event,
            details: Map::new(),
        }
    }

    /// Adds a detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a detail that is written as null where it is unknown.
    #[must_use]
    pub fn with_opt(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        self.with(key, value.map_or(Value::Null, Into::into))
    }

    /// Adds a detail only where it is known.
    #[must_use]
    pub fn with_known(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Adds all members of `facts`, in their order.
    #[must_use]
    pub fn with_facts(mut self, facts: Map<String, Value>) -> Self {
        self.details.extend(facts);
        self
    }

    /// Adds who decided, as `decidedBy`.
    #[must_use]
    pub fn with_decider(self, source: &DecisionSource) -> Self {
        self.with(
            "decidedBy",
            serde_json::to_value(source).unwrap_or(Value::Null),
        )
    }

    /// Name of the event.
    pub fn event(&self) -> &'static str {
        self.event
    }

    /// The detail under `key`.
    pub fn detail(&self, key: &str) -> Option<&Value> {
        self.details.get(key)
    }
}
