//! A check that leased tokens allow allocates nothing, and a key little, however long it is.
//!
//! The allocator of this binary counts for each thread, so other tests may run meanwhile.

use crate::fake::{self, Fake, until};
use allocation_counter::measure;
use damper_core::Quota;
use damper_redis::RedisLimiter;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[test]
fn leased_check_allocates_nothing_and_is_ready_at_once() {
    assert_eq!(measure(|| drop(std::hint::black_box(Box::new(1)))).count_total, 1, "the allocator counts");
    let fake = Fake::start(1_000_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = runtime.block_on(async {
        let builder = RedisLimiter::connect(fake.url()).name("allocations").quota(Quota::per_second(100_000));
        let limiter = builder.build().await.unwrap();
        until("a lease of some size", async || {
            for _ in 0..100 {
                _ = limiter.check().await;
            }
            limiter.status().leased > 100
        })
        .await;
        limiter
    });
    // Nothing else runs now: neither the runtime's tasks nor another test.
    let mut context = Context::from_waker(Waker::noop());
    let mut allowed = 0;
    let allocations = measure(|| {
        for _ in 0..20 {
            let check = pin!(limiter.check());
            allowed += u32::from(matches!(check.poll(&mut context), Poll::Ready(Ok(_))));
        }
    });
    assert_eq!((allowed, allocations.count_total), (20, 0));
}

#[test]
fn key_takes_little_memory_however_long_it_is() {
    const KEYS: usize = 1_000;
    let of_a_key = |length: usize| {
        let builder = RedisLimiter::connect(fake::refused()).quota(Quota::per_second(10)).capacity(10 * KEYS);
        let limiter = builder.build_keyed_lazy().unwrap();
        let rest = "x".repeat(length - 16);
        let memory = measure(|| {
            for number in 0..KEYS {
                drop(limiter.check(&format!("{number:016}{rest}")));
            }
        });
        assert_eq!(limiter.len(), KEYS);
        memory.bytes_current / KEYS as i64
    };
    let (short, longest, long) = (of_a_key(16), of_a_key(128), of_a_key(10_000));
    println!("bytes of a key: {short}, {longest} and {long}");
    assert!(short < 1_000 && longest < 1_500 && long < 1_500, "bytes of a key: {short}, {longest} and {long}");
}
