//! Why memory could not be shared.

use crate::sealed::{REFUSED, REQUIRED};
use core::error::Error;
use core::fmt;
use damper_core::OutOfRange;
use damper_core::words::Seat;
use rustix::fs::SealFlags;
use std::ffi::OsString;
use std::io;

/// The error of words that cannot be shared, or of a worker that cannot be started.
///
/// It says what was found and what is required.
#[non_exhaustive]
pub enum SharedWordsError {
    /// The number of words is out of range.
    OutOfRange(OutOfRange),
    /// A received descriptor has other seals than [`SharedWords::create`](crate::SharedWords::create) sets.
    ///
    /// Its size could change, or it cannot be written. A plain file has no seals.
    #[non_exhaustive]
    Seals {
        /// The seals of the descriptor, as `fcntl(F_GET_SEALS)` returns them; 0 without a memory file.
        found: u32,
    },
    /// A received descriptor has another size.
    #[non_exhaustive]
    Size {
        /// The bytes of the memory file.
        found: u64,
        /// The bytes of the words that this process expects.
        expected: u64,
    },
    /// This process was not started as a worker.
    #[non_exhaustive]
    NotInherited {
        /// The variable of the environment that says what is inherited.
        variable: &'static str,
        /// Its value, which is not the number of a descriptor or of a seat; `None` if it is not set.
        value: Option<OsString>,
    },
    /// A message has another number of descriptors than one.
    #[non_exhaustive]
    Descriptors {
        /// The number of descriptors that came with the message; they are closed.
        found: usize,
    },
    /// Each seat has a worker.
    NoVacantSeat,
    /// A system call failed.
    #[non_exhaustive]
    System {
        /// The name of the call.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
}

impl SharedWordsError {
    /// Returns a function from the error of a system call to this error.
    pub(crate) fn system<E: Into<io::Error>>(call: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { call, source: source.into() }
    }
}

/// The names of seals.
const NAMES: [(SealFlags, &str); 5] = [
    (SealFlags::SEAL, "F_SEAL_SEAL"),
    (SealFlags::SHRINK, "F_SEAL_SHRINK"),
    (SealFlags::GROW, "F_SEAL_GROW"),
    (SealFlags::WRITE, "F_SEAL_WRITE"),
    (SealFlags::FUTURE_WRITE, "F_SEAL_FUTURE_WRITE"),
];

fn write_names(f: &mut fmt::Formatter<'_>, seals: SealFlags) -> fmt::Result {
    let names = NAMES.iter().filter(|(seal, _)| seals.contains(*seal));
    for (number, (_, name)) in names.enumerate() {
        write!(f, "{}{name}", if number == 0 { "" } else { ", " })?;
    }
    Ok(())
}

impl fmt::Display for SharedWordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange(error) => error.fmt(f),
            Self::Seals { found } => {
                let found = SealFlags::from_bits_retain(*found);
                let missing = REQUIRED.difference(found);
                if missing.is_empty() {
                    f.write_str("the descriptor cannot be written, it has the seals ")?;
                    return write_names(f, found.intersection(REFUSED));
                }
                f.write_str("the size of the memory could change, the descriptor lacks the seals ")?;
                write_names(f, missing)
            }
            Self::Size { found, expected } => {
                write!(f, "the memory has {found} bytes, it must have {expected}")
            }
            Self::NotInherited { variable, value: None } => {
                write!(f, "{variable} is not set, so no supervisor started this process")
            }
            Self::NotInherited { variable, value: Some(value) } => {
                write!(f, "{variable} is \"{}\", it must be a number that the supervisor sets", value.display())
            }
            Self::Descriptors { found } => write!(f, "the message has {found} descriptors, it must have 1"),
            Self::NoVacantSeat => write!(f, "all {} seats have workers", Seat::COUNT),
            Self::System { call, source } => write!(f, "{call} failed: {source}"),
        }
    }
}

damper_core::internal::debug_by_display!(SharedWordsError);

impl Error for SharedWordsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}
