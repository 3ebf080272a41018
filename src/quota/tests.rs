//! The envelope, over histories of threads that are stopped anywhere: exhaustively for small ones, at random for longer
//! ones.
//!
//! A thread's decision is three steps here: it loads the word, reads the clock (with skew), and exchanges the word if
//! that is still what it loaded. Any other step may come between them.

use super::{Measure, Quota, Timeline};
use proptest::prelude::*;
use std::vec::Vec;

/// The position of a thread within its decision.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Load,
    Read { word: u64 },
    Exchange { word: u64, now: u64 },
}

/// A bucket, threads in the middle of decisions, and what was admitted.
#[derive(Clone, Debug)]
struct World {
    line: Timeline,
    quota: Quota,
    word: u64,
    now: u64,
    threads: Vec<(Stage, u32)>,
    /// The reading of each admission, and its cost.
    admitted: Vec<(u64, u32)>,
}

/// Ticks per second, so that a tick brings a part of a token or several.
const FREQUENCY: u64 = 1_000;

impl World {
    fn new(quota: Quota, costs: &[u32]) -> Self {
        Self {
            line: Timeline::new(Measure::Tokens, &quota, &quota, FREQUENCY, 0, 0),
            quota,
            word: 0,
            now: 1_000,
            threads: costs.iter().map(|cost| (Stage::Load, *cost)).collect(),
            admitted: Vec::new(),
        }
    }

    /// One step of a thread; a reading of the clock is `skew` ticks old.
    fn step(&mut self, thread: usize, skew: u64) {
        let (stage, cost) = self.threads[thread];
        self.threads[thread].0 = match stage {
            Stage::Load => Stage::Read { word: self.word },
            Stage::Read { word } => Stage::Exchange { word, now: self.now - skew },
            Stage::Exchange { word, now } => {
                let at = self.line.position(now);
                if let Ok(next) = self.line.take(word, at, cost)
                    && word == self.word
                {
                    self.word = next;
                    self.admitted.push((now, cost));
                }
                Stage::Load
            }
        };
    }

    /// In any interval of readings at most `burst + rate · (t + 1 tick)`.
    fn check(&self) {
        let (limit, burst) = (u64::from(self.quota.limit()), u64::from(self.quota.capacity()));
        for &(from, _) in &self.admitted {
            for &(to, _) in self.admitted.iter().filter(|(to, _)| *to >= from) {
                let within = self.admitted.iter().filter(|(at, _)| (from..=to).contains(at));
                let sum: u64 = within.map(|(_, cost)| u64::from(*cost)).sum();
                assert!(
                    sum.saturating_sub(burst) * FREQUENCY <= limit * (to - from + 1),
                    "{sum} in {from}..={to}: {self:?}"
                );
            }
        }
    }
}

/// Every order of the steps of three threads, with the clock standing still or going on a tick before each step.
#[test]
fn every_small_history_stays_in_the_envelope() {
    fn search(world: &World, left: &mut [u32; 3], histories: &mut u64) {
        let mut last = true;
        for thread in 0..left.len() {
            if left[thread] == 0 {
                continue;
            }
            last = false;
            left[thread] -= 1;
            for tick in [0, 1] {
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
    let mut histories = 0;
    let mut noticed = false;
    for (limit, burst) in [(1_000, 1), (500, 2)] {
        let world = World::new(Quota::per_second(limit).burst(burst), &[1, 1, burst]);
        search(&world, &mut [3, 3, 3], &mut histories);
        // The search would notice: one admission more than the burst in one tick is outside.
        let mut outside = world.clone();
        outside.admitted = (0..=burst + limit / 500).map(|_| (1_000, 1)).collect();
        noticed |= std::panic::catch_unwind(|| outside.check()).is_err();
    }
    assert!(noticed);
    // 9! / 3!^3 orders, 2^9 movements of the clock, two quotas.
    assert_eq!(histories, 2 * 1_680 * 512);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// Fifty steps in any order are a prefix of many histories: each step ends one.
    #[test]
    fn random_histories_stay_in_the_envelope(
        limit in 1..5_000u32,
        burst in 1..10u32,
        costs in proptest::collection::vec(1..4u32, 1..5),
        steps in proptest::collection::vec((any::<u8>(), 0..3u64, 0..20u64), 50),
    ) {
        let mut world = World::new(Quota::per_second(limit).burst(burst), &costs);
        for (thread, skew, pass) in steps {
            // Mostly nothing passes between two steps, so that threads overlap.
            world.now += pass.saturating_sub(15);
            world.step(usize::from(thread) % costs.len(), skew);
        }
        world.check();
    }
}
