//! One integration binary: one link, one list.
//!
//! Each module begins with a sentence that says what belongs there; a test in `rings` fails on a file that is missing here.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

mod acp_fixtures;
mod cases_docs;
mod docs_children;
mod evidence_fixtures;
mod flow_acp;
mod flow_ask;
mod flow_chain;
mod flow_clocks;
mod flow_config;
mod flow_debug;
mod flow_doctor;
mod flow_events;
mod flow_evidence;
mod flow_forms;
mod flow_grants;
mod flow_hooks;
mod flow_identity;
mod flow_inspection;
mod flow_install;
mod flow_limits;
mod flow_liveness;
mod flow_log;
mod flow_mcp;
mod flow_policy;
mod flow_provenance;
mod flow_queue;
mod flow_races;
mod flow_routes;
mod flow_seal;
mod flow_serving;
mod host_fixtures;
mod hostile_chain;
mod hostile_config;
mod hostile_crash;
mod hostile_grants;
mod hostile_inbox;
mod hostile_log;
mod hostile_machine;
mod hostile_outbox;
mod hostile_seal;
mod identity_fixtures;
mod log_docs;
mod many_rules;
mod policy_fixtures;
mod programs;
mod rings;
mod screen_dialog;
mod screen_inbox;
mod seal_fixtures;
mod secrets_fixtures;
mod shell_fixtures;
mod support;
mod wire_docs;
mod wire_fixtures;
