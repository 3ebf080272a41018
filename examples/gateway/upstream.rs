//! The server behind the gateway: answers, fails or stalls as the plan says, and remembers every hit.

use crate::headers::{ADMITTED, ASKED, PHASE, tick};
use crate::plan::{Phase, Plan};
use crate::server;
use bytes::Bytes;
use damper::{Clock, Monotonic};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use parking_lot::Mutex;
use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, sleep_until};

/// The time that a slow upstream takes, of the 250 ms that the gateway waits.
const SLOW: Duration = Duration::from_millis(120);

/// The upstream's treatment of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mood {
    Answers,
    /// Answers late, but in time for the gateway.
    Slow,
    /// 503.
    Fails,
    /// Takes the request and never answers.
    Stalls,
}

impl fmt::Display for Mood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answers => "answers",
            Self::Slow => "answers late",
            Self::Fails => "fails",
            Self::Stalls => "stalls",
        })
    }
}

/// A request of the load that arrived, in ticks of the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub(crate) phase: Phase,
    /// Before the gateway asked the breaker.
    pub(crate) asked: u64,
    /// After the breaker let it pass.
    pub(crate) admitted: u64,
    /// When it was here.
    pub(crate) arrived: u64,
}

#[derive(Debug)]
pub(crate) struct Upstream {
    mood: Mutex<Mood>,
    hits: Mutex<Vec<Hit>>,
}

impl Upstream {
    pub(crate) fn new() -> Self {
        Self { mood: Mutex::new(Mood::Answers), hits: Mutex::default() }
    }

    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        server::serve(listener, |_| {
            let upstream = Arc::clone(&self);
            service_fn(move |request| Arc::clone(&upstream).answer(request))
        })
        .await;
    }

    /// Goes down and comes back at the planned moments of a run that began at `start`.
    pub(crate) async fn follow(&self, plan: &Plan, start: Instant) {
        for (at, mood) in [
            (plan.start_of(Phase::Outage), Mood::Fails),
            (plan.stall_at(), Mood::Stalls),
            (plan.start_of(Phase::Recovery), Mood::Answers),
        ] {
            sleep_until(start + at).await;
            self.set_mood(mood);
        }
    }

    pub(crate) fn mood(&self) -> Mood {
        *self.mood.lock()
    }

    pub(crate) fn set_mood(&self, mood: Mood) {
        *self.mood.lock() = mood;
    }

    pub(crate) fn hits(&self) -> Vec<Hit> {
        self.hits.lock().clone()
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        self.hits.lock().extend(hit(&request));
        // Copied, so that no lock is held while waiting.
        let mood = self.mood();
        if let Mood::Slow = mood {
            sleep(SLOW).await;
        }
        let (status, text) = match mood {
            Mood::Answers | Mood::Slow => (StatusCode::OK, "hello from the upstream\n"),
            Mood::Fails => (StatusCode::SERVICE_UNAVAILABLE, "out of order\n"),
            // Until the gateway loses patience and closes the connection, which drops this future.
            Mood::Stalls => pending().await,
        };
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        Ok(response)
    }
}

/// The traces of the gateway; `None` for requests that are not part of the load.
fn hit(request: &Request<Incoming>) -> Option<Hit> {
    let headers = request.headers();
    Some(Hit {
        phase: Phase::of_name(headers.get(PHASE)?.as_bytes())?,
        asked: tick(headers, &ASKED)?,
        admitted: tick(headers, &ADMITTED)?,
        arrived: Monotonic.now(),
    })
}
