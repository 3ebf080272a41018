//! Limits of calls in flight.

use crate::kind::Kind;
use crate::section::{Conflict, section};
use damper_core::OutOfRange;
use damper_core::concurrency::{AdaptiveLimit, Admission, Bulkhead, FixedLimit, KeyedBulkhead, LimitBounds};
use std::hash::Hash;
use std::time::Duration;

const LIMIT: Kind = Kind::Count { min: 1, max: LimitBounds::HIGHEST };
const PLACES: Kind = Kind::Count { min: 0, max: 32_767 };

section! {
    /// How many calls may be in flight at once: a fixed number.
    BulkheadSettings {
        /// How many calls may be in flight.
        limit: u32 = 64, LIMIT, Live;
        /// How many calls may wait for a slot. 0: none waits.
        queue: u32 = 0, PLACES, Live;
        /// Whether the call that came last is served first.
        newest_first: bool = false, Kind::Flag, Restart;
        /// How long a call waits for a slot, where there is a queue.
        ///
        /// The layers and stacks that are built from settings apply it.
        max_wait: Duration = Duration::from_secs(1), Kind::Duration { min: Duration::ZERO, max: super::DAY }, Live;
        /// For how many keys or hosts bulkheads are kept, where each has one.
        max_keys: u32 = 1024, Kind::Count { min: 1, max: 1 << 24 }, Restart;
    }
}

impl BulkheadSettings {
    /// Builds a bulkhead for all calls together.
    ///
    /// It does not apply [`max_wait`](Self::max_wait): call `acquire().within(settings.max_wait())`. The layers and stacks of the features
    /// `http` and `tokio` do so.
    #[must_use]
    pub fn bulkhead(&self) -> Bulkhead {
        let bulkhead = Bulkhead::new(self.limit).queue(self.places());
        if self.newest_first { bulkhead.newest_first() } else { bulkhead }
    }

    /// Builds a bulkhead for each key, such as a host.
    ///
    /// It does not apply [`max_wait`](Self::max_wait) either, but the layers do.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], never with settings in their ranges.
    pub fn per_key<K: Hash + Eq>(&self) -> Result<KeyedBulkhead<K>, OutOfRange> {
        let bulkheads = KeyedBulkhead::new(self.limit, self.max_keys as usize)?.queue(self.places());
        Ok(if self.newest_first { bulkheads.newest_first() } else { bulkheads })
    }

    pub(crate) fn places(&self) -> u16 {
        place_count(self.queue)
    }
}

/// Converts a number of places, whose range ends below 2^15.
fn place_count(places: u32) -> u16 {
    u16::try_from(places).unwrap_or(u16::MAX)
}

section! {
    /// How many calls may be in flight at once: as many as the latency says, within bounds.
    AdaptiveLimitSettings {
        /// The lowest limit.
        min_limit: u32 = 1, LIMIT, Live;
        /// The highest limit.
        max_limit: u32 = 1_000_000, LIMIT, Live;
        /// Where the limit starts. Unset: at 20, or at the bound that is nearest to it.
        initial_limit: Option<u32> = None, LIMIT, Restart;
    }
    check |settings| bounds_conflict(settings.min_limit, settings.max_limit, settings.initial_limit);
}

impl AdaptiveLimitSettings {
    /// Returns the bounds of the limit.
    #[must_use]
    pub fn bounds(&self) -> LimitBounds {
        // Never falls back to the default: `check` refuses invalid bounds.
        self.try_bounds().unwrap_or_default()
    }

    pub(crate) fn try_bounds(&self) -> Result<LimitBounds, OutOfRange> {
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
        min_limit: u32 = 1, LIMIT, Live;
        /// The highest limit of an adaptive gate.
        max_limit: u32 = 1_000_000, LIMIT, Live;
        /// Where the limit of an adaptive gate starts. Unset: at 20, or at the bound that is nearest to it.
        initial_limit: Option<u32> = None, LIMIT, Restart;
        /// The limit of a fixed gate.
        fixed_limit: u32 = 64, LIMIT, Live;
        /// How many requests may wait, whatever the limit.
        queue: u32 = 1024, PLACES, Live;
        /// How long a request without a deadline waits, in layers and stacks that are built from settings.
        max_wait: Duration = Duration::from_secs(30), Kind::Duration { min: Duration::ZERO, max: super::DAY }, Live;
    }
    check |settings| bounds_conflict(settings.min_limit, settings.max_limit, settings.initial_limit);
}

impl AdmissionSettings {
    /// Returns the bounds of an adaptive gate.
    #[must_use]
    pub fn bounds(&self) -> LimitBounds {
        // Never falls back to the default: `check` refuses invalid bounds.
        self.try_bounds().unwrap_or_default()
    }

    pub(crate) fn try_bounds(&self) -> Result<LimitBounds, OutOfRange> {
        bounds(self.min_limit, self.max_limit, self.initial_limit)
    }

    /// Builds an adaptive gate.
    #[must_use]
    pub fn adaptive(&self) -> Admission {
        Admission::new(self.bounds()).queue(self.places())
    }

    /// Builds a gate of a fixed limit.
    #[must_use]
    pub fn fixed(&self) -> Admission<FixedLimit> {
        Admission::fixed(self.fixed_limit).queue(self.places())
    }

    pub(crate) fn places(&self) -> u16 {
        place_count(self.queue)
    }
}

fn bounds(min: u32, max: u32, initial: Option<u32>) -> Result<LimitBounds, OutOfRange> {
    let bounds = LimitBounds::new(min, max)?;
    initial.map_or(Ok(bounds), |start| bounds.starting_at(start))
}

fn bounds_conflict(min: u32, max: u32, initial: Option<u32>) -> Option<Conflict> {
    let fits = min <= max && initial.is_none_or(|start| (min..=max).contains(&start));
    (!fits).then_some(Conflict {
        keys: &["min_limit", "max_limit", "initial_limit"],
        looser: &["min_limit", "initial_limit"],
        expected: "min_limit must be no more than max_limit, with initial_limit between them",
    })
}
