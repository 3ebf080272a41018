//! Memory files whose size is sealed.

use crate::error::SharedWordsError;
use damper_core::OutOfRange;
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::{Errno, retry_on_intr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// The bytes of a word.
const WORD: usize = size_of::<u64>();

/// The most words of a file: 1 GiB.
const MOST_WORDS: u64 = 1 << 27;

/// The seals that a file must have.
///
/// The last one keeps others from adding seals, such as one against writing.
pub(crate) const REQUIRED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The seals that a file must not have, because they refuse a mapping for writing.
pub(crate) const REFUSED: SealFlags = SealFlags::WRITE.union(SealFlags::FUTURE_WRITE);

/// A memory file with a fixed size, whose pages are allocated.
///
/// The only constructors make the seals or check them.
#[derive(Debug)]
pub(crate) struct Sealed {
    file: OwnedFd,
    words: usize,
}

impl Sealed {
    /// Creates a file of so many words, all 0.
    pub(crate) fn create(name: &str, words: usize) -> Result<Self, SharedWordsError> {
        check_words(words)?;
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(SharedWordsError::system("memfd_create"))?;
        ftruncate(&file, (words * WORD) as u64).map_err(SharedWordsError::system("ftruncate"))?;
        fcntl_add_seals(&file, REQUIRED).map_err(SharedWordsError::system("fcntl(F_ADD_SEALS)"))?;
        Self::allocated(file, words)
    }

    /// Checks that a file is sealed and has so many words.
    pub(crate) fn check(file: OwnedFd, words: usize) -> Result<Self, SharedWordsError> {
        check_words(words)?;
        let seals = match fcntl_get_seals(&file) {
            Ok(seals) => seals,
            // The descriptor is not one of a memory file.
            Err(Errno::INVAL) => SealFlags::empty(),
            Err(errno) => return Err(SharedWordsError::system("fcntl(F_GET_SEALS)")(errno)),
        };
        if !seals.contains(REQUIRED) || seals.intersects(REFUSED) {
            return Err(SharedWordsError::Seals { found: seals.bits() });
        }
        // After the seals: from here on the size stays.
        let found = fstat(&file).map_err(SharedWordsError::system("fstat"))?.st_size;
        let expected = (words * WORD) as u64;
        if found as u64 != expected {
            return Err(SharedWordsError::Size { found: found as u64, expected });
        }
        Self::allocated(file, words)
    }

    /// Allocates the pages, which does nothing if they are there.
    ///
    /// Without this the first access to a page would allocate it, and would be a SIGBUS if the system has no memory to promise.
    fn allocated(file: OwnedFd, words: usize) -> Result<Self, SharedWordsError> {
        retry_on_intr(|| fallocate(&file, FallocateFlags::empty(), 0, (words * WORD) as u64))
            .map_err(SharedWordsError::system("fallocate"))?;
        Ok(Self { file, words })
    }

    pub(crate) fn words(&self) -> usize {
        self.words
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words * WORD
    }
}

fn check_words(words: usize) -> Result<(), SharedWordsError> {
    OutOfRange::check_count("words", words as u64, 1..=MOST_WORDS).map_err(SharedWordsError::OutOfRange)
}

impl AsFd for Sealed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Sealed {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
