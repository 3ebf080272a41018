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
        timeout: Duration = Duration::from_secs(30), TIMEOUT, Live;
    }
}

section! {
    /// How long a call of a client may take.
    ClientDeadlineSettings {
        /// How long a call may take, with all attempts.
        timeout: Duration = Duration::from_secs(30), TIMEOUT, Live;
        /// How long one attempt may take. Unset: as long as the call.
        ///
        /// To set it where it was unset, or to unset it, needs a restart.
        attempt_timeout: Option<Duration> = None, TIMEOUT, Live;
    }
    check |settings| settings.attempt_timeout.is_some_and(|attempt| attempt > settings.timeout).then_some(Conflict {
        keys: &["attempt_timeout", "timeout"],
        looser: &[],
        expected: "attempt_timeout must be no more than timeout",
    });
}
