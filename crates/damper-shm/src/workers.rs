//! The supervisor's part: a seat for each worker process.

use crate::error::SharedWordsError;
use crate::shared_words::{SharedWords, inherited_number};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use damper_core::words::{Seat, WordBulkhead};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

/// The variable of a worker's environment with the number of its seat.
const VARIABLE: &str = "DAMPER_SHM_SEAT";

/// The worker processes of a supervisor, each with a [`Seat`] of its own.
///
/// A worker's slots in a [`WordBulkhead`] are counted under its seat. When the worker has died, [`wait`](Self::wait) frees
/// them, and only then gives the seat to another worker. No slot is lost, and none is freed while its process lives, not even
/// one that is stopped.
///
/// Dropping this leaves the workers alone. Their slots stay taken when they end, because this no longer waits for them.
///
/// # Examples
///
/// ```no_run
/// use damper_shm::{SharedWords, Workers};
/// use std::process::Command;
///
/// let shared = SharedWords::create("limits", 64)?;
/// let mut workers = Workers::new(&shared).reclaims(&shared.words()[9]);
/// let program = std::env::current_exe()?;
/// let worker = || {
///     let mut command = Command::new(&program);
///     command.arg("worker");
///     command
/// };
/// for _ in 0..4 {
///     workers.spawn(worker())?;
/// }
/// while let Some(exited) = workers.wait()? {
///     eprintln!("{exited}");
///     workers.spawn(worker())?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Workers<'a> {
    shared: &'a SharedWords,
    bulkheads: Vec<&'a AtomicU64>,
    seats: [Option<Worker>; Seat::COUNT as usize],
}

/// A worker that has a seat.
#[derive(Debug)]
struct Worker {
    child: Child,
    /// Readable when all threads of the process are gone.
    pidfd: OwnedFd,
}

impl<'a> Workers<'a> {
    /// Creates seats without workers, which will inherit `shared`.
    #[must_use]
    pub fn new(shared: &'a SharedWords) -> Self {
        Self { shared, bulkheads: Vec::new(), seats: [const { None }; Seat::COUNT as usize] }
    }

    /// Adds the word of a [`WordBulkhead`] in which the slots of dead workers are freed.
    ///
    /// Each bulkhead that the workers enter has to be added, or the slots of killed workers stay taken.
    #[must_use]
    pub fn reclaims(mut self, bulkhead: &'a AtomicU64) -> Self {
        self.bulkheads.push(bulkhead);
        self
    }

    /// Starts a worker in the lowest vacant seat, and returns the seat.
    ///
    /// The worker gets the words by [`SharedWords::inherited`], and its seat by [`inherited_seat`].
    ///
    /// # Errors
    ///
    /// [`SharedWordsError::NoVacantSeat`] if all eight seats have workers, and [`SharedWordsError::System`] if the words cannot be
    /// passed or the process cannot be started or waited for, which needs Linux 5.3. No seat is taken then.
    pub fn spawn(&mut self, mut command: Command) -> Result<Seat, SharedWordsError> {
        let vacant =
            Seat::all().find(|seat| self.seats[place(*seat)].is_none()).ok_or(SharedWordsError::NoVacantSeat)?;
        self.shared.pass_to(&mut command)?;
        command.env(VARIABLE, vacant.number().to_string());
        let mut child = command.spawn().map_err(SharedWordsError::system("spawn"))?;
        let pidfd = match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(errno) => {
                // A worker that cannot be waited for would keep its seat for ever.
                match child.kill().and_then(|()| child.wait()) {
                    Err(error) if !is_reaped(&error) => return Err(SharedWordsError::system("kill")(error)),
                    _ => self.reclaim(vacant),
                }
                return Err(SharedWordsError::system("pidfd_open")(errno));
            }
        };
        self.seats[place(vacant)] = Some(Worker { child, pidfd });
        Ok(vacant)
    }

    /// Waits until a worker has died, frees its slots, and vacates its seat.
    ///
    /// Returns `None` if there are no workers. Other children of this process are left alone.
    ///
    /// # Errors
    ///
    /// The error of `poll`, which leaves the seats as they are, or that of `waitpid`. The latter means that a worker has died and
    /// that other code of this process has taken its status: its slots are freed and its seat is vacant then.
    pub fn wait(&mut self) -> io::Result<Option<Exited>> {
        self.wait_until(None)
    }

    /// Waits like [`wait`](Self::wait), for at most `timeout`.
    ///
    /// Returns `None` if no worker died. With [`Duration::ZERO`] it only looks.
    ///
    /// # Errors
    ///
    /// The errors are those of [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, timeout: Duration) -> io::Result<Option<Exited>> {
        self.wait_until(Some(timeout))
    }

    fn wait_until(&mut self, timeout: Option<Duration>) -> io::Result<Option<Exited>> {
        let (seats, mut polled): (Vec<_>, Vec<_>) = Seat::all()
            .filter_map(|seat| {
                let worker = self.seats[place(seat)].as_ref()?;
                Some((seat, PollFd::new(&worker.pidfd, PollFlags::IN)))
            })
            .unzip();
        if seats.is_empty() {
            return Ok(None);
        }
        poll_within(timeout, |left| poll(&mut polled, left))?;
        let dead = seats.into_iter().zip(&polled).find(|(_, polled)| !polled.revents().is_empty());
        let Some(seat) = dead.map(|(seat, _)| seat) else { return Ok(None) };
        let Some(worker) = &mut self.seats[place(seat)] else { return Ok(None) };
        let status = worker.child.wait();
        let id = worker.child.id();
        // The pidfd was readable: the process can no longer enter or leave, also if its status is lost. Before another worker has
        // the seat.
        self.reclaim(seat);
        self.seats[place(seat)] = None;
        Ok(Some(Exited { seat, id, status: status? }))
    }

    fn reclaim(&self, seat: Seat) {
        for word in &self.bulkheads {
            WordBulkhead::reclaim(word, seat);
        }
    }

    /// Returns the process in a seat, to [kill](Child::kill) it or to use its pipes; `None` if the seat is vacant.
    pub fn child(&mut self, seat: Seat) -> Option<&mut Child> {
        self.seats[place(seat)].as_mut().map(|worker| &mut worker.child)
    }

    /// Returns the workers, from the lowest seat, with the numbers of their processes.
    pub fn running(&self) -> impl Iterator<Item = (Seat, u32)> + '_ {
        Seat::all().filter_map(|seat| Some((seat, self.seats[place(seat)].as_ref()?.child.id())))
    }
}

/// Returns whether this error of `kill` or `waitpid` means that other code has reaped the process.
fn is_reaped(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::SRCH | Errno::CHILD))
}

/// Calls `poll` until no signal interrupts it, each time with what is left of the timeout.
fn poll_within(
    timeout: Option<Duration>,
    mut poll: impl FnMut(Option<&Timespec>) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let began = Instant::now();
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
        // A longer time than the system can express has no end.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(left.as_ref()) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Returns where a seat's worker stands in [`Workers::seats`].
fn place(seat: Seat) -> usize {
    seat.number().into()
}

/// Returns the seat that the supervisor gave to this process.
///
/// A process keeps its seat until it dies. Children that it starts itself must not use the seat, because its slots are freed when
/// it dies, not when they do.
///
/// # Errors
///
/// [`NotInherited`](SharedWordsError::NotInherited) if [`Workers::spawn`] did not start this process.
pub fn inherited_seat() -> Result<Seat, SharedWordsError> {
    let number: u8 = inherited_number(VARIABLE)?;
    Seat::new(number).map_err(SharedWordsError::OutOfRange)
}

/// A worker that has died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exited {
    /// The seat that it had, which is vacant now.
    pub seat: Seat,
    /// The number that the process had.
    pub id: u32,
    /// How it ended.
    pub status: ExitStatus,
}

impl fmt::Display for Exited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} in seat {}: {}", self.id, self.seat.number(), self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitOptions, waitpid};

    /// A worker that other code has reaped has died. One that cannot be killed may live, and use its slots.
    #[test]
    fn reaped_worker_is_told_from_one_that_cannot_be_killed() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        while matches!(waitpid(Some(pid), WaitOptions::empty()), Err(Errno::INTR)) {}
        assert!(is_reaped(&child.kill().unwrap_err()));
        assert!(is_reaped(&child.wait().unwrap_err()));
        assert!(!is_reaped(&Errno::PERM.into()));
    }

    /// A signal that comes again and again does not begin the timeout anew.
    #[test]
    fn signals_do_not_lengthen_a_timeout() {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let (mut lefts, timeout) = (Vec::new(), Duration::from_millis(20));
        let interrupted = |left: Option<&Timespec>| {
            let left = *left.expect("there is a timeout");
            lefts.push((left.tv_sec, left.tv_nsec));
            std::thread::sleep(Duration::from_millis(5));
            if left == zero || lefts.len() == 20 { Ok(0) } else { Err(Errno::INTR) }
        };
        assert_eq!(poll_within(Some(timeout), interrupted), Ok(0));
        assert!(lefts.len() <= 5 && lefts.is_sorted_by(|one, next| one > next), "{lefts:?}");
        assert_eq!(lefts.last(), Some(&(0, 0)));
    }
}
