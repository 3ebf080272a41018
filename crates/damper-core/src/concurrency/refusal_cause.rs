//! Why a call got no slot.

/// Why a limit on calls in flight refused a call.
///
/// [`BulkheadFull`](super::BulkheadFull) has one, and `NotAdmitted`, the refusal of an `Admission`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RefusalCause {
    /// All slots were taken, and the call does not wait: `try_acquire`, `call` and `run` never do.
    ///
    /// An `Admission` without a queue answers so too.
    NoSlot,
    /// All slots were taken, and the call could not wait, because there is no [`queue`](super::Bulkhead::queue).
    NoQueue,
    /// All places of the queue were taken too.
    ///
    /// In an `Admission` no call gave way: all of them go first, or have been given a slot and were not polled since.
    QueueFull,
    /// The call got no slot in the time that it had to wait.
    TimedOut,
    /// The call was queued, and its place went to another one.
    ///
    /// A bulkhead that is served newest first gives it to a newer call. An `Admission` gives it to a call of a higher class, to a
    /// tenant with fewer calls queued or to a newer call of the same tenant, or a falling limit shortened its queue.
    Displaced,
    /// The key had no limit of its own yet, and all limits that the store examined were in use.
    StoreFull,
    /// Too little time was left before the deadline.
    ///
    /// It had passed, or an `Admission` found less time left than the median of recent service times, so the call would hardly have
    /// ended in time.
    Late,
}

impl RefusalCause {
    /// Returns the cause as a label of metrics.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::NoSlot => "no_slot",
            Self::NoQueue => "no_queue",
            Self::QueueFull => "queue_full",
            Self::TimedOut => "timed_out",
            Self::Displaced => "displaced",
            Self::StoreFull => "store_full",
            Self::Late => "late",
        }
    }
}
