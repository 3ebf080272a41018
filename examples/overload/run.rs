//! One run: a server, and the load on it.

use crate::client::Client;
use crate::load::{Arrival, Arrivals};
use crate::options::Options;
use crate::protection::Protection;
use crate::server::Server;
use crate::tally::{Answer, Tally};
use crate::work::Work;
use std::error::Error;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// The result of one run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    /// The share of the finished work that was late, of the whole run.
    pub(crate) late: f64,
    /// The share of the begun work that was ended in the middle, at its deadline, of the whole run.
    pub(crate) ended: f64,
}

/// The requests a second that the server answers to clients that wait for each answer.
///
/// There are twice as many clients as threads, so that no thread waits for the network.
pub(crate) async fn capacity(options: &Options, work: Work) -> Result<f64, Box<dyn Error>> {
    const LENGTH: Duration = Duration::from_secs(1);
    // So long that it never passes.
    const PATIENCE: Duration = Duration::from_secs(10 * 60);
    let server = Server::start(Protection::Nothing, work, options.workers)?;
    let client = Client::new(server.address)?;
    let mut callers = JoinSet::new();
    let started = Instant::now();
    for _ in 0..2 * options.workers {
        let client = client.clone();
        callers.spawn(async move {
            let mut answered = 0_u32;
            while started.elapsed() < LENGTH {
                let arrival = Arrival { at: Duration::ZERO, class: 0, tenant: 0 };
                let answer = client.clone().call(arrival, Instant::now(), PATIENCE).await;
                answered += u32::from(matches!(answer, Answer::InTime(_)));
            }
            answered
        });
    }
    let answered: u32 = callers.join_all().await.into_iter().sum();
    let capacity = f64::from(answered) / started.elapsed().as_secs_f64();
    server.stop()?;
    if answered == 0 { Err("the server answered nothing".into()) } else { Ok(capacity) }
}

/// Sends every request at its time, whether or not earlier ones were answered.
pub(crate) async fn overload(
    options: &Options,
    work: Work,
    capacity: f64,
    round: u32,
    protection: Protection,
) -> Result<Outcome, Box<dyn Error>> {
    let server = Server::start(protection, work, options.workers)?;
    let client = Client::new(server.address)?;
    let mut calls = JoinSet::new();
    let start = Instant::now();
    for arrival in Arrivals::new(options, capacity, round) {
        let (due, timeout, client) = (start + arrival.at, options.timeout(), client.clone());
        sleep_until(due).await;
        let lag = due.elapsed();
        calls.spawn(async move { (arrival, lag, client.call(arrival, due, timeout).await) });
    }
    let mut tally = Tally::new()?;
    for (arrival, lag, answer) in calls.join_all().await {
        if arrival.at >= options.calm() {
            tally.add(arrival.class, lag, answer);
        }
    }
    let worked = server.stop()?;
    Ok(Outcome { tally, late: worked.late_share(), ended: worked.ended_share() })
}
