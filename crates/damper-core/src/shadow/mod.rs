//! Shadow mode: a candidate decides on the same calls as the limit in force, and changes nothing.

// | file | idea |
// |---|---|
// | here | `Shadowed`: a limiter or a breaker in force, and a candidate beside it |
// | `limits` | limiters in shadow mode, with keys and without |
// | `breakers` | breakers in shadow mode |
// | `gates` | all gates in shadow mode |
// | `counts` | how often the two disagree |

mod breakers;
pub(crate) mod counts;
mod gates;
mod limits;

pub use counts::ShadowReport;

use crate::sync::const_unless_loom;
use counts::ShadowCounts;

/// A limiter or a breaker in force, and a candidate that decides on the same calls and changes nothing.
///
/// Every call gets the answer of what is in force. The candidate decides too, for itself: it takes tokens exactly when it would
/// have allowed the call, from a bucket of its own. [`report`](Self::report) counts where the two disagree, which says what would
/// happen if the candidate were put in force.
///
/// | in force | candidate | a call is |
/// |---|---|---|
/// | any [`Limiter`](crate::Limiter), such as a [`RateLimiter`](crate::RateLimiter) | any other one | [`check`](#method.check), [`Limiter::try_acquire`](crate::Limiter::try_acquire) |
/// | a [`KeyedLimiter`](crate::KeyedLimiter) | another one of the same keys | [`check`](#method.check-1) of a key |
/// | a [`CircuitBreaker`](crate::CircuitBreaker) | another one | [`call`](#method.call), [`try_acquire`](#method.try_acquire) |
/// | a [`Gate`](crate::gate::Gate), such as a reference to an `Admission` | another one | [`Ask::ask`](crate::gate::Ask::ask) |
///
/// # The calls that are refused
///
/// A candidate also decides on the calls that the limit in force refuses, because it shows what it would do alone. Those calls
/// did not reach the service, so their clients may have sent fewer calls than they would have sent otherwise. A candidate that allows more than
/// the limit in force is judged by a lower bound of its load.
///
/// A candidate breaker learns from the calls that were made. Of a call that the breaker in force refused it learns
/// nothing. A candidate that is open sees calls pass all the same, and discards their outcomes, as a breaker in force does
/// with late ones.
///
/// # Cost
///
/// A call takes one more decision. A call that both allow writes nothing else, and a call that either refuses counts it in
/// one more word.
///
/// # Examples
///
/// What would a stricter quota refuse?
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::shadow::Shadowed;
/// use damper::{Quota, RateLimiter};
///
/// static LOGINS: Shadowed<RateLimiter> = Shadowed::new(
///     RateLimiter::new(Quota::per_hour(30).burst(5)),
///     RateLimiter::new(Quota::per_hour(20).burst(3)), // decides beside it
/// );
///
/// for _ in 0..6 {
///     match LOGINS.check() {
///         Ok(allowed) => println!("{} left", allowed.remaining()), // of 5
///         Err(denied) => println!("{denied}"),
///     }
/// }
/// let report = LOGINS.report();
/// assert_eq!((report.in_force(), report.by_candidate(), report.only_by_candidate), (1, 3, 2));
/// # }
/// ```
///
/// A limit per key:
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::shadow::Shadowed;
/// use damper::{KeyedLimiter, ManualClock, Quota};
///
/// let clock = ManualClock::new();
/// let limits = |quota| KeyedLimiter::<str>::builder(quota).clock(&clock).build();
/// let limits = Shadowed::new(limits(Quota::per_second(10))?, limits(Quota::per_second(5))?);
/// for _ in 0..7 {
///     assert!(limits.check("alice").is_ok());
/// }
/// assert_eq!(limits.report().only_by_candidate, 2);
/// assert_eq!(limits.in_force().peek("alice").used(), 7);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A breaker:
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::breaker::State;
/// use damper::shadow::Shadowed;
/// use damper::{BreakerConfig, CircuitBreaker};
///
/// let nervous = BreakerConfig::builder().failure_threshold(2).build()?;
/// let breaker = Shadowed::new(CircuitBreaker::default(), CircuitBreaker::new(nervous));
/// for _ in 0..3 {
///     let _ = breaker.call(|| "no number".parse::<u32>());
/// }
/// assert_eq!((breaker.in_force().state(), breaker.candidate().state()), (State::Closed, State::Open));
/// assert_eq!(breaker.report().only_by_candidate, 1);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Gates of the same calls:
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::gate::{Ask, Costs};
/// use damper::shadow::Shadowed;
/// use damper::{ManualClock, Quota, RateLimiter};
///
/// let clock = ManualClock::new();
/// let [calls, letters] = [4, 9].map(|burst| RateLimiter::with_clock(Quota::per_second(1).burst(burst), &clock));
/// let gate = Shadowed::new(&calls, Costs::new(&letters, |call: &str| call.len() as u32));
/// let passed = ["ten", "or", "eleven", "calls", "more"].map(|call| gate.ask(call).is_pass());
/// assert_eq!(passed, [true, true, true, true, false]);
/// let report = gate.report();
/// assert_eq!((report.only_by_candidate, report.only_in_force), (2, 1));
/// ```
#[derive(Debug)]
pub struct Shadowed<T, S = T> {
    in_force: T,
    candidate: S,
    counts: ShadowCounts,
}

impl<T, S> Shadowed<T, S> {
    const_unless_loom! {
        /// Creates a pair in which `candidate` decides beside `in_force`.
        #[must_use]
        pub const fn new(in_force: T, candidate: S) -> Self {
            Self { in_force, candidate, counts: ShadowCounts::new() }
        }
    }

    /// The limiter or breaker in force, to look at it or to change it.
    ///
    /// The candidate does not see calls that are made on it.
    #[must_use]
    pub const fn in_force(&self) -> &T {
        &self.in_force
    }

    /// The candidate, to look at it or to change its quota.
    #[must_use]
    pub const fn candidate(&self) -> &S {
        &self.candidate
    }

    /// Returns the refusals so far: by both, by the candidate only, and in force only.
    #[must_use]
    pub fn report(&self) -> ShadowReport {
        self.counts.report()
    }
}
