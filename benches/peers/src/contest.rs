//! Contests: a side of damper's and a side of a peer's.

use std::hint::{self, black_box};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// One row: something of damper's, and what does the same elsewhere.
#[derive(Debug)]
pub(crate) struct Contest {
    /// Unique among all rows.
    pub(crate) name: &'static str,
    pub(crate) damper: fn() -> Side,
    /// None where a row is there for its number alone.
    pub(crate) peer: Option<Peer>,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) side: fn() -> Side,
    /// The most that damper's time should be, as a part of this peer's. None where nothing was set.
    pub(crate) bar: Option<f64>,
}

/// Does something so many times and returns how long that took, without the preparation.
pub(crate) type Side = Box<dyn FnMut(u64) -> Duration>;

/// One thread that calls. Every call has to return true.
///
/// # Panics
///
/// The side panics when a call returned false: then it did other work than its row says.
pub(crate) fn calls(mut call: impl FnMut() -> bool + 'static) -> Side {
    Box::new(move |n| timed(n, &mut call))
}

/// The sum of what two sides take.
pub(crate) fn sum(mut first: Side, mut second: Side) -> Side {
    Box::new(move |n| first(n) + second(n))
}

/// Some threads that call at the same time, so many times each.
///
/// The time is that of the slowest: what a call costs its caller while the others call too.
///
/// # Panics
///
/// As `calls`.
pub(crate) fn calls_on_threads(threads: usize, call: impl Fn() -> bool + Sync + 'static) -> Side {
    Box::new(move |n| on_threads(threads, &|| timed(n, &call)))
}

/// As `calls_on_threads`, with a caller of its own for each thread.
///
/// The callers are made before the time runs.
///
/// # Panics
///
/// As `calls`.
pub(crate) fn callers_on_threads<C: FnMut() -> bool>(threads: usize, caller: impl Fn() -> C + Sync + 'static) -> Side {
    Box::new(move |n| {
        on_threads(threads, &|| {
            let mut call = caller();
            // The work before the first call.
            call();
            timed(n, call)
        })
    })
}

fn on_threads(threads: usize, run: &(impl Fn() -> Duration + Sync)) -> Duration {
    let start = Start { threads, turn: AtomicUsize::new(0) };
    let run = &|me| {
        start.meet(me);
        run()
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|me| scope.spawn(move || run(me))).collect();
        let own = run(0);
        others.into_iter().map(|other| other.join().expect("a call returned false")).fold(own, Duration::max)
    })
}

/// Where threads meet so that they run at the same time from there on.
///
/// A barrier would wake all of them, some on the core of the one that woke them, to run after it and not beside it. So
/// they pass a turn round instead, and none sleeps: on one core that takes so long that the system moves them apart.
struct Start {
    threads: usize,
    turn: AtomicUsize,
}

impl Start {
    const LAPS: usize = 50;

    fn meet(&self, me: usize) {
        for lap in 0..Self::LAPS {
            self.wait_for(lap * self.threads + me);
            self.turn.fetch_add(1, Ordering::Relaxed);
        }
        self.wait_for(Self::LAPS * self.threads);
    }

    fn wait_for(&self, turn: usize) {
        while self.turn.load(Ordering::Relaxed) < turn {
            hint::spin_loop();
        }
    }
}

#[inline]
fn timed(n: u64, mut call: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    let mut good = 0;
    for _ in 0..n {
        good += u64::from(black_box(call()));
    }
    let elapsed = started.elapsed();
    assert_eq!(good, n, "a call was not answered as its row says");
    elapsed
}
