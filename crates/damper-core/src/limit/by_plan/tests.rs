//! Compares buckets by plan with a model in exact fractions, for single plans, mixtures and changes.

#![expect(clippy::cast_precision_loss, reason = "the bounds have room for it")]

use super::ByPlan;
use crate::limit::planned_level::PlannedLevel;
use crate::quota::{Beats, Plan, Quota};
use core::num::NonZeroU8;
use core::time::Duration;
use proptest::prelude::*;
use std::vec::Vec;

/// The nanoseconds of a beat, the unit of time of plans.
const BEAT: u128 = 64;

/// The most beats that a token may come early.
const EARLY: u128 = 4;

/// The exact debt of a bucket, in tokens times the nanoseconds of the window.
#[derive(Clone, Copy, Debug)]
struct Exact {
    quota: Quota,
    owed: u128,
}

impl Exact {
    fn new(plan: &Plan) -> Self {
        Self { quota: plan.quota(), owed: 0 }
    }

    fn window(&self) -> u128 {
        self.quota.window_nanos().into()
    }

    /// Returns how much debt is repaid in `beats`.
    fn brought(&self, beats: u128) -> u128 {
        u128::from(self.quota.limit()) * BEAT * beats
    }

    fn pass(&mut self, beats: u64) {
        self.owed = self.owed.saturating_sub(self.brought(beats.into()));
    }

    fn cost(&self, n: u32) -> u128 {
        u128::from(n) * self.window()
    }

    fn has(&self, n: u32) -> bool {
        self.owed + self.cost(n) <= u128::from(self.quota.burst_size()) * self.window()
    }

    /// Returns whether the tokens are available `EARLY` beats later.
    fn soon_has(&self, n: u32) -> bool {
        let later = self.owed.saturating_sub(self.brought(EARLY));
        later + self.cost(n) <= u128::from(self.quota.burst_size()) * self.window()
    }
}

/// Draws a number of any size below `2^bits`.
fn sized(bits: u32) -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..bits).prop_map(move |(number, size)| (number >> (u64::BITS - bits)) >> size)
}

fn plans() -> impl Strategy<Value = Plan> {
    let common = prop_oneof![
        Just(Quota::per_second(7_000_000)),
        Just(Quota::per_second(10)),
        Just(Quota::per_minute(600).burst(37)),
        Just(Quota::per_hour(1)),
        Just(Quota::every(Duration::from_secs(86_400)).unwrap()),
        Just(Quota::per(3, Duration::from_nanos(1_001)).unwrap()),
    ];
    let any = (sized(32), sized(58), sized(32))
        .prop_map(|(limit, window, burst)| Quota::from_parts(limit.max(1) as u32, window.max(128), burst as u32, None));
    prop_oneof![1 => common, 2 => any].prop_filter_map("in the range of plans", |quota| Plan::new(quota).ok())
}

/// Draws numbers from which the gaps between calls and their costs are made.
fn calls() -> impl Strategy<Value = Vec<(u64, u32, u8)>> {
    proptest::collection::vec((any::<u64>(), any::<u32>(), any::<u8>()), 1..300)
}

/// Turns random numbers into a gap and a cost that suit the plan.
fn suited(plan: &Plan, (gap, n, kind): (u64, u32, u8)) -> (u64, u32) {
    let quota = plan.quota();
    let token = (u128::from(quota.window_nanos()) / u128::from(quota.limit()) / BEAT) as u64;
    let refill = u64::try_from(u128::from(token) * u128::from(quota.burst_size().max(1))).unwrap_or(u64::MAX);
    let longest = match kind % 4 {
        0 => 4,
        1 => token.saturating_mul(2),
        2 => refill / 3,
        _ => refill.saturating_mul(2),
    };
    let n = if kind & 4 == 0 { 1 } else { n % quota.burst_size().saturating_add(2).max(1) };
    (gap % longest.clamp(1, Beats::FINE.longest_debt()), n)
}

#[test]
fn plans_keep_their_quota() {
    for quota in [
        Quota::per_second(1),
        Quota::per_second(7_812_500).burst(3),
        Quota::per_minute(60).max_debt(0),
        Quota::per_hour(5_000).burst(100).max_debt(7),
        Quota::per(7, Duration::from_nanos(1_003)).unwrap(),
        Quota::every(Duration::from_secs(30 * 86_400)).unwrap(),
        Quota::UNLIMITED,
    ] {
        assert_eq!(Plan::new(quota).unwrap().quota(), quota);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_plan_keeps_any_quota(plan in plans()) {
        prop_assert_eq!(Plan::new(plan.quota()), Ok(plan));
    }

    /// A position has an instant of its own, and that instant leads back to the position.
    #[test]
    fn instants_lead_back_to_their_positions(plan in plans(), at in sized(60), ahead in sized(46)) {
        let mut line: crate::limit::TokenLine = plan.line();
        let here = crate::quota::Line::reading(&mut line, at);
        let position = here.wrapping_add(ahead >> 1);
        let instant = at.wrapping_add(crate::quota::Line::wait(&line, position.wrapping_sub(here)).count());
        if position > here {
            prop_assert_eq!(plan.position_from(instant), position);
        }
    }

    // CLAIM: Plan
    #[test]
    fn a_plan_is_never_late_and_hardly_early(plan in plans(), start in sized(59), calls in calls()) {
        let mut exact = Exact::new(&plan);
        let (mut at, mut level) = (start, ByPlan::idle_at(start));
        for call in calls {
            let (gap, n) = suited(&plan, call);
            at += gap;
            exact.pass(gap);
            match ByPlan::take(&plan, level, at, n, 0) {
                Ok((after, left)) => {
                    prop_assert!(exact.soon_has(n), "early by more than {EARLY} beats");
                    exact.owed += exact.cost(n);
                    level = after;
                    let full = u128::from(exact.quota.burst_size()) * exact.window();
                    let most = (full + exact.brought(EARLY)).saturating_sub(exact.owed) / exact.window();
                    prop_assert!(u128::from(left) <= most);
                }
                Err(denied) => {
                    prop_assert!(!exact.has(n), "late");
                    // After the wait the call is allowed, and a beat sooner it is not.
                    if let Some(wait) = denied.retry_after() {
                        let beats = (wait.as_nanos() / BEAT) as u64;
                        prop_assert!(ByPlan::take(&plan, level, at + beats, n, 0).is_ok());
                        prop_assert!(ByPlan::take(&plan, level, at + beats - 1, n, 0).is_err());
                    } else {
                        prop_assert!(n > exact.quota.burst_size());
                    }
                }
            }
            let straight = ByPlan::take_straight(&plan, level, at, 1, 0);
            if let Some(straight) = straight {
                prop_assert_eq!(straight, ByPlan::take(&plan, level, at, 1, 0));
            }
        }
    }

    // CLAIM: Plan
    #[test]
    fn mixed_plans_obey_the_law_of_time(
        plans in proptest::collection::vec(plans(), 2..4),
        start in sized(59),
        calls in calls(),
    ) {
        let (mut at, mut level, mut passed) = (start, ByPlan::idle_at(start), 0u128);
        let (mut taken, mut count) = (0.0, 0);
        let takes = |plan: &Plan, n: u32| f64::from(n) * plan.quota().window_nanos() as f64 / f64::from(plan.quota().limit()) / 64.0;
        let longest = plans.iter().map(|plan| takes(plan, plan.quota().burst_size())).fold(0.0, f64::max);
        for call in calls {
            let plan = &plans[usize::from(call.2 >> 3) % plans.len()];
            let (gap, n) = suited(plan, call);
            at += gap;
            passed += u128::from(gap);
            if let Ok((after, _)) = ByPlan::take(plan, level, at, n, 0) {
                level = after;
                taken += takes(plan, n);
                count += 1;
                let most = passed as f64 + longest + 4.0 * f64::from(count);
                prop_assert!(taken <= most * (1.0 + 1e-9), "{taken} of {most} beats");
            }
        }
    }

    // CLAIM: Plan
    #[test]
    fn replan_keeps_tokens_and_happens_once(old in plans(), new in plans(), start in sized(59), n in any::<u32>(), gap in any::<u64>()) {
        let (old, new) = (old.tagged(NonZeroU8::MIN), new.tagged(NonZeroU8::MAX));
        let burst = old.quota().burst_size();
        prop_assume!(burst > 0);
        let n = n % burst + 1;
        let Ok((level, _)) = ByPlan::take(&old, ByPlan::idle_at(start), start, n, 0) else {
            return Err(TestCaseError::fail("the burst is there"));
        };
        let at = start + gap % ByPlan::owed_beats(level, start).max(1);
        let owed = u64::from(n) - u64::from(ByPlan::usage(&old, level, at).remaining() - (burst - n));
        let replanned = ByPlan::replanned(&old, &new, level, at);
        if ByPlan::owed_beats(level, at) > 0 {
            prop_assert_eq!(ByPlan::tag(replanned), 255);
        }
        let usage = ByPlan::usage(&new, replanned, at);
        let owed_now = u64::from(usage.quota().burst_size() - usage.remaining()) + u64::from(usage.debt());
        let deepest = u64::from(ByPlan::charge(&new, ByPlan::idle_at(at), at, u32::MAX).0);
        prop_assert!(owed_now <= owed + 1, "{owed_now} after {owed}");
        // Remaining tokens are rounded down under both plans, so the debts may differ by a token.
        prop_assert!(owed_now + 1 >= owed.min(deepest), "{owed_now} after {owed}");
        prop_assert_eq!(ByPlan::replanned(&old, &new, replanned, at), replanned);
    }

    /// A roll-back leaves a debt alone that was converted to another plan, and is refilled at another rate.
    #[test]
    fn a_roll_back_after_a_change_of_plans_gives_nothing_back(old in plans(), new in plans(), at in sized(59)) {
        let (old, new) = (old.tagged(NonZeroU8::MIN), new.tagged(NonZeroU8::MAX));
        prop_assume!(old.quota().burst_size() > 0);
        let (level, _) = ByPlan::take(&old, ByPlan::idle_at(at), at, 1, 0).expect("a full bucket has a token");
        let replanned = ByPlan::replanned(&old, &new, level, at);
        prop_assert_eq!(ByPlan::roll_back(&old, replanned, at, 1, at), replanned);
        prop_assert_eq!(ByPlan::owed_beats(ByPlan::roll_back(&old, level, at, 1, at), at), 0);
    }

    /// Changing the plan without `replan` gives at most the excess that `planned_level` states.
    #[test]
    fn a_change_of_plans_exceeds_by_its_bound(one in plans(), two in plans(), start in sized(59), gap in any::<u64>()) {
        let take_all = |plan: &Plan, level: u64, at: u64| {
            let n = ByPlan::usage(plan, level, at).remaining();
            let (level, _) = ByPlan::take(plan, level, at, n, 0).expect("they remain");
            (n, level)
        };
        let (n1, level) = take_all(&one, ByPlan::idle_at(start), start);
        let gap = gap % (2 * ByPlan::owed_beats(level, start) + 1);
        let (n2, _) = take_all(&two, level, start + gap);
        let refill = |plan: &Plan| {
            let quota = plan.quota();
            f64::from(quota.burst_size()) * quota.window_nanos() as f64 / f64::from(quota.limit())
        };
        let rate = |plan: &Plan| f64::from(plan.quota().limit()) / plan.quota().window_nanos() as f64;
        let (b1, b2) = (f64::from(n1), f64::from(two.quota().burst_size()));
        let excess = b2 * (1.0 - refill(&one) / refill(&two)).max(0.0) + 1.0;
        let brought = rate(&one).max(rate(&two)) * (gap as f64 + 2.0 * EARLY as f64) * 64.0;
        let most = b1.max(b2) + brought + excess;
        prop_assert!(f64::from(n1) + f64::from(n2) <= most * (1.0 + 1e-9), "{n1} + {n2} of {most}");
    }
}
