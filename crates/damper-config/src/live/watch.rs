//! A thread that reloads when a file has changed.

use super::{ReloadError, Reloader, SettingChange};
use crate::sources::Contents;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// A thread that watches files; it ends when this is dropped.
#[must_use = "the thread ends when this is dropped"]
pub struct Watch {
    /// Its end tells the thread to stop.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reloader {
    /// Starts a thread that compares the contents of the files at this interval, and reloads when they have changed. The callback gets
    /// the changes, or why there are none.
    ///
    /// It reads files by their names, so it follows an editor that writes another file and renames it, and Kubernetes, which
    /// exchanges a symbolic link. No setting of the file system can hide a change from it, as with times of modification or events. A
    /// file counts when it has the same contents twice, an interval apart. So a file that is being written is applied in part only if its
    /// writer stops for longer than an interval, and what it has written by then is valid; write another file and rename it to exclude
    /// that. A file without any key is not applied in place of one with keys.
    ///
    /// After a refusal by what is bound, such as one whose quota another thread is changing, it tries again at each interval; the callback
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
            // The file may have changed between the first reading and this one.
            let mut tried: Option<Tried> = None;
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let contents = reloader.sources.contents();
                let is_stable = contents == seen;
                let before = tried.as_ref().filter(|tried| tried.contents == contents);
                let is_due = match before.map(|tried| tried.outcome) {
                    None | Some(Outcome::Refused) => true,
                    // A call of `reload` may have applied what the file contained for a moment.
                    Some(Outcome::Applied) => !reloader.is_in_force(&contents),
                    Some(Outcome::Wrong) => false,
                };
                if is_stable
                    && is_due
                    && let Some(result) = reloader.reload_contents(&contents)
                {
                    let outcome = match &result {
                        Ok(_) => Outcome::Applied,
                        Err(ReloadError::Refused { .. }) => Outcome::Refused,
                        Err(_) => Outcome::Wrong,
                    };
                    let is_first = tried.is_none();
                    let is_told = outcome == Outcome::Refused && before.is_some_and(|tried| tried.outcome == outcome);
                    tried = Some(Tried { contents: contents.clone(), outcome });
                    if !(is_told || is_first && result.as_ref().is_ok_and(Vec::is_empty)) {
                        on_reload(result);
                    }
                }
                seen = contents;
            }
        })?;
        Ok(Watch { stop: Some(stop), thread: Some(thread) })
    }
}

/// The contents of the files when they were tried last.
struct Tried {
    contents: Vec<Contents>,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Applied,
    /// The bound target refused, and may take it later.
    Refused,
    /// Only another file can help.
    Wrong,
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
        // In its callback, the thread would wait for itself.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // A panic of the callback was its own business.
            _ = thread.join();
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("is_running", &self.is_running()).finish_non_exhaustive()
    }
}
