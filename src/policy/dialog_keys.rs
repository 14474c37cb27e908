//! Which keys decide in the dialog.
//!
//! A wish that cannot be met costs its own key only: the decision keeps its usual letter, and the operator is told. A dialog
//! never ends up with two decisions on one key, or with a decision that no key reaches.

use std::fmt;

/// Names of the decisions in a configuration, in the order in which the dialog shows them.
pub(crate) const NAMES: [&str; 5] = [
    "approve",
    "approveSession",
    "approveSessionBoth",
    "deny",
    "denyWithReason",
];
const USUAL: [char; 5] = ['y', 's', 'b', 'n', 'r'];

/// Keys of the dialog, each one character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DialogKeys {
    /// Approve once.
    pub approve: char,
    /// Approve for the session.
    pub approve_session: char,
    /// Approve for the session, in both directions.
    pub approve_session_both: char,
    /// Deny.
    pub deny: char,
    /// Deny and say why.
    pub deny_with_reason: char,
}

impl Default for DialogKeys {
    fn default() -> Self {
        Self::from_array(USUAL)
    }
}

/// A wish that was not met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Place of the decision in [`NAMES`].
    pub(crate) place: usize,
    why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    NotOneKey,
    Reserved,
    Taken,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.get(self.place).copied().unwrap_or_default();
        let usual = USUAL.get(self.place).copied().unwrap_or_default();
        let why = match self.why {
            Why::NotOneKey => "a key is one lower-case letter, digit or symbol",
            Why::Reserved => "'j' and 'k' move in the dialog, and '+' is not free",
            Why::Taken => "another decision has this key",
        };
        write!(f, "{name:?} keeps {usual:?}: {why}")
    }
}

impl DialogKeys {
    fn from_array(
        [
            approve,
            approve_session,
            approve_session_both,
            deny,
            deny_with_reason,
        ]: [char; 5],
    ) -> Self {
        Self {
            approve,
            approve_session,
            approve_session_both,
            deny,
            deny_with_reason,
        }
    }

    /// Each key with its name in a configuration.
    pub(crate) fn named(self) -> [(&'static str, char); 5] {
        let [approve, session, both, deny, with_reason] = NAMES;
        [
            (approve, self.approve),
            (session, self.approve_session),
            (both, self.approve_session_both),
            (deny, self.deny),
            (with_reason, self.deny_with_reason),
        ]
    }

    /// Meets the wishes that can be met.
    pub(crate) fn choose(wanted: [Option<&str>; 5]) -> (Self, Vec<Refusal>) {
        let mut refused = Vec::new();
        let mut place = 0;
        let mut chosen = wanted.map(|wish| {
            let key = match wish.map(usable) {
                None => None,
                Some(Ok(key)) => Some(key),
                Some(Err(why)) => {
                    refused.push(Refusal { place, why });
                    None
                }
            };
            place += 1;
            key
        });
        // Each round takes one wish back, and without wishes all keys differ.
        while let Some(place) = taken(&chosen) {
            if let Some(wish) = chosen.get_mut(place) {
                *wish = None;
            }
            refused.push(Refusal {
                place,
                why: Why::Taken,
            });
        }
        refused.sort_by_key(|refusal| refusal.place);
        let mut usual = USUAL.into_iter();
        let keys = chosen.map(|wish| {
            let usual = usual.next().unwrap_or_default();
            wish.unwrap_or(usual)
        });
        (Self::from_array(keys), refused)
    }
}

fn usable(wish: &str) -> Result<char, Why> {
    let mut chars = wish.chars();
    match (chars.next(), chars.next()) {
        (Some('+' | 'j' | 'k'), None) => Err(Why::Reserved),
        (Some(key), None) if key.is_ascii_graphic() && !key.is_ascii_uppercase() => Ok(key),
        _ => Err(Why::NotOneKey),
    }
}

/// The last decision whose wish is the key of another one.
fn taken(chosen: &[Option<char>; 5]) -> Option<usize> {
    let keys = || {
        chosen
            .iter()
            .zip(USUAL)
            .map(|(wish, usual)| wish.unwrap_or(usual))
    };
    chosen
        .iter()
        .enumerate()
        .rev()
        .find(|(_, wish)| wish.is_some_and(|wish| keys().filter(|key| *key == wish).count() > 1))
        .map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(wanted: [Option<&str>; 5]) -> (String, Vec<usize>) {
        let (keys, refused) = DialogKeys::choose(wanted);
        let keys = [
            keys.approve,
            keys.approve_session,
            keys.approve_session_both,
            keys.deny,
            keys.deny_with_reason,
        ];
        (
            keys.iter().collect(),
            refused.iter().map(|refusal| refusal.place).collect(),
        )
    }

    #[test]
    fn wishes_are_met_where_they_can_be() {
        assert_eq!(choose([None; 5]), ("ysbnr".into(), vec![]));
        assert_eq!(
            choose([Some("1"), Some("2"), Some("3"), Some("4"), Some("5")]),
            ("12345".into(), vec![])
        );
        // Two that change places.
        assert_eq!(
            choose([Some("n"), None, None, Some("y"), None]),
            ("nsbyr".into(), vec![])
        );
    }

    #[test]
    fn a_wish_that_cannot_be_met_costs_its_own_key_only() {
        for bad in ["", "Y", "yy", "ä", " ", "+", "j", "k", "\u{1b}"] {
            assert_eq!(
                choose([Some(bad), Some("2"), None, None, None]),
                ("y2bnr".into(), vec![0]),
                "{bad:?}"
            );
        }
        assert_eq!(
            choose([Some("n"), None, None, None, None]),
            ("ysbnr".into(), vec![0])
        );
        assert_eq!(
            choose([Some("1"), Some("1"), None, None, None]),
            ("1sbnr".into(), vec![1])
        );
        // The second gives up its wish, so the usual key of the second is taken and the first gives up too.
        assert_eq!(
            choose([Some("s"), Some("K"), None, None, None]),
            ("ysbnr".into(), vec![0, 1])
        );
    }
}
