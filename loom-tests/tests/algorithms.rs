//! The algorithms beside the token bucket. In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper::limit::Algorithm;
use damper::{FixedWindow, Layered, LeakyQueue, Quota, RateLimiter, SlidingCounter};
use damper_loom_tests::{Stopped, Time, check_preemptions};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

/// Two threads race for the last place of a window. [A `store` in the place of the exchange.]
fn race_for_the_last<A: Algorithm + 'static>(limit_of_two: fn() -> A) {
    check_preemptions(3, move || {
        let limiter = Arc::new(RateLimiter::of(limit_of_two(), Stopped(7)));
        limiter.check().unwrap();
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.check().is_ok())
        };
        let mine = limiter.check().is_ok();
        assert!(mine ^ rival.join().unwrap(), "one place, one winner");
        assert_eq!(limiter.peek().remaining(), 0);
    });
}

#[test]
fn the_last_of_a_fixed_window_has_one_winner() {
    race_for_the_last(|| FixedWindow::new(Quota::per_second(2)));
}

#[test]
fn the_last_of_a_sliding_counter_has_one_winner() {
    race_for_the_last(|| SlidingCounter::new(Quota::per_second(2)).unwrap());
}

/// Two threads race to open the next window: it is opened once, and gives its limit. [A `store` in the place of the exchange.]
#[test]
fn a_fixed_window_is_opened_once() {
    check_preemptions(3, || {
        let clock = Time::at(7);
        let limiter = Arc::new(RateLimiter::of(FixedWindow::new(Quota::per_second(2)), clock.clone()));
        limiter.check_n(2).unwrap();
        clock.advance(Duration::from_secs(1));
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.check_n(2).is_ok())
        };
        let mine = limiter.check().is_ok();
        let rivals = rival.join().unwrap();
        assert!(mine ^ rivals, "two for one, or one for the other");
        assert_eq!(limiter.peek().remaining(), u32::from(mine));
    });
}

/// A thread whose clock is behind another's counts in the window that the other one has opened: never are both open anew. [A reading
/// from an earlier window opens that one.]
fn a_late_clock<A: Algorithm + Send + Sync + 'static>(limit_of_one: fn() -> A) {
    check_preemptions(3, move || {
        let windows = Arc::new(limit_of_one());
        windows.take(1, &Stopped(7)).unwrap();
        let rival = {
            let windows = Arc::clone(&windows);
            let late = Stopped(999_999_999);
            thread::spawn(move || u32::from(windows.take(1, &late).is_ok()) + u32::from(windows.take(1, &late).is_ok()))
        };
        // Two windows on, so that what was taken first is forgotten.
        let mine = u32::from(windows.take(1, &Stopped(2_000_000_007)).is_ok());
        assert_eq!((mine, rival.join().unwrap()), (1, 0), "one window has begun");
    });
}

#[test]
fn a_late_clock_opens_no_fixed_window_again() {
    a_late_clock(|| FixedWindow::new(Quota::per_second(1)));
}

#[test]
fn a_late_clock_opens_no_window_of_a_counter_again() {
    a_late_clock(|| SlidingCounter::new(Quota::per_second(1)).unwrap());
}

/// Two threads enter a leaky queue: one leaves an interval after the other. [A `store` in the place of the exchange.]
#[test]
fn no_two_leave_a_queue_together() {
    check_preemptions(3, || {
        let queue = Arc::new(LeakyQueue::with_clock(Quota::per_second(1).burst(3), Stopped(7)));
        queue.enter().unwrap();
        let rival = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.enter().unwrap())
        };
        let waits = [queue.enter().unwrap(), rival.join().unwrap()].map(|wait| wait.as_secs());
        assert!(waits == [1, 2] || waits == [2, 1], "{waits:?}");
        assert!(queue.enter().is_err());
    });
}

/// A thread takes three, one of them is refused by another layer, and gives back two, while the next window begins and somebody
/// takes of that: what was taken in one window is not given back in another. [A roll-back in whatever window is counted; a
/// `store` in the place of the exchange.]
fn a_roll_back<A: Algorithm + Send + Sync + 'static>(limit: fn(Quota) -> A, used: &'static [u32]) {
    check_preemptions(3, move || {
        let clock = Time::at(7);
        let both = Arc::new(Layered::of([limit(Quota::per_second(5)), limit(Quota::per_hour(2))], clock.clone()));
        both.check().unwrap();
        let rival = {
            let both = Arc::clone(&both);
            thread::spawn(move || assert_eq!(both.check_n(2).unwrap_err().layer(), 1))
        };
        clock.advance(Duration::from_secs(1));
        both.check().unwrap();
        rival.join().unwrap();
        let [first, second] = both.peek();
        assert_eq!(second.used(), 2);
        assert!(used.contains(&first.used()), "{first:?}");
    });
}

#[test]
fn a_roll_back_mints_nothing_in_a_fixed_window() {
    a_roll_back(FixedWindow::new, &[1]);
}

/// What was not given back in time is previous, as what was taken first is.
#[test]
fn a_roll_back_mints_nothing_in_a_sliding_counter() {
    a_roll_back(|quota| SlidingCounter::new(quota).unwrap(), &[2, 4]);
}

/// Two threads race into the next window of a counter: what was current is previous once, and neither loses what the other took.
/// [A `store` in the place of the exchange.]
#[test]
fn a_sliding_counter_moves_on_once() {
    check_preemptions(3, || {
        let clock = Time::at(7);
        let counter = SlidingCounter::new(Quota::per_second(4)).unwrap();
        let limiter = Arc::new(RateLimiter::of(counter, clock.clone()));
        limiter.check_n(2).unwrap();
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || u32::from(limiter.check().is_ok()))
        };
        clock.advance(Duration::from_secs(1));
        let mine = u32::from(limiter.check().is_ok());
        let all = mine + rival.join().unwrap();
        assert_eq!(all, 2, "there is room for both");
        assert_eq!(limiter.peek().used(), 4);
    });
}
