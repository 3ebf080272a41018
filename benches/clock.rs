//! Cost of reading the clocks, and the floor of a decision.
//!
//! The floor is one reading of the default clock and one compare-and-swap. The coarse clock stands still: a refresh now
//! and then costs its readers a cache miss each.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use criterion::{Criterion, criterion_group, criterion_main};
use damper::{Clock, CoarseClock, Monotonic, StdClock};
use std::hint::black_box;

fn readings(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("clock");
    group.bench_function("now", |bencher| bencher.iter(|| Monotonic.now()));
    let std_clock = StdClock::new();
    group.bench_function("std, now", |bencher| bencher.iter(|| black_box(&std_clock).now()));
    let coarse = CoarseClock::new();
    group.bench_function("coarse, now", |bencher| bencher.iter(|| black_box(&coarse).now()));
    group.bench_function("coarse, advance", |bencher| {
        bencher.iter(|| coarse.advance(black_box(Duration::from_millis(1))));
    });
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
