//! What a link of the chain of authorizers may allow.
//!
//! A link is not the person: it sees what an ask states of itself, and may be a model that can be talked to. So its allow counts
//! within bounds only, and outside of them stands for "I don't know". A deny, and a "don't know", are never touched.
//!
//! Which links there are, and what becomes of their verdicts, is decided elsewhere; this judges one allow.
//!
//! # Invariants
//!
//! * Whatever is said here turns an allow into less, and nothing into more.
//! * Trust is for one link and one family. It lifts the cap of the surface, and no other.

use super::config::Family;
use crate::wire::{ForwardedPermissionRequest, Ruling, trim};

/// What of an ask says how far a link is believed about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    surface: Surface,
    text_replaced: bool,
}

/// The surface of an ask, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Surface {
    /// It is not known.
    Undetermined,
    /// It belongs to no excluded family.
    Free,
    /// It belongs to these.
    Excluded(Families),
}

/// Families of surfaces on which no link is believed unless it is trusted there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Families {
    path: bool,
    external_directory: bool,
}

impl Families {
    fn all(self) -> impl Iterator<Item = Family> {
        let path = self.path.then_some(Family::Path);
        let external = self.external_directory.then_some(Family::ExternalDirectory);
        path.into_iter().chain(external)
    }
}

/// Whether the rules of the session are all that its operator wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RulesInForce {
    /// They are.
    Whole,
    /// The configuration is broken, and the session allows nothing by itself.
    Clamped,
}

/// Why an allow of a link is taken for "I don't know". Shown, it is a fragment that fits behind "it may not allow this: ".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Cap {
    /// The surface belongs to a family on which this link is not trusted.
    #[error("it is not trusted on {}", .0.name())]
    Untrusted(Family),
    /// It is not said what surface it is.
    #[error("the ask does not say its surface")]
    Undetermined,
    /// What the link saw is not what stands on disk.
    #[error("text of the ask was replaced")]
    ReplacedText,
    /// The configuration is broken.
    #[error("the configuration is broken")]
    ClampedRules,
}

/// What comes of a ruling of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Enveloped {
    /// It holds as it is.
    Holds(Ruling),
    /// It is an allow, and holds because the link is trusted on this family.
    Trusted(Family),
    /// It was an allow, and is none, for this reason.
    Capped(Cap),
}

impl Enveloped {
    /// What holds in the end.
    pub fn ruling(self) -> Ruling {
        match self {
            Self::Holds(ruling) => ruling,
            Self::Trusted(_) => Ruling::Allow,
            Self::Capped(_) => Ruling::Defer,
        }
    }
}

impl Bounds {
    /// Those of an ask. Its surface is the one that policy judges, or else the one that is displayed. Wherever else it names
    /// one, in what the link and the person see, that may only narrow what is believed.
    pub fn of(request: &ForwardedPermissionRequest) -> Self {
        let judged = request.access_intent.as_ref();
        let judged = judged.map(|intent| intent.surface.as_str());
        let displayed = request.surface.as_deref();
        let shown = request.payload.as_ref();
        let shown = shown.map(|payload| payload.request.surface.as_str());
        Self {
            surface: Surface::of(judged.or(displayed), [judged, displayed, shown]),
            text_replaced: request.was_replaced,
        }
    }

    /// What comes of `ruling`, said by a link that is trusted on these families.
    pub fn hold(&self, ruling: Ruling, trusted: &[Family], rules: RulesInForce) -> Enveloped {
        if ruling != Ruling::Allow {
            return Enveloped::Holds(ruling);
        }
        if rules == RulesInForce::Clamped {
            return Enveloped::Capped(Cap::ClampedRules);
        }
        if self.text_replaced {
            return Enveloped::Capped(Cap::ReplacedText);
        }
        match self.surface {
            Surface::Undetermined => Enveloped::Capped(Cap::Undetermined),
            Surface::Free => Enveloped::Holds(ruling),
            Surface::Excluded(families) => {
                let untrusted = families.all().find(|family| !trusted.contains(family));
                match (untrusted, families.all().next()) {
                    (Some(family), _) => Enveloped::Capped(Cap::Untrusted(family)),
                    (None, Some(family)) => Enveloped::Trusted(family),
                    (None, None) => Enveloped::Holds(ruling),
                }
            }
        }
    }
}

impl Surface {
    fn of(deciding: Option<&str>, named: [Option<&str>; 3]) -> Self {
        if deciding.is_none_or(|surface| trim(surface).is_empty()) {
            return Self::Undetermined;
        }
        let mut families = Families::default();
        for family in named.into_iter().flatten().filter_map(family_of) {
            match family {
                Family::Path => families.path = true,
                Family::ExternalDirectory => families.external_directory = true,
            }
        }
        if families == Families::default() {
            Self::Free
        } else {
            Self::Excluded(families)
        }
    }
}

/// The excluded family of a surface: its bare name, a direction, or what looks like one.
fn family_of(surface: &str) -> Option<Family> {
    let surface = trim(surface).to_ascii_lowercase();
    [Family::Path, Family::ExternalDirectory]
        .into_iter()
        .find(|family| {
            let rest = surface.strip_prefix(family.name());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn bounds(intent: Option<&str>, display: Option<&str>, payload: Option<&str>) -> Bounds {
        let intent = intent.map(|surface| {
            json!({
                "surface": surface, "matchValues": ["x"], "boundaryValue": null, "requesterCwd": "/",
                "principal": {"sessionId": "C", "agentName": "scout"},
            })
        });
        let payload = payload.map(|surface| {
            json!({
                "kind": "tool", "evidence": [], "annotations": [],
                "request": {
                    "requester": {"agentName": null, "forwarded": false, "sessionId": null},
                    "surface": surface, "toolName": null, "invokedToolName": null, "value": "x", "matchedPattern": null,
                    "commandContext": null, "executedUnit": null,
                },
            })
        });
        let mut request = json!({
            "id": "r1", "createdAt": 1, "requesterSessionId": "C", "targetSessionId": "P", "requesterAgentName": "scout",
            "value": "x",
        });
        for (key, value) in [
            ("surface", display.map(Value::from)),
            ("accessIntent", intent),
            ("payload", payload),
        ] {
            if let Some(value) = value {
                request[key] = value;
            }
        }
        let request =
            ForwardedPermissionRequest::from_json(request.to_string().as_bytes()).unwrap();
        Bounds::of(&request)
    }

    fn allow(bounds: &Bounds, trusted: &[Family]) -> Enveloped {
        bounds.hold(Ruling::Allow, trusted, RulesInForce::Whole)
    }

    #[test]
    fn an_allow_is_believed_on_a_surface_that_is_known_and_belongs_to_no_excluded_family() {
        let holds = Enveloped::Holds(Ruling::Allow);
        for free in [
            bounds(Some("bash"), None, None),
            // Without facts for policy, the surface that is displayed counts.
            bounds(None, Some("bash"), None),
            bounds(Some("write"), Some("bash"), Some("mcp")),
            // A name that only begins like one.
            bounds(Some("pathology"), None, None),
        ] {
            assert_eq!(allow(&free, &[]), holds, "{free:?}");
        }
        for (excluded, family) in [
            (bounds(Some("path"), None, None), Family::Path),
            (bounds(Some("path_read"), None, None), Family::Path),
            (bounds(Some(" PATH_write "), None, None), Family::Path),
            (
                bounds(None, Some("external_directory_write"), None),
                Family::ExternalDirectory,
            ),
            (
                bounds(Some("external_directory"), Some("bash"), None),
                Family::ExternalDirectory,
            ),
            // What is shown as a path is one, whatever policy is told.
            (bounds(Some("bash"), Some("path"), None), Family::Path),
            (
                bounds(Some("bash"), Some("bash"), Some("path_read")),
                Family::Path,
            ),
        ] {
            let capped = Enveloped::Capped(Cap::Untrusted(family));
            assert_eq!(allow(&excluded, &[]), capped, "{excluded:?}");
            assert_eq!(allow(&excluded, &[family]), Enveloped::Trusted(family));
        }
        let both = bounds(Some("path"), Some("external_directory"), None);
        for half in [Family::Path, Family::ExternalDirectory] {
            assert_eq!(allow(&both, &[half]).ruling(), Ruling::Defer);
        }
    }

    #[test]
    fn no_trust_makes_up_for_a_surface_that_is_not_known_or_text_that_was_replaced() {
        let trusted = [Family::Path, Family::ExternalDirectory];
        for unknown in [
            bounds(None, None, None),
            bounds(None, Some(" "), None),
            bounds(Some(""), Some("bash"), None),
            bounds(None, None, Some("bash")),
        ] {
            let capped = Enveloped::Capped(Cap::Undetermined);
            assert_eq!(allow(&unknown, &trusted), capped, "{unknown:?}");
        }
        let mut replaced = bounds(Some("bash"), None, None);
        replaced.text_replaced = true;
        assert_eq!(
            allow(&replaced, &trusted),
            Enveloped::Capped(Cap::ReplacedText)
        );
        let free = bounds(Some("bash"), None, None);
        assert_eq!(
            free.hold(Ruling::Allow, &trusted, RulesInForce::Clamped),
            Enveloped::Capped(Cap::ClampedRules)
        );
    }

    fn surface() -> impl Strategy<Value = Option<&'static str>> {
        prop::sample::select(vec![
            None,
            Some(""),
            Some("bash"),
            Some("write"),
            Some("path"),
            Some("path_read"),
            Some("path_write"),
            Some("external_directory"),
            Some("external_directory_read"),
            Some("external_directory_write"),
        ])
    }

    fn families() -> impl Strategy<Value = Vec<Family>> {
        prop::sample::subsequence(vec![Family::Path, Family::ExternalDirectory], 0..=2)
    }

    proptest! {
        /// Only an allow is ever changed, and only to less; less trust, a broken configuration, replaced text and another
        /// excluded surface never make it more.
        #[test]
        fn the_envelope_only_tightens(
            named in (surface(), surface(), surface()),
            trusted in families(),
            replaced in any::<bool>(),
            clamped in any::<bool>(),
        ) {
            let mut bounds = bounds(named.0, named.1, named.2);
            bounds.text_replaced = replaced;
            let rules = if clamped { RulesInForce::Clamped } else { RulesInForce::Whole };
            for kept in [Ruling::Deny, Ruling::Defer] {
                prop_assert_eq!(bounds.hold(kept, &trusted, rules), Enveloped::Holds(kept));
            }
            let held = bounds.hold(Ruling::Allow, &trusted, rules).ruling();
            prop_assert!(held == Ruling::Allow || held == Ruling::Defer);
            if held == Ruling::Allow {
                let surface = named.0.or(named.1);
                prop_assert!(surface.is_some_and(|surface| !surface.is_empty()) && !replaced && !clamped);
                for family in named.0.into_iter().chain(named.1).chain(named.2).filter_map(family_of) {
                    prop_assert!(trusted.contains(&family));
                }
            }
            // In the order of the rulings, more is less: allow, defer, deny.
            for fewer in [&[][..], &trusted[..trusted.len().saturating_sub(1)]] {
                prop_assert!(bounds.hold(Ruling::Allow, fewer, rules).ruling() >= held);
            }
            prop_assert!(bounds.hold(Ruling::Allow, &trusted, RulesInForce::Clamped).ruling() >= held);
            let worse = Bounds { text_replaced: true, ..bounds.clone() };
            prop_assert!(worse.hold(Ruling::Allow, &trusted, rules).ruling() >= held);
        }
    }
}
