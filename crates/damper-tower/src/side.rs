//! Where a gate stands.

use damper_core::gate::{AnswerOf, Gate, Permit, Verdict};

/// A gate with all that a layer does around it, beside deciding.
///
/// It says what of a request the gate is asked about, how the result of a call is read, and what a refusal becomes. Clones share the gate. How
/// much of it each service stores is the side's choice.
///
/// [`Plain`](crate::Plain) is the side of services of any request. Other protocols have their own, in other crates of damper. It is public for
/// these, and may get more methods.
pub trait Stand: Clone {
    /// The gate.
    type Gate: Gate;

    /// Returns the gate.
    fn gate(&self) -> &Self::Gate;
}

/// A [`Stand`] before services with requests of the type `R`, responses `T` and errors `E`.
///
/// The functions without `self` belong to a call that has begun, which does not keep the side.
pub trait Side<R, T, E>: Stand {
    /// The permit of a call, with all that is needed to end it.
    type Held: Permit;

    /// A refusal, as a call that was not made keeps it.
    type Refused;

    /// The response of the service behind the gate.
    type Response;

    /// The error of the service behind the gate.
    type Error;

    /// Asks the gate about a request.
    fn ask(&self, request: &R) -> AnswerOf<Self::Gate>;

    /// Brings a request up to date that has waited. Default: does nothing.
    #[inline]
    fn waited(&self, wait: &<Self::Gate as Gate>::Wait, request: &mut R) {
        _ = (wait, request);
    }

    /// Takes what the end of the call needs.
    fn hold(&self, permit: <Self::Gate as Gate>::Permit, request: &R) -> Self::Held;

    /// Refuses a request.
    fn refuse(&self, refusal: <Self::Gate as Gate>::Refusal, request: &R) -> Self::Refused;

    /// Returns what the caller of a refused request gets.
    ///
    /// # Errors
    ///
    /// The refusal, where a client is refused.
    fn refused(refused: Self::Refused) -> Result<Self::Response, Self::Error>;

    /// Tells the permit how the call went.
    ///
    /// It takes the permit, unless that holds on until the response's body has ended. If it panics, the call has panicked.
    fn judge(held: &mut Option<Self::Held>, result: &Result<T, E>);

    /// Returns what the caller gets. A permit that holds on goes into the response's body.
    ///
    /// # Errors
    ///
    /// The service's own.
    fn respond(held: &mut Option<Self::Held>, result: Result<T, E>) -> Result<Self::Response, Self::Error>;

    /// Ends a call whose future was dropped before its result. Default: drops the permit.
    #[inline]
    fn abandoned(held: Self::Held) {
        drop(held);
    }

    /// Returns the error of the service's readiness, which belongs to no call.
    fn failed(error: E) -> Self::Error;
}

/// The permit of a call that ends with its future, and the judge of its result.
#[derive(Debug)]
pub struct Judged<P, J> {
    /// The permit.
    pub permit: P,
    /// Reads the result.
    pub judge: J,
}

impl<P: Permit, J> Permit for Judged<P, J> {
    const LEARNS: bool = P::LEARNS;
    const HOLDS: bool = P::HOLDS;

    #[inline]
    fn end(self, verdict: &Verdict) {
        self.permit.end(verdict);
    }

    #[inline]
    fn panicked(self) {
        self.permit.panicked();
    }
}
