//! How a contest is measured.
//!
//! Both sides take turns, in an order that changes from round to round, so that noise affects both alike. A round lasts
//! equally long for both. A calibration finds the number of calls that takes, and warms the side up. The report has the
//! median of each side and of the rounds' ratios, and the quartiles of damper's rounds and of the ratios.
//!
//! The stack is not where it was in the round before: a call that moves a request through a layer takes up to twice as long
//! where the stack begins 16 bytes further on, because the processor cannot forward a store to each load of another width.
//! At one place, which is chosen anew for each process, a ratio would be that of the place.
//!
//! Calls follow one another closely, so a processor overlaps several of them, and independent work hides behind the
//! slowest instruction. If that is the read of the processor's counter, which both sides need once per call, they cost
//! nearly the same: compare with `floor_clock`.

use crate::contest::{Contest, Side};
use crate::report::{Compared, Quartiles, Row};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// How long is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Odd, so that there is a middle one.
    rounds: usize,
    /// How long one side's part of a round lasts.
    round: Duration,
}

impl Effort {
    pub(crate) const FULL: Self = Self { rounds: 31, round: Duration::from_millis(30) };
    pub(crate) const QUICK: Self = Self { rounds: 9, round: Duration::from_millis(10) };
}

pub(crate) fn measure(contest: &Contest, effort: Effort) -> Row {
    let mut damper = Turns::new((contest.damper)(), effort);
    let mut peer = contest.peer.as_ref().map(|peer| Turns::new((peer.side)(), effort));
    for round in 0..effort.rounds {
        if round % 2 == 0 {
            damper.take(round);
        }
        if let Some(peer) = &mut peer {
            peer.take(round);
        }
        if round % 2 == 1 {
            damper.take(round);
        }
    }
    let compared = contest.peer.as_ref().zip(peer).map(|(peer, turns)| {
        let ratios = Rounds::new(damper.taken.iter().zip(&turns.taken).map(|(ours, theirs)| ours / theirs));
        Compared {
            peer: peer.name,
            peer_value: Rounds::new(turns.taken).median(),
            ratio: ratios.median(),
            ratio_quartiles: Some(ratios.quartiles()),
            bar: peer.bar,
        }
    });
    let ours = Rounds::new(damper.taken);
    Row { name: contest.name, unit: "ns", damper: ours.median(), quartiles: Some(ours.quartiles()), compared }
}

/// A side, and the nanoseconds that one call took in each round.
struct Turns {
    side: Side,
    calls: u64,
    taken: Vec<f64>,
}

impl Turns {
    fn new(mut side: Side, effort: Effort) -> Self {
        let calls = calls_in(effort.round, &mut side);
        Self { side, calls, taken: Vec::with_capacity(effort.rounds) }
    }

    fn take(&mut self, round: usize) {
        let nanos = deeper(FRAMES * round, &mut || (self.side)(self.calls)).as_nanos();
        self.taken.push(nanos as f64 / self.calls as f64);
    }
}

/// How many frames further the stack begins in each round.
///
/// A frame has some 50 bytes, so 31 rounds try each offset in a cache line several times, and reach over a page.
const FRAMES: usize = 3;

/// Runs something so many frames deeper in the stack.
#[inline(never)]
fn deeper(frames: usize, run: &mut dyn FnMut() -> Duration) -> Duration {
    let frame = [0_u8; 16];
    let elapsed = if frames == 0 { run() } else { deeper(frames - 1, run) };
    // Afterwards, so that the call above is no tail call, which would reuse this frame.
    black_box(&frame);
    elapsed
}

/// How many rounds the calls of one may last in truth.
const LONGEST_ROUNDS: u32 = 50;

/// How many calls take about so long.
fn calls_in(round: Duration, side: &mut Side) -> u64 {
    let mut calls = 16;
    loop {
        // The faster of two: a run that is descheduled, or calibrates a clock, would set the number of calls too low.
        let started = Instant::now();
        let elapsed = side(calls).min(side(calls));
        // A side that is a difference may come to nothing, however many calls it is given.
        if started.elapsed() >= round * LONGEST_ROUNDS {
            return calls;
        }
        if elapsed >= round / 2 {
            let scaled = calls as f64 * round.as_secs_f64() / elapsed.as_secs_f64();
            return (scaled as u64).max(1);
        }
        calls *= 2;
    }
}

/// One number of each round, in ascending order.
struct Rounds(Vec<f64>);

impl Rounds {
    fn new(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }

    /// The values between which the middle half of the rounds lies.
    fn quartiles(&self) -> Quartiles {
        let (last, quarter) = (self.0.len() - 1, self.0.len() / 4);
        Quartiles { low: self.0[quarter], high: self.0[last - quarter] }
    }
}
