//! The bodies of the fuzz targets: each runs what the fuzzer made up through damper and through the model that the
//! property tests use too.
//!
//! ```text
//! cargo +nightly fuzz run limiter -- -max_total_time=60
//! ```

use arbitrary::Arbitrary;
use damper::{BreakerConfig, Quota};
use std::time::Duration;

#[path = "../../tests/models/breaker.rs"]
mod breaker_model;
#[path = "../../tests/models/bucket.rs"]
#[expect(dead_code, reason = "the property tests ask the model for more")]
mod bucket_model;

/// A limiter and the calls it gets.
#[derive(Arbitrary, Debug)]
pub struct LimiterInput {
    limit: u32,
    /// Nanoseconds, up to 2^50 (13 days), so that the model's amounts fit 128 bits.
    window: u64,
    burst: Option<u32>,
    frequency: Frequency,
    start: u64,
    calls: Vec<(BucketStep, u32)>,
}

#[derive(Arbitrary, Debug)]
enum Frequency {
    Nanos,
    Micros,
    Crystal,
    Any(u32),
}

#[derive(Arbitrary, Debug)]
enum BucketStep {
    Pass(u64),
    PassShort(u16),
    Nearly(i8),
    Wait,
}

/// Compares the limiter with the exact bucket.
pub fn limiter(input: LimiterInput) {
    let window = Duration::from_nanos(1 + input.window % (1 << 50));
    let quota = Quota::per(input.limit, window).expect("the window is not zero");
    let quota = input.burst.map_or(quota, |burst| quota.burst(burst));
    let frequency = match input.frequency {
        Frequency::Nanos => 1_000_000_000,
        Frequency::Micros => 1_000_000,
        Frequency::Crystal => 32_768,
        Frequency::Any(hertz) => u64::from(hertz.max(1)),
    };
    let calls = input.calls.into_iter().map(|(step, n)| {
        let step = match step {
            BucketStep::Pass(ticks) => bucket_model::Step::Pass(ticks),
            BucketStep::PassShort(ticks) => bucket_model::Step::Pass(ticks.into()),
            BucketStep::Nearly(off) => bucket_model::Step::Nearly(off),
            BucketStep::Wait => bucket_model::Step::Wait,
        };
        (step, n)
    });
    bucket_model::compare(quota, frequency, input.start, calls);
}

/// A breaker and what happens to it.
#[derive(Arbitrary, Debug)]
pub struct BreakerInput {
    failures: u8,
    probes: u8,
    successes: u8,
    cooldown_micros: u32,
    steps: Vec<BreakerStep>,
}

#[derive(Arbitrary, Debug)]
enum BreakerStep {
    Ask,
    Succeed(bool),
    Fail(bool),
    Drop(bool),
    Pass(u32),
    PassCooldown(i8),
}

/// Compares the breaker with the plain one.
pub fn breaker(input: BreakerInput) {
    use breaker_model::{Outcome, Step};
    let config = BreakerConfig::builder()
        .failure_threshold(u32::from(input.failures).max(1))
        .max_probes(u32::from(input.probes).max(1))
        .successes_to_close(u32::from(input.successes).max(1))
        .cooldown(Duration::from_micros(u64::from(input.cooldown_micros).max(1)))
        .build()
        .expect("every setting is in its range");
    let steps = input.steps.into_iter().map(|step| match step {
        BreakerStep::Ask => Step::Ask,
        BreakerStep::Succeed(oldest) => Step::Tell(oldest, Outcome::Success),
        BreakerStep::Fail(oldest) => Step::Tell(oldest, Outcome::Failure),
        BreakerStep::Drop(oldest) => Step::Tell(oldest, Outcome::NoVerdict),
        BreakerStep::Pass(nanos) => Step::Pass(nanos),
        BreakerStep::PassCooldown(off) => Step::PassCooldown(off),
    });
    breaker_model::compare(config, steps);
}
