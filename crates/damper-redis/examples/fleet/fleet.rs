//! The processes of the fleet, from the outside.

use crate::line::{Admission, Line, Snapshot};
use crate::options::Member;
use crate::signal::{Signal, send};
use core::mem;
use core::time::Duration;
use std::env;
use std::error::Error;
use std::io;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a process may take to end once its stdin is closed.
const PATIENCE: Duration = Duration::from_secs(10);

/// All that one process wrote.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) admissions: Vec<Admission>,
    pub(crate) snapshots: Vec<Snapshot>,
}

/// A running process; it is killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    reader: JoinHandle<Record>,
}

impl Process {
    /// Starts this program as a member of the fleet.
    pub(crate) fn start(member: &Member) -> io::Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .args(member.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let reader = tokio::spawn(async move {
            let mut record = Record::default();
            let Some(stdout) = stdout else { return record };
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                match line.parse() {
                    Ok(Line::Admission(admission)) => record.admissions.push(admission),
                    Ok(Line::Snapshot(snapshot)) => record.snapshots.push(snapshot),
                    // A killed process may have left half a line.
                    Err(_) => {}
                }
            }
            record
        });
        Ok(Self { child, stdin, reader })
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        self.child.id().map_or(Ok(()), |id| send(signal, id))
    }

    /// Ends the process by kill -9 and returns what it wrote until then.
    pub(crate) async fn kill(mut self) -> Result<Record, Box<dyn Error>> {
        self.child.kill().await?;
        Ok(self.reader.await?)
    }

    /// Lets the process end by itself and returns what it wrote.
    ///
    /// # Errors
    ///
    /// If it hangs, or ended with an error.
    pub(crate) async fn finish(mut self) -> Result<Record, Box<dyn Error>> {
        drop(mem::take(&mut self.stdin));
        let status = timeout(PATIENCE, self.child.wait()).await.map_err(|_| "a process hangs")??;
        if !status.success() {
            return Err(format!("a process ended with {status}").into());
        }
        Ok(self.reader.await?)
    }
}
