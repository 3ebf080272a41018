//! Refusals as statuses, for handlers of yours.

use crate::grpc::find_status;
use crate::verdict::PUSHBACK_KEY;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt::{Display, Write};
use core::iter::successors;
use core::time::Duration;
use damper_core::breaker::{CallError, CircuitOpen};
use damper_core::concurrency::{BulkheadFull, LimitSetRefusal, NotAdmitted};
use damper_core::deadline::DeadlineExceeded;
use damper_core::gate::{AnyRefusal, Either, Refusal, RefusalKind, Standing};
use damper_core::internal::{refusal_in, shared_refusal, source_of};
use damper_core::is_refusal;
use damper_core::limit::{Denied, LimitSetDenied};
use damper_core::retry::{GaveUp, RetryError};
use damper_core::throttle::{PaceTooSlow, Throttled};
use damper_http::internal::{ERROR_DOMAIN, QUOTA_SUBJECT, error_reason, reason_of};
use damper_http::{Limited, Refusal as LimitRefusal};
use std::collections::HashMap;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, QuotaViolation, StatusExt};

/// The wait for a probe or a call to end, whose duration is unknown.
pub(crate) const A_SECOND: Duration = Duration::from_secs(1);

/// Returns a refusal as a status, with the wait as a `google.rpc.RetryInfo`.
///
/// A limit's wait is also its pushback, which gRPC's own clients read if `RESOURCE_EXHAUSTED` is among the codes that they retry. They do
/// not read the details. To HTTP the status is a `200 OK`, which caches must not store.
pub(crate) fn status(code: Code, refusal: &impl Display, retry_after: Option<Duration>) -> Status {
    status_with(code, refusal, retry_after, ErrorDetails::new())
}

/// Returns a refusal as a status with all that is known of it.
///
/// The quota that is used up is a `google.rpc.QuotaFailure`, and the label a `google.rpc.ErrorInfo`.
fn refusal_status(code: Code, refusal: &impl Refusal, retry_after: Option<Duration>) -> Status {
    let mut details = ErrorDetails::new();
    if let Some(Standing { quota, .. }) = refusal.standing() {
        let violation = QuotaViolation {
            quota_value: quota.limit().into(),
            ..QuotaViolation::new(QUOTA_SUBJECT, quota.to_string())
        };
        details.set_quota_failure(Vec::from([violation]));
    }
    details.set_error_info(error_reason(refusal.label()), ERROR_DOMAIN, HashMap::new());
    status_with(code, refusal, retry_after, details)
}

fn status_with(code: Code, refusal: &impl Display, retry_after: Option<Duration>, mut details: ErrorDetails) -> Status {
    // Most messages fit, so that it does not grow while it is written.
    let mut message = String::with_capacity(64);
    // Writing to a string cannot fail.
    _ = write!(message, "{refusal}");
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    let has_details = retry_after.is_some() || details.has_quota_failure_violations() || details.error_info().is_some();
    let mut status =
        if has_details { Status::with_error_details(code, message, details) } else { Status::new(code, message) };
    if code == Code::ResourceExhausted
        && let Some(millis) = retry_after.and_then(|wait| i32::try_from(wait.as_nanos().div_ceil(1_000_000)).ok())
    {
        status.metadata_mut().insert(PUSHBACK_KEY, millis.into());
    }
    status.metadata_mut().insert("cache-control", MetadataValue::from_static("no-store"));
    status
}

/// Returns the status of a call's error.
///
/// It is the one that a generated client would make of it, except that a refusal by a layer of damper is not `UNKNOWN`.
pub(crate) fn status_of(error: Box<dyn Error + Send + Sync>) -> Status {
    if find_status(&*error).is_some() {
        return Status::from_error(error);
    }
    let chain = successors(Some(&*error as &(dyn Error + 'static)), |&error| source_of(error));
    // The innermost error of which this is true is the refusal itself.
    let Some(refusal) = chain.take_while(|&error| is_refusal(error)).last() else {
        return Status::try_from_error(error).unwrap_or_else(|error| {
            // The sentence of a stack's error names only the part.
            let message = error.downcast_ref().map_or_else(|| error.to_string(), reason_of);
            unknown_status(error, message)
        });
    };
    let code = match refusal_in(refusal) {
        _ if refusal.is::<PaceTooSlow>() => Code::DeadlineExceeded,
        Some((kind, _)) => code_of(kind),
        None => Code::Unavailable,
    };
    let mut status = Status::new(code, refusal.to_string());
    status.set_source(Arc::from(error));
    status
}

/// Returns the status of an error that tonic does not know.
pub(crate) fn unknown_status(error: Box<dyn Error + Send + Sync>, message: String) -> Status {
    let mut status = Status::unknown(message);
    status.set_source(Arc::from(error));
    status
}

/// Returns the sentence of a call that was given up, with its reason.
///
/// The reason is the source of an error that has none of an attempt.
pub(crate) fn gave_up_message<E>(error: &RetryError<E>) -> String {
    match (error.error(), error.reason()) {
        (Some(_), _) => error.to_string(),
        (None, GaveUp::Paced(too_slow)) => format!("{error}: {too_slow}"),
        (None, reason) => format!("{error}: {reason}"),
    }
}

/// Turns a refusal into a status, so that a handler can answer with it.
///
/// | refusal | status | `RetryInfo` |
/// |---|---|---|
/// | [`LimitSetRefusal`] | as the limit's [`LimitSetDenied`], or as the [`BulkheadFull`]; a queue's is `UNAVAILABLE` | a second for a queue |
/// | [`Denied`], [`LimitSetDenied`], [`Limited`] | `RESOURCE_EXHAUSTED` | the wait; absent if no wait helps |
/// | [`Refusal`](damper_http::Refusal) | as the [`Limited`] in it; `INTERNAL` if the limit could not decide | |
/// | [`CircuitOpen`], which is the source of the status | `UNAVAILABLE` | the time until the next probe, or a second |
/// | [`BulkheadFull`], which is the source of the status | `UNAVAILABLE` | a second |
/// | [`NotAdmitted`], which is the source of the status | `UNAVAILABLE` | the gate's estimate, or a second |
/// | [`Throttled`], which is the source of the status | `UNAVAILABLE` | the time until the next probe, at most a second |
/// | [`PaceTooSlow`], which is the source of the status | `DEADLINE_EXCEEDED` | the sleep |
/// | [`DeadlineExceeded`], which is the source of the status | `DEADLINE_EXCEEDED` | |
/// | [`RetryError`], by its deadline | `DEADLINE_EXCEEDED`, with the reason as its source | |
/// | [`RetryError`], else | as the last error, or as the refusal in it | |
/// | [`CallError`] | as its refusal, or as the error of the call | |
/// | [`Either`] | as the refusal in it | |
/// | [`AnyRefusal`], one of your own by [`status_of_refusal`] | by its kind | the wait |
///
/// The status of a refusal also has a `google.rpc.ErrorInfo` of the domain `damper`. Its reason is the [label](Refusal::label) in capitals, such as
/// `CIRCUIT_OPEN`. That of a limit that knows its quota has a `google.rpc.QuotaFailure` with the quota. Neither names the caller.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub use damper_http as http; pub extern crate damper_tonic as tonic; }
/// use damper::tonic::IntoStatus;
/// use damper::{CircuitBreaker, CircuitOpen};
/// use tonic::{Code, Status};
///
/// static DATABASE: CircuitBreaker = CircuitBreaker::new(damper::BreakerConfig::DEFAULT);
///
/// fn handler() -> Result<(), Status> {
///     let permit = DATABASE.try_acquire().map_err(IntoStatus::into_status)?;
///     permit.success();
///     Ok(())
/// }
///
/// DATABASE.force_open();
/// let status = handler().unwrap_err();
/// assert_eq!(status.code(), Code::Unavailable);
/// assert!(CircuitOpen::find_in(&status).is_some());
/// ```
pub trait IntoStatus {
    /// Returns the status to answer with.
    fn into_status(self) -> Status;
}

/// Returns the status of a refusal, for the [`IntoStatus`] of one of your own.
///
/// Its code is that of the [kind](damper_core::gate::RefusalKind), and its `RetryInfo` the wait. One that is `Unavailable` and knows no wait
/// asks for a second. The refusal is the source of the status.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_tonic as tonic; }
/// use damper::gate::{Refusal, RefusalKind};
/// use damper::tonic::{IntoStatus, status_of_refusal};
/// use std::fmt;
/// use tonic::{Code, Status};
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
/// impl std::error::Error for Closed {}
///
/// impl Refusal for Closed {
///     fn kind(&self) -> RefusalKind {
///         RefusalKind::Unavailable
///     }
/// }
///
/// impl IntoStatus for Closed {
///     fn into_status(self) -> Status {
///         status_of_refusal(self)
///     }
/// }
///
/// assert_eq!(Closed.into_status().code(), Code::Unavailable);
/// ```
pub fn status_of_refusal(refusal: impl Refusal) -> Status {
    let kind = refusal.kind();
    let mut status = refusal_status(code_of(kind), &refusal, refusal.retry_after().or_else(|| usual_wait(kind)));
    status.set_source(shared_refusal(refusal));
    status
}

/// Returns the code of a kind of refusals.
pub(crate) const fn code_of(kind: RefusalKind) -> Code {
    Code::from_i32(kind.grpc_code().cast_signed())
}

/// Returns the wait that a refusal of this kind asks for if it knows none.
pub(crate) fn usual_wait(kind: RefusalKind) -> Option<Duration> {
    (kind == RefusalKind::Unavailable).then_some(A_SECOND)
}

macro_rules! refusals {
    ($($refusal:ty)*) => {
        $(
            impl IntoStatus for $refusal {
                fn into_status(self) -> Status {
                    status_of_refusal(self)
                }
            }
        )*
    };
}

refusals! { Denied LimitSetDenied LimitSetRefusal CircuitOpen BulkheadFull NotAdmitted Throttled AnyRefusal }

/// Returns the status of the refusal in it.
impl<A: IntoStatus, B: IntoStatus> IntoStatus for Either<A, B> {
    fn into_status(self) -> Status {
        match self {
            Self::First(refusal) => refusal.into_status(),
            Self::Second(refusal) => refusal.into_status(),
        }
    }
}

/// The error of a limit that could not decide is `INTERNAL`, without its source.
impl IntoStatus for LimitRefusal {
    fn into_status(self) -> Status {
        refusal_status(code_of(self.kind()), &self, self.retry_after())
    }
}

impl IntoStatus for Limited {
    fn into_status(self) -> Status {
        LimitRefusal::from(self).into_status()
    }
}

impl IntoStatus for PaceTooSlow {
    fn into_status(self) -> Status {
        let mut status = refusal_status(Code::DeadlineExceeded, &self, Some(self.retry_after()));
        status.set_source(Arc::new(self));
        status
    }
}

impl IntoStatus for DeadlineExceeded {
    fn into_status(self) -> Status {
        let mut status = status(Code::DeadlineExceeded, &self, None);
        status.set_source(Arc::new(self));
        status
    }
}

impl<E: Into<Status>, R: IntoStatus> IntoStatus for CallError<E, R> {
    fn into_status(self) -> Status {
        match self {
            Self::Refused(refusal) => refusal.into_status(),
            Self::Failed(error) => error.into(),
        }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> IntoStatus for RetryError<E> {
    fn into_status(self) -> Status {
        let (reason, message) = (self.reason(), gave_up_message(&self));
        match (reason, self.into_error()) {
            // Of an earlier attempt.
            (GaveUp::Deadline { .. }, _) | (_, None) => {
                let mut status = Status::deadline_exceeded(message);
                status.set_source(Arc::new(reason));
                status
            }
            (_, Some(error)) => status_of(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt;
    use core::future::ready;
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};
    use damper_core::gate::{Answer, AnswerOf, Ask, Gate, Never};
    use damper_core::quota::Quota;
    use damper_core::{BreakerConfig, CircuitBreaker};
    use damper_http::{ConcurrencyLayer, Head};
    use http::{HeaderMap, Request, Response};
    use tower::Service;

    /// A gate that refuses each call like this.
    #[derive(Clone, Debug)]
    struct Refused {
        kind: RefusalKind,
        text: &'static str,
        wait: Duration,
        quota: Option<Quota>,
        label: &'static str,
    }

    impl fmt::Display for Refused {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.text)
        }
    }

    impl Error for Refused {}

    impl Refusal for Refused {
        fn kind(&self) -> RefusalKind {
            self.kind
        }

        fn retry_after(&self) -> Option<Duration> {
            Some(self.wait)
        }

        fn standing(&self) -> Option<Standing> {
            self.quota.map(|quota| Standing::new(quota, 0, None))
        }

        fn label(&self) -> &'static str {
            self.label
        }
    }

    impl Gate for Refused {
        type Permit = ();
        type Refusal = Self;
        type Wait = Never<(), Self>;
    }

    impl Ask<Head<'_>> for Refused {
        fn ask(&self, _: &Head<'_>) -> AnswerOf<Self> {
            Answer::Refuse(self.clone())
        }
    }

    /// Returns the headers with which a server's layer refuses a request.
    fn headers_of(refusal: &Refused) -> HeaderMap {
        let service = tower::service_fn(|_: Request<()>| {
            ready(Ok::<_, core::convert::Infallible>(Response::new(tonic::body::Body::empty())))
        });
        let mut service = ConcurrencyLayer::new(refusal.clone()).layer(service);
        let request = Request::post("/").header("content-type", "application/grpc").body(()).unwrap();
        let Poll::Ready(Ok(response)) = pin!(service.call(request)).poll(&mut Context::from_waker(Waker::noop()))
        else {
            panic!("the gate answers at once")
        };
        response.headers().clone()
    }

    #[test]
    fn refusals_say_which_quota_is_used_up_and_why() {
        let quota = Some(Quota::per_second(10).burst(20));
        let (kind, wait) = (RefusalKind::OverLimit, Duration::from_secs(3));
        let refused = status_of_refusal(Refused { kind, text: "no", wait, quota, label: "over_limit" });
        let details = refused.get_error_details();
        let violation = &details.quota_failure().unwrap().violations[0];
        assert_eq!(
            (&*violation.subject, &*violation.description, violation.quota_value),
            ("caller", "10/s burst 20", 10)
        );
        let info = details.error_info().unwrap();
        assert_eq!((&*info.reason, &*info.domain), ("OVER_LIMIT", "damper"));
        assert_eq!(details.retry_info().unwrap().retry_delay, Some(wait));

        let breaker = CircuitBreaker::new(BreakerConfig::DEFAULT);
        breaker.force_open();
        let open = status_of_refusal(breaker.try_acquire().unwrap_err());
        let details = open.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "CIRCUIT_OPEN");
        assert!(details.quota_failure().is_none());
    }

    /// damper-http writes the headers of a refusal without tonic.
    #[test]
    fn servers_refuse_with_the_headers_of_tonics_status() {
        let waits = [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_millis(1_500),
            Duration::from_secs(127),
            Duration::from_secs(3_601),
            Duration::from_millis(2_147_483_648),
            Duration::new(315_576_000_000, 999_999_999),
            Duration::MAX,
        ];
        let long = "a".repeat(300).leak();
        let texts = ["", "full", "100 % of \"a\" <b> {c} `d` #e?~", "voll: \u{20ac}\u{0}\n\u{7f}", long];
        let quotas =
            [None, Some(Quota::per_second(10).burst(20)), Some(Quota::per_minute(u32::MAX)), Some(Quota::UNLIMITED)];
        let labels = ["over_limit", "", "by the hour: 9 \u{e4}", long];
        let kinds = [RefusalKind::OverLimit, RefusalKind::Unavailable, RefusalKind::Failed];
        for (kind, (quota, label)) in
            kinds.into_iter().flat_map(|kind| quotas.into_iter().zip(labels).map(move |details| (kind, details)))
        {
            for (wait, text) in waits.into_iter().flat_map(|wait| texts.map(|text| (wait, text))) {
                let refusal = Refused { kind, text, wait, quota, label };
                let expected = refusal_status(code_of(kind), &refusal, Some(wait)).into_http::<()>();
                assert_eq!(&headers_of(&refusal), expected.headers(), "{refusal:?}");
            }
        }
    }
}
