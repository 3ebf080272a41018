//! Reads a value from a call, a response or an outcome.

/// Reads a value of type `T` from a call, a response or an outcome of type `Q`.
///
/// Every function or closure from `&Q` to `T` does. Gates, retries and pacers ask with it for what they need to know:
///
/// | reads | a `T` | for |
/// |---|---|---|
/// | whether a call is exempt | `bool` | [`Exempt`](crate::gate::Exempt) |
/// | the time until its deadline | `Option<Duration>` | `Waits` and `Paces` |
/// | its cost in tokens | `u32` | [`Costs`](crate::gate::Costs) |
/// | its class, tenant and deadline | `AdmissionRequest` | `Classes` |
/// | its pacer | a reference to a [`Pacer`](crate::throttle::Pacer) | `Paces` |
/// | what a response says about the limit of a service | [`Hints`](crate::throttle::Hints) | [`Pacer`](crate::throttle::Pacer) |
/// | whether an outcome is a failure that a retry may mend | `Option<Failure>` | [`Retry`](crate::Retry), `Hedge` |
///
/// # Examples
///
/// A reader of your own, for calls of two types:
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::Bulkhead;
/// use damper::gate::{Ask, Exempt};
/// use damper::Reads;
///
/// struct Path<'a>(&'a str);
///
/// struct HealthChecks;
///
/// impl Reads<str, bool> for HealthChecks {
///     fn read_from(&self, path: &str) -> bool {
///         path == "/healthz"
///     }
/// }
///
/// impl Reads<Path<'_>, bool> for HealthChecks {
///     fn read_from(&self, call: &Path<'_>) -> bool {
///         self.read_from(call.0)
///     }
/// }
///
/// static NONE: Bulkhead<damper::ManualClock> = Bulkhead::with_clock(0, damper::ManualClock::new());
///
/// let gate = Exempt::new(&NONE, HealthChecks);
/// assert!(gate.ask(&Path("/healthz")).is_pass());
/// assert!(!gate.ask("/").is_pass());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not read `{T}` from `{Q}`",
    note = "a closure has the form `|value: &{Q}| -> {T}`",
    note = "of outcomes, only errors that implement `Error` are read without one; for others name what to retry: \
    `.when(|result| result.is_err().then_some(Failure::TRANSIENT))`",
    note = "a pacer is a `&'static Pacer` or an `Arc<Pacer>`; a closure that chooses one: `PacingLayer::by`, and for `damper::http` \
    in `SelectedPacer::by(closure)`"
)]
pub trait Reads<Q: ?Sized, T> {
    /// Returns the value.
    fn read_from(&self, source: &Q) -> T;
}

impl<Q: ?Sized, T, F: Fn(&Q) -> T> Reads<Q, T> for F {
    #[inline]
    fn read_from(&self, source: &Q) -> T {
        self(source)
    }
}
