//! The answers of a stack's parts to a request that is not made.

use super::Explain;
use crate::Head;
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::time::Duration;
use damper_core::gate::{Forecast, Refusal, Standing};
use damper_core::internal::Human;

/// The answers that the parts of a stack would give to a request, in their order.
///
/// [`ServerStack::explain`](crate::ServerStack::explain) and [`ClientStack::explain`](crate::ClientStack::explain) return it. Its `Display` has a line for each part, and [`to_json`](Self::to_json) the
/// same as JSON. A part behind one that refuses would not be asked; its answer is listed nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    parts: Vec<ExplainedPart>,
}

/// The answer of one part of a stack to a request that is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedPart {
    place: &'static str,
    name: Option<String>,
    outcome: PartOutcome,
    detail: Option<Cow<'static, str>>,
    retry_after: Option<Duration>,
    standing: Option<Standing>,
}

/// The course that a request would take at a part of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PartOutcome {
    /// It would let the request pass.
    Passes,
    /// It would let the request wait for its turn, and may refuse it later.
    Waits,
    /// It would let the request pass, with a mark.
    Marks,
    /// It would refuse the request.
    Refuses,
    /// It cannot say without deciding, because it decides by chance or elsewhere.
    Unknown,
}

impl PartOutcome {
    /// Returns its name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passes => "passes",
            Self::Waits => "waits",
            Self::Marks => "marks",
            Self::Refuses => "refuses",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for PartOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ExplainedPart {
    /// Creates the answer of a part.
    #[must_use]
    pub const fn new(outcome: PartOutcome) -> Self {
        Self { place: "", name: None, outcome, detail: None, retry_after: None, standing: None }
    }

    /// Creates the answer of a part that is a gate.
    #[must_use]
    pub fn by_gate<R: Refusal>(forecast: &Forecast<R>) -> Self {
        match forecast {
            Forecast::Pass(standing) => Self { standing: *standing, ..Self::new(PartOutcome::Passes) },
            Forecast::Wait => Self::new(PartOutcome::Waits),
            Forecast::Refuse(refusal) => Self {
                retry_after: refusal.retry_after(),
                standing: refusal.standing(),
                ..Self::new(PartOutcome::Refuses).with_detail(refusal.to_string())
            },
            _ => Self::new(PartOutcome::Unknown),
        }
    }

    /// Sets a sentence that says more. Default: none.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// Sets the name of the part in metrics and logs. Default: none.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: Some(name.to_string()), ..self }
    }

    fn in_place(self, place: &'static str) -> Self {
        Self { place, ..self }
    }

    pub(crate) fn with_outcome(self, outcome: PartOutcome) -> Self {
        Self { outcome, ..self }
    }

    /// Returns the place of the part in its stack, such as `client limit`.
    #[must_use]
    pub const fn place(&self) -> &'static str {
        self.place
    }

    /// Returns the name of the part in metrics and logs, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns what the part would do.
    #[must_use]
    pub const fn outcome(&self) -> PartOutcome {
        self.outcome
    }

    /// Returns a sentence that says more, such as the refusal.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Returns the time after which a refused request could pass, if that is known.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the standing of the quota that decides, before the request.
    #[must_use]
    pub const fn standing(&self) -> Option<Standing> {
        self.standing
    }

    fn write_json(&self, json: &mut String) {
        json.push_str("{\"part\":");
        write_json_text(json, self.place);
        if let Some(name) = &self.name {
            json.push_str(",\"name\":");
            write_json_text(json, name);
        }
        // Writing to a string cannot fail.
        _ = write!(json, ",\"outcome\":\"{}\"", self.outcome);
        if let Some(detail) = &self.detail {
            json.push_str(",\"detail\":");
            write_json_text(json, detail);
        }
        if let Some(wait) = self.retry_after {
            // Rounded up, so that a caller who waits for it is not early.
            _ = write!(json, ",\"retry_after_ms\":{}", wait.as_nanos().div_ceil(1_000_000));
        }
        if let Some(standing) = &self.standing {
            json.push_str(",\"quota\":");
            write_json_text(json, &standing.quota.to_string());
            _ = write!(json, ",\"remaining\":{}", standing.remaining);
        }
        json.push('}');
    }
}

impl fmt::Display for ExplainedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.place)?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        write!(f, ": {}", self.outcome)?;
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        if let Some(Standing { quota, remaining, .. }) = self.standing {
            write!(f, " ({remaining} left of {quota})")?;
        }
        Ok(())
    }
}

impl Explanation {
    /// Asks these parts about a head, each of which sees what those before it have changed.
    pub(super) fn of(head: &Head<'_>, parts: &[(&dyn Explain, &'static str)]) -> Self {
        let mut request = head.to_request();
        let answer = |&(part, place): &(&dyn Explain, _)| Some(part.explain(&mut request)?.in_place(place));
        Self { parts: parts.iter().filter_map(answer).collect() }
    }

    /// Returns the answers of the parts, from the outside in.
    #[must_use]
    pub fn parts(&self) -> &[ExplainedPart] {
        &self.parts
    }

    /// Returns the part that would refuse the request: the outermost of those that would.
    #[must_use]
    pub fn refused_by(&self) -> Option<&ExplainedPart> {
        self.parts.iter().find(|part| part.outcome == PartOutcome::Refuses)
    }

    /// Returns the answers as a JSON object.
    ///
    /// `refused_by` is the index of the refusing part, or `null`. `parts` has an object for each part, with `part`, `outcome`, and where they
    /// are known `name`, `detail`, `retry_after_ms` (rounded up), `quota` and `remaining`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = String::from("{\"refused_by\":");
        match self.parts.iter().position(|part| part.outcome == PartOutcome::Refuses) {
            Some(index) => _ = write!(json, "{index}"),
            None => json.push_str("null"),
        }
        json.push_str(",\"parts\":[");
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                json.push(',');
            }
            part.write_json(&mut json);
        }
        json.push_str("]}");
        json
    }
}

/// Writes a string of JSON.
fn write_json_text(json: &mut String, text: &str) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if control.is_control() => _ = write!(json, "\\u{:04x}", u32::from(control)),
            other => json.push(other),
        }
    }
    json.push('"');
}

/// Has a line for each part.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            writeln!(f, "{part}")?;
        }
        match self.refused_by() {
            Some(part) => match part.retry_after {
                Some(wait) => write!(f, "refused by the {}, retry in {}", part.place, Human(wait)),
                None => write!(f, "refused by the {}", part.place),
            },
            None => f.write_str("not refused"),
        }
    }
}
