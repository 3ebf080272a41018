//! A redis-server of this program's own, to be paused, killed and emptied.

use crate::signal::{Signal, send};
use core::fmt;
use core::time::Duration;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs, process};
use tokio::time::{Instant, sleep};

/// Below the ports that the kernel gives to clients, so that no client of a dead server reaches itself.
const PORTS: core::ops::Range<u16> = 20_000..30_000;

/// How long the server may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// The server could not be started.
#[derive(Debug)]
pub(crate) enum StartError {
    NotInstalled { program: PathBuf },
    Failed { program: PathBuf, source: io::Error },
    NoAnswer { program: PathBuf },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled { program } => write!(
                f,
                "{} is not there. Install Redis 7 (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis), \
                 or say where it is with --redis PATH",
                program.display()
            ),
            Self::Failed { program, source } => write!(f, "{} cannot be started: {source}", program.display()),
            Self::NoAnswer { program } => {
                write!(f, "{} does not answer within {PATIENCE:?}: is it a server of Redis?", program.display())
            }
        }
    }
}

impl Error for StartError {}

/// A server that keeps nothing on disk; it is killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct RedisServer {
    program: PathBuf,
    port: u16,
    directory: PathBuf,
    child: Child,
}

impl RedisServer {
    /// Starts a server on a free port and waits until it answers.
    pub(crate) async fn start(program: &Path) -> Result<Self, Box<dyn Error>> {
        let port = free_port()?;
        let directory = env::temp_dir().join(format!("damper-fleet-{}", process::id()));
        fs::create_dir_all(&directory)?;
        let child = spawn(program, port, &directory)?;
        let server = Self { program: program.to_owned(), port, directory, child };
        server.wait_until_ready().await?;
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Stops the process: connections stay, and nothing is answered.
    pub(crate) fn pause(&self) -> io::Result<()> {
        send(Signal::Stop, self.child.id())
    }

    /// Continues the process.
    pub(crate) fn resume(&self) -> io::Result<()> {
        send(Signal::Continue, self.child.id())
    }

    /// Ends the process by kill -9.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Starts the server on its port again, without a key, and waits until it answers.
    pub(crate) async fn restart(&mut self) -> Result<(), Box<dyn Error>> {
        self.child = spawn(&self.program, self.port, &self.directory)?;
        self.wait_until_ready().await
    }

    /// Removes all keys and all scripts.
    pub(crate) async fn flush(&self) -> Result<(), Box<dyn Error>> {
        let mut connection = redis::Client::open(self.url())?.get_multiplexed_async_connection().await?;
        redis::cmd("FLUSHALL").exec_async(&mut connection).await?;
        redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut connection).await?;
        Ok(())
    }

    async fn wait_until_ready(&self) -> Result<(), Box<dyn Error>> {
        let client = redis::Client::open(self.url())?;
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Ok(mut connection) = client.get_multiplexed_async_connection().await
                && redis::cmd("PING").exec_async(&mut connection).await.is_ok()
            {
                return Ok(());
            }
            sleep(Duration::from_millis(10)).await;
        }
        Err(StartError::NoAnswer { program: self.program.clone() }.into())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may have been killed before.
        _ = self.child.kill();
        _ = self.child.wait();
        _ = fs::remove_dir_all(&self.directory);
    }
}

fn spawn(program: &Path, port: u16, directory: &Path) -> Result<Child, StartError> {
    Command::new(program)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| match source.kind() {
            ErrorKind::NotFound => StartError::NotInstalled { program: program.to_owned() },
            _ => StartError::Failed { program: program.to_owned(), source },
        })
}

fn free_port() -> io::Result<u16> {
    let first = PORTS.start + (process::id() % u32::from(PORTS.end - PORTS.start)) as u16;
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = (first..PORTS.end).chain(PORTS.start..first).find(free);
    port.ok_or_else(|| io::Error::new(ErrorKind::AddrInUse, format!("no port of {PORTS:?} is free")))
}

#[cfg(test)]
mod tests {
    use super::RedisServer;
    use std::path::Path;

    #[tokio::test]
    async fn missing_server_is_a_sentence_that_says_how_to_install_it() {
        let error = RedisServer::start(Path::new("no-such-redis-server")).await.expect_err("it does not exist");
        let sentence = error.to_string();
        assert!(sentence.contains("no-such-redis-server") && sentence.contains("apt-get install"), "{sentence}");
    }
}
