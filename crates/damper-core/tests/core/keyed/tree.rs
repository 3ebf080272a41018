//! Trees of limits, compared with one limiter by plan for each level and dimension.

use crate::models::cases::cases;
use damper::keyed::{TreeAllowed, WhenFull};
use damper::limit::ByPlan;
use damper::time::Seed;
use damper::{KeyedLimiter, ManualClock, Plan, Quota, QuotaTree, TreeDenied, TreeReservation, Usage};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

type Tree = QuotaTree<u64, 2, 2, Arc<ManualClock>, Seed>;
type Bucket = KeyedLimiter<u64, Arc<ManualClock>, Seed, ByPlan>;

fn plan(quota: Quota) -> Plan {
    Plan::new(quota).unwrap()
}

fn tree(clock: &Arc<ManualClock>) -> Tree {
    let builder = QuotaTree::<u64, 2, 2>::builder(["user", "organisation"], ["requests", "tokens"]);
    builder.capacities([64, 16]).clock(Arc::clone(clock)).build().unwrap()
}

/// The next act of a caller; keys and plans are chosen by number.
#[derive(Clone, Debug)]
enum Act {
    Pass(u64),
    Check([u64; 2], usize, [u32; 2]),
    Reserve([u64; 2], usize, [u32; 2]),
    Settle(usize, [u32; 2]),
    Drop(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let path = || ([0..3u64, 0..2u64], 0..3usize, [0..4u32, 0..40u32]);
    prop_oneof![
        2 => (0..2_000u64).prop_map(Act::Pass),
        3 => path().prop_map(|(keys, plans, costs)| Act::Check(keys, plans, costs)),
        3 => path().prop_map(|(keys, plans, costs)| Act::Reserve(keys, plans, costs)),
        2 => (any::<usize>(), [0..5u32, 0..60u32]).prop_map(|(which, used)| Act::Settle(which, used)),
        1 => any::<usize>().prop_map(Act::Drop),
    ]
}

/// The plans of a user and an organisation, for both dimensions.
fn plans() -> [[[Plan; 2]; 2]; 3] {
    let per_minute = |requests, tokens| [plan(Quota::per_minute(requests)), plan(Quota::per_minute(tokens))];
    [
        [per_minute(6, 60), per_minute(10, 90)],
        [per_minute(12, 30), per_minute(10, 90)],
        [[Plan::UNLIMITED, plan(Quota::per_second(3).burst(20))], [plan(Quota::per_hour(30)), Plan::UNLIMITED]],
    ]
}

/// Four limiters that know nothing of one another.
struct Model {
    buckets: [[Bucket; 2]; 2],
    plans: [[[Plan; 2]; 2]; 3],
}

impl Model {
    fn new(clock: &Arc<ManualClock>) -> Self {
        let bucket = || KeyedLimiter::<u64>::by_plan().capacity(64).clock(Arc::clone(clock)).build().unwrap();
        Self { buckets: [[bucket(), bucket()], [bucket(), bucket()]], plans: plans() }
    }

    fn path(&self, keys: [u64; 2], plans: usize) -> [(u64, &[Plan; 2]); 2] {
        let [user, organisation] = &self.plans[plans];
        [(keys[0], user), (keys[1], organisation)]
    }

    /// Returns the refusals, each with its place, its wait and whether it is final.
    fn refusals(&self, keys: [u64; 2], plans: usize, costs: [u32; 2]) -> Vec<((usize, usize), bool, Option<Duration>)> {
        let mut refusals = Vec::new();
        for (level, (key, plans)) in self.path(keys, plans).into_iter().enumerate() {
            for (dimension, (plan, &n)) in plans.iter().zip(&costs).enumerate() {
                let bucket = &self.buckets[level][dimension];
                let usage = bucket.peek_with(&key, plan);
                if n > 0 && (usage.remaining() < n || usage.debt() > 0) {
                    let denied = bucket.check_with(&key, plan, n).expect_err("too few are left");
                    refusals.push(((level, dimension), denied.exceeds_burst(), denied.retry_after()));
                }
            }
        }
        refusals
    }

    fn take(&self, keys: [u64; 2], plans: usize, costs: [u32; 2]) {
        for (level, (key, plans)) in self.path(keys, plans).into_iter().enumerate() {
            for ((bucket, plan), n) in self.buckets[level].iter().zip(plans).zip(costs) {
                bucket.check_with(&key, plan, n).expect("they are left");
            }
        }
    }

    fn assert_usages(&self, usages: &[[Usage; 2]; 2], keys: [u64; 2], plans: usize) {
        for (level, (key, plans)) in self.path(keys, plans).into_iter().enumerate() {
            for (dimension, plan) in plans.iter().enumerate() {
                let expected = self.buckets[level][dimension].peek_with(&key, plan);
                assert_eq!(usages[level][dimension], expected, "level {level}, dimension {dimension}");
            }
        }
    }

    fn settle(&self, keys: [u64; 2], plans: usize, costs: [u32; 2], used: [u32; 2]) {
        for (level, (key, plans)) in self.path(keys, plans).into_iter().enumerate() {
            for (dimension, plan) in plans.iter().enumerate() {
                let bucket = &self.buckets[level][dimension];
                match costs[dimension].checked_sub(used[dimension]) {
                    Some(unused) => _ = bucket.refund_with(&key, plan, unused),
                    None => _ = bucket.charge_with(&key, plan, used[dimension] - costs[dimension]),
                }
            }
        }
    }
}

fn assert_denied(denied: &TreeDenied, refusals: &[((usize, usize), bool, Option<Duration>)]) {
    let rank = |&(_, is_final, wait): &(_, bool, Option<Duration>)| (is_final, wait.is_none(), wait);
    let longest = refusals.iter().map(rank).max().expect("the model refuses too");
    let first = refusals.iter().find(|refusal| rank(refusal) == longest).expect("it is one of them");
    assert_eq!(((denied.level(), denied.dimension()), denied.retry_after()), (first.0, first.2), "{denied}");
    assert!(!denied.is_contended());
}

fn compare(acts: Vec<Act>) {
    let clock = Arc::new(ManualClock::new());
    let (tree, model) = (Arc::new(tree(&clock)), Model::new(&clock));
    let mut calls: Vec<(TreeReservation<Arc<Tree>>, [u64; 2], usize)> = Vec::new();
    for act in acts {
        let path = |keys: &[u64; 2], plans: usize| {
            let [user, organisation] = &model.plans[plans];
            (*keys, [[&user[0], &user[1]], [&organisation[0], &organisation[1]]])
        };
        match act {
            Act::Pass(millis) => clock.advance(Duration::from_millis(millis)),
            Act::Check(keys, plans, costs) | Act::Reserve(keys, plans, costs) => {
                let refusals = model.refusals(keys, plans, costs);
                let ([user, organisation], [of_user, of_organisation]) = path(&keys, plans);
                let path = [(&user, of_user), (&organisation, of_organisation)];
                let answer = if matches!(act, Act::Check(..)) {
                    tree.check(&path, costs).map(drop)
                } else {
                    tree.reserve_owned(&path, costs).map(|call| calls.push((call, keys, plans)))
                };
                match answer {
                    Ok(()) => {
                        assert_eq!(refusals, [], "allowed");
                        model.take(keys, plans, costs);
                    }
                    Err(denied) => assert_denied(&denied, &refusals),
                }
                model.assert_usages(&tree.peek(&path), keys, plans);
            }
            Act::Settle(which, used) if !calls.is_empty() => {
                let (call, keys, plans) = calls.swap_remove(which % calls.len());
                let costs = call.costs();
                call.settle(used);
                model.settle(keys, plans, costs, used);
                let ([first, second], [of_first, of_second]) = path(&keys, plans);
                let path = [(&first, of_first), (&second, of_second)];
                model.assert_usages(&tree.peek(&path), keys, plans);
            }
            Act::Drop(which) if !calls.is_empty() => _ = calls.swap_remove(which % calls.len()),
            Act::Settle(..) | Act::Drop(_) => {}
        }
        // Few enough, and settled soon enough, that none of them is beyond the bound on what is unsettled.
        if calls.len() > 1 {
            let (call, keys, plans) = calls.remove(0);
            let costs = call.costs();
            call.settle(costs);
            model.settle(keys, plans, costs, costs);
        }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_tree_decides_as_its_words_do_together(acts in proptest::collection::vec(act(), 1..60)) {
        compare(acts);
    }
}

#[test]
fn the_tightest_limit_is_told() {
    let clock = Arc::new(ManualClock::new());
    let tree = tree(&clock);
    let (wide, narrow, none) = (plan(Quota::per_minute(100)), plan(Quota::per_minute(10)), Plan::UNLIMITED);
    let allowed = tree.check(&[(&1, [&wide, &none]), (&2, [&narrow, &wide])], [1, 10]).unwrap();
    // 9 of 10 in the one, 90 of 100 in the other: the first of equals.
    assert_eq!((allowed.level(), allowed.dimension()), (1, 0));
    assert_eq!(allowed.allowed().unwrap().remaining(), 9);
    let free: TreeAllowed = tree.check(&[(&1, [&none; 2]), (&2, [&none; 2])], [1, 10]).unwrap();
    assert_eq!(free.allowed(), None);
}

#[test]
fn a_refusal_takes_nothing_and_names_its_words() {
    let clock = Arc::new(ManualClock::new());
    let tree = tree(&clock);
    let (wide, narrow) = (plan(Quota::per_minute(100)), plan(Quota::per_minute(10)));
    let path = [(&1, [&wide, &wide]), (&2, [&wide, &narrow])];
    let denied = tree.check(&path, [1, 11]).unwrap_err();
    assert_eq!((denied.level_name(), denied.dimension_name()), ("organisation", "tokens"));
    assert_eq!((denied.quota(), denied.retry_after()), (Quota::per_minute(10), None));
    assert_eq!(
        denied.to_string(),
        "tokens of this organisation (10/min burst 10): rate limit exceeded: more tokens asked for than the burst"
    );
    assert!(tree.peek(&path).iter().flatten().all(|usage| usage.used() == 0));
}

#[test]
fn plans_of_a_level_are_converted() {
    let clock = Arc::new(ManualClock::new());
    let tree = tree(&clock);
    let (daily, fast) =
        (plan(Quota::every(Duration::from_secs(86_400)).unwrap().burst(10)), plan(Quota::per_second(10)));
    let none = Plan::UNLIMITED;
    tree.check(&[(&1, [&daily, &none]), (&2, [&none; 2])], [4, 0]).unwrap();
    assert_eq!(tree.replan(0, &1, [&daily, &none], [&fast, &none]), [true, false]);
    assert_eq!(tree.replan(0, &1, [&daily, &none], [&fast, &none]), [false, false]);
    assert_eq!(tree.replan(7, &1, [&daily, &none], [&fast, &none]), [false, false]);
    assert_eq!(tree.peek(&[(&1, [&fast, &none]), (&2, [&none; 2])])[0][0].used(), 4);
}

#[test]
fn settings_out_of_range_are_named() {
    let builder = || QuotaTree::<str, 1, 1>::builder(["user"], ["requests"]);
    let message = |error: damper::OutOfRange| error.to_string();
    assert_eq!(
        message(builder().unsettled(-1.0).build().unwrap_err()),
        "unsettled is -1.0, it must be 0.0 to 255.0 (bursts)"
    );
    assert_eq!(
        message(builder().time_to_live(Duration::ZERO).build().unwrap_err()),
        "time_to_live is 0 ns, it must be 1 ms to 30 days"
    );
    assert_eq!(builder().capacities([0]).build().unwrap_err().setting(), "capacity");
}

/// Threads that hammer a shared level: no word allows more than its plan, and nothing is lost.
#[test]
fn threads_stay_in_the_envelope_of_every_word() {
    let tree = QuotaTree::<u64, 2, 1>::builder(["user", "organisation"], ["requests"]).build().unwrap();
    let (user, all) = (plan(Quota::per_minute(1_000)), plan(Quota::per_minute(1_500)));
    let admitted: Vec<u32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|id| {
                let (tree, user, all) = (&tree, &user, &all);
                scope.spawn(move || {
                    let path = [(&id, [user]), (&9, [all])];
                    (0..3_000).map(|_| u32::from(tree.check(&path, [1]).is_ok())).sum()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(admitted.iter().all(|&each| each <= 1_030));
    let sum: u32 = admitted.iter().sum();
    // A few of the minute's tokens come meanwhile. A contended call may leave a token for the next one.
    assert!((1_490..=1_600).contains(&sum), "{sum}");
}

/// An estimate of 0 is settled to what was used, in a tree as in a set of limits.
#[test]
fn a_cost_of_zero_is_settled_to_what_was_used() {
    let clock = Arc::new(ManualClock::new());
    let tree = tree(&clock);
    let (requests, tokens) = (plan(Quota::per_minute(60)), plan(Quota::per_minute(1_000)));
    let path = [(&1, [&requests, &tokens]), (&2, [&Plan::UNLIMITED, &tokens])];
    tree.reserve(&path, [1, 0]).unwrap().settle([1, 500]);
    assert_eq!(tree.peek(&path).map(|level| level.map(|usage| usage.used())), [[1, 500], [0, 500]]);
}

/// After the debt of a key was converted, its tokens last another time.
#[test]
fn a_reservation_under_an_earlier_plan_gives_nothing_back() {
    let clock = Arc::new(ManualClock::new());
    let tree = tree(&clock);
    let (free, pro) = (plan(Quota::per_minute(60)), plan(Quota::per_minute(600)));
    let none = Plan::UNLIMITED;
    let path = |of| [(&1, [of, &none]), (&2, [&none, &none])];
    let call = tree.reserve(&path(&free), [60, 1]).unwrap();
    assert_eq!(tree.replan(0, &1, [&free, &none], [&pro, &none]), [true, false]);
    tree.check(&path(&pro), [540, 1]).unwrap();
    call.settle([0, 0]);
    assert_eq!(tree.peek(&path(&pro))[0][0].remaining(), 0);
}

/// A newcomer that finds no slot is refused in one thread: no other call was faster.
#[test]
fn a_newcomer_without_a_slot_is_not_contended() {
    let builder = QuotaTree::<u64, 2, 1>::builder(["user", "organisation"], ["requests"]).capacities([64, 1]);
    let tree = builder.when_full(WhenFull::DenyNew).clock(ManualClock::new()).build().unwrap();
    let plan = plan(Quota::per_minute(60));
    let denied = (0..64).find_map(|key| tree.check(&[(&key, [&plan]), (&key, [&plan])], [1]).err()).unwrap();
    assert_eq!((denied.level(), denied.is_contended()), (1, false));
}

/// A settlement charges a bucket without a slot too, whatever the table does when it is full.
#[test]
fn an_excess_is_booked_in_a_bucket_without_a_slot() {
    for when_full in [WhenFull::SharedOverflow, WhenFull::DenyNew, WhenFull::EvictLeastIndebted] {
        let builder = QuotaTree::<u64, 1, 2>::builder(["user"], ["requests", "tokens"]).capacities([64]);
        let tree = builder.when_full(when_full).clock(ManualClock::new()).build().unwrap();
        let plan = plan(Quota::per_minute(1_000));
        let path = [(&1, [&plan, &plan])];
        tree.reserve(&path, [1, 0]).unwrap().settle([1, 700]);
        assert_eq!(tree.peek(&path)[0].map(|usage| usage.used()), [1, 700], "{when_full:?}");
        assert!(tree.check(&path, [0, 301]).is_err());
    }
}

/// Every hash has a bucket for each dimension.
///
/// That includes the hash 0, for which the table takes another number.
#[test]
fn the_dimensions_of_any_hash_are_separate() {
    struct Zero;
    impl std::hash::Hasher for Zero {
        fn write(&mut self, _: &[u8]) {}
        fn finish(&self) -> u64 {
            0
        }
    }
    #[derive(Clone, Copy)]
    struct ToZero;
    impl std::hash::BuildHasher for ToZero {
        type Hasher = Zero;
        fn build_hasher(&self) -> Zero {
            Zero
        }
    }
    let builder = QuotaTree::<u64, 1, 3>::builder(["user"], ["requests", "tokens", "bytes"]);
    let tree = builder.clock(ManualClock::new()).hasher(ToZero).build().unwrap();
    let plan = plan(Quota::per_hour(10));
    let path = [(&1, [&plan, &plan, &plan])];
    tree.check(&path, [3, 0, 5]).unwrap();
    assert_eq!(tree.peek(&path)[0].map(|usage| usage.used()), [3, 0, 5]);
}

#[test]
fn levels_say_how_full_they_are() {
    let tree = tree(&Arc::default());
    let (plan, none) = (plan(Quota::per_hour(10)), Plan::UNLIMITED);
    tree.check(&[(&1, [&plan, &plan]), (&9, [&plan, &none])], [1, 1]).unwrap();
    assert_eq!((tree.keys(), tree.capacities()), ([2, 1], [128, 32]));
    assert_eq!((tree.evictions(), tree.overflows(), tree.refused_newcomers()), ([0; 2], [0; 2], [0; 2]));
    (2..2_000).for_each(|user| _ = tree.check(&[(&user, [&plan, &none]), (&9, [&none; 2])], [1, 1]));
    let [users, organisations] = tree.overflows();
    assert!(users > 1_000 && organisations == 0, "{users} and {organisations}");
    let [users, organisations] = tree.crowding();
    assert!(users.looked() > 1_000 && organisations.looked() <= 1, "{users:?} and {organisations:?}");
}

/// Only hashes are kept, so two users of one hash share a limit.
#[test]
fn keys_of_a_tree_are_told_apart_by_its_hasher() {
    struct Modulo(u64);
    impl std::hash::Hasher for Modulo {
        fn write(&mut self, bytes: &[u8]) {
            self.0 = bytes.iter().fold(self.0, |sum, byte| sum + u64::from(*byte));
        }
        fn finish(&self) -> u64 {
            self.0 % 10
        }
    }
    #[derive(Clone, Copy)]
    struct ByModulo;
    impl std::hash::BuildHasher for ByModulo {
        type Hasher = Modulo;
        fn build_hasher(&self) -> Modulo {
            Modulo(0)
        }
    }
    let tree = QuotaTree::<u64, 1, 1>::builder(["user"], ["requests"])
        .clock(ManualClock::new())
        .hasher(ByModulo)
        .build()
        .unwrap();
    let one = plan(Quota::per_hour(1));
    let is_allowed = |user: u64| tree.check(&[(&user, [&one])], [1]).is_ok();
    assert!(is_allowed(3) && is_allowed(4));
    assert!(!is_allowed(13), "13 has the hash of 3");
}
