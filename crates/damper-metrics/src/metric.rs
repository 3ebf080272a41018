//! The description of a metric.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// How the values of a metric behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A total that only grows.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// A distribution of values.
    Histogram,
}

impl Kind {
    /// Returns the kind's name, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The name, the kind, the unit, the labels and the help text of a metric.
///
/// # Examples
///
/// A metric of your own, for a [`Source`](crate::Source) of your own:
///
/// ```
/// use damper_metrics::{Kind, Metric};
/// use metrics::Unit;
///
/// const LEASED: Metric =
///     Metric::new("app_leased_tokens", Kind::Gauge, Unit::Count, &["limit"], "Tokens that leases hold.");
/// assert_eq!(LEASED.name(), "app_leased_tokens");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    name: &'static str,
    kind: Kind,
    unit: Unit,
    labels: &'static [&'static str],
    help: &'static str,
}

impl Metric {
    /// Describes a metric.
    ///
    /// The first label holds the name under which a source is registered. The other labels are optional.
    #[must_use]
    pub const fn new(
        name: &'static str,
        kind: Kind,
        unit: Unit,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind, unit, labels, help }
    }

    /// Returns the name, as Prometheus has it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the unit of the values.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// Returns the names of the labels, the first for the name of the source.
    #[must_use]
    pub const fn labels(&self) -> &'static [&'static str] {
        self.labels
    }

    /// Returns the help text, a sentence.
    #[must_use]
    pub const fn help(&self) -> &'static str {
        self.help
    }

    /// Gives unit and help text to the installed recorder.
    pub fn describe(&self) {
        match self.kind {
            Kind::Counter => describe_counter!(self.name, self.unit, self.help),
            Kind::Gauge => describe_gauge!(self.name, self.unit, self.help),
            Kind::Histogram => describe_histogram!(self.name, self.unit, self.help),
        }
    }
}
