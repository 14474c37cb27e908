//! What stands on disk, as values: the protocol that we share with the TypeScript peer and with any other program.
//!
//! Readers take bytes and give a value or a reason; they are tolerant field by field, and strict where a lie would matter.
//! Writers give bytes in the peer's key order. Nothing here does I/O, asks a clock, or recurses without a bound.

mod bound;
mod decider;
mod grant;
mod grant_record;
mod heartbeat;
mod intent;
mod json;
mod payload;
mod process;
mod program;
mod request;
mod response;
mod schema;
mod seal;
mod session;
#[cfg(test)]
mod tests;

pub use bound::MAX_REASON_UNITS;
pub use decider::{AuthorizerVerdict, DecisionSource, FRAME_BUDGET, UserSurface};
pub use grant::{ApprovalGrant, Direction, GrantWidth, Lifetime, proven_direction};
pub use grant_record::{GrantRecord, lifetime_value, scope_value};
pub use heartbeat::{Heartbeat, HeartbeatRelay, LinkHealth, Liveness};
pub use intent::{AskingUnit, ForwardedAccessIntent, Principal};
pub use json::{MAX_DEPTH, Malformed};
pub use payload::{
    Annotation, CommandContext, Evidence, PayloadKind, PromptPayload, RequestFacts, Requester,
};
pub use process::ProcessMark;
pub use program::{
    AskFacts, Forwarding, JudgedFacts, LinkVerdict, MAX_PROGRAM_BYTES, Ruling,
    annotation_from_json, evidence_from_json, tool_call_json, tool_input_from_json,
    verdict_from_json,
};
pub use request::{
    ForwardedPermissionRequest, Generation, Hop, MAX_HOPS, RequestId, RequestRelay, RequestSource,
};
pub use response::{Decision, DecisionState, ForwardedPermissionResponse, ResponseRelay};
pub use schema::SchemaName;
pub use seal::{
    Digest, Envelope, NotADigest, NotAKey, SEAL_PAYLOAD_TYPE, SEAL_SEED_BYTES, SealFault, SealKey,
    ServingKey,
};
pub use session::{SessionId, SessionIdError, UNKNOWN, trim};

/// Largest request file that is read, in bytes.
pub const MAX_REQUEST_BYTES: usize = 8 << 20;
/// Largest response file that is read, in bytes.
pub const MAX_RESPONSE_BYTES: usize = 256 << 10;
/// Largest heartbeat file that is read, in bytes.
pub const MAX_HEARTBEAT_BYTES: usize = 16 << 10;
/// Version of the `relay` object that we write.
pub const RELAY_VERSION: u32 = 1;

/// Why nobody ruled on an ask for which only what was decided beforehand was wanted: no rule is about it. It stands as the reason of
/// `unavailable`, and whoever asked so knows it by this text.
pub const UNRULED: &str = "no rule is about it, and only rules were asked";
/// Reason of a denial that only says that somebody would be asked.
pub const UNASKED: &str = "a rule has it asked, and only rules were asked";

/// Sentinel of a rule's allow that became an ask because some text of the request had to be replaced.
pub const SENTINEL_LOSSY_TEXT: &str = "<lossy-text>";
/// Lifts an allow to an ask: the call would run outside of the sandbox, and what allows it does not say so.
pub const SENTINEL_OUTSIDE_SANDBOX: &str = "<outside-sandbox>";
/// Lifts an allow to an ask: some of what the call would do cannot be read from its input.
pub const SENTINEL_INPUT_UNREAD: &str = "<input-unread>";
/// Lifts an allow to an ask: the call works on more files than rules are held against one by one.
pub const SENTINEL_TOO_MANY_FILES: &str = "<too-many-files>";

/// Whether a sentinel says that no rule was held against some of what is asked about. Then nothing that was said beforehand answers it:
/// no rule, no grant, and not the switch.
pub fn is_unseen(sentinel: &str) -> bool {
    matches!(sentinel, SENTINEL_INPUT_UNREAD | SENTINEL_TOO_MANY_FILES)
}

/// Sentinel of a command line whose structure is not known.
pub const SENTINEL_UNPARSEABLE_COMMAND: &str = "<unparseable-bash-command>";
/// Sentinel of a command line that runs shell code which it does not show.
pub const SENTINEL_OPAQUE: &str = "<opaque-bash-wrapper>";
/// Sentinel of a command line that runs a command whose name or arguments it does not show.
pub const SENTINEL_INDIRECTION: &str = "<indirection-bash-wrapper>";
/// Sentinel of a command line of which a part could not be told for sure.
pub const SENTINEL_UNPARSED_SUBTREE: &str = "<unparsed-bash-subtree>";
/// Sentinel of a command that writes a file or opens a connection by a redirection. The peer has none for this.
pub const SENTINEL_REDIRECTION: &str = "<redirection>";

/// Why a file cannot be used as what its place says it is. Its text is a fragment that fits behind "unusable: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The bytes are no document at all.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A required field is missing or has the wrong type.
    #[error("field {0:?} is missing or malformed")]
    Field(&'static str),
    /// The id may not name a file.
    #[error("field \"id\" is not safe as a file name (1 to 200 of A-Z a-z 0-9 . _ -)")]
    UnsafeId,
    /// `approved` and `state` say different things.
    #[error("\"approved\" is {approved}, but \"state\" is {state:?}")]
    Disagreement {
        /// What `approved` says.
        approved: bool,
        /// What `state` says.
        state: &'static str,
    },
    /// Some text is no Unicode, where nothing may be replaced.
    #[error("some of its text is no Unicode")]
    NotUnicode,
    /// An answer that names another ask than the one that it was asked about.
    #[error("it answers another ask")]
    AnotherAsk,
    /// A document of another kind.
    #[error("not a {what}: a required member is missing or malformed")]
    NotThisKind {
        /// What was expected.
        what: &'static str,
    },
}

/// A value cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The serialiser failed.
    #[error("cannot write the value as JSON")]
    Json(#[from] serde_json::Error),
    /// A request for the oldest generation needs a pre-rendered text.
    #[error("a request for generation G1 needs a message")]
    NoMessage,
    /// The ask came through more sessions than a request carries along.
    #[error("the ask came through more than {MAX_HOPS} sessions")]
    TooManyHops,
}
