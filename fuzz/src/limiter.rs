//! The token bucket against the exact one, with calls from the fuzzer.

use crate::input::{Frequency, QuotaInput, Tokens};
use crate::models::bucket;
use arbitrary::Arbitrary;

/// A limiter and its calls.
#[derive(Arbitrary, Debug)]
pub struct LimiterInput {
    quota: QuotaInput,
    frequency: Frequency,
    start: u64,
    calls: Vec<(Step, Tokens)>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Pass(u64),
    PassShort(u16),
    Nearly(i8),
    Wait,
}

/// Compares the limiter with the exact bucket.
pub fn limiter(input: LimiterInput) {
    let calls = input.calls.into_iter().map(|(step, n)| {
        let step = match step {
            Step::Pass(ticks) => bucket::Step::Pass(ticks),
            Step::PassShort(ticks) => bucket::Step::Pass(ticks.into()),
            Step::Nearly(off) => bucket::Step::Nearly(off),
            Step::Wait => bucket::Step::Wait,
        };
        (step, n.number())
    });
    bucket::compare(input.quota.quota(u32::MAX), input.frequency.hertz(), input.start, calls);
}
