//! The time that a layer adds to a service.
//!
//! It is that of a call through the layer, less that of the bare service.
//!
//! Both are measured here, by turns of so many requests that are made before the time runs. For each the service is
//! cloned, as axum and hyper-util do, polled for readiness, called, and its future polled once, which answers.

use crate::contest::{Contest, Peer, Side, sum};
use crate::floor;
use crate::layer_floor::ByHand;
use axum::body::Body;
use axum::extract::ConnectInfo;
use damper::breaker::Window;
use damper::concurrency::{Admission, Criticality, LimitBounds};
use damper::http::{CircuitBreakerLayer, ConcurrencyLayer, DeadlineLayer, Headers, RateLimitLayer};
use damper::{BreakerConfig, CircuitBreaker, KeyedLimiter, Quota};
use http::{Request, Response};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tower::{Layer, Service, service_fn};

pub(crate) const CONTESTS: &[Contest] = &[
    // One breaker that counts consecutive failures, and takes answers of 5xx for failures; damper's is a `static`.
    Contest {
        name: "layer_breaker",
        damper: breaker,
        peer: Some(Peer { name: "tower-resilience", side: peers::breaker, bar: Some(0.10) }),
    },
    // The same, of a breaker that the layer makes: two references are counted for each call.
    Contest {
        name: "layer_breaker_one",
        damper: breaker_of_the_layer,
        peer: Some(Peer { name: "tower-resilience", side: peers::breaker, bar: None }),
    },
    // A failure rate over a window of time, which that of seatbelt always has.
    Contest {
        name: "layer_breaker_seatbelt",
        damper: breaker_of_a_rate,
        peer: Some(Peer { name: "seatbelt", side: peers::breaker_of_seatbelt, bar: None }),
    },
    // A limit for each of 256 addresses, as axum provides them; all requests pass.
    Contest {
        name: "layer_limit_ip",
        damper: || limit(Headers::OnRefusals),
        peer: Some(Peer { name: "tower_governor", side: peers::limit, bar: Some(0.6) }),
    },
    // Beside the least that such a layer can be.
    Contest {
        name: "layer_limit_ip_floor",
        damper: || limit(Headers::OnRefusals),
        peer: Some(Peer { name: "by hand", side: limit_by_hand, bar: None }),
    },
    // With headers on the answers: RateLimit and RateLimit-Policy, or two of X-RateLimit.
    Contest {
        name: "layer_limit_ip_headers",
        damper: || limit(Headers::OnAllResponses),
        peer: Some(Peer { name: "tower_governor", side: peers::limit_with_headers, bar: None }),
    },
    // Beside the sum of the layer without headers and of writing two of them, `floor_headers`.
    Contest {
        name: "layer_limit_ip_headers_floor",
        damper: || limit(Headers::OnAllResponses),
        peer: Some(Peer { name: "layer + headers", side: limit_and_two_headers, bar: Some(1.15) }),
    },
    // One limit for all; the same service for all calls, for tower's cannot be cloned.
    Contest {
        name: "layer_limit_tower",
        damper: limit_for_all,
        peer: Some(Peer { name: "tower", side: peers::limit_for_all, bar: None }),
    },
    // At most 64 calls in flight, of which there is one. damper's permit is held until the body has ended, that of the peers
    // until the head is there.
    Contest {
        name: "layer_bulkhead",
        damper: bulkhead,
        peer: Some(Peer { name: "tower-resilience", side: peers::bulkhead, bar: None }),
    },
    Contest {
        name: "layer_bulkhead_tower",
        damper: bulkhead,
        peer: Some(Peer { name: "tower", side: peers::concurrency, bar: None }),
    },
    // A limit that follows the latency; that of the peer by AIMD, which costs least of its algorithms.
    Contest {
        name: "layer_adaptive",
        damper: adaptive,
        peer: Some(Peer { name: "tower-resilience", side: peers::adaptive, bar: None }),
    },
    // By class and tenant; requests have no deadline here.
    Contest { name: "layer_admission", damper: admission, peer: None },
    // A timeout of a second, which never passes. damper also bounds the body, and puts the deadline into the request.
    Contest {
        name: "layer_deadline",
        damper: deadline,
        peer: Some(Peer { name: "tower-resilience", side: peers::time_limiter, bar: None }),
    },
    Contest {
        name: "layer_deadline_tower",
        damper: deadline,
        peer: Some(Peer { name: "tower", side: peers::timeout, bar: None }),
    },
];

/// The requests of a turn.
const TURN: u64 = 256;

pub(crate) type Answer = Result<Response<Body>, Infallible>;

fn bare(_: Request<()>) -> Ready<Answer> {
    ready(Ok(Response::new(Body::empty())))
}

/// A request from one of as many addresses as there are requests in a turn.
fn request(number: u64) -> Request<()> {
    let mut request = Request::new(());
    let from = SocketAddr::from(([10, 0, 0, number as u8], 5_000));
    request.extensions_mut().insert(ConnectInfo(from));
    request
}

/// The time that `layer` adds to the service.
pub(crate) fn added<L, B>(layer: &L) -> Side
where
    L: Layer<tower::util::ServiceFn<fn(Request<()>) -> Ready<Answer>>>,
    L::Service: Service<Request<()>, Response = Response<B>> + Clone + 'static,
{
    let service = service_fn(bare as fn(_) -> _);
    let (layered, bare) = (layer.layer(service), service);
    Box::new(move |n| {
        let (mut with, mut without, mut left) = (Duration::ZERO, Duration::ZERO, n);
        while left > 0 {
            let turn = left.min(TURN);
            with += calls(&layered, turn);
            without += calls(&bare, turn);
            left -= turn;
        }
        // Noise may make a few calls look faster with the layer than without.
        with.saturating_sub(without).max(Duration::from_nanos(1))
    })
}

/// How long so many calls take.
///
/// # Panics
///
/// If one of them does not pass, or waits.
fn calls<S, B>(service: &S, n: u64) -> Duration
where
    S: Service<Request<()>, Response = Response<B>> + Clone,
{
    let mut context = Context::from_waker(Waker::noop());
    let requests: Vec<_> = (0..n).map(request).collect();
    let mut passed = 0;
    let started = Instant::now();
    for request in requests {
        let mut service = black_box(service).clone();
        if let Poll::Ready(Ok(())) = service.poll_ready(&mut context) {
            let polled = pin!(service.call(black_box(request))).poll(&mut context);
            passed += u64::from(matches!(polled, Poll::Ready(Ok(answer)) if answer.status() == 200));
        }
    }
    let elapsed = started.elapsed();
    assert_eq!(passed, n, "a call did not pass");
    elapsed
}

/// The time that `layer` adds to a service that is not cloned.
pub(crate) fn added_to_one<L, B>(layer: &L) -> Side
where
    L: Layer<tower::util::ServiceFn<fn(Request<()>) -> Ready<Answer>>>,
    L::Service: Service<Request<()>, Response = Response<B>> + 'static,
{
    let mut bare = service_fn(bare as fn(_) -> _);
    let mut layered = layer.layer(bare);
    Box::new(move |n| {
        let (mut with, mut without, mut left) = (Duration::ZERO, Duration::ZERO, n);
        while left > 0 {
            let turn = left.min(TURN);
            with += calls_of_one(&mut layered, turn);
            without += calls_of_one(&mut bare, turn);
            left -= turn;
        }
        with.saturating_sub(without).max(Duration::from_nanos(1))
    })
}

/// A side that is made, and runs, where tokio's timer is.
pub(crate) fn on_timer(side: impl FnOnce() -> Side) -> Side {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let mut side = {
        let _entered = runtime.enter();
        side()
    };
    Box::new(move |n| {
        let _entered = runtime.enter();
        side(n)
    })
}

/// As `calls`.
fn calls_of_one<S, B>(service: &mut S, n: u64) -> Duration
where
    S: Service<Request<()>, Response = Response<B>>,
{
    let mut context = Context::from_waker(Waker::noop());
    let requests: Vec<_> = (0..n).map(request).collect();
    let mut passed = 0;
    let started = Instant::now();
    for request in requests {
        let service = black_box(&mut *service);
        if let Poll::Ready(Ok(())) = service.poll_ready(&mut context) {
            let polled = pin!(service.call(black_box(request))).poll(&mut context);
            passed += u64::from(matches!(polled, Poll::Ready(Ok(answer)) if answer.status() == 200));
        }
    }
    let elapsed = started.elapsed();
    assert_eq!(passed, n, "a call did not pass");
    elapsed
}

static BREAKER: CircuitBreaker = CircuitBreaker::new(BreakerConfig::DEFAULT);

fn breaker() -> Side {
    added(&CircuitBreakerLayer::new(&BREAKER))
}

fn breaker_of_the_layer() -> Side {
    added(&CircuitBreakerLayer::single(BreakerConfig::default()))
}

/// 10 % of at least 100 calls in 30 s: seatbelt's default.
fn breaker_of_a_rate() -> Side {
    let config = BreakerConfig::builder().failure_rate(10).minimum_calls(100);
    let config = config.window(Window::last(Duration::from_secs(30))).build().expect("a percentage");
    added(&CircuitBreakerLayer::single(config))
}

/// A limit so high that it refuses no request.
fn limit(headers: Headers) -> Side {
    added(&RateLimitLayer::per_client(Quota::per_second(1_000_000_000)).headers(headers))
}

fn limit_and_two_headers() -> Side {
    sum(limit(Headers::OnRefusals), floor::two_headers())
}

fn limit_by_hand() -> Side {
    let limits = KeyedLimiter::builder(Quota::per_second(1_000_000_000)).build().expect("the default capacity");
    added(&ByHand(Arc::new(limits)))
}

fn limit_for_all() -> Side {
    added_to_one(&RateLimitLayer::global(Quota::per_second(1_000_000_000)))
}

fn bulkhead() -> Side {
    added(&ConcurrencyLayer::bulkhead(64))
}

fn adaptive() -> Side {
    added(&ConcurrencyLayer::adaptive(LimitBounds::DEFAULT))
}

fn admission() -> Side {
    let layer = ConcurrencyLayer::admission(Admission::new(LimitBounds::DEFAULT))
        .criticality(|_| Criticality::CriticalPlus)
        .tenant(|head| head.extensions.get::<ConnectInfo<SocketAddr>>().map(|from| from.0.ip()));
    added(&layer)
}

const TIMEOUT: Duration = Duration::from_secs(1);

fn deadline() -> Side {
    added(&DeadlineLayer::new(TIMEOUT))
}

mod peers {
    use super::{Answer, Body, Duration, Request, Response, Side, TIMEOUT, added, added_to_one, on_timer};
    use seatbelt::breaker::Breaker;
    use seatbelt::{RecoveryInfo, ResilienceContext};
    use tick::Clock;
    use tower::limit::{ConcurrencyLimitLayer, RateLimitLayer};
    use tower::timeout::TimeoutLayer;
    use tower_governor::GovernorLayer;
    use tower_governor::governor::GovernorConfigBuilder;
    use tower_resilience_adaptive::{AdaptiveLimiterLayer, Aimd};
    use tower_resilience_bulkhead::BulkheadLayer;
    use tower_resilience_circuitbreaker::CircuitBreakerLayer;
    use tower_resilience_timelimiter::TimeLimiterLayer;

    /// Waits in its queue: without a timer, so that it costs less than refusing would.
    pub(super) fn bulkhead() -> Side {
        added(&BulkheadLayer::builder().max_concurrent_calls(64).build().expect("a limit"))
    }

    pub(super) fn concurrency() -> Side {
        added(&ConcurrencyLimitLayer::new(64))
    }

    pub(super) fn adaptive() -> Side {
        let algorithm = Aimd::builder().initial_limit(20).min_limit(1).max_limit(100).build();
        added(&AdaptiveLimiterLayer::new(algorithm.expect("limits in order")))
    }

    pub(super) fn breaker() -> Side {
        let layer = CircuitBreakerLayer::builder()
            .consecutive_failures(5)
            .classify_response(|answer: &Response<Body>| answer.status().is_server_error())
            .build()
            .expect("a number of failures");
        added(&layer)
    }

    pub(super) fn breaker_of_seatbelt() -> Side {
        on_timer(|| {
            let context = ResilienceContext::<Request<()>, Answer>::new(Clock::new_tokio());
            let layer = Breaker::layer("breaker", &context).recovery_with(|answer: &Answer, _| match answer {
                Ok(answer) if !answer.status().is_server_error() => RecoveryInfo::never(),
                _ => RecoveryInfo::retry(),
            });
            added(&layer.rejected_input(|_, _| Ok(Response::new(Body::empty()))))
        })
    }

    pub(super) fn limit() -> Side {
        let config = GovernorConfigBuilder::default().per_nanosecond(1).burst_size(1_000_000_000).finish();
        added(&GovernorLayer::new(config.expect("a quota")))
    }

    pub(super) fn limit_with_headers() -> Side {
        let config =
            GovernorConfigBuilder::default().per_nanosecond(1).burst_size(1_000_000_000).use_headers().finish();
        added(&GovernorLayer::new(config.expect("a quota")))
    }

    pub(super) fn limit_for_all() -> Side {
        // Its timer is made with the service, and not used.
        on_timer(|| added_to_one(&RateLimitLayer::new(u64::MAX, Duration::from_secs(1))))
    }

    pub(super) fn timeout() -> Side {
        on_timer(|| added(&TimeoutLayer::new(TIMEOUT)))
    }

    pub(super) fn time_limiter() -> Side {
        on_timer(|| added(&TimeLimiterLayer::builder().timeout_duration(TIMEOUT).build()))
    }
}
