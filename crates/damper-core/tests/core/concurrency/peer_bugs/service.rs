//! A service on the manual clock: workers, a queue in front of them, and callers at a fixed rate.

use damper::ManualClock;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// A limit on calls in flight: damper's or a copy of another.
pub(crate) trait Limit {
    type Permit;

    fn try_acquire(&self) -> Option<Self::Permit>;
    /// Ends a call that took `latency` seconds.
    fn ended(&self, permit: Self::Permit, latency: f64, end: End);
    fn limit(&self) -> f64;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    Overloaded,
}

/// The service time of a call, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Constant(f64),
    Exponential(f64),
}

/// The outcome of the calls of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// The latencies of successful calls, in seconds.
    pub(crate) latencies: Vec<f64>,
    /// The number of successful calls in each whole second.
    pub(crate) per_second: Vec<u32>,
}

impl Report {
    /// Returns the number of successful calls per second.
    pub(crate) fn throughput(&self) -> f64 {
        self.latencies.len() as f64 / self.per_second.len() as f64
    }

    pub(crate) fn mean_latency(&self) -> f64 {
        self.latencies.iter().sum::<f64>() / self.latencies.len() as f64
    }
}

/// A service and its callers.
pub(crate) struct Service<'a, L: Limit> {
    clock: &'a ManualClock,
    limit: &'a L,
    pub(crate) workers: usize,
    pub(crate) work: Work,
    /// Calls that arrive in a second.
    pub(crate) load: f64,
    /// Whether every call times out, a second after a worker has begun it.
    pub(crate) is_down: bool,
    busy: usize,
    /// The calls that wait for a worker, and when they began.
    waiting: VecDeque<(u64, L::Permit)>,
    /// When each busy worker is done, with the number of its call.
    done: BinaryHeap<Reverse<(u64, u64)>>,
    worked_on: std::collections::HashMap<u64, (u64, L::Permit)>,
    next_call: u64,
    next_arrival: u64,
    random: u64,
}

const NANOS: f64 = 1e9;

impl<'a, L: Limit> Service<'a, L> {
    pub(crate) fn new(clock: &'a ManualClock, limit: &'a L, workers: usize, work: Work, load: f64) -> Self {
        Self {
            clock,
            limit,
            workers,
            work,
            load,
            is_down: false,
            busy: 0,
            waiting: VecDeque::new(),
            done: BinaryHeap::new(),
            worked_on: std::collections::HashMap::new(),
            next_call: 0,
            next_arrival: 0,
            random: 1,
        }
    }

    /// Runs the service for this many seconds.
    pub(crate) fn run(&mut self, seconds: u32) -> Report {
        let begin = self.now();
        let end = begin + u64::from(seconds) * 1_000_000_000;
        let mut report = Report { per_second: vec![0; seconds as usize], ..Report::default() };
        loop {
            let done = self.done.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            let next = done.min(self.next_arrival);
            if next >= end {
                self.advance_to(end);
                return report;
            }
            self.advance_to(next);
            if done == next {
                self.finish(begin, &mut report);
            } else {
                self.arrive();
            }
        }
    }

    fn now(&self) -> u64 {
        damper::Clock::now(self.clock)
    }

    fn advance_to(&self, tick: u64) {
        self.clock.advance(Duration::from_nanos(tick - self.now()));
    }

    fn arrive(&mut self) {
        // Arrivals are independent, so the intervals between them are exponential.
        self.next_arrival = self.now() + (self.exponential(1.0 / self.load) * NANOS) as u64;
        if let Some(permit) = self.limit.try_acquire() {
            self.waiting.push_back((self.now(), permit));
            self.begin();
        }
    }

    fn begin(&mut self) {
        while self.busy < self.workers
            && let Some((began, permit)) = self.waiting.pop_front()
        {
            self.busy += 1;
            let work = match self.work {
                _ if self.is_down => 1.0,
                Work::Constant(seconds) => seconds,
                Work::Exponential(mean) => self.exponential(mean),
            };
            self.next_call += 1;
            self.done.push(Reverse((self.now() + (work * NANOS) as u64, self.next_call)));
            self.worked_on.insert(self.next_call, (began, permit));
        }
    }

    fn finish(&mut self, since: u64, report: &mut Report) {
        let Some(Reverse((now, call))) = self.done.pop() else { return };
        let (began, permit) = self.worked_on.remove(&call).expect("a worker has begun it");
        self.busy -= 1;
        let latency = (now - began) as f64 / NANOS;
        if self.is_down {
            self.limit.ended(permit, latency, End::Overloaded);
        } else {
            report.latencies.push(latency);
            report.per_second[((now - since) / 1_000_000_000) as usize] += 1;
            self.limit.ended(permit, latency, End::Success);
        }
        self.begin();
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let uniform = ((self.random >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -mean * uniform.ln()
    }
}
