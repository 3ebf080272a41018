//! A limit on bytes whose number is known only afterwards.
//!
//! Check that something is left, answer, then charge the bytes of the answer.
//!
//! An answer may cost more than is left. The rest is debt, and calls are refused until it is repaid. In the long run no
//! client gets more than the rate, and no answer is cut in half.

use damper::{Clock, Denied, ManualClock, Quota, RateLimiter, TokenBucket};
use std::time::Duration;

/// A megabyte a second; no download leaves more than 20 MB of debt, which are 20 seconds.
const DOWNLOADS: Quota = Quota::per_second(1_000_000).burst(4_000_000).max_debt(20_000_000);

/// Answers if nothing is owed, and returns the size of the answer in bytes.
fn serve<C: Clock>(bytes: &RateLimiter<TokenBucket, C>, answer: impl FnOnce() -> u32) -> Result<u32, Denied> {
    bytes.check()?; // Is anything left? This takes one byte.
    let sent = answer();
    let rest = sent.saturating_sub(1);
    let booked = bytes.charge(rest);
    if booked < rest {
        println!("{} bytes were beyond the deepest debt", rest - booked);
    }
    Ok(sent)
}

fn main() -> Result<(), Denied> {
    let clock = ManualClock::new(); // leave it out, use `RateLimiter::new`, and real time passes
    let bytes = RateLimiter::with_clock(DOWNLOADS, &clock);

    serve(&bytes, || 1_500_000)?;
    println!("1.5 MB sent, {} bytes left", bytes.peek().remaining());
    assert_eq!(bytes.peek().remaining(), 2_500_000);

    serve(&bytes, || 10_000_000)?;
    println!("10 MB sent, {} bytes of debt", bytes.debt());
    assert_eq!(bytes.debt(), 7_500_000);

    let denied = serve(&bytes, || 10).expect_err("debt comes first");
    println!("10 bytes: {denied}");
    // The debt, and the byte that `check` asks for.
    assert_eq!(denied.retry_after(), Some(Duration::from_micros(7_500_001)));

    clock.advance(Duration::from_micros(7_500_001));
    serve(&bytes, || 10)?;
    println!("later 10 bytes are sent, {} bytes of debt", bytes.debt());
    assert_eq!(bytes.debt(), 9);

    // Bytes beyond the deepest debt are not booked: choose it larger than the largest answer.
    clock.advance(Duration::from_secs(1));
    serve(&bytes, || 30_000_000)?;
    assert_eq!(bytes.debt(), 20_000_000);
    Ok(())
}
