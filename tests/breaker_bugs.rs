//! Bugs that were seen in other circuit breakers, each against damper and against a small copy of the bug: the copy
//! must fail, so that the test is known to be able to.
//!
//! | bug | what was seen | test | copy in `breaker_bugs/` |
//! |---|---|---|---|
//! | half-open admits everyone | 64 of 64 calls | `probes_at_once_are_limited` | `admits_everyone` |
//! | a fixed rule where a number of successes was wanted | closed by the first of three | `closing_takes_the_configured_successes` | `first_success_closes` |
//! | a result is credited to whatever the state is by then | a stale failure re-opens, a stale success closes | `result_from_before_the_trip_is_discarded` | `no_generation` |
//! | a probe that unwinds or is cancelled keeps its place | half-open for ever | `probe_without_a_result_frees_its_place` | `never_given_back` |
//! | a place is given back that was not taken | more probes than allowed | `permit_from_before_the_trip_frees_no_place` | `given_back_twice` |
//! | the state is computed without reading the clock | open after the cooldown | `state_is_half_open_after_the_cooldown` | `state_without_time` |
//! | a cooldown that doubles without a bound | a product that does not fit | `cooldown_stays_bounded_while_probes_fail` | `doubles_for_ever` |
//! | a count window that never slides | 10,000 failures needed after 10,000 successes | `window_of_calls_forgets_old_successes` | `never_slides` |
//! | a window in whole seconds | 900 ms are read as 0 s | `window_of_900_ms_works` | `whole_seconds` |
//! | a window shorter than its slices | a division by zero | `window_of_four_milliseconds_works` | `slices_of_nothing` |
//! | a window with a clock of its own | calls of an hour ago count | `window_uses_the_given_clock` | `clock_of_its_own` |
//! | a ring of no calls | a panic under a spin lock, and then a hang | `window_of_no_calls_is_refused` | `ring_of_nothing` |

mod breaker_bugs {
    pub(crate) mod admits_everyone;
    #[cfg(feature = "alloc")]
    pub(crate) mod clock_of_its_own;
    mod counted_places;
    pub(crate) mod doubles_for_ever;
    pub(crate) mod first_success_closes;
    pub(crate) mod given_back_twice;
    pub(crate) mod never_given_back;
    pub(crate) mod never_slides;
    pub(crate) mod no_generation;
    pub(crate) mod ring_of_nothing;
    #[cfg(feature = "alloc")]
    pub(crate) mod slices_of_nothing;
    pub(crate) mod state_without_time;
    #[cfg(feature = "alloc")]
    pub(crate) mod whole_seconds;
}

use breaker_bugs::admits_everyone::AdmitsEveryone;
#[cfg(feature = "alloc")]
use breaker_bugs::clock_of_its_own::ClockOfItsOwn;
use breaker_bugs::doubles_for_ever::DoublesForEver;
use breaker_bugs::first_success_closes::FirstSuccessCloses;
use breaker_bugs::given_back_twice::GivenBackTwice;
use breaker_bugs::never_given_back::NeverGivenBack;
use breaker_bugs::never_slides::NeverSlides;
use breaker_bugs::no_generation::NoGeneration;
use breaker_bugs::ring_of_nothing::RingOfNothing;
#[cfg(feature = "alloc")]
use breaker_bugs::slices_of_nothing::SlicesOfNothing;
use breaker_bugs::state_without_time::StateWithoutTime;
#[cfg(feature = "alloc")]
use breaker_bugs::whole_seconds::WholeSeconds;
use damper::{BreakerConfig, BreakerConfigError, CircuitBreaker, Clock, Permit, State, Window};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Of those that are tripped by consecutive failures, in milliseconds.
const COOLDOWN: u64 = 1_000;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Success,
    Failure,
    /// Its permit was dropped.
    Dropped,
}

/// A breaker that one failure trips, and that is given the time in milliseconds.
trait Probed {
    type Permit<'a>
    where
        Self: 'a;
    fn new(probes: u32, successes: u32) -> Self;
    fn acquire(&self, now: u64) -> Option<Self::Permit<'_>>;
    fn record(&self, permit: Self::Permit<'_>, outcome: Outcome, now: u64);
    fn state(&self, now: u64) -> State;
}

/// A breaker whose cooldown is a second, and doubles each time that its probe fails, up to an hour.
trait Cooling {
    fn new() -> Self;
    /// Trips it, or fails its probe; how many milliseconds it is open then.
    fn fail(&mut self) -> u64;
}

/// A window that trips when half of its calls fail, of ten at the least.
trait Windowed {
    /// Records a call at a time in milliseconds, and returns whether it trips.
    fn record(&mut self, now: u64, failed: bool) -> bool;
}

/// The last calls.
trait OfCalls: Windowed {
    fn new(calls: u32) -> Self;
}

/// The last so many milliseconds.
#[cfg(feature = "alloc")]
trait OfTime: Windowed {
    fn new(millis: u64) -> Self;
}

struct Damper {
    breaker: CircuitBreaker<HostListener>,
    now: Rc<Cell<u64>>,
}

/// A clock of milliseconds that shows what it was set to.
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

/// Trips it at the time 0.
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
    /// Of 64 calls that ask for a permit when the cooldown is over, while none ends.
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
    /// How many it takes where three were asked for.
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
    assert_eq!(taken::<FirstSuccessCloses>(), 1, "whatever was asked for");
}

#[test]
fn result_from_before_the_trip_is_discarded() {
    /// The state after such a result of a call that was made before the trip arrives while a probe is out.
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
    assert_eq!(state_after::<NoGeneration>(Outcome::Success), State::Closed, "one that nobody has probed closes");
}

#[test]
fn probe_without_a_result_frees_its_place() {
    /// Whether another may probe, ever.
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
    /// How many probes are out, of one that is allowed.
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
    assert_eq!(out::<GivenBackTwice>(), 6, "each of the five gave a place");
}

#[test]
fn state_is_half_open_after_the_cooldown() {
    fn state<B: Probed>() -> State {
        let breaker = B::new(1, 1);
        trip(&breaker);
        breaker.state(COOLDOWN)
    }
    assert_eq!(state::<Damper>(), State::HalfOpen);
    assert_eq!(state::<StateWithoutTime>(), State::Open, "until somebody asks");
}

#[test]
fn cooldown_stays_bounded_while_probes_fail() {
    /// The longest time that it is open.
    fn longest<B: Cooling>() -> u64 {
        let mut breaker = B::new();
        (0..100).map(|_| breaker.fail()).max().unwrap()
    }
    assert_eq!(longest::<Damper>(), 3_600_000);
    assert!(panics(|| _ = longest::<DoublesForEver>()), "the copy has the bug");
}

#[test]
fn window_of_calls_forgets_old_successes() {
    /// How many it takes to trip a window of 20 calls after 10,000 successes.
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
    /// How many failures, one each 20 ms, trip it.
    fn needed<B: OfTime>() -> Option<u64> {
        let mut window = B::new(900);
        (1..1_000).find(|call| window.record(call * 20, true))
    }
    assert_eq!(needed::<Damper>(), Some(10));
    assert_eq!(needed::<WholeSeconds>(), None, "of no calls in 0 s none ever fails");
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
    /// Whether failures of an hour ago trip a window of ten seconds.
    fn trips<B: OfTime>() -> bool {
        let mut window = B::new(10_000);
        (0..9).for_each(|_| assert!(!window.record(0, true)));
        window.record(3_600_000, true)
    }
    assert!(!trips::<Damper>());
    assert!(trips::<ClockOfItsOwn>(), "on the system's clock no hour went by");
}

#[test]
fn window_of_no_calls_is_refused() {
    let refused = BreakerConfig::builder().window(Window::last_calls(0)).build();
    assert!(matches!(refused, Err(BreakerConfigError::WindowCalls { .. })), "it is refused, by name");
    let ring = RingOfNothing::new(0);
    assert!(panics(|| _ = ring.record(true)), "a remainder by zero");
    assert_eq!(ring.record(true), None, "and then the lock is held for ever");
}
