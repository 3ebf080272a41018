//! Checks that threads take no more than the *envelope*, wherever they are stopped.
//!
//! The envelope is the quota's bound plus the refunds.
//!
//! Small histories are tried exhaustively, longer ones at random.
//!
//! A thread that takes tokens makes four steps: it loads the word, reads the clock (with skew), loads the offset, and
//! swaps the word if that is still what it loaded. A thread that gives tokens back loads the offset, then the word,
//! reads the clock, and swaps the offset. Any other thread's step may come between two of these.

use super::{TokenBucket, TokenLine};
use crate::limit::Algorithm;
use crate::quota::{Line, Quota, Timeline};
use crate::time::ManualClock;
use core::time::Duration;
use proptest::prelude::*;
use std::vec::Vec;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Take(u32),
    Refund(u32),
}

/// How far a thread has come in its decision.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Begin,
    Offset {
        offset: u64,
    },
    Word {
        offset: u64,
        word: u64,
    },
    /// The thread has read the clock, at the step `step` of the history.
    Clock {
        offset: u64,
        word: u64,
        now: u64,
        step: usize,
    },
    Swap {
        offset: u64,
        word: u64,
        now: u64,
        step: usize,
        last: usize,
    },
}

/// A flaw that a test builds into the threads, and that the search has to notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// The thread loads the offset before the word.
    EarlyOffset,
    /// The thread adds to the offset even if another thread has changed it.
    BlindRefund,
}

/// Tokens that were taken.
#[derive(Clone, Copy, Debug)]
struct Spend {
    /// The reading of the clock, and the step at which it was read.
    now: u64,
    step: usize,
    /// The step at which the offset was loaded.
    last: usize,
    cost: u32,
}

/// A bucket, threads in the middle of decisions, and what was admitted.
#[derive(Clone, Debug)]
struct World {
    line: TokenLine,
    quota: Quota,
    word: u64,
    offset: u64,
    now: u64,
    steps: usize,
    threads: Vec<(Stage, Operation)>,
    admitted: Vec<Spend>,
    /// The step of each refund, and its units.
    refunded: Vec<(usize, u64)>,
    bug: Option<Bug>,
    /// The violation, if there was one.
    complaint: Option<&'static str>,
}

/// The ticks of a second.
///
/// They are about as many as the tokens, so a tick brings a part of a token or a few of them.
const FREQUENCY: u64 = 1_000;

impl World {
    fn new(quota: Quota, calls: &[Operation]) -> Self {
        Self {
            line: TokenLine::new(
                Timeline::new::<TokenLine>(&quota, &quota, FREQUENCY, 0, TokenLine::missing(0)),
                &quota,
            ),
            quota,
            word: 0,
            offset: 0,
            now: 1_000,
            steps: 0,
            threads: calls.iter().map(|call| (Stage::Begin, *call)).collect(),
            admitted: Vec::new(),
            refunded: Vec::new(),
            bug: None,
            complaint: None,
        }
    }

    /// Makes one step of a thread. If the step reads the clock, the reading is `skew` ticks old.
    fn step(&mut self, thread: usize, skew: u64) {
        self.steps += 1;
        let (stage, call) = self.threads[thread];
        self.threads[thread].0 = match (stage, call) {
            (Stage::Begin, Operation::Take(_)) if self.bug != Some(Bug::EarlyOffset) => {
                Stage::Word { offset: 0, word: self.word }
            }
            (Stage::Begin, _) => Stage::Offset { offset: self.offset },
            (Stage::Offset { offset }, _) => Stage::Word { offset, word: self.word },
            (Stage::Word { offset, word }, _) => Stage::Clock { offset, word, now: self.now - skew, step: self.steps },
            (Stage::Clock { offset, word, now, step }, Operation::Take(_)) => {
                let offset = if self.bug == Some(Bug::EarlyOffset) { offset } else { self.offset };
                Stage::Swap { offset, word, now, step, last: self.steps }
            }
            (Stage::Clock { offset, word, now, .. }, Operation::Refund(n)) => {
                self.refund(offset, word, now, n);
                Stage::Begin
            }
            (Stage::Swap { offset, word, now, step, last }, Operation::Take(cost) | Operation::Refund(cost)) => {
                self.take(offset, word, cost, Spend { now, step, last, cost }, skew);
                Stage::Begin
            }
        };
    }

    fn take(&mut self, offset: u64, word: u64, cost: u32, admitted: Spend, skew: u64) {
        let at = self.line.timeline().position(admitted.now).wrapping_add(offset);
        match self.line.take(word, at, cost) {
            Ok(next) if word == self.word => {
                self.word = next;
                self.admitted.push(admitted);
            }
            Err(_) if skew == 0 && TokenLine::debt(word, at) > self.line.timeline().deepest_ever() => {
                self.complaint = Some("a legal debt is healed");
            }
            _ => {}
        }
    }

    fn refund(&mut self, offset: u64, word: u64, now: u64, n: u32) {
        let at = self.line.timeline().position(now).wrapping_add(offset);
        let units = self.line.refundable(word, at, n);
        if units > 0 && (offset == self.offset || self.bug == Some(Bug::BlindRefund)) {
            let at = self.line.timeline().position(now).wrapping_add(self.offset);
            self.offset = self.offset.wrapping_add(units);
            self.refunded.push((self.steps, units));
            // The present word may be compared, because words only grow in these histories.
            if TokenLine::debt(self.word, at) < units {
                self.complaint = Some("more is given back than was missing");
            }
        }
    }

    /// Asserts that the history stays in the envelope.
    ///
    /// In any interval of `t` ticks, at most `burst + rate · (t + 1 tick)` tokens plus the interval's refunds are
    /// taken. These are the refunds between the interval's first reading of the clock and its last reading of the
    /// offset.
    fn check(&self) {
        assert_eq!(self.complaint, None, "{self:?}");
        let (limit, burst) = (u64::from(self.quota.limit()), u64::from(self.quota.burst_size()));
        let token = self.line.timeline().units(1);
        for from in self.admitted.iter().map(|first| first.now) {
            for to in self.admitted.iter().map(|last| last.now).filter(|to| *to >= from) {
                let within = || self.admitted.iter().filter(|call| (from..=to).contains(&call.now));
                let sum: u64 = within().map(|call| u64::from(call.cost)).sum();
                let first = within().map(|call| call.step).min().unwrap();
                let last = within().map(|call| call.last).max().unwrap();
                let between = self.refunded.iter().filter(|(step, _)| (first..=last).contains(step));
                let refunded: u64 = between.map(|(_, units)| units).sum();
                let beyond = (sum.saturating_sub(burst) * token).saturating_sub(refunded);
                assert!(beyond * FREQUENCY <= limit * (to - from + 1) * token, "{sum} in {from}..={to}: {self:?}");
            }
        }
    }
}

/// Tries every order in which the threads make the steps that they have `left`.
///
/// Before each reading the clock stands still or goes on a tick.
fn search<const N: usize>(world: &World, left: &mut [u32; N], histories: &mut u64) {
    let mut last = true;
    for thread in 0..N {
        if left[thread] == 0 {
            continue;
        }
        last = false;
        left[thread] -= 1;
        // Time passes only before a reading of the clock, because no other step sees it.
        let ticks = if matches!(world.threads[thread].0, Stage::Word { .. }) { 0..=1 } else { 0..=0 };
        for tick in ticks {
            let mut next = world.clone();
            next.now += tick;
            next.step(thread, 0);
            search(&next, left, histories);
        }
        left[thread] += 1;
    }
    if last {
        world.check();
        *histories += 1;
    }
}

#[test]
fn every_small_history_stays_in_the_envelope() {
    let mut histories = 0;
    for (limit, burst) in [(1_000, 1), (500, 2)] {
        let world = World::new(Quota::per_second(limit).burst(burst), &[1, 1, burst].map(Operation::Take));
        search(&world, &mut [4, 4, 4], &mut histories);
        // One admission too many in one tick is outside of the envelope, and the check notices it.
        let mut outside = world.clone();
        let admitted = |_| Spend { now: 1_000, step: 0, last: 0, cost: 1 };
        outside.admitted = (0..=burst + limit / FREQUENCY as u32).map(admitted).collect();
        assert!(std::panic::catch_unwind(|| outside.check()).is_err());
    }
    // There are 12! / 4!^3 orders, 2^3 movements of the clock and two quotas.
    assert_eq!(histories, 2 * 34_650 * 8);
}

/// Creates threads with these operations on an empty bucket that may not go into debt.
fn refunding(limit: u32, burst: u32, calls: [Operation; 3]) -> World {
    let mut world = World::new(Quota::per_second(limit).burst(burst).max_debt(0), &calls);
    world.word = world.line.take(0, world.line.timeline().position(world.now), burst).unwrap();
    world.admitted.push(Spend { now: world.now, step: 0, last: 0, cost: burst });
    world
}

/// Refunds mint no token, fill no bucket beyond full, and heal no debt.
///
/// Two threads take and one gives back, or two give back while one takes.
#[test]
fn every_small_history_with_refunds_stays_in_the_envelope() {
    let mut histories = 0;
    for (limit, burst) in [(1_000, 1), (500, 2)] {
        let one = refunding(limit, burst, [Operation::Take(1), Operation::Take(burst), Operation::Refund(1)]);
        let two = refunding(limit, burst, [Operation::Take(burst), Operation::Refund(1), Operation::Refund(burst)]);
        for world in [one, two] {
            search(&world, &mut [4, 4, 4], &mut histories);
        }
    }
    // There are as many orders as above, for two worlds of each quota.
    assert_eq!(histories, 4 * 34_650 * 8);
}

#[test]
#[should_panic(expected = "a legal debt is healed")]
fn search_notices_an_offset_older_than_its_word() {
    let mut world = refunding(500, 2, [Operation::Take(2), Operation::Take(2), Operation::Refund(2)]);
    world.bug = Some(Bug::EarlyOffset);
    search(&world, &mut [5, 5, 4], &mut 0);
}

#[test]
#[should_panic(expected = "more is given back than was missing")]
fn search_notices_a_refund_without_a_comparison() {
    let mut world = refunding(500, 2, [Operation::Take(2), Operation::Refund(2), Operation::Refund(2)]);
    world.bug = Some(Bug::BlindRefund);
    search(&world, &mut [4, 4, 4], &mut 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// Fifty random steps stay in the envelope, wherever they leave the threads.
    #[test]
    fn random_histories_stay_in_the_envelope(
        limit in 1..5_000u32,
        burst in 1..10u32,
        costs in proptest::collection::vec(1..4u32, 1..5),
        refunds in proptest::collection::vec(1..4u32, 0..3),
        steps in proptest::collection::vec((any::<u8>(), 0..3u64, 0..20u64), 50),
    ) {
        let calls: Vec<_> = costs.into_iter().map(Operation::Take).chain(refunds.into_iter().map(Operation::Refund)).collect();
        let mut world = World::new(Quota::per_second(limit).burst(burst), &calls);
        for (thread, skew, pass) in steps {
            // Mostly no time passes between two steps, so that threads overlap.
            world.now += pass.saturating_sub(15);
            world.step(usize::from(thread) % calls.len(), skew);
        }
        world.check();
    }
}

/// A refund between a take and its roll-back repays other tokens than those that are rolled back.
#[test]
fn roll_back_measures_on_the_line_without_refunds() {
    let clock = ManualClock::new();
    let bucket = TokenBucket::new(Quota::per_second(10).burst(9));
    let (_, taken) = bucket.take_revocably(3, &clock).unwrap();
    bucket.take(5, &clock).unwrap();
    assert_eq!(bucket.refund(2, &clock), 2);
    clock.advance(Duration::from_millis(100));
    bucket.roll_back(3, taken, &clock);
    // The line repaid one of the three, so two are rolled back: 9 - 3 - 5 + 2 refunded + 1 dripped in + 2 = 6.
    assert_eq!(bucket.usage(&clock).remaining(), 6);
    // Tokens that were taken after a refund are rolled back in the same way.
    let (_, taken) = bucket.take_revocably(3, &clock).unwrap();
    clock.advance(Duration::from_millis(200));
    bucket.roll_back(3, taken, &clock);
    assert_eq!(bucket.usage(&clock).remaining(), 6);
}
