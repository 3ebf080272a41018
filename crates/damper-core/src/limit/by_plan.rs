//! The token buckets of a keyed table in which each call brings its quota, as a [`Plan`](crate::Plan).
//!
//! The *level* is the part of a key's word that describes the key's bucket. The bucket's *debt* is what it lacks to be
//! full. A level stores when the debt is repaid, and under which plan it was taken. (Each plan has a small number, its
//! *tag*.)
//!
//! ```text
//!  55  48 47     0
//! | TAG  | FULL AT |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | FULL AT | 48 | the instant at which the bucket is full, in beats (units of 64 ns), modulo 2^48 |
//! | TAG | 8 | the tag of the plan under which all of the debt was taken; 0 if several plans took it or there is no debt |

#[cfg(test)]
mod tests;

use super::per_key::{Debt, PerKey};
use super::planned_level::PlannedLevel;
use crate::quota::{Alignment, Beats, Line, LineStart, PlanClock, TIME_BITS};
use crate::sync::Field;
use crate::time::{Clock, Ticks};

/// A level of a bucket by plan: its fields, which the head of this file draws.
const FULL_AT: Field = Field::lowest(TIME_BITS);
const TAG: Field = FULL_AT.then(8);
const _: () = assert!(TAG.end() == super::LEVEL_BITS, "fields must tile the level");

/// The token bucket of a key whose quota comes with each call, as a [`Plan`](crate::Plan).
///
/// It is the algorithm of a [`KeyedLimiter` by plan](crate::KeyedLimiter::by_plan).
#[derive(Clone, Copy, Debug)]
pub enum ByPlan {}

impl PlannedLevel for ByPlan {
    const FULL_AT: Field = FULL_AT;
    const TAG: Option<Field> = Some(TAG);
}

impl PerKey for ByPlan {
    type Line = PlanClock;

    const BY_WINDOWS: bool = false;

    const BY_PLAN: bool = true;

    fn line_start(_: Alignment) -> LineStart {
        PlanClock::START
    }

    #[inline]
    fn word(line: &PlanClock, level: u64, at: u64, clock: &impl Clock) -> u64 {
        Self::healed(line, level, at, clock)
    }

    /// Returns `false`, because only a call knows the plan.
    fn is_exhausted(_: &PlanClock, _: u64, _: u64, _: &impl Clock) -> bool {
        false
    }

    fn resets_in(line: &PlanClock, level: u64, at: u64, _: &impl Clock) -> Ticks {
        line.wait(Self::owed_beats(level, at))
    }

    #[inline]
    fn weight(_: &PlanClock, level: u64, at: u64, _: &impl Clock) -> u64 {
        Self::owed_beats(level, at)
    }

    #[inline]
    fn greater(_: &PlanClock, one: u64, other: u64, at: u64, _: &impl Clock) -> u64 {
        let (one_owes, other_owes) = (Self::owed_beats(one, at), Self::owed_beats(other, at));
        let (more, less) = if one_owes >= other_owes { (one, other) } else { (other, one) };
        // The tag is cleared if the debts of the two levels may come from different plans.
        let is_one = Self::tag(more) == Self::tag(less) || one_owes == 0 || other_owes == 0;
        if is_one { more } else { FULL_AT.put(FULL_AT.get(more)) }
    }

    #[inline]
    fn idle(_: &PlanClock, at: u64) -> u64 {
        Self::idle_at(at)
    }

    fn owed(line: &PlanClock, level: u64, at: u64, _: &impl Clock) -> Debt {
        Debt::of_time(line.wait(Self::owed_beats(level, at)))
    }

    fn owing(line: &PlanClock, at: u64, owed: Debt) -> u64 {
        FULL_AT.put(at.wrapping_add(Self::reach(line, owed)))
    }

    fn reach(line: &PlanClock, Debt { wait, .. }: Debt) -> u64 {
        let beats = if wait == Ticks::ZERO { 0 } else { line.timeline().units_for(wait) };
        beats.min(Beats::FINE.longest_debt())
    }
}
