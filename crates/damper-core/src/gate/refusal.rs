//! Why a gate did not let a call pass, and how other gates know it.

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use super::AnyRefusal;
use super::Standing;
use super::refusals::known_refusal;
use crate::breaker::source_of;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::{boxed::Box, sync::Arc};
use core::error::Error;
use core::fmt;
use core::time::Duration;

/// Why a gate did not let a call pass.
///
/// # Examples
///
/// A gate of your own refuses at night:
///
/// ```
/// # extern crate damper_core as damper;
/// use core::fmt;
/// use damper::gate::{Refusal, RefusalKind};
///
/// #[derive(Clone, Debug)]
/// struct Closed;
///
/// impl fmt::Display for Closed {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         f.write_str("closed at night")
///     }
/// }
///
/// impl core::error::Error for Closed {}
///
/// impl Refusal for Closed {
///     fn kind(&self) -> RefusalKind {
///         RefusalKind::Unavailable
///     }
/// }
///
/// // A gate around this one knows that the call was not made.
/// let error = damper::CallError::<core::fmt::Error, _>::Refused(Closed);
/// assert_eq!(error.to_string(), "call refused: closed at night");
/// assert!(damper::is_refusal(&error));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the refusal of a gate",
    note = "implement `damper::gate::Refusal` for it; only `kind` has no default"
)]
pub trait Refusal: Error + Clone + Send + Sync + 'static {
    /// Returns what kind of refusal this is: it gives the status of a response.
    fn kind(&self) -> RefusalKind;

    /// Returns the time after which a call has a chance. Default: `None`, which is unknown.
    fn retry_after(&self) -> Option<Duration> {
        None
    }

    /// Returns the standing of the limit that refused, if it has one. Default: `None`.
    fn standing(&self) -> Option<Standing> {
        None
    }

    /// Returns the cause as a label of metrics, with `_` for spaces.
    ///
    /// In capitals it is the reason of gRPC's `ErrorInfo`. Default: that of the [kind](RefusalKind::label).
    fn label(&self) -> &'static str {
        self.kind().label()
    }
}

/// The kind of a refusal.
///
/// | kind | HTTP | gRPC |
/// |---|---|---|
/// | [`OverLimit`](Self::OverLimit) | 429 | `RESOURCE_EXHAUSTED`, 8 |
/// | [`Unavailable`](Self::Unavailable) | 503 | `UNAVAILABLE`, 14 |
/// | [`Failed`](Self::Failed) | 500 | `INTERNAL`, 13 |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RefusalKind {
    /// The caller is over its limit.
    OverLimit,
    /// The service cannot take the call now, whoever makes it.
    Unavailable,
    /// The gate could not decide.
    Failed,
}

impl RefusalKind {
    /// Returns the status of an HTTP response.
    #[must_use]
    pub const fn http_status(self) -> u16 {
        match self {
            Self::OverLimit => 429,
            Self::Unavailable => 503,
            Self::Failed => 500,
        }
    }

    /// Returns the code of a gRPC status.
    #[must_use]
    pub const fn grpc_code(self) -> u32 {
        match self {
            Self::OverLimit => 8,
            Self::Unavailable => 14,
            Self::Failed => 13,
        }
    }

    /// Returns the kind as a label of metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::OverLimit => "over_limit",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
        }
    }
}

/// The source of errors that say of a refusal that the call was not sent.
///
/// [`CallError`](crate::CallError) has it as its source where the refusal is one of your own. Return it from the `source` of an error of your
/// own that is returned in the place of a call, so that [`is_refusal`] knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NotSent;

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the call was not sent")
    }
}

crate::internal::debug_by_display!(NotSent);

impl Error for NotSent {}

/// Returns whether an error is a refusal of a gate, or has one among its sources.
///
/// The call was not made then, so the error says nothing about the server.
///
/// Refusals are [`CircuitOpen`](crate::CircuitOpen), [`Denied`](crate::Denied), [`LimitSetDenied`](crate::LimitSetDenied),
/// [`LimitSetRefusal`](crate::concurrency::LimitSetRefusal), `TreeDenied`, `TreeRefusal`, [`Throttled`](crate::throttle::Throttled),
/// [`PaceTooSlow`](crate::throttle::PaceTooSlow), [`BulkheadFull`](crate::BulkheadFull) and `NotAdmitted`, those of your own gates in a
/// [`CallError`](crate::CallError) or in an `AnyRefusal`, and errors with [`NotSent`] as their source. Breakers and throttles ignore
/// them by default, and retries end with them. A classifier of your own can ask this too.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::breaker::Verdict;
/// use damper::{Bulkhead, is_refusal};
///
/// fn verdict<T>(result: &Result<T, std::io::Error>) -> Verdict {
///     match result {
///         Err(error) if is_refusal(error) => Verdict::Ignored,
///         other => Verdict::of(other),
///     }
/// }
///
/// let full = Bulkhead::new(0).try_acquire().unwrap_err();
/// assert_eq!(verdict::<()>(&Err(std::io::Error::other(full))), Verdict::Ignored);
/// # }
/// ```
#[must_use]
pub fn is_refusal(error: &(dyn Error + 'static)) -> bool {
    chain(error).any(|error| error.is::<NotSent>() || known_refusal(error).is_some())
}

/// Returns the kind and the wait of the refusal in the chain of an error's sources.
pub fn refusal_in(error: &(dyn Error + 'static)) -> Option<(RefusalKind, Option<Duration>)> {
    chain(error).find_map(known_refusal)
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    core::iter::successors(Some(error), |error| source_of(*error))
}

/// Puts a refusal into a box in which it is known as one.
///
/// One of a gate of your own is put into an [`AnyRefusal`].
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub fn boxed_refusal<R: Refusal>(refusal: R) -> Box<dyn Error + Send + Sync> {
    if refusal_in(&refusal).is_some() { Box::new(refusal) } else { Box::new(AnyRefusal::new(refusal)) }
}

/// Puts a refusal into an `Arc` in which it is known as one, as [`boxed_refusal`] does.
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub fn shared_refusal<R: Refusal>(refusal: R) -> Arc<dyn Error + Send + Sync> {
    if refusal_in(&refusal).is_some() { Arc::new(refusal) } else { Arc::new(AnyRefusal::new(refusal)) }
}

/// Returns the refusal, if it is known to be one, or else [`NotSent`]: the source of an error in its place.
pub(crate) fn source_of_refusal(refusal: &(impl Error + 'static)) -> &(dyn Error + 'static) {
    if is_refusal(refusal) { refusal } else { &NotSent }
}
