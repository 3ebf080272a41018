//! Compares answers that are computed on request with the same answers computed at once.

use super::{Allowed, Denied};
use crate::limit::TokenLine;
use crate::quota::{Line, LiveQuota, Quota};
use crate::time::{Clock, Ticks};
use core::hash::BuildHasher;
use core::time::Duration;
use proptest::prelude::*;
use std::collections::hash_map::RandomState;

#[derive(Clone, Copy, Debug)]
struct At {
    now: u64,
    hertz: u64,
}

impl Clock for At {
    fn now(&self) -> u64 {
        self.now
    }

    fn frequency(&self) -> u64 {
        self.hertz
    }
}

/// Draws any number: the extremes, and numbers of every size.
fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(1 << 61), Just(1 << 63)],
        4 => (any::<u64>(), 0..64u32).prop_map(|(number, shift)| number >> shift),
    ]
}

fn tokens() -> impl Strategy<Value = u32> {
    prop_oneof![
        1 => prop_oneof![Just(0), Just(1), Just(u32::MAX)],
        4 => (any::<u32>(), 0..32u32).prop_map(|(number, shift)| number >> shift),
    ]
}

fn quotas() -> impl Strategy<Value = Quota> {
    let limited = (tokens(), numbers(), tokens(), proptest::option::of(tokens()))
        .prop_map(|(limit, window, burst, max_debt)| Quota::from_parts(limit, window.max(1), burst, max_debt));
    prop_oneof![1 => Just(Quota::UNLIMITED), 1 => Just(Quota::per_second(0)), 20 => limited]
}

fn frequencies() -> impl Strategy<Value = u64> {
    prop_oneof![1 => numbers(), 2 => prop_oneof![Just(1_000), Just(32_768), Just(1_000_000_000), Just(3_187_200_000)]]
}

/// Returns the line that a check uses. The quota may have been changed since the first use.
fn line(quota: Quota, changed: Option<Quota>, first: At, then: u64) -> TokenLine {
    let live = LiveQuota::new(quota, TokenLine::missing(0));
    live.read::<TokenLine>(&first);
    if let Some(changed) = changed {
        // If `changed` does not fit, `quota` stays in force.
        _ = live.set::<TokenLine>(changed, &At { now: then, ..first });
    }
    match live.limited_epoch() {
        Some(epoch) => live.line_for_fast_path(epoch),
        None => live.read(&first).1,
    }
}

fn hash(answer: &impl core::hash::Hash, state: &RandomState) -> u64 {
    state.hash_one(answer)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn lazy_answers_tell_what_eager_ones_do(
        (quota, changed) in (quotas(), proptest::option::of(quotas())),
        (hertz, first, then, now) in (frequencies(), numbers(), numbers(), numbers()),
        (debt, near_full) in (numbers(), proptest::option::of(-3..=3i64)),
        n in tokens(),
    ) {
        let mut line = line(quota, changed, At { now: first, hertz }, first.wrapping_add(then));
        let at = line.reading(first.wrapping_add(then).wrapping_add(now));
        let full = line.timeline().units(line.burst().into());
        let debt = near_full.map_or(debt, |more| full.wrapping_add_signed(more));
        let word = at.wrapping_add(debt);

        let eager = Allowed::counted_by(line.frequency(), line.remaining(word, at), line.resets_in(word, at));
        let mut lazy = Allowed::new(&line, word, at);
        prop_assert_eq!(lazy.remaining(), line.remaining(word, at));
        prop_assert_eq!(lazy.resets_in(), line.resets_in(word, at).duration(line.frequency()));
        prop_assert!(!lazy.is_near_limit());
        let state = RandomState::new();
        prop_assert_eq!(lazy, eager);
        prop_assert_eq!(hash(&lazy, &state), hash(&eager, &state));
        lazy.set_soft_limit(n);
        prop_assert_eq!(lazy.is_near_limit(), line.remaining(word, at) < n);

        if let Err(error) = line.take(word, at, n) {
            let (lazy, eager) = (Denied::of(&line, word, at, n), Denied::new(&line, word, at, error));
            prop_assert_eq!(lazy.remaining(), line.remaining(word, at));
            prop_assert_eq!(lazy.resets_in(), line.resets_in(word, at).duration(line.frequency()));
            prop_assert_eq!(lazy.retry_after(), eager.retry_after());
            prop_assert_eq!(lazy.exceeds_burst(), eager.exceeds_burst());
            prop_assert_eq!(lazy.allows_nothing(), eager.allows_nothing());
            prop_assert_eq!(std::format!("{lazy} {lazy:?}"), std::format!("{eager} {eager:?}"));
            prop_assert_eq!(lazy, eager);
            prop_assert_eq!(hash(&lazy, &state), hash(&eager, &state));
        }
    }

    #[test]
    fn counted_answers_tell_their_numbers(
        remaining in tokens(),
        resets_in in numbers(),
        wait in numbers(),
        hertz in frequencies(),
    ) {
        let frequency = crate::time::Frequency::from_hertz(hertz);
        let [resets_in, wait] = [resets_in, wait].map(Ticks::of_count);
        let denied = Denied::counted_by(frequency, remaining, resets_in, wait);
        prop_assert_eq!((denied.remaining(), denied.resets_in()), (remaining, resets_in.duration(frequency)));
        prop_assert_eq!(denied.exceeds_burst(), wait == Ticks::ZERO);
        prop_assert_eq!(denied.retry_after(), if wait == Ticks::ZERO { None } else { wait.duration(frequency) });
        let allowed = Allowed::counted_by(frequency, remaining, resets_in);
        prop_assert_eq!((allowed.remaining(), allowed.resets_in()), (remaining, resets_in.duration(frequency)));
    }
}

#[test]
fn answers_are_equal_if_they_tell_the_same() {
    let state = RandomState::new();
    let quota = Quota::per_second(10).burst(1);
    // These lines differ in their words, their starts and the lengths of their ticks.
    let denied = [(0, 1_000_000_000), (u64::MAX / 3, 1_000_000_000), (7, 1_000)].map(|(now, hertz)| {
        let mut line = line(quota, None, At { now, hertz }, 0);
        let at = line.reading(now);
        let full = line.timeline().units(line.burst().into());
        (Allowed::new(&line, at.wrapping_add(full), at), Denied::of(&line, at.wrapping_add(full), at, 1))
    });
    let hundred = Denied::after(Duration::from_millis(100));
    for (allowed, denied) in denied {
        assert_eq!(denied, hundred);
        assert_eq!(hash(&denied, &state), hash(&hundred, &state));
        assert_ne!(denied, Denied::after(Duration::from_millis(101)));
        let mut near = allowed;
        near.set_soft_limit(1);
        assert_ne!(near, allowed);
    }
}
