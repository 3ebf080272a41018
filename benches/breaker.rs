//! Cost of one call through a circuit breaker, beside the call itself, which does nothing.
//!
//! It is measured closed, and open, where the clock is read.

use criterion::{Criterion, criterion_group, criterion_main};
use damper::CircuitBreaker;
use std::hint::black_box;

fn calls(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("breaker");
    let breaker = CircuitBreaker::default();
    group.bench_function("closed, success", |bencher| {
        bencher.iter(|| black_box(&breaker).call(|| Ok::<_, ()>(black_box(1))).is_ok());
    });
    let open = CircuitBreaker::default();
    while let Ok(permit) = open.try_acquire() {
        permit.failure();
    }
    group.bench_function("open", |bencher| {
        bencher.iter(|| black_box(&open).call(|| Ok::<_, ()>(black_box(1))).is_ok());
    });
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
