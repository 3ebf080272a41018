//! Processes that share a limit, from the outside.

use crate::admission::{Admission, Log};
use crate::load::Load;
use crate::signal::{Signal, send};
use crate::snapshot::Snapshot;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// A process that loads a limit until it is told to end; dropping it kills the process.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    log: PathBuf,
}

impl Worker {
    /// Starts the program at `program`, a test's `env!("CARGO_BIN_EXE_worker")`, with its log in `directory`.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn start(program: &str, directory: &Path, number: usize, load: &Load) -> Self {
        let log = directory.join(format!("{}-{number}.log", load.name));
        let load = Load { log: log.clone(), ..load.clone() };
        let complaints = File::create(log.with_extension("stderr")).expect("the folder can be written");
        let child = Command::new(program)
            .args(load.arguments())
            // The worker ends when this pipe closes, also if the test was killed.
            .stdin(Stdio::piped())
            .stderr(complaints)
            .spawn()
            .expect("cargo builds the worker with the tests");
        Self { child, log }
    }

    /// Waits until the worker checks its limit.
    ///
    /// # Panics
    ///
    /// If it does not within 20 s, or has ended.
    pub fn wait_until_busy(&mut self) {
        let start = Instant::now();
        while self.snapshots().iter().all(|snapshot| snapshot.checks == 0) {
            let ended = self.child.try_wait().expect("it was started by this test");
            assert!(ended.is_none(), "the worker ended: {}", self.complaints());
            assert!(start.elapsed() < Duration::from_secs(20), "the worker does not check: {}", self.complaints());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        send(signal, self.child.id()).expect("it was started by this test");
    }

    /// Lets the worker end by itself and returns its status.
    ///
    /// # Panics
    ///
    /// If it does not end within 20 s: a check hangs.
    pub fn finish(&mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it was started by this test") {
                return status;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "the worker hangs: {}", self.complaints());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Lets the worker end and expects that it neither panicked nor complained.
    ///
    /// # Panics
    ///
    /// If it did.
    pub fn finish_well(&mut self) {
        let status = self.finish();
        let complaints = self.complaints();
        assert!(status.success() && complaints.is_empty(), "{status}: {complaints}");
    }

    /// Returns the admissions so far, in order of the log.
    #[must_use]
    pub fn admissions(&self) -> Vec<Admission> {
        Log::read(&self.log).expect("the log can be read")
    }

    /// Returns the snapshots so far.
    #[must_use]
    pub fn snapshots(&self) -> Vec<Snapshot> {
        Snapshot::read(&Load::snapshots(&self.log)).expect("the snapshots can be read")
    }

    /// Returns the last snapshot.
    #[must_use]
    pub fn latest(&self) -> Snapshot {
        self.snapshots().pop().unwrap_or_default()
    }

    /// Returns what the worker wrote to its stderr.
    #[must_use]
    pub fn complaints(&self) -> String {
        fs::read_to_string(self.log.with_extension("stderr")).unwrap_or_default()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended long ago.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
