//! The outcome of every request, as its client saw it.

use crate::plan::{Phase, Plan, Shot};
use histogram::Histogram;
use parking_lot::Mutex;
use std::time::Duration;

/// The width of a point of the chart.
pub(crate) const BIN: Duration = Duration::from_millis(100);

/// The bits of a latency that the histogram keeps: it is right to 1 in 1,024.
const PRECISION: u8 = 10;

/// Latencies of 2^26 µs, which are 67 s, and longer ones count as just below that.
const LONGEST: u8 = 26;

/// How a request ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Answered by the upstream, after so long.
    Allowed(Duration),
    /// 429.
    Limited,
    /// 503: the breaker is open.
    Refused,
    /// 502 or 504: the upstream failed.
    Failed,
    /// The gateway gave no answer that it may give.
    Broken(String),
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) allowed: u64,
    pub(crate) limited: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
}

impl Counts {
    pub(crate) fn answered(&self) -> u64 {
        self.allowed + self.limited + self.refused + self.failed
    }

    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Allowed(_) => self.allowed += 1,
            Outcome::Limited => self.limited += 1,
            Outcome::Refused => self.refused += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Broken(_) => {}
        }
    }
}

/// The outcomes of the requests of a [`BIN`], counted apart for the flooding client and the others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bin {
    pub(crate) flooder: Counts,
    pub(crate) others: Counts,
}

/// One phase, by the moment at which requests were due.
#[derive(Clone, Debug)]
pub(crate) struct PhaseTally {
    pub(crate) sent: u64,
    pub(crate) counts: Counts,
    /// The refusals (429) of clients that do not flood.
    pub(crate) limited_others: u64,
    /// Of allowed requests, in microseconds.
    pub(crate) latency: Histogram,
}

#[derive(Clone, Debug)]
pub(crate) struct Totals {
    pub(crate) phases: [PhaseTally; 4],
    /// Per [`BIN`], by the moment at which requests were due.
    pub(crate) bins: Vec<Bin>,
    pub(crate) broken: u64,
    pub(crate) first_broken: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Tally(Mutex<Totals>);

impl Tally {
    pub(crate) fn new(plan: &Plan) -> Result<Self, histogram::Error> {
        let phase = PhaseTally {
            sent: 0,
            counts: Counts::default(),
            limited_others: 0,
            latency: Histogram::new(PRECISION, LONGEST)?,
        };
        Ok(Self(Mutex::new(Totals {
            phases: [phase.clone(), phase.clone(), phase.clone(), phase],
            bins: vec![Bin::default(); plan.length().as_nanos().div_ceil(BIN.as_nanos()) as usize],
            broken: 0,
            first_broken: None,
        })))
    }

    /// A request was due, and goes out as soon as a connection is free.
    pub(crate) fn sent(&self, shot: Shot) {
        self.0.lock().phases[shot.phase as usize].sent += 1;
    }

    pub(crate) fn ended(&self, client: usize, shot: Shot, outcome: Outcome) {
        let mut totals = self.0.lock();
        let phase = &mut totals.phases[shot.phase as usize];
        phase.counts.count(&outcome);
        if let Outcome::Allowed(latency) = outcome {
            // Below the longest there is always a bucket.
            _ = phase.latency.increment(latency.as_micros().min((1 << LONGEST) - 1) as u64);
        }
        if client != 0 && matches!(outcome, Outcome::Limited) {
            phase.limited_others += 1;
        }
        if let Some(bin) = totals.bins.get_mut((shot.at.as_nanos() / BIN.as_nanos()) as usize) {
            if client == 0 { bin.flooder.count(&outcome) } else { bin.others.count(&outcome) }
        }
        if let Outcome::Broken(reason) = outcome {
            totals.broken += 1;
            totals.first_broken.get_or_insert(reason);
        }
    }

    pub(crate) fn phase(&self, phase: Phase) -> (u64, Counts) {
        let totals = self.0.lock();
        let tally = &totals.phases[phase as usize];
        (tally.sent, tally.counts)
    }

    pub(crate) fn read(&self) -> Totals {
        self.0.lock().clone()
    }
}
