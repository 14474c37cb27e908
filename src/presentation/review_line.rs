//! The facts of a payload that the review log keeps.

use serde_json::{Map, Value};

use crate::wire::PromptPayload;

/// The payload's facts, in the log's order.
pub fn payload_facts(payload: &PromptPayload) -> Map<String, Value> {
    let _ = payload;
    Map::new()
}

/// What the call is, in the fields of the `permission_request.*` events.
pub fn call_facts(payload: &PromptPayload) -> Map<String, Value> {
    let _ = payload;
    Map::new()
}
