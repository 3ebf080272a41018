//! The token bucket. In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper::{ManualClock, Quota, RateLimiter};
use damper_loom_tests::{Stopped, check, check_three_preemptions};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

/// Three threads race for a burst of two: exactly two are allowed. [A `store` in the place of the exchange.]
#[test]
fn burst_is_never_exceeded() {
    check_three_preemptions(|| {
        let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(2), Stopped(7)));
        limiter.check_n(0).unwrap(); // starts the line, which is another model's business
        let rivals: Vec<_> = (0..2)
            .map(|_| {
                let limiter = Arc::clone(&limiter);
                thread::spawn(move || u32::from(limiter.check().is_ok()))
            })
            .collect();
        let mine = u32::from(limiter.check().is_ok());
        let allowed: u32 = mine + rivals.into_iter().map(|rival| rival.join().unwrap()).sum::<u32>();
        assert_eq!(allowed, 2, "two tokens, two winners");
    });
}

/// What is taken and what is left add up, though threads take different amounts and time passes meanwhile. [A `store` in
/// the place of the exchange.]
#[test]
fn no_token_is_lost() {
    check(|| {
        let clock = Arc::new(ManualClock::new());
        let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(5), SharedClock(Arc::clone(&clock))));
        limiter.check_n(5).unwrap();
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || if limiter.check_n(2).is_ok() { 2 } else { 0 })
        };
        clock.advance(Duration::from_secs(3));
        let mine = u32::from(limiter.check().is_ok());
        let taken = mine + rival.join().unwrap();
        assert_eq!(mine, 1, "three came before, and a rival takes two at the most");
        assert_eq!(limiter.peek().remaining(), 3 - taken);
    });
}

/// First users who race agree on where the line starts: none of them makes or loses tokens. [A start of its
/// own for each: a store in the place of the exchange of `first`. Relaxed in the place of the Release, or of the Acquire, of
/// `rest`.]
#[test]
fn first_users_agree_on_the_line() {
    check(|| {
        let clock = Arc::new(ManualClock::new());
        // Far from where a line that starts at tick 0 would be: half a circle.
        clock.set_ticks(1 << 62);
        let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(1), SharedClock(Arc::clone(&clock))));
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || u32::from(limiter.check().is_ok()))
        };
        clock.advance(Duration::from_millis(500));
        let mine = u32::from(limiter.check().is_ok());
        assert_eq!(mine + rival.join().unwrap(), 1);
        let wait = limiter.check().unwrap_err().retry_after().unwrap();
        assert!(wait == Duration::from_secs(1) || wait == Duration::from_millis(500), "{wait:?}");
    });
}

/// A clock that stepped back is healed once, to the deepest debt, whoever notices: nothing is minted. [Healing to full.]
#[test]
fn healing_mints_nothing() {
    check(|| {
        let clock = Arc::new(ManualClock::new());
        clock.set_ticks(1 << 50);
        let quota = Quota::per_second(1).burst(2).max_debt(1);
        let limiter = Arc::new(RateLimiter::with_clock(quota, SharedClock(Arc::clone(&clock))));
        limiter.check().unwrap();
        clock.step_back(Duration::from_hours(1));
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.check().is_ok())
        };
        assert!(limiter.check().is_err());
        assert!(!rival.join().unwrap());
        assert_eq!(limiter.peek().resets_in(), Some(Duration::from_secs(3)), "the deepest debt");
    });
}

/// A clock behind loom's `Arc`.
#[derive(Debug)]
struct SharedClock(Arc<ManualClock>);

impl damper::Clock for SharedClock {
    fn now(&self) -> u64 {
        self.0.now()
    }

    fn frequency(&self) -> u64 {
        self.0.frequency()
    }
}
