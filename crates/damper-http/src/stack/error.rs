//! The error of a client's stack.

use super::{BoxError, StackPart, StackProtocol};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::error::Error;
use core::fmt;
use core::iter::successors;
use core::time::Duration;
use damper_core::gate::{Ending, NotSent};
use damper_core::internal::{refusal_in, source_of};
use damper_core::is_refusal;

/// The error of a call through a [client's stack](super::client_stack).
///
/// It names the [part](Self::part) that ended the call, and [how long](Self::retry_after) to wait.
///
/// Its message names the part, and its `source()` is the error that ended the call. So a chain of sources, as `{:#}` of `anyhow` prints it,
/// contains everything once. `{:#}` of this error prints the chain too. `CircuitOpen::find_in(&error)` and the `find_in` of other refusals
/// return the typed refusal, and the transport's own error can be downcast.
///
/// | [`part`](Self::part) | displayed with `{:#}` |
/// |---|---|
/// | `Deadline` | call ended by its deadline: deadline of 2 s exceeded, 2 s elapsed |
/// | `Breaker` | call refused by the breaker: circuit open, next probe in 28 s |
/// | `Retry` | call given up by the retries: gave up after 3 attempts in 1.2 s: retry budget exhausted: call failed: … |
/// | `Pacing` | call refused by the pacing: pacing sleep of 12 s exceeds the 2 s until the deadline |
/// | `Throttle` | call refused by the throttle: throttled, 87 % of the calls are not sent |
/// | `Limit` | call refused by the rate limit: rate limit exceeded, retry in 1.2 s |
/// | `Concurrency` | call refused by the concurrency limit: too many calls in flight, limit 64 |
/// | `AttemptTimeout` | attempt ended by its timeout: attempt timed out after 500 ms |
/// | `Transport` | call failed: and the transport's error |
///
/// If a retried call is refused, `part` names the part that refused it. [`previous_attempt`](Self::previous_attempt) returns the error of
/// the attempt before, which `{:#}` adds: `call refused by the rate limit in attempt 3: rate limit exceeded, retry in 1.2 s (after: call
/// failed: connection refused)`. The size of the error is one pointer, to a boxed error.
///
/// With gRPC, a refusal is a [status](super::StackProtocol::ended) with the refusal as its source. A generated client turns this error into
/// a status, in which [`find_in`](Self::find_in) finds it. The message of such a status is the message of its source, so a chain through
/// it contains the message twice. `{:#}` leaves it out.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
/// use damper::CircuitOpen;
/// use damper::http::{StackError, StackPart};
///
/// fn report(error: &StackError) {
///     match error.part() {
///         StackPart::Retry | StackPart::Transport => println!("failed: {error:#}"),
///         _ => println!("{error:#}"), // call refused by the breaker: circuit open, next probe in 28 s
///     }
///     if let Some(wait) = error.retry_after() {
///         println!("come back in {wait:?}");
///     }
///     assert_eq!(error.part() == StackPart::Breaker, CircuitOpen::find_in(error).is_some());
/// }
/// ```
pub struct StackError(Box<Ended>);

struct Ended {
    part: StackPart,
    retry_after: Option<Duration>,
    attempts: Option<u32>,
    previous: Option<StackError>,
    error: BoxError,
    reader: &'static ErrorReader,
}

/// Reads the errors of a protocol's client.
struct ErrorReader {
    message: fn(&(dyn Error + 'static)) -> Option<String>,
    ending: fn(&(dyn Error + 'static)) -> Option<Ending>,
}

impl ErrorReader {
    const fn of<P: StackProtocol>() -> &'static Self {
        const { &Self { message: P::message, ending: P::ending } }
    }
}

impl StackError {
    /// Creates the error of a call that `part` ended.
    ///
    /// The call may be made again after the wait that `error` gives.
    pub(super) fn new<P: StackProtocol>(part: StackPart, error: BoxError) -> Self {
        let retry_after = refusal_in(&*error).and_then(|(_, wait)| wait);
        let reader = ErrorReader::of::<P>();
        Self(Box::new(Ended { part, retry_after, attempts: None, previous: None, error, reader }))
    }

    /// Turns a boxed error into the stack's error, which it may be or contain already.
    pub(crate) fn of_boxed<P: StackProtocol>(part: StackPart, error: BoxError) -> Self {
        match error.downcast::<Self>() {
            Ok(error) => *error,
            Err(error) => {
                match Self::find_in(&*error).map(|Self(ended)| (ended.part, ended.retry_after, ended.attempts)) {
                    Some((part, retry_after, attempts)) => {
                        let reader = ErrorReader::of::<P>();
                        Self(Box::new(Ended { part, retry_after, attempts, previous: None, error, reader }))
                    }
                    None => Self::new::<P>(part, error),
                }
            }
        }
    }

    /// Replaces the [source](Error::source) by another error.
    ///
    /// The old source must be in the chain of the new one's sources.
    #[must_use]
    pub fn map_source(mut self, change: impl FnOnce(BoxError) -> BoxError) -> Self {
        self.0.error = change(self.0.error);
        self
    }

    pub(super) fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// Sets the wait, unless there is one.
    pub(crate) fn or_retry_after(mut self, wait: Option<Duration>) -> Self {
        self.0.retry_after = self.0.retry_after.or(wait);
        self
    }

    pub(super) fn with_attempts(mut self, attempts: u32, previous: Option<Self>) -> Self {
        self.0.attempts = Some(attempts);
        self.0.previous = previous;
        self
    }

    /// Returns the part of the stack that ended the call.
    ///
    /// If the client behind the stack is another stack, this is the inner stack's part, unless a part of the outer one ended the call.
    #[must_use]
    pub fn part(&self) -> StackPart {
        self.0.part
    }

    /// Returns how long to wait before the next call, if the part knows it.
    ///
    /// This is the time until the next probe of an open breaker or of the throttle, or until the limit has a token, or until the gate has a
    /// slot. For the pacing it is the sleep. If the retries gave up, it is the wait that the server asked for.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns the number of attempts that were begun, if the call reached retries of the stack.
    ///
    /// An attempt that the throttle or a limit refused counts too. With two nested stacks, the attempts are those of the outer stack's
    /// retries, if it has any.
    #[must_use]
    pub fn attempts(&self) -> Option<u32> {
        self.0.attempts
    }

    /// Returns the error of the last attempt before the one that ended the call.
    ///
    /// It is `None` if no earlier attempt ended with an error. It is also `None` if the deadline of the retries passed during an attempt or
    /// before one. The last error is then in the chain of sources.
    ///
    /// If a part of the stack refuses a retry, this error shows the server's failure.
    #[must_use]
    pub fn previous_attempt(&self) -> Option<&Self> {
        let inner = || Self::find_in(&*self.0.error).and_then(Self::previous_attempt);
        self.0.previous.as_ref().or_else(inner)
    }

    /// Returns whether a part of the stack refused the last attempt before it was sent.
    ///
    /// Such an error says nothing about the server: see [`is_refusal`](damper_core::is_refusal).
    ///
    /// It is `false` if a deadline ended the call, even if nothing was sent before. The call took too long, wherever the time was spent,
    /// and outer breakers and budgets must count it.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        is_refusal(self)
    }

    /// Returns how the call ended, where the protocol reads it in the chain of sources.
    pub(crate) fn ending(&self) -> Option<Ending> {
        successors(self.source(), |&error| source_of(error)).find_map(self.0.reader.ending)
    }

    /// Returns the first such error in the chain of an error's sources, the error itself included.
    #[must_use]
    pub fn find_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        successors(Some(error), |&error| source_of(error)).find_map(|error| error.downcast_ref())
    }
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ended { part, attempts, .. } = &*self.0;
        f.write_str(part.ending())?;
        if let Some(number @ 2..) = attempts.filter(|_| *part != StackPart::Retry) {
            write!(f, " in attempt {number}")?;
        }
        if !f.alternate() {
            return Ok(());
        }
        match reason_of(self).as_str() {
            "" => Ok(()),
            reason => write!(f, ": {reason}"),
        }
    }
}

/// Returns the messages of an error's sources, each once, and the error of the attempt before.
pub(crate) fn reason_of(error: &StackError) -> String {
    let mut reason = String::new();
    // An error in the chain may repeat the message of another: a status repeats its source, and a layer's own error may repeat this one.
    let mut said = alloc::vec![error.to_string()];
    // That the call was not sent is said by the part's name.
    for source in successors(error.source(), |&source| source.source()).filter(|source| !source.is::<NotSent>()) {
        // The `Display` of a client's error may add what the message need not say, such as the description of a code.
        let text = (error.0.reader.message)(source).unwrap_or_else(|| source.to_string());
        if said.iter().any(|earlier| earlier.contains(&text)) {
            continue;
        }
        if !reason.is_empty() {
            reason.push_str(": ");
        }
        reason.push_str(&text);
        said.push(text);
    }
    // The chain of a call that was given up already contains the last failure.
    match error.previous_attempt().filter(|_| error.part() != StackPart::Retry) {
        Some(previous) => format!("{reason} (after: {previous:#})"),
        None => reason,
    }
}

/// Writes the message with all reasons, because `main` and `unwrap` print nothing else.
impl fmt::Debug for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl Error for StackError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0.error)
    }
}
