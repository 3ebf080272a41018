//! What the public API does not reach.

use super::{Algorithm, TokenBucket};
use crate::quota::Quota;
use crate::time::ManualClock;
use core::time::Duration;

/// A refund between taking and rolling back repaid other tokens than those that are rolled back.
#[test]
fn roll_back_measures_on_the_line_without_refunds() {
    let clock = ManualClock::new();
    let bucket = TokenBucket::new(Quota::per_second(10).burst(9));
    let (_, taken) = bucket.take_revocably(3, &clock).unwrap();
    bucket.take(5, &clock).unwrap();
    assert_eq!(bucket.refund(2, &clock), 2);
    clock.advance(Duration::from_millis(100));
    bucket.roll_back(3, taken, &clock);
    // One of the three was repaid by the line: 9 - 3 - 5, two refunded, one dripped in, and two rolled back.
    assert_eq!(bucket.usage(&clock).remaining(), 6);
    // The same, taken after a refund.
    let (_, taken) = bucket.take_revocably(3, &clock).unwrap();
    clock.advance(Duration::from_millis(200));
    bucket.roll_back(3, taken, &clock);
    assert_eq!(bucket.usage(&clock).remaining(), 6);
}
