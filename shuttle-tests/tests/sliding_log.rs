//! The sliding log: what is taken, and given back, by threads that are stopped in the middle of it.
#![cfg(shuttle)]

use damper_core::limit::Algorithm;
use damper_core::{Clock, Quota, SlidingLog};
use damper_shuttle_tests::{Time, advance, check, check_flawed, random, time, timed, together};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LIMIT: u32 = 3;
const WINDOW: u64 = 1_000_000_000;

struct Log {
    log: SlidingLog,
    time: Time,
    admitted: Mutex<Vec<([u64; 2], u32)>>,
}

impl Log {
    fn new() -> Arc<Self> {
        let log = SlidingLog::new(Quota::per_second(LIMIT)).unwrap();
        Arc::new(Self { log, time: time(), admitted: Mutex::default() })
    }

    /// Takes up to two; one in so many times it gives them back, if ever.
    fn take(&self, back: Option<u64>) {
        let n = 1 + random(2) as u32;
        let (between, taken) = timed(&self.time, || self.log.take_revocably(n, &self.time));
        match taken {
            Ok((_, taken)) if back.is_some_and(|times| random(times) == 0) => self.log.roll_back(n, taken, &self.time),
            Ok(_) => self.admitted.lock().unwrap().push((between, n)),
            Err(denied) => assert!(denied.retry_after() <= Some(Duration::from_secs(1)), "longer than a window"),
        }
    }

    /// Of calls within less than a window no more than the limit are admitted.
    fn keeps_to_the_limit(&self) {
        let admitted = self.admitted.lock().unwrap();
        for &([from, _], _) in admitted.iter() {
            let within = admitted.iter().filter(|([begun, done], _)| *begun >= from && *done < from + WINDOW);
            let tokens: u32 = within.map(|(_, n)| n).sum();
            assert!(tokens <= LIMIT, "{tokens} within a window from {from}");
        }
    }

    /// A window after the last call all tokens are there.
    fn comes_to_rest(&self) {
        let last = self.time.now();
        self.time.advance(Duration::from_secs(1));
        assert_eq!(self.log.usage(&self.time).remaining(), LIMIT, "late, a window after {last}");
        assert!(self.log.take(LIMIT, &self.time).is_ok(), "late, a window after {last}");
    }
}

fn histories(back: Option<u64>) -> Arc<Log> {
    let log = Log::new();
    together(4, 6, &log, move |log, _| if random(4) == 0 { advance(&log.time) } else { log.take(back) });
    log.keeps_to_the_limit();
    log
}

/// Four threads take while the ring goes round.
///
/// No window has more than the limit, and a window after the last of them all is there.
///
/// [A slot due at any age; a slot without a stamp due.]
#[test]
fn every_window_stays_within_its_limit() {
    check(6_000, || histories(None).comes_to_rest());
}

#[test]
#[should_panic]
fn every_window_stays_within_its_limit_unless_flawed() {
    check_flawed(|| histories(None).comes_to_rest());
}

/// The same where a third is given back.
#[test]
fn roll_backs_keep_tokens_on_time_and_block_no_thread() {
    check(48_000, || histories(Some(3)).comes_to_rest());
}
