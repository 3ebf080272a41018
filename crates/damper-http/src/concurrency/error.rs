//! The error of a client's call behind a limit.

use super::ConcurrencyRefusal;
use alloc::boxed::Box;
use core::error::Error;
use core::fmt;
use core::ops::Deref;
use damper_core::concurrency::BulkheadFull;
#[cfg(feature = "tonic")]
use {crate::rate_limit::grpc, alloc::sync::Arc, tonic::Code, tonic::Status};

/// Why a call through a [`ClientConcurrencyLayer`](super::ClientConcurrencyLayer) did not succeed: the limit refused it, or it was
/// made and failed.
///
/// Displayed, it says which of the two it was; why is its `source()`. So [`BulkheadFull::find_in`] finds the refusal in whatever it is
/// wrapped, and damper's retries make no other attempt.
#[derive(Debug)]
pub enum ConcurrencyError<E, R = BulkheadFull> {
    /// The call was not made.
    Refused(RefusedCall<R>),
    /// The call was made and returned this error.
    Failed(E),
}

impl<E, R> ConcurrencyError<E, R> {
    /// Returns the refusal, if the call was not made.
    #[must_use]
    pub fn refusal(&self) -> Option<&R> {
        match self {
            Self::Refused(refused) => Some(refused),
            Self::Failed(_) => None,
        }
    }

    /// Returns the error that the call returned, if it was made.
    #[must_use]
    pub fn into_failed(self) -> Option<E> {
        match self {
            Self::Refused(_) => None,
            Self::Failed(error) => Some(error),
        }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>, R: ConcurrencyRefusal> ConcurrencyError<E, R> {
    /// In a box, for services whose errors are in boxes already, and so are no errors themselves: the refusal, or the
    /// error of the call as it is.
    pub fn into_boxed(self) -> Box<dyn Error + Send + Sync> {
        match self {
            Self::Refused(refused) => refused.into_boxed(),
            Self::Failed(error) => error.into(),
        }
    }
}

impl<E, R> fmt::Display for ConcurrencyError<E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused(_) => "call refused by the concurrency limit",
            Self::Failed(_) => "call failed",
        })
    }
}

impl<E: Error + 'static, R: ConcurrencyRefusal> Error for ConcurrencyError<E, R> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(refused) => Some(refused.as_error()),
            Self::Failed(error) => Some(error),
        }
    }
}

/// A refusal, in the protocol of its call: dereferences to the refusal, and displays as it.
///
/// In gRPC, with the feature `tonic`, the refusal is the source of a status `UNAVAILABLE`, because a generated client would make
/// `UNKNOWN` of any other error.
#[derive(Clone)]
pub struct RefusedCall<R> {
    refusal: R,
    #[cfg(feature = "tonic")]
    status: Option<Box<Status>>,
}

impl<R: ConcurrencyRefusal> RefusedCall<R> {
    /// Refuses the call of this request.
    #[cold]
    pub(super) fn new(
        refusal: R,
        #[cfg_attr(not(feature = "tonic"), expect(unused_variables))] head: &crate::Head<'_>,
    ) -> Self {
        Self {
            #[cfg(feature = "tonic")]
            status: grpc::is_grpc(head).then(|| {
                let mut status = grpc::status(Code::Unavailable, &refusal, refusal.retry_after());
                status.set_source(Arc::new(refusal.clone()));
                Box::new(status)
            }),
            refusal,
        }
    }

    fn as_error(&self) -> &(dyn Error + 'static) {
        #[cfg(feature = "tonic")]
        if let Some(status) = &self.status {
            return &**status;
        }
        &self.refusal
    }

    fn into_boxed(self) -> Box<dyn Error + Send + Sync> {
        #[cfg(feature = "tonic")]
        if let Some(status) = self.status {
            return status;
        }
        Box::new(self.refusal)
    }
}

impl<R> Deref for RefusedCall<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.refusal
    }
}

impl<R: fmt::Display> fmt::Display for RefusedCall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl<R: fmt::Debug> fmt::Debug for RefusedCall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RefusedCall").field(&self.refusal).finish()
    }
}
