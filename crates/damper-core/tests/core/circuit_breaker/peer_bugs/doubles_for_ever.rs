//! The cooldown is doubled first and capped afterwards.

use crate::circuit_breaker::peer_bugs::Cooling;

pub(crate) struct DoublesForEver {
    failed: u32,
}

impl Cooling for DoublesForEver {
    fn new() -> Self {
        Self { failed: 0 }
    }

    fn fail(&mut self) -> u64 {
        let doubled = 2u64.checked_pow(self.failed).and_then(|times| times.checked_mul(1_000));
        self.failed += 1;
        doubled.expect("the doubled cooldown overflows").min(3_600_000)
    }
}
