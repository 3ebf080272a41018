//! The bars of the adaptive throttle: one client with a steady rate.
//!
//! It is measured in an outage, after it, and where rejections do not follow the load.

use super::Bar;
use crate::random::Random;
use damper::ManualClock;
use damper::throttle::AdaptiveThrottle;
use std::sync::Arc;
use std::time::Duration;

/// A client, and its calls per second. Its calls end at once.
struct Client {
    clock: Arc<ManualClock>,
    throttle: AdaptiveThrottle<Arc<ManualClock>>,
    random: Random,
    rate: u32,
}

/// The calls of a second, by outcome.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    sent: u32,
    accepted: u32,
    /// The longest run of consecutive calls in this second that were not sent.
    refused: u32,
}

impl Client {
    fn new(rate: u32, seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new());
        let throttle = AdaptiveThrottle::with_clock(Arc::clone(&clock), seed);
        Self { clock, throttle, random: Random::new(seed), rate }
    }

    /// Makes calls for this many seconds to a service that accepts this share of them.
    fn run(&mut self, seconds: u32, accepts: f64) -> Vec<Second> {
        let mut refused = 0;
        let mut second = || {
            let mut of = Second::default();
            for _ in 0..self.rate {
                self.clock.advance(Duration::from_secs(1) / self.rate);
                let Ok(permit) = self.throttle.try_acquire() else {
                    refused += 1;
                    of.refused = of.refused.max(refused);
                    continue;
                };
                (refused, of.sent) = (0, of.sent + 1);
                if self.random.uniform() < accepts {
                    of.accepted += 1;
                    permit.accepted();
                } else {
                    permit.rejected();
                }
            }
            of
        };
        (0..seconds).map(|_| second()).collect()
    }
}

/// The seconds over which calls are counted after an outage.
///
/// At 5 calls a second one refused call is a fifth of a second's.
const COUNTED: usize = 10;

/// Measures the bars of the throttle.
#[must_use]
pub fn throttle(seeds: &[u64]) -> Vec<Bar> {
    [5, 100, 2_000].into_iter().flat_map(|rate| bars_at(rate, seeds)).collect()
}

fn bars_at(rate: u32, seeds: &[u64]) -> Vec<Bar> {
    let name = format!("throttle, {rate} calls a second");
    let per_second = f64::from(rate);
    let [mut false_refusals, mut sent, mut gap, mut back, mut sent_anyway] = [const { Vec::new() }; 5];
    for &seed in seeds {
        let mut client = Client::new(rate, seed);
        let calm = client.run(300, 0.9);
        let calls: u32 = calm.iter().map(|second| second.sent).sum();
        false_refusals.push(1.0 - f64::from(calls) / (300.0 * per_second));
        client.run(5, 0.0);
        let outage = client.run(60, 0.0);
        let calls: u32 = outage.iter().map(|second| second.sent).sum();
        sent.push(f64::from(calls) / 60.0 - 0.01 * per_second);
        let longest = outage.iter().map(|second| second.refused).max().unwrap_or(0);
        gap.push(f64::from(longest) / per_second);
        let after = client.run(60, 1.0);
        let accepted: Vec<u32> = after.iter().map(|second| second.accepted).collect();
        back.push(lasting_recovery(&accepted, 0.95 * per_second));
        // One of two replicas is dead: fewer calls do not have a smaller share rejected.
        let mut client = Client::new(rate, seed);
        client.run(120, 0.45);
        let calls: u32 = client.run(480, 0.45).iter().map(|second| second.sent).sum();
        sent_anyway.push(f64::from(calls) / (480.0 * per_second));
    }
    vec![
        Bar::at_most(&name, "refused of calls of which 90 % succeed", 0.01, &false_refusals),
        Bar::at_most(&name, "sent a second in an outage, above 1 %", 1.0, &sent),
        Bar::at_most(&name, "longest pause in an outage, s", 1.0, &gap),
        Bar::at_most(&name, "95 % accepted after the outage, s", 15.0, &back),
        // By the formula alone 0.03 to 0.06.
        Bar::at_least(&name, "sent of calls of which 45 % succeed", 0.2, &sent_anyway),
    ]
}

/// Returns the seconds until this many calls a second are accepted until the end.
///
/// It is infinity if they never are.
#[must_use]
pub fn lasting_recovery(accepted: &[u32], least: f64) -> f64 {
    let is_bad = |seconds: &[u32]| f64::from(seconds.iter().sum::<u32>()) < least * seconds.len() as f64;
    match accepted.windows(COUNTED).rposition(is_bad) {
        None => 0.0,
        Some(bad) if bad + COUNTED == accepted.len() => f64::INFINITY,
        Some(bad) => (bad + 1) as f64,
    }
}
