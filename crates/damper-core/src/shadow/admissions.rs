//! Admissions in shadow mode.

use super::Shadowed;
use crate::concurrency::{Admission, AdmissionPermit, AdmissionRequest, LimitRule, NotAdmitted, Outcome};
use crate::time::Clock;

impl<R: LimitRule, C: Clock, Q: LimitRule, D: Clock> Shadowed<Admission<R, C>, Admission<Q, D>> {
    /// Admits a call by the gate in force if it has a free slot, as [`Admission::try_acquire`] does.
    ///
    /// The candidate decides beside it, and holds a slot of its own if it would have admitted the call too.
    ///
    /// # Errors
    ///
    /// [`NotAdmitted`] by the gate in force.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::concurrency::{Admission, AdmissionRequest};
    /// use damper::shadow::Shadowed;
    ///
    /// let gate = Shadowed::new(Admission::fixed(8), Admission::fixed(1));
    /// let permits = [(); 2].map(|()| gate.try_acquire(AdmissionRequest::new()));
    /// assert!(permits.iter().all(Result::is_ok));
    /// assert_eq!((gate.candidate().in_flight(), gate.report().only_by_candidate), (1, 1));
    /// for permit in permits {
    ///     permit?.success();
    /// }
    /// assert_eq!(gate.candidate().in_flight(), 0);
    /// # }
    /// # Ok::<(), damper::concurrency::NotAdmitted>(())
    /// ```
    pub fn try_acquire(
        &self,
        request: AdmissionRequest,
    ) -> Result<ShadowedAdmissionPermit<'_, R, C, Q, D>, NotAdmitted> {
        let (in_force, candidate) = (self.in_force.try_acquire(request), self.candidate.try_acquire(request));
        self.counts.record(&in_force, &candidate);
        Ok(ShadowedAdmissionPermit { in_force: in_force?, candidate: candidate.ok() })
    }
}

/// The permit of a call in force, and that of a candidate if it would have admitted the call too.
///
/// Both hold their slots until it is dropped.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once frees its slots"]
pub struct ShadowedAdmissionPermit<'a, R: LimitRule, C: Clock, Q: LimitRule, D: Clock> {
    in_force: AdmissionPermit<&'a Admission<R, C>>,
    candidate: Option<AdmissionPermit<&'a Admission<Q, D>>>,
}

impl<'a, R: LimitRule, C: Clock, Q: LimitRule, D: Clock> ShadowedAdmissionPermit<'a, R, C, Q, D> {
    /// The permit in force, for the deadline of the call.
    pub const fn in_force(&self) -> &AdmissionPermit<&'a Admission<R, C>> {
        &self.in_force
    }

    /// Records in both gates that the service did its work.
    pub fn success(self) {
        self.record(Outcome::Success);
    }

    /// Records in both gates that the call was ended at its deadline, or that the service was overloaded.
    pub fn overloaded(self) {
        self.record(Outcome::Overloaded);
    }

    /// Records `outcome` in both gates.
    pub fn record(self, outcome: Outcome) {
        self.in_force.record(outcome);
        if let Some(permit) = self.candidate {
            permit.record(outcome);
        }
    }
}
