//! Simulations of calls whose estimates are settled.
//!
//! They tell how much of a rate is used, and how much an adversary gains.
//!
//! `../shared/spec/trees` compared the rules; that of sets and trees is: refund, up to a bound on what is unsettled, within a
//! time-to-live. Beyond the bound a reservation is allowed, and gives nothing back.

#![expect(clippy::cast_precision_loss, reason = "the bounds have room for it")]

use damper::ManualClock;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// The tokens a minute, and the burst, of the limit.
pub(crate) const BURST: u32 = 60_000;

const SECONDS: u64 = 3_600;

/// A limit of one quota, whose reservations are settled.
pub(crate) trait Settled {
    type Call;

    /// Creates a limit with this bound in bursts and this time-to-live in seconds.
    fn new(unsettled: f64, time_to_live: u64, clock: Arc<ManualClock>) -> Self;

    fn reserve(&self, n: u32) -> Option<Self::Call>;

    fn settle(call: Self::Call, used: u32);

    /// Takes all tokens that are left, and returns how many.
    fn drain(&self) -> u32;
}

/// Returns the part of the rate that calls of `lasting` seconds used, with estimates `times` too high.
pub(crate) fn used<S: Settled>(unsettled: f64, lasting: RangeInclusive<u64>, times: u32) -> f64 {
    let clock = Arc::new(ManualClock::new());
    let limit = S::new(unsettled, 120, Arc::clone(&clock));
    let mut calls: VecDeque<(u64, u32, S::Call)> = VecDeque::new();
    let (mut total, mut random) = (0u64, 1u64);
    for tenth in 0..10 * SECONDS {
        clock.advance(Duration::from_millis(100));
        let mut running = VecDeque::new();
        while let Some((until, really, call)) = calls.pop_front() {
            if until <= tenth {
                S::settle(call, really);
                total += u64::from(really);
            } else {
                running.push_back((until, really, call));
            }
        }
        calls = running;
        // More workers than the quota feeds: each tries until it is refused.
        for _ in 0..40 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let really = 200 + (random >> 33) as u32 % 400;
            let Some(call) = limit.reserve(really * times) else { break };
            let (least, most) = (*lasting.start(), *lasting.end());
            calls.push_back((tenth + 10 * (least + (random >> 40) % (most - least + 1)), really, call));
        }
    }
    let rate = f64::from(BURST) / 60.0;
    total as f64 / (rate * SECONDS as f64 + f64::from(BURST))
}

/// Simulates an adversary that reserves everything for `held` seconds and settles it unused at once.
///
/// It uses all of it at that instant. Returns how many bursts that is beyond the one burst that a limit allows at an instant.
pub(crate) fn excess<S: Settled>(unsettled: f64, time_to_live: u64, held: u64) -> f64 {
    let clock = Arc::new(ManualClock::new());
    let limit = S::new(unsettled, time_to_live, Arc::clone(&clock));
    let mut worst = 0.0f64;
    for _ in 0..20 {
        let mut calls = Vec::new();
        for _ in 0..10 * held {
            clock.advance(Duration::from_millis(100));
            while let Some(call) = limit.reserve(BURST / 100) {
                calls.push(call);
            }
        }
        let mut at_once = limit.drain();
        for call in calls {
            S::settle(call, 0);
            // Before the next one is settled: a full bucket has no room for more.
            at_once += limit.drain();
        }
        worst = worst.max((f64::from(at_once) - f64::from(BURST)) / f64::from(BURST));
        clock.advance(Duration::from_secs(60));
    }
    worst
}
