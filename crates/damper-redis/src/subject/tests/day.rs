//! A simulated day: the share of denied checks of ordinary callers beside a batch job.

use super::fleet::{Fleet, SECOND, Tally, Traffic, terms};
use crate::subject::Plan;
use std::time::Duration;

const HOUR: u64 = 3_600 * SECOND;

/// The traffic of ordinary callers: little at night, more by day, and at times ten checks at once.
fn ordinary(most_per_second: f64) -> Traffic {
    Box::new(move |chance, now| {
        let hour = (now / HOUR) as f64;
        let rate = most_per_second * (0.1 + 0.9 * (hour / 24.0 * std::f64::consts::PI).sin().max(0.0));
        if chance.below(20) == 0 { (10, chance.pause(rate)) } else { (1, chance.pause(rate)) }
    })
}

/// The traffic of a batch job: every three hours two minutes at five times the limit.
fn batch() -> Traffic {
    Box::new(|chance, now| if now % (3 * HOUR) < 120 * SECOND { (1, chance.pause(100.0)) } else { (0, SECOND) })
}

/// Simulates a day of four ordinary processes and a batch job.
///
/// Returns the tally of each process, and the tally of all ordinary processes while the job runs.
fn day(lease: Duration) -> (Vec<Tally>, Tally) {
    let terms = terms(20, 200);
    let mut traffic: Vec<Traffic> = (0..4).map(|_| ordinary(1.0)).collect();
    traffic.push(batch());
    let mut fleet = Fleet::with_plan(Plan::new(vec![terms], lease), terms, traffic).without_log();
    let (mut all, mut beside) = (vec![Tally::default(); 5], Tally::default());
    for start in (0..8).map(|part| part * 3 * HOUR) {
        for (end, is_beside) in [(start + 120 * SECOND, true), (start + 3 * HOUR, false)] {
            fleet.run_until(end);
            let tallies = fleet.tallies();
            for (all, tally) in all.iter_mut().zip(&tallies) {
                all.add(tally);
            }
            if is_beside {
                tallies[..4].iter().for_each(|tally| beside.add(tally));
            }
        }
    }
    (all, beside)
}

fn denied(tally: &Tally) -> f64 {
    (tally.denied + tally.overdue) as f64 / (tally.allowed + tally.denied + tally.overdue) as f64
}

/// Leases deny ordinary callers no more checks than if the server decides each check.
///
/// While the job runs they are denied less, because the job asks for tokens some 50 times a second, and not with each check.
#[test]
fn ordinary_callers_fare_as_with_a_decision_per_check() {
    let (leased, beside) = day(Duration::from_secs(1));
    let (per_check, beside_per_check) = day(Duration::ZERO);
    for (name, all, beside) in [("leasing", &leased, &beside), ("per check", &per_check, &beside_per_check)] {
        let mut ordinary = Tally::default();
        all[..4].iter().for_each(|tally| ordinary.add(tally));
        println!(
            "{name}: ordinary {:.5} denied, beside the job {:.4}; job {:?}",
            denied(&ordinary),
            denied(beside),
            all[4]
        );
        let elsewhere = ordinary.denied + ordinary.overdue - beside.denied - beside.overdue;
        assert!(elsewhere * 1_000 < ordinary.allowed, "{name}: {ordinary:?}, beside the job {beside:?}");
    }
    assert!(denied(&beside) <= denied(&beside_per_check) + 0.02, "{beside:?}, per check {beside_per_check:?}");
    assert!(leased[4].commands * 4 < per_check[4].commands, "the job leases: {:?} {:?}", leased[4], per_check[4]);
}
