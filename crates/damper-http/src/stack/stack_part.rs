//! The names of the parts.

use core::fmt;

/// A part of a client's stack, by which a [`StackError`](super::StackError) says where a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StackPart {
    /// The deadline of the whole call.
    Deadline,
    /// The circuit breaker.
    Breaker,
    /// The retries, which gave the call up.
    Retry,
    /// The hedge. It ends no calls by itself, but a layer of your own in its place may.
    Hedge,
    /// The throttle.
    Throttle,
    /// The rate limit.
    Limit,
    /// The limit of calls in flight: a bulkhead or an adaptive limit.
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
            Self::Hedge => "hedge",
            Self::Throttle => "throttle",
            Self::Limit => "limit",
            Self::Concurrency => "concurrency",
            Self::AttemptTimeout => "attempt_timeout",
            Self::Transport => "transport",
        }
    }
}

impl fmt::Display for StackPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
