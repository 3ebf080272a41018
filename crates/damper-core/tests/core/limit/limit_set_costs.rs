//! Sets of limits with a cost each and a bound on the calls in flight, compared with an obvious model.

use crate::models::cases::cases;
use crate::models::tick_bucket::{Bucket, bucket};
use damper::{
    Bulkhead, FixedWindow, LimitSet, LimitSetDenied, LimitSetRefusal, ManualClock, Quota, SetReservation, TokenBucket,
};
use proptest::prelude::*;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Ticks per second.
const FREQUENCY: u64 = 1_000;

/// The next act of a caller.
#[derive(Clone, Debug)]
enum Act {
    Pass(i64),
    Reserve([u32; 3]),
    /// Settles one of the calls in flight.
    Settle(usize, [u32; 3]),
    /// Drops one of the calls in flight.
    Drop(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let cost = || prop_oneof![4 => 0..4u32, 1 => 0..12u32, 1 => Just(u32::MAX)];
    let costs = || [cost(), cost(), cost()];
    prop_oneof![
        3 => (0..400i64).prop_map(Act::Pass),
        4 => costs().prop_map(Act::Reserve),
        2 => (any::<usize>(), costs()).prop_map(|(which, used)| Act::Settle(which, used)),
        1 => any::<usize>().prop_map(Act::Drop),
    ]
}

/// The refusal of the model: of the limit with the longest wait. A wait that never ends is the longest.
fn longest_refusal(models: &[Bucket; 3], costs: [u32; 3]) -> Option<(usize, Option<i64>)> {
    let refusals = models.iter().zip(costs).enumerate().filter(|(_, (model, n))| !model.allows(*n));
    let waits = refusals.map(|(index, (model, n))| (index, model.wait(n)));
    waits.min_by_key(|&(_, wait)| std::cmp::Reverse((wait.is_none(), wait)))
}

fn assert_named(denied: &LimitSetDenied, expected: (usize, Option<i64>)) {
    let stated = denied.retry_after().map(|wait| i64::try_from(wait.as_millis()).unwrap());
    assert_eq!((denied.index(), stated), expected, "{denied}");
}

fn compare(models: [Bucket; 3], slots: u32, acts: &[Act]) {
    let clock = Arc::new(ManualClock::with_frequency(FREQUENCY));
    let quotas = models.map(|model| model.quota());
    let pool = || Bulkhead::with_clock(slots, Arc::clone(&clock));
    let array = Arc::new(LimitSet::with_clock(quotas, Arc::clone(&clock)).with_bulkhead(pool()));
    let boxed = LimitSet::boxed(quotas.map(TokenBucket::new), Arc::clone(&clock)).unwrap().with_bulkhead(pool());
    let (mut models, mut calls) = (models, Vec::new());
    for act in acts {
        match *act {
            Act::Pass(ticks) => {
                clock.advance_ticks(ticks.unsigned_abs());
                for model in &mut models {
                    model.pass(ticks);
                }
            }
            Act::Reserve(costs) => {
                let refusal = longest_refusal(&models, costs);
                let answers = (array.reserve_owned(costs), boxed.reserve(&costs));
                match answers {
                    (Ok(call), Ok(alike)) => {
                        assert_eq!(refusal, None, "{costs:?} of {models:?}");
                        for (model, n) in models.iter_mut().zip(costs) {
                            model.take(n);
                        }
                        calls.push((costs, call, alike));
                    }
                    (Err(refused), Err(alike)) => {
                        assert_eq!(refused, alike);
                        match (refused, refusal) {
                            (LimitSetRefusal::Limit(denied), Some(refusal)) => assert_named(&denied, refusal),
                            (LimitSetRefusal::InFlight(full), None) => {
                                assert_eq!((full.limit(), calls.len()), (slots, slots as usize));
                            }
                            unequal => panic!("{unequal:?}"),
                        }
                    }
                    unequal => panic!("{unequal:?}"),
                }
            }
            Act::Settle(which, used) if !calls.is_empty() => {
                let (taken, call, alike) = calls.swap_remove(which % calls.len());
                call.settle(used);
                alike.settle(&used);
                for ((model, taken), used) in models.iter_mut().zip(taken).zip(used) {
                    model.settle(taken, used);
                }
            }
            Act::Drop(which) if !calls.is_empty() => drop(calls.swap_remove(which % calls.len())),
            Act::Settle(..) | Act::Drop(_) => {}
        }
        let left = models.map(|model| (model.level / model.token).max(0));
        assert_eq!(array.peek().map(|usage| i64::from(usage.remaining())), left, "after {act:?}");
        assert_eq!(boxed.peek(), array.peek());
        assert_eq!(array.bulkhead().in_flight() as usize, calls.len());
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn set_does_as_the_model(models in [bucket(), bucket(), bucket()], slots in 0..4u32, acts in proptest::collection::vec(act(), 1..40)) {
        compare(models, slots, &acts);
    }
}

fn llm(clock: &ManualClock) -> LimitSet<[TokenBucket; 2], &ManualClock, Bulkhead> {
    LimitSet::with_clock([Quota::per_minute(60), Quota::per_minute(6_000)], clock).with_bulkhead(Bulkhead::new(2))
}

#[test]
fn dropped_reservation_counts_as_used_and_frees_its_slot() {
    let clock = ManualClock::new();
    let llm = llm(&clock);
    drop(llm.reserve([1, 1_000]).unwrap());
    let panicked = thread::scope(|scope| {
        scope
            .spawn(|| {
                let _call = llm.reserve([1, 1_000]).unwrap();
                assert_eq!(llm.bulkhead().in_flight(), 1);
                panic!("the call fails");
            })
            .join()
    });
    assert!(panicked.is_err());
    assert_eq!(llm.bulkhead().in_flight(), 0);
    assert_eq!(llm.peek().map(|usage| usage.used()), [2, 2_000]);
}

#[test]
fn refused_call_takes_no_tokens_and_no_slot() {
    let clock = ManualClock::new();
    let llm = llm(&clock);
    let _calls = [llm.reserve([1, 1]).unwrap(), llm.reserve([1, 1]).unwrap()];
    let used = || llm.peek().map(|usage| usage.used());
    assert!(matches!(llm.reserve([1, 1]), Err(LimitSetRefusal::InFlight(_))));
    let refusal = llm.reserve([1, 5_999]).unwrap_err();
    assert_eq!(refusal.to_string(), "limit 2 (6000/min burst 6000): rate limit exceeded, retry in 10 ms");
    assert_eq!(refusal.retry_after(), Some(Duration::from_millis(10)));
    assert_eq!((used(), llm.bulkhead().in_flight()), ([2, 2], 2));
}

#[test]
fn call_that_was_not_made_gives_all_back() {
    let clock = ManualClock::new();
    let llm = llm(&clock);
    llm.reserve([1, 6_000]).unwrap().settle([0, 0]);
    assert_eq!(llm.peek().map(|usage| usage.used()), [0, 0]);
}

#[test]
fn debt_of_one_limit_refuses_the_next_call() {
    let clock = ManualClock::new();
    let llm = llm(&clock);
    llm.reserve([1, 1_000]).unwrap().settle([1, 6_500]);
    let denied = llm.reserve([1, 0]);
    assert!(denied.is_ok(), "a limit that costs nothing is not asked");
    let Err(LimitSetRefusal::Limit(denied)) = llm.reserve([1, 1]) else { panic!("the tokens are in debt") };
    assert_eq!((denied.index(), denied.retry_after()), (1, Some(Duration::from_millis(5_010))));
}

/// Two sets share the calls in flight, but have tokens of their own.
#[test]
fn sets_share_a_bulkhead() {
    let clock = ManualClock::new();
    let pool = Arc::new(Bulkhead::new(1));
    let tenant = || LimitSet::with_clock([Quota::per_minute(10)], &clock).with_bulkhead(Arc::clone(&pool));
    let (one, other) = (tenant(), tenant());
    let call = one.reserve([1]).unwrap();
    assert!(matches!(other.reserve([1]), Err(LimitSetRefusal::InFlight(_))));
    call.settle([1]);
    let permit = pool.try_acquire().unwrap();
    assert!(other.reserve([1]).is_err());
    drop(permit);
    assert!(other.reserve([1]).is_ok());
}

#[test]
fn owned_reservation_outlives_its_borrow() {
    fn run_elsewhere(call: SetReservation<Arc<LimitSet<[TokenBucket; 1], Arc<ManualClock>>>>) {
        thread::spawn(move || call.settle([3])).join().unwrap();
    }
    let clock = Arc::new(ManualClock::new());
    let tokens = Arc::new(LimitSet::with_clock([Quota::per_minute(10)], Arc::clone(&clock)));
    run_elsewhere(tokens.reserve_owned([8]).unwrap());
    assert_eq!(tokens.peek()[0].used(), 3);
}

/// Windows have no refunds: their reservations cannot be settled, but cost each its own.
#[test]
fn every_algorithm_has_a_cost_for_each_limit() {
    let clock = ManualClock::new();
    let windows = [Quota::per_minute(3), Quota::per_hour(100)].map(FixedWindow::new);
    let both = LimitSet::with_algorithms(windows, &clock);
    both.reserve([1, 70]).map(drop).unwrap();
    assert_eq!(both.reserve([1, 31]).unwrap_err().index(), 1);
    assert_eq!(both.peek().map(|usage| usage.used()), [1, 70]);
}

#[test]
fn set_of_any_length_wants_a_cost_for_each_limit() {
    let clock = ManualClock::new();
    let quotas = [Quota::per_second(10), Quota::per_minute(100)];
    let both = LimitSet::boxed(quotas.map(TokenBucket::new), &clock).unwrap();
    let too_few = both.reserve(&[1]).unwrap_err();
    assert_eq!(too_few.to_string(), "1 costs for 2 limits, there must be one for each");
    assert_eq!((too_few.index(), too_few.retry_after(), too_few.quota().limit()), (1, None, 0));
    assert!(too_few.denied().exceeds_burst());
    assert_eq!(both.reserve(&[1; 40]).unwrap_err().index(), 2);
    both.check_n(10).unwrap();
    assert_eq!(both.check().unwrap_err().index(), 0);
    assert_eq!(both.peek().iter().map(damper::Usage::used).collect::<Vec<_>>(), [10, 10]);
    let error = both.set_quotas(&quotas[..1]).unwrap_err();
    assert_eq!(error.to_string(), "1 quotas for 2 limits, there must be one for each");
    let call = both.reserve(&[0, 5]).unwrap();
    call.settle(&[]);
    assert_eq!(both.peek()[1].used(), 15, "a limit that is not mentioned keeps its cost");
}

#[test]
fn set_of_any_length_has_at_most_16_limits() {
    let limits = |n| std::iter::repeat_with(|| TokenBucket::new(Quota::per_second(1))).take(n);
    assert!(LimitSet::boxed(limits(16), ManualClock::new()).is_ok_and(|set| set.check().is_ok()));
    assert!(LimitSet::boxed(limits(0), ManualClock::new()).is_ok_and(|set| set.check_n(u32::MAX).is_ok()));
    let error = LimitSet::boxed(limits(17), ManualClock::new()).unwrap_err();
    assert_eq!(error.to_string(), "limits is 17, it must be at most 16");
}

#[test]
fn all_quotas_change_or_none() {
    let clock = ManualClock::new();
    let both = LimitSet::with_clock([Quota::per_second(10), Quota::per_minute(15)], &clock);
    let limits = || both.peek().map(|usage| usage.limit());
    both.check_n(5).unwrap();
    let too_fast = Quota::per_second(1_000_000_000).burst(15);
    let error = both.set_quotas([Quota::per_second(20), too_fast]).unwrap_err();
    assert!(error.to_string().starts_with("limit 2: "), "{error}");
    assert_eq!(limits(), [10, 15]);
    both.set_quotas([Quota::per_second(20), Quota::per_minute(30)]).unwrap();
    assert_eq!(limits(), [20, 30]);
    assert_eq!(both.peek().map(|usage| usage.used()), [5, 5], "what is missing stays missing");
    both.set_quota(0, Quota::per_second(30)).unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(both.check_n(26).unwrap_err().index(), 1);
}

/// The length of the simulation below, in ticks.
const LENGTH: u64 = 600 * FREQUENCY;

/// Returns the longest wait for the tokens of a call, in seconds, while eight workers use all of them.
///
/// Each worker retries when its refusal says, or only the one that has waited longest asks.
fn longest_wait(is_queue: bool) -> u64 {
    let clock = ManualClock::with_frequency(FREQUENCY);
    let llm = LimitSet::with_clock([Quota::per_minute(60_000).burst(10_000)], &clock);
    let bills = [200, 400, 4_000, 300, 500, 4_500, 250];
    let (mut next, mut longest) = (0, 0);
    // Since when a worker waits, when it asks again, and its bill.
    let mut waiting = [(); 8].map(|()| {
        next += 1;
        Some((0, 0, bills[next % bills.len()]))
    });
    let mut calling = [(); 8].map(|()| None);
    for now in 0..LENGTH {
        let first = waiting.iter().flatten().map(|&(since, ..)| since).min();
        for (waiting, calling) in waiting.iter_mut().zip(&mut calling) {
            if let Some((call, bill, ends)) = calling.take() {
                if ends > now {
                    *calling = Some((call, bill, ends));
                    continue;
                }
                SetReservation::settle(call, [bill]);
                next += 1;
                *waiting = Some((now, now, bills[next % bills.len()]));
            }
            let Some((since, asks, bill)) = waiting else { continue };
            let may_ask = if is_queue { first == Some(*since) } else { *asks <= now };
            if !may_ask {
                continue;
            }
            match llm.reserve([2 * *bill]) {
                Ok(call) => {
                    longest = longest.max(now - *since);
                    *calling = Some((call, *bill, now + 2 * FREQUENCY));
                    *waiting = None;
                }
                Err(denied) => *asks = now + u64::try_from(denied.retry_after().unwrap().as_millis()).unwrap(),
            }
        }
        clock.advance_ticks(1);
    }
    longest.max(waiting.iter().flatten().map(|(since, ..)| LENGTH - since).max().unwrap_or(0)) / FREQUENCY
}

/// Callers that retry are served in no order, and a large call may wait for ever.
#[test]
fn queue_before_a_set_bounds_the_wait() {
    let [retrying, queued] = [false, true].map(longest_wait);
    assert!(queued <= 30, "{queued} s in a queue");
    assert!(retrying >= 10 * queued, "{retrying} s without, {queued} s in a queue");
}
