//! The sliding log. In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::limit::Algorithm;
use damper_core::{Clock, LimitSet, Quota, RateLimiter, SlidingLog};
use damper_loom_tests::{Flaw, Stopped, Time, check, check_flawed, check_preemptions};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;
use std::cell::Cell;
use std::time::Duration;

fn log(limit: u32) -> SlidingLog {
    SlidingLog::new(Quota::per_second(limit)).unwrap()
}

/// Two threads race for the last token of a window.
fn race_for_the_last() {
    let limiter = Arc::new(RateLimiter::with_algorithm(log(2), Stopped(7)));
    limiter.check().unwrap();
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || limiter.check().is_ok())
    };
    let mine = limiter.check().is_ok();
    assert!(mine ^ rival.join().unwrap(), "one token, one winner");
    assert_eq!(limiter.peek().remaining(), 0);
}

// WORD: The head of a sliding log
#[test]
fn last_token_is_taken_once() {
    check(race_for_the_last);
}

#[test]
#[should_panic(expected = "one token, one winner")]
fn blind_swap_takes_the_last_token_twice() {
    check_flawed(Flaw::BlindExchange, race_for_the_last);
}

/// A full log is reset beside a check: its tokens are there once more, and none twice.
///
/// [A `store` in place of each swap.]
#[test]
fn reset_beside_a_check_mints_no_token() {
    check_preemptions(3, reset_beside_a_check);
}

#[test]
#[should_panic(expected = "the limit, once more")]
fn reset_beside_a_check_mints_no_token_unless_flawed() {
    check_flawed(Flaw::BlindExchange, reset_beside_a_check);
}

fn reset_beside_a_check() {
    let limiter = Arc::new(RateLimiter::with_algorithm(log(2), Stopped(7)));
    limiter.check_n(2).unwrap();
    let rival = {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || u32::from(limiter.check().is_ok()))
    };
    limiter.reset();
    let mine = u32::from(limiter.check().is_ok());
    let taken = mine + rival.join().unwrap() + limiter.drain();
    assert!(taken <= 2, "the limit, once more, not {taken}");
}

/// One takes two, the other three of four: all or nothing.
#[test]
fn several_tokens_are_taken_together_or_not_at_all() {
    check_preemptions(3, || {
        let limiter = Arc::new(RateLimiter::with_algorithm(log(4), Stopped(7)));
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.check_n(3).is_ok())
        };
        let mine = limiter.check_n(2).is_ok();
        let rivals = rival.join().unwrap();
        assert!(mine ^ rivals, "no room for both, and room for one");
        assert_eq!(limiter.peek().used(), if mine { 2 } else { 3 });
    });
}

/// A thread is stopped anywhere in a call while the ring goes round.
///
/// No other thread waits for it, and each window gives one token.
///
/// [A slot that was not stamped in the lap before is due; a stamp stored without a look at what the slot holds.]
#[test]
fn others_proceed_past_a_stalled_thread() {
    check_preemptions(3, || {
        let clock = Time::at(7);
        let limiter = Arc::new(RateLimiter::with_algorithm(log(1), clock.clone()));
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || u32::from(limiter.check().is_ok()))
        };
        let mut all = 0;
        for _ in 0..2 {
            all += u32::from(limiter.check().is_ok());
            clock.advance(Duration::from_secs(1));
        }
        // If a thread is stopped in this window, it has taken the window's token.
        all += u32::from(limiter.check().is_ok());
        all += rival.join().unwrap();
        assert!((2..=3).contains(&all), "{all} in three windows");
        assert!(limiter.check().is_err(), "of the last window the token is gone");
    });
}

/// Threads take while a window passes: by the clock of the last reading, no more than the limit.
#[test]
fn tokens_return_after_a_whole_window() {
    check_preemptions(3, || {
        let clock = Time::at(7);
        let limiter = Arc::new(RateLimiter::with_algorithm(log(1), clock.clone()));
        limiter.check().unwrap();
        let rival = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.check().is_ok())
        };
        clock.advance(Duration::from_secs(1));
        let mine = limiter.check().is_ok();
        // Stamped by its owner or on its behalf, the token was taken just now by the thread that won.
        assert!(mine | rival.join().unwrap(), "it was back");
        assert!(limiter.check().is_err(), "and is gone");
    });
}

/// A roll-back gives back only its own tokens.
///
/// Two threads find the last token of the second limit. The one that loses it gives back its token of the first, unless
/// the other one has taken the next. [A head that is moved back over later tokens.]
fn roll_back() {
    let both = Arc::new(LimitSet::with_algorithms([log(3), log(1)], Time::at(7)));
    let rival = {
        let both = Arc::clone(&both);
        thread::spawn(move || both.check().is_ok())
    };
    let mine = both.check().is_ok();
    let theirs = rival.join().unwrap();
    let [wide, narrow] = both.peek();
    assert!((mine ^ theirs) && narrow.used() == 1, "one token, one winner");
    assert!((1..=2).contains(&wide.used()), "a roll-back returned another call's token");
}

#[test]
fn roll_back_returns_only_its_own_tokens() {
    check_preemptions(2, roll_back);
}

#[test]
#[should_panic(expected = "one winner")]
fn roll_back_returns_only_its_own_tokens_unless_flawed() {
    check_flawed(Flaw::BlindExchange, roll_back);
}

/// A thread takes two, is refused by another limit and gives them back, while another thread takes one.
///
/// A window later all are back.
fn roll_back_and_wait() {
    let clock = Time::at(7);
    let both = Arc::new(LimitSet::with_algorithms([log(3), log(1)], clock.clone()));
    let rival = {
        let both = Arc::clone(&both);
        thread::spawn(move || assert_eq!(both.check_n(2).unwrap_err().index(), 1))
    };
    assert!(both.check().is_ok());
    rival.join().unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(both.peek().map(|limit| limit.remaining()), [3, 1], "late");
}

#[test]
fn tokens_return_in_time_after_a_roll_back() {
    check_preemptions(3, roll_back_and_wait);
}

/// A clock that notes its last reading.
struct Noting<'a>(&'a Time, &'a Cell<u64>);

impl Clock for Noting<'_> {
    fn now(&self) -> u64 {
        self.1.set(self.0.now());
        self.1.get()
    }

    fn frequency(&self) -> u64 {
        self.0.frequency()
    }
}

/// A token was given back.
///
/// One thread takes it at the time at which it was taken first, and leaves its stamp there; or another takes it later,
/// and puts a later one there. A window after the one or the other it is back. [The stamp taken off while the head
/// stays as it is.]
#[test]
fn rollback_never_delays_later_tokens() {
    check_preemptions(3, || {
        let (clock, log) = (Time::at(7), Arc::new(log(1)));
        let (_, taken) = log.take_revocably(1, &clock).unwrap();
        log.roll_back(1, taken, &clock);
        let rival = {
            let (clock, log) = (clock.clone(), Arc::clone(&log));
            thread::spawn(move || {
                let read_at = Cell::new(0);
                log.take(1, &Noting(&clock, &read_at)).is_ok().then_some(read_at.get())
            })
        };
        clock.advance(Duration::from_millis(500));
        let mine = log.take(1, &clock).is_ok();
        let rivals = rival.join().unwrap();
        assert!(mine ^ rivals.is_some(), "one token, one winner");
        clock.advance(Duration::from_millis(500));
        assert_eq!(log.take(1, &clock).is_ok(), rivals == Some(7), "a window after it was taken, no later");
    });
}

/// A clock that goes on for all at once, and orders nothing else.
#[derive(Clone)]
struct Bare(Arc<AtomicU64>);

impl Bare {
    fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1_000_000_000, Ordering::Relaxed);
    }
}

impl Clock for Bare {
    fn now(&self) -> u64 {
        self.0.fetch_add(0, Ordering::Relaxed)
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

/// A thread with an old head does not take a stamp on behalf of another for a refund.
///
/// Nothing but the stamp shows that the head has moved on. [The stamp put there Relaxed.]
#[test]
fn stamp_on_behalf_of_another_publishes_the_head() {
    check_preemptions(3, || {
        let clock = Bare(Arc::new(AtomicU64::new(7)));
        let limiter = Arc::new(RateLimiter::with_algorithm(log(1), clock.clone()));
        _ = limiter.check_n(0);
        let others = [(), ()].map(|()| {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || _ = limiter.check())
        });
        clock.advance(1);
        _ = limiter.check();
        for other in others {
            other.join().unwrap();
        }
        clock.advance(1);
        assert!(limiter.check().is_ok(), "a window after all of them");
    });
}

/// The ring goes round four times, after which its two bits are what they were.
///
/// A thread that comes after that takes no stamp for one that is four laps younger, even if nothing else shows that the
/// others came before.
///
/// [The head loaded or swapped Relaxed.]
fn four_laps() {
    let log = Arc::new(log(1));
    let done = Arc::new(AtomicBool::new(false));
    let rival = {
        let (log, done) = (Arc::clone(&log), Arc::clone(&done));
        let late = Stopped(3_500_000_007);
        thread::spawn(move || done.load(Ordering::Relaxed) && log.take(1, &late).is_ok())
    };
    for second in 0..4 {
        log.take(1, &Stopped(second * 1_000_000_000 + 7)).unwrap();
    }
    done.store(true, Ordering::Relaxed);
    assert!(!rival.join().unwrap(), "two within a window");
}

// WORD: A slot of a sliding log's ring
#[test]
fn head_publishes_the_slots() {
    check(four_laps);
}

#[test]
#[should_panic(expected = "two within a window")]
fn unpublished_slots_revive_an_old_stamp() {
    check_flawed(Flaw::NothingOrdered, four_laps);
}
