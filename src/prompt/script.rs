//! Answers from a script, for a demonstration without a person. They are credited to the script, never to a person.

use super::{Answerer, PersonEvent, PersonEvents, Prompter};
use crate::presentation::select::Choice;
use crate::serve::Shown;
use crate::wire::RequestId;

/// Name under which the script is credited.
const NAME: &str = "demo-script";

/// Says what to answer to an ask.
pub type Script = Box<dyn FnMut(&Shown) -> Choice + Send>;

/// A prompter that answers at once.
pub struct ScriptedPrompter {
    script: Script,
    events: PersonEvents,
}

impl ScriptedPrompter {
    /// A prompter that follows `script`.
    pub fn new(script: Script, events: PersonEvents) -> Self {
        Self { script, events }
    }
}

impl Prompter for ScriptedPrompter {
    fn show(&mut self, shown: Shown) {
        let choice = (self.script)(&shown);
        let chosen = PersonEvent::Chosen {
            id: shown.request.id.clone(),
            digest: shown.digest,
            choice,
            by: Answerer::Program(NAME.into()),
        };
        // The session may have ended meanwhile; then nobody needs the answer.
        let _sent = self.events.send(chosen);
    }

    fn withdraw(&mut self, _id: &RequestId, _why: &str) {}

    fn notice(&mut self, _text: &str) {}
}
