//! Whose turn it is: one question at a time, in order of arrival, fair between requesters.
//!
//! Each requester has a line of its own; the next question comes from the requester that has waited longest for its turn. A
//! child that asks five hundred times at once delays another by one question, not by five hundred.

use std::collections::{HashMap, VecDeque};

use crate::wire::RequestId;

/// How many requesters are remembered although nothing of theirs waits.
const MOST_LINES: usize = 1024;

/// Asks that wait for a person.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lines: HashMap<String, Line>,
    /// Counts arrivals and turns.
    clock: u64,
    len: usize,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<(u64, RequestId)>,
    /// When this requester had its last turn; zero before its first.
    last_turn: u64,
}

impl Queue {
    /// Puts an ask at the end of its requester's line.
    pub(super) fn push(&mut self, requester: &str, id: RequestId) {
        self.clock += 1;
        let arrival = self.clock;
        self.lines
            .entry(requester.to_owned())
            .or_default()
            .waiting
            .push_back((arrival, id));
        self.len += 1;
    }

    /// Takes the ask whose turn it is.
    pub(super) fn pop(&mut self) -> Option<RequestId> {
        let (_, line) = self
            .lines
            .iter_mut()
            .filter(|(_, line)| !line.waiting.is_empty())
            .min_by_key(|(_, line)| {
                (
                    line.last_turn,
                    line.waiting.front().map(|(arrival, _)| *arrival),
                )
            })?;
        let (_, id) = line.waiting.pop_front()?;
        self.clock += 1;
        line.last_turn = self.clock;
        self.len -= 1;
        if self.lines.len() > MOST_LINES {
            self.lines.retain(|_, line| !line.waiting.is_empty());
        }
        Some(id)
    }

    /// Takes an ask out of its requester's line.
    pub(super) fn remove(&mut self, requester: &str, id: &RequestId) {
        if let Some(line) = self.lines.get_mut(requester)
            && let Some(at) = line.waiting.iter().position(|(_, waiting)| waiting == id)
        {
            line.waiting.remove(at);
            self.len -= 1;
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> RequestId {
        RequestId::parse(text).unwrap()
    }

    #[test]
    fn one_requester_is_served_in_order_of_arrival() {
        let mut queue = Queue::default();
        for name in ["b", "a", "c"] {
            queue.push("C", id(name));
        }
        queue.remove("C", &id("a"));
        assert_eq!(queue.len(), 2);
        assert_eq!(
            [queue.pop(), queue.pop(), queue.pop()],
            [Some(id("b")), Some(id("c")), None]
        );
    }

    #[test]
    fn a_flood_of_one_delays_another_by_one_question() {
        let mut queue = Queue::default();
        for n in 0..500 {
            queue.push("flood", id(&format!("f{n}")));
        }
        assert_eq!(queue.pop(), Some(id("f0")));
        queue.push("late", id("l0"));
        queue.push("late", id("l1"));
        assert_eq!(queue.pop(), Some(id("l0")));
        assert_eq!(queue.pop(), Some(id("f1")));
        assert_eq!(queue.pop(), Some(id("l1")));
        assert_eq!(queue.len(), 498);
    }

    #[test]
    fn a_turn_counts_also_where_nobody_else_waited() {
        let mut queue = Queue::default();
        queue.push("first", id("f0"));
        assert_eq!(queue.pop(), Some(id("f0")));
        queue.push("first", id("f1"));
        queue.push("late", id("l0"));
        assert_eq!([queue.pop(), queue.pop()], [Some(id("l0")), Some(id("f1"))]);
        for n in 0..5_000 {
            queue.push(&format!("r{n}"), id(&format!("q{n}")));
            assert_eq!(queue.pop(), Some(id(&format!("q{n}"))));
        }
        assert!(queue.lines.len() <= MOST_LINES + 1);
    }
}
