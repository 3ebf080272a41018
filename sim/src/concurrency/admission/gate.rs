//! damper's gate on a clock that the simulation moves: calls that wait are polled when they are woken, or their time is over.

use super::traffic::Class;
use crate::concurrency::limit::Outcome;
use damper::concurrency::{
    self, Admission, AdmissionPermit, AdmissionRequest, AdmitFuture, Criticality, FixedLimit, LimitBounds, LimitRule,
    ProbedGradient,
};
use damper::time::Seed;
use damper::{Clock, Deadline, ManualClock};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Service times of which the p90 counts, for the policy that takes it in place of the median.
const RECENT: usize = 100;

/// A call that asks to be admitted.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its number; that of a call that is over is used again.
    pub call: usize,
    /// Its priority.
    pub class: Class,
    /// Whose it is, as far as the gate knows.
    pub tenant: usize,
    /// When it must be answered.
    pub deadline: f64,
}

/// What the gate does: all that damper's does, or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The whole rule.
    Whole,
    /// A call that finds no slot free is refused.
    NoQueue,
    /// The server goes on with calls whose deadline has passed.
    NoEnding,
    /// A call needs time for the p90 of service times, in place of the median.
    SlowMedian,
    /// Only the limit: neither a queue, nor classes, nor deadlines.
    LimitOnly,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Whole, Self::NoQueue, Self::NoEnding, Self::SlowMedian, Self::LimitOnly];

    /// Its name in the tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::NoQueue => "no queue",
            Self::NoEnding => "work not ended",
            Self::SlowMedian => "p90 for the median",
            Self::LimitOnly => "limit only",
        }
    }

    /// Whether a call is ended at its deadline.
    #[must_use]
    pub const fn ends_work(self) -> bool {
        !matches!(self, Self::NoEnding | Self::LimitOnly)
    }
}

/// What a decision led to.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    /// Calls that may start now.
    pub started: Vec<Request>,
    /// Calls that were refused.
    pub refused: Vec<Request>,
}

type Core<R> = Admission<R, Arc<ManualClock>>;
type Permit<R> = AdmissionPermit<Arc<Core<R>>>;
type Sleeping = Pin<Box<dyn Future<Output = ()>>>;
type Waiting<R> = Pin<Box<AdmitFuture<Arc<Core<R>>, Box<dyn Fn(Duration) -> Sleeping>>>>;

enum Stage<R: LimitRule> {
    Over,
    Waiting(Request, Waiting<R>),
    Running(Permit<R>),
}

/// What happens to calls that wait, apart from the gate's decisions on others.
#[derive(Debug, Default)]
struct Events {
    /// Calls that were woken.
    woken: Vec<usize>,
    /// When a call is to be polled, in nanoseconds.
    timers: BinaryHeap<Reverse<(u64, usize)>>,
}

type Shared = Arc<Mutex<Events>>;

fn with<T>(events: &Shared, act: impl FnOnce(&mut Events) -> T) -> T {
    act(&mut events.lock().unwrap_or_else(PoisonError::into_inner))
}

struct Bell(usize, Shared);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        with(&self.1, |events| events.woken.push(self.0));
    }
}

/// The gate, and the calls that wait or run.
pub struct Gate<R: LimitRule> {
    policy: Policy,
    clock: Arc<ManualClock>,
    core: Arc<Core<R>>,
    stages: Vec<Stage<R>>,
    events: Shared,
    recent: VecDeque<f64>,
    /// The p90 of recent service times.
    p90: f64,
}

impl<R: LimitRule> std::fmt::Debug for Gate<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("policy", &self.policy).field("core", &self.core).finish_non_exhaustive()
    }
}

impl Gate<ProbedGradient> {
    /// Creates a gate whose limit is adaptive.
    #[must_use]
    pub fn adaptive(policy: Policy, seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new());
        Self::new(policy, Admission::with_clock(LimitBounds::DEFAULT, Arc::clone(&clock)), clock, seed)
    }
}

impl Gate<FixedLimit> {
    /// Creates a gate with a limit that stays as it is.
    #[must_use]
    pub fn fixed(policy: Policy, limit: u32, seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new());
        Self::new(policy, Admission::fixed_with_clock(limit, Arc::clone(&clock)), clock, seed)
    }
}

impl<R: LimitRule> Gate<R> {
    fn new(policy: Policy, core: Core<R>, clock: Arc<ManualClock>, seed: u64) -> Self {
        let core = core.seed(Seed::new(seed, seed));
        let core = if matches!(policy, Policy::NoQueue | Policy::LimitOnly) { core.queue(0) } else { core };
        let (stages, events, recent) = Default::default();
        Self { policy, clock, core: Arc::new(core), stages, events, recent, p90: 0.0 }
    }

    /// Returns how many calls are in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.core.in_flight()
    }

    /// Returns when a call that waits is to be looked at; infinity if none is.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "hours of nanoseconds are far below 2^53")]
    pub fn next_timer(&self) -> f64 {
        let nanos = with(&self.events, |events| events.timers.peek().map(|Reverse((at, _))| *at));
        nanos.map_or(f64::INFINITY, |nanos| nanos as f64 / 1e9)
    }

    /// Looks at the calls whose time has come.
    pub fn timer(&mut self, now: f64) -> Decided {
        self.set_clock(now);
        with(&self.events, |events| {
            if let Some(Reverse((at, call))) = events.timers.pop() {
                // By rounding the clock may be a nanosecond behind.
                self.clock.set_ticks(self.clock.now().max(at));
                events.woken.push(call);
            }
        });
        self.follow()
    }

    /// A call arrives.
    pub fn arrive(&mut self, now: f64, request: Request) -> Decided {
        self.set_clock(now);
        let mut asks = AdmissionRequest::new().criticality(Criticality::ALL[usize::from(request.class)]);
        if self.policy != Policy::LimitOnly {
            let left = request.deadline - now - self.more_than_the_median();
            let left = Duration::try_from_secs_f64(left).unwrap_or(Duration::ZERO);
            asks = asks.tenant(&request.tenant).by(&Deadline::with_clock(left, &*self.clock));
        }
        let (clock, events) = (Arc::clone(&self.clock), Arc::clone(&self.events));
        let sleep = move |wait: Duration| -> Sleeping {
            let at = clock.now() + wait.as_nanos() as u64;
            with(&events, |events| events.timers.push(Reverse((at, request.call))));
            let clock = Arc::clone(&clock);
            Box::pin(poll_fn(move |_| if clock.now() < at { Poll::Pending } else { Poll::Ready(()) }))
        };
        let sleep: Box<dyn Fn(Duration) -> Sleeping> = Box::new(sleep);
        if request.call >= self.stages.len() {
            self.stages.resize_with(request.call + 1, || Stage::Over);
        }
        self.stages[request.call] = Stage::Waiting(request, Box::pin(self.core.admit_owned(asks).sleeping_by(sleep)));
        with(&self.events, |events| events.woken.push(request.call));
        self.follow()
    }

    /// A call that started is over, `latency` seconds after its start.
    pub fn finished(&mut self, now: f64, call: usize, latency: f64, outcome: Outcome) -> Decided {
        self.set_clock(now);
        if let Stage::Running(permit) = std::mem::replace(&mut self.stages[call], Stage::Over) {
            permit.record(match outcome {
                Outcome::Success => concurrency::Outcome::Success,
                Outcome::Dropped => concurrency::Outcome::Dropped,
            });
        }
        if outcome == Outcome::Success && self.policy == Policy::SlowMedian {
            self.learn(latency);
        }
        self.follow()
    }

    /// Polls the calls that were woken.
    fn follow(&mut self) -> Decided {
        let mut decided = Decided::default();
        loop {
            let woken = with(&self.events, |events| std::mem::take(&mut events.woken));
            if woken.is_empty() {
                return decided;
            }
            for call in woken {
                let Stage::Waiting(request, future) = &mut self.stages[call] else { continue };
                let (request, waker) = (*request, Waker::from(Arc::new(Bell(call, Arc::clone(&self.events)))));
                match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Pending => {}
                    Poll::Ready(Ok(permit)) => {
                        self.stages[call] = Stage::Running(permit);
                        decided.started.push(request);
                    }
                    Poll::Ready(Err(_)) => {
                        self.stages[call] = Stage::Over;
                        decided.refused.push(request);
                    }
                }
            }
        }
    }

    fn set_clock(&self, now: f64) {
        self.clock.set_ticks((now * 1e9) as u64);
    }

    fn learn(&mut self, latency: f64) {
        self.recent.push_back(latency);
        if self.recent.len() == RECENT {
            let mut sorted: Vec<f64> = self.recent.drain(..).collect();
            self.p90 = *sorted.select_nth_unstable_by(RECENT * 9 / 10, f64::total_cmp).1;
        }
    }

    /// By how much the p90 is above the median, for the policy that takes it: a deadline so much earlier comes to that.
    fn more_than_the_median(&self) -> f64 {
        let median = self.core.median_service_time().map_or(0.0, |median| median.as_secs_f64());
        (self.p90 - median).max(0.0)
    }
}
