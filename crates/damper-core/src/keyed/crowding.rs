//! Counts that show whether a table is too small for its keys.

/// How many shared buckets newcomers looked at, and how many of these owed something.
///
/// A newcomer is a key that has no slot in the table. If it gets none, it spends from a shared bucket, which other keys
/// may use too. The more of these buckets owe something, the more newcomers are refused for what other keys took.
///
/// The counts only grow, so compare them with an [earlier reading](Self::since). A high [share](Self::share) of owing
/// buckets shows that the table becomes too small, before the table refuses clients. Alert at a share of 0.4, and
/// enlarge the capacity at 0.5.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::{KeyedLimiter, ManualClock, Quota};
///
/// let limits = KeyedLimiter::<u32>::builder(Quota::per_hour(20)).capacity(8).clock(ManualClock::new()).build()?;
/// let before = limits.crowding();
/// (0..1_000).for_each(|key| _ = limits.check(&key));
/// let since = limits.crowding().since(before);
/// assert!(since.looked() > 900, "a few find a tag like their own, and look no further");
/// assert!(since.share() > 0.9, "a table for 8 keys is too small for a thousand");
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Crowding {
    pub(super) looked: u64,
    pub(super) busy: u64,
}

impl Crowding {
    /// Returns how many shared buckets newcomers looked at.
    ///
    /// A call of a newcomer adds one, unless the newcomer has already spent from a shared bucket.
    #[must_use]
    pub const fn looked(self) -> u64 {
        self.looked
    }

    /// Returns how many of the shared buckets that newcomers looked at owed something at that time.
    #[must_use]
    pub const fn busy(self) -> u64 {
        self.busy
    }

    /// Returns the difference between these counts and those of an earlier reading.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self { looked: self.looked.saturating_sub(earlier.looked), busy: self.busy.saturating_sub(earlier.busy) }
    }

    /// Returns `busy / looked`, the share of buckets that owed something; 0 if newcomers looked at none.
    #[must_use]
    pub fn share(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
        let share = self.busy as f64 / self.looked.max(1) as f64;
        share
    }
}
