//! Calls to a language model, kept within three limits.
//!
//! Requests a minute, tokens a minute and calls in flight are one decision. Before a call, its worker waits for an
//! estimate: the prompt plus the longest answer allowed. When the bill comes it settles, and what was not used goes to
//! the next call. The calls are served in the order in which they came, so small calls never overtake a large one.

use damper::time::TokioClock;
use damper::{Bulkhead, Clock, LimitSet, Quota};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

const REQUESTS: Quota = Quota::per_minute(60).burst(20);
const TOKENS: Quota = Quota::per_minute(60_000).burst(20_000);
const IN_FLIGHT: u32 = 6;
const WORKERS: u16 = 8;
const AN_HOUR: Duration = Duration::from_secs(3600);

/// The calls to be made: how many tokens each uses, and for how long it takes.
fn calls() -> impl Iterator<Item = (u32, Duration)> {
    let bills = [300, 2_200, 700, 1_200, 1_100];
    let seconds = [2, 9, 4, 6, 5, 3, 7];
    (0..).map(move |call| (bills[call % bills.len()], Duration::from_secs(seconds[call % seconds.len()])))
}

/// The calls that were made: when each began, and its bill.
#[derive(Debug, Default)]
struct Journal {
    requests: Vec<(u64, u32)>,
    tokens: Vec<(u64, u32)>,
    most_in_flight: u32,
}

#[tokio::main(flavor = "current_thread", start_paused = true)] // an hour passes in a moment
async fn main() {
    let clock = TokioClock::new(); // leave it out, use `LimitSet::new`, and real time passes
    let limits = LimitSet::with_clock([REQUESTS, TOKENS], clock).with_bulkhead(Bulkhead::with_clock(IN_FLIGHT, clock));
    let limits = Arc::new(limits.queue(WORKERS));
    let calls = Arc::new(Mutex::new(calls()));
    let journal = Arc::new(Mutex::new(Journal::default()));

    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (limits, calls, journal) = (Arc::clone(&limits), Arc::clone(&calls), Arc::clone(&journal));
        workers.spawn(async move {
            while clock.now() < nanos(AN_HOUR) {
                let (bill, takes) = calls.lock().unwrap().next().expect("there are always more calls");
                let call = limits.acquire([1, 2 * bill]).await.expect("no estimate exceeds the burst");
                journal.lock().unwrap().note(clock.now(), bill, limits.bulkhead().get_ref().in_flight());
                sleep(takes).await; // the call
                call.settle([1, bill]);
            }
        });
    }
    workers.join_all().await;

    let Journal { requests, tokens, most_in_flight } = &*journal.lock().unwrap();
    let used: u64 = tokens.iter().map(|&(_, bill)| u64::from(bill)).sum();
    let budget = 20_000 + 60 * 60_000;
    println!("{} calls, {used} of {budget} tokens, at most {most_in_flight} in flight", requests.len());
    assert!(used * 100 >= budget * 98, "estimates are twice the bill, and still the budget is used");
    assert!(is_within(REQUESTS, requests), "no stretch of time has more requests than the limit");
    assert!(is_within(TOKENS, tokens), "no stretch of time has more tokens than the limit");
    assert_eq!(*most_in_flight, IN_FLIGHT, "all slots were used, and no more");
}

impl Journal {
    fn note(&mut self, now: u64, bill: u32, in_flight: u32) {
        self.requests.push((now, 1));
        self.tokens.push((now, bill));
        self.most_in_flight = self.most_in_flight.max(in_flight);
    }
}

/// Whether each stretch of time has at most the burst and what is refilled in it.
fn is_within(quota: Quota, calls: &[(u64, u32)]) -> bool {
    let minute = u128::from(nanos(Duration::from_secs(60)));
    (0..calls.len()).all(|first| {
        let mut used = 0;
        calls[first..].iter().all(|&(at, n)| {
            used += u128::from(n);
            let refilled = u128::from(quota.limit()) * u128::from(at - calls[first].0 + 1);
            used.saturating_sub(quota.burst_size().into()) * minute <= refilled
        })
    })
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
