//! The class of a call.

use core::fmt;

/// The priority of a call among those that want the same slot.
///
/// The classes are those of the chapter "Handling Overload" of the SRE book.
///
/// Under overload a higher class is served whenever it has a call, so a lower one may get nothing at all. Use the highest for the
/// few calls whose failure users notice at once, and never for more than the service can do.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::concurrency::Criticality;
///
/// assert_eq!(Criticality::default(), Criticality::Critical);
/// assert!(Criticality::CriticalPlus < Criticality::Sheddable, "the first to be served");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg(feature = "alloc")]
pub enum Criticality {
    /// Class 0: its failure is serious and visible to users.
    CriticalPlus,
    /// Class 1: ordinary calls of users.
    #[default]
    Critical,
    /// Class 2: calls that are retried later, such as those of batches.
    SheddablePlus,
    /// Class 3: calls that may fail often.
    Sheddable,
}

impl Criticality {
    /// All classes, the highest first.
    pub const ALL: [Self; 4] = [Self::CriticalPlus, Self::Critical, Self::SheddablePlus, Self::Sheddable];

    /// Returns the number of the class, 0 for the highest.
    #[must_use]
    pub const fn class(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Criticality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CriticalPlus => "critical plus",
            Self::Critical => "critical",
            Self::SheddablePlus => "sheddable plus",
            Self::Sheddable => "sheddable",
        })
    }
}
