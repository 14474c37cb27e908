//! The whole story of one ask, from the logs of all who had a part in it.
//!
//! Entries of one log keep their order. Between logs, what must have come first comes first: an ask is made before it is served, and
//! answered before the answer arrives. Where that does not tell, the clocks do, though those of two machines may differ.
//!
//! It only arranges and concludes: reading is done before, wording after.

use std::collections::{BTreeMap, HashMap};

use super::event::{Ending, Event};
use super::logged::{Logged, Outcome};

/// An entry, and where it was read.
#[derive(Debug, Clone)]
pub struct Telling {
    /// Name of the file, and where in it the line starts, in bytes.
    pub at: (String, u64),
    /// The entry.
    pub entry: Logged,
}

/// An entry within the story.
#[derive(Debug, Clone)]
pub struct Part {
    /// Where it was read.
    pub at: (String, u64),
    /// The session that wrote it, where that can be told.
    pub writer: Option<String>,
    /// The entry.
    pub entry: Logged,
}

/// What part a session has in an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It asks for itself.
    Child,
    /// It is asked, and asks in turn.
    Relay,
    /// It is asked, and asks nobody.
    Root,
}

impl Role {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Child => "child",
            Self::Relay => "relay",
            Self::Root => "root",
        }
    }
}

/// A session of the story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub session: String,
    /// Its part.
    pub role: Role,
    /// How many sessions the ask has passed before it.
    pub depth: usize,
    /// Whether any entry is its own.
    pub wrote: bool,
    /// How the ask ended there, where it says so: the index of that entry.
    pub end: Option<usize>,
}

/// The story of one ask.
#[derive(Debug, Clone)]
pub struct Story {
    /// Its entries, in order.
    pub parts: Vec<Part>,
    /// The sessions that the ask passed, from the one that asked.
    pub nodes: Vec<Node>,
    /// The entry that tells best how it ended: that of whoever is nearest to the child.
    pub end: Option<usize>,
}

impl Story {
    /// Arranges what the logs say about one ask: one list for each log, in its order.
    pub fn of(logs: Vec<Vec<Telling>>) -> Self {
        let route = Route::of(logs.iter().flatten().map(|telling| &telling.entry));
        let logs: Vec<Vec<Part>> = logs.into_iter().map(|log| route.attribute(log)).collect();
        let parts = merge(logs);
        let mut nodes = route.nodes();
        for node in &mut nodes {
            for (index, part) in parts.iter().enumerate() {
                if part.writer.as_ref() == Some(&node.session) {
                    node.wrote = true;
                    if closes(&part.entry) {
                        node.end = Some(index);
                    }
                }
            }
        }
        let end = nodes.iter().find_map(|node| node.end).or_else(|| {
            // Where no node is known, as for an ask that could not even be made.
            parts.iter().rposition(|part| closes(&part.entry))
        });
        Self { parts, nodes, end }
    }

    /// The node of a session.
    pub fn node(&self, session: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.session == session)
    }

    /// The sessions through which the decision came, the nearest to the child first, each with what was recorded of its seal; the
    /// last of them is the one in which it was decided.
    pub fn hops(&self) -> Vec<(String, Option<bool>)> {
        let Some(part) = self.end.and_then(|end| self.parts.get(end)) else {
            return Vec::new();
        };
        let mut hops = Vec::new();
        // A server tells of its own decision as it is; for the child, it stands within the frame of that server.
        let serves = part.entry.is_terminal();
        if let (true, Some(writer)) = (serves, &part.writer) {
            hops.push((writer.clone(), None));
        }
        let decider = part.entry.decider();
        for hop in decider.iter().flat_map(|decider| &decider.hops) {
            hops.push((hop.session.unwrap_or("?").to_owned(), hop.sealed));
        }
        hops
    }

    /// How it ended.
    pub fn outcome(&self) -> Option<Outcome> {
        self.end
            .and_then(|end| self.parts.get(end))
            .and_then(|part| part.entry.outcome())
    }

    /// Sessions that are known to have a part, and of which nothing is told.
    pub fn silent(&self) -> Vec<String> {
        let mut silent = Vec::new();
        let mut reached = true;
        for node in &self.nodes {
            if !node.wrote && reached {
                silent.push(node.session.clone());
            }
            // Where nobody was reached, nobody can have written anything.
            reached = !node
                .end
                .and_then(|end| self.parts.get(end))
                .is_some_and(|part| {
                    matches!(
                        Ending::from_name(part.entry.event()),
                        Some(Ending::NoServingSession | Ending::RequestFailed)
                    )
                });
        }
        for (session, _) in self.hops() {
            let is_known = self.node(&session).is_some() || silent.contains(&session);
            if !is_known && session != "?" {
                silent.push(session);
            }
        }
        silent
    }
}

/// Whether an entry is the last one of a node about an ask.
fn closes(entry: &Logged) -> bool {
    Ending::from_name(entry.event()).is_some_and(Ending::closes)
}

/// Which side of a hop writes an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Requester,
    Server,
    Either,
}

fn side_of(entry: &Logged) -> Side {
    let event = entry.event();
    let names_agent = entry.text("requesterAgentName").is_some();
    match (Event::from_name(event), Ending::from_name(event)) {
        (Some(Event::RequestCreated), _)
        | (
            _,
            Some(
                Ending::ResponseReceived
                | Ending::ResponseTimedOut
                | Ending::NoServingSession
                | Ending::RequestFailed,
            ),
        ) => Side::Requester,
        // Both sides record it; only the requester names its agent.
        (_, Some(Ending::RequestWithdrawn)) if names_agent => Side::Requester,
        // Both sides refuse what is not the session's answer; only the requester says who it is.
        (Some(Event::ResponseRefused), _) if entry.text("requesterSessionId").is_some() => {
            Side::Requester
        }
        (Some(Event::Warning | Event::Error), _) => Side::Either,
        _ => Side::Server,
    }
}

/// Who asks whom.
struct Route {
    asks: BTreeMap<String, String>,
    asked_by: BTreeMap<String, String>,
    first: Option<String>,
}

impl Route {
    fn of<'a>(entries: impl Iterator<Item = &'a Logged>) -> Self {
        let mut route = Self {
            asks: BTreeMap::new(),
            asked_by: BTreeMap::new(),
            first: None,
        };
        for entry in entries {
            let (Some(requester), Some(target)) = (
                entry.text("requesterSessionId"),
                entry.text("targetSessionId"),
            ) else {
                continue;
            };
            if requester == target || requester.is_empty() {
                continue;
            }
            route.first.get_or_insert_with(|| requester.to_owned());
            route
                .asks
                .entry(requester.to_owned())
                .or_insert_with(|| target.to_owned());
            route
                .asked_by
                .entry(target.to_owned())
                .or_insert_with(|| requester.to_owned());
        }
        route
    }

    /// The sessions from the child to the last that is asked.
    fn nodes(&self) -> Vec<Node> {
        let Some(mut session) = self.first.as_ref() else {
            return Vec::new();
        };
        // Logs that contradict each other may lead in circles.
        for _ in 0..self.asked_by.len() {
            match self.asked_by.get(session) {
                Some(before) => session = before,
                None => break,
            }
        }
        let mut nodes: Vec<Node> = Vec::new();
        loop {
            let target = self.asks.get(session);
            let role = match (nodes.is_empty(), target) {
                (true, _) => Role::Child,
                (false, Some(_)) => Role::Relay,
                (false, None) => Role::Root,
            };
            nodes.push(Node {
                session: session.clone(),
                role,
                depth: nodes.len(),
                wrote: false,
                end: None,
            });
            match target {
                Some(target) if nodes.iter().all(|node| node.session != *target) => {
                    session = target;
                }
                _ => return nodes,
            }
        }
    }

    /// Finds out who wrote each entry of a log.
    fn attribute(&self, log: Vec<Telling>) -> Vec<Part> {
        let mut last: Option<String> = None;
        log.into_iter()
            .map(|Telling { at, entry }| {
                let writer = self.writer(&entry, last.as_deref()).map(str::to_owned);
                if writer.is_some() {
                    last.clone_from(&writer);
                }
                Part { at, writer, entry }
            })
            .collect()
    }

    fn writer<'a>(&'a self, entry: &'a Logged, last: Option<&'a str>) -> Option<&'a str> {
        let target = entry.text("targetSessionId");
        let requester = entry.text("requesterSessionId");
        let asks = |session: &str| self.asks.get(session).map(String::as_str);
        let asker = || target.and_then(|target| self.asked_by.get(target).map(String::as_str));
        match side_of(entry) {
            Side::Requester => requester.or_else(asker).or(last),
            Side::Server => target.or_else(|| requester.and_then(asks)).or(last),
            Side::Either => last
                .filter(|last| target.is_none() || target == Some(last) || asker() == Some(last))
                .or_else(asker)
                .or(target),
        }
    }
}

/// A fact that has to be told before another.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Fact {
    /// The session was asked.
    Asked(String),
    /// The session has answered.
    Answered(String),
}

/// What an entry tells, where others wait for it.
fn tells(part: &Part) -> Option<Fact> {
    let target = part.entry.text("targetSessionId")?.to_owned();
    if part.entry.is_terminal() {
        return Some(Fact::Answered(target));
    }
    (part.entry.event() == Event::RequestCreated.name()).then_some(Fact::Asked(target))
}

/// What has to be told before an entry.
fn waits_for(part: &Part) -> Vec<Fact> {
    let mut facts = Vec::new();
    if part.entry.event() == Ending::ResponseReceived.name()
        && let Some(target) = part.entry.text("targetSessionId")
    {
        facts.push(Fact::Answered(target.to_owned()));
    }
    // Whatever a session does about an ask, it does once it was asked.
    facts.extend(part.writer.clone().map(Fact::Asked));
    facts
}

/// Several lists into one, each in its order.
fn merge(logs: Vec<Vec<Part>>) -> Vec<Part> {
    // How often each log has yet to tell a fact.
    let mut ahead: HashMap<Fact, Vec<usize>> = HashMap::new();
    let count = logs.len();
    for (index, log) in logs.iter().enumerate() {
        for fact in log.iter().filter_map(tells) {
            let counts = ahead.entry(fact).or_insert_with(|| vec![0; count]);
            if let Some(count) = counts.get_mut(index) {
                *count += 1;
            }
        }
    }
    let mut logs: Vec<_> = logs
        .into_iter()
        .map(|log| log.into_iter().peekable())
        .collect();
    let mut merged = Vec::new();
    loop {
        // What waits for another log comes behind what does not; what tells no time comes at once.
        let next = logs
            .iter_mut()
            .enumerate()
            .filter_map(|(index, log)| {
                let part = log.peek()?;
                let waits = waits_for(part).iter().any(|fact| {
                    ahead.get(fact).is_some_and(|counts| {
                        counts
                            .iter()
                            .enumerate()
                            .any(|(other, count)| other != index && *count > 0)
                    })
                });
                Some((waits, part.entry.at_ms(), index))
            })
            .min();
        let Some((_, _, index)) = next else {
            return merged;
        };
        let Some(part) = logs.get_mut(index).and_then(Iterator::next) else {
            return merged;
        };
        if let Some(fact) = tells(&part)
            && let Some(count) = ahead
                .get_mut(&fact)
                .and_then(|counts| counts.get_mut(index))
        {
            *count = count.saturating_sub(1);
        }
        merged.push(part);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// An entry of event `name` at this second.
    fn telling(log: &str, second: i64, name: &str, details: &Value) -> Telling {
        let at = jiff::Timestamp::from_second(1_796_043_600 + second).unwrap();
        let mut entry = json!({"timestamp": format!("{at:.3}"), "event": name, "requestId": "r"});
        entry
            .as_object_mut()
            .unwrap()
            .extend(details.as_object().unwrap().clone());
        Telling {
            at: (log.to_owned(), 1),
            entry: Logged::parse(entry.to_string().as_bytes()).unwrap(),
        }
    }

    fn forwarded(responder: &str, decision: &Value) -> Value {
        json!({"kind": "forwarded", "responderSessionId": responder, "decision": decision})
    }

    /// child asks S1, which asks P, where a person decides. What each of them writes, by a clock of its own.
    fn three_nodes(skew: [i64; 3]) -> [Vec<Telling>; 3] {
        let user = json!({"kind": "user", "via": "dialog"});
        let hop = |from: &str, to: &str| json!({"requesterSessionId": from, "targetSessionId": to});
        let with = |mut details: Value, decider: &Value| {
            details["decidedBy"] = decider.clone();
            details
        };
        let [child, relay, root] = skew;
        let at_child = vec![
            telling(
                "c",
                child,
                "forwarded_permission.request_created",
                &hop("child", "S1"),
            ),
            telling(
                "c",
                child + 9,
                "forwarded_permission.response_received",
                &json!({"targetSessionId": "S1", "approved": true, "decidedBy": forwarded("S1", &forwarded("P", &user))}),
            ),
        ];
        let at_relay = vec![
            telling(
                "s",
                relay + 1,
                "forwarded_permission.prompted",
                &hop("child", "S1"),
            ),
            telling(
                "s",
                relay + 2,
                "forwarded_permission.request_created",
                &hop("S1", "P"),
            ),
            telling(
                "s",
                relay + 7,
                "forwarded_permission.response_received",
                &json!({"targetSessionId": "P", "approved": true, "decidedBy": forwarded("P", &user)}),
            ),
            telling(
                "s",
                relay + 8,
                "forwarded_permission.approved",
                &with(hop("child", "S1"), &forwarded("P", &user)),
            ),
        ];
        let at_root = vec![
            telling(
                "p",
                root + 3,
                "forwarded_permission.prompted",
                &hop("S1", "P"),
            ),
            telling(
                "p",
                root + 4,
                "permission_request.waiting",
                &json!({"requesterSessionId": "S1"}),
            ),
            telling(
                "p",
                root + 5,
                "permission_request.approved",
                &json!({"decidedBy": user}),
            ),
            telling(
                "p",
                root + 6,
                "forwarded_permission.approved",
                &with(hop("S1", "P"), &user),
            ),
        ];
        [at_child, at_relay, at_root]
    }

    fn told(story: &Story) -> Vec<String> {
        story
            .parts
            .iter()
            .map(|part| {
                let (_, event) = part.entry.event().rsplit_once('.').unwrap();
                format!("{} {event}", part.writer.as_deref().unwrap_or("?"))
            })
            .collect()
    }

    const IN_ORDER: [&str; 10] = [
        "child request_created",
        "S1 prompted",
        "S1 request_created",
        "P prompted",
        "P waiting",
        "P approved",
        "P approved",
        "S1 response_received",
        "S1 approved",
        "child response_received",
    ];

    #[test]
    fn one_log_of_three_nodes_tells_who_wrote_what() {
        let [child, relay, root] = three_nodes([0; 3]);
        let mut all: Vec<Telling> = [child, relay, root].concat();
        all.sort_by_key(|telling| telling.entry.at_ms());
        let story = Story::of(vec![all]);
        assert_eq!(told(&story), IN_ORDER);
        let nodes: Vec<_> = story
            .nodes
            .iter()
            .map(|node| (node.session.as_str(), node.role, node.depth))
            .collect();
        assert_eq!(
            nodes,
            [
                ("child", Role::Child, 0),
                ("S1", Role::Relay, 1),
                ("P", Role::Root, 2)
            ]
        );
        assert_eq!(story.end, Some(9));
        assert_eq!(story.outcome(), Some(Outcome::Approved));
        assert_eq!(
            story.hops(),
            [("S1".to_owned(), None), ("P".to_owned(), None)]
        );
        assert!(story.silent().is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Whatever the clocks of the nodes say.
        #[test]
        fn what_must_come_first_comes_first(skew in prop::array::uniform3(-100_i64..100)) {
            let [child, relay, root] = three_nodes(skew);
            for logs in [
                vec![child.clone(), relay.clone(), root.clone()],
                vec![root.clone(), child.clone(), relay.clone()],
            ] {
                prop_assert_eq!(told(&Story::of(logs)), IN_ORDER);
            }
        }

        /// Logs that contradict each other lead to no endless story, and none of their entries is lost.
        #[test]
        fn contradictory_logs_are_told_whole(
            hops in prop::collection::vec((0_usize..3, 0_usize..4, 0_usize..4, 0_usize..3), 0..20),
        ) {
            let names = ["forwarded_permission.request_created", "forwarded_permission.approved", "forwarded_permission.response_received"];
            let mut logs = vec![Vec::new(); 3];
            for (at, (log, from, to, name)) in hops.iter().enumerate() {
                let details = json!({"requesterSessionId": format!("s{from}"), "targetSessionId": format!("s{to}")});
                logs[*log].push(telling("x", i64::try_from(at).unwrap(), names[*name], &details));
            }
            let story = Story::of(logs);
            prop_assert_eq!(story.parts.len(), hops.len());
            prop_assert!(story.nodes.len() <= 4);
        }
    }

    #[test]
    fn without_the_childs_own_log_the_nearest_server_tells_the_end() {
        let [_, relay, root] = three_nodes([0; 3]);
        let story = Story::of(vec![relay, root]);
        assert_eq!(
            story.end.map(|end| told(&story)[end].clone()).unwrap(),
            "S1 approved"
        );
        assert_eq!(
            story.hops(),
            [("S1".to_owned(), None), ("P".to_owned(), None)]
        );
        assert_eq!(story.silent(), ["child"]);
    }

    #[test]
    fn an_ask_that_is_taken_back_ends_on_both_sides() {
        let hop = json!({"requesterSessionId": "child", "targetSessionId": "P"});
        let mut from_child = hop.clone();
        from_child["requesterAgentName"] = json!("scout");
        let withdrawn = "forwarded_permission.request_withdrawn";
        let story = Story::of(vec![vec![
            telling("x", 0, "forwarded_permission.request_created", &from_child),
            telling("x", 1, "forwarded_permission.prompted", &from_child),
            telling("x", 2, withdrawn, &hop),
            telling("x", 3, withdrawn, &from_child),
        ]]);
        assert_eq!(
            told(&story)[2..],
            ["P request_withdrawn", "child request_withdrawn"]
        );
        assert_eq!(story.outcome(), Some(Outcome::Nobody));
        assert_eq!(story.end, Some(3));
    }

    #[test]
    fn a_session_that_passed_it_on_and_wrote_nothing_is_silent() {
        let [child, ..] = three_nodes([0; 3]);
        let story = Story::of(vec![child.clone()]);
        assert_eq!(story.silent(), ["S1", "P"]);
        let story = Story::of(vec![child[..1].to_vec()]);
        assert_eq!((story.end, story.outcome()), (None, None));
        assert_eq!(story.silent(), ["S1"]);
    }
}
