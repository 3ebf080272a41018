//! Gates with nothing between them stand before one service, and do what a layer for each of them does.

use bytes::Bytes;
use damper::http::{
    BoxedBody, BoxedClient, CircuitBreakerLayer, ClientConcurrencyLayer, StackError, ThrottleLayer, client_stack,
};
use damper::throttle::AdaptiveThrottle;
use damper::tower::GateLayer;
use damper::{BreakerConfig, Bulkhead, CircuitBreaker, Deadline, ManualClock, Quota, RateLimiter};
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::Empty;
use proptest::prelude::*;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::{Service, ServiceExt, service_fn};

/// The server's part in a call, and the caller's.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// A response whose body is read.
    Read(u16),
    /// A response whose body is dropped before its end.
    Dropped(u16),
    /// A response whose body is kept.
    Kept(u16),
    Error,
    PanicInCall,
    PanicInFuture,
    PanicInBody,
    /// No response; the caller goes away.
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A call, whose deadline may have passed already.
    Call(Answer, bool),
    /// Drops the body that was kept first.
    Release,
    Sleep(Duration),
    ForceOpen,
    Reset,
}

fn answers() -> impl Strategy<Value = Answer> {
    let statuses = prop::sample::select(vec![200, 200, 200, 404, 429, 500, 502, 503, 504]);
    prop_oneof![
        4 => statuses.clone().prop_map(Answer::Read),
        2 => statuses.clone().prop_map(Answer::Dropped),
        2 => statuses.prop_map(Answer::Kept),
        2 => Just(Answer::Error),
        1 => Just(Answer::PanicInCall),
        1 => Just(Answer::PanicInFuture),
        1 => Just(Answer::PanicInBody),
        2 => Just(Answer::GivenUp),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => (answers(), prop::bool::weighted(0.2)).prop_map(|(answer, is_late)| Step::Call(answer, is_late)),
        2 => Just(Step::Release),
        3 => (0..40_000_u64).prop_map(|millis| Step::Sleep(Duration::from_millis(millis))),
        1 => Just(Step::ForceOpen),
        1 => Just(Step::Reset),
    ]
}

/// A body that has not ended: it waits for the server, or panics.
struct Unfinished {
    panics: bool,
    ends: bool,
}

impl Body for Unfinished {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        assert!(!self.panics, "a body that panics");
        if self.ends { Poll::Ready(None) } else { Poll::Pending }
    }
}

/// The gates, and a client behind them.
struct Tried {
    breaker: Arc<CircuitBreaker<Arc<ManualClock>>>,
    throttle: Arc<AdaptiveThrottle<Arc<ManualClock>>>,
    limiter: Arc<RateLimiter<damper::TokenBucket, Arc<ManualClock>>>,
    pool: Arc<Bulkhead<Arc<ManualClock>>>,
    clock: Arc<ManualClock>,
    client: BoxedClient<Empty<Bytes>>,
    kept: Vec<BoxedBody>,
}

impl Tried {
    fn new(is_of_layers: bool) -> Self {
        let clock = Arc::new(ManualClock::new());
        let config = BreakerConfig::builder().failure_threshold(3).build().unwrap();
        let breaker = Arc::new(CircuitBreaker::with_clock(config, Arc::clone(&clock)));
        let throttle = Arc::new(AdaptiveThrottle::with_clock(Arc::clone(&clock), 7));
        let limiter = Arc::new(RateLimiter::with_clock(Quota::per_minute(20), Arc::clone(&clock)));
        let pool = Arc::new(Bulkhead::with_clock(3, Arc::clone(&clock)));
        let transport = service_fn(|request: Request<Empty<Bytes>>| {
            let answer = *request.extensions().get::<Answer>().unwrap();
            assert!(!matches!(answer, Answer::PanicInCall), "a call that panics");
            let mut result = Some(match answer {
                Answer::Read(status) => Ok((status, Unfinished { panics: false, ends: true })),
                Answer::Dropped(status) | Answer::Kept(status) => {
                    Ok((status, Unfinished { panics: false, ends: false }))
                }
                Answer::PanicInBody => Ok((200, Unfinished { panics: true, ends: false })),
                _ => Err(io::Error::other("broken")),
            });
            poll_fn(move |_| match answer {
                Answer::GivenUp => Poll::Pending,
                Answer::PanicInFuture => panic!("a future that panics"),
                _ => Poll::Ready(
                    result.take().unwrap().map(|(status, body)| Response::builder().status(status).body(body).unwrap()),
                ),
            })
        });
        let stack = client_stack();
        let client = if is_of_layers {
            stack
                .breaker_layer(CircuitBreakerLayer::new(Arc::clone(&breaker)))
                .throttle_layer(ThrottleLayer::new(Arc::clone(&throttle)))
                .limit_layer(GateLayer::limit(Arc::clone(&limiter)))
                .concurrency_layer(ClientConcurrencyLayer::new(Arc::clone(&pool)))
                .boxed(transport)
        } else {
            stack
                .breakers(Arc::clone(&breaker))
                .throttles(Arc::clone(&throttle))
                .limiter(Arc::clone(&limiter))
                .concurrency(Arc::clone(&pool))
                .boxed(transport)
        };
        Self { breaker, throttle, limiter, pool, clock, client, kept: Vec::new() }
    }

    /// Takes a step, and returns what the caller sees of it.
    fn take(&mut self, step: Step) -> String {
        match step {
            Step::Call(answer, is_late) => {
                let call = AssertUnwindSafe(|| self.call(answer, is_late));
                catch_unwind(call).unwrap_or_else(|_| "panicked".to_owned())
            }
            Step::Release => {
                let body = if self.kept.is_empty() { None } else { Some(self.kept.remove(0)) };
                drop(body);
                String::new()
            }
            Step::Sleep(duration) => {
                self.clock.advance(duration);
                String::new()
            }
            Step::ForceOpen => {
                self.breaker.force_open();
                String::new()
            }
            Step::Reset => {
                self.breaker.reset();
                String::new()
            }
        }
    }

    fn call(&mut self, answer: Answer, is_late: bool) -> String {
        let mut context = Context::from_waker(Waker::noop());
        let mut request = Request::get("http://one.example.com/").body(Empty::new()).unwrap();
        request.extensions_mut().insert(answer);
        if is_late {
            request.extensions_mut().insert(Deadline::after(Duration::ZERO));
        }
        let ready = pin!(self.client.ready()).poll(&mut context).map(|ready| ready.map(drop));
        assert!(matches!(ready, Poll::Ready(Ok(()))), "it is always ready");
        let mut call = self.client.call(request);
        let response: Result<Response<BoxedBody>, StackError> = match call.as_mut().poll(&mut context) {
            Poll::Ready(result) => result,
            Poll::Pending => return "given up".to_owned(),
        };
        let response = match response {
            Ok(response) => response,
            Err(error) => return format!("{:?} {error:#} {:?}", error.part(), error.retry_after()),
        };
        let (status, mut body) = (response.status(), response.into_body());
        match answer {
            Answer::Kept(_) => self.kept.push(body),
            Answer::Dropped(_) => {
                let _pending = Pin::new(&mut body).poll_frame(&mut context);
            }
            _ => assert!(matches!(Pin::new(&mut body).poll_frame(&mut context), Poll::Ready(None))),
        }
        status.to_string()
    }

    /// Returns the state of all gates.
    fn state(&self) -> String {
        let Self { breaker, throttle, limiter, pool, .. } = self;
        let (remaining, in_flight) = (limiter.peek().remaining(), pool.status().in_flight());
        format!("{:?} {:?} {remaining} {in_flight}", breaker.status(), throttle.status())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn gates_before_one_service_do_what_a_layer_for_each_does(steps in prop::collection::vec(steps(), 1..60)) {
        let (mut one, mut layers) = (Tried::new(false), Tried::new(true));
        for step in steps {
            prop_assert_eq!(one.take(step), layers.take(step), "{:?}", step);
            prop_assert_eq!(one.state(), layers.state(), "after {:?}", step);
        }
    }
}
