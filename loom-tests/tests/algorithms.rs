//! The algorithms beside the token bucket.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::limit::Algorithm;
use damper_core::{FixedWindow, LeakyQueue, Quota, RateLimiter, SlidingCounter, TokenBucket};
use damper_loom_tests::windows::{Bug, Windows};
use damper_loom_tests::{Flaw, Stopped, Time, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

fn counter(quota: Quota) -> SlidingCounter {
    SlidingCounter::new(quota).unwrap()
}

/// Two threads race for the last place of a window. [A `store` in place of the swap.]
fn race_for_the_last<A: Algorithm + 'static>(limit: fn(Quota) -> A) {
    let limiter = Arc::new(RateLimiter::with_algorithm(limit(Quota::per_second(2)), Stopped(7)));
    limiter.check().unwrap();
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || limiter.check().is_ok())
    };
    let mine = limiter.check().is_ok();
    assert!(mine ^ rival.join().unwrap(), "one place, one winner");
    assert_eq!(limiter.peek().remaining(), 0);
}

// WORD: A fixed window
#[test]
fn fixed_window_gives_its_last_token_once() {
    check(|| race_for_the_last(FixedWindow::new));
}

#[test]
#[should_panic(expected = "one place, one winner")]
fn fixed_window_gives_its_last_token_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, || race_for_the_last(FixedWindow::new));
}

// WORD: Two windows and their number
#[test]
fn sliding_counter_gives_its_last_token_once() {
    check(|| race_for_the_last(counter));
}

#[test]
#[should_panic(expected = "one place, one winner")]
fn sliding_counter_gives_its_last_token_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, || race_for_the_last(counter));
}

/// A full window is reset beside a check: the limit is there once more.
///
/// [A `store` in place of the swap.]
fn reset_beside_a_check<A: Algorithm + 'static>(limit: fn(Quota) -> A) {
    let limiter = Arc::new(RateLimiter::with_algorithm(limit(Quota::per_second(2)), Stopped(7)));
    limiter.check_n(2).unwrap();
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || u32::from(limiter.check().is_ok()))
    };
    limiter.reset();
    let mine = u32::from(limiter.check().is_ok());
    assert_eq!(mine + rival.join().unwrap() + limiter.drain(), 2, "the limit, once more");
}

#[test]
fn reset_beside_a_check_returns_one_limit() {
    check_preemptions(3, || reset_beside_a_check(TokenBucket::new));
    check_preemptions(3, || reset_beside_a_check(FixedWindow::new));
    check_preemptions(3, || reset_beside_a_check(counter));
}

#[test]
#[should_panic(expected = "the limit, once more")]
fn reset_beside_a_check_returns_one_limit_unless_flawed() {
    check_flawed(Flaw::BlindExchange, || reset_beside_a_check(FixedWindow::new));
}

/// Two threads race to open the next window: it is opened once, and gives its limit.
///
/// [A `store` in place of the swap. In `copies`: a window that is opened again by the second thread.]
#[test]
fn fixed_window_is_opened_once() {
    check(fixed_window_is_opened_once_model);
}

#[test]
#[should_panic(expected = "two for one, or one for the other")]
fn fixed_window_is_opened_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, fixed_window_is_opened_once_model);
}

fn fixed_window_is_opened_once_model() {
    let clock = Time::at(7);
    let limiter = Arc::new(RateLimiter::with_algorithm(FixedWindow::new(Quota::per_second(2)), clock.clone()));
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
}

/// A thread whose clock is behind another's counts in the window that the other one has opened.
///
/// Never are both open anew.
///
/// [A reading from an earlier window opens that one: in the code by hand, and in `copies`. No swap decides this.]
fn a_late_clock<A: Algorithm + Send + Sync + 'static>(limit: fn(Quota) -> A) {
    let windows = Arc::new(limit(Quota::per_second(1)));
    windows.take(1, &Stopped(7)).unwrap();
    let rival = {
        let windows = Arc::clone(&windows);
        let late = Stopped(999_999_999);
        thread::spawn(move || u32::from(windows.take(1, &late).is_ok()) + u32::from(windows.take(1, &late).is_ok()))
    };
    // Two windows on, so that what was taken first is forgotten.
    let mine = u32::from(windows.take(1, &Stopped(2_000_000_007)).is_ok());
    assert_eq!((mine, rival.join().unwrap()), (1, 0), "one window has begun");
}

#[test]
fn late_clock_counts_in_the_current_fixed_window() {
    check(|| a_late_clock(FixedWindow::new));
}

#[test]
fn late_clock_counts_in_the_current_window_of_a_counter() {
    check(|| a_late_clock(counter));
}

/// Two threads enter a leaky queue: one leaves an interval after the other.
///
/// [A `store` in place of the swap.]
#[test]
fn queue_releases_one_at_a_time() {
    check(queue_releases_one_at_a_time_model);
}

#[test]
#[should_panic(expected = "one after the other: [1, 1]")]
fn queue_releases_one_at_a_time_unless_flawed() {
    check_flawed(Flaw::BlindExchange, queue_releases_one_at_a_time_model);
}

fn queue_releases_one_at_a_time_model() {
    let queue = Arc::new(LeakyQueue::with_clock(Quota::per_second(1).burst(3), Stopped(7)));
    queue.enter().unwrap();
    let rival = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || queue.enter().unwrap())
    };
    let waits = [queue.enter().unwrap(), rival.join().unwrap()].map(|wait| wait.as_secs());
    assert!(waits == [1, 2] || waits == [2, 1], "one after the other: {waits:?}");
    assert!(queue.enter().is_err());
}

/// Tokens of one window are not given back in another.
///
/// A thread takes two and gives them back, while the next window begins and another thread takes some of that. [A `store` in
/// place of the swap. A roll-back even if another window is counted: in the code by hand, and in `copies`.]
fn a_roll_back<A: Algorithm + Send + Sync + 'static>(limit: fn(Quota) -> A, used: &[u32]) {
    let clock = Time::at(7);
    let window = Arc::new(limit(Quota::per_second(5)));
    window.take(1, &clock).unwrap();
    let rival = {
        let (window, clock) = (Arc::clone(&window), clock.clone());
        thread::spawn(move || {
            let (_, position) = window.take_revocably(2, &clock).unwrap();
            window.roll_back(2, position, &clock);
        })
    };
    clock.advance(Duration::from_secs(1));
    window.take(1, &clock).unwrap();
    rival.join().unwrap();
    let used_now = window.usage(&clock).used();
    assert!(used.contains(&used_now), "nothing is minted: {used_now}");
}

#[test]
fn roll_back_keeps_a_fixed_window_within_its_limit() {
    check(|| a_roll_back(FixedWindow::new, &[1]));
}

#[test]
#[should_panic(expected = "nothing is minted")]
fn roll_back_keeps_a_fixed_window_within_its_limit_unless_flawed() {
    check_flawed(Flaw::BlindExchange, || a_roll_back(FixedWindow::new, &[1]));
}

/// Tokens not given back in time are previous, as the first ones are.
#[test]
fn roll_back_keeps_a_sliding_counter_within_its_limit() {
    check(|| a_roll_back(counter, &[2, 4]));
}

#[test]
#[should_panic(expected = "nothing is minted")]
fn roll_back_keeps_a_sliding_counter_within_its_limit_unless_flawed() {
    check_flawed(Flaw::BlindExchange, || a_roll_back(counter, &[2, 4]));
}

/// Two threads race into the next window of a counter.
///
/// The current count becomes the previous one once, and neither thread loses the other's tokens.
///
/// [A `store` in place of the swap. In `copies`: what was moved on is moved on again by the second thread.]
#[test]
fn sliding_counter_moves_on_once() {
    check(sliding_counter_moves_on_once_model);
}

#[test]
#[should_panic(expected = "nothing is lost")]
fn sliding_counter_moves_on_once_unless_flawed() {
    check_flawed(Flaw::BlindExchange, sliding_counter_moves_on_once_model);
}

fn sliding_counter_moves_on_once_model() {
    let clock = Time::at(7);
    let limiter = Arc::new(RateLimiter::with_algorithm(counter(Quota::per_second(4)), clock.clone()));
    limiter.check_n(2).unwrap();
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || u32::from(limiter.check().is_ok()))
    };
    clock.advance(Duration::from_secs(1));
    let mine = u32::from(limiter.check().is_ok());
    let all = mine + rival.join().unwrap();
    assert_eq!(all, 2, "there is room for both");
    assert_eq!(limiter.peek().used(), 4, "nothing is lost");
}

/// The models above whose weakening does not concern the swap, on the small copy of `windows`.
///
/// The copy passes them as it is and fails with each of its bugs.
mod copies {
    use super::{Arc, Bug, Duration, Stopped, Time, Windows, check_preemptions, thread};

    fn fixed_window_is_opened_once(bug: Bug) {
        let clock = Time::at(7);
        let windows = Arc::new(Windows::fixed(bug, 2));
        windows.take(2, &clock).unwrap();
        clock.advance(Duration::from_secs(1));
        let rival = {
            let (windows, clock) = (Arc::clone(&windows), clock.clone());
            thread::spawn(move || windows.take(2, &clock).is_some())
        };
        let mine = windows.take(1, &clock).is_some();
        assert!(mine ^ rival.join().unwrap(), "two for one, or one for the other");
        assert_eq!(windows.used(&clock), if mine { 1 } else { 2 });
    }

    fn a_late_clock(windows: fn(Bug, u64) -> Windows, bug: Bug) {
        let windows = Arc::new(windows(bug, 1));
        windows.take(1, &Stopped(7)).unwrap();
        let rival = {
            let windows = Arc::clone(&windows);
            let late = Stopped(999_999_999);
            thread::spawn(move || (0..2).filter(|_| windows.take(1, &late).is_some()).count())
        };
        let mine = usize::from(windows.take(1, &Stopped(2_000_000_007)).is_some());
        assert_eq!((mine, rival.join().unwrap()), (1, 0), "one window has begun");
    }

    fn a_roll_back(windows: fn(Bug, u64) -> Windows, used: &[u64], bug: Bug) {
        let clock = Time::at(7);
        let windows = Arc::new(windows(bug, 5));
        windows.take(1, &clock).unwrap();
        let rival = {
            let (windows, clock) = (Arc::clone(&windows), clock.clone());
            thread::spawn(move || windows.roll_back(2, windows.take(2, &clock).unwrap()))
        };
        clock.advance(Duration::from_secs(1));
        windows.take(1, &clock).unwrap();
        rival.join().unwrap();
        assert!(used.contains(&windows.used(&clock)), "nothing is minted: {windows:?}");
    }

    fn sliding_counter_moves_on_once(bug: Bug) {
        let clock = Time::at(7);
        let windows = Arc::new(Windows::sliding(bug, 4));
        windows.take(2, &clock).unwrap();
        let rival = {
            let (windows, clock) = (Arc::clone(&windows), clock.clone());
            thread::spawn(move || windows.take(1, &clock).is_some())
        };
        clock.advance(Duration::from_secs(1));
        let mine = windows.take(1, &clock).is_some();
        assert!(mine && rival.join().unwrap(), "there is room for both");
        assert_eq!(windows.used(&clock), 4, "nothing is lost");
    }

    #[test]
    fn copy_behaves_like_the_original() {
        check_preemptions(3, || fixed_window_is_opened_once(Bug::None));
        check_preemptions(3, || a_late_clock(Windows::fixed, Bug::None));
        check_preemptions(3, || a_late_clock(Windows::sliding, Bug::None));
        check_preemptions(3, || a_roll_back(Windows::fixed, &[1], Bug::None));
        check_preemptions(3, || a_roll_back(Windows::sliding, &[2, 4], Bug::None));
        check_preemptions(3, || sliding_counter_moves_on_once(Bug::None));
    }

    #[test]
    #[should_panic(expected = "two for one, or one for the other")]
    fn model_notices_a_fixed_window_opened_twice() {
        check_preemptions(3, || fixed_window_is_opened_once(Bug::MovesTwice));
    }

    #[test]
    #[should_panic(expected = "nothing is lost")]
    fn model_notices_a_sliding_counter_moved_on_twice() {
        check_preemptions(3, || sliding_counter_moves_on_once(Bug::MovesTwice));
    }

    #[test]
    #[should_panic(expected = "one window has begun")]
    fn model_notices_a_late_clock_that_opens_a_fixed_window() {
        check_preemptions(3, || a_late_clock(Windows::fixed, Bug::LateOpens));
    }

    #[test]
    #[should_panic(expected = "one window has begun")]
    fn model_notices_a_late_clock_that_opens_a_window_of_a_counter() {
        check_preemptions(3, || a_late_clock(Windows::sliding, Bug::LateOpens));
    }

    #[test]
    #[should_panic(expected = "nothing is minted")]
    fn model_notices_a_roll_back_in_any_fixed_window() {
        check_preemptions(3, || a_roll_back(Windows::fixed, &[1], Bug::BackAnywhere));
    }

    #[test]
    #[should_panic(expected = "nothing is minted")]
    fn model_notices_a_roll_back_in_any_window_of_a_counter() {
        check_preemptions(3, || a_roll_back(Windows::sliding, &[2, 4], Bug::BackAnywhere));
    }
}
