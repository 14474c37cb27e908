//! Gemini CLI with the hook. Its hook is told nothing of subagents, and it is not run in ACP mode.

crate::matrix::held_to_all!(
    crate::matrix::Way::Gemini,
    ignore = "run by tests/peers/run --all"
);
