//! The only `unsafe` code of damper: the words of a mapping, and a descriptor that a child inherits.
#![expect(unsafe_code, reason = "a mapping's memory and the moment between fork and exec have no safe interface")]

use crate::sealed::Sealed;
use core::sync::atomic::AtomicU64;
use memmap2::{MmapOptions, MmapRaw};
use rustix::io::{FdFlags, fcntl_setfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The words of a sealed memory file, mapped for reading and writing until this is dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    map: MmapRaw,
    /// The number of whole words in the file, which is also the length of the mapping.
    words: usize,
}

impl Mapping {
    /// Maps the words of a sealed file.
    pub(crate) fn new(file: &Sealed) -> io::Result<Self> {
        let map = MmapOptions::new().len(file.bytes()).map_raw(file.as_raw_fd())?;
        Ok(Self { map, words: file.words() })
    }

    /// Returns the words.
    #[expect(clippy::cast_ptr_alignment, reason = "a mapping begins at a page")]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the pointer, the length, the aliases and the lifetime are those of a valid slice:
        // - The mapping is `words * 8` bytes long. It begins at a page, so it is aligned for `AtomicU64`.
        // - The file has that size and keeps it: `Sealed` exists only for a file with the seals against shrinking and against
        //   further seals. An access inside of the mapping therefore never meets the end of the file, which would be a SIGBUS.
        // - Every bit pattern is an `AtomicU64`, and the kernel fills new pages with zeros.
        // - This process reaches the memory only by these shared references to atomics. Other processes that write to it, even
        //   without atomics, are hardware to this program: a load returns some value, which no code takes for a pointer or a length.
        // - `map` is unmapped when `self` is dropped, and the slice borrows `self`.
        unsafe { core::slice::from_raw_parts(self.map.as_mut_ptr().cast::<AtomicU64>(), self.words) }
    }
}

/// Keeps a descriptor open in the child of a command, under the number that it has here.
pub(crate) fn keep_open(command: &mut Command, file: OwnedFd) {
    // `fcntl` allocates nothing and takes no lock. Another child that is started meanwhile does not inherit the descriptor, because
    // it is inheritable only in this child.
    let inherit = move || fcntl_setfd(&file, FdFlags::empty()).map_err(io::Error::from);
    // SAFETY: between `fork` and `exec` the closure makes one system call that is async-signal-safe. Its error is a number, which
    // becomes an `io::Error` without an allocation. The descriptor is open, because the closure owns it.
    unsafe { command.pre_exec(inherit) };
}
