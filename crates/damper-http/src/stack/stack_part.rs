//! The names of the parts of a client's stack.

use core::fmt;

/// A part of a client's stack. A [`StackError`](super::StackError) names the part that ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StackPart {
    /// The deadline of the whole call.
    Deadline,
    /// The circuit breaker.
    Breaker,
    /// The retries, which gave the call up.
    Retry,
    /// The pacing, whose sleep would outlast the deadline.
    Pacing,
    /// The hedge. It ends no calls by itself, but a layer of your own in its place may.
    Hedge,
    /// The throttle.
    Throttle,
    /// The rate limit.
    Limit,
    /// The concurrency limit: a bulkhead or an adaptive limit.
    Concurrency,
    /// The timeout of one attempt.
    AttemptTimeout,
    /// The client behind the stack: the call was made, and failed.
    Transport,
}

impl StackPart {
    /// Returns its name, as a label of metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Breaker => "breaker",
            Self::Retry => "retry",
            Self::Pacing => "pacing",
            Self::Hedge => "hedge",
            Self::Throttle => "throttle",
            Self::Limit => "limit",
            Self::Concurrency => "concurrency",
            Self::AttemptTimeout => "attempt_timeout",
            Self::Transport => "transport",
        }
    }

    /// Returns how this part ends a call.
    pub(super) const fn ending(self) -> &'static str {
        match self {
            Self::Deadline => "call ended by its deadline",
            Self::Breaker => "call refused by the breaker",
            Self::Retry => "call given up by the retries",
            Self::Pacing => "call refused by the pacing",
            Self::Hedge => "call ended by the hedge",
            Self::Throttle => "call refused by the throttle",
            Self::Limit => "call refused by the rate limit",
            Self::Concurrency => "call refused by the concurrency limit",
            Self::AttemptTimeout => "attempt ended by its timeout",
            Self::Transport => "call failed",
        }
    }
}

impl fmt::Display for StackPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place of a client's stack.
///
/// It is a type, so that a call that is made does not carry the name of its part.
pub trait Place {
    /// The name of the part in this place.
    const PART: StackPart;
}

macro_rules! places {
    ($($place:ident)*) => {
        $(
            /// The place of the part of this name.
            #[derive(Clone, Copy, Debug)]
            pub struct $place;

            impl Place for $place {
                const PART: StackPart = StackPart::$place;
            }
        )*
    };
}

places! { Deadline Breaker Retry Pacing Hedge Throttle Limit Concurrency AttemptTimeout }
