//! Both sides delete, and remove directories that look empty, at the same time. The peer denies when a directory is taken
//! from under its feet, and takes ours in turn. Its tick is shortened from 250 ms to 2, which makes that happen all the time.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::support::{Choice, TempSpool};

const CHILDREN: usize = 4;
const ROUNDS: usize = 500;

/// None of the peer's children is denied because of our tidying.
#[test]
fn their_children_are_never_denied_by_our_cleanup() {
    let spool = TempSpool::new();
    let mut server = spool.serve("P", "select", &json!({ "permission": { "*": "ask" } }), &[]);
    let rounds = ROUNDS.to_string();
    let args = ["--rounds", rounds.as_str(), "--tick-ms", "2"];
    let mut children: Vec<_> = (0..CHILDREN)
        .map(|n| spool.their_child("P", &format!("C{n}"), &args))
        .collect();
    for _ in 0..CHILDREN * ROUNDS {
        server.choose(Choice::Approve);
    }
    for child in &mut children {
        let decisions = child.all_json();
        assert_eq!(decisions.len(), ROUNDS);
        let denied: Vec<_> = decisions
            .iter()
            .filter(|decision| decision["approved"] != true)
            .collect();
        assert!(denied.is_empty(), "{denied:#?}");
    }
}

/// None of our children is denied because of its server's tidying, nor because of another child's.
#[test]
fn our_children_are_never_denied_by_their_cleanup() {
    let spool = TempSpool::new();
    let _server = spool.their_server("P", &["--policy", "allow", "--tick-ms", "2"]);
    // One of theirs beside ours: it removes directories too. What becomes of its own asks is the peer's affair.
    let rounds = (4 * ROUNDS).to_string();
    let _theirs = spool.their_child("P", "C", &["--rounds", &rounds, "--tick-ms", "2"]);
    std::thread::scope(|scope| {
        for _ in 0..CHILDREN {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let (code, decision) = spool.ask("P", &["--peer", "g1", "--value", "ls -l"]);
                    assert_eq!(code, Some(0), "round {round}: {decision}");
                }
            });
        }
    });
}

/// Somebody who does nothing but remove empty directories, far more often than any peer would, delays our child and no more.
#[test]
fn our_child_outlasts_a_tidier() {
    let spool = TempSpool::new();
    let _server = spool.their_server("P", &["--policy", "allow", "--tick-ms", "2"]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for dir in ["requests", "responses", ""] {
                    // Refused while it holds anything, as it has to be.
                    std::fs::remove_dir(spool.session("P").join(dir)).ok();
                }
            }
        });
        let asks: Vec<_> = (0..50)
            .map(|_| spool.ask("P", &["--peer", "g1", "--value", "ls -l"]))
            .collect();
        stop.store(true, Ordering::Relaxed);
        for (code, decision) in asks {
            assert_eq!(code, Some(0), "{decision}");
        }
    });
}
