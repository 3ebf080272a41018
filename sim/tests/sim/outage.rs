//! Breakers that return to a service with half of its capacity, at once or by a ramp.

use damper::Ramp;
use damper_sim::outage::Fleet;
use std::time::Duration;

const HALF_A_MINUTE: Ramp = Ramp::linear(Duration::from_secs(30));

/// This is why the ramp is off by default.
#[test]
fn ramp_avoids_a_second_collapse_and_costs_goodput() {
    for hostile in [0, 20] {
        let (without, with) = (Fleet::two_hundred(hostile, None), Fleet::two_hundred(hostile, Some(HALF_A_MINUTE)));
        let (without, with) = (without.returns(), with.returns());
        assert!(without.openings > 0.9 && with.openings < 0.1, "{without:?}, {with:?}");
        assert!(with.goodput < without.goodput && with.goodput > without.goodput - 0.03, "{without:?}, {with:?}");
        assert!(with.full_after < without.full_after + 20.0, "{without:?}, {with:?}");
        assert!(with.wasted < without.wasted, "{without:?}, {with:?}");
    }
}

/// A service that takes three minutes to warm up is overloaded again after the ramp, but seldom.
#[test]
fn short_ramp_before_a_long_warm_up_costs_nothing() {
    let fleet = |ramp| Fleet { warm_up: Duration::from_secs(180), ..Fleet::two_hundred(0, ramp) }.returns();
    let (without, with) = (fleet(None), fleet(Some(HALF_A_MINUTE)));
    assert!(with.openings < 0.5 * without.openings, "{without:?}, {with:?}");
    assert!(with.goodput > without.goodput - 0.02, "{without:?}, {with:?}");
}
