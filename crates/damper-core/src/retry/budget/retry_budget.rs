//! A budget of deposits in two slices of time, and a bucket.

use super::{Budget, RetryBudgetConfig};
use crate::limit::{Algorithm, TokenBucket};
use crate::quota::SetQuotaError;
use crate::sync::{AtomicBool, AtomicU64, Claim, Field, Ordering, SpinWait, const_unless_loom};
use crate::time::{Clock, DefaultClock, LazyMicros, Micros};

/// The deposits of a retry budget.
///
/// ```text
///  63   50 49      25 24       0
/// | SLICE | PREVIOUS | CURRENT |
/// ```
///
/// | field | unit | meaning |
/// |---|---|---|
/// | SLICE | half a ttl | the slice of time of CURRENT; wraps |
/// | PREVIOUS | thousandths of a retry | the remaining deposits of the previous slice |
/// | CURRENT | thousandths of a retry | the remaining deposits of this slice; saturates |
const CURRENT: Field = Field::lowest(25);
const PREVIOUS: Field = CURRENT.then(25);
const SLICE: Field = PREVIOUS.then(14);
const _: () = assert!(SLICE.end() == u64::BITS, "fields must tile the word");

/// The units that a retry takes.
///
/// No ratio is finer, so a change of the ratio leaves the deposits as they are.
const RETRY: u64 = 1_000;

/// The settings of a retry budget.
///
/// ```text
///  63     40 39        0
/// | DEPOSIT | HALF_TTL |
/// ```
///
/// | field | unit | meaning |
/// |---|---|---|
/// | DEPOSIT | thousandths of a retry | the deposit of a call, at most 100 retries |
/// | HALF_TTL | microseconds | the length of a slice, at most half a day |
const HALF_TTL: Field = Field::lowest(40);
const DEPOSIT: Field = HALF_TTL.then(24);
const _: () = assert!(DEPOSIT.end() == u64::BITS, "fields must tile the word");

/// A budget of retries for all calls to a server.
///
/// Each call deposits a part of a retry, which expires after a while. A reserve allows retries without deposits.
///
/// In any interval `T` the retries are at most
///
/// ```text
/// reserve + floor · T + ratio · (calls that began in T and in one ttl before)
/// ```
///
/// across all threads, plus the free retries of calls that never reached the server. Each such call has at most one as
/// [unprocessed](crate::retry::Failure::unprocessed) and one as [transparent](crate::retry::Failure::transparent), which
/// comes last. So a server that fails under its load receives at most that part of it again. A busy client can retry
/// failures at once, as with Finagle's `RetryBudget` and tower's `TpsBudget`, which are similar. An idle client has the
/// reserve.
///
/// A call costs one compare-and-swap, and a retry one or two. Put the budget in a `static` or an `Arc`, one per server.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
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
/// assert!(strict.try_withdraw(), "deposited by five calls");
/// assert!(strict.try_withdraw(), "from the reserve");
/// assert!(!strict.try_withdraw());
/// # let _ = retry;
/// # }
/// # Ok::<(), damper::OutOfRange>(())
/// ```
///
/// # Range
///
/// Slices of half a ttl repeat after 16,384 slices (22 hours with the default). After exactly that long without a call,
/// give or take 16 slices, old deposits apply again. A slice holds 33,554 retries, and further deposits are dropped. A thread that is descheduled for more than 16 slices between reading the clock and depositing may clear
/// other deposits. So may one that is descheduled there while the ttl changes.
#[derive(Debug)]
pub struct RetryBudget<C = DefaultClock> {
    word: AtomicU64,
    micros: LazyMicros,
    /// The settings apart from those of the bucket, in one word: each call reads them once.
    rates: AtomicU64,
    /// Whether a thread changes the settings.
    is_claimed: AtomicBool,
    bucket: TokenBucket,
    clock: C,
}

/// The most slices by which a thread's reading may be behind another thread's.
const MOST_BEHIND: u64 = 16;

/// The remaining deposits, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Deposits {
    slice: u64,
    previous: u64,
    current: u64,
}

impl Deposits {
    /// Returns the deposits in a word that have not expired in this slice of time.
    #[inline]
    const fn at(slice: u64, word: u64) -> Self {
        let (previous, current) = (PREVIOUS.get(word), CURRENT.get(word));
        match slice.wrapping_sub(SLICE.get(word)) & SLICE.max() {
            0 => Self { slice, previous, current },
            1 => Self { slice, previous: current, current: 0 },
            // This thread's clock is behind another's, or the thread was descheduled after reading the clock.
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
    const fn add(mut self, units: u64) -> Self {
        let sum = self.current + units;
        self.current = if sum < CURRENT.max() { sum } else { CURRENT.max() };
        self
    }

    /// Takes this many units, the soonest to expire first, or returns `None` if there are fewer.
    #[inline]
    const fn take(mut self, units: u64) -> Option<Self> {
        if self.previous + self.current < units {
            return None;
        }
        let of_previous = if self.previous < units { self.previous } else { units };
        self.previous -= of_previous;
        self.current -= units - of_previous;
        Some(self)
    }
}

/// Returns the word of these settings' rates.
const fn rates_of(config: &RetryBudgetConfig) -> u64 {
    HALF_TTL.put(Micros::of_duration(config.ttl).div_ceil(2)) | DEPOSIT.put(config.ratio.thousandths() as u64)
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
            Self {
                word: AtomicU64::new(0),
                micros: LazyMicros::new(),
                rates: AtomicU64::new(rates_of(&config)),
                is_claimed: AtomicBool::new(false),
                bucket: TokenBucket::new(config.bucket(1)),
                clock,
            }
        }
    }
}

impl<C: Clock> RetryBudget<C> {
    /// Changes the settings while the budget is in use.
    ///
    /// Deposits that calls have made stay. While the change is made, calls may deposit by the old ratio, and withdraw only from the
    /// reserve. If the ttl or the ratio changes, the bound on the retries of an interval is that of both ttls together and the higher
    /// ratio until the deposits from before the change have expired. The reserve changes as [`RateLimiter::set_quota`](crate::RateLimiter::set_quota) changes a burst.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`] if the floor or the reserve is too large for the one that the budget was created with, or another thread is
    /// changing them at this moment. Then nothing has changed.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::RetryBudget;
    /// use damper::retry::RetryBudgetConfig;
    ///
    /// static BUDGET: RetryBudget = RetryBudget::DEFAULT;
    /// BUDGET.set_config(RetryBudgetConfig::builder().ratio(0.05).floor(1).reserve(10).build()?)?;
    /// assert_eq!(BUDGET.retries_left(), 10);
    /// # }
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn set_config(&self, config: RetryBudgetConfig) -> Result<(), SetQuotaError> {
        let _claim = Claim::of(&self.is_claimed).ok_or(SetQuotaError::Busy)?;
        self.bucket.set_quota(config.bucket(1), &self.clock)?;
        let (old, new) = (self.rates(), rates_of(&config));
        // ORDERING: Relaxed, here and below, as in `rates` and `update`.
        if HALF_TTL.get(old) == HALF_TTL.get(new) {
            self.rates.store(new, Ordering::Relaxed);
            return Ok(());
        }
        // The slices get other numbers. Under these the deposits would be too old or too new, so they are set aside meanwhile.
        let deposits = Deposits::at(self.slice(old), self.word.swap(0, Ordering::Relaxed));
        self.rates.store(new, Ordering::Relaxed);
        self.put_back(deposits);
        Ok(())
    }

    /// Puts deposits back that were set aside, and stamps all with the present slice of the ttl in force.
    fn put_back(&self, Deposits { mut previous, mut current, .. }: Deposits) {
        loop {
            let rates = self.rates();
            let slice = self.slice(rates);
            // ORDERING: Relaxed, as in `update`.
            let mut word = self.word.load(Ordering::Relaxed);
            loop {
                // Other threads have made these meanwhile, under either number of the slice.
                let all = Deposits {
                    slice,
                    previous: (PREVIOUS.get(word) + previous).min(PREVIOUS.max()),
                    current: (CURRENT.get(word) + current).min(CURRENT.max()),
                };
                match self.word.compare_exchange_weak(word, all.word(), Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(present) => word = present,
                }
            }
            if self.rates() == rates {
                return;
            }
            (previous, current) = (0, 0);
        }
    }

    /// Returns how many retries could be made now, for dashboards. Takes nothing.
    #[must_use]
    pub fn retries_left(&self) -> u32 {
        let slice = self.slice(self.rates());
        // ORDERING: Relaxed, as in `update`.
        let deposits = Deposits::at(slice, self.word.load(Ordering::Relaxed));
        // Two fields of 25 bits.
        let deposited = ((deposits.previous + deposits.current) / RETRY) as u32;
        deposited.saturating_add(self.bucket.usage(&self.clock).remaining())
    }

    /// Returns the ttl and the ratio in force.
    #[inline]
    fn rates(&self) -> u64 {
        // ORDERING: Relaxed: the word is all that there is of them, and publishes nothing.
        self.rates.load(Ordering::Relaxed)
    }

    /// Returns the slice of time of now.
    #[inline]
    fn slice(&self, rates: u64) -> u64 {
        (self.micros.read(&self.clock).micros / HALF_TTL.get(rates)) & SLICE.max()
    }

    /// Replaces the deposits by the result of `change`, retrying while other threads interfere.
    ///
    /// `None` leaves them unchanged, and makes it return `false`.
    #[inline]
    fn update(&self, rates: u64, change: impl Fn(Deposits) -> Option<Deposits>) -> bool {
        let slice = self.slice(rates);
        let spin_wait = SpinWait::new();
        // ORDERING: Relaxed, here and below, as the word is the whole state and publishes nothing.
        // loom-tests: retry_budget::a_deposit_is_withdrawn_once, retry_budget::no_deposit_is_lost.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let Some(deposits) = change(Deposits::at(slice, word)) else { return false };
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
        let rates = self.rates();
        let deposit = DEPOSIT.get(rates);
        if deposit > 0 {
            self.update(rates, |deposits| Some(deposits.add(deposit)));
        }
    }

    /// Takes a retry from the deposits, oldest first, or else from the reserve.
    #[inline]
    fn try_withdraw(&self) -> bool {
        self.update(self.rates(), |deposits| deposits.take(RETRY)) || self.bucket.take_revocably(1, &self.clock).is_ok()
    }
}

#[cfg(feature = "std")]
impl Default for RetryBudget {
    fn default() -> Self {
        Self::new(RetryBudgetConfig::DEFAULT)
    }
}
