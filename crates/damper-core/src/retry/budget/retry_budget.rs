//! A budget of deposits in two slices of time, and a bucket.

use super::{Budget, RetryBudgetConfig};
use crate::limit::{Algorithm, TokenBucket};
use crate::sync::{AtomicU64, Field, Ordering, SpinWait, const_unless_loom};
use crate::time::{Clock, DefaultClock, LazyMicros, Micros};

/// ```text
///  63   48 47      24 23       0
/// | SLICE | PREVIOUS | CURRENT |
/// ```
///
/// | field | unit | meaning |
/// |---|---|---|
/// | SLICE | half a ttl | the slice of time that CURRENT belongs to; wraps |
/// | PREVIOUS | units of the ratio | what is left of the deposits of the slice before |
/// | CURRENT | units of the ratio | what is left of the deposits of this slice; stays at its greatest value |
const CURRENT: Field = Field::lowest(24);
const PREVIOUS: Field = CURRENT.then(24);
const SLICE: Field = PREVIOUS.then(16);
const _: () = assert!(SLICE.end() == u64::BITS, "fields must tile the word");

/// A budget of retries for all calls to a server: each call deposits a part of a retry, which is gone after a while.
/// Where nothing was deposited there is a reserve.
///
/// In any interval `T` the retries are at most
///
/// ```text
/// reserve + floor · T + ratio · (calls that began in T and in one ttl before)
/// ```
///
/// whatever the threads, beside [one free retry](crate::retry::Failure::unprocessed) of each call that never reached the server. So
/// a server that fails under its load sees at most that part of it again. A busy client can
/// retry what fails at once, as with Finagle's `RetryBudget` and tower's `TpsBudget`, which this is like; an idle one
/// has the reserve.
///
/// A call costs one compare-and-swap, and so does a retry, or two. Put it in a `static` or an `Arc`, one per server.
///
/// # Examples
///
#[cfg_attr(feature = "std", doc = "```")]
#[cfg_attr(not(feature = "std"), doc = "```text")]
/// # extern crate damper_core as damper;
/// use damper::retry::{Budget, RetryBudgetConfig};
/// use damper::{Retry, RetryBudget};
///
/// static BUDGET: RetryBudget = RetryBudget::DEFAULT; // a fifth of the calls, 10 a second, 100 at once
/// let retry = Retry::new(3).budget(&BUDGET);
///
/// let strict = RetryBudget::new(RetryBudgetConfig::builder().floor(0).reserve(1).build()?);
/// for _ in 0..5 {
///     strict.began();
/// }
/// assert!(strict.try_withdraw(), "of five calls");
/// assert!(strict.try_withdraw(), "of the reserve");
/// assert!(!strict.try_withdraw());
/// # let _ = retry;
/// # Ok::<(), damper::retry::RetryBudgetError>(())
/// ```
///
/// # Range
///
/// Slices of half a ttl repeat after 65,536 (91 hours with the default). After exactly that long without a call, give or
/// take 16 slices, old deposits count once more. A slice holds at least 16,777 retries; deposits beyond that are dropped. A
/// thread that is stopped for more than 16 slices between reading the clock and depositing may clear the deposits of others.
#[derive(Debug)]
pub struct RetryBudget<C = DefaultClock> {
    word: AtomicU64,
    micros: LazyMicros,
    /// Half a ttl, in microseconds.
    slice: u64,
    deposit: u32,
    withdrawal: u32,
    bucket: TokenBucket,
    clock: C,
}

/// By how many slices a reading may be behind that of another thread.
const MOST_BEHIND: u64 = 16;

/// What is left of deposits, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Deposits {
    slice: u64,
    previous: u64,
    current: u64,
}

impl Deposits {
    /// The deposits in a word that are not gone in this slice of time.
    #[inline]
    const fn at(slice: u64, word: u64) -> Self {
        let (previous, current) = (PREVIOUS.get(word), CURRENT.get(word));
        match slice.wrapping_sub(SLICE.get(word)) & SLICE.max() {
            0 => Self { slice, previous, current },
            1 => Self { slice, previous: current, current: 0 },
            // This thread's clock is behind another's, or the thread was stopped after it had read the clock.
            passed if passed > SLICE.max() - MOST_BEHIND => Self { slice: SLICE.get(word), previous, current },
            _ => Self { slice, previous: 0, current: 0 },
        }
    }

    #[inline]
    const fn word(self) -> u64 {
        SLICE.put(self.slice) | PREVIOUS.put(self.previous) | CURRENT.put(self.current)
    }

    /// Adds a deposit, as far as there is room.
    #[inline]
    const fn add(mut self, units: u32) -> Self {
        let sum = self.current + units as u64;
        self.current = if sum < CURRENT.max() { sum } else { CURRENT.max() };
        self
    }

    /// Takes so many units, those that are gone soonest first; `None` if there are fewer.
    #[inline]
    const fn take(mut self, units: u32) -> Option<Self> {
        let units = units as u64;
        if self.previous + self.current < units {
            return None;
        }
        let of_previous = if self.previous < units { self.previous } else { units };
        self.previous -= of_previous;
        self.current -= units - of_previous;
        Some(self)
    }
}

#[cfg(feature = "std")]
impl RetryBudget {
    /// The budget of [`RetryBudgetConfig::DEFAULT`], for a `static`.
    #[cfg(not(any(loom, shuttle)))]
    #[expect(clippy::declare_interior_mutable_const, reason = "the value that a `static` begins with")]
    pub const DEFAULT: Self = Self::new(RetryBudgetConfig::DEFAULT);

    const_unless_loom! {
        /// Creates a budget without deposits and with its whole reserve, on the [default clock](DefaultClock).
        #[must_use]
        pub const fn new(config: RetryBudgetConfig) -> Self {
            Self::with_clock(config, crate::time::Monotonic)
        }
    }
}

impl<C: Clock> RetryBudget<C> {
    const_unless_loom! {
        /// Creates a budget on a clock of your own. A reference to a clock is a clock too.
        #[must_use]
        pub const fn with_clock(config: RetryBudgetConfig, clock: C) -> Self {
            let (deposit, withdrawal) = config.ratio.in_units();
            Self {
                word: AtomicU64::new(0),
                micros: LazyMicros::new(),
                slice: Micros::of_duration(config.ttl).div_ceil(2),
                deposit,
                withdrawal,
                bucket: TokenBucket::new(config.bucket(1)),
                clock,
            }
        }
    }
}

impl<C: Clock> RetryBudget<C> {
    /// Replaces the deposits by what `change` makes of them, until no other thread interferes; `None` leaves them alone.
    #[inline]
    fn update(&self, change: impl Fn(Deposits) -> Option<Deposits>) -> bool {
        let slice = self.micros.read(&self.clock).micros / self.slice;
        let spin_wait = SpinWait::new();
        // ORDERING: Relaxed, here and below: the word is the whole state, and nothing is published through it. loom-tests:
        // retry_budget::a_deposit_is_withdrawn_once, retry_budget::no_deposit_is_lost.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let Some(deposits) = change(Deposits::at(slice & SLICE.max(), word)) else { return false };
            match self.word.compare_exchange_weak(word, deposits.word(), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(present) => word = present,
            }
            spin_wait.spin();
        }
    }
}

impl<C: Clock> Budget for RetryBudget<C> {
    /// Deposits a part of a retry.
    #[inline]
    fn began(&self) {
        if self.deposit > 0 {
            self.update(|deposits| Some(deposits.add(self.deposit)));
        }
    }

    /// Takes a retry from the deposits, the oldest first, or else from the reserve.
    #[inline]
    fn try_withdraw(&self) -> bool {
        self.update(|deposits| deposits.take(self.withdrawal)) || self.bucket.take_revocably(1, &self.clock).is_ok()
    }
}

#[cfg(feature = "std")]
impl Default for RetryBudget {
    fn default() -> Self {
        Self::new(RetryBudgetConfig::DEFAULT)
    }
}
