//! Calls to the server, which end by their deadline whatever the server does.

// | file | idea |
// |---|---|
// | this one | `Server`: a call with its deadline, breaker, connection and reply; random numbers |
// | `address` | the part of an address that is shown |
// | `target` | where to connect: a server or a cluster, and the settings of the socket |
// | `tls`, or `no_tls` without the feature | certificates, checked, and cryptography |
// | `connection` | one connection, and how a script is called on it |
// | `connect_error` | why there is no connection, and whether another attempt may succeed |
// | `handshake` | why a server and this program do not agree on TLS |
// | `eviction` | whether the server evicts keys |
// | `link` | the connection in use, which is replaced when it fails |
// | `server_clock` | the server's clock, as replies show it |
// | `shard` | the breaker and the clock of the servers that answer for a part of the slots |
// | `beat` | how many processes there are, and whether the server has lost its memory |
// | `heartbeat` | the task that sends beats |

mod address;
mod beat;
mod connect_error;
mod connection;
mod eviction;
mod handshake;
mod heartbeat;
mod link;
mod server_clock;
mod shard;
mod target;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;

pub(crate) use connect_error::ConnectError;
pub(crate) use heartbeat::Heartbeat;
pub(crate) use target::Target;
pub(crate) use tls::Certificates;

use self::beat::Beat;
use self::connection::Script;
use self::link::{Link, Session};
use self::shard::Shard;
use crate::limiter::{Eviction, LastError, Unavailable};
use crate::script::{Command, Frame, Keys, Reply, SOURCE, Status};
use core::error::Error;
use core::hash::BuildHasher;
use core::pin::pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use damper_core::CircuitBreaker;
use damper_core::breaker::{Permit, State};
use redis::{RedisError, RedisResult, ToRedisArgs, Value};
use std::hash::RandomState;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::time::timeout_at;

/// How long after its deadline a call may still be allowed, in µs.
///
/// Timers of tokio go in steps of a millisecond, and a busy machine runs a task some milliseconds late.
const SLACK: u64 = 10_000;

/// How long a beat waits for its reply, if the deadline of a call is shorter.
///
/// A policy divides the quota by the number of processes. So that has to be known even if the server is too slow for checks.
const BEAT_DEADLINE: Duration = Duration::from_millis(500);

/// The settings of all calls to a server.
pub(crate) struct ServerSettings {
    pub(crate) target: Target,
    pub(crate) connect_timeout: Duration,
    pub(crate) eviction: Eviction,
    /// How long a call may take.
    pub(crate) deadline: Duration,
    /// The frame of all commands, except for its `not_after`.
    pub(crate) frame: Frame,
}

/// A reply, with the local times in µs of the command and of the reply.
struct Answer<T> {
    reply: T,
    sent: u64,
    received: u64,
}

/// A server, or the servers of a cluster, behind deadlines and breakers of our own.
pub(crate) struct Server {
    link: Arc<Link>,
    script: Arc<Script>,
    beat: Script,
    shards: Vec<Shard>,
    deadline: Duration,
    frame: Frame,
    /// The instant at which local times in µs are 0.
    origin: Instant,
    calls: AtomicU64,
    failures: AtomicU64,
    /// The last error of a call, and when it happened.
    last_error: Mutex<Option<(Unavailable, Instant)>>,
}

impl Server {
    /// Creates a server that is not connected yet.
    pub(crate) fn new(settings: ServerSettings) -> Self {
        let ServerSettings { target, connect_timeout, eviction, deadline, frame } = settings;
        let script = Arc::new(Script::new(SOURCE));
        let shards = if target.is_cluster() { Shard::of_cluster(0) } else { Shard::of_server(0) };
        Self {
            link: Arc::new(Link::new(target, Arc::clone(&script), connect_timeout, eviction)),
            script,
            beat: Script::new(include_str!("beat.lua")),
            shards,
            deadline,
            frame,
            origin: Instant::now(),
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last_error: Mutex::default(),
        }
    }

    /// Connects once, within this time.
    pub(crate) async fn connect(&self, within: Duration) -> Result<(), ConnectError> {
        self.link.connect(within).await
    }

    /// Returns the address of the server, or of a cluster's servers.
    pub(crate) fn address(&self) -> &str {
        self.link.address()
    }

    /// Returns the time in µs since this value was created.
    pub(crate) fn now(&self) -> u64 {
        self.micros(Instant::now())
    }

    /// Returns the local time of `instant` in µs.
    fn micros(&self, instant: Instant) -> u64 {
        // The time stays below 2^64 for half a million years.
        instant.duration_since(self.origin).as_micros() as u64
    }

    /// Returns the instant of a local time in µs.
    pub(crate) fn instant(&self, micros: u64) -> Instant {
        self.origin + Duration::from_micros(micros)
    }

    /// Returns how long a call may take.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Returns the shard of a slot, with its index.
    pub(crate) fn shard(&self, slot: usize) -> (usize, &Shard) {
        let index = Shard::index(slot, self.shards.len());
        (index, &self.shards[index])
    }

    /// Returns a slot of the shard with this index.
    pub(crate) fn slot(&self, shard: usize) -> usize {
        Shard::first_slot(shard, self.shards.len())
    }

    /// Runs a command on the keys with these names, which are in this slot, and returns the reply.
    ///
    /// The call takes no longer than the deadline and the inaccuracy of the runtime's timer. But if its task is stopped, it may return a
    /// reply long after that, and [`is_too_late`](Self::is_too_late) tells. A call that fails may still have its effect, but not after
    /// `until`.
    ///
    /// # Cancel safety
    ///
    /// A call that is dropped may still have its effect.
    pub(crate) async fn call(
        &self,
        slot: usize,
        names: &[String],
        command: &Command,
        until: Instant,
    ) -> Result<Reply, Unavailable> {
        // ORDERING: Relaxed. A count, which publishes nothing.
        self.calls.fetch_add(1, Ordering::Relaxed);
        let answer = match self.call_once(slot, names, command, until).await {
            // The server's clock had stepped forward, so the command had no effect. Its reply has set the clock.
            Ok(Reply { status: Status::Late, .. }) if Instant::now() < until => {
                self.call_once(slot, names, command, until).await
            }
            answer => answer,
        };
        let answer = match answer {
            Ok(Reply { status: Status::Late, .. }) => Err(self.timed_out()),
            answer => answer,
        };
        if answer.is_err() {
            // ORDERING: Relaxed, as above.
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    /// Runs a command once, and lets the shard's clock learn from the reply.
    async fn call_once(
        &self,
        slot: usize,
        names: &[String],
        command: &Command,
        until: Instant,
    ) -> Result<Reply, Unavailable> {
        let (_, shard) = self.shard(slot);
        let arguments =
            |session: &Session| command.args(&Frame { not_after: self.not_after(shard, session, until), ..self.frame });
        let parse = |value: Value| Reply::parse(&value, command);
        let Answer { reply, sent, received } = self
            .run(shard, &self.script, names, arguments, parse, until)
            .await
            .inspect_err(|error| self.note(error))?;
        shard.clock.observe(reply.now, sent, received);
        Ok(reply)
    }

    /// Reports this process to the server, and returns the number of processes and the marker.
    ///
    /// The second result says whether the server answered as fast as a call needs it. A later reply still has the number, but it
    /// counts as a failure for the breaker, and an open breaker stops no beat.
    pub(crate) async fn beat(
        &self,
        keys: &Keys,
        member: &str,
        length: u64,
        deadline: Duration,
    ) -> (Option<Beat>, Result<(), Unavailable>) {
        let (_, shard) = self.shard(keys.slot());
        let names = [keys.processes(), keys.marker().to_owned()];
        let arguments = [member.to_owned(), length.to_string()];
        let session = match self.session() {
            Ok(session) => session,
            Err(error) => {
                self.note(&error);
                return (None, Err(error));
            }
        };
        let permit = shard.breaker.try_acquire();
        let sent = Instant::now();
        let until = sent + deadline;
        let mut call = pin!(session.connection.call(&self.beat, &names, &arguments));
        let replied = timeout_at(until.into(), call.as_mut()).await.ok().map(|reply| reply.map(Beat::parse));
        let received = self.now();
        let mut beat = if let Some(Ok(Ok(beat))) = &replied { Some(*beat) } else { None };
        let is_pending = replied.is_none();
        let judged = match permit {
            Ok(permit) => self.judge(shard, &session, permit, replied, received, until).map(drop),
            Err(_) => Err(Unavailable::BreakerOpen),
        };
        if is_pending && let Ok(Ok(value)) = timeout_at((sent + BEAT_DEADLINE).into(), call).await {
            beat = Beat::parse(value).ok();
        }
        (beat, judged.inspect_err(|error| self.note(error)))
    }

    /// Runs a command that takes nothing of the keys with these names, and the first beat.
    ///
    /// They reveal an error that all later calls would meet too. Returns `None` if there is no reply before `until`, or an error
    /// that another attempt may not meet.
    ///
    /// # Errors
    ///
    /// The server refuses a script. The user may lack a permission.
    pub(crate) async fn try_scripts(
        &self,
        keys: &Keys,
        names: &[String],
        command: &Command,
        member: &str,
        length: u64,
        until: Instant,
    ) -> Result<Option<Beat>, ConnectError> {
        let Some(session) = self.link.current() else { return Ok(None) };
        let trial = async |script: &Script, keys: &[String], arguments: &[String]| match timeout_at(
            until.into(),
            session.connection.call(script, keys, arguments),
        )
        .await
        {
            Ok(Ok(value)) => Ok(Some(value)),
            Ok(Err(error)) => Some(ConnectError::from(error)).filter(ConnectError::is_final).map_or(Ok(None), Err),
            Err(_) => Ok(None),
        };
        let arguments: Vec<_> = command.args(&self.frame).iter().map(ToString::to_string).collect();
        trial(&self.script, names, &arguments).await?;
        let names = [keys.processes(), keys.marker().to_owned()];
        let beat = trial(&self.beat, &names, &[member.to_owned(), length.to_string()]).await?;
        Ok(beat.and_then(|value| Beat::parse(value).ok()))
    }

    /// Runs a script behind the breaker of a shard, until the deadline.
    async fn run<A: ToRedisArgs, T, E: Error + Send + Sync + 'static>(
        &self,
        shard: &Shard,
        script: &Script,
        keys: &[String],
        arguments: impl FnOnce(&Session) -> Vec<A>,
        parse: impl FnOnce(Value) -> Result<T, E>,
        until: Instant,
    ) -> Result<Answer<T>, Unavailable> {
        let session = self.session()?;
        let Ok(permit) = shard.breaker.try_acquire() else { return Err(Unavailable::BreakerOpen) };
        let sent = self.now();
        let arguments = arguments(&session);
        let call = session.connection.call(script, keys, &arguments);
        let replied = timeout_at(until.into(), call).await.ok().map(|reply| reply.map(parse));
        let received = self.now();
        self.judge(shard, &session, permit, replied, received, until).map(|reply| Answer { reply, sent, received })
    }

    /// Returns the connection for a call. Starts to connect if there is none.
    fn session(&self) -> Result<Arc<Session>, Unavailable> {
        if Handle::try_current().is_err() {
            return Err(Unavailable::NoRuntime);
        }
        self.link.current().ok_or_else(|| {
            self.link.connect_in_background();
            Unavailable::NotConnected
        })
    }

    /// Returns whether a call with this deadline may not be allowed any more.
    ///
    /// A timeout polls the call first, so a task that was stopped gets its reply long after the deadline. The server answered in time, so
    /// the reply counts for all but the decision: all calls that were in flight would otherwise be allowed at once.
    pub(crate) fn is_too_late(&self, until: Instant) -> bool {
        self.is_late_at(self.now(), until)
    }

    fn is_late_at(&self, now: u64, until: Instant) -> bool {
        now > self.micros(until).saturating_add(SLACK)
    }

    /// Reports how a call ended to the breaker and the connection, and returns its reply.
    ///
    /// `replied` is `None` if no reply came before the task found that the deadline had passed.
    fn judge<T, E: Error + Send + Sync + 'static>(
        &self,
        shard: &Shard,
        session: &Arc<Session>,
        permit: Permit<&CircuitBreaker>,
        replied: Option<RedisResult<Result<T, E>>>,
        received: u64,
        until: Instant,
    ) -> Result<T, Unavailable> {
        let error = match replied {
            Some(Ok(Ok(reply))) => {
                permit.success();
                session.replied();
                // The policy counts from the last reply that could decide. Otherwise a process that finds all replies late would
                // have neither the server's decisions nor a share.
                if !self.is_late_at(received, until) {
                    shard.replied(received);
                }
                return Ok(reply);
            }
            Some(Ok(Err(error))) => Unavailable::Failed(Arc::new(error)),
            Some(Err(error)) => {
                if ends_a_connection(&error) {
                    self.link.broke(session);
                }
                Unavailable::Failed(Arc::new(error))
            }
            None => {
                self.link.timed_out(session);
                self.timed_out()
            }
        };
        permit.failure();
        Err(error)
    }

    /// Returns the server's time after which a command of this call has no effect.
    fn not_after(&self, shard: &Shard, session: &Session, until: Instant) -> u64 {
        let until = self.micros(until);
        shard.clock.at(until).unwrap_or_else(|| {
            let time = session.server_time;
            shard.clock.observe(time.now, self.micros(time.sent), self.micros(time.received));
            shard.clock.at(until).unwrap_or(0)
        })
    }

    /// Returns the error of a call that met its deadline.
    fn timed_out(&self) -> Unavailable {
        Unavailable::TimedOut { deadline: self.deadline }
    }

    /// Keeps an error as the last one.
    pub(crate) fn note(&self, error: &Unavailable) {
        // An open breaker or a missing connection has an earlier error as its cause, which is the better one to keep.
        if matches!(error, Unavailable::TimedOut { .. } | Unavailable::Failed(_) | Unavailable::NoRuntime) {
            *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some((error.clone(), Instant::now()));
        }
    }

    /// Returns whether there is a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.link.current().is_some()
    }

    /// Returns the worst state of the breakers.
    pub(crate) fn breaker_state(&self) -> State {
        let states = || self.shards.iter().map(|shard| shard.breaker.state());
        states()
            .find(|state| *state == State::Open)
            .or_else(|| states().find(|state| *state != State::Closed))
            .unwrap_or(State::Closed)
    }

    /// Returns the last error of a call or of an attempt to connect.
    pub(crate) fn last_error(&self) -> Option<LastError> {
        let of_connecting = self.link.last_error().map(|(error, at)| match error {
            ConnectError::Eviction(_) => (error.to_string(), at),
            _ => (format!("cannot connect to {}: {error}", self.address()), at),
        });
        let of_call = {
            let last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
            last.as_ref().map(|(error, at)| (error.to_string(), *at))
        };
        let last = of_connecting.into_iter().chain(of_call).max_by_key(|(_, at)| *at);
        last.map(|(message, at)| LastError { message, age: at.elapsed() })
    }

    /// Returns the numbers of commands sent, of failed calls, and of connections made.
    pub(crate) fn counts(&self) -> [u64; 3] {
        // ORDERING: Relaxed. Counts, which publish nothing.
        [self.calls.load(Ordering::Relaxed), self.failures.load(Ordering::Relaxed), self.link.made()]
    }

    /// Sets the markers that are missing. They say that the server never lost its memory.
    pub(crate) async fn mark(&self, markers: impl Iterator<Item = String>) -> Result<(), Unavailable> {
        let Some(session) = self.link.current() else { return Err(Unavailable::NotConnected) };
        session.connection.set_where_missing(markers).await.map_err(|error| Unavailable::Failed(Arc::new(error)))
    }
}

/// Returns whether no later call on the same connection can succeed.
///
/// A master that became a replica refuses to write. Its address may lead to the new master.
fn ends_a_connection(error: &RedisError) -> bool {
    error.is_unrecoverable_error() || error.code() == Some("READONLY")
}

/// Draws a number from the operating system, another one each time.
///
/// The keys of std's `RandomState` come from there.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// Draws a number from `least` to `most`.
pub(crate) fn random_between(least: u64, most: u64) -> u64 {
    least + random() % (most.saturating_sub(least) + 1)
}
