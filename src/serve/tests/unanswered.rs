//! What becomes of an ask whose prompt was put away: nobody has decided it.

use super::super::Event;
use super::{Content, Digest, id, shown, with_person};
use crate::wire::DecisionSource;

#[test]
fn an_ask_whose_prompt_was_put_away_is_decided_by_nobody_and_the_next_is_asked() {
    let mut model = with_person();
    for name in ["a", "b"] {
        model.put(name, Content::Asks("brew"), false);
    }
    model.list();
    model.settle();
    let dismissed = |name, digest| Event::Unanswered {
        id: id(name),
        digest,
        cause: "the form was dismissed in x".to_owned(),
    };
    let (_, digest) = model.shown.clone().unwrap();
    // In other bytes, or about what is not on the screen, it says nothing.
    model.step(dismissed("a", Digest::of(b"other bytes")));
    model.step(dismissed("b", digest));
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    assert!(model.decided.is_empty());
    model.shown = None;
    model.step(dismissed("a", digest));
    model.settle();
    let mut decided = model.decided.iter();
    let (_, decision) = decided.find(|((of, _), _)| *of == id("a")).unwrap();
    assert!(!decision.is_approved());
    assert_eq!(
        decision.decided_by,
        DecisionSource::Unavailable {
            reason: "the form was dismissed in x".to_owned()
        }
    );
    assert_eq!(shown(&model), Some("b"));
}
