//! Readers of the log.

use super::entry::Readout;
use super::{Decision, DecisionLog};
use crate::time::{Clock, DefaultClock};
use core::fmt;

/// Reads the decisions of a [`DecisionLog`], the oldest first, and changes nothing.
///
/// An iterator that ends with the last decision so far. It goes on with the next ones when it is asked again.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::ManualClock;
/// use damper::decision_log::DecisionLog;
///
/// let log = DecisionLog::with_clock(2, ManualClock::new());
/// let mut reader = log.reader();
/// for cost in 1..=5 {
///     log.record(0, cost, &Ok::<_, ()>(()));
/// }
/// let costs: Vec<u32> = reader.by_ref().map(|decision| decision.cost).collect();
/// assert_eq!(costs, [4, 5]);
/// assert_eq!(reader.lost(), 3, "there is room for two");
/// log.record(0, 6, &Ok::<_, ()>(()));
/// assert_eq!(reader.next().map(|decision| decision.cost), Some(6));
/// ```
pub struct DecisionReader<'a, C = DefaultClock> {
    log: &'a DecisionLog<C>,
    /// The number of the next decision.
    next: u64,
    overwritten: u64,
    unfinished: u64,
    /// The lost decisions that [`write_to`](Self::write_to) has written down.
    #[cfg(feature = "std")]
    reported: u64,
}

impl<'a, C> DecisionReader<'a, C> {
    pub(super) const fn new(log: &'a DecisionLog<C>) -> Self {
        Self::beginning_at(log, log.first_number())
    }

    /// Creates a reader whose first decision has this number.
    pub(super) const fn beginning_at(log: &'a DecisionLog<C>, next: u64) -> Self {
        Self {
            log,
            next,
            overwritten: 0,
            unfinished: 0,
            #[cfg(feature = "std")]
            reported: 0,
        }
    }

    /// Returns how many decisions were lost so far, of all that were written before the next one.
    ///
    /// They were [overwritten](Self::overwritten) or [unfinished](Self::unfinished).
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.overwritten + self.unfinished
    }

    /// Returns how many decisions were overwritten before this reader came to them.
    #[must_use]
    pub const fn overwritten(&self) -> u64 {
        self.overwritten
    }

    /// Returns how many decisions were not completely written when this reader came to them.
    #[must_use]
    pub const fn unfinished(&self) -> u64 {
        self.unfinished
    }
}

impl<C: Clock> DecisionReader<'_, C> {
    /// Writes the remaining decisions, one a line, and returns how many.
    ///
    /// If decisions were lost, a line such as `lost 12` follows, with how many since the last call. This is the file that
    /// `damper-sim replay` reads.
    ///
    /// # Errors
    ///
    /// The error of `out`. The decision that it did not take is not read again.
    #[cfg(feature = "std")]
    pub fn write_to(&mut self, mut out: impl std::io::Write) -> std::io::Result<u64> {
        let mut written = 0;
        for decision in &mut *self {
            writeln!(out, "{decision}")?;
            written += 1;
        }
        let lost = self.lost() - self.reported;
        if lost > 0 {
            writeln!(out, "lost {lost}")?;
            self.reported += lost;
        }
        out.flush()?;
        Ok(written)
    }
}

impl<C: Clock> Iterator for DecisionReader<'_, C> {
    type Item = Decision;

    fn next(&mut self) -> Option<Decision> {
        loop {
            let ahead = self.log.next_number().wrapping_sub(self.next);
            if ahead == 0 {
                return None;
            }
            let gone = ahead.saturating_sub(self.log.capacity().into());
            self.next = self.next.wrapping_add(gone);
            self.overwritten += gone;
            let found = self.log.read(self.next);
            self.next = self.next.wrapping_add(1);
            match found {
                Readout::Whole(decision) => return Some(decision),
                Readout::Overwritten => self.overwritten += 1,
                Readout::Unfinished => self.unfinished += 1,
            }
        }
    }
}

impl<C> fmt::Debug for DecisionReader<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecisionReader").field("next", &self.next).field("lost", &self.lost()).finish_non_exhaustive()
    }
}
