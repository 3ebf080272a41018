//! Signals to the processes that this program started.

use std::io;
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Stop,
    Continue,
}

/// Sends `signal` to the process `id`.
pub(crate) fn send(signal: Signal, id: u32) -> io::Result<()> {
    let name = match signal {
        Signal::Stop => "STOP",
        Signal::Continue => "CONT",
    };
    // The shell's own `kill`: a program of that name is not installed everywhere.
    let status = Command::new("sh").arg("-c").arg(format!("kill -{name} {id}")).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("kill -{name} {id} failed"))) }
}
