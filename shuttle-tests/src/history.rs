//! The events of a history, as the threads that made them know them.

use damper_core::Quota;
use std::sync::Mutex;

const SECOND: u128 = 1_000_000_000;

/// A call between two readings of the clock.
#[derive(Clone, Copy, Debug)]
struct Call {
    key: u64,
    between: [u64; 2],
    tokens: u32,
}

#[derive(Clone, Debug, Default)]
struct Calls {
    admitted: Vec<Call>,
    /// The refunds to every key, because a slot may belong to another key by now.
    returned: Vec<Call>,
    /// Other quotas, from some moment in the call on.
    changes: Vec<([u64; 2], Quota)>,
}

/// The admissions, with their times and quotas.
///
/// Its lock is held for no step of a model, so it adds none.
#[derive(Debug)]
pub struct History {
    first: Quota,
    calls: Mutex<Calls>,
}

impl History {
    pub fn new(quota: Quota) -> Self {
        Self { first: quota, calls: Mutex::default() }
    }

    pub fn admitted(&self, key: u64, between: [u64; 2], tokens: u32) {
        self.calls.lock().unwrap().admitted.push(Call { key, between, tokens });
    }

    pub fn returned(&self, between: [u64; 2], tokens: u32) {
        self.calls.lock().unwrap().returned.push(Call { key: 0, between, tokens });
    }

    pub fn changed(&self, between: [u64; 2], quota: Quota) {
        self.calls.lock().unwrap().changes.push((between, quota));
    }

    pub fn taken(&self, key: u64) -> u32 {
        self.calls.lock().unwrap().admitted.iter().filter(|call| call.key == key).map(|call| call.tokens).sum()
    }

    /// The envelope of a key holds in any interval of readings.
    ///
    /// The admissions of calls within it are no more than the burst, the tokens of the interval and one tick, and the
    /// refunds meanwhile. Where the quota changed, it is the larger burst and the faster rate, and an interval that
    /// cuts the change is widened to it.
    ///
    /// # Panics
    ///
    /// If it is more.
    pub fn keeps_to_the_envelope(&self) {
        let calls = self.calls.lock().unwrap().clone();
        for first in &calls.admitted {
            for last in &calls.admitted {
                let (from, to) = (first.between[0], last.between[1]);
                let within = |call: &&Call| call.key == first.key && call.between[0] >= from && call.between[1] <= to;
                let admitted: u32 = calls.admitted.iter().filter(within).map(|call| call.tokens).sum();
                let meanwhile = |call: &&Call| call.between[1] >= from && call.between[0] <= to;
                let returned: u32 = calls.returned.iter().filter(meanwhile).map(|call| call.tokens).sum();
                let (quotas, [from, to]) = calls.quotas(self.first, from, to);
                let burst = quotas.iter().map(Quota::burst_size).max().unwrap_or(0);
                let rate = quotas.iter().map(|quota| u128::from(quota.limit())).max().unwrap_or(0);
                let produced = u128::from(to.saturating_sub(from) + 1) * rate;
                assert!(
                    u128::from(admitted) * SECOND <= u128::from(burst + returned) * SECOND + produced,
                    "out of the envelope: {admitted} of key {} from {from} to {to}, of a burst of {burst} at {rate}/s: {calls:?}",
                    first.key,
                );
            }
        }
    }
}

impl Calls {
    /// The quotas that may have been in force in an interval, each for a second.
    ///
    /// The interval is widened to their changes.
    fn quotas(&self, first: Quota, from: u64, to: u64) -> (Vec<Quota>, [u64; 2]) {
        let mut quotas = vec![first];
        let mut widened = [from, to];
        // In the order of the changes: one thread makes them all.
        for &([begun, done], quota) in &self.changes {
            if done < from {
                quotas = vec![quota];
            } else if begun <= to {
                quotas.push(quota);
                widened = [widened[0].min(begun), widened[1].max(done)];
            }
        }
        (quotas, widened)
    }
}
