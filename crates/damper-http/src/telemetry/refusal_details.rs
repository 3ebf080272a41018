//! The details of a refusal.

use crate::Head;
use crate::limit::{Limit, Limited};
use alloc::string::{String, ToString};
#[cfg(feature = "metrics")]
use alloc::vec::Vec;
use core::time::Duration;
use damper_core::deadline::DeadlineExceeded;
use damper_core::quota::Quota;
#[cfg(feature = "metrics")]
use metrics::Label;
#[cfg(any(feature = "metrics", feature = "tracing"))]
use {super::Kind, damper_core::gate::Refusal, damper_core::throttle::Throttled};

/// The details of a refusal, without the layer.
///
/// Logs have all of them. Metrics have those with few values as labels: from `tier` to `stage`.
#[derive(Clone, Debug, Default)]
pub struct RefusalDetails<'a> {
    /// The method of the request.
    pub method: Option<&'a str>,
    /// The path of the request.
    pub path: Option<&'a str>,
    /// The function of a service of Mesh that the request calls.
    pub function: Option<String>,
    /// The tier of the key.
    pub tier: Option<usize>,
    /// The prefix whose limit refused.
    pub prefix: Option<String>,
    /// The limit of a set that refused, by its number.
    pub part: Option<usize>,
    /// The level of a tree that refused.
    pub level: Option<&'static str>,
    /// The dimension of a tree that refused.
    pub dimension: Option<&'static str>,
    /// The plan that refused.
    pub plan: Option<String>,
    /// The scope of a service of Mesh that refused.
    pub scope: Option<&'static str>,
    /// The cause, if the refusals of the layer have several.
    pub cause: Option<&'static str>,
    /// How far the call had come when its deadline passed.
    pub stage: Option<&'static str>,
    /// The answer of the limit in force, beside which a candidate refused.
    pub in_force: Option<&'static str>,
    /// The share of the calls that a throttle refuses.
    pub share_refused: Option<f64>,
    /// The time that a call was given.
    pub specified: Option<Duration>,
    /// The time that a call has taken.
    pub elapsed: Option<Duration>,
    /// The time after which a call has a chance.
    pub retry_after: Option<Duration>,
    /// The quota in force.
    pub quota: Option<Quota>,
}

impl<'a> RefusalDetails<'a> {
    /// Adds the request.
    fn of_request(self, head: &Head<'a>) -> Self {
        Self { method: Some(head.method.as_str()), path: Some(head.uri.path()), ..self }
    }

    /// Returns the details of a gate's refusal in a layer of this kind.
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    pub(super) fn by_gate(kind: Kind, head: &Head<'a>, refusal: &impl Refusal) -> Self {
        let share_refused = Throttled::find_in(refusal).map(Throttled::share_refused);
        let known = Self { share_refused, retry_after: refusal.retry_after(), ..Self::default() };
        if kind.is_concurrency() {
            return Self { cause: Some(refusal.label()), ..known.of_request(head) };
        }
        known
    }

    /// Returns the details of a limit's refusal.
    pub(super) fn by_limit(limit: &(impl Limit + ?Sized), head: &Head<'a>, limited: &Limited) -> Self {
        let level = limited.level();
        Self {
            tier: limited.tier(),
            prefix: limited.prefix().map(|prefix| prefix.to_string()),
            part: limited.part(),
            level,
            dimension: limited.dimension(),
            plan: level.and_then(|_| limit.plan(head, limited)),
            retry_after: limited.retry_after(),
            quota: Some(limited.standing().quota),
            ..Self::default().of_request(head)
        }
    }

    /// Returns the details of a call that its deadline ended.
    pub(super) fn by_deadline(stage: DeadlineStage, exceeded: &DeadlineExceeded) -> Self {
        let (specified, elapsed) = (Some(exceeded.specified()), Some(exceeded.elapsed()));
        Self { stage: Some(stage.label()), specified, elapsed, ..Self::default() }
    }

    /// Returns the labels of metrics.
    #[cfg(feature = "metrics")]
    pub(super) fn labels(&self) -> Vec<Label> {
        let number = |label, number: Option<usize>| number.map(|number| Label::new(label, number.to_string()));
        let word = |label, word: Option<&'static str>| word.map(|word| Label::new(label, word));
        let text = |label, text: &Option<String>| text.as_ref().map(|text| Label::new(label, text.clone()));
        let labels = [
            number("tier", self.tier),
            text("prefix", &self.prefix),
            number("part", self.part),
            word("level", self.level),
            word("dimension", self.dimension),
            text("plan", &self.plan),
            word("scope", self.scope),
            word("cause", self.cause),
            word("stage", self.stage),
        ];
        labels.into_iter().flatten().collect()
    }
}

/// How far a call had come when its deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineStage {
    /// It arrived at the server.
    Arrival,
    /// It was to be sent by the client.
    Departure,
    /// Its response had not begun.
    Response,
    /// Its response had not ended.
    Body,
}

impl DeadlineStage {
    const fn label(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Departure => "departure",
            Self::Response => "response",
            Self::Body => "body",
        }
    }
}
