//! Refunds of calls that an overloaded server refused: what polite tenants get beside greedy ones.

use damper_sim::refunds::{Refund, Served, Tenants};

/// Returns the mean of three seeds.
fn served(greedy: u64, quota: u32, refund: Refund) -> Served {
    let runs = [1, 2, 3].map(|seed| Tenants { refund, seed, ..Tenants::twenty(greedy, quota) }.served());
    let mean = |of: fn(&Served) -> f64| runs.iter().map(of).sum::<f64>() / 3.0;
    Served {
        polite: mean(|run| run.polite),
        polite_after: mean(|run| run.polite_after),
        greedy_to_polite: mean(|run| run.greedy_to_polite),
        calls_per_served: mean(|run| run.calls_per_served),
    }
}

/// Polite tenants call 10 times a second, and more as they retry.
#[test]
fn refund_of_every_second_token_costs_polite_tenants_little() {
    for (greedy, quota, gain) in [(0, 12, 0.01), (2, 12, 0.01), (0, 20, -0.01), (2, 20, -0.01)] {
        let (off, half) = (served(greedy, quota, Refund::Off), served(greedy, quota, Refund::Half));
        assert!(half.polite >= off.polite + gain, "{half:?}, without refunds {off:?}");
        assert!(half.greedy_to_polite <= 1.25, "{half:?}");
        assert!(half.calls_per_served <= 2.0 * off.calls_per_served, "at most twice the calls: {half:?}, {off:?}");
    }
}

/// The rule that is not offered: nothing bounds what a greedy tenant sends.
#[test]
fn refund_of_all_tokens_starves_polite_tenants() {
    let (off, full) = (served(2, 20, Refund::Off), served(2, 20, Refund::Full));
    assert!(full.polite < 0.75 * off.polite, "{full:?}, without refunds {off:?}");
    assert!(full.greedy_to_polite > 4.0, "{full:?}");
}
