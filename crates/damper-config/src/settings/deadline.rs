//! Deadlines.

use super::DAY;
use crate::kind::Kind;
use crate::section::{Conflict, section};
use std::time::Duration;

const TIMEOUT: Kind = Kind::Duration { min: Duration::from_millis(1), max: DAY };

section! {
    /// How long a request may take in a server.
    ServerDeadlineSettings {
        /// How long a request may take, whatever its client allows.
        timeout: Duration = Duration::from_secs(30), TIMEOUT, Restart;
    }
}

section! {
    /// How long a call of a client may take.
    ClientDeadlineSettings {
        /// How long a call may take, with all attempts.
        timeout: Duration = Duration::from_secs(30), TIMEOUT, Restart;
        /// How long one attempt may take. Unset: as long as the call.
        attempt_timeout: Option<Duration> = None, TIMEOUT, Restart;
    }
    check |settings| settings.attempt_timeout.is_some_and(|attempt| attempt > settings.timeout).then_some(Conflict {
        keys: &["attempt_timeout", "timeout"],
        looser: &[],
        expected: "attempt_timeout must be no more than timeout",
    });
}
