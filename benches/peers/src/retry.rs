//! One decision about a retry, and the budget that it is paid from.

use crate::contest::{Contest, Peer, Side, calls, calls_on_threads};
use damper::retry::{Budget, Failure, RetryBudgetConfig};
use damper::{Backoff, Retry, RetryBudget};
use std::hint::black_box;
use std::time::Duration;

const BASE: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(20);

pub(crate) const CONTESTS: &[Contest] = &[
    // A call begins, fails once, and gets the wait before its first retry, with jitter. damper also reads its clock, asks
    // for the deadline and the budget, and draws a seed of its own from the operating system for each call.
    Contest {
        name: "retry_decision",
        damper: decision,
        peer: Some(Peer { name: "backon", side: backon::decision, bar: None }),
    },
    // The decision is that of retry-policies, which reqwest-retry asks. Its policy returns an instant, from which the middleware computes the wait.
    Contest {
        name: "retry_decision_policies",
        damper: decision,
        peer: Some(Peer { name: "retry-policies", side: policies::decision, bar: None }),
    },
    // The next wait of a backoff that goes on without an end: at the longest delay from the ninth wait on.
    Contest { name: "retry_delay", damper: delay, peer: Some(Peer { name: "backon", side: backon::delay, bar: None }) },
    // The cost of each call, retried or not.
    Contest {
        name: "retry_budget_deposit",
        damper: deposit,
        peer: Some(Peer { name: "tower", side: tower::deposit, bar: None }),
    },
    // A deposit, and the withdrawal of it: so there is always one to withdraw.
    Contest {
        name: "retry_budget_withdrawal",
        damper: withdrawal,
        peer: Some(Peer { name: "tower", side: tower::withdrawal, bar: None }),
    },
    // The same on two threads, of one budget.
    Contest {
        name: "retry_budget_withdrawal_2t",
        damper: withdrawal_on_two_threads,
        peer: Some(Peer { name: "tower", side: tower::withdrawal_on_two_threads, bar: None }),
    },
    // A refusal: nothing was deposited, and there is no reserve.
    Contest {
        name: "retry_budget_refusal",
        damper: refusal,
        peer: Some(Peer { name: "tower", side: tower::refusal, bar: None }),
    },
];

fn backoff() -> Backoff {
    Backoff::exponential(BASE).max_delay(LONGEST)
}

fn decision() -> Side {
    let retry = Retry::new(3).backoff(backoff());
    calls(move || {
        let retry = black_box(&retry);
        retry.begin().failed(retry, black_box(Failure::TRANSIENT)).is_ok()
    })
}

fn delay() -> Side {
    let mut delays = backoff().into_iter();
    calls(move || black_box(&mut delays).next().is_some())
}

/// A budget without a reserve.
fn budget(ratio: f64) -> RetryBudget {
    let config = RetryBudgetConfig::builder().ratio(ratio).floor(0).reserve(0).build();
    RetryBudget::new(config.expect("it is in its range"))
}

fn deposit() -> Side {
    let budget = budget(0.2);
    calls(move || {
        black_box(&budget).began();
        true
    })
}

fn withdrawal() -> Side {
    let budget = budget(1.0);
    calls(move || {
        black_box(&budget).began();
        black_box(&budget).try_withdraw()
    })
}

fn withdrawal_on_two_threads() -> Side {
    let budget = budget(1.0);
    calls_on_threads(2, move || {
        budget.began();
        budget.try_withdraw()
    })
}

fn refusal() -> Side {
    let budget = budget(0.2);
    calls(move || !black_box(&budget).try_withdraw())
}

mod backon {
    use super::{BASE, LONGEST, Side, calls};
    use backon::{BackoffBuilder, ExponentialBuilder};
    use std::hint::black_box;

    fn builder() -> ExponentialBuilder {
        ExponentialBuilder::new().with_min_delay(BASE).with_max_delay(LONGEST).with_jitter()
    }

    pub(super) fn decision() -> Side {
        let builder = builder();
        calls(move || black_box(&builder).build().next().is_some())
    }

    pub(super) fn delay() -> Side {
        let mut delays = builder().without_max_times().build();
        calls(move || black_box(&mut delays).next().is_some())
    }
}

/// The policy of retry-policies, which reqwest-retry asks.
mod policies {
    use super::{BASE, LONGEST, Side, calls};
    use retry_policies::policies::ExponentialBackoff;
    use retry_policies::{RetryDecision, RetryPolicy};
    use std::hint::black_box;
    use std::time::SystemTime;

    pub(super) fn decision() -> Side {
        let policy = ExponentialBackoff::builder().retry_bounds(BASE, LONGEST).build_with_max_retries(2);
        calls(move || match black_box(&policy).should_retry(SystemTime::now(), black_box(0)) {
            RetryDecision::Retry { execute_after } => {
                black_box(execute_after.duration_since(SystemTime::now()).unwrap_or_default());
                true
            }
            RetryDecision::DoNotRetry => false,
        })
    }
}

/// tower's `TpsBudget`, without a reserve, and with the same ratio and time to live.
mod tower {
    use super::{Side, calls, calls_on_threads};
    use std::hint::black_box;
    use std::time::Duration;
    use tower::retry::budget::{Budget, TpsBudget};

    fn budget(ratio: f32) -> TpsBudget {
        TpsBudget::new(Duration::from_secs(10), 0, ratio)
    }

    pub(super) fn deposit() -> Side {
        let budget = budget(0.2);
        calls(move || {
            black_box(&budget).deposit();
            true
        })
    }

    pub(super) fn withdrawal() -> Side {
        let budget = budget(1.0);
        calls(move || {
            black_box(&budget).deposit();
            black_box(&budget).withdraw()
        })
    }

    pub(super) fn withdrawal_on_two_threads() -> Side {
        let budget = budget(1.0);
        calls_on_threads(2, move || {
            budget.deposit();
            // Refused now and then, while the other thread commits a slot.
            black_box(budget.withdraw());
            true
        })
    }

    pub(super) fn refusal() -> Side {
        let budget = budget(0.2);
        calls(move || !black_box(&budget).withdraw())
    }
}
