//! A quota that is changed while threads are checking.
//!
//! There is no lock, no check that waits, and no moment at which a mixture of the old quota and the new one is in
//! force.

use damper::{Monotonic, Quota, RateLimiter, SetQuotaError};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Built with the quota that is expected.
///
/// It may become a thousand times as fast, and as slow as one likes.
static API: RateLimiter = RateLimiter::new(Quota::per_second(1_000).burst(20));

/// The tokens allowed in `span` while four threads ask as fast as they can.
fn allowed_within(span: Duration) -> u32 {
    let (allowed, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if API.check().is_ok() {
                        allowed.fetch_add(1, Ordering::Relaxed);
                    }
                    thread::yield_now();
                }
            });
        }
        thread::sleep(span);
        stop.store(true, Ordering::Relaxed);
    });
    allowed.into_inner()
}

fn main() -> Result<(), SetQuotaError> {
    Monotonic::calibrate(); // Once, at the start of the program.
    for quota in [Quota::per_second(1_000), Quota::per_second(5_000), Quota::per_second(100), Quota::UNLIMITED] {
        let quota = quota.burst(20);
        let since = Instant::now(); // Tokens of the old quota are counted too, up to its burst.
        API.set_quota(quota)?;
        assert_eq!(API.quota(), quota);
        let allowed = allowed_within(Duration::from_millis(200));
        println!("{quota}: {allowed} allowed in {:?}", since.elapsed());
        if !quota.is_unlimited() {
            let most = 20.0 + f64::from(quota.limit()) * since.elapsed().as_secs_f64() + 1.0;
            assert!(f64::from(allowed) <= most, "more than {most}");
        }
    }

    // A quota that does not fit is refused, and the old one stays.
    let too_fast = API.set_quota(Quota::per_second(u32::MAX).burst(20));
    println!("4 billion a second: {}", too_fast.expect_err("more than a thousand times as fast"));
    assert!(API.quota().is_unlimited());
    Ok(())
}
