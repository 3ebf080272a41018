//! The callers of a row: when they send what, and what they get.

use crate::row::{Row, Stream, When, Work};
use damper::Deadline;
use damper::http::BoxedClient;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tower::ServiceExt;

/// The time before the part of a run that counts.
const WARM_UP: Duration = Duration::from_secs(5);

/// When a stream with [`When::Once`] sends: with what came before it, a server is known.
const ONCE_AT: Duration = Duration::from_secs(3);

/// The part of the polite work of a run that was served.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served {
    /// Seconds of work that were asked for, and those that were done.
    asked: f64,
    done: f64,
    /// The latest call of the generators.
    pub(crate) latest: Duration,
}

impl Served {
    /// The share of the polite work that was served.
    pub(crate) fn share(&self) -> f64 {
        self.done / self.asked
    }

    fn add(&mut self, other: Self) {
        self.asked += other.asked;
        self.done += other.done;
        self.latest = self.latest.max(other.latest);
    }
}

/// Sends all streams of a row, each at its times.
pub(crate) async fn send(
    row: &Row,
    client: &BoxedClient<Empty<Bytes>>,
    server: SocketAddr,
    length: Duration,
    seed: u64,
) -> Result<Served, Box<dyn Error + Send + Sync>> {
    let (start, mut streams) = (Instant::now(), JoinSet::new());
    for (stream, number) in row.streams.iter().zip(0_u64..) {
        let caller = Caller { stream: *stream, client: client.clone(), uri: uri(server, stream.work), start };
        streams.spawn(caller.run(WARM_UP + length, Draws(seed ^ (number << 32))));
    }
    let mut all = Served::default();
    while let Some(served) = streams.join_next().await {
        all.add(served??);
    }
    Ok(all)
}

fn uri(server: SocketAddr, work: Work) -> String {
    match work {
        Work::Pool(time) => format!("http://{server}/pool/{}", time.as_micros()),
        Work::Beside(status, time) => format!("http://{server}/beside/{status}/{}", time.as_micros()),
    }
}

/// The callers of one stream.
struct Caller {
    stream: Stream,
    client: BoxedClient<Empty<Bytes>>,
    uri: String,
    start: Instant,
}

impl Caller {
    /// Sends until `end`, and waits for the responses.
    async fn run(self, end: Duration, mut draws: Draws) -> Result<Served, Box<dyn Error + Send + Sync>> {
        let (mut calls, mut served) = (JoinSet::new(), Served::default());
        let mut deadlines = self.stream.deadlines.into_iter().cycle();
        for (at, count) in self.times(end, &mut draws) {
            sleep_until(self.start + at).await;
            served.latest = served.latest.max((self.start + at).elapsed());
            for _ in 0..count {
                let mut request = Request::get(&self.uri).body(Empty::new())?;
                if let Some(Some(time)) = deadlines.next() {
                    request.extensions_mut().insert(Deadline::after(time));
                }
                let (client, counts) = (self.client.clone(), self.stream.is_polite && at >= WARM_UP);
                calls.spawn(async move { (counts, is_served(client, request).await) });
            }
        }
        let work = match self.stream.work {
            Work::Pool(time) | Work::Beside(_, time) => time.as_secs_f64(),
        };
        for (counts, is_served) in calls.join_all().await {
            served.asked += if counts { work } else { 0.0 };
            served.done += if counts && is_served { work } else { 0.0 };
        }
        Ok(served)
    }

    /// When so many calls are sent.
    fn times(&self, end: Duration, draws: &mut Draws) -> Vec<(Duration, u32)> {
        if let When::Once(count) = self.stream.when {
            return vec![(ONCE_AT, count)];
        }
        let (mut times, mut at) = (Vec::new(), Duration::ZERO);
        loop {
            at += draws.exponential(1.0 / self.stream.rate);
            if at >= end {
                return times;
            }
            if self.is_on(at) {
                times.push((at, 1));
            }
        }
    }

    fn is_on(&self, at: Duration) -> bool {
        match self.stream.when {
            When::Turns(turn, is_first) => (at.as_millis() / turn.as_millis()).is_multiple_of(2) == is_first,
            _ => true,
        }
    }
}

async fn is_served(client: BoxedClient<Empty<Bytes>>, request: Request<Empty<Bytes>>) -> bool {
    let Ok(response) = client.oneshot(request).await else { return false };
    let status = response.status();
    // It is read to its end, so that the connection can be used again.
    response.into_body().collect().await.is_ok() && status == StatusCode::OK
}

/// Chance: the generator `SplitMix64`.
struct Draws(u64);

impl Draws {
    /// Returns a time that is exponential with this mean, in seconds.
    fn exponential(&mut self, mean: f64) -> Duration {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        let fraction = f64::from((mixed >> 32) as u32) / 4_294_967_296.0;
        Duration::from_secs_f64(-mean * (1.0 - fraction).ln())
    }
}
