//! Which key a session's answers must be sealed with, as far as whoever started this process said so.
//!
//! A key is told through the environment and never looked up when an ask is made: whatever runs as the same user can write
//! anything into the spool, and nothing into the environment of a process that runs already.
//!
//! Once any session above is known by its key, no answer without a seal is believed: else it would be enough to take the place
//! of a session that nobody served when this process was started.

use std::borrow::Cow;

use super::Hinted;
use super::env::{self, Env};
use super::role::Ancestor;
use crate::ask::Trust;
use crate::wire::{ServingKey, SessionId};

/// What is known of keys.
#[derive(Debug)]
pub(super) struct Pins<'a> {
    /// Key of the session that is asked, whichever that is.
    flag: Option<ServingKey>,
    /// Key of the parent session.
    parent: Option<ServingKey>,
    /// The sessions above, outermost first.
    ancestors: Cow<'a, [Ancestor]>,
    /// Whether the configuration demands seals.
    required: bool,
}

impl<'a> Pins<'a> {
    /// What flag, environment and configuration say. A key that is none is an error: it cannot be left out of account.
    pub(super) fn new(
        env: &Env,
        flag: Option<&str>,
        ancestors: impl Into<Cow<'a, [Ancestor]>>,
        required: bool,
    ) -> anyhow::Result<Self> {
        let parent = told(env)?;
        Ok(Self {
            flag: flag.map(|text| parse(text, "--serving-key")).transpose()?,
            parent,
            ancestors: ancestors.into(),
            required,
        })
    }

    /// Whether any key is known.
    pub(super) fn any(&self) -> bool {
        self.flag.is_some()
            || self.parent.is_some()
            || self.ancestors.iter().any(|ancestor| ancestor.key.is_some())
    }

    /// The key of a session above, where it was told with that session.
    fn of_ancestor(&self, session: &SessionId) -> Option<&ServingKey> {
        let above = self.ancestors.iter().rev();
        above
            .filter(|ancestor| ancestor.hop.session_id == session.as_str())
            .find_map(|ancestor| ancestor.key.as_ref())
    }

    /// Whether the key of `session` is known, which is the parent or one above it.
    pub(super) fn knows(&self, session: &SessionId, is_parent: bool) -> bool {
        let told = self.flag.is_some() || self.parent.is_some();
        self.of_ancestor(session).is_some() || (is_parent && told)
    }

    /// The session to ask where `parent` is the one above: itself, or, where keys are known and its own is not, the nearest above it
    /// whose key is. Who takes the place of one that nobody served is not asked; and none is passed over because it looks as if it
    /// were not served, for that is easily brought about.
    pub(super) fn nearest_known(&self, parent: &SessionId, own_id: &str) -> SessionId {
        if !self.any() || self.knows(parent, true) {
            return parent.clone();
        }
        let above = self.ancestors.iter().rev();
        above
            .filter(|ancestor| ancestor.key.is_some())
            .filter_map(|ancestor| SessionId::parse(&ancestor.hop.session_id).ok())
            .find(|session| session.as_str() != own_id)
            .unwrap_or_else(|| parent.clone())
    }

    /// Whose answers count where `session` is asked.
    pub(super) fn trust(&self, session: &SessionId) -> Trust {
        let key = self
            .flag
            .as_ref()
            .or_else(|| self.of_ancestor(session))
            .or(self.parent.as_ref());
        match key {
            Some(key) => Trust::Pinned(Box::new(key.clone())),
            None if self.required || self.any() => Trust::NoKey,
            None => Trust::Anybody,
        }
    }
}

/// The key that this process was told for its parent. One that is set to nothing is what is left of a launcher's mistake, and
/// no leave to believe anybody.
pub(super) fn told(env: &Env) -> anyhow::Result<Option<ServingKey>> {
    env.variable(env::SERVING_KEY)
        .map(|text| parse(&text.to_string_lossy(), env::SERVING_KEY))
        .transpose()
}

/// Reads a key that was given by `from`.
pub(super) fn parse(text: &str, from: &str) -> anyhow::Result<ServingKey> {
    text.parse().map_err(|error| {
        Hinted::usage(
            format!("{text:?} (from {from}) is no key: {error}"),
            "`askrelay status --json` shows the key of each session, and `askrelay serve` says its own",
        )
    })
}

#[cfg(test)]
pub(super) mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::wire::{Hop, SEAL_SEED_BYTES, SealKey};

    pub(in crate::cli) fn key(seed: u8) -> ServingKey {
        SealKey::from_seed(&Zeroizing::new([seed; SEAL_SEED_BYTES])).public()
    }

    fn session(id: &str) -> SessionId {
        SessionId::parse(id).unwrap()
    }

    fn above(id: &str, key: Option<ServingKey>) -> Ancestor {
        Ancestor {
            hop: Hop {
                session_id: id.into(),
                agent_name: "x".into(),
            },
            key,
        }
    }

    fn pinned(key: &ServingKey) -> Trust {
        Trust::Pinned(Box::new(key.clone()))
    }

    #[test]
    fn without_any_key_anybody_is_believed_unless_seals_are_demanded() {
        let mut pins = Pins {
            flag: None,
            parent: None,
            ancestors: vec![above("main", None)].into(),
            required: false,
        };
        assert_eq!(pins.trust(&session("main")), Trust::Anybody);
        pins.required = true;
        assert_eq!(pins.trust(&session("main")), Trust::NoKey);
    }

    #[test]
    fn a_session_above_goes_by_its_own_key_and_the_flag_before_all() {
        let ancestors = [above("main", Some(key(1))), above("A", None)];
        let mut pins = Pins {
            flag: None,
            parent: None,
            ancestors: (&ancestors).into(),
            required: false,
        };
        assert_eq!(pins.trust(&session("main")), pinned(&key(1)));
        // Nobody served it when this process was started; whoever does now is not believed.
        assert_eq!(pins.trust(&session("A")), Trust::NoKey);
        assert!(pins.knows(&session("main"), false));
        assert!(!pins.knows(&session("A"), true));
        pins.parent = Some(key(2));
        assert_eq!(pins.trust(&session("A")), pinned(&key(2)));
        assert_eq!(pins.trust(&session("main")), pinned(&key(1)));
        assert!(pins.knows(&session("A"), true));
        pins.flag = Some(key(3));
        assert_eq!(pins.trust(&session("main")), pinned(&key(3)));
    }
}
