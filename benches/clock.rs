//! Cost of reading the default clock, and for comparison the floor of a decision: one reading and one compare-and-swap.

use core::sync::atomic::{AtomicU64, Ordering};
use criterion::{Criterion, criterion_group, criterion_main};
use damper::{Clock, Monotonic};
use std::hint::black_box;

fn readings(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("clock");
    group.bench_function("now", |bencher| bencher.iter(|| Monotonic.now()));
    let word = AtomicU64::new(0);
    group.bench_function("now and an exchange", |bencher| {
        bencher.iter(|| {
            let old = black_box(&word).load(Ordering::Relaxed);
            word.compare_exchange(old, Monotonic.now(), Ordering::Relaxed, Ordering::Relaxed)
        });
    });
    group.finish();
}

criterion_group!(benches, readings);
criterion_main!(benches);
