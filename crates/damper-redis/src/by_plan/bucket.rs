//! The memory of one bucket in this process.

use super::share::{ShareLevel, ShareTerms};
use crate::script::{Level, Sighting, Terms};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long calls are refused without asking after a refusal, in µs.
///
/// Another process may give tokens back meanwhile.
const SILENCE: u64 = 100_000;

/// The memory of one bucket in this process. The bucket itself is on the server.
#[derive(Debug)]
pub(super) struct Bucket {
    memory: Mutex<Memory>,
    /// Whether an eviction would forget tokens of a share or a charge.
    is_owed: AtomicBool,
    /// The local time in µs at which the share starts empty, unless the server replied later.
    shares_from: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    seen: Sighting,
    /// The local time in µs at which the bucket is full, as of the last reply.
    full_at: u64,
    /// The local time in µs from which one call asks the server although `full_at` refuses it.
    ask_from: u64,
    /// The tokens to charge with the next command.
    charge: u64,
    /// The charges of commands without a reply, which the server may have booked.
    ///
    /// They are charged again after the server has replied. Otherwise each command would book them once more while the
    /// server gets the commands and the replies are lost.
    doubtful: u64,
    /// The instant in ns at which this process's share is full.
    share_full: u128,
    /// The last reply before the outage in which `charged` was counted, in µs of the local time.
    outage: u64,
    /// The tokens of the share that are charged when the server is back.
    charged: u32,
}

/// The tokens that a bucket certainly lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lack {
    /// The tokens left.
    pub(super) left: u32,
    /// How long it takes until the tokens of the call are there, in µs.
    pub(super) wait: u64,
    /// How long it takes until the bucket is full, in µs.
    pub(super) full_in: u64,
}

impl Memory {
    /// Returns what a call of `cost` tokens lacks by the last reply.
    fn lack(&self, terms: &Terms, cost: u32, now: u64) -> Option<Lack> {
        let full_in = self.full_at.saturating_sub(now);
        // The debt in parts of a token, of which there are q: below 2^64 · 2^43.
        let (p, q) = (u128::from(terms.rate.tokens()), u128::from(terms.rate.micros()));
        let debt = u128::from(full_in) * p;
        let missing = debt.saturating_sub(u128::from(terms.burst.saturating_sub(cost)) * q);
        if missing == 0 {
            return None;
        }
        // At most the burst.
        let left = u128::from(terms.burst).saturating_sub(debt.div_ceil(q)) as u32;
        let wait = u64::try_from(missing.div_ceil(p.max(1))).unwrap_or(u64::MAX);
        Some(Lack { left, wait, full_in })
    }
}

impl Bucket {
    pub(super) fn new(shares_from: u64) -> Self {
        Self { memory: Mutex::default(), is_owed: AtomicBool::new(false), shares_from }
    }

    /// Returns whether an eviction would forget tokens of a share or a charge.
    pub(super) fn is_owed(&self) -> bool {
        // ORDERING: Relaxed. The value is a hint for evictions.
        self.is_owed.load(Ordering::Relaxed)
    }

    fn owe(&self, is_owed: bool) {
        // ORDERING: Relaxed, as in `is_owed`.
        self.is_owed.store(is_owed, Ordering::Relaxed);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // A panic cannot leave a memory half changed.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what a call of `cost` tokens lacks at the local time `now`, if the server need not be asked.
    ///
    /// Now and then one call may ask, because other processes give tokens back. A call that does so notes it with [`ask`](Self::ask).
    pub(super) fn lack(&self, terms: &Terms, cost: u32, now: u64) -> Option<Lack> {
        let memory = self.memory();
        memory.lack(terms, cost, now).filter(|_| now < memory.ask_from)
    }

    /// Notes at the local time `now` that a call of `cost` tokens asks the server.
    ///
    /// If it lacks tokens by the last reply, other calls are refused without asking for a while. Calls that looked at the same time
    /// may all ask.
    pub(super) fn ask(&self, terms: &Terms, cost: u32, now: u64) {
        let mut memory = self.memory();
        if memory.lack(terms, cost, now).is_some() {
            memory.ask_from = now.saturating_add(SILENCE);
        }
    }

    /// Returns the last sighting, and the charge for the next command, which is out of the memory then.
    pub(super) fn take_out(&self) -> (Sighting, u64) {
        let mut memory = self.memory();
        let charge = core::mem::take(&mut memory.charge);
        if charge > 0 {
            self.owe(memory.doubtful > 0);
        }
        (memory.seen, charge)
    }

    /// Adds the charge of a command without a reply, which the server may have booked.
    pub(super) fn doubt(&self, tokens: u64) {
        if tokens > 0 {
            let mut memory = self.memory();
            memory.doubtful = memory.doubtful.saturating_add(tokens);
            self.owe(true);
        }
    }

    /// Adds tokens to charge with the next command.
    pub(super) fn charge(&self, tokens: u64) {
        if tokens > 0 {
            let mut memory = self.memory();
            memory.charge = memory.charge.saturating_add(tokens);
            self.owe(true);
        }
    }

    /// Remembers the level of a reply, and lets the next command carry the charges of those without one.
    ///
    /// The server made it at its time `replied`, and the command was sent at the local time `sent`. `refused` says whether this bucket refused the command.
    pub(super) fn see(&self, level: &Level, terms: &Terms, replied: u64, sent: u64, refused: bool) {
        let mut memory = self.memory();
        let doubtful = core::mem::take(&mut memory.doubtful);
        memory.charge = memory.charge.saturating_add(doubtful);
        if level.version > memory.seen.version || memory.seen.full_at <= replied {
            memory.seen = level.seen();
        }
        let parts = (u128::from(level.owed) * u128::from(terms.rate.micros())).saturating_sub(level.frac.into());
        let owed = parts / u128::from(terms.rate.tokens().max(1));
        // Rounded down, so that no call is refused that the server would allow.
        memory.full_at = sent.saturating_add(u64::try_from(owed).unwrap_or(u64::MAX));
        if refused {
            memory.ask_from = sent.saturating_add(SILENCE);
        }
    }

    /// Returns the level of this process's share for a call of `n` tokens.
    ///
    /// `replied` is the local time in µs of the server's last reply.
    pub(super) fn share(&self, share: &ShareTerms, now: u64, replied: u64, n: u32) -> ShareLevel {
        share.level(share.full(self.memory().share_full, replied.max(self.shares_from)), now, n)
    }

    /// Takes `n` tokens from the share. The caller has checked that they are there.
    ///
    /// At most the burst of the share is charged when the server is back, because a bucket that no process reaches fills no further.
    pub(super) fn take_share(&self, share: &ShareTerms, now: u64, replied: u64, n: u32) {
        let mut memory = self.memory();
        let full = share.full(memory.share_full, replied.max(self.shares_from));
        memory.share_full = share.take(full, now, n);
        // A delayed thread may bring an older reply than the memory already knows.
        if memory.outage < replied {
            (memory.outage, memory.charged) = (replied, 0);
        }
        let charge = n.min(share.burst().saturating_sub(memory.charged));
        memory.charged = memory.charged.saturating_add(charge);
        memory.charge = memory.charge.saturating_add(charge.into());
        self.owe(true);
    }
}

#[cfg(test)]
mod tests {
    use super::{Bucket, Lack, SILENCE};
    use crate::by_plan::share::ShareTerms;
    use crate::script::{Level, Terms};
    use damper_core::{Plan, Quota};

    const SECOND: u64 = 1_000_000;

    fn terms(quota: Quota) -> Terms {
        Terms::of_plan(&Plan::new(quota).unwrap()).unwrap()
    }

    fn level(version: u64, owed: u64) -> Level {
        Level { version, at: 7, owed, frac: 0, held: 0, full_at: 90 * SECOND }
    }

    #[test]
    fn refusal_is_remembered_by_time_and_one_call_asks_again() {
        let (slow, fast) = (terms(Quota::per_second(10)), terms(Quota::per_second(100)));
        let bucket = Bucket::new(0);
        bucket.see(&level(1, 10), &slow, 7, 0, true);
        assert_eq!(bucket.lack(&slow, 1, 20_000), Some(Lack { left: 0, wait: 80_000, full_in: 980_000 }));
        assert_eq!(bucket.lack(&fast, 1, 20_000), None, "98 tokens of 100 are owed");
        assert_eq!(bucket.lack(&fast, 3, 20_000).map(|lack| lack.wait), Some(10_000));
        assert_eq!(bucket.lack(&slow, 2, SILENCE), None, "one may ask");
        assert_eq!(bucket.lack(&slow, 2, SILENCE), None, "and does not have to");
        bucket.ask(&slow, 2, SILENCE);
        assert_eq!(bucket.lack(&slow, 2, SILENCE).map(|lack| lack.wait), Some(100_000), "the others do not");
        bucket.see(&level(2, 0), &slow, 8, SILENCE, false);
        assert_eq!(bucket.lack(&slow, 10, SILENCE), None, "tokens came back");
        bucket.see(&level(3, 10), &slow, 9, SILENCE, false);
        assert!(bucket.lack(&slow, 1, SILENCE).is_some(), "another call took them, and it is too early to ask");
    }

    #[test]
    fn charges_wait_for_the_next_command() {
        let bucket = Bucket::new(0);
        bucket.charge(3);
        assert!(bucket.is_owed());
        assert_eq!((bucket.take_out().1, bucket.take_out().1, bucket.is_owed()), (3, 0, false));
        let share = ShareTerms::new(&terms(Quota::per_second(10)), 2);
        for taken in 0..9 {
            let now = (2 + taken) * SECOND;
            assert_eq!(bucket.share(&share, now, 0, 1).wait, Some(0));
            bucket.take_share(&share, now, 0, 1);
        }
        assert_eq!(bucket.take_out().1, 5, "half of the burst");
    }

    /// A thread reads the time of the last reply before it gets the lock.
    #[test]
    fn delayed_thread_does_not_charge_another_share_of_the_burst() {
        let (bucket, share) = (Bucket::new(0), ShareTerms::new(&terms(Quota::per_second(10)), 2));
        for taken in 0..9 {
            bucket.take_share(&share, (9 + taken) * SECOND, SECOND - taken % 2, 1);
        }
        assert_eq!(bucket.take_out().1, 5, "half of the burst");
    }
}
