//! A candidate that decides beside the limit of a layer.

use crate::Head;
use crate::limit::{Detail, Limit, Limited, NoWait, Refusal};
use crate::telemetry::Telemetry;
use alloc::boxed::Box;
use damper_core::internal::ShadowCounts;
use damper_core::shadow::ShadowReport;

/// A candidate, and how often it disagrees with the limit in force.
pub(super) struct ShadowLimit {
    candidate: Box<dyn Limit<Future = NoWait> + Send + Sync>,
    counts: ShadowCounts,
}

/// The answer that the candidate would have given; `None` where it could not decide.
///
/// Its refusal is in a box, because the decision on each request carries the answer, also in layers without a candidate.
pub(super) type CandidateAnswer = Option<Result<(), Box<Limited>>>;

impl ShadowLimit {
    pub(super) fn new(candidate: impl Limit<Future = NoWait> + Send + Sync + 'static) -> Self {
        Self { candidate: Box::new(candidate), counts: ShadowCounts::new() }
    }

    /// Asks the candidate, which takes what it would have taken.
    pub(super) fn ask(&self, head: &Head<'_>, cost: u32) -> CandidateAnswer {
        match self.candidate.decide(head, cost, Detail::None).into_result() {
            Ok(_) => Some(Ok(())),
            Err(Refusal::Limited(limited)) => Some(Err(Box::new(limited))),
            Err(Refusal::MissingPeer | Refusal::Failed(_)) => None,
        }
    }

    /// Counts and logs where the candidate or the limit in force refused.
    pub(super) fn compare(
        &self,
        telemetry: &Telemetry,
        head: &Head<'_>,
        in_force: Result<(), &Refusal>,
        candidate: &CandidateAnswer,
    ) {
        let Some(candidate) = candidate else { return };
        if matches!(in_force, Err(Refusal::MissingPeer | Refusal::Failed(_))) {
            return;
        }
        self.counts.record(&in_force, candidate);
        if let Err(limited) = candidate {
            let in_force = if in_force.is_ok() { "allowed" } else { "refused" };
            telemetry.record_candidate(&*self.candidate, head, limited, in_force);
        }
    }

    pub(super) fn report(&self) -> ShadowReport {
        self.counts.report()
    }
}
