//! The options of the dialog: which are on offer, on which keys, in which order.
//!
//! The order never changes, whatever is on offer, and the option that leads to several asks stands last: it may come and go while the
//! question is open, and nothing else moves for it.

use crate::policy::DialogKeys;
use crate::presentation::select::{Brief, Choice, Meaning, Question, together_label};
use crate::serve::Alike;
use crate::wire::GrantWidth;

/// An option that is on offer.
#[derive(Debug, Clone)]
pub(super) struct DialogOption {
    /// Its key.
    pub(super) key: char,
    /// Its text, visible.
    pub(super) label: String,
    /// Its text where that has no room.
    pub(super) brief: Option<Brief>,
    pub(super) leads: Leads,
    pub(super) allows: bool,
}

/// Where an option leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leads {
    /// To what the option of the question at this place says.
    On(usize),
    /// To the table of the asks that are alike.
    ToTable,
}

/// The options that are on offer, in the order of the dialog.
pub(super) fn offered(question: &Question, keys: &DialogKeys) -> Vec<DialogOption> {
    let mut offered: Vec<(usize, DialogOption)> = (0..)
        .zip(&question.options)
        .filter_map(|(index, option)| {
            let width = match &option.meaning {
                Meaning::Choose(Choice::Session { width, .. }) | Meaning::AskScope(width) => {
                    Some(*width)
                }
                Meaning::Choose(_) | Meaning::AskReason | Meaning::NotOffered => None,
            };
            let (place, key, allows) = match (&option.meaning, width) {
                (_, Some(GrantWidth::Proven)) => (1, keys.approve_session, true),
                (_, Some(GrantWidth::Family)) => (2, keys.approve_session_both, true),
                (Meaning::Choose(Choice::Once), _) => (0, keys.approve, true),
                (Meaning::AskReason, _) => (4, keys.deny_with_reason, false),
                (Meaning::Choose(_), _) => (3, keys.deny, false),
                (Meaning::AskScope(_) | Meaning::NotOffered, _) => return None,
            };
            let label = option.label.clone();
            let option = DialogOption {
                key,
                label,
                brief: option.brief.clone(),
                leads: Leads::On(index),
                allows,
            };
            Some((place, option))
        })
        .collect();
    offered.sort_by_key(|(place, _)| *place);
    offered.into_iter().map(|(_, option)| option).collect()
}

/// Keys for the option that leads to the table: more than there are others, so that one is always free.
const TABLE_KEYS: [char; 6] = ['a', 't', 'g', 'e', 'w', 'x'];

/// The option that leads to the table of asks that are alike, where there are any.
pub(super) fn to_table(alike: &Alike, keys: &DialogKeys) -> Option<DialogOption> {
    let count = Some(alike.twins.len() + 1).filter(|count| *count > 1)?;
    Some(DialogOption {
        key: table_key(keys),
        label: together_label(count),
        brief: None,
        leads: Leads::ToTable,
        allows: true,
    })
}

/// The key of the table: `a`, unless the person has given that to something else.
fn table_key(keys: &DialogKeys) -> char {
    let taken = [
        keys.approve,
        keys.approve_session,
        keys.approve_session_both,
        keys.deny,
        keys.deny_with_reason,
    ];
    let mut free = TABLE_KEYS.into_iter().filter(|key| !taken.contains(key));
    free.next().unwrap_or('a')
}
