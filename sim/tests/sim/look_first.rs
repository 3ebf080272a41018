//! Calls on several limits: how often one is refused for the tokens of a call that gives them back.

use damper_sim::look_first::{Cores, Decisions, Order};

const DECISIONS: u64 = 200_000;

/// Returns the decisions of both orders.
fn in_both_orders(cores: impl Fn(Order) -> Cores) -> [Decisions; 2] {
    [Order::TakenAtOnce, Order::LookFirst].map(|order| cores(order).run(DECISIONS))
}

/// At most 0.2 % of the decisions, and hardly a write of a refused call.
#[test]
fn look_first_is_rarely_spurious_while_all_cores_hammer() {
    for large in [0.1, 0.5] {
        for cores in [2, 4, 8, 16, 32] {
            let [_, look_first] = in_both_orders(|order| Cores { large, ..Cores::hammering(cores, order) });
            assert!(look_first.spurious_percent() <= 0.2, "{cores} cores, {large}: {look_first:?}");
            assert!(look_first.writes_per_refusal() <= 0.1, "{cores} cores, {large}: {look_first:?}");
        }
    }
    let [at_once, look_first] = in_both_orders(|order| Cores::hammering(32, order));
    assert!(at_once.spurious_percent() >= 1.0, "{at_once:?}");
    assert!(at_once.writes_per_refusal() >= 1.0, "{at_once:?}");
    assert!(look_first.spurious_percent() <= 0.01, "{look_first:?}");
}

/// At most 0.01 % of the decisions.
#[test]
fn look_first_is_hardly_ever_spurious_beside_other_work() {
    for large in [0.1, 0.5] {
        for cores in [2, 4, 8, 16, 32] {
            let [_, look_first] = in_both_orders(|order| Cores { large, ..Cores::working(cores, order) });
            assert!(look_first.spurious_percent() <= 0.01, "{cores} cores, {large}: {look_first:?}");
        }
    }
    let [at_once, look_first] = in_both_orders(|order| Cores::working(32, order));
    assert!(at_once.spurious_percent() >= 10.0 * look_first.spurious_percent(), "{at_once:?}, {look_first:?}");
}
