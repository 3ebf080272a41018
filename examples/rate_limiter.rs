//! A limiter in a `static`: check, ask how much is left, and learn when to retry.

use damper::{Monotonic, Quota, RateLimiter};
use std::thread;
use std::time::Instant;

/// Five logins at once, then ten a second, for the whole process.
///
/// No lock, no thread, nothing to initialize.
static LOGINS: RateLimiter = RateLimiter::new(Quota::per_second(10).burst(5));

fn main() {
    // The default clock is calibrated at its first use; do it now rather than at the first login.
    Monotonic::calibrate();
    println!("quota: {}", LOGINS.quota());

    for login in 1..=5 {
        let allowed = LOGINS.check().expect("the burst is five");
        println!("login {login}: allowed, {} left", allowed.remaining());
    }
    let denied = LOGINS.check().expect_err("the burst is used up");
    println!("login 6: {denied}"); // rate limit exceeded, retry in 98 ms

    // Looking takes nothing.
    let usage = LOGINS.peek();
    println!("used {} of {}, all back in {:?}", usage.used(), usage.limit(), usage.resets_in());
    assert_eq!(usage.limit(), 5);

    // The wait is exact: after it the same call succeeds, if no other caller takes the token.
    let since = Instant::now();
    thread::sleep(denied.retry_after().expect("one token is less than the burst"));
    assert!(LOGINS.check().is_ok());
    println!("login 7: allowed after {:?}", since.elapsed());

    // Several tokens: all or none. More than the burst can never be had, and the refusal says so.
    let denied = LOGINS.check_n(6).expect_err("six are more than the burst");
    println!("six at once: {denied}");
    assert!(denied.exceeds_burst() && denied.retry_after().is_none());
}
