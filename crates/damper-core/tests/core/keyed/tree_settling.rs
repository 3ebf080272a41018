//! How much of a rate trees use with estimates, and how much an adversary gains by them.

use crate::models::estimates::{BURST, Settled, excess, used};
use damper::time::Seed;
use damper::{ManualClock, Plan, Quota, QuotaTree, TreeReservation};
use std::sync::Arc;
use std::time::Duration;

type Tree = QuotaTree<u64, 1, 1, Arc<ManualClock>, Seed>;

fn tree(unsettled: f64, time_to_live: u64, clock: Arc<ManualClock>) -> Arc<Tree> {
    let builder = QuotaTree::<u64, 1, 1>::builder(["organisation"], ["tokens"]).capacities([64]).unsettled(unsettled);
    Arc::new(builder.time_to_live(Duration::from_secs(time_to_live)).clock(clock).build().unwrap())
}

/// The bucket of one organisation.
struct Organisation {
    tree: Arc<Tree>,
    plan: Plan,
}

impl Settled for Organisation {
    type Call = TreeReservation<Arc<Tree>>;

    fn new(unsettled: f64, time_to_live: u64, clock: Arc<ManualClock>) -> Self {
        Self { tree: tree(unsettled, time_to_live, clock), plan: Plan::new(Quota::per_minute(BURST)).unwrap() }
    }

    fn reserve(&self, n: u32) -> Option<Self::Call> {
        self.tree.reserve_owned(&[(&1, [&self.plan])], [n]).ok()
    }

    fn settle(call: Self::Call, used: u32) {
        call.settle([used]);
    }

    fn drain(&self) -> u32 {
        let path: [(&u64, [&Plan; 1]); 1] = [(&1, [&self.plan])];
        let mut taken = 0;
        loop {
            let left = self.tree.peek(&path)[0][0].remaining();
            if left == 0 || self.tree.check(&path, [left]).is_err() {
                return taken;
            }
            taken += left;
        }
    }
}

// CLAIM: QuotaTree
#[test]
fn an_adversary_gains_no_more_than_the_bound() {
    for (unsettled, held) in [(0.0, 60), (1.0, 60), (2.0, 60), (2.0, 110), (4.0, 110)] {
        let gained = excess::<Organisation>(unsettled, 120, held);
        assert!(gained <= unsettled, "{gained} bursts at a bound of {unsettled}");
    }
    // A reservation older than its time-to-live gives nothing back.
    assert!(excess::<Organisation>(4.0, 1, 60) <= 0.05, "{}", excess::<Organisation>(4.0, 1, 60));
}

/// Estimates are twice too high, and calls are short: the whole rate is used.
#[test]
fn good_estimates_use_the_whole_rate() {
    let shares: Vec<_> = [1.0, 2.0, 4.0].map(|unsettled| used::<Organisation>(unsettled, 1..=5, 2)).into();
    assert!(shares.iter().all(|&share| share > 0.97), "{shares:?}");
}

/// Estimates are ten times too high, and calls last up to a minute.
#[test]
fn bad_estimates_are_paid_for() {
    let shares = [0.0, 1.0, 2.0, 4.0].map(|unsettled| used::<Organisation>(unsettled, 5..=60, 10));
    assert!(shares.windows(2).all(|pair| pair[0] < pair[1]), "{shares:?}");
    println!("used of the rate at 0, 1, 2 and 4 bursts: {shares:.2?}");
    // At least what refusing beyond the bound uses, by the specification: 18, 37 and 68 %.
    assert!(shares[1] > 0.18 && shares[2] > 0.34 && shares[3] > 0.6, "{shares:?}");
}

/// A reservation that is leaked takes up the bound for two times-to-live at most.
#[test]
fn leaked_reservations_expire() {
    let clock = Arc::new(ManualClock::new());
    let tree = tree(1.0, 10, Arc::clone(&clock));
    let plan = Plan::new(Quota::per_minute(BURST)).unwrap();
    let path: [(&u64, [&Plan; 1]); 1] = [(&1, [&plan])];
    std::mem::forget(tree.reserve(&path, [BURST]).unwrap());
    clock.advance(Duration::from_secs(15));
    let call = tree.reserve(&path, [10_000]).unwrap();
    let before = tree.peek(&path)[0][0].remaining();
    call.settle([0]);
    assert_eq!(tree.peek(&path)[0][0].remaining(), before, "the bound is taken up");
    clock.advance(Duration::from_secs(15));
    let call = tree.reserve(&path, [10_000]).unwrap();
    let before = tree.peek(&path)[0][0].remaining();
    call.settle([0]);
    assert_eq!(tree.peek(&path)[0][0].remaining(), before + 10_000);
}
