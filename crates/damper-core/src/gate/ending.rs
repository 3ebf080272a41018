//! How a call ended, and the tables of HTTP's statuses and gRPC's codes.

#[cfg(feature = "tokio")]
use crate::breaker::source_of;
use crate::deadline::DeadlineExceeded;
use crate::is_refusal;
use core::error::Error;

/// How a call ended: a fact, not a judgement.
///
/// Gates judge one ending differently. A 429 is no failure of a server for a breaker, and nothing to learn from for an adaptive limit.
///
/// | ending | HTTP | gRPC | a breaker | a throttle | an adaptive limit | a retry |
/// |---|---|---|---|---|---|---|
/// | [`Success`](Self::Success) | any other | `OK` | success | accepted | its time counts | no |
/// | [`Declined`](Self::Declined) | 4xx | any other | success | accepted | ignores it | no |
/// | [`Limited`](Self::Limited) | 429 | `RESOURCE_EXHAUSTED` | success | ignores it | ignores it | after a longer wait |
/// | [`Unavailable`](Self::Unavailable) | 503 | `UNAVAILABLE` | failure | rejected | overload | yes |
/// | [`BadGateway`](Self::BadGateway) | 502 | | failure | rejected | ignores it | yes |
/// | [`Failed`](Self::Failed) | 5xx | | failure | accepted | ignores it | no |
/// | [`Broken`](Self::Broken) | an error | an error | failure | rejected | ignores it | yes |
/// | [`TimedOut`](Self::TimedOut) | 504 | `DEADLINE_EXCEEDED` | failure | rejected | overload | yes |
/// | [`NotSent`](Self::NotSent) | | | ignores it | ignores it | ignores it | no |
///
/// The layers of `http` ignore a `TimedOut` call that its deadline left too little time. Other gates and layers count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Ending {
    /// The server did its work.
    Success,
    /// The server answered, but did not do what it was asked for.
    ///
    /// The request was wrong, or the application says no.
    ///
    /// The server works. The time that it took says nothing about its work.
    Declined,
    /// The caller is over its quota.
    ///
    /// The server works, and refuses in no time. If that counted against it, one client over its quota would take the server from all others.
    Limited,
    /// The server refused the call because it is overloaded, or not ready.
    Unavailable,
    /// A gateway got no valid answer from the server behind it.
    BadGateway,
    /// The server tried and failed: that cost it its work.
    Failed,
    /// There is no answer: no connection could be made, or it broke.
    Broken,
    /// There was no answer in time.
    TimedOut,
    /// The request was not sent as a whole, so the call says nothing about the server.
    ///
    /// A gate in this process refused it, the request could not be made, or its own body failed while it was sent.
    NotSent,
}

impl Ending {
    /// Returns the ending of an HTTP call with this status.
    #[inline]
    #[must_use]
    pub const fn of_status(status: u16) -> Self {
        match status {
            429 => Self::Limited,
            400..=499 => Self::Declined,
            502 => Self::BadGateway,
            503 => Self::Unavailable,
            504 => Self::TimedOut,
            500..=599 => Self::Failed,
            _ => Self::Success,
        }
    }

    /// Returns the ending of a gRPC call with this code.
    ///
    /// `INTERNAL` and `UNKNOWN` are declined calls, because applications return them for errors of their own. gRPC maps
    /// `RESOURCE_EXHAUSTED` to HTTP's 429.
    #[inline]
    #[must_use]
    pub const fn of_grpc_code(code: u32) -> Self {
        match code {
            0 => Self::Success,
            4 => Self::TimedOut,
            8 => Self::Limited,
            14 => Self::Unavailable,
            _ => Self::Declined,
        }
    }

    /// Returns the ending of a call that returned an error.
    ///
    /// It is [`NotSent`](Self::NotSent) if the error or one of its sources is a [refusal](is_refusal), [`TimedOut`](Self::TimedOut) if one is a
    /// [`DeadlineExceeded`] or, with the feature `tokio`, the error of tokio's timeout, and else [`Broken`](Self::Broken).
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::Bulkhead;
    /// use damper::gate::Ending;
    /// use std::io;
    ///
    /// let full = Bulkhead::new(0).try_acquire().unwrap_err();
    /// assert_eq!(Ending::of_error(&io::Error::other(full)), Ending::NotSent);
    /// assert_eq!(Ending::of_error(&io::Error::from(io::ErrorKind::ConnectionReset)), Ending::Broken);
    /// # }
    /// ```
    #[must_use]
    pub fn of_error(error: &(dyn Error + 'static)) -> Self {
        if is_refusal(error) {
            Self::NotSent
        } else if DeadlineExceeded::find_in(error).is_some() || has_elapsed(error) {
            Self::TimedOut
        } else {
            Self::Broken
        }
    }

    /// Returns whether a throttle counts the call as accepted; `None` if it ignores the call.
    #[inline]
    #[must_use]
    pub const fn is_accepted(self) -> Option<bool> {
        match self {
            Self::Success | Self::Declined | Self::Failed => Some(true),
            Self::Unavailable | Self::BadGateway | Self::Broken | Self::TimedOut => Some(false),
            Self::Limited | Self::NotSent => None,
        }
    }

    /// Returns whether the server was overloaded: it refused the call, or did not answer in time.
    #[inline]
    #[must_use]
    pub const fn is_overload(self) -> bool {
        matches!(self, Self::Unavailable | Self::TimedOut)
    }
}

/// Returns whether an error is that of tokio's timeout, or has it among its sources.
#[cfg(feature = "tokio")]
fn has_elapsed(error: &(dyn Error + 'static)) -> bool {
    core::iter::successors(Some(error), |error| source_of(*error)).any(<dyn Error>::is::<tokio::time::error::Elapsed>)
}

#[cfg(not(feature = "tokio"))]
const fn has_elapsed(_: &(dyn Error + 'static)) -> bool {
    false
}
