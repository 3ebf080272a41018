//! Gates: what decides whether a call may pass, and learns from how it went.
//!
//! Limiters, breakers, throttles and concurrency limits are gates, and so is a type of yours that implements [`Gate`] and [`Ask`]. A gate
//! answers with a [`Permit`] or a [`Refusal`]. How the call went is told to the permit by a [`Verdict`], in facts: each gate reads from it
//! what it needs.
//!
//! Others change the question that a gate is asked:
//!
//! | combinator | a call |
//! |---|---|
//! | [`PerKey`] | is asked at the gate of its key |
//! | [`Costs`] | costs as many tokens as a closure says |
//! | `Waits` | may wait for its turn |
//! | `Paces` | sleeps as a pacer says |
//! | `Classes` | has a class, a tenant and a deadline, for an admission |
//! | [`Exempt`] | may be exempt |
//! | [`Shadowed`](crate::shadow::Shadowed) | is decided on by a candidate too, which changes nothing |
//! | `Option` | passes where there is no gate |
//! | a pair `(A, B)` | has to pass both |
//! | [`Either`] | is asked at one of two gates, which is chosen at run time |
//! | `Shared` | is asked at a gate in an `Arc` |
//! | `AnyGate` | is asked at one of any gates, behind a pointer |

// | file | type |
// |---|---|
// | here | `Gate` and `Ask`: the question; `Answer` |
// | `never` | `Never`: the wait of a gate at which no call waits |
// | `permit` | `Permit`: what a gate gives to a call that may pass; `Standing`: how much of a quota is left |
// | `refusal` | `Refusal`: why a call may not pass; `is_refusal`: among all errors |
// | `refusals` | the refusals of damper's own gates |
// | `ending` | `Ending`: how a call ended, and the tables of HTTP's statuses and gRPC's codes |
// | `verdict` | `Verdict`: the ending, and what else is known of the call |
// | `forecast` | `Forecast`: what a gate would answer, without being asked |
// | `own_gates` | damper's own types as gates |
// | `keyed_gates` | damper's keyed types as stores of gates |
// | `measured` | `Measured`: the permit of a gate that measures the load |
// | `waits_with` | `WaitsWith`: the service that a waiting call keeps |
// | `wait_for` | `WaitFor`: a wait of which the permit takes another form |
// | `paces` | `Paces`: calls that sleep as a pacer says; their permit and their wait |
// | `per_key`, `costs`, `waits`, `classes`, `exempt`, `pair`, `either`, `shared`, `any_gate` | the combinators |

/// Passes on what the gate in a field refuses without being asked.
///
/// The defaults of [`Gate`] are for gates that stand alone. Around another one they would say that some call passes.
macro_rules! refuses_as {
    ($gate:tt) => {
        #[inline]
        fn refusal(&self) -> Option<Self::Refusal> {
            self.$gate.refusal()
        }

        #[inline]
        fn refused_unasked(&self, refusal: &Self::Refusal) {
            self.$gate.refused_unasked(refusal);
        }
    };
}
use refuses_as;

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod any_gate;
#[cfg(feature = "alloc")]
mod classes;
mod costs;
mod either;
mod ending;
mod exempt;
mod forecast;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod keyed_gates;
mod measured;
mod never;
mod own_gates;
#[cfg(feature = "alloc")]
mod paces;
mod pair;
mod per_key;
mod permit;
pub(crate) mod refusal;
mod refusals;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod shared;
mod verdict;
pub(crate) mod wait_for;
#[cfg(feature = "alloc")]
pub(crate) mod waits;
pub(crate) mod waits_with;

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use any_gate::{AnyGate, AnyRefusal};
#[cfg(feature = "alloc")]
pub use classes::Classes;
pub use costs::{AskCost, Costs};
pub use either::Either;
pub use ending::Ending;
pub use exempt::Exempt;
pub use forecast::Forecast;
use measured::Measured;
use never::Impossible;
pub use never::Never;
#[cfg(feature = "alloc")]
pub use paces::{PacerSource, Paces, SelectedPacer};
#[cfg(feature = "alloc")]
use per_key::{GateOfKey, GateStore};
pub use per_key::{KeyOf, PerKey};
pub use permit::{Permit, Standing};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub(crate) use refusal::boxed_refusal;
pub(crate) use refusal::source_of_refusal;
pub use refusal::{NotSent, Refusal, RefusalKind, is_refusal};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use shared::Shared;
pub use verdict::Verdict;
pub(crate) use wait_for::WaitFor;
#[cfg(feature = "alloc")]
pub use waits::Waits;
pub use waits_with::{WaitsWith, keep};

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
    /// Readiness is asked by it: a service behind an open breaker need not become ready for a call that is refused. That call is
    /// then refused without [`ask`](Ask::ask). So a refusal that needs the question to end, such as one that a count of the asked
    /// calls decides, is not returned here. A gate around another one has to pass this on, and
    /// [`refused_unasked`](Self::refused_unasked) too.
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

    /// Returns the answer that this call would get now, and changes nothing. Default: [`Forecast::Unknown`].
    ///
    /// It takes nothing and writes nothing: neither tokens, nor slots, counts or first uses. So it may be asked at any time, about calls
    /// that are never made.
    fn forecast(&self, call: &Q) -> Forecast<Self::Refusal> {
        _ = call;
        Forecast::Unknown
    }
}

/// A gate at which no call waits.
#[diagnostic::on_unimplemented(
    message = "calls may wait at the gate `{Self}`",
    note = "of two gates in a pair only the second one may let calls wait",
    note = "a client's stack takes such a gate as a layer: `.limit_layer(GateLayer::limit(limiter).waiting(longest))`, \
    `.concurrency_layer(ClientConcurrencyLayer::new(limit).waiting(longest))`"
)]
pub trait AtOnce: Gate<Wait: Impossible> {}

#[diagnostic::do_not_recommend]
impl<G: Gate<Wait: Impossible>> AtOnce for G {}

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
    fn map<P2, W2, R2>(
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
