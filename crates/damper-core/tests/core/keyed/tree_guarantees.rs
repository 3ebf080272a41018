//! Guarantees of a tree: one word of the next level with two depths.

use crate::models::cases::cases;
use crate::models::part_of::part_of;
use damper::limit::ByPlan;
use damper::time::Seed;
use damper::{Clock, KeyedLimiter, ManualClock, Plan, Quota, QuotaTree};
use proptest::prelude::*;
use std::collections::HashSet;
use std::future::{Future, pending};
use std::num::NonZeroU8;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::time::Duration;

type Tree = QuotaTree<u64, 2, 1, Arc<ManualClock>, Seed>;

fn plan(quota: Quota) -> Plan {
    Plan::new(quota).unwrap()
}

/// Returns a tree of teams and organisations; `kept` of an organisation's burst is for guaranteed teams.
fn tree(kept: Option<f64>) -> (Tree, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let builder = QuotaTree::<u64, 2, 1>::builder(["team", "organisation"], ["requests"]).capacities([1_024, 16]);
    let builder = if let Some(kept) = kept { builder.guarantees(0, kept) } else { builder };
    (builder.clock(Arc::clone(&clock)).build().unwrap(), clock)
}

/// Seven pollers use up what the organisation has, and a modest team asks for 100 a second of 1,000.
///
/// Returns how many of the modest team's calls were served, of one in ten milliseconds, and all that were.
fn beside_pollers(millis: u32, kept: Option<f64>, modest: &Plan, poller: &Plan) -> (u32, u32) {
    let (tree, clock) = tree(kept);
    let all = plan(Quota::per_second(1_000));
    let (mut of_modest, mut of_all) = (0, 0);
    for tick in 0..millis {
        for key in 0..7 {
            while tree.check(&[(&key, [poller]), (&0, [&all])], [1]).is_ok() {
                of_all += 1;
            }
        }
        if tick % 10 == 9 {
            of_modest += u32::from(tree.check(&[(&7, [modest]), (&0, [&all])], [1]).is_ok());
        }
        clock.advance(Duration::from_millis(1));
    }
    (of_modest, of_modest + of_all)
}

// CLAIM: QuotaTree
#[test]
fn a_team_within_its_guarantee_is_always_served() {
    let guarantee = plan(Quota::per_second(100).burst(5));
    let millis = part_of(100_000);
    let (modest, all) = beside_pollers(millis, Some(0.01), &guarantee, &Plan::NOTHING);
    assert_eq!(modest, millis / 10);
    // The burst and what the line brings, a token a millisecond, less what is kept.
    assert!((millis + 980..=millis + 1_000).contains(&all), "{all}");
    let (first_come, _) = beside_pollers(millis, None, &Plan::UNLIMITED, &Plan::UNLIMITED);
    assert!(first_come < 20, "first come, first served: {first_come} of {}", millis / 10);
}

/// More is guaranteed than there is: teams that all ask for their guarantees get what there is.
// CLAIM: QuotaTree
#[test]
fn oversold_guarantees_stay_in_the_envelope() {
    let (tree, clock) = tree(Some(0.5));
    let (all, guarantee) = (plan(Quota::per_second(100)), plan(Quota::per_second(50).burst(20)));
    let mut served = 0u32;
    for tick in 0..10_000u32 {
        clock.advance(Duration::from_millis(1));
        for team in 0..8 {
            served += u32::from(tree.check(&[(&team, [&guarantee]), (&0, [&all])], [1]).is_ok());
        }
        assert!(served <= 100 + (tick + 1) / 10 + 1, "{served} after {tick} ms");
    }
    assert!(served >= 1_095, "{served}");
}

#[test]
fn a_call_beyond_its_guarantee_says_so_and_a_reservation_gives_all_of_it_back() {
    let (tree, _) = tree(Some(0.1));
    let (all, guarantee) = (plan(Quota::per_minute(100)), plan(Quota::per_minute(10).burst(5)));
    let path = [(&1, [&guarantee]), (&0, [&all])];
    let assured = tree.reserve(&path, [5]).unwrap();
    assert!(!assured.allowed().is_borrowed());
    let borrowed = tree.reserve(&path, [5]).unwrap();
    assert!(borrowed.allowed().is_borrowed());
    let used = || tree.peek(&path).map(|[usage]| usage.used());
    assert_eq!(used(), [5, 10]);
    borrowed.settle([0]);
    assert_eq!(used(), [5, 5]);
    assured.settle([0]);
    assert_eq!(used(), [0, 0]);
    // No plan of the level of guarantees is the tightest limit.
    let allowed = tree.check(&path, [5]).unwrap();
    assert_eq!((allowed.level(), allowed.allowed().unwrap().remaining()), (1, 95));
}

#[test]
fn a_guaranteed_call_does_not_wait_behind_those_that_would_borrow() {
    let (tree, _) = tree(Some(0.1));
    let (all, guarantee) = (plan(Quota::per_minute(100)), plan(Quota::per_minute(10).burst(5)));
    let (greedy, modest) = ([(&1, [&Plan::NOTHING]), (&0, [&all])], [(&2, [&guarantee]), (&0, [&all])]);
    assert_eq!((0..200).filter(|_| tree.check(&greedy, [1]).is_ok()).count(), 90);
    let mut waiting = pin!(tree.acquire(&greedy, [1]).sleeping_by(|_| pending::<()>()));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(tree.waiting(), 1);
    assert!(!tree.check(&modest, [5]).unwrap().is_borrowed());
    assert!(tree.check(&modest, [1]).is_err(), "it would borrow before the one that waits");
}

/// A key without a guarantee is refused by a look, which writes nothing.
#[test]
fn a_refusal_of_a_call_without_a_guarantee_is_not_contended() {
    let (tree, _) = tree(Some(0.1));
    let path = [(&1, [&Plan::NOTHING]), (&0, [&plan(Quota::per_second(100))])];
    assert_eq!((0..1_000).filter(|_| tree.check(&path, [1]).is_ok()).count(), 90);
    assert!(!tree.check(&path, [1]).unwrap_err().is_contended());
    // Nor is one beyond all that there is, where the sum of the cost and what is kept exceeds 32 bits.
    let endless = plan(Quota::per_second(7_000_000).burst(u32::MAX));
    let denied = tree.check(&[(&1, [&Plan::NOTHING]), (&1, [&endless])], [u32::MAX]).unwrap_err();
    assert_eq!(denied.retry_after(), None);
}

/// A borrower takes up the bound on what is unsettled of the organisation.
///
/// Guarantees then give back no more than the organisation does, or they would be used again and again at its expense.
// CLAIM: QuotaTree
#[test]
fn a_guarantee_gives_back_no_more_than_the_next_level() {
    let (tree, clock) = tree(Some(0.2));
    let (all, own) = (plan(Quota::per_second(100)), plan(Quota::per_second(10).burst(5)));
    let (borrower, greedy, modest) =
        ([(&1, [&Plan::NOTHING]), (&0, [&all])], [(&2, [&own]), (&0, [&all])], [(&3, [&own]), (&0, [&all])]);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(tree.reserve(&borrower, [80]).unwrap());
        clock.advance(Duration::from_secs(1));
    }
    while tree.check(&borrower, [1]).is_ok() {}
    tree.reserve(&greedy, [5]).unwrap().settle([0]);
    assert!(tree.reserve(&greedy, [5]).is_err(), "the guarantee was used");
    assert!(!tree.check(&modest, [5]).unwrap().is_borrowed());
}

/// A guarantee gets back its tokens even if the next level is full already.
///
/// A full bucket has all that it promised, so its guarantees may be full too.
#[test]
fn a_guarantee_gives_back_what_the_next_level_has_no_room_for() {
    let (tree, clock) = tree(Some(0.2));
    let (all, own) = (plan(Quota::per_second(100)), plan(Quota::per_hour(1).burst(5)));
    let path = [(&1, [&own]), (&0, [&all])];
    let call = tree.reserve(&path, [5]).unwrap();
    clock.advance(Duration::from_millis(30));
    call.settle([0]);
    assert_eq!(tree.peek(&path).map(|[usage]| usage.remaining()), [5, 100]);
}

/// So is a bucket that was forgotten: its key lost the slot when it owed nothing.
#[test]
fn a_guarantee_gives_back_what_the_next_level_has_forgotten() {
    for has_slot_again in [false, true] {
        let (tree, clock) = tree(Some(0.2));
        let (all, own) = (plan(Quota::per_second(100)), plan(Quota::per_hour(1).burst(5)));
        let path = [(&1, [&own]), (&0, [&all])];
        let call = tree.reserve(&path, [5]).unwrap();
        clock.advance(Duration::from_millis(50));
        // There are far more organisations than slots. One of them gets the slot.
        for other in 1..1_000 {
            _ = tree.check(&[(&2, [&Plan::UNLIMITED]), (&other, [&all])], [50]);
        }
        if has_slot_again {
            clock.advance(Duration::from_secs(1));
            tree.check(&[(&2, [&Plan::UNLIMITED]), (&0, [&all])], [1]).unwrap();
        }
        call.settle([0]);
        assert_eq!(tree.peek(&path)[0][0].remaining(), 5);
    }
}

/// A guarantee gets back nothing if the debt of the next level was converted.
///
/// That level keeps its debt.
#[test]
fn a_guarantee_gets_nothing_back_if_the_next_level_was_replanned() {
    let (tree, _) = tree(Some(0.2));
    let tagged = |quota, tag| plan(quota).tagged(NonZeroU8::new(tag).unwrap());
    let (old, new) = (tagged(Quota::per_hour(100), 1), tagged(Quota::per_hour(50), 2));
    let own = plan(Quota::per_hour(1).burst(5));
    let call = tree.reserve(&[(&1, [&own]), (&0, [&old])], [5]).unwrap();
    assert_eq!(tree.replan(1, &0, [&old], [&new]), [true]);
    call.settle([0]);
    assert_eq!(tree.peek(&[(&1, [&own]), (&0, [&new])]).map(|[usage]| usage.remaining()), [0, 45]);
}

/// A guarantee gets its tokens back even if the call borrowed past the guarantee of the next level.
///
/// The latter is as it was before the call.
#[test]
fn a_guarantee_of_a_guarantee_that_was_borrowed_past_gets_its_tokens_back() {
    let builder = QuotaTree::<u64, 3, 1>::builder(["user", "team", "organisation"], ["requests"]);
    let tree = builder.guarantees(0, 0.5).guarantees(1, 0.1).clock(ManualClock::new()).build().unwrap();
    let (own, all) = (plan(Quota::per_hour(5)), plan(Quota::per_hour(100)));
    let path = [(&1, [&own]), (&2, [&Plan::NOTHING]), (&3, [&all])];
    tree.reserve(&path, [5]).unwrap().settle([0]);
    assert_eq!(tree.peek(&path).map(|[usage]| usage.remaining()), [5, 0, 100]);
    // A level without a limit bounds nothing.
    let path = [(&4, [&own]), (&2, [&Plan::UNLIMITED]), (&3, [&all])];
    tree.reserve(&path, [5]).unwrap().settle([0]);
    assert_eq!(tree.peek(&path)[0][0].remaining(), 5);
}

/// A guarantee may be refilled while a call decides. No refusal then says that the call can never pass.
#[test]
fn a_guarantee_that_is_refilled_during_a_call_lets_it_pass() {
    #[derive(Default)]
    struct Stepping {
        now: AtomicU64,
        step: AtomicU64,
    }
    impl Clock for Stepping {
        fn now(&self) -> u64 {
            self.now.fetch_add(self.step.load(Relaxed), Relaxed)
        }
        fn frequency(&self) -> u64 {
            1_000
        }
    }
    let mut allowed = 0;
    for early in 0..20 {
        let clock = Arc::new(Stepping::default());
        let builder = QuotaTree::<u64, 2, 1>::builder(["team", "organisation"], ["requests"]).guarantees(0, 0.95);
        let tree = builder.clock(Arc::clone(&clock)).build().unwrap();
        let (own, all) = (plan(Quota::per_second(1).burst(10)), plan(Quota::per_second(100)));
        let path = [(&1, [&own]), (&0, [&all])];
        tree.check(&path, [8]).unwrap();
        // The guarantee has the tokens of another call after six seconds.
        clock.now.store(6_000 - early, Relaxed);
        clock.step.store(1, Relaxed);
        match tree.check(&path, [8]) {
            Ok(_) => allowed += 1,
            Err(denied) => assert!(denied.retry_after().is_some(), "{denied} {early} ticks too early"),
        }
    }
    assert!((1..20).contains(&allowed), "{allowed}");
}

/// A guarantee may lack tokens because of what other keys spent in a shared word.
///
/// The refusal then gives a wait.
#[test]
fn a_refusal_for_what_others_spent_says_when_to_retry() {
    let builder = QuotaTree::<u64, 2, 1>::builder(["team", "organisation"], ["requests"]).guarantees(0, 0.95);
    let tree = builder.capacities([4, 8_192]).clock(ManualClock::new()).build().unwrap();
    let (own, all) = (plan(Quota::per_hour(1).burst(10)), plan(Quota::per_second(100)));
    let mut refused = 0;
    for key in 0..1_000 {
        // Each team has an organisation of its own, whose bucket is full. But no team without its guarantee may use it.
        if let Err(denied) = tree.check(&[(&key, [&own]), (&key, [&all])], [8]) {
            refused += 1;
            assert!(denied.retry_after().is_some(), "{denied}");
        }
    }
    assert!(refused > 500, "{refused}");
}

/// A team may borrow of an organisation what a user may borrow of the team.
#[test]
fn guarantees_of_guarantees_agree_on_what_is_kept() {
    let clock = Arc::new(ManualClock::new());
    let builder = QuotaTree::<u64, 3, 1>::builder(["user", "team", "organisation"], ["requests"]);
    let tree = builder.guarantees(0, 0.5).guarantees(1, 0.5).clock(Arc::clone(&clock)).build().unwrap();
    let (team, all) = (plan(Quota::per_second(10).burst(10)), plan(Quota::per_second(1).burst(100)));
    for user in [Plan::NOTHING, plan(Quota::per_hour(1).burst(1))] {
        let path = [(&1, [&user]), (&2, [&team]), (&3, [&all])];
        let denied = std::iter::repeat_with(|| tree.check(&path, [1])).find_map(Result::err).unwrap();
        // The team has what it keeps, and a token more in a tenth of a second, with which the call is guaranteed.
        assert_eq!((denied.retry_after(), denied.is_contended()), (Some(Duration::from_millis(100)), false));
        clock.advance(Duration::from_millis(100));
        assert!(tree.check(&path, [1]).is_ok());
        clock.advance(Duration::from_secs(100));
    }
    // A team whose guarantee has no limit has all of its organisation.
    let path = [(&1, [&Plan::NOTHING]), (&4, [&Plan::UNLIMITED]), (&5, [&all])];
    assert_eq!((0..200).filter(|_| tree.check(&path, [1]).is_ok()).count(), 100);
}

#[test]
fn guarantees_need_a_next_level_and_a_part_of_its_burst() {
    let builder = || QuotaTree::<u64, 2, 1>::builder(["team", "organisation"], ["requests"]);
    for (level, kept, message) in [
        (1, 0.1, "levels is 2, it must be at least 3 (guarantees are of a next level)"),
        (usize::MAX, 0.1, "levels is 2, it must be at least 18446744073709551615 (guarantees are of a next level)"),
        (0, 1.5, "kept is 1.5, it must be 0.0 to 1.0"),
        (0, f64::NAN, "kept is NaN, it must be 0.0 to 1.0"),
    ] {
        assert_eq!(builder().guarantees(level, kept).build().unwrap_err().to_string(), message);
    }
}

/// The next act of a caller.
#[derive(Clone, Debug)]
enum Act {
    Pass(u64),
    Check { team: u64, n: u32 },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![(0..400u64).prop_map(Act::Pass), (0..3u64, 1..5u32).prop_map(|(team, n)| Act::Check { team, n }),]
}

proptest! {
    #![proptest_config(cases(200))]

    /// The tree does as two limiters that are asked one after another, and its waits are exact.
    // CLAIM: QuotaTree
    #[test]
    fn guarantees_do_as_the_model(kept in 0..=10u32, acts in prop::collection::vec(act(), 1..80)) {
        let (tree, clock) = tree(Some(f64::from(kept) / 20.0));
        let limiter = || -> KeyedLimiter<u64, _, Seed, ByPlan> {
            KeyedLimiter::<u64>::by_plan().clock(Arc::clone(&clock)).build().unwrap()
        };
        let (own, all) = (limiter(), limiter());
        let parent = plan(Quota::per_second(10).burst(20));
        let guarantees = [plan(Quota::per_second(2).burst(3)), plan(Quota::per_second(5).burst(4)), Plan::NOTHING];
        let fits = |team: u64, n: u32| {
            let has_guarantee = own.peek_with(&team, &guarantees[team as usize]).remaining() >= n;
            let left = all.peek_with(&0, &parent).remaining();
            (has_guarantee, left >= if has_guarantee { n } else { n + kept })
        };
        for act in acts {
            let (team, n) = match act {
                Act::Pass(time) => {
                    clock.advance(Duration::from_millis(time));
                    continue;
                }
                Act::Check { team, n } => (team, n),
            };
            let (has_guarantee, passes) = fits(team, n);
            match tree.check(&[(&team, [&guarantees[team as usize]]), (&0, [&parent])], [n]) {
                Ok(allowed) => {
                    prop_assert!(passes);
                    prop_assert_eq!(allowed.is_borrowed(), !has_guarantee);
                    if has_guarantee {
                        own.check_with(&team, &guarantees[team as usize], n).unwrap();
                    }
                    all.check_with(&0, &parent, n).unwrap();
                }
                Err(denied) => {
                    prop_assert!(!passes);
                    prop_assert_eq!(denied.level(), 1);
                    let wait = denied.retry_after().unwrap();
                    clock.advance(wait.saturating_sub(Duration::from_nanos(64)));
                    prop_assert!(!fits(team, n).1, "it would pass sooner");
                    clock.advance(Duration::from_nanos(64));
                    prop_assert!(fits(team, n).1, "it would not pass after the wait");
                }
            }
        }
    }
}

/// A small world: one parent word, and children with guarantees of one token each.
///
/// Each step of a call is one access to a word, so calls may stop between two of them. Time brings a token at any moment.
#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    parent: i8,
    children: Vec<u8>,
    calls: Vec<Step>,
    /// The tokens that time may still bring to the parent; each child gets one with every second of them.
    to_come: u8,
    served: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    Begins(u8),
    Guaranteed,
    Borrows,
    Done,
}

const BURST: u8 = 5;

/// The findings of a search.
#[derive(Debug, Default)]
struct Found {
    states: usize,
    /// The steps that refuse a guaranteed call.
    refused: usize,
    /// The most tokens that were served beyond the parent's envelope.
    beyond: u8,
}

/// A choice of rules under which calls take of the parent.
#[derive(Clone, Copy)]
struct Rules {
    /// The tokens that a call which borrows has to leave.
    kept: i8,
    /// A guaranteed call takes of an empty parent too, as in Linux's HTB.
    takes_of_an_empty_parent: bool,
}

/// Visits all states that the calls can reach.
fn explore(rules: Rules, children: u8, calls: &[u8], to_come: u8) -> Found {
    let first = World {
        parent: BURST.cast_signed(),
        children: vec![1; children.into()],
        calls: calls.iter().map(|&child| Step::Begins(child)).collect(),
        to_come,
        served: 0,
    };
    let (mut seen, mut open, mut found) = (HashSet::from([first.clone()]), vec![first], Found::default());
    while let Some(world) = open.pop() {
        found.beyond = found.beyond.max(world.served.saturating_sub(BURST + (to_come - world.to_come)));
        let mut next = Vec::new();
        if world.to_come > 0 {
            let mut later = world.clone();
            later.to_come -= 1;
            later.parent = (BURST.cast_signed()).min(later.parent + 1);
            if later.to_come % 2 == 0 {
                later.children.iter_mut().for_each(|child| *child = 1);
            }
            next.push(later);
        }
        for (index, &step) in world.calls.iter().enumerate() {
            let mut after = world.clone();
            after.calls[index] = match step {
                // A child beyond the last one has no guarantee.
                Step::Begins(child) => match after.children.get_mut(usize::from(child)) {
                    Some(tokens @ 1..) => {
                        *tokens -= 1;
                        Step::Guaranteed
                    }
                    _ => Step::Borrows,
                },
                Step::Guaranteed if world.parent <= 0 && !rules.takes_of_an_empty_parent => {
                    found.refused += 1;
                    Step::Done
                }
                Step::Borrows if world.parent < 1 + rules.kept => Step::Done,
                Step::Guaranteed | Step::Borrows => {
                    after.parent -= 1;
                    after.served += 1;
                    Step::Done
                }
                Step::Done => continue,
            };
            next.push(after);
        }
        open.extend(next.into_iter().filter(|world| seen.insert(world.clone())));
    }
    found.states = seen.len();
    found
}

const OURS: Rules = Rules { kept: 4, takes_of_an_empty_parent: false };

/// Two children with calls that may stop between the words, and three that borrow.
const CALLS: [u8; 7] = [0, 0, 1, 1, 9, 9, 9];

/// The parent keeps the sum of the guarantees' bursts and a token for each thread that may stop.
// CLAIM: QuotaTree
#[test]
fn no_guaranteed_call_is_refused_in_any_state() {
    let found = explore(OURS, 2, &CALLS, 2);
    println!("{found:?}");
    assert_eq!((found.refused, found.beyond), (0, 0));
}

#[test]
fn rules_of_guarantees_that_broke_are_found() {
    // A call stops between the words until its guarantee is refilled.
    let sum_of_bursts = Rules { kept: 2, ..OURS };
    assert!(explore(sum_of_bursts, 2, &CALLS, 2).refused > 0);
    assert_eq!(explore(sum_of_bursts, 2, &CALLS, 0).refused, 0);
    let as_in_linux = Rules { kept: 0, takes_of_an_empty_parent: true };
    let found = explore(as_in_linux, 2, &[0, 1, 9, 9, 9, 9, 9], 0);
    assert!(found.beyond > 0 && found.refused == 0, "the envelope of the parent: {found:?}");
}
