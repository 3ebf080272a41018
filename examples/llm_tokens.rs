//! A queue of calls to a language model, kept within three limits.
//!
//! Requests a minute, tokens a minute and calls in flight are one decision. Before a call, its worker reserves an
//! estimate: the prompt plus the longest answer allowed. When the bill comes it settles, and what was not used goes to
//! the next call. Only the first call of the queue asks, so small calls never overtake a large one for ever.

use damper::{Bulkhead, Clock, LimitSet, ManualClock, Quota, SetReservation, TokenBucket};
use std::sync::Arc;
use std::time::Duration;

const REQUESTS: Quota = Quota::per_minute(60).burst(20);
const TOKENS: Quota = Quota::per_minute(60_000).burst(20_000);
const IN_FLIGHT: u32 = 6;
const WORKERS: usize = 8;
const AN_HOUR: Duration = Duration::from_hours(1);

type Limits = LimitSet<[TokenBucket; 2], Arc<ManualClock>, Bulkhead>;

/// A call that a worker makes.
struct Call {
    reservation: SetReservation<Arc<Limits>>,
    bill: u32,
    ends: u64,
}

/// The calls of the queue: how many tokens each uses, and for how long it takes.
fn calls() -> impl Iterator<Item = (u32, Duration)> {
    let bills = [300, 2_200, 700, 1_200, 1_100];
    let seconds = [2, 9, 4, 6, 5, 3, 7];
    (0..).map(move |call| (bills[call % bills.len()], Duration::from_secs(seconds[call % seconds.len()])))
}

fn main() {
    let clock = Arc::new(ManualClock::new()); // leave it out, use `LimitSet::new`, and real time passes
    let limits = LimitSet::with_clock([REQUESTS, TOKENS], Arc::clone(&clock)).with_bulkhead(Bulkhead::new(IN_FLIGHT));
    let limits = Arc::new(limits);
    let mut workers: [Option<Call>; WORKERS] = Default::default();
    let mut queue = calls().peekable();
    let (mut requests, mut tokens) = (Vec::new(), Vec::new());
    let (mut most_in_flight, mut refused_in_flight) = (0, 0);

    while clock.now() < nanos(AN_HOUR) {
        // Each idle worker asks for the call at the head of the queue, until one is refused.
        let mut wait = None;
        for idle in workers.iter_mut().filter(|worker| worker.is_none()) {
            let Some(&(bill, takes)) = queue.peek() else { break };
            match limits.reserve_owned([1, 2 * bill]) {
                Ok(reservation) => {
                    queue.next();
                    *idle = Some(Call { reservation, bill, ends: clock.now() + nanos(takes) });
                    requests.push((clock.now(), 1));
                    tokens.push((clock.now(), bill));
                }
                Err(refusal) => {
                    wait = refusal.retry_after(); // none while the slots are taken: then a call has to end first
                    refused_in_flight += u32::from(wait.is_none());
                    break;
                }
            }
        }
        most_in_flight = most_in_flight.max(limits.bulkhead().in_flight());

        // Until the head of the queue may go, or a call ends and is settled.
        let retry = wait.map(|wait| clock.now() + nanos(wait));
        let next = workers.iter().flatten().map(|call| call.ends).chain(retry).min();
        clock.advance(Duration::from_nanos(next.expect("a call is in flight, or waits") - clock.now()));
        for worker in &mut workers {
            if let Some(call) = worker.take_if(|call| call.ends <= clock.now()) {
                call.reservation.settle([1, call.bill]);
            }
        }
    }

    let used: u64 = tokens.iter().map(|&(_, bill)| u64::from(bill)).sum();
    let budget = 20_000 + 60 * 60_000;
    println!("{} calls, {used} of {budget} tokens", requests.len());
    println!("at most {most_in_flight} in flight, {refused_in_flight} times the next call had to wait for a slot");
    assert!(used * 100 >= budget * 98, "estimates are twice the bill, and still the budget is used");
    assert!(is_within(REQUESTS, &requests), "no stretch of time has more requests than the limit");
    assert!(is_within(TOKENS, &tokens), "no stretch of time has more tokens than the limit");
    assert_eq!(most_in_flight, IN_FLIGHT, "all slots were used, and no more");
}

/// Whether each stretch of time has at most the burst and what is refilled in it.
fn is_within(quota: Quota, calls: &[(u64, u32)]) -> bool {
    let minute = u128::from(nanos(Duration::from_mins(1)));
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
