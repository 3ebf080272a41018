//! How much of a quota paced clients use in a run of some seconds.

use damper::throttle::{Hints, Level, Pacer};
use damper::{Clock, ManualClock, Quota, RateLimiter};
use std::time::Duration;

const CALLS: u32 = 120;
const SEEDS: u64 = 10;

/// Returns how many thousandths of the quota the clients used for all calls, and the rejections.
///
/// Each client makes one call after the other. The service reports the remaining calls, and may ask for a pause.
fn run(quota: Quota, clients: u64, retry_after: Option<Duration>) -> (u64, u32) {
    let (mut nanos, mut rejections) = (0, 0);
    for seed in 1..=SEEDS {
        let clock = ManualClock::new();
        let server = RateLimiter::with_clock(quota, &clock);
        let pacers = (0..clients).map(|client| Pacer::with_clock(Level::new(quota), &clock, seed * 100 + client));
        // When each client makes its next call.
        let mut next: Vec<_> = pacers.map(|pacer| (as_nanos(pacer.before_call()), pacer)).collect();
        let mut accepted = 0;
        while accepted < CALLS {
            let (at, pacer) = next.iter_mut().min_by_key(|(at, _)| *at).unwrap();
            clock.advance(Duration::from_nanos(at.saturating_sub(clock.now())));
            let is_accepted = server.check().is_ok();
            let hints = if is_accepted { Hints::ACCEPTED } else { Hints::REJECTED.retry_after(retry_after) };
            let wait = pacer.answered(&hints.remaining(Some(server.peek().remaining().into())));
            rejections += u32::from(!is_accepted);
            accepted += u32::from(is_accepted);
            let latency = Duration::from_millis(1);
            *at = clock.now() + as_nanos(wait.unwrap_or_else(|| pacer.before_call()) + latency);
        }
        nanos += clock.now();
    }
    let fastest = u64::from(CALLS - quota.burst_size()) * 1_000_000_000 / u64::from(quota.limit());
    (SEEDS * fastest * 1_000 / nanos, rejections / SEEDS as u32)
}

fn as_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}

/// The longest sleep starts no longer than the burst takes to fill.
///
/// Tokens beyond a full bucket are lost.
#[test]
fn short_run_uses_most_of_a_small_burst() {
    for (burst, least) in [(1, 800), (2, 880), (5, 960), (10, 950), (20, 900)] {
        let (used, rejections) = run(Quota::per_second(20).burst(burst), 1, None);
        assert!(used >= least, "a burst of {burst}: {used} thousandths");
        assert!(rejections <= CALLS / 8, "a burst of {burst}: {rejections} rejections");
    }
}

/// Clients that share a quota find one another by rejections.
///
/// The longest sleep falls again when it was too long.
#[test]
fn clients_share_a_small_burst() {
    for (burst, clients, least) in [(1, 2, 700), (2, 2, 600), (5, 2, 950), (1, 10, 450), (5, 10, 950), (20, 10, 950)] {
        let (used, rejections) = run(Quota::per_second(20).burst(burst), clients, None);
        assert!(used >= least, "a burst of {burst}, {clients} clients: {used} thousandths, {rejections} rejections");
    }
}

/// A `Retry-After` is a whole second at least, which a run of six seconds feels.
#[test]
fn requested_pause_is_kept_in_a_short_run() {
    for (burst, least) in [(1, 250), (2, 750), (5, 830), (20, 850)] {
        let (used, _) = run(Quota::per_second(20).burst(burst), 1, Some(Duration::from_secs(1)));
        assert!((least..1_000).contains(&used), "a burst of {burst}: {used} thousandths");
    }
}
