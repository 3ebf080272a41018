//! Words in memory that processes share.

use crate::error::SharedWordsError;
use crate::raw::{Mapping, keep_open};
use crate::sealed::Sealed;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU64;
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use std::env;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::Command;

/// The variable of a worker's environment with the number of the descriptor that it inherits.
const VARIABLE: &str = "DAMPER_SHM_FD";

/// Words of 64 bits that several processes share, in a sealed memory file.
///
/// The process that creates them passes them to its children with [`pass_to`](Self::pass_to), which
/// [`Workers`](crate::Workers) does for it, or to any process over a Unix socket with [`send`](Self::send). A process that
/// forks without `exec` needs neither, because the child has the same mapping. The memory is freed when the last process
/// that maps it or has its descriptor is gone.
///
/// A process that has the words can set each to any value, so all of them are trusted to keep the limits. It cannot harm the
/// memory safety of the others, and cannot resize the memory.
///
/// # Examples
///
/// ```
/// use core::sync::atomic::Ordering;
/// use damper_shm::SharedWords;
///
/// let shared = SharedWords::create("limits", 64)?;
/// assert_eq!(shared.words().len(), 64);
/// assert_eq!(shared.words()[8].load(Ordering::Relaxed), 0);
/// # Ok::<(), damper_shm::SharedWordsError>(())
/// ```
pub struct SharedWords {
    file: Sealed,
    mapping: Mapping,
}

impl SharedWords {
    /// Creates words that are all 0.
    ///
    /// They belong to this process and to those to which it passes them.
    /// `name` stands in `/proc/PID/maps`, for people only. The memory is allocated now, so a later access cannot fail for
    /// want of it. This process's own children do not inherit it unless it is [passed to](Self::pass_to) them.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](SharedWordsError::OutOfRange) for `words` that are 0 or more than 2^27 (1 GiB), and
    /// [`System`](SharedWordsError::System) if the system refuses the memory or the name, which has at most 249 bytes.
    pub fn create(name: &str, words: usize) -> Result<Self, SharedWordsError> {
        Self::map(Sealed::create(name, words)?)
    }

    /// Maps the `words` words that a supervisor passed to this process.
    ///
    /// It opens them by `/proc/self/fd`, under a descriptor of its own that this process's children do not inherit. The
    /// inherited descriptor and the variables of the environment stay, so children that this process starts inherit these
    /// unless it removes the variables.
    ///
    /// # Errors
    ///
    /// [`NotInherited`](SharedWordsError::NotInherited) if no supervisor started this process;
    /// [`Seals`](SharedWordsError::Seals) or [`Size`](SharedWordsError::Size) if the descriptor has something else, such as
    /// the words of another version of the program; [`System`](SharedWordsError::System) if a system call fails.
    pub fn inherited(words: usize) -> Result<Self, SharedWordsError> {
        let number: u32 = inherited_number(VARIABLE)?;
        let file = File::options().read(true).write(true).open(format!("/proc/self/fd/{number}"));
        Self::from_fd(file.map_err(SharedWordsError::system("open"))?.into(), words)
    }

    /// Maps the `words` words of a memory file, if it is sealed as [`create`](Self::create) seals it.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](SharedWordsError::OutOfRange) as for [`create`](Self::create), [`Seals`](SharedWordsError::Seals) or
    /// [`Size`](SharedWordsError::Size) for other files, [`System`](SharedWordsError::System) if a system call fails.
    pub fn from_fd(file: OwnedFd, words: usize) -> Result<Self, SharedWordsError> {
        Self::map(Sealed::check(file, words)?)
    }

    fn map(file: Sealed) -> Result<Self, SharedWordsError> {
        let mapping = Mapping::new(&file).map_err(SharedWordsError::system("mmap"))?;
        Ok(Self { file, mapping })
    }

    /// Returns the words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }

    /// Lets the children of `command` inherit the words, for [`inherited`](Self::inherited).
    ///
    /// The command keeps a descriptor until it is dropped, another one for each call. Children of other commands inherit nothing.
    ///
    /// Children inherit the words of one call only: words that are passed to the same command later replace them. To share more,
    /// create more words. [`Workers::spawn`](crate::Workers::spawn) makes this call itself.
    ///
    /// # Errors
    ///
    /// [`System`](SharedWordsError::System) if this process has too many open files.
    pub fn pass_to(&self, command: &mut Command) -> Result<(), SharedWordsError> {
        let file =
            self.file.as_fd().try_clone_to_owned().map_err(SharedWordsError::system("fcntl(F_DUPFD_CLOEXEC)"))?;
        command.env(VARIABLE, file.as_raw_fd().to_string());
        keep_open(command, file);
        Ok(())
    }

    /// Sends the words over a Unix socket, for [`receive`](Self::receive), with a message of one byte.
    ///
    /// # Errors
    ///
    /// [`System`](SharedWordsError::System) if `sendmsg` fails, also if a socket that does not block would.
    pub fn send(&self, socket: impl AsFd) -> Result<(), SharedWordsError> {
        let files = [self.file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        retry_on_intr(|| {
            let mut control = SendAncillaryBuffer::new(&mut space);
            // There is space for it.
            control.push(SendAncillaryMessage::ScmRights(&files));
            sendmsg(&socket, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)
        })
        .map_err(SharedWordsError::system("sendmsg"))?;
        Ok(())
    }

    /// Receives `words` words from a Unix socket, and maps them.
    ///
    /// The sender can be any process: the seals and the size are checked first.
    ///
    /// # Errors
    ///
    /// [`Descriptors`](SharedWordsError::Descriptors) if the next byte comes without a descriptor or with several, or if the
    /// sender closed the socket; otherwise those of [`from_fd`](Self::from_fd).
    pub fn receive(socket: impl AsFd, words: usize) -> Result<Self, SharedWordsError> {
        // For one more than is expected, so that two are noticed.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut files: Vec<OwnedFd> = Vec::new();
        retry_on_intr(|| {
            let mut control = RecvAncillaryBuffer::new(&mut space);
            recvmsg(&socket, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::CMSG_CLOEXEC)?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    files.extend(received);
                }
            }
            Ok(())
        })
        .map_err(SharedWordsError::system("recvmsg"))?;
        let found = files.len();
        match (files.pop(), found) {
            (Some(file), 1) => Self::from_fd(file, words),
            _ => Err(SharedWordsError::Descriptors { found }),
        }
    }
}

/// Reads a number that a supervisor set in this process's environment.
pub(crate) fn inherited_number<N: core::str::FromStr>(variable: &'static str) -> Result<N, SharedWordsError> {
    let value = env::var_os(variable);
    let number = value.as_ref().and_then(|text| text.to_str()?.parse().ok());
    number.ok_or(SharedWordsError::NotInherited { variable, value })
}

/// The descriptor of the memory file.
impl AsFd for SharedWords {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl fmt::Debug for SharedWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedWords").field("file", &self.file).finish_non_exhaustive()
    }
}
