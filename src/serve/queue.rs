//! Whose turn it is: one question at a time, in order of arrival, fair between requesters.
//!
//! Each requester has a line of its own; the next question comes from the requester that has waited longest for its turn. A
//! child that asks five hundred times at once delays another by one question, not by five hundred. Whoever is not known yet comes
//! before the one that had the last turn, and behind all who have waited for longer: a child that gives itself a new name with
//! every ask does not keep the others from theirs.
//!
//! An ask that the person puts off rests for a while, and then stands at the end of its requester's line; the turn that it had is
//! spent. Whatever else waits, or comes meanwhile, has its turn first.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::clock::Moment;
use crate::wire::RequestId;

/// How long an ask that was put off is not put before the person again.
pub(super) const REST: Duration = Duration::from_secs(30);

/// How many requesters are remembered although nothing of theirs waits.
const MOST_LINES: usize = 1024;

/// Asks that wait for a person.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lines: HashMap<String, Line>,
    /// Asks that were put off, in order.
    resting: VecDeque<Resting>,
    /// Counts arrivals and turns.
    clock: u64,
    /// When the last turn was.
    turned: u64,
    /// How many stand in the lines.
    len: usize,
}

#[derive(Debug)]
struct Resting {
    requester: String,
    id: RequestId,
    until: Moment,
}

#[derive(Debug)]
struct Line {
    waiting: VecDeque<(u64, RequestId)>,
    since: Since,
}

/// Since when a requester has had no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Since {
    /// When that turn was; of one that had none yet, the last turn of anybody.
    turn: u64,
    was_own: bool,
}

impl Queue {
    /// Puts an ask at the end of its requester's line.
    pub(super) fn push(&mut self, requester: &str, id: RequestId) {
        self.clock += 1;
        let arrival = self.clock;
        let new = Since {
            turn: self.turned,
            was_own: false,
        };
        self.lines
            .entry(requester.to_owned())
            .or_insert_with(|| Line {
                waiting: VecDeque::new(),
                since: new,
            })
            .waiting
            .push_back((arrival, id));
        self.len += 1;
    }

    /// Has an ask rest that the person has put off.
    pub(super) fn put_off(&mut self, now: Moment, requester: &str, id: RequestId) {
        self.resting.push_back(Resting {
            requester: requester.to_owned(),
            id,
            until: now.after(REST),
        });
    }

    /// Ends every rest.
    pub(super) fn resume(&mut self) {
        self.stand_up(|_| true);
    }

    /// Puts those in line, in the order in which they were put off, whose rest ends.
    fn stand_up(&mut self, ends: impl Fn(&Resting) -> bool) {
        while let Some(rested) = self.resting.pop_front_if(|resting| ends(resting)) {
            self.push(&rested.requester, rested.id);
        }
    }

    /// When the next rest ends.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.resting.front().map(|resting| resting.until)
    }

    /// Takes the ask whose turn it is now; one that rests has none.
    pub(super) fn pop(&mut self, now: Moment) -> Option<RequestId> {
        self.stand_up(|resting| resting.until <= now);
        self.pop_from_line()
    }

    /// Takes every ask out, in the order in which they would have had their turns.
    pub(super) fn take_all(&mut self) -> Vec<RequestId> {
        self.resume();
        std::iter::from_fn(|| self.pop_from_line()).collect()
    }

    fn pop_from_line(&mut self) -> Option<RequestId> {
        let (_, line) = self
            .lines
            .iter_mut()
            .filter(|(_, line)| !line.waiting.is_empty())
            .min_by_key(|(_, line)| {
                (
                    line.since,
                    line.waiting.front().map(|(arrival, _)| *arrival),
                )
            })?;
        let (_, id) = line.waiting.pop_front()?;
        self.clock += 1;
        self.turned = self.clock;
        line.since = Since {
            turn: self.clock,
            was_own: true,
        };
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
            if line.waiting.is_empty() && self.lines.len() > MOST_LINES {
                self.lines.remove(requester);
            }
        } else {
            self.resting.retain(|resting| resting.id != *id);
        }
    }

    /// How many wait, those that rest among them.
    pub(super) fn len(&self) -> usize {
        self.len + self.resting.len()
    }

    /// How many of them rest.
    pub(super) fn resting(&self) -> usize {
        self.resting.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(text: &str) -> RequestId {
        RequestId::parse(text).unwrap()
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_start(Duration::from_secs(seconds))
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
            [queue.pop(at(0)), queue.pop(at(0)), queue.pop(at(0))],
            [Some(id("b")), Some(id("c")), None]
        );
    }

    #[test]
    fn a_flood_of_one_delays_another_by_one_question() {
        let mut queue = Queue::default();
        for n in 0..500 {
            queue.push("flood", id(&format!("f{n}")));
        }
        assert_eq!(queue.pop(at(0)), Some(id("f0")));
        queue.push("late", id("l0"));
        queue.push("late", id("l1"));
        assert_eq!(queue.pop(at(0)), Some(id("l0")));
        assert_eq!(queue.pop(at(0)), Some(id("f1")));
        assert_eq!(queue.pop(at(0)), Some(id("l1")));
        assert_eq!(queue.len(), 498);
    }

    #[test]
    fn a_turn_counts_also_where_nobody_else_waited() {
        let mut queue = Queue::default();
        queue.push("first", id("f0"));
        assert_eq!(queue.pop(at(0)), Some(id("f0")));
        queue.push("first", id("f1"));
        queue.push("late", id("l0"));
        assert_eq!(
            [queue.pop(at(0)), queue.pop(at(0))],
            [Some(id("l0")), Some(id("f1"))]
        );
        for n in 0..5_000 {
            queue.push(&format!("r{n}"), id(&format!("q{n}")));
            assert_eq!(queue.pop(at(0)), Some(id(&format!("q{n}"))));
        }
        assert!(queue.lines.len() <= MOST_LINES + 1);
    }

    #[test]
    fn new_names_keep_nobody_from_a_turn_and_are_forgotten_when_they_go() {
        let mut queue = Queue::default();
        queue.push("child", id("c0"));
        assert_eq!(queue.pop(at(0)), Some(id("c0")));
        queue.push("child", id("c1"));
        let mut flood = 0..;
        let mut push_new = |queue: &mut Queue| {
            let n: usize = flood.next().unwrap();
            queue.push(&format!("new{n}"), id(&format!("n{n}")));
        };
        push_new(&mut queue);
        // One that came meanwhile goes first, and no other.
        assert_eq!(queue.pop(at(0)), Some(id("n0")));
        push_new(&mut queue);
        push_new(&mut queue);
        assert_eq!(queue.pop(at(0)), Some(id("c1")));
        assert_eq!(queue.pop(at(0)), Some(id("n1")));
        for n in 0..5_000 {
            let name = format!("gone{n}");
            queue.push(&name, id(&name));
            queue.remove(&name, &id(&name));
        }
        assert!(queue.lines.len() <= MOST_LINES + 1);
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn what_was_put_off_comes_behind_the_others_and_not_before_its_rest_is_over() {
        let mut queue = Queue::default();
        for name in ["f0", "f1"] {
            queue.push("first", id(name));
        }
        queue.push("late", id("l0"));
        assert_eq!(queue.pop(at(0)), Some(id("f0")));
        queue.put_off(at(0), "first", id("f0"));
        assert_eq!((queue.len(), queue.resting()), (3, 1));
        assert_eq!(queue.next_due(), Some(at(30)));
        assert_eq!(queue.pop(at(1)), Some(id("l0")));
        // Its turn is spent, and it is the last of its requester.
        assert_eq!(queue.pop(at(1)), Some(id("f1")));
        assert_eq!((queue.pop(at(29)), queue.len()), (None, 1));
        queue.push("new", id("n0"));
        assert_eq!(queue.pop(at(29)), Some(id("n0")));
        assert_eq!(queue.pop(at(30)), Some(id("f0")));
        assert_eq!((queue.pop(at(99)), queue.next_due()), (None, None));
    }

    #[test]
    fn a_rest_ends_when_it_is_asked_for_and_what_rests_can_be_taken_out() {
        let mut queue = Queue::default();
        for name in ["a", "b", "c"] {
            queue.put_off(at(0), "first", id(name));
        }
        queue.remove("first", &id("b"));
        queue.resume();
        assert_eq!(
            [queue.pop(at(0)), queue.pop(at(0)), queue.pop(at(0))],
            [Some(id("a")), Some(id("c")), None]
        );
        queue.push("first", id("d"));
        queue.put_off(at(0), "first", id("e"));
        assert_eq!(queue.take_all(), [id("d"), id("e")]);
        assert_eq!((queue.len(), queue.resting()), (0, 0));
    }

    #[derive(Debug, Clone)]
    enum Op {
        Push(usize),
        /// The person takes the next one, and puts it off or not.
        Take(bool),
        Remove(usize),
        Resume,
        Pass(u64),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            4 => (0_usize..4).prop_map(Op::Push),
            5 => any::<bool>().prop_map(Op::Take),
            1 => any::<usize>().prop_map(Op::Remove),
            1 => Just(Op::Resume),
            2 => (0_u64..40).prop_map(Op::Pass),
        ];
        prop::collection::vec(op, 0..80)
    }

    proptest! {
        /// Nothing is lost or doubled, what rests has no turn, and nobody waits for more than one question of each other
        /// requester, however many of them are put off.
        #[test]
        fn whatever_is_put_off_nobody_is_forgotten_and_nobody_starves(ops in ops()) {
            let mut queue = Queue::default();
            let (mut now, mut next) = (0, 0);
            // Those in line or at rest: requester, and until when.
            let mut model: HashMap<RequestId, (usize, u64)> = HashMap::new();
            // How many turns of others each requester in line has seen since its last.
            let mut passed = [[0_usize; 4]; 4];
            for op in ops {
                match op {
                    Op::Push(requester) => {
                        let name = id(&format!("q{next}"));
                        next += 1;
                        queue.push(&requester.to_string(), name.clone());
                        model.insert(name, (requester, 0));
                    }
                    Op::Take(puts_off) => {
                        let Some(taken) = queue.pop(at(now)) else {
                            prop_assert!(model.values().all(|(_, until)| *until > now));
                            continue;
                        };
                        let (of, until) = model.remove(&taken).unwrap();
                        prop_assert!(until <= now, "{taken} rests");
                        for (requester, passed) in passed.iter_mut().enumerate() {
                            let stands = |(whose, until): &(usize, u64)| *whose == requester && *until <= now;
                            if requester == of || !model.values().any(stands) {
                                *passed = [0; 4];
                            } else {
                                passed[of] += 1;
                                prop_assert!(passed[of] <= 1, "{requester} starves");
                            }
                        }
                        if puts_off {
                            queue.put_off(at(now), &of.to_string(), taken.clone());
                            model.insert(taken, (of, now + REST.as_secs()));
                        }
                    }
                    Op::Remove(nth) => {
                        let mut names: Vec<_> = model.keys().cloned().collect();
                        names.sort();
                        if let Some(name) = names.get(nth % names.len().max(1)) {
                            let (of, _) = model.remove(name).unwrap();
                            queue.remove(&of.to_string(), name);
                        }
                    }
                    Op::Resume => {
                        queue.resume();
                        for (_, until) in model.values_mut() {
                            *until = 0;
                        }
                    }
                    Op::Pass(seconds) => now += seconds,
                }
                prop_assert_eq!(queue.len(), model.len());
            }
            let left = queue.take_all();
            prop_assert_eq!(left.len(), model.len());
            prop_assert!(left.iter().all(|id| model.contains_key(id)));
        }
    }
}
