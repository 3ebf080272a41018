//! Signals to processes that a test started.

use std::io;
use std::process::Command;

/// A signal that stops, continues or ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The process ends at once and cannot prevent it.
    Kill,
    /// The process stands still until it is continued.
    Stop,
    /// A stopped process goes on.
    Continue,
}

/// Sends `signal` to the process `id`.
///
/// # Errors
///
/// If there is no such process, or it belongs to another user.
pub fn send(signal: Signal, id: u32) -> io::Result<()> {
    let name = match signal {
        Signal::Kill => "KILL",
        Signal::Stop => "STOP",
        Signal::Continue => "CONT",
    };
    // The shell's own `kill`: a program of that name is not installed everywhere.
    let status = Command::new("sh").arg("-c").arg(format!("kill -{name} {id}")).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("kill -{name} {id} failed"))) }
}
