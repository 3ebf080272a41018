//! Login attempts: five wrong passwords at once, then one a minute.
//!
//! The page shows how many are left.
//!
//! `peek` takes nothing, so the form can show how many attempts are left before the first one. A correct password gives its
//! attempt back.

use damper::{Clock, Denied, ManualClock, Quota, RateLimiter, TokenBucket};
use std::time::Duration;

const ATTEMPTS: Quota = Quota::per_minute(1).burst(5);

struct Account<C> {
    password: &'static str,
    attempts: RateLimiter<TokenBucket, C>,
}

impl<C: Clock> Account<C> {
    /// Whether the password is right; it is not even looked at when there were too many wrong ones.
    fn log_in(&self, password: &str) -> Result<bool, Denied> {
        self.attempts.check()?;
        let right = self.password == password; // A real one compares hashes, in constant time.
        if right {
            self.attempts.refund(1);
        }
        Ok(right)
    }

    fn form(&self) -> String {
        let usage = self.attempts.peek();
        match usage.remaining() {
            0 => "Too many attempts.".to_owned(),
            left => format!("{left} of {} attempts left.", usage.limit()),
        }
    }
}

fn main() -> Result<(), Denied> {
    let clock = ManualClock::new(); // leave it out, use `RateLimiter::new`, and real time passes
    let account = Account { password: "swordfish", attempts: RateLimiter::with_clock(ATTEMPTS, &clock) };
    println!("{}", account.form());

    for _ in 0..20 {
        assert!(account.log_in("swordfish")?, "who knows the password logs in as often as they like");
    }
    for guess in ["12345", "password", "qwerty", "hunter2", "letmein"] {
        assert!(!account.log_in(guess)?);
        println!("{guess}: wrong. {}", account.form());
    }
    let denied = account.log_in("swordfish").expect_err("now even the right one has to wait");
    println!("swordfish: {denied}");
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(60)));

    clock.advance(Duration::from_secs(60));
    assert_eq!(account.form(), "1 of 5 attempts left.");
    assert!(account.log_in("swordfish")?);
    println!("a minute later: logged in. {}", account.form());
    Ok(())
}
