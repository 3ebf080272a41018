//! One call through a circuit breaker.

use crate::contest::{Contest, Peer, Side, calls};
use damper::breaker::Window;
use damper::{BreakerConfig, CircuitBreaker, Quota, RateLimiter};
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
    // Behind a limit, which that of throttle-net always has.
    Contest {
        name: "breaker_with_limit_throttle_net",
        damper: with_limit,
        peer: Some(Peer { name: "throttle-net", side: throttle_net::closed, bar: None }),
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

fn with_limit() -> Side {
    let (limiter, breaker) = (RateLimiter::new(Quota::per_second(u32::MAX)), CircuitBreaker::default());
    calls(move || {
        let (limiter, breaker) = black_box((&limiter, &breaker));
        breaker.try_acquire().is_ok_and(|permit| {
            let is_allowed = limiter.check().is_ok();
            permit.success();
            is_allowed
        })
    })
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

/// throttle-net's breaker around its limiter, tripped by consecutive failures.
mod throttle_net {
    use crate::contest::{Side, calls};
    use std::hint::black_box;
    use throttle_net::{CircuitBreaker, Throttle};

    pub(super) fn closed() -> Side {
        let breaker = CircuitBreaker::builder().build(Throttle::per_second(u32::MAX));
        calls(move || match black_box(&breaker).try_acquire() {
            Ok(Some(permit)) => {
                permit.success();
                true
            }
            _ => false,
        })
    }
}
