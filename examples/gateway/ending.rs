//! How a program ends: with which status, and what it says on stderr.
//!
//! The gateway and the example `fleet` of damper-redis share it.

use std::error::Error;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// The status for options that cannot be met, as clap has it.
const BAD_OPTIONS: u8 = 2;

/// The status that a shell shows for a program that `SIGPIPE` ended: 128 and the signal's number.
const CLOSED_PIPE: u8 = 128 + 13;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All checks passed, or there were none.
    Passed,
    /// The report says which check failed.
    ChecksFailed,
    /// The options cannot be met.
    BadOptions(String),
    /// The reader of the output is gone, as in `program | head -1`. The program ends without a message.
    ClosedPipe,
    /// Something else went wrong.
    Failed(String),
    /// All messages have been printed.
    Status(u8),
}

impl Ending {
    /// A closed pipe among the error's causes ends the program, but is no failure of its own.
    pub(crate) fn of_error(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(this) = cause {
            if this.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
                return Self::ClosedPipe;
            }
            cause = this.source();
        }
        Self::Failed(error.to_string())
    }

    /// Says what there is to say and returns the status. That `complaints` takes no more changes nothing.
    pub(crate) fn report(&self, complaints: &mut impl Write) -> ExitCode {
        if let Self::BadOptions(message) | Self::Failed(message) = self {
            _ = writeln!(complaints, "error: {message}");
        }
        self.status().into()
    }

    fn status(&self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::ChecksFailed | Self::Failed(_) => 1,
            Self::BadOptions(_) => BAD_OPTIONS,
            Self::ClosedPipe => CLOSED_PIPE,
            Self::Status(status) => *status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Ending;
    use std::io::{self, ErrorKind};

    #[test]
    fn closed_pipe_ends_quietly_with_the_status_of_sigpipe() {
        let ending = Ending::of_error(&io::Error::from(ErrorKind::BrokenPipe));
        let mut complaints = Vec::new();
        _ = ending.report(&mut complaints);
        assert_eq!((ending.status(), &complaints[..]), (141, &b""[..]));
    }

    #[test]
    fn other_errors_keep_their_message_and_status() {
        let ending = Ending::of_error(&io::Error::other("no space"));
        assert_eq!((&ending, ending.status()), (&Ending::Failed("no space".to_owned()), 1));
        // It takes no byte.
        let mut full: &mut [u8] = &mut [];
        _ = ending.report(&mut full);
        let mut complaints = Vec::new();
        _ = ending.report(&mut complaints);
        assert_eq!(complaints, b"error: no space\n");
    }
}
