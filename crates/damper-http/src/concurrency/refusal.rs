//! Why a request got no permit.

use core::error::Error;
use core::time::Duration;
use damper_core::concurrency::{BulkheadFull, FullCause};

/// The refusal of a [`ConcurrencyLimit`](super::ConcurrencyLimit), which displays as a sentence for the client.
pub trait ConcurrencyRefusal: Error + Clone + Send + Sync + 'static {
    /// Returns the time after which a request could pass. Default: `None`.
    ///
    /// The layer's [`retry_after`](super::ConcurrencyLayer::retry_after) applies then.
    fn retry_after(&self) -> Option<Duration> {
        None
    }

    /// Returns the cause as a label of metrics. Default: `other`.
    fn cause_label(&self) -> &'static str {
        "other"
    }
}

impl ConcurrencyRefusal for BulkheadFull {
    fn cause_label(&self) -> &'static str {
        match self.cause() {
            FullCause::NoSlot => "no_slot",
            FullCause::NoQueue => "no_queue",
            FullCause::QueueFull => "queue_full",
            FullCause::TimedOut => "timed_out",
            FullCause::Displaced => "displaced",
            FullCause::StoreFull => "store_full",
            _ => "other",
        }
    }
}
