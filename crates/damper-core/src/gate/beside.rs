//! A candidate beside a gate in force.

use super::{Answer, AnswerOf, Ask, Gate, Permit, Standing, Verdict};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use pin_project_lite::pin_project;

/// A gate in force, and a candidate that decides on the same calls and changes nothing.
///
/// The candidate learns from the calls that it would have let pass. It is asked once for each call, and calls do not wait at it: a call that
/// would have to wait counts as neither. A closure is told both decisions.
///
/// A candidate sees the calls that the gate in force let pass, and those that it refused. Calls that it would have refused reach the
/// service all the same, so a breaker or a throttle as a candidate learns from more calls than it would alone.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::sync::atomic::{AtomicU32, Ordering};
/// use damper::gate::{Ask, Beside};
/// use damper::{ManualClock, Quota, RateLimiter};
///
/// let (clock, refused) = (ManualClock::new(), AtomicU32::new(0));
/// let in_force = RateLimiter::with_clock(Quota::per_second(10), &clock);
/// let candidate = RateLimiter::with_clock(Quota::per_second(2), &clock);
/// let gate = Beside::new(&in_force, &candidate, |passed: bool, would_pass: bool| {
///     refused.fetch_add(u32::from(passed && !would_pass), Ordering::Relaxed);
/// });
/// assert!((0..5).all(|_| gate.ask("a call").is_pass()));
/// assert_eq!(refused.load(Ordering::Relaxed), 3);
/// ```
#[derive(Clone, Copy)]
pub struct Beside<A, B, F> {
    in_force: A,
    candidate: B,
    told: F,
}

impl<A, B, F: Fn(bool, bool)> Beside<A, B, F> {
    /// Creates a gate that decides as `in_force` does.
    ///
    /// `told` gets whether the call may pass, or may wait for that, and whether the candidate would let it pass.
    pub const fn new(in_force: A, candidate: B, told: F) -> Self {
        Self { in_force, candidate, told }
    }
}

impl<A: Gate, B: Gate, F> Gate for Beside<A, B, F> {
    type Permit = WithCandidate<A::Permit, B::Permit>;
    type Refusal = A::Refusal;
    type Wait = WaitWithCandidate<A::Wait, B::Permit>;
}

impl<Q: ?Sized, A: Ask<Q>, B: Ask<Q>, F: Fn(bool, bool)> Ask<Q> for Beside<A, B, F> {
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        let answer = self.in_force.ask(call);
        let candidate = match self.candidate.ask(call).at_once() {
            Some(decision) => {
                (self.told)(!matches!(answer, Answer::Refuse(_)), decision.is_ok());
                decision.ok()
            }
            None => None,
        };
        match answer {
            Answer::Pass(permit) => Answer::Pass(WithCandidate { permit, candidate }),
            Answer::Wait(wait) => Answer::Wait(WaitWithCandidate { wait, candidate }),
            Answer::Refuse(refusal) => Answer::Refuse(refusal),
        }
    }
}

/// The permit of a gate in force, and that of its candidate.
#[derive(Debug)]
pub struct WithCandidate<A, B> {
    permit: A,
    candidate: Option<B>,
}

impl<A: Permit, B: Permit> Permit for WithCandidate<A, B> {
    const LEARNS: bool = A::LEARNS || B::LEARNS;
    const HOLDS: bool = A::HOLDS || B::HOLDS;

    #[inline]
    fn answered(&mut self, verdict: &Verdict) {
        self.candidate.answered(verdict);
        self.permit.answered(verdict);
    }

    #[inline]
    fn first_data(&mut self) {
        self.candidate.first_data();
        self.permit.first_data();
    }

    #[inline]
    fn end(self, verdict: &Verdict) {
        self.candidate.end(verdict);
        self.permit.end(verdict);
    }

    #[inline]
    fn panicked(self) {
        self.candidate.panicked();
        self.permit.panicked();
    }

    #[inline]
    fn standing(&self) -> Option<Standing> {
        self.permit.standing()
    }

    #[inline]
    fn usual_latency(&self) -> Option<Duration> {
        self.permit.usual_latency()
    }
}

pin_project! {
    /// The wait at a gate in force, with the permit of its candidate.
    #[derive(Debug)]
    pub struct WaitWithCandidate<W, B> {
        #[pin]
        wait: W,
        candidate: Option<B>,
    }
}

impl<W: Future<Output = Result<A, R>>, A, B, R> Future for WaitWithCandidate<W, B> {
    type Output = Result<WithCandidate<A, B>, R>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.wait.poll(context).map_ok(|permit| WithCandidate { permit, candidate: this.candidate.take() })
    }
}

impl<A: fmt::Debug, B: fmt::Debug, F> fmt::Debug for Beside<A, B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside")
            .field("in_force", &self.in_force)
            .field("candidate", &self.candidate)
            .finish_non_exhaustive()
    }
}
