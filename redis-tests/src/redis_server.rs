//! A redis-server of the test's own, to be killed, paused and emptied.

use crate::signal::{Signal, send};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

/// Below the ports that the kernel gives to clients.
///
/// A client that calls a dead server at one of those could reach itself.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// How long a server may take to answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running redis-server; it is killed, and its files are removed, when the value is dropped.
///
/// It keeps nothing on disk unless its options say so. All methods panic if the server does not do what it is told.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    port: u16,
    directory: PathBuf,
    options: Vec<String>,
}

/// The commands that the server was sent since it started, or since [`RedisServer::reset_calls`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls(HashMap<String, u64>);

impl Calls {
    /// Returns how often the command of this name was called; names are in lower case.
    #[must_use]
    pub fn of(&self, command: &str) -> u64 {
        self.0.get(command).copied().unwrap_or(0)
    }

    /// Returns how often scripts were run.
    #[must_use]
    pub fn scripts(&self) -> u64 {
        self.of("evalsha") + self.of("eval")
    }
}

impl Default for RedisServer {
    fn default() -> Self {
        Self::start()
    }
}

impl RedisServer {
    /// Starts a server without persistence and waits until it answers.
    ///
    /// # Panics
    ///
    /// If redis-server is not installed or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with further options, as `["--appendonly", "yes"]`.
    ///
    /// # Panics
    ///
    /// If redis-server is not installed or does not start.
    #[must_use]
    pub fn with(options: &[&str]) -> Self {
        let directory = fresh_directory();
        let port = free_port();
        let options: Vec<String> = options.iter().map(ToString::to_string).collect();
        let child = spawn(port, &directory, &options);
        let server = Self { child, port, directory, options };
        server.wait_until_ready();
        server
    }

    /// Returns the server's address on the loopback interface.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Returns the server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address())
    }

    /// Returns the folder of the server's files, in which a test may keep its own.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Ends the server by kill -9.
    pub fn kill(&mut self) {
        self.child.kill().expect("the server was started by this test");
        self.child.wait().expect("a killed process ends");
    }

    /// Starts a killed server on the same port and with the same files, and waits until it answers.
    pub fn restart(&mut self) {
        self.child = spawn(self.port, &self.directory, &self.options);
        self.wait_until_ready();
    }

    /// Stops the process: connections stay, and nothing is answered.
    pub fn pause(&self) {
        send(Signal::Stop, self.child.id()).expect("the server runs");
    }

    /// Continues a paused server, which then runs the commands that were sent meanwhile.
    pub fn resume(&self) {
        send(Signal::Continue, self.child.id()).expect("the server runs");
    }

    /// Starts a replica of this server and waits until both are in step.
    #[must_use]
    pub fn replica(&self) -> Self {
        self.set_config("repl-diskless-sync-delay", "0");
        let replica = Self::with(&["--replicaof", "127.0.0.1", &self.port.to_string()]);
        replica.wait("replica in step", |server| {
            server.section("replication").lines().any(|line| line == "master_link_status:up")
        });
        replica
    }

    /// Makes a replica a server of its own.
    pub fn promote(&self) {
        self.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
    }

    /// Removes all keys.
    pub fn flush_all(&self) {
        self.ask::<()>(&["FLUSHALL"]);
    }

    /// Removes all scripts.
    pub fn flush_scripts(&self) {
        self.ask::<()>(&["SCRIPT", "FLUSH"]);
    }

    /// Changes a setting.
    pub fn set_config(&self, name: &str, value: &str) {
        self.ask::<()>(&["CONFIG", "SET", name, value]);
    }

    /// Closes the connections of all clients but this one's.
    pub fn kill_clients(&self) {
        self.ask::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    }

    /// Returns how often each command was called.
    #[must_use]
    pub fn calls(&self) -> Calls {
        let section = self.section("commandstats");
        let lines = section.lines().filter_map(|line| line.strip_prefix("cmdstat_"));
        let counts = lines.filter_map(|line| {
            let (name, figures) = line.split_once(":calls=")?;
            Some((name.to_owned(), figures.split(',').next()?.parse().ok()?))
        });
        Calls(counts.collect())
    }

    /// Starts the counts of [`calls`](Self::calls) from zero.
    pub fn reset_calls(&self) {
        self.ask::<()>(&["CONFIG", "RESETSTAT"]);
    }

    /// Sends one command and returns its reply.
    pub fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_ask(words).unwrap_or_else(|error| panic!("{words:?} failed: {error}"))
    }

    /// Sends one command.
    ///
    /// # Errors
    ///
    /// The server's, or the connection's.
    pub fn try_ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        let mut command = redis::cmd(words[0]);
        words[1..].iter().for_each(|word| {
            command.arg(word);
        });
        command.query(&mut connection)
    }

    fn section(&self, name: &str) -> String {
        self.ask(&["INFO", name])
    }

    fn wait_until_ready(&self) {
        self.wait("answer", |server| server.try_ask::<String>(&["PING"]).is_ok_and(|reply| reply == "PONG"));
    }

    fn wait(&self, what: &str, ready: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !ready(self) {
            assert!(start.elapsed() < PATIENCE, "no {what} of the server at {} in {PATIENCE:?}", self.address());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may have been killed before, and the files of a test that failed may be gone.
        _ = self.child.kill();
        _ = self.child.wait();
        _ = fs::remove_dir_all(&self.directory);
    }
}

fn spawn(port: u16, directory: &Path, options: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(directory)
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is installed (apt-get install redis-server)")
}

/// A folder that no other test uses.
pub(crate) fn fresh_directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // ORDERING: Relaxed, a counter that publishes nothing.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let directory = env::temp_dir().join(format!("damper-redis-{}-{number}", process::id()));
    fs::create_dir_all(&directory).expect("the folder for temporary files can be written");
    directory
}

/// Returns a port of the loopback interface that no server listens on.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Each process begins elsewhere, so that tests of several programs rarely try the same ports.
    let begin = (process::id() % 200) as u16 * 50;
    for _ in 0..1_000 {
        // ORDERING: Relaxed, a counter that publishes nothing.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + (begin + number % PORTS.end) % (PORTS.end - PORTS.start);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port in {PORTS:?}")
}
