//! The question whether a call may pass, and its answers.

use super::{Permit, Refusal};
use core::convert::Infallible;
use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};

/// Decides whether a call may pass.
///
/// Limiters, breakers, throttles and concurrency limits are gates, and so is a type of your own that implements this trait.
///
/// This trait names what a gate gives. [`Ask`] is the question, which depends on the type of the calls.
///
/// Calls share damper's own types as `Arc<CircuitBreaker>` or as `&'static CircuitBreaker`, and these are the gates: a permit may outlive a
/// shorter borrow.
///
/// # Examples
///
/// A gate of your own lets calls pass while a switch is on:
///
/// ```
/// # extern crate damper_core as damper;
/// use core::fmt;
/// use core::sync::atomic::{AtomicBool, Ordering};
/// use damper::gate::{Answer, Ask, Gate, Never, Refusal, RefusalKind};
///
/// struct Switch(AtomicBool);
///
/// #[derive(Clone, Debug)]
/// struct SwitchedOff;
///
/// impl Gate for &'static Switch {
///     type Permit = (); // it learns nothing of the calls, and holds nothing while they last
///     type Refusal = SwitchedOff;
///     type Wait = Never<(), SwitchedOff>; // no call waits
/// }
///
/// impl<Q: ?Sized> Ask<Q> for &'static Switch {
///     fn ask(&self, _call: &Q) -> Answer<(), Self::Wait, SwitchedOff> {
///         if self.0.load(Ordering::Relaxed) { Answer::Pass(()) } else { Answer::Refuse(SwitchedOff) }
///     }
/// }
///
/// impl fmt::Display for SwitchedOff {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         f.write_str("switched off")
///     }
/// }
///
/// impl core::error::Error for SwitchedOff {}
///
/// impl Refusal for SwitchedOff {
///     fn kind(&self) -> RefusalKind {
///         RefusalKind::Unavailable
///     }
/// }
///
/// static EXPORTS: Switch = Switch(AtomicBool::new(true));
///
/// assert!((&EXPORTS).ask("a call").is_pass());
/// EXPORTS.0.store(false, Ordering::Relaxed);
/// assert!(!(&EXPORTS).ask("a call").is_pass());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a gate that calls share",
    note = "put a breaker, a throttle, a limiter or a concurrency limit into a `static` and pass a reference to it, or pass an `Arc` of it",
    note = "for one per key, write `PerKey::new(|call: &Call| key, Arc::new(breakers))`"
)]
pub trait Gate {
    /// The permit of a call that may pass.
    type Permit: Permit;

    /// The reason why a call may not pass.
    type Refusal: Refusal;

    /// The wait of a call: [`Never`] if none waits.
    type Wait: Future<Output = Result<Self::Permit, Self::Refusal>>;

    /// Returns the refusal that every call would get now; `None` if some call might pass. Default: `None`.
    ///
    /// Readiness is asked by it: a service behind an open breaker need not become ready for a call that is refused.
    #[inline]
    fn refusal(&self) -> Option<Self::Refusal> {
        None
    }

    /// Records that a call was refused by [`refusal`](Self::refusal), without being asked about. Default: does nothing.
    ///
    /// It is there for gates that count what they refuse.
    #[inline]
    fn refused_unasked(&self, refusal: &Self::Refusal) {
        _ = refusal;
    }
}

/// Decides on calls of the type `Q`.
///
/// It is apart from [`Gate`], so that the types of permits and refusals do not depend on the lifetime of a borrowed call.
#[diagnostic::on_unimplemented(
    message = "the gate `{Self}` does not decide on calls of the type `{Q}`",
    note = "a primitive of damper is a gate in an `Arc`, or as a reference to a `static`",
    note = "a closure of `PerKey`, `Costs`, `Exempt` or `Classes` names the type of its call: `|call: &{Q}| …`",
    note = "for one per host of HTTP, write `PerKey::new(damper::http::TargetHost, Arc::new(breakers))`"
)]
pub trait Ask<Q: ?Sized>: Gate {
    /// Decides whether this call may pass.
    fn ask(&self, call: &Q) -> AnswerOf<Self>;
}

/// A gate at which no call waits.
#[diagnostic::on_unimplemented(
    message = "calls may wait at the gate `{Self}`",
    note = "of two gates in a pair only the second one may let calls wait",
    note = "a client's stack takes such a gate as a layer: `.limit_layer(LimitLayer::new(limiter).waiting(longest))`, \
    `.concurrency_layer(ClientConcurrencyLayer::new(limit).waiting(longest))`"
)]
pub trait AtOnce: Gate<Wait: Impossible> {}

#[diagnostic::do_not_recommend]
impl<G: Gate<Wait: Impossible>> AtOnce for G {}

/// A wait of which there is no value, as that of a gate at which no call waits.
pub trait Impossible {
    /// Returns anything, because it is never called.
    fn never<T>(self) -> T;
}

/// The answer of a gate.
#[derive(Debug)]
pub enum Answer<P, W, R> {
    /// The call may pass, with this permit.
    Pass(P),
    /// The call waits for its permit.
    Wait(W),
    /// The call may not pass.
    Refuse(R),
}

/// The answer of the gate `G`.
pub type AnswerOf<G> = Answer<<G as Gate>::Permit, <G as Gate>::Wait, <G as Gate>::Refusal>;

impl<P, W, R> Answer<P, W, R> {
    /// Returns whether the call may pass at once.
    #[must_use]
    pub const fn is_pass(&self) -> bool {
        matches!(self, Self::Pass(_))
    }

    /// Returns the permit or the refusal; `None` if the call would wait.
    pub fn at_once(self) -> Option<Result<P, R>> {
        match self {
            Self::Pass(permit) => Some(Ok(permit)),
            Self::Wait(_) => None,
            Self::Refuse(refusal) => Some(Err(refusal)),
        }
    }

    /// Changes the parts of the answer.
    #[inline]
    pub(super) fn map<P2, W2, R2>(
        self,
        permit: impl FnOnce(P) -> P2,
        wait: impl FnOnce(W) -> W2,
        refusal: impl FnOnce(R) -> R2,
    ) -> Answer<P2, W2, R2> {
        match self {
            Self::Pass(passed) => Answer::Pass(permit(passed)),
            Self::Wait(waiting) => Answer::Wait(wait(waiting)),
            Self::Refuse(refused) => Answer::Refuse(refusal(refused)),
        }
    }
}

impl<P, W: Impossible, R> Answer<P, W, R> {
    /// Returns the permit or the refusal of a gate at which no call waits.
    ///
    /// # Errors
    ///
    /// The refusal.
    #[inline]
    pub fn into_result(self) -> Result<P, R> {
        match self {
            Self::Pass(permit) => Ok(permit),
            Self::Wait(wait) => wait.never(),
            Self::Refuse(refusal) => Err(refusal),
        }
    }
}

impl<P, W, R> From<Result<P, R>> for Answer<P, W, R> {
    #[inline]
    fn from(result: Result<P, R>) -> Self {
        match result {
            Ok(permit) => Self::Pass(permit),
            Err(refusal) => Self::Refuse(refusal),
        }
    }
}

/// The wait of a gate at which no call waits: there is no such value.
pub struct Never<P, R> {
    pub(super) never: Infallible,
    output: PhantomData<fn() -> (P, R)>,
}

impl<P, R> Impossible for Never<P, R> {
    #[inline]
    fn never<T>(self) -> T {
        match self.never {}
    }
}

impl<P, R> Future for Never<P, R> {
    type Output = Result<P, R>;

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.never {}
    }
}

impl<P, R> fmt::Debug for Never<P, R> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.never {}
    }
}
