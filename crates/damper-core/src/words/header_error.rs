//! Why a process may not use shared words.

use crate::out_of_range::OutOfRange;
use core::fmt;

/// Why a process may not use the words that others share.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::words::{AtomicU64, Contents, Header, HeaderError};
/// use damper::ManualClock;
///
/// let words = [const { AtomicU64::new(0) }; 8];
/// let error = Header::attach(&words, &Contents::version(1), &ManualClock::new()).unwrap_err();
/// assert_eq!(error, HeaderError::NotCreated);
/// assert_eq!(error.to_string(), "the header of the words was not created yet");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum HeaderError {
    /// There are fewer words than a header has.
    TooShort(OutOfRange),
    /// The header was not created yet, or the process that creates it has not come to its end.
    NotCreated,
    /// The words are no header of damper.
    NoHeader {
        /// The mark in place of damper's.
        found: u64,
        /// The mark of a header of damper.
        expected: u64,
    },
    /// The version of damper's layouts differs.
    LayoutVersion {
        /// The version in the header.
        found: u64,
        /// The version of this process.
        expected: u64,
    },
    /// The plans, the settings or the version of the program's layout differ.
    Contents {
        /// The hash in the header.
        found: u64,
        /// The hash of this process's [`Contents`](super::Contents).
        expected: u64,
    },
    /// The header was created in another boot of the machine.
    Boot {
        /// The hash in the header.
        found: u64,
        /// The hash of the id of this boot.
        expected: u64,
    },
    /// The clock of the header has another frequency.
    Frequency {
        /// The ticks in a second of the clock in the header.
        found: u64,
        /// The ticks in a second of this process's clock.
        expected: u64,
    },
    /// The clock reads a time before the header was created.
    ///
    /// The machine was booted since then, or the process is in another time namespace.
    BeforeCreation {
        /// The reading at which the header was created, in ticks.
        created_at: u64,
        /// The reading of this process, in ticks.
        now: u64,
    },
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort(error) => write!(f, "{error} (the header)"),
            Self::NotCreated => f.write_str("the header of the words was not created yet"),
            Self::NoHeader { found, expected } => {
                write!(f, "the mark of the words differs, found {found:#018x}, expected {expected:#018x}")
            }
            Self::LayoutVersion { found, expected } => {
                write!(f, "the version of damper's layouts differs, found {found}, expected {expected}")
            }
            Self::Contents { found, expected } => {
                write!(f, "the plans or settings of the words differ, found {found:#018x}, expected {expected:#018x}")
            }
            Self::Boot { found, expected } => {
                write!(f, "the boot of the words differs, found {found:#018x}, expected {expected:#018x}")
            }
            Self::Frequency { found, expected } => {
                write!(f, "the frequency of the clock differs, found {found}, expected {expected}")
            }
            Self::BeforeCreation { created_at, now } => write!(
                f,
                "the clock reads {now}, before the words were created at {created_at}: after a reboot, or in another time namespace"
            ),
        }
    }
}

crate::internal::debug_by_display!(HeaderError);

impl core::error::Error for HeaderError {}
