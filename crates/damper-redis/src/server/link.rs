//! The connection in use, which is replaced whenever it fails.

use super::connect_error::ConnectError;
use super::connection::{Connection, Script};
use super::target::Target;
use super::{eviction, random_between};
use crate::limiter::Eviction;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// The range of the random pause between attempts to connect, in ms.
///
/// It keeps the attempts of a fleet apart.
const PAUSES: [u64; 2] = [20, 200];

/// The range of the pause after a server has refused the connection, in ms.
///
/// It is longer because failed handshakes cost the server time.
const PAUSES_AFTER_REFUSAL: [u64; 2] = [500, 1_000];

/// The consecutive calls without a reply in time after which a connection is replaced.
const STRIKES: u32 = 3;

/// The shortest time between the first and the last of these calls.
///
/// A shorter pause of the server is no reason to replace the connection.
const STRIKES_APART: Duration = Duration::from_millis(100);

/// The value of [`STRIKES_APART`] for a cluster.
///
/// The connection to a cluster replaces those to single servers itself, and the other servers are in use meanwhile.
const STRIKES_APART_IN_CLUSTER: Duration = Duration::from_secs(1);

/// The connection in use, or the attempt to make one.
///
/// A call never waits for a connection. It takes the current one, or fails at once.
pub(crate) struct Link {
    target: Target,
    script: Arc<Script>,
    timeout: Duration,
    eviction: Eviction,
    state: Mutex<State>,
    made: AtomicU64,
}

/// The state of a link under its lock.
#[derive(Default)]
struct State {
    session: Option<Arc<Session>>,
    /// The task that connects. A task whose runtime has ended counts as finished.
    attempt: Option<JoinHandle<()>>,
    /// The error of the last failed attempt, and when it happened.
    last_error: Option<(ConnectError, Instant)>,
}

/// A connection, and the calls on it that had no reply in time.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    /// The server's time when the connection was made.
    pub(crate) server_time: ServerTime,
    strikes: AtomicU32,
    first_strike: Mutex<Option<Instant>>,
}

/// The server's time in µs since 1970, and when it was asked for and received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerTime {
    pub(crate) now: u64,
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
}

impl Link {
    /// Creates a link without a connection.
    pub(crate) fn new(target: Target, script: Arc<Script>, timeout: Duration, eviction: Eviction) -> Self {
        Self { target, script, timeout, eviction, state: Mutex::default(), made: AtomicU64::new(0) }
    }

    pub(crate) fn address(&self) -> &str {
        self.target.address()
    }

    /// Returns how many connections were made.
    pub(crate) fn made(&self) -> u64 {
        // ORDERING: Relaxed. The count publishes nothing.
        self.made.load(Ordering::Relaxed)
    }

    /// Returns the connection in use, if there is one.
    pub(crate) fn current(&self) -> Option<Arc<Session>> {
        self.lock().session.clone()
    }

    /// Returns the error of the last failed attempt to connect, and when it happened.
    pub(crate) fn last_error(&self) -> Option<(ConnectError, Instant)> {
        self.lock().last_error.clone()
    }

    /// Connects once, within this time, and takes the connection into use.
    pub(crate) async fn connect(&self, within: Duration) -> Result<(), ConnectError> {
        let has_tls = self.target.has_tls();
        let outcome = match tokio::time::timeout(within, self.attempt()).await {
            Ok(outcome) => outcome.map_err(|error| error.with_tls(has_tls)),
            Err(_) => Err(ConnectError::TimedOut { has_tls }),
        };
        let mut state = self.lock();
        match outcome {
            Ok(session) => {
                state.session = Some(Arc::new(session));
                // ORDERING: Relaxed, as in `made`.
                self.made.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                state.last_error = Some((error.clone(), Instant::now()));
                Err(error)
            }
        }
    }

    /// Connects, and checks that the server evicts no keys and accepts the script.
    async fn attempt(&self) -> Result<Session, ConnectError> {
        let connection = self.target.connect(self.timeout).await?;
        if self.eviction == Eviction::Refused
            && let Some(policy) = eviction::policy(&connection).await
        {
            return Err(ConnectError::Eviction(policy));
        }
        // The time is read first. A server that asks for a password would refuse the script for its length, a misleading reason.
        let sent = Instant::now();
        let now = connection.time().await?;
        let server_time = ServerTime { now, sent, received: Instant::now() };
        connection.load(&self.script).await?;
        Ok(Session { connection, server_time, strikes: AtomicU32::new(0), first_strike: Mutex::default() })
    }

    /// Starts to connect in the background, unless there is a connection or a task that makes one.
    pub(crate) fn connect_in_background(self: &Arc<Self>) {
        let state = self.lock();
        if state.session.is_none() {
            self.begin_to_connect(state);
        }
    }

    /// Starts the task that connects, unless it runs.
    ///
    /// The task tries until it succeeds or the link is dropped.
    fn begin_to_connect(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let Ok(runtime) = Handle::try_current() else { return };
        if state.attempt.as_ref().is_none_or(JoinHandle::is_finished) {
            state.attempt = Some(runtime.spawn(connect_for_ever(Arc::downgrade(self))));
        }
    }

    /// Notes a call without a reply in time.
    ///
    /// After several such calls another connection is made, which replaces this one.
    pub(crate) fn timed_out(self: &Arc<Self>, session: &Arc<Session>) {
        let apart = if self.target.is_cluster() { STRIKES_APART_IN_CLUSTER } else { STRIKES_APART };
        if session.strike(apart) {
            self.begin_to_connect(self.lock());
        }
    }

    /// Notes that the connection to a server has ended.
    ///
    /// A connection to a single server is out of use from now on. One to a cluster stays in use for its other servers.
    pub(crate) fn broke(self: &Arc<Self>, session: &Arc<Session>) {
        if self.target.is_cluster() {
            return self.timed_out(session);
        }
        let mut state = self.lock();
        if state.session.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            state.session = None;
            self.begin_to_connect(state);
        }
    }

    /// Returns whether there is a connection whose last call had a reply.
    fn is_well(&self) -> bool {
        self.current().is_some_and(|session| !session.has_strikes())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(attempt) = self.lock().attempt.take() {
            attempt.abort();
        }
    }
}

/// Connects, with pauses between the attempts, until one succeeds or the link is dropped.
async fn connect_for_ever(link: Weak<Link>) {
    loop {
        let [shortest, longest] = {
            let Some(link) = link.upgrade() else { return };
            // The previous connection may have recovered.
            if link.is_well() {
                return;
            }
            match link.connect(link.timeout).await {
                Ok(()) => return,
                Err(error) if error.is_final() => PAUSES_AFTER_REFUSAL,
                Err(_) => PAUSES,
            }
        };
        tokio::time::sleep(Duration::from_millis(random_between(shortest, longest))).await;
    }
}

impl Session {
    /// Returns whether the last call had no reply in time.
    fn has_strikes(&self) -> bool {
        // ORDERING: Relaxed. The count of calls publishes nothing.
        self.strikes.load(Ordering::Relaxed) != 0
    }

    /// Notes that a reply came. Writes nothing if there are no strikes.
    pub(crate) fn replied(&self) {
        if self.has_strikes() {
            // ORDERING: Relaxed, as in `has_strikes`.
            self.strikes.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that no reply came in time, and returns whether the connection should be replaced.
    fn strike(&self, apart: Duration) -> bool {
        // ORDERING: Relaxed, as in `has_strikes`.
        let strikes = self.strikes.fetch_add(1, Ordering::Relaxed) + 1;
        let mut first = self.first_strike.lock().unwrap_or_else(PoisonError::into_inner);
        if strikes == 1 {
            *first = Some(Instant::now());
        }
        strikes >= STRIKES && first.is_some_and(|first| first.elapsed() >= apart)
    }
}
