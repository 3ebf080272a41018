//! Watches a breaker from outside: which state was seen when.
//!
//! The state is read around every call, where transitions happen, and every two milliseconds besides, because a
//! cooldown ends by itself. A lock puts the observations in order.

use crate::gateway::UpstreamBreaker;
use damper::breaker::State;
use damper::{Clock, Monotonic};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// The interval at which an idle breaker is read.
const INTERVAL: Duration = Duration::from_millis(2);

/// A change of state, in ticks of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) from: State,
    pub(crate) to: State,
    /// Not before this: `from` was seen after it.
    pub(crate) since: u64,
    /// And not after this: `to` was seen before it.
    pub(crate) seen: u64,
}

#[derive(Debug)]
pub(crate) struct BreakerWatch {
    breaker: Arc<UpstreamBreaker>,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    state: State,
    /// Read before `state` was last seen.
    since: u64,
    transitions: Vec<Transition>,
}

impl BreakerWatch {
    pub(crate) fn new(breaker: Arc<UpstreamBreaker>) -> Self {
        let since = Monotonic.now();
        let log = Log { state: breaker.state(), since, transitions: Vec::new() };
        Self { breaker, log: Mutex::new(log) }
    }

    /// Looks at the breaker now.
    pub(crate) fn observe(&self) -> State {
        let mut log = self.log.lock();
        let before = Monotonic.now();
        let state = self.breaker.state();
        if state != log.state {
            let transition = Transition { from: log.state, to: state, since: log.since, seen: Monotonic.now() };
            log.transitions.push(transition);
            log.state = state;
        }
        log.since = before;
        state
    }

    /// Looks at the breaker again and again.
    pub(crate) async fn observe_forever(&self) {
        let mut interval = tokio::time::interval(INTERVAL);
        loop {
            interval.tick().await;
            self.observe();
        }
    }

    pub(crate) fn transitions(&self) -> Vec<Transition> {
        self.log.lock().transitions.clone()
    }
}
