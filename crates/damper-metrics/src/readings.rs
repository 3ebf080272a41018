//! The values of a source, on their way to the recorder.

use crate::catalogue::{LIMIT_BURST, LIMIT_DEBT, LIMIT_RATE, LIMIT_REMAINING, SHADOW_REFUSALS};
use crate::metric::{Kind, Metric};
use damper_core::limit::Usage;
use damper_core::quota::Quota;
use damper_core::shadow::ShadowReport;
use metrics::{Label, SharedString, counter, gauge, histogram};

/// Takes the values of one source for the recorder, under the name and the labels of the source.
#[derive(Clone, Debug)]
pub struct Readings<'a> {
    name: &'a str,
    tiers: &'a [String],
    labels: Vec<Label>,
}

impl<'a> Readings<'a> {
    pub(crate) fn new(name: &'a str, tiers: &'a [String]) -> Self {
        Self { name, tiers, labels: Vec::new() }
    }

    /// Returns the same readings with another label.
    #[must_use]
    pub fn with(&self, label: &'static str, value: impl Into<SharedString>) -> Self {
        let mut readings = self.clone();
        readings.labels.push(Label::new(label, value));
        readings
    }

    /// Returns the same readings with the label `tier`: the name of the tier, or its number if it has none.
    #[must_use]
    pub fn of_tier(&self, tier: usize) -> Self {
        self.with("tier", self.tiers.get(tier).cloned().unwrap_or_else(|| tier.to_string()))
    }

    /// Records a value: the state of a gauge, the total of a counter so far, or a sample of a histogram.
    ///
    /// The total of a counter is rounded down.
    pub fn record(&self, metric: &Metric, value: f64) {
        let mut labels = Vec::with_capacity(1 + self.labels.len());
        labels.extend(metric.labels().first().map(|first| Label::new(*first, self.name.to_owned())));
        labels.extend_from_slice(&self.labels);
        match metric.kind() {
            Kind::Counter => counter!(metric.name(), labels).absolute(value as u64),
            Kind::Gauge => gauge!(metric.name(), labels).set(value),
            Kind::Histogram => histogram!(metric.name(), labels).record(value),
        }
    }

    /// Records the usage of a limit: its rate, its burst, and the tokens that are there or are owed.
    pub fn record_usage(&self, usage: Usage) {
        self.record_quota(usage.quota(), usage.limit());
        self.record(&LIMIT_REMAINING, f64::from(usage.remaining()));
        self.record(&LIMIT_DEBT, f64::from(usage.debt()));
    }

    /// Records the rate of a quota, and the most tokens that can be there under it.
    ///
    /// Without a limit both are infinite.
    pub(crate) fn record_quota(&self, quota: Quota, most: u32) {
        let (rate, most) = if quota.is_unlimited() {
            (f64::INFINITY, f64::INFINITY)
        } else {
            (f64::from(quota.limit()) / quota.window().as_secs_f64(), f64::from(most))
        };
        self.record(&LIMIT_RATE, rate);
        self.record(&LIMIT_BURST, most);
    }

    /// Records the refusals of what is in force and of a candidate beside it.
    pub fn record_shadow(&self, report: ShadowReport) {
        let ShadowReport { by_both, only_by_candidate, only_in_force, .. } = report;
        for (by, calls) in [("both", by_both), ("candidate", only_by_candidate), ("in_force", only_in_force)] {
            self.with("by", by).record_number(&SHADOW_REFUSALS, calls);
        }
    }

    /// Records a number of things, as [`record`](Self::record) does.
    #[expect(clippy::cast_precision_loss, reason = "recorders keep numbers as f64, exactly up to 2^53")]
    pub fn record_number(&self, metric: &Metric, number: u64) {
        self.record(metric, number as f64);
    }
}
