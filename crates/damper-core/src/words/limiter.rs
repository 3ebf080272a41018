//! A limiter on a word that the program owns.
//!
//! ```text
//!  63 56 55               0
//! | TAG |     FULL AT      |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | FULL AT | 56 | the time at which the bucket is full, in units of 64 ns from tick 0 of the clock; circles after 146 years |
//! | TAG | 8 | the tag of the plan under which all of the debt was taken; 0 if there were several, or if nothing is owed |

use super::AtomicU64;
use crate::gate::Forecast;
use crate::limit::{Allowed, Denied, Limiter, PlannedLevel, Usage};
use crate::quota::{Beats, Line, Plan, PlanClock, Quota};
use crate::sync::{Field, Ordering, SpinWait};
use crate::time::Clock;
use core::fmt;

/// The word of a limiter.
const FULL_AT: Field = Field::lowest(56);
const TAG: Field = FULL_AT.then(8);
const _: () = assert!(TAG.end() == u64::BITS, "fields must tile the word");

/// The layout of the word.
enum WordLevel {}

impl PlannedLevel for WordLevel {
    const FULL_AT: Field = FULL_AT;
    const TAG: Option<Field> = Some(TAG);
}

/// A token bucket on a word that the program owns, under a [`Plan`].
///
/// A word of 0 is a full bucket. Each process makes a limiter of its own on the same word, and all of them take tokens of one
/// bucket. A decision is one load, one reading of the clock and one swap, so a process that is killed at any step leaves a
/// valid word. At worst it took tokens that it never used. A refusal writes nothing.
///
/// All limiters of a word have to read the same clock: `HostMonotonic` (feature `rustix`), or a timer that the cores share.
///
/// # Two plans on one word
///
/// If some processes have another plan, as during a rolling deployment, each plan stays in its own envelope, and the key gets at most
/// `B2·(1 - W1/W2) + 1` tokens more, where `B2` is the burst of the newer plan and `W` the time of a refill. It gets none more if both
/// refills take the same time.
///
/// # Memory ordering
///
/// None: the word is the whole state.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::words::{AtomicU64, WordLimiter};
/// use damper::{ManualClock, Plan, Quota};
///
/// let word = AtomicU64::new(0); // in the mapping that the processes share
/// let clock = ManualClock::new();
/// let plan = Plan::new(Quota::per_second(10).burst(20))?;
///
/// let worker = WordLimiter::new(&word, plan, &clock);
/// assert_eq!(worker.check_n(15)?.remaining(), 5);
///
/// let other_worker = WordLimiter::new(&word, plan, &clock);
/// assert_eq!(other_worker.check_n(6).unwrap_err().to_string(), "rate limit exceeded, retry in 100 ms");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct WordLimiter<'a, C> {
    word: &'a AtomicU64,
    plan: Plan,
    line: PlanClock,
    clock: C,
}

impl<'a, C: Clock> WordLimiter<'a, C> {
    /// Creates a limiter on `word`, which is left as it is.
    #[must_use]
    pub fn new(word: &'a AtomicU64, plan: Plan, clock: C) -> Self {
        // Another plan's debt may be deeper than any of this one, so only what no plan can owe is from a clock that stepped back.
        let line = PlanClock::of(&clock, Beats::FINE, Beats::FINE.longest_debt());
        Self { word, plan, line, clock }
    }

    /// Takes one token.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry, exact to 64 ns.
    #[expect(clippy::inline_always, reason = "the unused part of the answer is then not computed")]
    #[inline(always)]
    pub fn check(&self) -> Result<Allowed, Denied> {
        self.check_n(1)
    }

    /// Takes `n` tokens if all of them are there, else none.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry, exact to 64 ns, or that `n` exceeds the burst.
    #[expect(clippy::inline_always, reason = "the unused part of the answer is then not computed")]
    #[inline(always)]
    pub fn check_n(&self, n: u32) -> Result<Allowed, Denied> {
        let (level, at) = self.look();
        let taken = match WordLevel::take_straight(&self.plan, level, at, n, 0) {
            Some(Ok((after, _))) if after == level || self.replace(level, after) => Ok((after, at)),
            Some(Err(denied)) => Err(denied),
            _ => self.check_slow(n),
        };
        taken.map(|(after, at)| WordLevel::allowed(&self.plan, after, at))
    }

    #[cold]
    fn check_slow(&self, n: u32) -> Result<(u64, u64), Denied> {
        self.decide(|level, at| match WordLevel::take(&self.plan, level, at, n, 0) {
            Ok((after, _)) => (after, Ok((after, at))),
            Err(denied) => (level, Err(denied)),
        })
    }

    /// Takes up to `n` tokens and returns how many it took.
    pub fn take_up_to(&self, n: u32) -> u32 {
        self.decide(|level, at| {
            let (taken, after) = WordLevel::take_up_to(&self.plan, level, at, n);
            (after, taken)
        })
    }

    /// Gives back up to `n` tokens that were taken and not needed, and returns how many.
    ///
    /// It gives back no more than the bucket owes, so it never fills a bucket beyond full. It gives back nothing to a bucket all of
    /// whose debt was taken under another plan.
    pub fn refund(&self, n: u32) -> u32 {
        self.decide(|level, at| {
            let (given, after) = WordLevel::refund(&self.plan, level, at, n);
            (after, given)
        })
    }

    /// Books `n` tokens after the fact, and returns how many it booked.
    ///
    /// Debt goes no deeper than [`Quota::max_debt`].
    pub fn charge(&self, n: u32) -> u32 {
        self.decide(|level, at| {
            let (booked, after) = WordLevel::charge(&self.plan, level, at, n);
            (after, booked)
        })
    }

    /// Returns how much of the limit is used, and takes nothing.
    pub fn peek(&self) -> Usage {
        self.decide(|level, at| (level, WordLevel::usage(&self.plan, level, at)))
    }

    /// Returns the quota of the plan.
    pub fn quota(&self) -> Quota {
        self.plan.quota()
    }

    /// Loads the word and reads the clock, in this order.
    #[inline]
    fn look(&self) -> (u64, u64) {
        // ORDERING: Relaxed: the word is the whole state, and nothing else is published through it. The clock is read after it: only a
        // clock that stepped back can find the word too far ahead. loom-tests: words::limiter_never_exceeds_its_burst,
        // words::limiter_survives_kills.
        let word = self.word.load(Ordering::Relaxed);
        (word, self.line.timeline().position(self.clock.now()))
    }

    /// Applies `decide` to the level and the instant, and swaps the word if that changes the level.
    fn decide<T>(&self, decide: impl Fn(u64, u64) -> (u64, T)) -> T {
        let spin_wait = SpinWait::new();
        loop {
            let (word, at) = self.look();
            let level = WordLevel::healed(&self.line, word, at, &self.clock);
            let (after, answer) = decide(level, at);
            if after == level || self.replace(word, after) {
                return answer;
            }
            spin_wait.spin();
        }
    }

    #[inline]
    fn replace(&self, old: u64, new: u64) -> bool {
        // ORDERING: Relaxed, as in `look`. On failure the value read is dropped. loom-tests: words::limiter_never_exceeds_its_burst.
        self.word.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl<C: Clock> Limiter for WordLimiter<'_, C> {
    #[inline]
    fn try_acquire(&self, n: u32) -> Result<(), Denied> {
        self.check_n(n).map(|_| ())
    }

    fn usage(&self) -> Usage {
        self.peek()
    }

    fn forecast(&self, n: u32) -> Forecast<Denied> {
        self.decide(|level, at| (level, WordLevel::take(&self.plan, level, at, n, 0).err())).into()
    }
}

impl<C> fmt::Debug for WordLimiter<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordLimiter").field("plan", &self.plan).finish_non_exhaustive()
    }
}
