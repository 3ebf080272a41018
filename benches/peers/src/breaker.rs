//! One call through a circuit breaker.

use crate::contest::{Contest, Peer, Side, calls};
use damper::breaker::Window;
use damper::{BreakerConfig, CircuitBreaker};
use std::hint::black_box;

pub(crate) const CONTESTS: &[Contest] = &[
    // A success while closed.
    Contest {
        name: "breaker_consecutive",
        damper: consecutive,
        peer: Some(Peer { name: "recloser", side: recloser::closed, bar: Some(0.3) }),
    },
    // Five consecutive failures, for both.
    Contest {
        name: "breaker_consecutive_failsafe",
        damper: consecutive,
        peer: Some(Peer { name: "failsafe", side: failsafe::closed, bar: None }),
    },
    Contest {
        name: "breaker_window_48",
        damper: || window(48),
        peer: Some(Peer { name: "recloser", side: recloser::closed, bar: Some(0.5) }),
    },
    Contest {
        name: "breaker_window_100",
        damper: || window(100),
        peer: Some(Peer { name: "recloser", side: recloser::closed, bar: Some(0.5) }),
    },
    // A refusal.
    Contest {
        name: "breaker_open",
        damper: open,
        peer: Some(Peer { name: "recloser", side: recloser::open, bar: Some(1.0) }),
    },
    Contest {
        name: "breaker_open_failsafe",
        damper: open,
        peer: Some(Peer { name: "failsafe", side: failsafe::open, bar: None }),
    },
];

fn succeed() -> Result<u32, ()> {
    black_box(Ok(1))
}

fn consecutive() -> Side {
    let breaker = CircuitBreaker::default();
    calls(move || black_box(&breaker).call(succeed).is_ok())
}

/// A failure rate of 50 % over the last so many calls.
fn window(last: u32) -> Side {
    let config =
        BreakerConfig::builder().failure_rate(50).window(Window::last_calls(last)).build().expect("a percentage");
    let breaker = CircuitBreaker::new(config);
    calls(move || black_box(&breaker).call(succeed).is_ok())
}

fn open() -> Side {
    let config = BreakerConfig::builder().failure_threshold(1).build().expect("at least one");
    let breaker = CircuitBreaker::new(config);
    breaker.try_acquire().expect("it is closed").failure();
    calls(move || black_box(&breaker).call(succeed).is_err())
}

/// recloser, with an error rate of 50 % over the last 100 calls.
mod recloser {
    use super::succeed;
    use crate::contest::{Side, calls};
    use recloser::Recloser;
    use std::hint::black_box;
    use std::time::Duration;

    fn breaker() -> Recloser {
        Recloser::custom().error_rate(0.5).closed_len(100).open_wait(Duration::from_hours(1)).build()
    }

    pub(super) fn closed() -> Side {
        let breaker = breaker();
        calls(move || black_box(&breaker).call(succeed).is_ok())
    }

    pub(super) fn open() -> Side {
        let breaker = breaker();
        for _ in 0..200 {
            let _ = breaker.call(|| Err::<u32, ()>(()));
        }
        calls(move || black_box(&breaker).call(succeed).is_err())
    }
}

/// failsafe, with its policy of consecutive failures, which costs least.
mod failsafe {
    use super::succeed;
    use crate::contest::{Side, calls};
    use failsafe::{CircuitBreaker, Config, backoff, failure_policy};
    use std::hint::black_box;
    use std::time::Duration;

    fn breaker(failures: u32) -> impl CircuitBreaker {
        let policy = failure_policy::consecutive_failures(failures, backoff::constant(Duration::from_hours(1)));
        Config::new().failure_policy(policy).build()
    }

    pub(super) fn closed() -> Side {
        let breaker = breaker(5);
        calls(move || black_box(&breaker).call(succeed).is_ok())
    }

    pub(super) fn open() -> Side {
        let breaker = breaker(1);
        let _ = breaker.call(|| Err::<u32, ()>(()));
        calls(move || black_box(&breaker).call(succeed).is_err())
    }
}
