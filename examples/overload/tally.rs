//! The fates of the requests of one run.

use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) const CLASSES: usize = 4;

/// How a request ended, as its client saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// Answered within the deadline, so long after it was due.
    InTime(Duration),
    /// Refused by 503.
    Refused,
    /// Not answered by the deadline, or by 504.
    Missed,
    /// A broken connection, or any other status.
    Failed,
}

/// The requests of one class.
#[derive(Clone, Debug)]
pub(crate) struct ClassTally {
    pub(crate) offered: u64,
    pub(crate) in_time: u64,
    pub(crate) refused: u64,
    pub(crate) missed: u64,
    pub(crate) failed: u64,
    /// Of those in time, in microseconds.
    latency: Histogram<u64>,
}

impl ClassTally {
    /// The share of the offered requests that were answered within their deadline.
    pub(crate) fn goodput(&self) -> f64 {
        share(self.in_time, self.offered)
    }

    /// In milliseconds; `None` if nothing was answered in time.
    pub(crate) fn latency(&self, quantile: f64) -> Option<f64> {
        (!self.latency.is_empty()).then(|| milliseconds(self.latency.value_at_quantile(quantile)))
    }
}

/// All requests of a run that count.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) classes: [ClassTally; CLASSES],
    /// How long after they were due requests were sent, in microseconds.
    lag: Histogram<u64>,
}

impl Tally {
    pub(crate) fn new() -> Result<Self, hdrhistogram::CreationError> {
        const LONGEST: u64 = 60_000_000;
        let times = Histogram::new_with_bounds(1, LONGEST, 3)?;
        let class = ClassTally { offered: 0, in_time: 0, refused: 0, missed: 0, failed: 0, latency: times.clone() };
        Ok(Self { classes: [class.clone(), class.clone(), class.clone(), class], lag: times })
    }

    pub(crate) fn add(&mut self, class: usize, lag: Duration, answer: Answer) {
        self.lag.saturating_record(lag.as_micros() as u64);
        let class = &mut self.classes[class];
        class.offered += 1;
        match answer {
            Answer::InTime(latency) => {
                class.in_time += 1;
                class.latency.saturating_record(latency.as_micros() as u64);
            }
            Answer::Refused => class.refused += 1,
            Answer::Missed => class.missed += 1,
            Answer::Failed => class.failed += 1,
        }
    }

    /// The 99th percentile of how late requests were sent, in milliseconds.
    pub(crate) fn lag(&self) -> f64 {
        milliseconds(self.lag.value_at_quantile(0.99))
    }

    /// The share of the offered requests of all classes of which `part` holds.
    pub(crate) fn share(&self, part: fn(&ClassTally) -> u64) -> f64 {
        share(self.classes.iter().map(part).sum(), self.classes.iter().map(|class| class.offered).sum())
    }
}

/// The fates of the work that the server began.
#[derive(Debug, Default)]
pub(crate) struct WorkTally {
    finished: AtomicU64,
    late: AtomicU64,
    ended: AtomicU64,
}

impl WorkTally {
    pub(crate) fn finished(&self, in_time: bool) {
        // The counters are read when the server's threads have ended.
        self.finished.fetch_add(1, Ordering::Relaxed);
        self.late.fetch_add(u64::from(!in_time), Ordering::Relaxed);
    }

    pub(crate) fn ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// The share of the finished work that came after its deadline.
    pub(crate) fn late_share(&self) -> f64 {
        share(self.late.load(Ordering::Relaxed), self.finished.load(Ordering::Relaxed))
    }

    /// The share of the begun work that was ended in the middle, at its deadline.
    pub(crate) fn ended_share(&self) -> f64 {
        let ended = self.ended.load(Ordering::Relaxed);
        share(ended, ended + self.finished.load(Ordering::Relaxed))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share is shown with three digits")]
fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

#[expect(clippy::cast_precision_loss, reason = "a time is shown with three digits")]
fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1_000.0
}
