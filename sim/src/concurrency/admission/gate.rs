//! damper's gate on a clock that the simulation moves.
//!
//! Waiting and running calls are polled when they are woken or when a timer fires.

use super::traffic::Class;
use damper::AcquireFuture;
use damper::concurrency::{
    Admission, AdmissionPermit, AdmissionRequest, Criticality, FixedLimit, LimitBounds, LimitRule, ProbedGradient,
    RunToDeadline,
};
use damper::time::Seed;
use damper::{Clock, Deadline, DeadlineExceeded, ManualClock};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// The service times per p90, for the policy that uses the p90 in place of the median.
const RECENT: usize = 100;

/// A call that requests admission.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its number. Numbers of finished calls are reused.
    pub call: usize,
    /// Its priority.
    pub class: Class,
    /// Its tenant, as known to the gate.
    pub tenant: usize,
    /// The time by which it must get its response.
    pub deadline: f64,
}

/// The parts of damper's rule that the gate uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The whole rule.
    Whole,
    /// A call that finds no free slot is refused.
    NoQueue,
    /// The server continues calls whose deadline has passed.
    NoEnding,
    /// The time that a call needs is the p90 of service times, not the median.
    SlowMedian,
    /// Only the limit, without a queue, classes or deadlines.
    LimitOnly,
}

impl Policy {
    /// All policies.
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

    /// Returns when the simulation ends a call's work in place of damper's permit.
    const fn ended_here(self, request: &Request) -> Option<f64> {
        match self {
            // The permit has the gate's deadline, which this policy makes earlier than the call's.
            Self::SlowMedian => Some(request.deadline),
            Self::NoEnding => Some(f64::INFINITY),
            Self::Whole | Self::NoQueue | Self::LimitOnly => None,
        }
    }
}

/// A step of a call: the gate's decision, or its end.
#[derive(Clone, Copy, Debug)]
pub enum Decision {
    /// The call may start now.
    Started(Request),
    /// The call was refused.
    Refused(Request),
    /// The call got its response.
    Answered(usize),
    /// The call was ended before its response.
    Ended(usize),
}

type Core<R> = Admission<R, Arc<ManualClock>>;
type Permit<R> = AdmissionPermit<Arc<Core<R>>>;
type Sleeping = Pin<Box<dyn Future<Output = ()>>>;
type Timer = Box<dyn Fn(Duration) -> Sleeping>;
type Waiting<R> = Pin<Box<AcquireFuture<Arc<Core<R>>, Timer>>>;
type Running<R> = Pin<Box<RunToDeadline<Arc<Core<R>>, Work, Timer>>>;

enum Stage<R: LimitRule> {
    Over,
    Waiting(Request, Waiting<R>),
    Running(Work, Running<R>),
    /// The simulation ends the work at this tick.
    EndedHere(u64, Permit<R>),
}

/// The work of a call. The server does it, and marks it as done.
#[derive(Clone, Debug, Default)]
struct Work(Arc<AtomicBool>);

impl Future for Work {
    type Output = Result<(), DeadlineExceeded>;

    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.0.load(Relaxed) { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

/// Events of waiting calls: wake-ups and timers.
#[derive(Debug, Default)]
struct Events {
    /// Woken calls.
    woken: Vec<usize>,
    /// The times at which calls are polled, in nanoseconds.
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

/// The gate, with its waiting and running calls.
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
    /// Creates a gate with a fixed limit.
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

    /// Returns when the next waiting or running call is polled, or infinity if none is.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "hours of nanoseconds are far below 2^53")]
    pub fn next_timer(&self) -> f64 {
        let nanos = with(&self.events, |events| events.timers.peek().map(|Reverse((at, _))| *at));
        nanos.map_or(f64::INFINITY, |nanos| nanos as f64 / 1e9)
    }

    /// Polls the call whose timer is due.
    pub fn timer(&mut self, now: f64) -> Vec<Decision> {
        self.set_clock(now);
        with(&self.events, |events| {
            if let Some(Reverse((at, call))) = events.timers.pop() {
                // Because of rounding the clock may be a nanosecond behind.
                self.clock.set_ticks(self.clock.now().max(at));
                events.woken.push(call);
            }
        });
        self.follow()
    }

    /// Records the arrival of a call.
    pub fn arrive(&mut self, now: f64, request: Request) -> Vec<Decision> {
        self.set_clock(now);
        let mut asks = AdmissionRequest::new().criticality(Criticality::ALL[usize::from(request.class)]);
        if self.policy != Policy::LimitOnly {
            let left = request.deadline - now - self.more_than_the_median();
            let left = Duration::try_from_secs_f64(left).unwrap_or(Duration::ZERO);
            asks = asks.tenant(&request.tenant).by(&Deadline::with_clock(left, &*self.clock));
        }
        let sleep = self.timer_of(request.call);
        if request.call >= self.stages.len() {
            self.stages.resize_with(request.call + 1, || Stage::Over);
        }
        self.stages[request.call] = Stage::Waiting(request, Box::pin(self.core.acquire_owned(asks).sleeping_by(sleep)));
        with(&self.events, |events| events.woken.push(request.call));
        self.follow()
    }

    /// Records that the server did a call's work, `latency` seconds after its start.
    pub fn done(&mut self, now: f64, call: usize, latency: f64) -> Vec<Decision> {
        self.set_clock(now);
        let mut decided = Vec::new();
        match std::mem::replace(&mut self.stages[call], Stage::Over) {
            Stage::EndedHere(_, permit) => {
                permit.success();
                decided.push(Decision::Answered(call));
            }
            running => {
                if let Stage::Running(work, _) = &running {
                    work.0.store(true, Relaxed);
                }
                self.stages[call] = running;
                with(&self.events, |events| events.woken.push(call));
            }
        }
        if self.policy == Policy::SlowMedian {
            self.learn(latency);
        }
        self.follow_from(decided)
    }

    fn follow(&mut self) -> Vec<Decision> {
        self.follow_from(Vec::new())
    }

    /// Polls the woken calls, and adds their decisions.
    fn follow_from(&mut self, mut decided: Vec<Decision>) -> Vec<Decision> {
        loop {
            let woken = with(&self.events, |events| std::mem::take(&mut events.woken));
            if woken.is_empty() {
                return decided;
            }
            for call in woken {
                self.poll(call, &mut decided);
            }
        }
    }

    fn poll(&mut self, call: usize, decided: &mut Vec<Decision>) {
        let waker = Waker::from(Arc::new(Bell(call, Arc::clone(&self.events))));
        let context = &mut Context::from_waker(&waker);
        self.stages[call] = match std::mem::replace(&mut self.stages[call], Stage::Over) {
            // Woken by an old timer.
            Stage::Over => Stage::Over,
            Stage::Waiting(request, mut admit) => match admit.as_mut().poll(context) {
                Poll::Pending => Stage::Waiting(request, admit),
                Poll::Ready(Ok(permit)) => {
                    decided.push(Decision::Started(request));
                    self.start(&request, permit)
                }
                Poll::Ready(Err(_)) => {
                    decided.push(Decision::Refused(request));
                    Stage::Over
                }
            },
            Stage::Running(work, mut run) => match run.as_mut().poll(context) {
                Poll::Pending => Stage::Running(work, run),
                Poll::Ready(result) => {
                    decided.push(if result.is_ok() { Decision::Answered(call) } else { Decision::Ended(call) });
                    Stage::Over
                }
            },
            Stage::EndedHere(at, permit) if self.clock.now() < at => Stage::EndedHere(at, permit),
            Stage::EndedHere(_, permit) => {
                permit.overloaded();
                decided.push(Decision::Ended(call));
                Stage::Over
            }
        };
    }

    /// Starts the work of an admitted call. The call is polled at once, which sets its timer.
    fn start(&self, request: &Request, permit: Permit<R>) -> Stage<R> {
        if let Some(at) = self.policy.ended_here(request) {
            let at = (at * 1e9).ceil() as u64;
            with(&self.events, |events| events.timers.push(Reverse((at, request.call))));
            return Stage::EndedHere(at, permit);
        }
        let work = Work::default();
        let run = permit.run_sleeping_by(work.clone(), self.timer_of(request.call));
        with(&self.events, |events| events.woken.push(request.call));
        Stage::Running(work, Box::pin(run))
    }

    /// Returns the sleep of a call, after which the simulation polls it.
    fn timer_of(&self, call: usize) -> Timer {
        let (clock, events) = (Arc::clone(&self.clock), Arc::clone(&self.events));
        Box::new(move |wait: Duration| {
            let at = clock.now() + wait.as_nanos() as u64;
            with(&events, |events| events.timers.push(Reverse((at, call))));
            let clock = Arc::clone(&clock);
            Box::pin(poll_fn(move |_| if clock.now() < at { Poll::Pending } else { Poll::Ready(()) }))
        })
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

    /// Returns by how much the p90 exceeds the median, for the policy that uses the p90.
    ///
    /// An earlier deadline by that difference has the same effect.
    fn more_than_the_median(&self) -> f64 {
        let median = self.core.median_service_time().map_or(0.0, |median| median.as_secs_f64());
        (self.p90 - median).max(0.0)
    }
}
