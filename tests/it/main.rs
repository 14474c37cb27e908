//! One integration binary.

/// Configurations and judgements, as the fixture files expect them.
mod policy_fixtures;
