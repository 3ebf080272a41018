//! A gate that denies checks without asking the server.

use core::sync::atomic::{AtomicU64, Ordering};

/// A gate that denies checks of a certain cost or more until a certain time, without asking the server.
///
/// One word has the time in its upper bits and the cost in its lower bits.
///
/// ```text
///  63  20 19   0
/// | UNTIL | COST |
/// ```
///
/// | field | bits | unit | |
/// |---|---|---|---|
/// | COST | 20 | tokens | the smallest cost that is denied; 0 if the gate is open |
/// | UNTIL | 44 | µs | the time at which the gate opens, by the subject's clock |
///
/// `UNTIL` wraps after half a year. So a time that seems more than 2^43 µs (a hundred days) ahead counts as past.
///
/// Another process may give tokens back or reset the limit, and this process does not learn of it. So a closed gate
/// lets one check pass from time to time, and the server decides that check.
#[derive(Debug)]
pub(super) struct Gate {
    word: AtomicU64,
    /// The time from which the next check passes a closed gate, in µs of the clock.
    ask_at: AtomicU64,
}

const COST_BITS: u32 = 20;
const UNTIL_BITS: u32 = u64::BITS - COST_BITS;
const MOST_COST: u64 = (1 << COST_BITS) - 1;
/// The longest time for which checks are denied without asking the server, in µs.
pub(super) const LONGEST_SILENCE: u64 = 5_000_000;

/// The longest time for which the gate can be closed, in µs.
///
/// It bounds only the silence. The refusals of a longer wait take that from [`Subject::refill_wait`](super::Subject).
const LONGEST: u64 = (1 << (UNTIL_BITS - 1)) - 1;

impl Gate {
    /// Creates an open gate.
    pub(super) const fn open() -> Self {
        Self { word: AtomicU64::new(0), ask_at: AtomicU64::new(0) }
    }

    /// Returns how many µs after `now` a check of `n` tokens has to wait, or `None` if it passes the gate.
    ///
    /// When it is time to ask the server again, one check passes a closed gate. If the server does not decide it, the
    /// caller lets another one pass by [`ask_by`](Self::ask_by).
    pub(super) fn wait(&self, n: u32, now: u64) -> Option<u64> {
        let wait = self.closed_for(n, now)?;
        // ORDERING: Relaxed, as in `closed_for`. If several threads load the same `ask_at`, only one of them swaps it,
        // so only one check passes.
        let ask_at = self.ask_at.load(Ordering::Relaxed);
        let next = now.saturating_add(LONGEST_SILENCE);
        let asks =
            now >= ask_at && self.ask_at.compare_exchange(ask_at, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        (!asks).then_some(wait)
    }

    /// Returns for how many µs after `now` the gate denies `n` tokens, or `None` if it does not.
    pub(super) fn closed_for(&self, n: u32, now: u64) -> Option<u64> {
        // ORDERING: Relaxed here and in all methods: the two atomics publish no other data. A check that reads an older
        // word gets the answer of a moment before. A check that reads an older `ask_at` may ask the server too early or
        // too late.
        let word = self.word.load(Ordering::Relaxed);
        let cost = word & MOST_COST;
        if cost == 0 || u64::from(n) < cost {
            return None;
        }
        // The word has only the lowest `UNTIL_BITS` bits of the time, so the difference is cut to these bits.
        let wait = (word >> COST_BITS).wrapping_sub(now) & (u64::MAX >> COST_BITS);
        (1..=LONGEST).contains(&wait).then_some(wait)
    }

    /// Denies checks of `cost` tokens or more for `wait` µs from `now`.
    ///
    /// A cost of 2^20 tokens or more does not fit the word. Such a call opens the gate for all costs.
    pub(super) fn close(&self, cost: u32, now: u64, wait: u64) {
        self.close_until(cost, now, wait, now.saturating_add(LONGEST_SILENCE));
    }

    /// Closes the gate like [`close`](Self::close), but sets when a check may pass it.
    ///
    /// The first check at `ask_at` or later passes the closed gate and asks the server.
    pub(super) fn close_until(&self, cost: u32, now: u64, wait: u64, ask_at: u64) {
        let cost = u64::from(cost.max(1));
        let word = if cost > MOST_COST { 0 } else { now.wrapping_add(wait.min(LONGEST)) << COST_BITS | cost };
        self.ask_at.store(ask_at, Ordering::Relaxed);
        self.word.store(word, Ordering::Relaxed);
    }

    /// Lets a check pass the closed gate at `at` or later, unless one may pass it earlier.
    pub(super) fn ask_by(&self, at: u64) {
        self.ask_at.fetch_min(at, Ordering::Relaxed);
    }

    /// Opens the gate for all costs.
    pub(super) fn reopen(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    /// Returns the smallest cost denied by the last closing; 0 if the gate was opened since.
    pub(super) fn cost(&self) -> u32 {
        // The field has 20 bits, so its value fits.
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
