//! Limits of calls in flight.

use crate::kind::Kind;
use crate::section::{Conflict, ConflictKind, section};
use damper_core::concurrency::{AdaptiveLimit, Admission, Bulkhead, FixedLimit, LimitBounds};

const LIMIT: Kind = Kind::Count { min: 1, max: LimitBounds::HIGHEST };
const PLACES: Kind = Kind::Count { min: 0, max: 32_767 };

section! {
    /// How many calls may be in flight at once: a fixed number.
    BulkheadSettings {
        /// How many calls may be in flight.
        limit: u32 = 64, LIMIT, Live;
        /// How many calls may wait for a slot. 0: none waits.
        queue: u32 = 0, PLACES, Restart;
    }
    check |_, _| None
}

impl BulkheadSettings {
    /// Builds a bulkhead.
    #[must_use]
    pub fn bulkhead(&self) -> Bulkhead {
        let bulkhead = Bulkhead::new(self.limit);
        match self.queue {
            0 => bulkhead,
            places => bulkhead.queue(u16::try_from(places).unwrap_or(u16::MAX)),
        }
    }
}

section! {
    /// How many calls may be in flight at once: as many as the latency says, within bounds.
    AdaptiveLimitSettings {
        /// The lowest limit.
        min_limit: u32 = 1, LIMIT, Restart;
        /// The highest limit.
        max_limit: u32 = 1_000_000, LIMIT, Restart;
        /// Where the limit starts. Unset: at 20, or at the bound that is nearest to it.
        initial_limit: Option<u32> = None, LIMIT, Restart;
    }
    check |settings: &AdaptiveLimitSettings, _| {
        bounds_conflict(settings.min_limit, settings.max_limit, settings.initial_limit)
    }
}

impl AdaptiveLimitSettings {
    /// Returns the bounds of the limit.
    #[must_use]
    pub fn bounds(&self) -> LimitBounds {
        bounds(self.min_limit, self.max_limit, self.initial_limit)
    }

    /// Builds a limit.
    #[must_use]
    pub fn limit(&self) -> AdaptiveLimit {
        AdaptiveLimit::new(self.bounds())
    }
}

section! {
    /// Which requests are served when a server cannot serve all: the limit of its gate.
    AdmissionSettings {
        /// The lowest limit of an adaptive gate.
        min_limit: u32 = 1, LIMIT, Restart;
        /// The highest limit of an adaptive gate.
        max_limit: u32 = 1_000_000, LIMIT, Restart;
        /// Where the limit of an adaptive gate starts. Unset: at 20, or at the bound that is nearest to it.
        initial_limit: Option<u32> = None, LIMIT, Restart;
        /// The limit of a fixed gate.
        fixed_limit: u32 = 64, LIMIT, Live;
        /// How many requests may wait, whatever the limit.
        queue: u32 = 1024, PLACES, Restart;
    }
    check |settings: &AdmissionSettings, _| {
        bounds_conflict(settings.min_limit, settings.max_limit, settings.initial_limit)
    }
}

impl AdmissionSettings {
    /// Builds an adaptive gate.
    #[must_use]
    pub fn adaptive(&self) -> Admission {
        Admission::new(bounds(self.min_limit, self.max_limit, self.initial_limit)).queue(self.places())
    }

    /// Builds a gate of a fixed limit.
    #[must_use]
    pub fn fixed(&self) -> Admission<FixedLimit> {
        Admission::fixed(self.fixed_limit).queue(self.places())
    }

    fn places(&self) -> u16 {
        u16::try_from(self.queue).unwrap_or(u16::MAX)
    }
}

fn bounds(min: u32, max: u32, initial: Option<u32>) -> LimitBounds {
    // `check` refuses other bounds.
    let bounds = LimitBounds::new(min, max).unwrap_or_default();
    initial.map_or(bounds, |start| bounds.starting_at(start).unwrap_or(bounds))
}

fn bounds_conflict(min: u32, max: u32, initial: Option<u32>) -> Option<Conflict> {
    let fits = min <= max && initial.is_none_or(|start| (min..=max).contains(&start));
    (!fits).then(|| Conflict {
        kind: ConflictKind::Values,
        keys: &["min_limit", "max_limit", "initial_limit"],
        expected: "min_limit must be no more than max_limit, with initial_limit between them".to_owned(),
    })
}
