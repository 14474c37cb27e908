//! What an agent reads when its call was refused.

use crate::wire::{Decision, PromptPayload};

/// What a denial says beyond the payload and the decision.
#[derive(Debug, Clone, Copy)]
pub struct DenialContext<'a> {
    /// Own agent name, where known.
    pub agent_name: Option<&'a str>,
    /// Most UTF-16 units of one operand.
    pub field_max_width: usize,
    /// Most UTF-16 units of the reason.
    pub reason_max_width: usize,
}

impl Default for DenialContext<'_> {
    fn default() -> Self {
        Self {
            agent_name: None,
            field_max_width: 400,
            reason_max_width: 2000,
        }
    }
}

/// The text for the agent whose call was refused.
pub fn agent_text(
    payload: &PromptPayload,
    decision: &Decision,
    context: &DenialContext<'_>,
) -> String {
    let _ = (payload, decision, context);
    String::new()
}
