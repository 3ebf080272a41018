//! A thread that reloads when a file has changed.

use super::{ReloadError, Reloader, SettingChange};
use crate::sources::Contents;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// A thread that watches files. It ends when this handle is dropped.
#[must_use = "the thread ends when this is dropped"]
pub struct Watch {
    /// The thread stops when this sender is dropped.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reloader {
    /// Starts a thread that reloads when the contents of the files have changed.
    ///
    /// It compares the contents at this interval. The callback gets the changes, or the reason why there are none.
    ///
    /// It reads files by their names, so it follows an editor that writes another file and renames it, and Kubernetes, which replaces a
    /// symbolic link. It does not rely on modification times or events, so no setting of the file system can hide a change. A changed file
    /// is applied once two readings, an interval apart, give the same contents. So a half-written file is applied only if its writer pauses
    /// for longer than an interval and the part is valid. To rule that out, write another file and rename it. A file without any key never
    /// replaces one with keys.
    ///
    /// After a refusal by a target, it retries the same contents after one interval, then after two, four and so on up to 64. The callback
    /// gets the refusal once. After any other error it waits until a file changes.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn watch(
        self: &Arc<Self>,
        interval: Duration,
        on_reload: impl Fn(Result<Vec<SettingChange>, ReloadError>) + Send + 'static,
    ) -> io::Result<Watch> {
        let (stop, stopped) = channel();
        let reloader = Arc::clone(self);
        // An interval of zero would keep a core busy.
        let interval = interval.max(Duration::from_millis(1));
        let thread = Builder::new().name("damper-config".to_owned()).spawn(move || {
            let mut seen = reloader.sources.contents();
            // The file may have changed between the reading at the start and this one.
            let mut tried: Option<Tried> = None;
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let contents = reloader.sources.contents();
                let is_stable = contents == seen;
                let mut before = tried.as_mut().filter(|tried| tried.contents == contents);
                let is_due = match before.as_mut().map(|tried| &mut tried.outcome) {
                    None => true,
                    // A call of `reload` may have applied contents that the file had only briefly.
                    Some(Outcome::Applied) => !reloader.is_in_force(&contents),
                    Some(Outcome::Refused(pause)) => pause.ends(),
                    Some(Outcome::Wrong) => false,
                };
                let last = before.map(|tried| tried.outcome);
                if is_stable
                    && is_due
                    && let Some(result) = reloader.reload_contents(&contents)
                {
                    let outcome = match &result {
                        Ok(_) => Outcome::Applied,
                        Err(ReloadError::Refused { .. }) => Outcome::Refused(match last {
                            Some(Outcome::Refused(pause)) => pause.longer(),
                            _ => Pause::FIRST,
                        }),
                        Err(_) => Outcome::Wrong,
                    };
                    let is_reported = matches!((last, outcome), (Some(Outcome::Refused(_)), Outcome::Refused(_)));
                    let is_first = tried.is_none();
                    tried = Some(Tried { contents: contents.clone(), outcome });
                    if !(is_reported || is_first && result.as_ref().is_ok_and(Vec::is_empty)) {
                        on_reload(result);
                    }
                }
                seen = contents;
            }
        })?;
        Ok(Watch { stop: Some(stop), thread: Some(thread) })
    }
}

/// The contents of the files at the last try.
struct Tried {
    contents: Vec<Contents>,
    outcome: Outcome,
}

#[derive(Clone, Copy)]
enum Outcome {
    Applied,
    /// A target refused, and may accept the same contents later.
    Refused(Pause),
    /// The same contents would fail again.
    Wrong,
}

/// The wait before the next try of the same contents, in intervals.
#[derive(Clone, Copy)]
struct Pause {
    length: u32,
    left: u32,
}

impl Pause {
    const FIRST: Self = Self { length: 1, left: 1 };

    /// Each try may change targets and set them back, so the wait doubles up to this many intervals.
    const LONGEST: u32 = 64;

    fn longer(self) -> Self {
        let length = (2 * self.length).min(Self::LONGEST);
        Self { length, left: length }
    }

    /// Counts an interval that has passed. Returns whether that was the last one.
    fn ends(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }
}

impl Watch {
    /// Returns whether the thread runs. A panic of the callback ends it.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop = None;
        // The callback may drop the watch, and a thread that joined itself would never end.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // An error is a panic of the callback, which was reported when it happened.
            _ = thread.join();
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("is_running", &self.is_running()).finish_non_exhaustive()
    }
}
