//! A breaker on a word that the program owns.

// | file | idea |
// |---|---|
// | `state` | `PlacedWord`: where the fields of the word are |
// | `settings` | `PlacedSettings`: the settings of a process, in the units of the word |

mod settings;
mod state;

use super::AtomicU64;
use crate::breaker::state_word::{Snapshot, StateWord};
use crate::breaker::transitions::Transitions;
use crate::breaker::{BreakerConfig, CallError, Cause, CircuitOpen, Permit, State, Verdict, guarded_call};
use crate::out_of_range::OutOfRange;
use crate::time::Clock;
use crate::word32::FixedBreaker;
use core::fmt;
use core::time::Duration;
use settings::PlacedSettings;
use state::PlacedWord;

/// A circuit breaker on a word that the program owns.
///
/// A word of 0 is a closed breaker. Each process makes a breaker of its own on the same word, with the same settings and clock, and the failures of
/// all of them open it for all. It works as a [`CircuitBreaker`](crate::CircuitBreaker) does, of which it has the settings `failure_threshold`,
/// `cooldown`, `cooldown_factor`, `max_cooldown`, `max_probes`, `successes_to_close`, `max_half_open`, `abandoned_probes_fail`, and a `failure_rate`
/// over the last 48 calls or fewer. It has no slow calls, no jitter, no ramp, no listener, and a server's `Retry-After` extends no cooldown.
///
/// A process that is killed as a probe holds its place until the half-open state ends, after `max_half_open`. Then the breaker opens again for a
/// cooldown, and other processes probe. The default is 5 minutes, or the longest cooldown that the breaker reaches if that is longer.
///
/// The time counts from the first probe. It must be longer than all probes together that close the breaker, with the time between them. Otherwise
/// the breaker opens before they have succeeded, and never closes.
///
/// # Range
///
/// Cooldowns and the time half-open are rounded up by less than a millionth of the longest. The cooldown stops growing after seven times. An open
/// breaker that no process asks for 500 times its longest cooldown may be open for one cooldown more. A result that is recorded after exactly 256
/// changes of the state, or a multiple, is taken for one of the present state.
///
/// # Memory ordering
///
/// None: the word is the whole state.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::breaker::State;
/// use damper::words::{AtomicU64, WordBreaker};
/// use damper::{BreakerConfig, ManualClock};
///
/// let word = AtomicU64::new(0); // in the mapping that the processes share
/// let clock = ManualClock::new();
/// let config = BreakerConfig::builder().failure_threshold(2).max_half_open(Duration::from_secs(10)).build()?;
///
/// let worker = WordBreaker::new(&word, &config, &clock)?;
/// let other_worker = WordBreaker::new(&word, &config, &clock)?;
/// worker.try_acquire()?.failure();
/// other_worker.try_acquire()?.failure();
/// assert_eq!(worker.state(), State::Open);
///
/// clock.advance(Duration::from_secs(31));
/// core::mem::forget(worker.try_acquire()?); // a probe of a process that is killed
/// assert!(other_worker.try_acquire().is_err());
/// clock.advance(Duration::from_secs(11));
/// assert_eq!(other_worker.state(), State::Open); // for another cooldown
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WordBreaker<'a, C> {
    word: StateWord<PlacedWord<'a>>,
    settings: PlacedSettings<'a>,
    clock: C,
}

impl<'a, C: Clock> WordBreaker<'a, C> {
    /// Creates a breaker on `word`, which is left as it is.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] of a setting that does not fit, or that a breaker in one word does not have.
    pub fn new(word: &'a AtomicU64, config: &BreakerConfig, clock: C) -> Result<Self, OutOfRange> {
        let settings = PlacedSettings::new(config, clock.frequency(), clock.max_step_back())?;
        Ok(Self { word: StateWord::of(word), settings, clock })
    }

    /// Makes one call if the breaker lets it pass. `Err` is a failure, and so is a panic.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was.
    #[inline]
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>> {
        guarded_call(self, call, Verdict::of)
    }

    /// Returns a permit for one call.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] while the breaker is open, or half-open with all its probes in flight.
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<&Self>, CircuitOpen> {
        Permit::admitted_by(self)
    }

    /// Returns the state that a call would find now.
    pub fn state(&self) -> State {
        self.state_of(self.word.load()).0
    }
}

impl<'a, C: Clock> Transitions for WordBreaker<'a, C> {
    type Word = PlacedWord<'a>;
    type Now = u64;
    type Request = ();
    type Settings<'b>
        = &'b PlacedSettings<'a>
    where
        Self: 'b;

    #[inline]
    fn word(&self) -> &StateWord<PlacedWord<'a>> {
        &self.word
    }

    #[inline]
    fn settings(&self) -> &PlacedSettings<'a> {
        &self.settings
    }

    /// They do not change.
    #[inline]
    fn are_in_force(&self, _: &&PlacedSettings<'a>) -> bool {
        true
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }

    #[inline]
    fn cooldown(&self, _: Duration) {}

    #[inline]
    fn changed(&self, _: Snapshot<PlacedWord<'a>>, _: Snapshot<PlacedWord<'a>>, _: Option<Cause>) {}
}

impl<C: Clock> FixedBreaker for WordBreaker<'_, C> {
    #[inline]
    fn counts_successes(&self) -> bool {
        self.settings.tally.is_some()
    }

    #[inline]
    fn abandoned_probes_fail(&self) -> bool {
        self.settings.fixed.abandoned_probes_fail
    }
}

impl<C> fmt::Debug for WordBreaker<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordBreaker").field("phase", &self.word.load().phase().state()).finish_non_exhaustive()
    }
}
