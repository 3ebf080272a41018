//! The time that a layer of a client adds to its service, on requests that succeed.
//!
//! Measured as in `layer.rs`. All requests may be sent again, so each layer that might do so keeps a copy.

use crate::contest::{Contest, Peer, Side};
use crate::layer::{added, added_to_one, on_timer};
use damper::Retry;
use damper::http::{HedgeLayer, RetryLayer, ThrottleLayer};
use damper::retry::{Hedge, HedgeConfig};

pub(crate) const CONTESTS: &[Contest] = &[
    // At most three attempts, where the answer is an error or has a status of 5xx; without a budget.
    Contest {
        name: "layer_retry",
        damper: retry,
        peer: Some(Peer { name: "tower-resilience", side: peers::retry_of_resilience, bar: None }),
    },
    Contest {
        name: "layer_retry_tower",
        damper: retry,
        peer: Some(Peer { name: "tower", side: peers::retry_of_tower, bar: None }),
    },
    Contest {
        name: "layer_retry_seatbelt",
        damper: retry,
        peer: Some(Peer { name: "seatbelt", side: peers::retry_of_seatbelt, bar: None }),
    },
    // A second attempt where the first takes longer than most; the same service for all calls, for tower's cannot be
    // cloned. tower-resilience's hedge does not take axum's body, which is not `Sync`.
    Contest {
        name: "layer_hedge_tower",
        damper: hedge,
        peer: Some(Peer { name: "tower", side: peers::hedge, bar: None }),
    },
    // One throttle for all. No peer has one in Rust.
    Contest { name: "layer_throttle", damper: || added(&ThrottleLayer::single()), peer: None },
];

const ATTEMPTS: u32 = 3;

fn retry() -> Side {
    added(&RetryLayer::new(Retry::new(ATTEMPTS)))
}

fn hedge() -> Side {
    on_timer(|| added_to_one(&HedgeLayer::new(Hedge::new(HedgeConfig::DEFAULT))))
}

mod peers {
    use super::{ATTEMPTS, Side, added, added_to_one, on_timer};
    use crate::layer::Answer;
    use axum::body::Body;
    use http::{Request, Response};
    use seatbelt::{RecoveryInfo, ResilienceContext};
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::time::Duration;
    use tick::Clock;
    use tower::hedge::Hedge;
    use tower::layer::layer_fn;
    use tower::retry::RetryLayer;
    use tower::{hedge, retry};

    fn is_failure(answer: &Response<Body>) -> bool {
        answer.status().is_server_error()
    }

    pub(super) fn retry_of_resilience() -> Side {
        let layer = tower_resilience_retry::RetryLayer::<Request<()>, Response<Body>, Infallible>::builder();
        added(&layer.max_attempts(ATTEMPTS as usize).retry_on_response(is_failure).build())
    }

    pub(super) fn retry_of_seatbelt() -> Side {
        on_timer(|| {
            let context = ResilienceContext::<Request<()>, Answer>::new(Clock::new_tokio());
            let layer = seatbelt::retry::Retry::layer("retry", &context).clone_input().max_retry_attempts(ATTEMPTS - 1);
            added(&layer.recovery_with(|answer, _| match answer {
                Ok(answer) if !is_failure(answer) => RecoveryInfo::never(),
                _ => RecoveryInfo::retry(),
            }))
        })
    }

    pub(super) fn retry_of_tower() -> Side {
        added(&RetryLayer::new(Attempts { left: ATTEMPTS - 1 }))
    }

    /// The attempts that a call has left. A retry begins at once, which costs least.
    #[derive(Clone)]
    struct Attempts {
        left: u32,
    }

    impl retry::Policy<Request<()>, Response<Body>, Infallible> for Attempts {
        type Future = Ready<()>;

        fn retry(&mut self, _: &mut Request<()>, answer: &mut Answer) -> Option<Ready<()>> {
            let again = answer.as_ref().is_ok_and(is_failure) && self.left > 0;
            self.left -= u32::from(again);
            again.then(|| ready(()))
        }

        fn clone_request(&mut self, request: &Request<()>) -> Option<Request<()>> {
            Some(request.clone())
        }
    }

    pub(super) fn hedge() -> Side {
        // It hedges nothing before it has seen calls: latencies of 10 ms, and none that is measured here replaces them.
        let (seen, long) = ([10; 100], Duration::from_hours(1));
        on_timer(|| {
            added_to_one(&layer_fn(|service| {
                Hedge::new_with_mock_latencies(service, Resend, seen.len() as u64, 0.95, long, &seen)
            }))
        })
    }

    /// Sends every request a second time, if its answer takes so long.
    #[derive(Clone)]
    struct Resend;

    impl hedge::Policy<Request<()>> for Resend {
        fn clone_request(&self, request: &Request<()>) -> Option<Request<()>> {
            Some(request.clone())
        }

        fn can_retry(&self, _: &Request<()>) -> bool {
            true
        }
    }
}
