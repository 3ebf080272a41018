//! The work of a request: a loop that takes a known time of a core.

use damper::{Deadline, DeadlineExceeded};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// How often the work looks at its deadline.
const SLICES: u64 = 10;

/// So many turns of a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    turns: u64,
}

impl Work {
    /// Finds out how many turns take so long on an idle core.
    pub(crate) fn calibrated(time: Duration) -> Self {
        const TRIAL: u64 = 4_000_000;
        // The fastest: what disturbs a trial makes it slower.
        let trials = (0..10).map(|_| {
            let started = Instant::now();
            spin(TRIAL);
            started.elapsed()
        });
        let fastest = trials.min().unwrap_or(time).as_secs_f64();
        Self { turns: (f64::from(TRIAL as u32) * time.as_secs_f64() / fastest) as u64 }
    }

    /// Does the work, and ends it at the deadline.
    pub(crate) fn run(self, deadline: Deadline) -> Result<(), DeadlineExceeded> {
        for _ in 0..SLICES {
            deadline.check()?;
            spin(self.turns / SLICES);
        }
        Ok(())
    }
}

/// A chain of multiplications, each of which needs the one before.
fn spin(turns: u64) {
    let mut value = black_box(1_u64);
    for _ in 0..turns {
        value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    black_box(value);
}
