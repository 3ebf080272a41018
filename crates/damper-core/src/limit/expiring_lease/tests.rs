use super::{END, ExpiringLease, LONGEST, MOST, Report, Snapshot};
use crate::time::{Clock, ManualClock};
use core::time::Duration;
use proptest::prelude::*;
use std::vec::Vec;

const SECOND: u64 = 1_000_000_000;

/// Spends `n` tokens, and returns how many are left.
fn spend(lease: &ExpiringLease, n: u32, clock: &ManualClock) -> Option<u32> {
    let spent = lease.spend(n, clock)?;
    assert_eq!(spent.at, clock.now());
    Some(spent.left)
}

fn lease_on(clock: &ManualClock) -> ExpiringLease {
    ExpiringLease::new(clock.frequency())
}

#[test]
fn tokens_are_spent_until_the_end() {
    let clock = ManualClock::new();
    let lease = lease_on(&clock);
    assert_eq!(spend(&lease, 0, &clock), None, "nothing was granted yet");
    lease.renew(0, 5, SECOND, &clock);
    assert_eq!(
        (spend(&lease, 2, &clock), spend(&lease, 4, &clock), spend(&lease, 0, &clock)),
        (Some(3), None, Some(3))
    );
    clock.advance(Duration::from_millis(998));
    assert_eq!(spend(&lease, 1, &clock), Some(2));
    clock.advance(Duration::from_millis(2));
    assert_eq!((spend(&lease, 1, &clock), lease.held(&clock)), (None, 0));
}

#[test]
fn ended_lease_reports_nothing_and_takes_no_refund() {
    let clock = ManualClock::new();
    let lease = lease_on(&clock);
    lease.renew(0, 5, SECOND, &clock);
    clock.advance(Duration::from_secs(1));
    assert_eq!(lease.refund(3, 9, &clock), 0);
    assert_eq!(lease.report(0, &clock), Report::default());
    // The tokens are gone for good.
    lease.renew(0, 0, 2 * SECOND, &clock);
    assert_eq!(lease.held(&clock), 0);
}

#[test]
fn report_takes_out_what_exceeds_the_part_to_keep() {
    let clock = ManualClock::new();
    let lease = lease_on(&clock);
    lease.renew(0, 5, SECOND, &clock);
    assert_eq!(lease.report(u32::MAX, &clock), Report { back: 0, unspent: 5 });
    assert_eq!(lease.report(3, &clock), Report { back: 2, unspent: 3 });
    assert_eq!(lease.report(0, &clock), Report { back: 3, unspent: 0 });
    assert_eq!(lease.held(&clock), 0);
}

#[test]
fn clock_that_may_step_back_ends_a_lease_earlier_by_that() {
    struct Skewed<'a>(&'a ManualClock);
    impl Clock for Skewed<'_> {
        fn now(&self) -> u64 {
            self.0.now()
        }
        fn frequency(&self) -> u64 {
            self.0.frequency()
        }
        fn max_step_back(&self) -> u64 {
            100_000_000
        }
    }
    let clock = ManualClock::new();
    let skewed = Skewed(&clock);
    let lease = lease_on(&clock);
    lease.renew(0, 5, SECOND, &skewed);
    clock.advance(Duration::from_millis(898));
    assert_eq!(lease.held(&skewed), 5);
    clock.advance(Duration::from_millis(2));
    assert_eq!(lease.held(&skewed), 0);
}

#[test]
fn lease_is_valid_across_the_wraps_of_clock_and_word() {
    for frequency in [1, 999, 1_000, 32_768, SECOND, 3 * SECOND, u64::MAX] {
        let clock = ManualClock::with_frequency(frequency);
        let lease = lease_on(&clock);
        let unit = 1 << lease.shift;
        assert!(frequency < 1_000 || (frequency / 2_000..=frequency / 1_000).contains(&unit), "{frequency}");
        for start in [0, u64::MAX - 2 * unit + 1, (END.max() << lease.shift.min(24)).wrapping_sub(unit)] {
            // If a unit has more than 2^24 ticks, the clock wraps before the field `END` does, and a lease across that
            // wrap ends early.
            if lease.shift > 24 && start > u64::MAX / 2 {
                continue;
            }
            clock.set_ticks(start);
            lease.renew(u32::MAX, 7, start.wrapping_add(4 * unit), &clock);
            clock.advance_ticks(3 * unit);
            assert_eq!(lease.held(&clock), 7, "{frequency} {start}");
            clock.advance_ticks(unit);
            assert_eq!(lease.held(&clock), 0, "{frequency} {start}");
        }
    }
}

#[test]
fn end_too_far_ahead_has_passed() {
    let held = Snapshot(0).with_tokens(1).with_end(LONGEST);
    assert!(!held.is_before_end(END.max()) && held.is_before_end(0) && !held.is_before_end(LONGEST));
}

#[derive(Clone, Debug)]
enum Step {
    Spend(u32),
    Renew { dropped: u32, granted: u32, length: u64 },
    Refund { n: u32, most: u32 },
    Report(u32),
    Advance(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let tokens = || prop_oneof![0..20u32, MOST - 3..=MOST, Just(u32::MAX)];
    let step = prop_oneof![
        4 => tokens().prop_map(Step::Spend),
        1 => (tokens(), tokens(), 0..9u64).prop_map(|(dropped, granted, length)| Step::Renew { dropped, granted, length }),
        1 => (tokens(), tokens()).prop_map(|(n, most)| Step::Refund { n, most }),
        1 => tokens().prop_map(Step::Report),
        2 => (0..5u64).prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// Compares a lease with two plain numbers, on a clock whose ticks are the units.
    #[test]
    fn lease_matches_tokens_and_an_end(start: u64, steps in steps()) {
        let clock = ManualClock::with_frequency(1_000);
        clock.set_ticks(start);
        let lease = lease_on(&clock);
        let (mut now, mut tokens, mut end) = (0u64, 0u64, 0u64);
        // A new lease ends at unit 0. If the clock starts just before its wrap, that end still lies ahead. So this
        // renewal moves the end to the start.
        lease.renew(0, 0, start, &clock);
        for step in steps {
            let valid = now < end;
            match step {
                Step::Spend(n) => {
                    let left = tokens.checked_sub(n.into()).filter(|_| valid);
                    prop_assert_eq!(spend(&lease, n, &clock).map(u64::from), left);
                    tokens = left.unwrap_or(tokens);
                }
                Step::Renew { dropped, granted, length } => {
                    lease.renew(dropped, granted, clock.now().wrapping_add(length), &clock);
                    tokens = (tokens.saturating_sub(dropped.into()) + u64::from(granted)).min(MOST.into());
                    end = now + length;
                }
                Step::Refund { n, most } => {
                    let room = u64::from(most.min(MOST)).saturating_sub(tokens);
                    let refunded = if valid { room.min(n.into()) } else { 0 };
                    prop_assert_eq!(u64::from(lease.refund(n, most, &clock)), refunded);
                    tokens += refunded;
                }
                Step::Report(keep) => {
                    let unspent = if valid { tokens.min(keep.into()) } else { 0 };
                    let back = if valid { tokens - unspent } else { 0 };
                    let report = lease.report(keep, &clock);
                    prop_assert_eq!((u64::from(report.back), u64::from(report.unspent)), (back, unspent));
                    tokens = unspent;
                }
                Step::Advance(ticks) => {
                    clock.advance_ticks(ticks);
                    now += ticks;
                }
            }
            prop_assert_eq!(u64::from(lease.held(&clock)), if now < end { tokens } else { 0 });
        }
    }
}
