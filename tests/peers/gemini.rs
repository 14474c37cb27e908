//! Gemini CLI with the hook. Its hook is told nothing of subagents, and it is not run in ACP mode.

crate::matrix::held_to_all!(
    crate::matrix::Way::Gemini,
    ignore = "run by tests/peers/run --all"
);

#[test]
#[ignore = "run by tests/peers/run --all"]
fn the_doctor_proves_it_with_the_agent_itself() {
    crate::matrix::the_doctor_proves_it_with_the_agent_itself(crate::matrix::Way::Gemini);
}
