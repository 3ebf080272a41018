//! One retry, and its budget.

use crate::still::still;
use crate::{Call, Row, rows};
use damper::retry::{Budget, Failure, Hedge, HedgeConfig, RetryBucket, RetryBudgetConfig, RetryThrottle};
use damper::{Retry, RetryBudget};

pub(crate) const ROWS: &[Row] = rows![
    retry_decision,
    retry_budget_call,
    retry_budget_withdrawal,
    retry_budget_empty,
    retry_bucket,
    retry_throttle,
    hedge_delay,
];

/// A call begins, fails, and may be tried again.
fn retry_decision() -> Call {
    let retry = Retry::with_clock(3, still!(), 7);
    Box::new(move || {
        let mut attempts = retry.begin();
        attempts.failed(&retry, Failure::TRANSIENT).is_ok()
    })
}

fn config(ratio: f64) -> RetryBudgetConfig {
    RetryBudgetConfig::builder().ratio(ratio).floor(0).reserve(0).build().expect("it is in its range")
}

fn retry_budget_call() -> Call {
    let budget = RetryBudget::with_clock(config(0.2), still!());
    Box::new(move || {
        budget.began();
        true
    })
}

/// Of what other calls deposited.
fn retry_budget_withdrawal() -> Call {
    let budget = RetryBudget::with_clock(config(100.0), still!());
    (0..100_000).for_each(|_| budget.began());
    Box::new(move || budget.try_withdraw())
}

fn retry_budget_empty() -> Call {
    let budget = RetryBudget::with_clock(config(0.2), still!());
    Box::new(move || !budget.try_withdraw())
}

/// A call, and the retry that it brings.
fn retry_bucket() -> Call {
    let config = RetryBudgetConfig::builder().ratio(1.0).build().expect("it is in its range");
    let budget = RetryBucket::with_clock(config, still!());
    Box::new(move || {
        budget.began();
        budget.try_withdraw()
    })
}

/// A success, and a question.
fn retry_throttle() -> Call {
    let throttle = RetryThrottle::new(10, 0.1).expect("it is in its range");
    Box::new(move || {
        throttle.succeeded();
        throttle.try_withdraw()
    })
}

/// With nothing to compute: that is done four times a second.
fn hedge_delay() -> Call {
    let hedge = Hedge::with_clock(HedgeConfig::DEFAULT, still!());
    Box::new(move || hedge.delay().is_none())
}
