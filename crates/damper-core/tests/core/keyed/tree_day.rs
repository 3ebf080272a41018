//! Simulates a day of organisations in which one user asks for three times what there is.
//!
//! The others ask for half of it on average, and for nine tenths at noon, which is more than the guarantees of two users
//! beside the greedy one. The guide's page on trees has the figures.

#![expect(clippy::cast_precision_loss, reason = "the shares have room for it")]

use crate::models::part_of::part_of;
use damper::time::Seed;
use damper::{ManualClock, Plan, Quota, QuotaTree};
use std::sync::Arc;
use std::time::Duration;

const GREEDY: u64 = 0;
/// The burst of the organisation.
const BURST: u32 = 60;

type Tree = QuotaTree<u64, 2, 1, Arc<ManualClock>, Seed>;

/// The served parts of the calls of innocents and of the worst of them, and of the organisation's rate.
///
/// The rate is that beside its burst.
#[derive(Debug)]
struct Day {
    innocents: f64,
    worst: f64,
    used: f64,
}

/// Simulates an organisation of this many users with a call a second, each with the same guarantee.
fn day(users: u64, guarantee: Option<Plan>) -> Day {
    let clock = Arc::new(ManualClock::new());
    let tree: Tree = QuotaTree::<u64, 2, 1>::builder(["user", "organisation"], ["calls"])
        .capacities([1_024, 16])
        .guarantees(0, 0.5)
        .clock(Arc::clone(&clock))
        .build()
        .unwrap();
    let all = Plan::new(Quota::per_second(1).burst(BURST)).unwrap();
    let own = guarantee.unwrap_or(Plan::NOTHING);
    let innocents = usize::try_from(users - 1).unwrap();
    let (mut asked, mut served) = (vec![0u32; innocents], vec![0u32; innocents]);
    let (mut total, mut random) = (0u32, 7u64);
    let mut chance = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    // Without guarantees nothing is kept: that is what a level without a key of its own comes to.
    let call = |tree: &Tree, user: u64| match guarantee {
        Some(_) => tree.check(&[(&user, [&own]), (&1, [&all])], [1]).is_ok(),
        None => tree.check(&[(&user, [&Plan::UNLIMITED]), (&1, [&all])], [1]).is_ok(),
    };
    // A shorter day has the same hours.
    let seconds = part_of(86_400);
    for second in 0..seconds {
        // From 0.1 at night to 0.9 at noon, 0.5 on average; the chance is in thousandths of a call in a third of a second.
        let noon = 1.0 - (f64::from(second) / f64::from(seconds) * 2.0 - 1.0).abs();
        let busy = (0.1 + 0.8 * noon) * 1_000.0 / 3.0;
        for _ in 0..3 {
            clock.advance(Duration::from_nanos(333_333_333));
            // Either may be the first of the two.
            let is_late = chance() % 2 == 0;
            total += u32::from(!is_late && call(&tree, GREEDY));
            if ((chance() % 1_000) as f64) < busy {
                let user = chance() % (users - 1);
                asked[user as usize] += 1;
                if call(&tree, 1 + user) {
                    served[user as usize] += 1;
                    total += 1;
                }
            }
            total += u32::from(is_late && call(&tree, GREEDY));
        }
    }
    let shares = asked.iter().zip(&served).map(|(&asked, &served)| f64::from(served) / f64::from(asked));
    Day {
        innocents: f64::from(served.iter().sum::<u32>()) / f64::from(asked.iter().sum::<u32>()),
        worst: shares.fold(1.0, f64::min),
        used: f64::from(total - BURST) / f64::from(seconds),
    }
}

#[test]
fn innocents_of_a_day_are_served_within_their_guarantees() {
    for (users, at_least) in [(3, 0.85), (30, 0.95), (300, 0.9)] {
        let guarantee = Plan::new(Quota::per_hour(3_600 / u32::try_from(users).unwrap()).burst(4)).unwrap();
        let (first_come, guaranteed) = (day(users, None), day(users, Some(guarantee)));
        println!("{users} users: first come {first_come:.3?}, guaranteed {guaranteed:.3?}");
        assert!(first_come.innocents < 0.5, "{first_come:?}");
        assert!(guaranteed.innocents > at_least && guaranteed.worst > 0.8, "{guaranteed:?}");
        assert!(
            guaranteed.used > 0.99 && guaranteed.used < 1.001,
            "what is guaranteed and not used is others': {guaranteed:?}"
        );
    }
}
