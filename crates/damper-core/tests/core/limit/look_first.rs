//! Every interleaving of a few calls on three limits, in an obvious model of a set that looks first.
//!
//! The steps are those of `LimitSet`: a load of each word, one reading of the clock, a compare-and-swap of each word in one
//! order. A lost swap starts a decision of its own. A refusal after the first swap gives back what was taken, less what was
//! refilled. Between any two steps another call takes a step, or a tick passes. The search is sequentially consistent.
//! `loom-tests` has models of the code itself, with weak memory.

use std::collections::HashSet;

const LIMITS: usize = 3;

const MOST_CALLS: usize = 4;

/// The tokens of each full bucket. A tick brings one token.
///
/// The last limit is the narrowest, so that calls give back.
const BURSTS: [i8; LIMITS] = [3, 3, 2];

/// The rule that the calls follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    LookFirst,
    /// A call gives back all that it took, also what was refilled since.
    NaiveRollBack,
    /// Every other call takes in the opposite order.
    TwoOrders,
}

/// The next step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Look(u8),
    Judge,
    Swap(u8),
    LookAnew(u8),
    JudgeAnew(u8),
    LookBack(u8),
    JudgeBack(u8),
    SwapBack(u8),
    Allowed,
    Refused,
}

/// A call, with its readings of the clock and of the words.
#[derive(Clone, Copy, Debug)]
struct Call {
    step: Step,
    cost: i8,
    is_reversed: bool,
    seen: [i8; LIMITS],
    read_at: [i8; LIMITS],
    /// How much the next roll-back gives back.
    back: i8,
}

/// Three words, which are the times at which the buckets are full, and the calls on them.
#[derive(Clone, Debug)]
struct World {
    now: i8,
    ticks_left: i8,
    words: [i8; LIMITS],
    calls: Vec<Call>,
}

/// The final states that the search found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    states: usize,
    /// The most tokens that a limit allowed beyond its envelope.
    excess: i8,
    /// Final states without an allowed call.
    without_a_winner: usize,
    /// Final states in which a call was refused after its looks had allowed it.
    contended: usize,
}

impl Step {
    /// Returns a pair of numbers that no other step has.
    fn key(self) -> [i8; 2] {
        let (kind, place) = match self {
            Self::Look(place) => (0, place),
            Self::Judge => (1, 0),
            Self::Swap(place) => (2, place),
            Self::LookAnew(place) => (3, place),
            Self::JudgeAnew(place) => (4, place),
            Self::LookBack(place) => (5, place),
            Self::JudgeBack(place) => (6, place),
            Self::SwapBack(place) => (7, place),
            Self::Allowed => (8, 0),
            Self::Refused => (9, 0),
        };
        [kind, place as i8]
    }
}

impl Call {
    fn new(cost: i8, is_reversed: bool) -> Self {
        Self { step: Step::Look(0), cost, is_reversed, seen: [0; LIMITS], read_at: [0; LIMITS], back: 0 }
    }

    /// The limit that the call takes from at this place of its order.
    fn limit_at(&self, place: u8) -> usize {
        if self.is_reversed { LIMITS - 1 - usize::from(place) } else { usize::from(place) }
    }

    fn fits(&self, limit: usize) -> bool {
        self.seen[limit].max(self.read_at[limit]) + self.cost <= self.read_at[limit] + BURSTS[limit]
    }

    fn after_taking(place: u8) -> Step {
        if usize::from(place) + 1 == LIMITS { Step::Allowed } else { Step::Swap(place + 1) }
    }

    fn before_giving_back(place: u8) -> Step {
        if place == 0 { Step::Refused } else { Step::LookBack(place - 1) }
    }
}

impl World {
    fn new(costs: &[i8], ticks: i8, rule: Rule) -> Self {
        let is_reversed = |index: usize| rule == Rule::TwoOrders && index % 2 == 1;
        let calls = costs.iter().enumerate().map(|(index, &cost)| Call::new(cost, is_reversed(index))).collect();
        Self { now: 0, ticks_left: ticks, words: [0; LIMITS], calls }
    }

    /// Returns the world after the next step of a call.
    fn step(&self, index: usize, rule: Rule) -> Self {
        let mut next = self.clone();
        let World { now, words, calls, .. } = &mut next;
        let call = &mut calls[index];
        call.step = match call.step {
            Step::Look(place) => {
                let limit = call.limit_at(place);
                call.seen[limit] = words[limit];
                if usize::from(place) + 1 == LIMITS { Step::Judge } else { Step::Look(place + 1) }
            }
            Step::Judge => {
                call.read_at = [*now; LIMITS];
                if (0..LIMITS).all(|limit| call.fits(limit)) { Step::Swap(0) } else { Step::Refused }
            }
            Step::Swap(place) => {
                let limit = call.limit_at(place);
                if words[limit] == call.seen[limit] {
                    words[limit] = call.seen[limit].max(call.read_at[limit]) + call.cost;
                    // Equal states are found once.
                    call.seen[limit] = 0;
                    Call::after_taking(place)
                } else {
                    Step::LookAnew(place)
                }
            }
            Step::LookAnew(place) => {
                let limit = call.limit_at(place);
                call.seen[limit] = words[limit];
                Step::JudgeAnew(place)
            }
            Step::JudgeAnew(place) => {
                let limit = call.limit_at(place);
                call.read_at[limit] = *now;
                if call.fits(limit) { Step::Swap(place) } else { Call::before_giving_back(place) }
            }
            Step::LookBack(place) => {
                let limit = call.limit_at(place);
                call.seen[limit] = words[limit];
                Step::JudgeBack(place)
            }
            Step::JudgeBack(place) => {
                let limit = call.limit_at(place);
                let owed = (call.seen[limit] - *now).max(0);
                let refilled = *now - call.read_at[limit];
                call.back = match rule {
                    Rule::NaiveRollBack => call.cost,
                    _ => (call.cost - refilled).max(0).min(owed),
                };
                Step::SwapBack(place)
            }
            Step::SwapBack(place) => {
                let limit = call.limit_at(place);
                if words[limit] == call.seen[limit] {
                    words[limit] -= call.back;
                    call.back = 0;
                    Call::before_giving_back(place)
                } else {
                    Step::LookBack(place)
                }
            }
            over @ (Step::Allowed | Step::Refused) => over,
        };
        if call.step == Step::Refused {
            // Equal states are found once.
            (call.seen, call.read_at) = ([0; LIMITS], [0; LIMITS]);
        }
        next
    }

    /// Returns all in which two worlds of a search can differ, and whether a call has given back.
    ///
    /// The costs and the orders of the calls are the same in all of them. The key is hashed faster than a world.
    fn key(&self, is_contended: bool) -> [i8; 6 + 9 * MOST_CALLS] {
        let mut key = [0; _];
        key[..3].copy_from_slice(&[self.now, self.ticks_left, i8::from(is_contended)]);
        key[3..6].copy_from_slice(&self.words);
        for (call, key) in self.calls.iter().zip(key[6..].chunks_exact_mut(9)) {
            key[..2].copy_from_slice(&call.step.key());
            key[2..5].copy_from_slice(&call.seen);
            key[5..8].copy_from_slice(&call.read_at);
            key[8] = call.back;
        }
        key
    }

    /// Returns the most tokens that a limit allowed beyond its envelope.
    ///
    /// That is a burst, and `t` between two readings of the clock that are `t` apart.
    fn excess(&self) -> i8 {
        let allowed = || self.calls.iter().filter(|call| call.step == Step::Allowed);
        let span = |limit: usize, from: i8, to: i8| {
            let within = allowed().filter(|call| (from..=to).contains(&call.read_at[limit]));
            within.map(|call| call.cost).sum::<i8>() - BURSTS[limit] - (to - from)
        };
        let spans = (0..=self.now).flat_map(|from| (from..=self.now).map(move |to| (from, to)));
        spans.flat_map(|(from, to)| (0..LIMITS).map(move |limit| span(limit, from, to))).max().unwrap_or(0).max(0)
    }
}

/// Searches all interleavings of calls with these costs, while so many ticks pass.
fn search(costs: &[i8], ticks: i8, rule: Rule) -> Found {
    assert!(costs.len() <= MOST_CALLS);
    let mut seen = HashSet::new();
    let mut open = vec![(World::new(costs, ticks, rule), false)];
    let mut found = Found::default();
    while let Some((world, is_contended)) = open.pop() {
        if !seen.insert(world.key(is_contended)) {
            continue;
        }
        found.states += 1;
        let is_over = |call: &Call| matches!(call.step, Step::Allowed | Step::Refused);
        if world.calls.iter().all(is_over) {
            found.excess = found.excess.max(world.excess());
            found.without_a_winner += usize::from(!world.calls.iter().any(|call| call.step == Step::Allowed));
            found.contended += usize::from(is_contended);
            continue;
        }
        for index in (0..world.calls.len()).filter(|index| !is_over(&world.calls[*index])) {
            let next = world.step(index, rule);
            let gives_back = matches!(next.calls[index].step, Step::LookBack(_));
            open.push((next, is_contended || gives_back));
        }
        if world.ticks_left > 0 {
            open.push((World { now: world.now + 1, ticks_left: world.ticks_left - 1, ..world }, is_contended));
        }
    }
    found
}

/// Checks that no limit exceeds its envelope, and that one call of those that overlap is allowed.
///
/// All words begin full, and no call costs more than any burst. So if no call were allowed, every refusal would be due to
/// tokens that are given back.
fn assert_sound(costs: &[i8], ticks: i8) {
    let found = search(costs, ticks, Rule::LookFirst);
    assert_eq!((found.excess, found.without_a_winner), (0, 0), "{costs:?}, {ticks} ticks: {found:?}");
    assert!(found.contended > 0, "the search reaches roll-backs");
}

#[test]
fn three_calls_stay_in_every_envelope_and_one_is_allowed() {
    assert_sound(&[1, 1, 2], 1);
    assert_sound(&[1, 2, 2], 1);
    assert_sound(&[2, 2, 2], 2);
}

#[test]
fn four_calls_stay_in_every_envelope_and_one_is_allowed() {
    assert_sound(&[1, 2, 1, 2], 0);
}

#[test]
fn model_notices_a_naive_roll_back() {
    assert!(search(&[2, 2, 2], 2, Rule::NaiveRollBack).excess > 0);
}

#[test]
fn model_notices_two_orders() {
    assert!(search(&[2, 2], 0, Rule::TwoOrders).without_a_winner > 0);
    assert_eq!(search(&[2, 2], 0, Rule::LookFirst).without_a_winner, 0);
}
