//! The kinds of layers, and the counters of each.

#[cfg(feature = "metrics")]
use damper_metrics::{
    Metric,
    catalogue::{
        BREAKER_ALLOWED, BREAKER_PROBES, BREAKER_REFUSED, CONCURRENCY_ALLOWED, CONCURRENCY_REFUSED, DEADLINE_EXCEEDED,
        DEADLINE_SKEWED, LIMIT_ALLOWED, LIMIT_ERRORS, LIMIT_REFUSED, PACING_CALLS, PACING_REFUSED, PACING_REJECTED,
        THROTTLE_ALLOWED, THROTTLE_REFUSED,
    },
};

/// A kind of layer, which has metrics and a field in logs of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The rate limit of a server.
    Limit,
    /// A candidate beside a rate limit, which is only logged.
    Candidate,
    /// The circuit breakers of a client.
    Breaker,
    /// The limit on calls in flight of a server.
    ServerConcurrency,
    /// The limit on calls in flight of a client.
    ClientConcurrency,
    /// The throttles of a client.
    Throttle,
    /// The pacers of a client.
    Pacing,
    /// The deadlines of a server.
    ServerDeadline,
    /// The deadlines of a client.
    ClientDeadline,
}

#[cfg(any(feature = "metrics", feature = "tracing"))]
impl Kind {
    /// Returns the label of metrics, and the field of logs, that holds the name of a layer.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Limit | Self::ServerConcurrency | Self::ClientConcurrency => "limit",
            Self::Candidate => "shadow",
            Self::Breaker => "breaker",
            Self::Throttle => "throttle",
            Self::Pacing => "pacing",
            Self::ServerDeadline | Self::ClientDeadline => "deadline",
        }
    }

    /// Returns the side of a layer, if there are layers of its kind on both.
    pub(super) const fn side(self) -> Option<&'static str> {
        match self {
            Self::ServerConcurrency | Self::ServerDeadline => Some("server"),
            Self::ClientConcurrency | Self::ClientDeadline => Some("client"),
            _ => None,
        }
    }

    /// Returns whether a layer limits the calls in flight, whose refusals have several causes.
    pub(super) const fn is_concurrency(self) -> bool {
        matches!(self, Self::ServerConcurrency | Self::ClientConcurrency)
    }
}

/// Something that a layer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call may pass.
    Allowed,
    /// A call may not pass, or its deadline has ended it.
    Refused,
    /// A call may pass as the probe of a breaker.
    Probe,
    /// The server's limit rejected an attempt.
    Rejected,
    /// A limit could not decide on a call.
    Undecided,
    /// A request was served whose deadline had passed on arrival.
    Skewed,
}

impl Event {
    /// How many events there are.
    #[cfg(feature = "metrics")]
    pub(super) const COUNT: usize = Self::Skewed as usize + 1;

    /// Returns the counter of this event in layers of a kind.
    ///
    /// `None` if it does not happen there, or is only logged.
    #[cfg(feature = "metrics")]
    pub(super) const fn metric(self, kind: Kind) -> Option<Metric> {
        use Kind::{
            Breaker, ClientConcurrency, ClientDeadline, Limit, Pacing, ServerConcurrency, ServerDeadline, Throttle,
        };
        Some(match (self, kind) {
            (Self::Allowed, Limit) => LIMIT_ALLOWED,
            (Self::Refused, Limit) => LIMIT_REFUSED,
            (Self::Undecided, Limit) => LIMIT_ERRORS,
            (Self::Allowed, Breaker) => BREAKER_ALLOWED,
            (Self::Refused, Breaker) => BREAKER_REFUSED,
            (Self::Probe, Breaker) => BREAKER_PROBES,
            (Self::Allowed, ServerConcurrency | ClientConcurrency) => CONCURRENCY_ALLOWED,
            (Self::Refused, ServerConcurrency | ClientConcurrency) => CONCURRENCY_REFUSED,
            (Self::Allowed, Throttle) => THROTTLE_ALLOWED,
            (Self::Refused, Throttle) => THROTTLE_REFUSED,
            (Self::Allowed, Pacing) => PACING_CALLS,
            (Self::Refused, Pacing) => PACING_REFUSED,
            (Self::Rejected, Pacing) => PACING_REJECTED,
            (Self::Refused, ServerDeadline | ClientDeadline) => DEADLINE_EXCEEDED,
            (Self::Skewed, ServerDeadline) => DEADLINE_SKEWED,
            _ => return None,
        })
    }
}

#[cfg(all(test, feature = "metrics"))]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const KINDS: [Kind; 9] = [
        Kind::Limit,
        Kind::Candidate,
        Kind::Breaker,
        Kind::ServerConcurrency,
        Kind::ClientConcurrency,
        Kind::Throttle,
        Kind::Pacing,
        Kind::ServerDeadline,
        Kind::ClientDeadline,
    ];

    const EVENTS: [Event; Event::COUNT] =
        [Event::Allowed, Event::Refused, Event::Probe, Event::Rejected, Event::Undecided, Event::Skewed];

    #[test]
    fn metrics_of_a_kind_hold_the_name_in_the_label_of_the_kind() {
        for kind in KINDS {
            for metric in EVENTS.iter().filter_map(|event| event.metric(kind)) {
                assert_eq!(metric.labels()[0], kind.label(), "{}", metric.name());
            }
        }
    }

    #[test]
    fn refusals_of_concurrency_have_the_label_of_their_cause() {
        let has_label =
            |kind: &Kind| Event::Refused.metric(*kind).is_some_and(|refused| refused.labels().contains(&"cause"));
        let with_label: Vec<_> = KINDS.into_iter().filter(has_label).collect();
        assert_eq!(with_label, KINDS.into_iter().filter(|kind| kind.is_concurrency()).collect::<Vec<_>>());
    }

    #[test]
    fn event_has_its_number() {
        assert!(EVENTS.iter().enumerate().all(|(number, event)| *event as usize == number));
    }
}
