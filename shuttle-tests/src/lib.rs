//! Random histories of damper, in random interleavings.
//!
//! Three or four threads have a dozen random operations each.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test --release --manifest-path shuttle-tests/Cargo.toml
//! SHUTTLE_TIMES=20 RUSTFLAGS=... (twenty times as many histories)    SHUTTLE_RANDOM_SEED=1 RUSTFLAGS=... (the same ones again)
//! ```
//!
//! shuttle is sequentially consistent: every load reads the last store, and orderings are ignored. So these are tests of
//! the logic, in histories that are too large for loom. The orderings are tested in `loom-tests`. A failure is printed
//! with its schedule, which `shuttle::replay` repeats.
//!
//! A history has to satisfy the guarantees that calls by themselves give: [`History`] knows of each call only between
//! which readings of the clock it was made. In brackets above a model: the weakenings of the code under which it was
//! seen to fail, by hand or in `loom-tests/weakenings/shuttle/`.
#![cfg(shuttle)]

pub mod history;

use damper_core::{Clock, ManualClock};
pub use history::History;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use std::sync::Arc;
use std::time::Duration;

/// The most preemptions that matter to a history of the second kind.
const DEPTH: usize = 4;

/// Checks a model in `histories` ones.
///
/// Half of them have a random thread at every step, half of them few preemptions, at random steps.
pub fn check(histories: usize, model: impl Fn() + Send + Sync + 'static) {
    let times = std::env::var("SHUTTLE_TIMES").map_or(1, |times| times.parse().expect("SHUTTLE_TIMES is a number"));
    let histories = histories * times / 2;
    let model = Arc::new(model);
    let random = Arc::clone(&model);
    Runner::new(RandomScheduler::new(histories), config()).run(move || random());
    Runner::new(PctScheduler::new(DEPTH, histories), config()).run(move || model());
}

/// Runs a model with a flaw that it has to notice: for the `should_panic` variant beside it.
pub fn check_flawed(model: impl Fn() + Send + Sync + 'static) {
    damper_core::sync::with_flaw(damper_core::sync::Flaw::BlindExchange, || {
        Runner::new(RandomScheduler::new(2_000), config()).run(model);
    });
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.silence_warnings = true;
    config
}

/// A number below `end`.
pub fn random(end: u64) -> u64 {
    thread_rng().gen_range(0..end)
}

/// A clock that all share, in nanoseconds.
pub type Time = Arc<ManualClock>;

pub fn time() -> Time {
    let time = ManualClock::new();
    time.advance_ticks(7);
    Arc::new(time)
}

/// Moves the clock by a quarter of a second, up to seven times.
pub fn advance(time: &Time) {
    time.advance(Duration::from_millis(250 * (1 + random(7))));
}

/// The result of `call`, and the readings of the clock before and after it.
pub fn timed<T>(time: &Time, call: impl FnOnce() -> T) -> ([u64; 2], T) {
    let from = time.now();
    let made = call();
    ([from, time.now()], made)
}

/// So many threads that do the same beside each other, each so many times.
pub fn together<S, A>(threads: usize, times: usize, shared: &Arc<S>, act: A)
where
    S: Send + Sync + 'static,
    A: Fn(&S, usize) + Copy + Send + 'static,
{
    let threads: Vec<_> = (0..threads)
        .map(|place| {
            let shared = Arc::clone(shared);
            thread::spawn(move || (0..times).for_each(|_| act(&shared, place)))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
