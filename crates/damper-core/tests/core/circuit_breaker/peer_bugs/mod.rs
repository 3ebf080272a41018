//! Bugs seen in other circuit breakers, each reproduced by a small copy that must fail its test.
//!
//! | bug | effect | test | copy |
//! |---|---|---|---|
//! | half-open admits everyone | 64 of 64 calls | `probes_at_once_are_limited` | `admits_everyone` |
//! | a fixed rule replaces the configured number of successes | closed by the first of three | `closing_takes_the_configured_successes` | `first_success_closes` |
//! | a late result counts in the current state | a stale failure re-opens, a stale success closes | `result_from_before_the_trip_is_discarded` | `no_generation` |
//! | a probe that unwinds or is cancelled keeps its place | half-open for ever | `probe_without_a_result_frees_its_place` | `never_given_back` |
//! | a permit returns a place that it did not take | more probes than allowed | `permit_from_before_the_trip_frees_no_place` | `given_back_twice` |
//! | the state is computed without reading the clock | open after the cooldown | `state_is_half_open_after_the_cooldown` | `state_without_time` |
//! | a cooldown that doubles without a bound | a product that does not fit | `cooldown_stays_bounded_while_probes_fail` | `doubles_for_ever` |
//! | a count window that never slides | 10,000 failures needed after 10,000 successes | `window_of_calls_forgets_old_successes` | `never_slides` |
//! | a window in whole seconds | 900 ms are read as 0 s | `window_of_900_ms_works` | `whole_seconds` |
//! | a window shorter than its slices | a division by zero | `window_of_four_milliseconds_works` | `slices_of_nothing` |
//! | a window with a clock of its own | calls of an hour ago count | `window_uses_the_given_clock` | `clock_of_its_own` |
//! | a ring of no calls | a panic under a spin lock, and then a hang | `window_of_no_calls_is_refused` | `ring_of_nothing` |

mod admits_everyone;
#[cfg(feature = "alloc")]
mod clock_of_its_own;
mod counted_places;
mod doubles_for_ever;
mod first_success_closes;
mod given_back_twice;
mod never_given_back;
mod never_slides;
mod no_generation;
mod ring_of_nothing;
#[cfg(feature = "alloc")]
mod slices_of_nothing;
mod state_without_time;
#[cfg(feature = "alloc")]
mod whole_seconds;

use admits_everyone::AdmitsEveryone;
#[cfg(feature = "alloc")]
use clock_of_its_own::ClockOfItsOwn;
use damper::breaker::{Permit, State, Window};
use damper::{BreakerConfig, CircuitBreaker, Clock};
use doubles_for_ever::DoublesForEver;
use first_success_closes::FirstSuccessCloses;
use given_back_twice::GivenBackTwice;
use never_given_back::NeverGivenBack;
use never_slides::NeverSlides;
use no_generation::NoGeneration;
use ring_of_nothing::RingOfNothing;
#[cfg(feature = "alloc")]
use slices_of_nothing::SlicesOfNothing;
use state_without_time::StateWithoutTime;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
#[cfg(feature = "alloc")]
use whole_seconds::WholeSeconds;

/// The cooldown of the breakers tripped by consecutive failures, in milliseconds.
const COOLDOWN: u64 = 1_000;

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Success,
    Failure,
    /// The caller drops its permit.
    Dropped,
}

/// A breaker that one failure trips. Callers pass the time in milliseconds.
trait Probed {
    type Permit<'a>
    where
        Self: 'a;
    fn new(probes: u32, successes: u32) -> Self;
    fn acquire(&self, now: u64) -> Option<Self::Permit<'_>>;
    fn record(&self, permit: Self::Permit<'_>, outcome: Outcome, now: u64);
    fn state(&self, now: u64) -> State;
}

/// A breaker whose cooldown starts at a second and doubles with each failed probe, up to an hour.
trait Cooling {
    fn new() -> Self;
    /// Trips the breaker or fails its probe, and returns for how many milliseconds it is open.
    fn fail(&mut self) -> u64;
}

/// A window that trips when half of at least ten calls fail.
trait Windowed {
    /// Records a call at a time in milliseconds, and returns whether the breaker trips.
    fn record(&mut self, now: u64, failed: bool) -> bool;
}

/// A window of the last calls.
trait OfCalls: Windowed {
    fn new(calls: u32) -> Self;
}

/// A window of the last milliseconds.
#[cfg(feature = "alloc")]
trait OfTime: Windowed {
    fn new(millis: u64) -> Self;
}

struct Damper {
    breaker: CircuitBreaker<HostListener>,
    now: Rc<Cell<u64>>,
}

/// A clock in milliseconds that the test sets.
struct HostListener(Rc<Cell<u64>>);

impl Clock for HostListener {
    fn now(&self) -> u64 {
        self.0.get()
    }

    fn frequency(&self) -> u64 {
        1_000
    }
}

impl Damper {
    fn of(config: BreakerConfig) -> Self {
        let now = Rc::default();
        Self { breaker: CircuitBreaker::with_clock(config, HostListener(Rc::clone(&now))), now }
    }

    fn with(window: Window) -> Self {
        let config = BreakerConfig::builder().failure_threshold(u32::MAX).failure_rate(50).minimum_calls(10);
        Self::of(config.window(window).build().unwrap())
    }
}

impl Probed for Damper {
    type Permit<'a> = Permit<&'a CircuitBreaker<HostListener>>;

    fn new(probes: u32, successes: u32) -> Self {
        let config = BreakerConfig::builder().failure_threshold(1).cooldown(Duration::from_millis(COOLDOWN));
        Self::of(config.max_probes(probes).successes_to_close(successes).build().unwrap())
    }

    fn acquire(&self, now: u64) -> Option<Self::Permit<'_>> {
        self.now.set(now);
        self.breaker.try_acquire().ok()
    }

    fn record(&self, permit: Self::Permit<'_>, outcome: Outcome, now: u64) {
        self.now.set(now);
        match outcome {
            Outcome::Success => permit.success(),
            Outcome::Failure => permit.failure(),
            Outcome::Dropped => drop(permit),
        }
    }

    fn state(&self, now: u64) -> State {
        self.now.set(now);
        self.breaker.state()
    }
}

impl Cooling for Damper {
    fn new() -> Self {
        let config = BreakerConfig::builder().failure_threshold(1).cooldown(Duration::from_secs(1));
        Self::of(config.cooldown_factor(2.0).max_cooldown(Duration::from_secs(60 * 60)).build().unwrap())
    }

    fn fail(&mut self) -> u64 {
        self.breaker.try_acquire().unwrap().failure();
        let open_for = self.breaker.status().next_probe_in().unwrap().as_millis() as u64;
        self.now.update(|now| now + open_for);
        open_for
    }
}

impl OfCalls for Damper {
    fn new(calls: u32) -> Self {
        Self::with(Window::last_calls(calls))
    }
}

#[cfg(feature = "alloc")]
impl OfTime for Damper {
    fn new(millis: u64) -> Self {
        Self::with(Window::last(Duration::from_millis(millis)))
    }
}

impl Windowed for Damper {
    fn record(&mut self, now: u64, failed: bool) -> bool {
        self.now.set(now);
        let permit = self.breaker.try_acquire().unwrap();
        if failed {
            permit.failure();
        } else {
            permit.success();
        }
        self.breaker.state() == State::Open
    }
}

/// Trips the breaker at time 0.
fn trip(breaker: &impl Probed) {
    let permit = breaker.acquire(0).unwrap();
    breaker.record(permit, Outcome::Failure, 0);
    assert!(breaker.acquire(0).is_none());
}

fn panics(what: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(what)).is_err()
}

#[test]
fn probes_at_once_are_limited() {
    /// How many of 64 calls get a permit after the cooldown while none of them ends.
    fn held<B: Probed>() -> usize {
        let breaker = B::new(3, 1);
        trip(&breaker);
        let held: Vec<_> = (0..64).filter_map(|_| breaker.acquire(COOLDOWN)).collect();
        held.len()
    }
    assert_eq!(held::<Damper>(), 3);
    assert_eq!(held::<AdmitsEveryone>(), 64, "the copy has the bug");
}

#[test]
fn closing_takes_the_configured_successes() {
    /// How many successes close the breaker if three are configured.
    fn taken<B: Probed>() -> u32 {
        let breaker = B::new(1, 3);
        trip(&breaker);
        (1..64)
            .find(|_| {
                let permit = breaker.acquire(COOLDOWN).unwrap();
                breaker.record(permit, Outcome::Success, COOLDOWN);
                breaker.state(COOLDOWN) == State::Closed
            })
            .unwrap()
    }
    assert_eq!(taken::<Damper>(), 3);
    assert_eq!(taken::<FirstSuccessCloses>(), 1, "the setting has no effect");
}

#[test]
fn result_from_before_the_trip_is_discarded() {
    /// The state after a result from before the trip arrives while a probe is in flight.
    fn state_after<B: Probed>(outcome: Outcome) -> State {
        let breaker = B::new(1, 1);
        let late = breaker.acquire(0).unwrap();
        trip(&breaker);
        let _probe = breaker.acquire(COOLDOWN).unwrap();
        breaker.record(late, outcome, COOLDOWN);
        breaker.state(COOLDOWN)
    }
    assert_eq!(state_after::<Damper>(Outcome::Failure), State::HalfOpen);
    assert_eq!(state_after::<Damper>(Outcome::Success), State::HalfOpen);
    assert_eq!(state_after::<NoGeneration>(Outcome::Failure), State::Open, "a recovering breaker opens again");
    assert_eq!(state_after::<NoGeneration>(Outcome::Success), State::Closed, "closes without a successful probe");
}

#[test]
fn probe_without_a_result_frees_its_place() {
    /// Whether the breaker ever admits another probe.
    fn is_probed_again<B: Probed>() -> bool {
        let breaker = B::new(1, 1);
        trip(&breaker);
        let probe = breaker.acquire(COOLDOWN).unwrap();
        breaker.record(probe, Outcome::Dropped, COOLDOWN);
        (0..1_000).any(|cooldowns| breaker.acquire(cooldowns * COOLDOWN).is_some())
    }
    assert!(is_probed_again::<Damper>());
    assert!(!is_probed_again::<NeverGivenBack>(), "half-open for ever");
}

#[test]
fn permit_from_before_the_trip_frees_no_place() {
    /// How many probes are in flight, of one allowed.
    fn out<B: Probed>() -> usize {
        let breaker = B::new(1, 1);
        let late: Vec<_> = (0..5).map(|_| breaker.acquire(0).unwrap()).collect();
        trip(&breaker);
        let mut probes = vec![breaker.acquire(COOLDOWN).unwrap()];
        for late in late {
            breaker.record(late, Outcome::Dropped, COOLDOWN);
            probes.extend(breaker.acquire(COOLDOWN));
        }
        probes.len()
    }
    assert_eq!(out::<Damper>(), 1);
    assert_eq!(out::<GivenBackTwice>(), 6, "each of the five frees a place");
}

#[test]
fn state_is_half_open_after_the_cooldown() {
    fn state<B: Probed>() -> State {
        let breaker = B::new(1, 1);
        trip(&breaker);
        breaker.state(COOLDOWN)
    }
    assert_eq!(state::<Damper>(), State::HalfOpen);
    assert_eq!(state::<StateWithoutTime>(), State::Open, "until the next call");
}

#[test]
fn cooldown_stays_bounded_while_probes_fail() {
    /// The longest time for which it is open.
    fn longest<B: Cooling>() -> u64 {
        let mut breaker = B::new();
        (0..100).map(|_| breaker.fail()).max().unwrap()
    }
    assert_eq!(longest::<Damper>(), 3_600_000);
    assert!(panics(|| _ = longest::<DoublesForEver>()), "the copy has the bug");
}

#[test]
fn window_of_calls_forgets_old_successes() {
    /// How many failures trip a window of 20 calls after 10,000 successes.
    fn needed<B: OfCalls>() -> u32 {
        let mut window = B::new(20);
        (0..10_000).for_each(|_| assert!(!window.record(0, false)));
        (1..20_000).find(|_| window.record(0, true)).unwrap()
    }
    assert_eq!(needed::<Damper>(), 10);
    assert_eq!(needed::<NeverSlides>(), 10_000, "for half of all calls ever");
}

#[cfg(feature = "alloc")]
#[test]
fn window_of_900_ms_works() {
    /// How many failures, one every 20 ms, trip it.
    fn needed<B: OfTime>() -> Option<u64> {
        let mut window = B::new(900);
        (1..1_000).find(|call| window.record(call * 20, true))
    }
    assert_eq!(needed::<Damper>(), Some(10));
    assert_eq!(needed::<WholeSeconds>(), None, "a window of 0 s is always empty");
}

#[cfg(feature = "alloc")]
#[test]
fn window_of_four_milliseconds_works() {
    fn trips<B: OfTime>() -> bool {
        let mut window = B::new(4);
        (0..10).any(|_| window.record(5, true))
    }
    assert!(trips::<Damper>());
    assert!(panics(|| _ = trips::<SlicesOfNothing>()), "a fifth of it is 0 ms");
}

#[cfg(feature = "alloc")]
#[test]
fn window_uses_the_given_clock() {
    /// Whether failures from an hour ago trip a window of ten seconds.
    fn trips<B: OfTime>() -> bool {
        let mut window = B::new(10_000);
        (0..9).for_each(|_| assert!(!window.record(0, true)));
        window.record(3_600_000, true)
    }
    assert!(!trips::<Damper>());
    assert!(trips::<ClockOfItsOwn>(), "the system's clock has not advanced");
}

#[test]
fn window_of_no_calls_is_refused() {
    let refused = BreakerConfig::builder().window(Window::last_calls(0)).build();
    assert_eq!(refused.unwrap_err().setting(), "window", "the error names it");
    let ring = RingOfNothing::new(0);
    assert!(panics(|| _ = ring.record(true)), "a remainder by zero");
    assert_eq!(ring.record(true), None, "the lock is then held for ever");
}
