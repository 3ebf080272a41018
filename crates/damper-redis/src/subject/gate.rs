//! Until when checks are denied without asking.

use core::sync::atomic::{AtomicU64, Ordering};

/// The time before which no check of a cost, or of a greater one, can be allowed.
///
/// One word: the time above, the cost below.
///
/// ```text
///  63  20 19   0
/// | UNTIL | COST |
/// ```
///
/// | field | bits | unit | |
/// |---|---|---|---|
/// | COST | 20 | tokens | the smallest cost that is denied; 0: the gate is open |
/// | UNTIL | 44 | µs | of the clock; wraps after half a year. A time more than 2^43 µs (a hundred days) ahead has passed |
///
/// Tokens may be given back elsewhere, or the limit may be reset. So after a while a check is let through all the same, and what the
/// server says of it counts.
#[derive(Debug)]
pub(super) struct Gate {
    word: AtomicU64,
    /// When the next check is let through, in µs of the clock.
    ask_at: AtomicU64,
}

const COST_BITS: u32 = 20;
const UNTIL_BITS: u32 = u64::BITS - COST_BITS;
const MOST_COST: u64 = (1 << COST_BITS) - 1;
/// How long checks are denied without a command, in µs.
pub(super) const LONGEST_SILENCE: u64 = 5_000_000;

/// The longest time that the gate is closed, in µs.
const LONGEST: u64 = (1 << (UNTIL_BITS - 1)) - 1;

impl Gate {
    pub(super) const fn open() -> Self {
        Self { word: AtomicU64::new(0), ask_at: AtomicU64::new(0) }
    }

    /// Returns how many µs a check of `n` tokens still has to wait at the time `now`, if it is denied.
    ///
    /// None if it is time for one check to ask: for the first that comes.
    pub(super) fn wait(&self, n: u32, now: u64) -> Option<u64> {
        let wait = self.closed_for(n, now)?;
        // ORDERING: Relaxed, as in `closed_for`. One thread's swap succeeds.
        let ask_at = self.ask_at.load(Ordering::Relaxed);
        let next = now.saturating_add(LONGEST_SILENCE);
        let asks =
            now >= ask_at && self.ask_at.compare_exchange(ask_at, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        (!asks).then_some(wait)
    }

    /// Returns for how many µs after `now` no check of `n` tokens can be allowed, as far as is known.
    pub(super) fn closed_for(&self, n: u32, now: u64) -> Option<u64> {
        // ORDERING: Relaxed here and in all methods. The word is all there is of the gate, and publishes nothing. A check that
        // finds an older one is denied or asks as it would have just before.
        let word = self.word.load(Ordering::Relaxed);
        let cost = word & MOST_COST;
        if cost == 0 || u64::from(n) < cost {
            return None;
        }
        // The difference of two times that wrap after `UNTIL_BITS`.
        let wait = (word >> COST_BITS).wrapping_sub(now) & (u64::MAX >> COST_BITS);
        (1..=LONGEST).contains(&wait).then_some(wait)
    }

    /// Denies checks of `cost` tokens or more for `wait` µs from `now`.
    ///
    /// A cost of 2^20 tokens or more closes nothing.
    pub(super) fn close(&self, cost: u32, now: u64, wait: u64) {
        self.close_until(cost, now, wait, now.saturating_add(LONGEST_SILENCE));
    }

    /// The same, and lets a check through at `ask_at`.
    pub(super) fn close_until(&self, cost: u32, now: u64, wait: u64, ask_at: u64) {
        let cost = u64::from(cost.max(1));
        let word = if cost > MOST_COST { 0 } else { now.wrapping_add(wait.min(LONGEST)) << COST_BITS | cost };
        self.ask_at.store(ask_at, Ordering::Relaxed);
        self.word.store(word, Ordering::Relaxed);
    }

    pub(super) fn reopen(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    /// The smallest cost that was denied last; 0 if the gate was opened since then.
    pub(super) fn cost(&self) -> u32 {
        // Below 2^20.
        (self.word.load(Ordering::Relaxed) & MOST_COST) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::{Gate, LONGEST, LONGEST_SILENCE, MOST_COST};

    #[test]
    fn gate_denies_the_cost_and_greater_ones_until_the_time() {
        let gate = Gate::open();
        assert_eq!(gate.wait(u32::MAX, 0), None);
        for now in [0, 5, (1 << 44) - 3, u64::MAX - 3] {
            gate.close(4, now, 10);
            assert_eq!(
                (gate.wait(3, now), gate.wait(4, now), gate.wait(9, now.wrapping_add(9))),
                (None, Some(10), Some(1)),
                "{now}"
            );
            assert_eq!(gate.wait(4, now.wrapping_add(10)), None);
        }
        gate.close(4, 7, u64::MAX);
        assert_eq!(gate.wait(4, 7), Some(LONGEST));
        gate.reopen();
        assert_eq!(gate.wait(4, 7), None);
    }

    #[test]
    fn one_check_passes_after_a_while() {
        let gate = Gate::open();
        gate.close(1, 7, 60_000_000);
        assert_eq!(gate.wait(1, 7 + LONGEST_SILENCE - 1), Some(60_000_000 - LONGEST_SILENCE + 1));
        assert_eq!(gate.wait(1, 7 + LONGEST_SILENCE), None);
        assert_eq!(gate.wait(1, 7 + LONGEST_SILENCE), Some(60_000_000 - LONGEST_SILENCE), "the next one does not");
        assert_eq!(gate.closed_for(1, 7 + 2 * LONGEST_SILENCE), Some(60_000_000 - 2 * LONGEST_SILENCE));
        assert_eq!(gate.wait(1, 7 + 2 * LONGEST_SILENCE), None);
    }

    #[test]
    fn cost_that_does_not_fit_closes_nothing() {
        let gate = Gate::open();
        gate.close(MOST_COST as u32 + 1, 0, 10);
        assert_eq!(gate.wait(u32::MAX, 0), None);
        gate.close(0, 0, 10);
        assert_eq!(gate.wait(1, 0), Some(10), "a cost of 0 counts as 1");
    }
}
