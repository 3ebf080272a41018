//! Explores all interleavings of a few calls that take from three words: look at all, then swap each.
//!
//! The rules are those of [`QuotaTree`](damper::QuotaTree) and of [`LimitSet`](damper::LimitSet), in a model that is small
//! enough to visit every state. Memory is sequentially consistent here; the models of loom are about its order.

use std::collections::HashSet;

const WORDS: usize = 3;
const BURST: u8 = 2;
/// A time at which a full bucket can have been full for a while.
const START: u8 = 10;

/// A choice of rules under which calls take.
#[derive(Clone, Copy)]
struct Rules {
    /// Every second call takes from the last word first.
    two_orders: bool,
    /// A call that is refused gives back all it took, also what was refilled since.
    naive: bool,
}

const OURS: Rules = Rules { two_orders: false, naive: false };

#[derive(Clone, PartialEq, Eq, Hash)]
struct Call {
    costs: [u8; WORDS],
    /// The words as it saw them, and the time of each look.
    seen: [(u8, u8); WORDS],
    step: Step,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    Looks,
    /// Swaps the word of this place in its order.
    Swaps(usize),
    /// Gives back what it took from the words before this place.
    RollsBack(usize),
    Served,
    Refused,
}

/// Three words, one token of each refilled per unit of time, and the calls.
#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    /// The times at which the buckets are full.
    words: [u8; WORDS],
    now: u8,
    to_come: u8,
    calls: Vec<Call>,
}

fn fits(word: u8, at: u8, cost: u8) -> bool {
    cost == 0 || word.max(at) + cost - at <= BURST
}

impl World {
    fn new(debts: [u8; WORDS], costs: &[[u8; WORDS]], to_come: u8) -> Self {
        let call = |&costs| Call { costs, seen: [(0, 0); WORDS], step: Step::Looks };
        Self { words: debts.map(|debt| START + debt), now: START, to_come, calls: costs.iter().map(call).collect() }
    }

    /// Returns the world after the next step of a call, or `None` if the call has ended.
    fn after(&self, index: usize, rules: Rules) -> Option<Self> {
        let mut next = self.clone();
        let call = &mut next.calls[index];
        let nth = |place| if rules.two_orders && index % 2 == 1 { WORDS - 1 - place } else { place };
        let end = |place| if place == 0 { Step::Refused } else { Step::RollsBack(place) };
        match call.step {
            Step::Looks => {
                call.seen = self.words.map(|word| (word, self.now));
                let all = (0..WORDS).all(|word| fits(self.words[word], self.now, call.costs[word]));
                call.step = if all { Step::Swaps(0) } else { Step::Refused };
            }
            Step::Swaps(place) => {
                let word = nth(place);
                let (expected, at) = call.seen[word];
                if call.costs[word] > 0 {
                    if self.words[word] != expected {
                        // The swap has lost: it looks at this word again.
                        call.seen[word] = (self.words[word], self.now);
                        if !fits(self.words[word], self.now, call.costs[word]) {
                            call.step = end(place);
                        }
                        return Some(next);
                    }
                    next.words[word] = expected.max(at) + call.costs[word];
                }
                call.step = if place + 1 == WORDS { Step::Served } else { Step::Swaps(place + 1) };
            }
            Step::RollsBack(place) => {
                let word = nth(place - 1);
                let refilled = if rules.naive { 0 } else { self.now - call.seen[word].1 };
                next.words[word] -= call.costs[word].saturating_sub(refilled);
                call.step = end(place - 1);
            }
            Step::Served | Step::Refused => return None,
        }
        Some(next)
    }

    /// Returns by how many tokens the served calls exceed a word's envelope in any stretch of time.
    ///
    /// The time of a call is that of its look.
    fn beyond(&self, word: usize) -> u8 {
        let tokens_since = |since| {
            let within = self.calls.iter().filter(|call| call.step == Step::Served && call.seen[word].1 >= since);
            within.map(|call| call.costs[word]).sum::<u8>()
        };
        let excess = (START..=self.now).map(|since| tokens_since(since).saturating_sub(BURST + (self.now - since)));
        excess.max().unwrap_or(0)
    }
}

/// The findings of a search.
#[derive(Debug, Default)]
struct Found {
    states: usize,
    /// The most tokens of a word beyond its envelope.
    beyond: u8,
    /// The ends in which no call was served, although each of them alone would have been.
    annihilations: usize,
}

/// Visits all states that the calls can reach from these debts.
fn explore(found: &mut Found, rules: Rules, debts: [u8; WORDS], costs: &[[u8; WORDS]], to_come: u8) {
    let first = World::new(debts, costs, to_come);
    let fits_alone = costs.iter().all(|costs| (0..WORDS).all(|word| fits(first.words[word], START, costs[word])));
    let (mut seen, mut open) = (HashSet::from([first.clone()]), vec![first]);
    while let Some(world) = open.pop() {
        found.beyond = (0..WORDS).map(|word| world.beyond(word)).fold(found.beyond, u8::max);
        let mut next: Vec<World> = (0..costs.len()).filter_map(|index| world.after(index, rules)).collect();
        if next.is_empty() && fits_alone && world.calls.iter().all(|call| call.step == Step::Refused) {
            found.annihilations += 1;
        }
        if world.to_come > 0 {
            next.push(World { now: world.now + 1, to_come: world.to_come - 1, ..world });
        }
        open.extend(next.into_iter().filter(|world| seen.insert(world.clone())));
    }
    found.states += seen.len();
}

/// Searches from all debts, with calls of several costs.
fn search(rules: Rules, calls: usize, to_come: u8) -> Found {
    let costs = [[1, 1, 1], [1, 1, 2], [2, 1, 1], [1, 2, 0]];
    let mut found = Found::default();
    for rotation in 0..costs.len() {
        let mut costs = costs;
        costs.rotate_left(rotation);
        for drained in 0..8 {
            // Each word has all of its tokens, or none until time brings them.
            let debts = [0, 1, 2].map(|word| if drained >> word & 1 == 1 { BURST } else { 0 });
            explore(&mut found, rules, debts, &costs[..calls], to_come);
        }
    }
    found
}

// CLAIM: QuotaTree
#[test]
fn calls_stay_in_every_envelope_and_do_not_annihilate_each_other() {
    for (calls, to_come) in [(2, 3), (3, 1), (4, 0)] {
        let found = search(OURS, calls, to_come);
        println!("{calls} calls: {found:?}");
        assert_eq!((found.beyond, found.annihilations), (0, 0), "{calls} calls");
    }
}

#[test]
fn rules_that_broke_are_found() {
    let naive = search(Rules { naive: true, ..OURS }, 3, 1);
    assert!(naive.beyond > 0, "tokens that were refilled are given back too: {naive:?}");
    let two_orders = search(Rules { two_orders: true, ..OURS }, 2, 0);
    assert!(two_orders.annihilations > 0, "each call takes what the other needs: {two_orders:?}");
}
