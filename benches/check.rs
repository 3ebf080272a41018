//! Cost of one decision of a rate limiter, alone: allowed, denied and peeked at.
//!
//! The group `stopped clock` fixes the clock, so that only the word is measured; `default clock` adds one reading of
//! the processor's counter. The caller only asks whether the answer is `Ok`.

use criterion::{Criterion, criterion_group, criterion_main};
use damper::{Clock, KeyedLimiter, Quota, RateLimiter};
use std::hint::black_box;

/// Stands still, at no cost.
#[derive(Clone, Copy, Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> u64 {
        black_box(1)
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

/// So many that no run of a bench takes them all.
const PLENTY: Quota = Quota::per_second(u32::MAX);

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("default clock");
    let limiter = RateLimiter::new(PLENTY);
    group.bench_function("allowed", |bencher| bencher.iter(|| black_box(&limiter).check().is_ok()));
    let empty = RateLimiter::new(Quota::per_hour(1));
    let _ = empty.check();
    group.bench_function("denied", |bencher| bencher.iter(|| black_box(&empty).check().is_ok()));
    group.bench_function("denied, retry_after", |bencher| {
        bencher.iter(|| black_box(&empty).check().err().and_then(|denied| denied.retry_after()));
    });
    let keyed = KeyedLimiter::<u64>::builder(PLENTY).build().expect("the default capacity is in its range");
    group.bench_function("keyed, one key, allowed", |bencher| bencher.iter(|| keyed.check(black_box(&7)).is_ok()));
    group.finish();

    let mut group = criterion.benchmark_group("stopped clock");
    let limiter = RateLimiter::with_clock(Quota::per_second(1), Stopped);
    group.bench_function("allowed, of nothing", |bencher| bencher.iter(|| black_box(&limiter).check_n(0).is_ok()));
    let _ = limiter.check();
    group.bench_function("denied", |bencher| bencher.iter(|| black_box(&limiter).check().is_ok()));
    group.bench_function("peek", |bencher| bencher.iter(|| black_box(&limiter).peek().remaining()));
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
