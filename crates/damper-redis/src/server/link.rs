//! The connection in use, which is replaced for ever.

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

/// The shortest and the longest pause between attempts to connect, in ms.
///
/// Pauses are drawn at random, so that a fleet does not come at once.
const PAUSES: [u64; 2] = [20, 200];

/// The same after a server has refused the connection, in ms: handshakes that fail cost it time.
const PAUSES_AFTER_REFUSAL: [u64; 2] = [500, 1_000];

/// A connection is replaced after so many calls without a reply in time, one after the other ...
const STRIKES: u32 = 3;

/// ... if they took at least so long: a moment's pause of the server is no reason.
const STRIKES_APART: Duration = Duration::from_millis(100);

/// The same for a cluster.
///
/// Its connection replaces those to single servers by itself, and others are in use meanwhile.
const STRIKES_APART_IN_CLUSTER: Duration = Duration::from_secs(1);

/// The connection in use, or the attempt to make one.
///
/// A call never waits for a connection. It takes the one there is, or learns that there is none.
pub(crate) struct Link {
    target: Target,
    script: Arc<Script>,
    timeout: Duration,
    eviction: Eviction,
    state: Mutex<State>,
    made: AtomicU64,
}

#[derive(Default)]
struct State {
    session: Option<Arc<Session>>,
    /// The task that connects. A task whose runtime has gone is finished.
    attempt: Option<JoinHandle<()>>,
    /// Why the last attempt failed that did, and when.
    last_error: Option<(ConnectError, Instant)>,
}

/// A connection, and how it is doing.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    /// The server's time when it was made, and the local time in between.
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
    pub(crate) fn new(target: Target, script: Arc<Script>, timeout: Duration, eviction: Eviction) -> Self {
        Self { target, script, timeout, eviction, state: Mutex::default(), made: AtomicU64::new(0) }
    }

    pub(crate) fn address(&self) -> &str {
        self.target.address()
    }

    /// How many connections were made.
    pub(crate) fn made(&self) -> u64 {
        // ORDERING: Relaxed. A count, which publishes nothing.
        self.made.load(Ordering::Relaxed)
    }

    /// Returns the connection in use, if there is one.
    pub(crate) fn current(&self) -> Option<Arc<Session>> {
        self.lock().session.clone()
    }

    /// Why the last attempt to connect failed that did, and when.
    pub(crate) fn last_error(&self) -> Option<(ConnectError, Instant)> {
        self.lock().last_error.clone()
    }

    /// Connects once, and puts the connection in use.
    pub(crate) async fn connect(&self) -> Result<(), ConnectError> {
        let has_tls = self.target.has_tls();
        let outcome = match tokio::time::timeout(self.timeout, self.attempt()).await {
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

    async fn attempt(&self) -> Result<Session, ConnectError> {
        let connection = self.target.connect(self.timeout).await?;
        if self.eviction == Eviction::Refused
            && let Some(policy) = eviction::policy(&connection).await
        {
            return Err(ConnectError::Eviction(policy));
        }
        // First, because a server that asks for a password refuses the script by its length, which is not the reason.
        let sent = Instant::now();
        let now = connection.time().await?;
        let server_time = ServerTime { now, sent, received: Instant::now() };
        connection.load(&self.script).await?;
        Ok(Session { connection, server_time, strikes: AtomicU32::new(0), first_strike: Mutex::default() })
    }

    /// Begins to connect in the background, unless there is a connection or a task that makes one.
    pub(crate) fn connect_in_background(self: &Arc<Self>) {
        let state = self.lock();
        if state.session.is_none() {
            self.begin_to_connect(state);
        }
    }

    /// Starts the task that connects, unless it runs. It tries for ever, and ends with the link.
    fn begin_to_connect(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let Ok(runtime) = Handle::try_current() else { return };
        if state.attempt.as_ref().is_none_or(JoinHandle::is_finished) {
            state.attempt = Some(runtime.spawn(connect_for_ever(Arc::downgrade(self))));
        }
    }

    /// Notes a call without a reply in time.
    ///
    /// After several, another connection is made, and takes this one's place.
    pub(crate) fn timed_out(self: &Arc<Self>, session: &Arc<Session>) {
        let apart = if self.target.is_cluster() { STRIKES_APART_IN_CLUSTER } else { STRIKES_APART };
        if session.strike(apart) {
            self.begin_to_connect(self.lock());
        }
    }

    /// Notes that the connection to a server has ended.
    ///
    /// It is in use no longer. That of a cluster is, because its other servers go on.
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

    /// Whether there is a connection, and its last call had a reply.
    fn is_well(&self) -> bool {
        self.current().is_some_and(|session| !session.has_strikes())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave it half changed.
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

async fn connect_for_ever(link: Weak<Link>) {
    loop {
        let [shortest, longest] = {
            let Some(link) = link.upgrade() else { return };
            // The connection before may have recovered.
            if link.is_well() {
                return;
            }
            match link.connect().await {
                Ok(()) => return,
                Err(error) if error.is_final() => PAUSES_AFTER_REFUSAL,
                Err(_) => PAUSES,
            }
        };
        tokio::time::sleep(Duration::from_millis(random_between(shortest, longest))).await;
    }
}

impl Session {
    fn has_strikes(&self) -> bool {
        // ORDERING: Relaxed. A count of calls, which publishes nothing.
        self.strikes.load(Ordering::Relaxed) != 0
    }

    /// Notes that a reply came. Writes nothing if one came before.
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
