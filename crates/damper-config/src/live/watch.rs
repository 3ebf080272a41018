//! A thread that reloads when a file has changed.

use super::{ReloadError, Reloader, SettingChange};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// A thread that watches files; it ends when this is dropped.
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
    /// file is read twice, an interval apart, before it counts: so a file that is being written is not applied in part.
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
            let mut applied = None;
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let contents = reloader.sources.contents();
                let is_stable = contents == seen;
                if is_stable && applied.as_ref() != Some(&contents) {
                    let is_first = applied.is_none();
                    let result = reloader.reload_contents(&contents);
                    if !(is_first && result.as_ref().is_ok_and(Vec::is_empty)) {
                        on_reload(result);
                    }
                    applied = Some(contents.clone());
                }
                seen = contents;
            }
        })?;
        Ok(Watch { stop: Some(stop), thread: Some(thread) })
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
        let is_running = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        f.debug_struct("Watch").field("is_running", &is_running).finish_non_exhaustive()
    }
}
