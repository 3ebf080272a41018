//! The settings of a breaker in words of 64 bits, as the rules read them from the record in force.
//!
//! ```text
//!           63       51 50     29 28  27 26     14 13        7 6            0
//! rates    |  WINDOW   | MINIMUM | KIND | CALLS  | SLOW RATE  | FAILURE RATE |
//! trip     | 1 bit spare | RAMP | ABANDONED | PROBE RATE | JITTER | FACTOR | FAILURES |
//! probes   |          COOLDOWN           |  SUCCESSES  |     PROBES     |
//! slow     |    BASE    |                  SLOW AFTER                    |
//! wait     | RAMP HIGH  |                  MAX RETRY AFTER               |
//! half-open| RAMP LOW   |                  MAX HALF OPEN                 |
//! ```
//!
//! | field | bits | unit | |
//! |---|---|---|---|
//! | FAILURE RATE, SLOW RATE | 7 each | percent | 0 for none |
//! | CALLS, KIND | 13, 2 | calls | the shape of the window |
//! | MINIMUM | 22 | calls | that a rate is taken of at least; no more than the window holds |
//! | WINDOW | 13 | | of the generation's number under which outcomes are recorded; another one for every other window |
//! | FAILURES | 32 | calls | the consecutive failures that trip |
//! | FACTOR, JITTER, PROBE RATE, ABANDONED | 14, 7, 7, 1 | thousandths, percent, percent | |
//! | PROBES, SUCCESSES, COOLDOWN | 10, 10, 44 | calls, calls, microseconds | |
//! | RAMP | 2 | | 0 for none, 1 for steps, 2 for a linear one |
//! | SLOW AFTER, BASE | 44, 20 | microseconds, buckets | BASE is added to the numbers of buckets, so that those of another length are behind |
//!
//! The words `wait` and `half-open` have a time below, in 44 bits of microseconds, which is 0 in the latter if there is none. Above it they
//! have the upper and the lower 20 bits of the length of the ramp, in microseconds. One word has all that a window of calls needs.

use super::BreakerConfig;
use super::Cause;
use super::breaker_state::{BreakerState, SINCE};
use super::state_machine::{ProbeLimits, Settings, Share};
use super::state_word::{Generation, Snapshot};
use super::window::{OutcomeCounts, WindowShape};
use super::wrapping_micros::WrappingMicros;
#[cfg(target_has_atomic = "64")]
use crate::digest::Digest;
use crate::ramp::{Ramp, RampShape};
use crate::sync::{Field, Ordering, Versioned64, const_unless_loom};
use crate::time::{Micros, MicrosReading, random};
use core::time::Duration;

/// The window of a breaker's settings and its rates.
const FAILURE_RATE: Field = Field::lowest(7);
const SLOW_RATE: Field = FAILURE_RATE.then(7);
const CALLS: Field = SLOW_RATE.then(13);
const KIND: Field = CALLS.then(2);
const MINIMUM: Field = KIND.then(22);
const WINDOW: Field = MINIMUM.then(Generation::BITS);
const _: () = assert!(WINDOW.end() == u64::BITS, "fields must tile the word");

/// The numbers of a breaker's settings.
const FAILURES: Field = Field::lowest(32);
const FACTOR: Field = FAILURES.then(14);
const JITTER: Field = FACTOR.then(7);
const PROBE_RATE: Field = JITTER.then(7);
const ABANDONED: Field = PROBE_RATE.then(1);
const RAMP: Field = ABANDONED.then(2);
const SPARE: Field = RAMP.then(1);
const _: () = assert!(SPARE.end() == u64::BITS, "fields must tile the word");

/// The half-open state of a breaker's settings.
const PROBES: Field = Field::lowest(10);
const SUCCESSES: Field = PROBES.then(10);
const COOLDOWN: Field = SUCCESSES.then(44);
const _: () = assert!(COOLDOWN.end() == u64::BITS, "fields must tile the word");

/// The slow calls of a breaker's settings and the base of its buckets.
const SLOW_AFTER: Field = Field::lowest(44);
const BASE: Field = SLOW_AFTER.then(20);
const _: () = assert!(BASE.end() == u64::BITS, "fields must tile the word");

/// A time of a breaker's settings, and half of the length of its ramp.
const TIME: Field = Field::lowest(44);
const HALF_RAMP: Field = TIME.then(20);
const _: () = assert!(HALF_RAMP.end() == u64::BITS, "fields must tile the word");

/// The values of [`RAMP`].
const STEPS: u64 = 1;
const LINEAR: u64 = 2;

/// The distance between the numbers of consecutive windows in the same generation.
///
/// Six other windows pass before a number is next to the first.
const WINDOW_STEP: u64 = 1_171;

/// The settings as they are published, in the order of the table above.
#[derive(Debug)]
pub(super) struct Record {
    rates: Versioned64,
    trip: Versioned64,
    probes: Versioned64,
    slow: Versioned64,
    max_cooldown: Versioned64,
    wait: Versioned64,
    half_open: Versioned64,
    /// The length of a bucket of time; 0 if the window is one of calls.
    bucket_length: Versioned64,
}

/// The words of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordWords([u64; 8]);

impl RecordWords {
    pub(super) const fn new(config: &BreakerConfig) -> Self {
        let (slow_rate, slow_after) = match config.slow_rate() {
            Some((percent, duration)) => (percent, Micros::of_duration(duration)),
            None => (0, 0),
        };
        let shape = WindowShape::new(config.window(), slow_rate > 0);
        let (kind, calls) = shape.kind_and_calls();
        let minimum = if config.minimum_calls() < shape.capacity() { config.minimum_calls() } else { shape.capacity() };
        let max_half_open = match config.max_half_open() {
            Some(longest) => Micros::of_duration(longest),
            None => 0,
        };
        let (ramp, length) = match config.ramp() {
            Some(Ramp { shape: RampShape::Steps, micros }) => (STEPS, micros),
            Some(Ramp { shape: RampShape::Linear, micros }) => (LINEAR, micros),
            None => (0, 0),
        };
        // All in the ranges that `BreakerConfigBuilder::build` checks, except for the duration of a slow call.
        let slow_after = if slow_after > SLOW_AFTER.max() { SLOW_AFTER.max() } else { slow_after };
        Self([
            FAILURE_RATE.put(percent(config.failure_rate()))
                | SLOW_RATE.put(slow_rate as u64)
                | CALLS.put(calls as u64)
                | KIND.put(kind)
                | MINIMUM.put(minimum as u64),
            FAILURES.put(config.failure_threshold() as u64)
                | FACTOR.put(config.factor_in_thousandths() as u64)
                | JITTER.put(config.cooldown_jitter() as u64)
                | PROBE_RATE.put(percent(config.probe_failure_rate()))
                | ABANDONED.put(config.abandoned_probes_fail() as u64)
                | RAMP.put(ramp),
            PROBES.put(config.max_probes() as u64)
                | SUCCESSES.put(config.successes_to_close() as u64)
                | COOLDOWN.put(Micros::of_duration(config.cooldown())),
            SLOW_AFTER.put(slow_after),
            Micros::of_duration(config.max_cooldown()),
            TIME.put(Micros::of_duration(config.max_retry_after())) | HALF_RAMP.put(length >> HALF_RAMP.bits()),
            TIME.put(max_half_open) | HALF_RAMP.put(length & HALF_RAMP.max()),
            shape.bucket_length(),
        ])
    }

    /// Returns the words of settings that follow `old` at `now`.
    ///
    /// The old window goes on, if that is possible; otherwise an empty one begins.
    pub(super) fn following(self, old: &WindowSettings, now: u64) -> Self {
        let Self([rates, trip, probes, slow, max_cooldown, wait, half_open, bucket_length]) = self;
        let new = WindowSettings { rates, slow, bucket_length };
        let is_same = new.shape().continues(old.shape()) && new.has_rates() == old.has_rates();
        let window = if is_same { 0 } else { WINDOW_STEP };
        let rates = rates | WINDOW.put(WINDOW.get(old.rates) + window);
        let old_base = BASE.get(old.slow);
        let base = if is_same { old_base } else { base_after((old.bucket_length, old_base), bucket_length, now) };
        let slow = slow | BASE.put(base);
        Self([rates, trip, probes, slow, max_cooldown, wait, half_open, bucket_length])
    }

    /// Returns `digest` with all settings.
    #[cfg(target_has_atomic = "64")]
    pub(super) const fn digest(&self, mut digest: Digest) -> Digest {
        let mut index = 0;
        while index < self.0.len() {
            digest = digest.with(self.0[index]);
            index += 1;
        }
        digest
    }

    /// Returns the settings of a window of calls that are not timed.
    #[cfg(target_has_atomic = "64")]
    pub(super) const fn untimed_window(&self) -> WindowSettings {
        WindowSettings { rates: self.0[0], slow: 0, bucket_length: 0 }
    }

    /// Returns whether outcomes are recorded in a window.
    pub(super) const fn has_rates(&self) -> bool {
        has_rates(self.0[0])
    }

    /// Returns whether the window is a ring.
    pub(super) const fn has_ring(&self) -> bool {
        WindowShape::is_ring(KIND.get(self.0[0]))
    }

    /// Returns whether calls are timed, because slow ones count or the window needs it.
    pub(super) const fn is_timed(&self) -> bool {
        is_timed(self.0[0])
    }

    /// Returns the longest time that a breaker with these settings is open, in microseconds.
    pub(super) const fn longest_cooldown(&self) -> u64 {
        let (max_cooldown, max_retry_after) = (self.0[4], TIME.get(self.0[5]));
        if max_cooldown > max_retry_after { max_cooldown } else { max_retry_after }
    }
}

impl Record {
    const_unless_loom! {
        pub(super) const fn new(words: RecordWords) -> Self {
            let RecordWords([rates, trip, probes, slow, max_cooldown, wait, half_open, bucket_length]) = words;
            Self {
                rates: Versioned64::new(rates),
                trip: Versioned64::new(trip),
                probes: Versioned64::new(probes),
                slow: Versioned64::new(slow),
                max_cooldown: Versioned64::new(max_cooldown),
                wait: Versioned64::new(wait),
                half_open: Versioned64::new(half_open),
                bucket_length: Versioned64::new(bucket_length),
            }
        }
    }

    // ORDERING: Relaxed, here and in every read of a record. A loaded value counts only if the epoch is still the same
    // afterwards: `Published::is_current` has the fence that pairs with the one in `Published::publish`.
    pub(super) fn store(&self, RecordWords(words): RecordWords) {
        let records = [
            &self.rates,
            &self.trip,
            &self.probes,
            &self.slow,
            &self.max_cooldown,
            &self.wait,
            &self.half_open,
            &self.bucket_length,
        ];
        for (record, word) in records.into_iter().zip(words) {
            record.store(word, Ordering::Relaxed);
        }
    }

    /// Reads the settings of the window, which count if the record is still in force afterwards.
    #[inline]
    pub(super) fn window(&self) -> WindowSettings {
        let untimed = self.untimed_window();
        if untimed.is_timed() { self.window_of_any_kind(untimed.rates) } else { untimed }
    }

    /// As [`window`](Self::window), where calls are not timed.
    #[inline]
    pub(super) fn untimed_window(&self) -> WindowSettings {
        WindowSettings { rates: self.rates.load(Ordering::Relaxed), slow: 0, bucket_length: 0 }
    }

    /// As [`window`](Self::window), with the words that a window of calls does not need.
    #[inline]
    pub(super) fn window_of_any_kind(&self, rates: u64) -> WindowSettings {
        let (slow, bucket_length) = (self.slow.load(Ordering::Relaxed), self.bucket_length.load(Ordering::Relaxed));
        WindowSettings { rates, slow, bucket_length }
    }

    /// The words of the rates.
    pub(super) fn rates(&self) -> u64 {
        self.rates.load(Ordering::Relaxed)
    }
}

/// The settings that concern the outcomes of calls in a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowSettings {
    rates: u64,
    slow: u64,
    bucket_length: u64,
}

impl WindowSettings {
    #[inline]
    pub(super) const fn has_rates(&self) -> bool {
        has_rates(self.rates)
    }

    #[inline]
    pub(super) const fn is_timed(&self) -> bool {
        is_timed(self.rates)
    }

    /// Returns whether the window is one of time.
    pub(super) const fn is_of_time(&self) -> bool {
        WindowShape::is_timed(KIND.get(self.rates))
    }

    #[inline]
    pub(super) const fn is_slow(&self, micros: u64) -> bool {
        SLOW_RATE.get(self.rates) > 0 && micros >= SLOW_AFTER.get(self.slow)
    }

    /// Returns the shape of a window of calls where slow calls do not count.
    #[inline]
    pub(super) const fn untimed_shape(&self) -> WindowShape {
        WindowShape::of_calls(KIND.get(self.rates), CALLS.get(self.rates) as u32)
    }

    #[inline]
    pub(super) const fn shape(&self) -> WindowShape {
        WindowShape::from_parts(
            KIND.get(self.rates),
            CALLS.get(self.rates) as u32,
            SLOW_RATE.get(self.rates) > 0,
            self.bucket_length,
            BASE.get(self.slow),
        )
    }

    /// Returns the number under which outcomes of a generation are recorded.
    #[inline]
    pub(super) const fn recorded_as(&self, generation: Generation) -> Generation {
        Generation::from_bits(
            WINDOW.get(WINDOW.put(generation.to_bits() as u64).wrapping_add(self.rates & WINDOW.put(WINDOW.max()))),
        )
    }

    /// Returns whether outcomes recorded under `recorded_as` belong to this window.
    ///
    /// After a change of the window only those of the last 1,171 generations ([`WINDOW_STEP`]) count.
    pub(super) const fn has(&self, recorded_as: Generation, current: Generation) -> bool {
        let ago = WINDOW
            .put(self.recorded_as(current).to_bits() as u64)
            .wrapping_sub(WINDOW.put(recorded_as.to_bits() as u64));
        WINDOW.get(self.rates) == 0 || WINDOW.get(ago) < WINDOW_STEP
    }

    /// Returns whether outcomes are recorded in the same window.
    pub(super) const fn has_window_of(&self, other: &Self) -> bool {
        WINDOW.get(self.rates) == WINDOW.get(other.rates)
    }

    /// Returns why the counts of the window trip the breaker, or `None` if they do not.
    #[inline]
    pub(super) fn trip_cause(&self, counts: OutcomeCounts) -> Option<Cause> {
        // A rate is at least one percent.
        if counts.failed | counts.slow == 0 || u64::from(counts.calls) < MINIMUM.get(self.rates) {
            return None;
        }
        let is_reached = |rate: u64, of: u32| rate > 0 && u64::from(of) * 100 >= rate * u64::from(counts.calls);
        if is_reached(FAILURE_RATE.get(self.rates), counts.failed) {
            Some(Cause::FailureRate)
        } else if is_reached(SLOW_RATE.get(self.rates), counts.slow) {
            Some(Cause::SlowRate)
        } else {
            None
        }
    }
}

/// Returns the base of buckets of `length` that follow others of `old_length` at `now`.
///
/// Their numbers go on after a gap of more than a window. While there are no buckets (a length of 0), time does not count.
fn base_after((old_length, old_base): (u64, u64), length: u64, now: u64) -> u64 {
    const GAP: u64 = 3 * WindowShape::MOST_BUCKETS;
    let number = |length: u64| now.checked_div(length).unwrap_or(0);
    old_base.wrapping_add(number(old_length)).wrapping_add(GAP).wrapping_sub(number(length))
}

const fn has_rates(rates: u64) -> bool {
    rates & (FAILURE_RATE.put(FAILURE_RATE.max()) | SLOW_RATE.put(SLOW_RATE.max())) != 0
}

const fn is_timed(rates: u64) -> bool {
    SLOW_RATE.get(rates) > 0 || has_rates(rates) && WindowShape::is_timed(KIND.get(rates))
}

/// The inputs of a cooldown beside the settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CooldownRequest {
    /// The wait that the server asked for; zero if none.
    pub(super) retry_after: Duration,
    /// The breaker's address, for the jitter: it differs between breakers.
    pub(super) address: u64,
}

/// A record as the rules read it, which counts if it is still in force afterwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BreakerSettings<'a> {
    pub(super) epoch: usize,
    pub(super) record: &'a Record,
    pub(super) state: &'a BreakerState,
}

impl BreakerSettings<'_> {
    /// Returns whether a probe of this duration counts as failed.
    pub(super) fn is_slow(self, micros: u64) -> bool {
        self.record.window().is_slow(micros)
    }

    /// Returns whether slow calls count.
    pub(super) fn counts_slow_calls(self) -> bool {
        SLOW_RATE.get(self.record.rates()) > 0
    }

    pub(super) fn abandoned_probes_fail(self) -> bool {
        ABANDONED.get(self.record.trip.load(Ordering::Relaxed)) != 0
    }

    /// Returns the cooldown after `reopens` reopenings, without jitter, in microseconds.
    fn cooldown(self, reopens: u32) -> u64 {
        let factor = FACTOR.get(self.record.trip.load(Ordering::Relaxed));
        let most = self.record.max_cooldown.load(Ordering::Relaxed);
        let mut time = COOLDOWN.get(self.record.probes.load(Ordering::Relaxed));
        for _ in 0..reopens {
            // Below 2^44, times at most 2^14.
            time = (time * factor / 1_000).min(most);
        }
        time
    }

    fn max_retry_after(self) -> u64 {
        TIME.get(self.record.wait.load(Ordering::Relaxed))
    }

    fn max_half_open(self) -> u64 {
        TIME.get(self.record.half_open.load(Ordering::Relaxed))
    }

    fn ramp(self) -> Option<Ramp> {
        let shape = match RAMP.get(self.record.trip.load(Ordering::Relaxed)) {
            STEPS => RampShape::Steps,
            LINEAR => RampShape::Linear,
            _ => return None,
        };
        let half = |word: &Versioned64| HALF_RAMP.get(word.load(Ordering::Relaxed));
        Some(Ramp { shape, micros: half(&self.record.wait) << HALF_RAMP.bits() | half(&self.record.half_open) })
    }
}

impl Settings for BreakerSettings<'_> {
    type Word = u64;
    type Now = MicrosReading;
    type Request = CooldownRequest;

    #[inline]
    fn failure_threshold(self) -> Option<u32> {
        match FAILURES.get(self.record.trip.load(Ordering::Relaxed)) as u32 {
            u32::MAX => None,
            threshold => Some(threshold),
        }
    }

    #[inline]
    fn probe_limits(self) -> ProbeLimits {
        let probes = self.record.probes.load(Ordering::Relaxed);
        ProbeLimits { most_in_flight: PROBES.get(probes) as u32, successes_to_close: SUCCESSES.get(probes) as u32 }
    }

    #[inline]
    fn probe_failure_rate(self) -> Option<u32> {
        match PROBE_RATE.get(self.record.trip.load(Ordering::Relaxed)) as u32 {
            0 => None,
            percent => Some(percent),
        }
    }

    fn open_until(
        self,
        reopens: u32,
        now: MicrosReading,
        CooldownRequest { retry_after, address }: CooldownRequest,
    ) -> u64 {
        let mut time = self.cooldown(reopens);
        let most = time / 100 * JITTER.get(self.record.trip.load(Ordering::Relaxed));
        // Random, and less than the whole cooldown, so that some time remains.
        time -= random::below(most, random::scatter(address, now.micros));
        let asked_for = Micros::of_duration(retry_after).min(self.max_retry_after());
        WrappingMicros::from_micros(now.micros).after(time.max(asked_for).max(1)).to_bits()
    }

    /// Returns the rest of the cooldown.
    ///
    /// Times wrap, so one that lies further ahead than a cooldown can reach passed long ago. Half the range is the farthest that
    /// a time can lie ahead, whatever the skew.
    #[inline]
    fn cooldown_left(self, until: u64, now: MicrosReading) -> u64 {
        let left = WrappingMicros::from_micros(until).since(WrappingMicros::from_micros(now.micros));
        let longest = self.state.longest_cooldown().saturating_add(now.skew);
        if left > WrappingMicros::FARTHEST || left > longest { 0 } else { left }
    }

    #[inline]
    fn has_half_open_deadline(self) -> bool {
        self.max_half_open() > 0
    }

    /// The start of the state is recorded beside the word.
    #[inline]
    fn half_open_until(self, _: MicrosReading) -> u32 {
        0
    }

    fn is_half_open_over(self, current: Snapshot<u64>, now: MicrosReading) -> bool {
        let since = self.state.since(current.generation());
        since.is_some_and(|since| elapsed(since, now) >= self.max_half_open())
    }

    #[inline]
    fn returns_gradually(self) -> bool {
        RAMP.get(self.record.trip.load(Ordering::Relaxed)) != 0
    }

    fn share(self, current: Snapshot<u64>, now: MicrosReading) -> Option<Share> {
        // Until the start is recorded, the ramp is at its beginning.
        let since = self.state.since(current.generation()).unwrap_or(now.micros);
        let stage = self.ramp()?.stage_at(elapsed(since, now))?;
        Some(Share { stage, seed: random::scatter(current.generation().to_bits().into(), since) })
    }
}

/// Returns the microseconds since the recorded start of a state.
///
/// They are 0 if the clock stepped back to before it.
/// The record has fewer bits than the clock's reading, so both wrap.
fn elapsed(since: u64, now: MicrosReading) -> u64 {
    u64::try_from(SINCE.ahead(now.micros, since)).unwrap_or(0)
}

const fn percent(rate: Option<u32>) -> u64 {
    match rate {
        Some(percent) => percent as u64,
        None => 0,
    }
}
