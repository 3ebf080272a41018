//! The counts that show how crowded the words are that keys without a slot share.

/// The number of shared words that newcomers saw, and of those that owed something.
///
/// The counts only grow. Between two readings, the share of the words that owed something shows that a table becomes
/// too small before the table refuses clients: alert at 0.4, and enlarge the capacity at 0.5.
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
    /// Returns how many shared words newcomers saw: one for each key that had no word of its own yet.
    #[must_use]
    pub const fn looked(self) -> u64 {
        self.looked
    }

    /// Returns how many of the shared words that newcomers saw owed something at that time.
    #[must_use]
    pub const fn busy(self) -> u64 {
        self.busy
    }

    /// Returns the counts since an earlier reading.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self { looked: self.looked.saturating_sub(earlier.looked), busy: self.busy.saturating_sub(earlier.busy) }
    }

    /// Returns the share of the words that owed something: 0 to 1, and 0 if none was seen.
    #[must_use]
    pub fn share(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
        let share = self.busy as f64 / self.looked.max(1) as f64;
        share
    }
}
