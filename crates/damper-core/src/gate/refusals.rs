//! The refusals of damper's own gates, and the list by which they are found in an error.

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use super::AnyRefusal;
use super::{Refusal, RefusalKind};
use crate::breaker::CircuitOpen;
#[cfg(feature = "alloc")]
use crate::concurrency::NotAdmitted;
use crate::concurrency::{BulkheadFull, LimitSetRefusal};
#[cfg(feature = "alloc")]
use crate::keyed::{TreeDenied, TreeRefusal};
use crate::limit::{Denied, LimitSetDenied};
use crate::throttle::{PaceTooSlow, Throttled};
use core::error::Error;
use core::time::Duration;

/// Returns the kind and the wait of a refusal of damper, or of any gate in an [`AnyRefusal`].
pub(super) fn known_refusal(error: &(dyn Error + 'static)) -> Option<(RefusalKind, Option<Duration>)> {
    macro_rules! first_of {
        ($($(#[$cfg:meta])* $refusal:ty,)*) => {
            $(
                $(#[$cfg])*
                if let Some(refusal) = error.downcast_ref::<$refusal>() {
                    return Some((refusal.kind(), Refusal::retry_after(refusal)));
                }
            )*
        };
    }
    first_of! {
        CircuitOpen,
        Denied,
        LimitSetDenied,
        LimitSetRefusal,
        #[cfg(feature = "alloc")] TreeDenied,
        #[cfg(feature = "alloc")] TreeRefusal,
        Throttled,
        PaceTooSlow,
        BulkheadFull,
        #[cfg(feature = "alloc")] NotAdmitted,
        #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))] AnyRefusal,
    }
    None
}

impl Refusal for Denied {
    fn kind(&self) -> RefusalKind {
        RefusalKind::OverLimit
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after()
    }
}

impl Refusal for LimitSetDenied {
    fn kind(&self) -> RefusalKind {
        RefusalKind::OverLimit
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after()
    }
}

/// A set that has no slot free cannot take any call.
impl Refusal for LimitSetRefusal {
    fn kind(&self) -> RefusalKind {
        match self {
            Self::Limit(_) => RefusalKind::OverLimit,
            _ => RefusalKind::Unavailable,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Limit(denied) => Refusal::retry_after(denied),
            _ => None,
        }
    }
}

#[cfg(feature = "alloc")]
impl Refusal for TreeDenied {
    fn kind(&self) -> RefusalKind {
        RefusalKind::OverLimit
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after()
    }
}

#[cfg(feature = "alloc")]
impl Refusal for TreeRefusal {
    fn kind(&self) -> RefusalKind {
        match self {
            Self::Denied(_) => RefusalKind::OverLimit,
            Self::QueueFull | Self::LineFull { .. } | Self::TimedOut => RefusalKind::Unavailable,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after()
    }
}

impl Refusal for CircuitOpen {
    fn kind(&self) -> RefusalKind {
        RefusalKind::Unavailable
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after()
    }

    fn label(&self) -> &'static str {
        "circuit_open"
    }
}

impl Refusal for Throttled {
    fn kind(&self) -> RefusalKind {
        RefusalKind::Unavailable
    }

    fn retry_after(&self) -> Option<Duration> {
        Some(self.retry_after())
    }

    fn label(&self) -> &'static str {
        "throttled"
    }
}

impl Refusal for PaceTooSlow {
    fn kind(&self) -> RefusalKind {
        RefusalKind::Unavailable
    }

    fn retry_after(&self) -> Option<Duration> {
        Some(self.retry_after())
    }

    fn label(&self) -> &'static str {
        "pace_too_slow"
    }
}

impl Refusal for BulkheadFull {
    fn kind(&self) -> RefusalKind {
        RefusalKind::Unavailable
    }

    fn label(&self) -> &'static str {
        self.cause().label()
    }
}

#[cfg(feature = "alloc")]
impl Refusal for NotAdmitted {
    fn kind(&self) -> RefusalKind {
        RefusalKind::Unavailable
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after()
    }

    fn label(&self) -> &'static str {
        self.cause().label()
    }
}
