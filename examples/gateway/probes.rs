//! Which calls passed while the breaker was not closed, and whether they can all have been probes.
//!
//! A call is *known* to have been let pass in such a stretch if it was asked for after the trip was seen, and had
//! passed before the closing can have happened. A call in flight at the trip is not; neither is one that was asked for
//! in the stretch but let pass after it. With one probe at a time, and all but the last one failing, each of the known
//! calls needs a cooldown of its own before it.

use crate::upstream::Hit;
use crate::watch::Transition;
use damper::breaker::State;

/// From a trip to the closing, in ticks. Moments are known to lie between two observations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The trip was not before this,
    tripped_since: u64,
    /// and not after this.
    tripped_seen: u64,
    /// The closing was not before this; the end of the run if it never came.
    closed_since: u64,
}

impl Stretch {
    /// The stretches of a run that ended at the tick `end`.
    pub(crate) fn all_of(transitions: &[Transition], end: u64) -> Vec<Self> {
        let trips = transitions.iter().filter(|transition| transition.from == State::Closed);
        trips
            .map(|trip| {
                let closing = transitions.iter().find(|next| next.to == State::Closed && next.seen > trip.seen);
                let closed_since = closing.map_or(end, |closing| closing.since);
                Self { tripped_since: trip.since, tripped_seen: trip.seen, closed_since }
            })
            .collect()
    }

    pub(crate) fn ticks(&self) -> u64 {
        self.closed_since.saturating_sub(self.tripped_seen)
    }

    /// The calls that are known to have passed in it, by the ticks after their admission, in order.
    pub(crate) fn passed(&self, hits: &[Hit]) -> Vec<u64> {
        let known = |hit: &&Hit| hit.asked > self.tripped_seen && hit.admitted <= self.closed_since;
        let mut passed: Vec<u64> = hits.iter().filter(known).map(|hit| hit.admitted).collect();
        passed.sort_unstable();
        passed
    }

    /// The requests that passed after the trip and were asked for before it was seen: no breach.
    pub(crate) fn in_flight(&self, hits: &[Hit]) -> usize {
        let known = |hit: &&Hit| hit.asked <= self.tripped_seen && hit.admitted <= self.closed_since;
        hits.iter().filter(known).filter(|hit| hit.arrived > self.tripped_seen).count()
    }

    /// How many calls passed before as many cooldowns of `cooldown` ticks were over.
    pub(crate) fn too_early(&self, hits: &[Hit], cooldown: u64) -> usize {
        let passed = self.passed(hits).into_iter().zip(1..);
        passed.filter(|(admitted, probe)| admitted.saturating_sub(self.tripped_since) < cooldown * probe).count()
    }
}

#[cfg(test)]
mod tests {
    use super::Stretch;
    use crate::plan::Phase;
    use crate::upstream::Hit;
    use crate::watch::Transition;
    use damper::breaker::State::{self, Closed, HalfOpen, Open};

    fn transition(from: State, to: State, seen: u64) -> Transition {
        Transition { from, to, since: seen - 2, seen }
    }

    fn hit(asked: u64) -> Hit {
        Hit { phase: Phase::Outage, asked, admitted: asked + 1, arrived: asked + 5 }
    }

    fn stretch() -> Stretch {
        let transitions = [
            transition(Closed, Open, 1_000),
            transition(Open, HalfOpen, 2_000),
            transition(HalfOpen, Open, 2_010),
            transition(Open, HalfOpen, 3_010),
            transition(HalfOpen, Closed, 3_020),
        ];
        let stretches = Stretch::all_of(&transitions, 9_999);
        assert_eq!(stretches, [Stretch { tripped_since: 998, tripped_seen: 1_000, closed_since: 3_018 }]);
        stretches[0]
    }

    #[test]
    fn one_probe_per_cooldown_is_right() {
        let hits = [hit(990), hit(998), hit(2_003), hit(3_012), hit(3_030), hit(3_040)];
        assert_eq!(stretch().passed(&hits), [2_004, 3_013]);
        assert_eq!(stretch().too_early(&hits, 1_000), 0);
    }

    #[test]
    fn requests_in_flight_at_the_trip_are_not_probes() {
        let hits = [hit(900), hit(996), hit(998), hit(3_012)];
        assert_eq!(stretch().in_flight(&hits), 2);
        assert_eq!(stretch().passed(&hits), [3_013]);
    }

    #[test]
    fn a_call_that_passes_an_open_breaker_is_found() {
        assert_eq!(stretch().too_early(&[hit(1_500)], 1_000), 1);
        assert_eq!(stretch().too_early(&[hit(2_003), hit(2_005)], 1_000), 1);
        assert_eq!(stretch().too_early(&[hit(1_500), hit(2_003), hit(3_012)], 1_000), 3);
    }

    #[test]
    fn a_breaker_that_never_closes_is_open_until_the_end() {
        let stretches = Stretch::all_of(&[transition(Closed, Open, 1_000)], 9_999);
        assert_eq!(stretches[0].ticks(), 8_999);
    }
}
