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
    /// A part of the header differs from what this process expects.
    Differs {
        /// The part.
        part: HeaderPart,
        /// The hash or the number in the header.
        found: u64,
        /// The one that this process expects.
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

/// A part of a header that can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum HeaderPart {
    /// The mark of a header of damper.
    Magic,
    /// The version of damper's layouts.
    LayoutVersion,
    /// The hash of the plans, the settings and the version of the program's layout.
    Contents,
    /// The hash of the boot's id.
    Boot,
    /// The ticks of the clock in a second.
    Frequency,
}

impl fmt::Display for HeaderPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Magic => "the mark of the words differs",
            Self::LayoutVersion => "the version of damper's layouts differs",
            Self::Contents => "the plans or settings of the words differ",
            Self::Boot => "the boot of the words differs",
            Self::Frequency => "the frequency of the clock differs",
        })
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort(error) => write!(f, "{error} (the header)"),
            Self::NotCreated => f.write_str("the header of the words was not created yet"),
            Self::Differs { part: part @ (HeaderPart::LayoutVersion | HeaderPart::Frequency), found, expected } => {
                write!(f, "{part}, found {found}, expected {expected}")
            }
            Self::Differs { part, found, expected } => {
                write!(f, "{part}, found {found:#018x}, expected {expected:#018x}")
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
