//! Explanations of requests by stacks.

use crate::cases::cases;
use bytes::Bytes;
use damper::concurrency::{Admission, Criticality, FixedLimit, ProbedGradient};
use damper::decision_log::DecisionLog;
use damper::http::{
    ByHeader, ByKey, CallClass, ClassHeaders, ClientConcurrencyLayer, ClientDeadlineLayer, ConcurrencyLayer,
    CriticalityLayer, DeadlineLayer, Explain, ExplainedPart, Head, Limit, NoWait, PartOutcome, PeerAddress, PerClient,
    RateLimitLayer, Single, StackError, StackPart, TimeoutUnit, TreeLimit, client_stack, server_stack,
};
use damper::throttle::AdaptiveThrottle;
use damper::tower::GateLayer;
use damper::wire::TrustedProxies;
use damper::{
    BreakerConfig, Bulkhead, CircuitBreaker, ClientAddress, Deadline, KeyedLimiter, LimitSet, ManualClock, Plan, Quota,
    QuotaTree, RateLimiter, TokenBucket,
};
use http::header::RETRY_AFTER;
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::Full;
use proptest::prelude::*;
use std::borrow::Cow;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::{Layer, Service};

type Clock = Arc<ManualClock>;

const KEY: HeaderName = HeaderName::from_static("x-key");
const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");

#[derive(Clone)]
struct Handler;

impl Service<Request<()>> for Handler {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(Full::from("served"))))
    }
}

/// Makes a call whose response begins at once. `None` if it waits.
fn call<L, R>(layer: &L, request: Request<()>) -> Option<Response<R>>
where
    L: Layer<Handler>,
    L::Service: Service<Request<()>, Response = Response<R>, Error = Infallible>,
{
    match pin!(layer.layer(Handler).call(request)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(response)) => Some(response),
        Poll::Ready(Err(never)) => match never {},
        Poll::Pending => None,
    }
}

fn request(key: u8) -> Request<()> {
    let mut request = Request::get("/").header(KEY, key.to_string()).body(()).unwrap();
    request.extensions_mut().insert(PeerAddress(([192, 0, 2, key], 5_000).into()));
    request
}

fn head_explained(part: &impl Explain, request: &Request<()>) -> ExplainedPart {
    let mut copy = Request::new(());
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    part.explain(&mut copy).expect("there is a part")
}

/// Checks that a layer does what it says, and that a layer which is never asked does the same.
fn does_as_it_says<L, R, S>(
    asked: &L,
    never_asked: &L,
    keys: &[(u8, u64, bool)],
    advance: impl Fn(u64),
) -> Result<(), TestCaseError>
where
    L: Explain + Layer<Handler, Service = S>,
    S: Service<Request<()>, Response = Response<R>, Error = Infallible>,
{
    let (mut held, mut held_beside) = (Vec::new(), Vec::new());
    for &(key, millis, hold) in keys {
        advance(millis);
        let part = head_explained(asked, &request(key));
        for other in 0..4 {
            // About any client, any number of times.
            head_explained(asked, &request(other));
        }
        prop_assert_eq!(&part, &head_explained(asked, &request(key)));
        let (answer, beside) = (call(asked, request(key)), call(never_asked, request(key)));
        prop_assert_eq!(answer.as_ref().map(Response::status), beside.as_ref().map(Response::status));
        match (part.outcome(), &answer) {
            (PartOutcome::Passes, Some(answer)) => prop_assert_eq!(answer.status(), StatusCode::OK),
            (PartOutcome::Waits, None) => {}
            // The queue has no room for it.
            (PartOutcome::Waits, Some(answer)) => prop_assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE),
            (PartOutcome::Refuses, Some(answer)) => {
                prop_assert!(matches!(answer.status().as_u16(), 429 | 503), "{}", answer.status());
                let wait = answer.headers().get(RETRY_AFTER).map(|wait| wait.to_str().unwrap().parse::<u64>().unwrap());
                if let (429, Some(explained)) = (answer.status().as_u16(), part.retry_after()) {
                    prop_assert_eq!(wait, Some(explained.as_nanos().div_ceil(1_000_000_000).max(1) as u64));
                }
            }
            (outcome, answer) => prop_assert!(false, "{outcome}: {:?}", answer.as_ref().map(Response::status)),
        }
        if hold {
            held.extend(answer);
            held_beside.extend(beside);
        } else if !held.is_empty() {
            held.remove(0);
            held_beside.remove(0);
        }
    }
    Ok(())
}

/// Limits of each kind, on two clocks that advance together.
fn on_two_clocks<L, R, S>(layer: impl Fn(Clock) -> L, keys: &[(u8, u64, bool)]) -> Result<(), TestCaseError>
where
    L: Explain + Layer<Handler, Service = S>,
    S: Service<Request<()>, Response = Response<R>, Error = Infallible>,
{
    let clocks = [(); 2].map(|()| Arc::new(ManualClock::new()));
    let [asked, never_asked] = clocks.each_ref().map(|clock| layer(Arc::clone(clock)));
    does_as_it_says(&asked, &never_asked, keys, |millis| {
        for clock in &clocks {
            clock.advance(Duration::from_millis(millis));
        }
    })
}

fn quota(burst: u32) -> Quota {
    Quota::per_minute(20).burst(burst)
}

fn keyed<K: std::hash::Hash + ?Sized>(burst: u32, clock: &Clock) -> Arc<KeyedLimiter<K, Clock>> {
    Arc::new(KeyedLimiter::builder(quota(burst)).clock(Arc::clone(clock)).capacity(64).build().unwrap())
}

fn costly<L: Limit<Future = NoWait> + Clone>(layer: RateLimitLayer<L>) -> RateLimitLayer<L> {
    layer.cost(|head| u32::from(head.headers.get(KEY).is_some_and(|key| key == "3")) + 1)
}

proptest! {
    #![proptest_config(cases(8))]

    // CLAIM: http::ServerStack::explain
    #[test]
    fn each_limit_does_as_it_says_and_explaining_changes_nothing(
        keys in prop::collection::vec((0..4_u8, 0..6_000_u64, any::<bool>()), 1..40),
        burst in 0..5_u32,
    ) {
        let one = |burst| move |clock: Clock| RateLimiter::with_clock(quota(burst), clock);
        on_two_clocks(|clock| costly(RateLimitLayer::new(Arc::new(one(burst)(clock)))), &keys)?;
        on_two_clocks(|clock| {
            let limits = [quota(burst), Quota::per_hour(30)];
            costly(RateLimitLayer::new(Arc::new(LimitSet::with_clock(limits, clock))))
        }, &keys)?;
        on_two_clocks(|clock| costly(RateLimitLayer::new(ByHeader::new(KEY, keyed(burst, &clock)))), &keys)?;
        on_two_clocks(|clock| {
            costly(RateLimitLayer::new(ByKey::new(|head: &Head<'_>| head.method.as_str().to_owned(), keyed(burst, &clock))))
        }, &keys)?;
        on_two_clocks(|clock| {
            let clients = PerClient::new(keyed::<ClientAddress>(burst, &clock));
            costly(RateLimitLayer::new(clients.prefix_v4(31, keyed(burst + 1, &clock)).prefix_v4(24, keyed(6, &clock))))
        }, &keys)?;
        on_two_clocks(|clock| {
            let tree = QuotaTree::builder(["team", "user"], ["requests"]).clock(clock).build().unwrap();
            costly(RateLimitLayer::new(TreeLimit::<str, 2, 1, Clock>::new(Arc::new(tree), move |head| {
                let user = head.headers.get(KEY)?.to_str().ok()?;
                let plan = |burst| Plan::new(quota(burst)).unwrap();
                Some([(Cow::Borrowed("team"), [plan(6)]), (Cow::Borrowed(user), [plan(burst)])])
            })))
        }, &keys)?;
    }

    // CLAIM: http::ServerStack::explain
    #[test]
    fn each_concurrency_limit_does_as_it_says(
        keys in prop::collection::vec((0..4_u8, 0..50_u64, any::<bool>()), 1..40),
        slots in 0..4_u32,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let _timers = runtime.enter();
        on_two_clocks(|_| ConcurrencyLayer::bulkhead(slots), &keys)?;
        on_two_clocks(|_| ConcurrencyLayer::bulkhead(slots).exempt(|head| head.headers[KEY] == "0"), &keys)?;
        on_two_clocks(|_| ConcurrencyLayer::new(Arc::new(Bulkhead::new(slots).queue(4))).waiting(Duration::from_secs(9)), &keys)?;
        on_two_clocks(|clock| {
            let gate: Admission<FixedLimit, Clock> = Admission::fixed_with_clock(slots, clock);
            ConcurrencyLayer::admission(gate)
        }, &keys)?;
        on_two_clocks(|clock| {
            let bounds = damper::concurrency::LimitBounds::DEFAULT;
            let gate: Admission<ProbedGradient, Clock> = Admission::with_clock(bounds, clock);
            ConcurrencyLayer::admission(gate)
        }, &keys)?;
    }
}

#[test]
fn parts_are_listed_in_order_and_see_what_those_outside_change() {
    let clock = Arc::new(ManualClock::new());
    let limiter = |burst| Arc::new(RateLimiter::<TokenBucket, _>::with_clock(quota(burst), Arc::clone(&clock)));
    let soft = RateLimitLayer::new(limiter(0)).named("so\"ft").unwrap().marking().at_most(Criticality::Sheddable);
    let stack = server_stack()
        .admission_layer(ConcurrencyLayer::bulkhead(0))
        .client_limit_layer(soft)
        .limit_layer(RateLimitLayer::new(limiter(2)).exempt(|head| {
            // The marks and the class are those that the request would have.
            damper::http::Marks::of(head).is_empty()
                || damper::http::CallClass::of(head).criticality() != Criticality::Sheddable
        }))
        .deadline_layer(DeadlineLayer::propagating().header(TIMEOUT, TimeoutUnit::Milliseconds))
        .criticality(
            CriticalityLayer::new(ClassHeaders::new(HeaderName::from_static("x-criticality")))
                .trusting(TrustedProxies::new(["192.0.2.0/24"]).unwrap()),
        );
    let mut request = request(7);
    request.headers_mut().insert("x-criticality", "critical-plus".parse().unwrap());
    request.headers_mut().insert(TIMEOUT, "1500".parse().unwrap());
    let explanation = stack.explain(&Head::of(&request));
    assert_eq!(
        explanation.to_string(),
        "class: passes: critical plus, without a tenant\n\
         deadline: passes: 1.5 s given\n\
         client limit \"so\\\"ft\": marks: rate limit exceeded, and no wait helps (0 left of 20/min burst 0)\n\
         limit \"default\": passes (2 left of 20/min burst 2)\n\
         admission: refuses: too many calls in flight, limit 0\n\
         refused by the admission"
    );
    assert_eq!(
        explanation.to_json(),
        "{\"refused_by\":4,\"parts\":[\
         {\"part\":\"class\",\"outcome\":\"passes\",\"detail\":\"critical plus, without a tenant\"},\
         {\"part\":\"deadline\",\"outcome\":\"passes\",\"detail\":\"1.5 s given\"},\
         {\"part\":\"client limit\",\"name\":\"so\\\"ft\",\"outcome\":\"marks\",\
         \"detail\":\"rate limit exceeded, and no wait helps\",\"quota\":\"20/min burst 0\",\"remaining\":0},\
         {\"part\":\"limit\",\"name\":\"default\",\"outcome\":\"passes\",\"quota\":\"20/min burst 2\",\"remaining\":2},\
         {\"part\":\"admission\",\"outcome\":\"refuses\",\"detail\":\"too many calls in flight, limit 0\"}]}"
    );
    assert_eq!(explanation.refused_by().map(ExplainedPart::place), Some("admission"));
    request.headers_mut().insert(TIMEOUT, "0".parse().unwrap());
    let explanation = stack.explain(&Head::of(&request));
    assert_eq!(explanation.refused_by().map(ExplainedPart::place), Some("deadline"));
    assert!(explanation.to_string().ends_with("\nrefused by the deadline"), "{explanation}");
}

/// A limit that decides elsewhere.
struct Elsewhere;

impl Limit for Elsewhere {
    type Future = std::future::Pending<damper::http::LimitAnswer>;

    fn decide(&self, _: &Head<'_>, _: u32, _: damper::http::Detail) -> damper::http::LimitDecision<Self::Future> {
        damper::http::LimitDecision::Wait(std::future::pending())
    }
}

#[test]
fn request_without_a_peer_and_a_limit_elsewhere_are_explained() {
    let stack = server_stack().limit_per_client(quota(1));
    let explanation = stack.explain(&Head::of(&Request::new(())));
    assert_eq!(
        explanation.to_string(),
        "client limit \"client\": refuses: the rate limit could not decide\nrefused by the client limit"
    );
    let explanation = stack.for_peer(([192, 0, 2, 1], 1).into()).explain(&Head::of(&Request::new(())));
    assert_eq!(explanation.to_string(), "client limit \"client\": passes (1 left of 20/min burst 1)\nnot refused");

    let stack = server_stack().limit_layer(RateLimitLayer::new(Arc::new(Elsewhere)));
    assert_eq!(stack.explain(&Head::of(&Request::new(()))).parts()[0].outcome(), PartOutcome::Unknown);
}

/// A transport that answers with the status that a header names.
#[derive(Clone)]
struct Transport;

impl Service<Request<()>> for Transport {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let mut response = Response::new(Full::from("answered"));
        *response.status_mut() = request.headers()[STATUS].to_str().unwrap().parse().unwrap();
        ready(Ok(response))
    }
}

const STATUS: HeaderName = HeaderName::from_static("x-status");

/// Makes a call of a client that ends at once.
fn client_call<L, R>(layer: &L, request: Request<()>) -> Result<Response<R>, StackError>
where
    L: Layer<Transport>,
    L::Service: Service<Request<()>, Response = Response<R>, Error = StackError>,
{
    let context = &mut Context::from_waker(Waker::noop());
    let mut service = layer.layer(Transport);
    let Poll::Ready(is_ready) = service.poll_ready(context) else { panic!("it is not ready") };
    is_ready?;
    match pin!(service.call(request)).poll(context) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it waits"),
    }
}

proptest! {
    #![proptest_config(cases(32))]

    /// The call gets the answer that a client's stack gives about it, and the question takes nothing.
    // CLAIM: http::ClientStack::explain
    #[test]
    fn client_does_as_it_says(
        calls in prop::collection::vec((any::<bool>(), 0..2_000_u64, any::<bool>()), 1..60),
        burst in 1..30_u32,
        slots in 0..4_u32,
        seed: u64,
    ) {
        let config = BreakerConfig::builder().failure_threshold(12).cooldown(Duration::from_secs(4)).build().unwrap();
        let stack = |clock: &Clock| {
            client_stack()
                .breakers(Arc::new(CircuitBreaker::with_clock(config, Arc::clone(clock))))
                .throttles(Arc::new(AdaptiveThrottle::with_clock(Arc::clone(clock), seed)))
                .limiter(Arc::new(RateLimiter::<TokenBucket, _>::with_clock(quota(burst), Arc::clone(clock))))
                .bulkhead_per_host(slots)
        };
        let clocks = [(); 2].map(|()| Arc::new(ManualClock::new()));
        let [asked, never_asked] = clocks.each_ref().map(stack);
        let mut held = Vec::new();
        for (succeeds, millis, holds) in calls {
            for clock in &clocks {
                clock.advance(Duration::from_millis(millis));
            }
            let request = || {
                let status = if succeeds { "200" } else { "503" };
                Request::get("http://one.example.com/").header(STATUS, status).body(()).unwrap()
            };
            let explanation = asked.explain(&Head::of(&request()));
            prop_assert_eq!(&explanation, &asked.explain(&Head::of(&request())));
            prop_assert!(explanation.parts().iter().all(|part| part.outcome() != PartOutcome::Unknown), "{}", explanation);
            let (answer, beside) = (client_call(&asked, request()), client_call(&never_asked, request()));
            let ending = |answer: &Result<Response<_>, StackError>| match answer {
                Ok(response) => Ok(response.status()),
                Err(error) => Err((error.part().as_str(), error.to_string())),
            };
            prop_assert_eq!(ending(&answer), ending(&beside), "an explanation has changed the stack");
            let refused_by = answer.as_ref().err().map(|error| error.part().as_str());
            prop_assert_eq!(explanation.refused_by().map(ExplainedPart::place), refused_by, "{}", explanation);
            if holds {
                held.push((answer, beside));
            } else if !held.is_empty() {
                drop(held.remove(0));
            }
        }
    }
}

#[tokio::test]
async fn each_part_of_a_client_says_what_it_would_do() {
    let stack = client_stack()
        .criticality(ClassHeaders::new(HeaderName::from_static("x-criticality")))
        .deadline(Duration::from_secs(2))
        .pacing(quota(9))
        .limit_layer(GateLayer::limit(Arc::new(RateLimiter::new(quota(0)))))
        .bulkhead(0)
        .attempt_timeout(Duration::from_millis(500));
    let mut request = Request::get("http://one.example.com/").header(STATUS, "200").body(()).unwrap();
    request.extensions_mut().insert(CallClass::new(Criticality::Sheddable));
    let explanation = stack.explain(&Head::of(&request));
    assert_eq!(
        explanation.to_string(),
        "class: passes: sheddable, without a tenant\n\
         deadline: passes: 2 s given\n\
         pacing: unknown: the pacer decides at the call\n\
         limit: refuses: rate limit exceeded: the burst is 0\n\
         concurrency: refuses: too many calls in flight, limit 0\n\
         attempt timeout: passes: 500 ms given\n\
         refused by the limit"
    );
    assert!(explanation.to_json().starts_with(
        "{\"refused_by\":3,\"parts\":[{\"part\":\"class\",\"outcome\":\"passes\",\"detail\":\"sheddable, without a tenant\"},"
    ));
    // A deadline that has passed, and one of which nothing is left beside the margin.
    request.extensions_mut().insert(Deadline::after(Duration::ZERO));
    let late = stack.explain(&Head::of(&request));
    assert_eq!(late.refused_by().map(ExplainedPart::place), Some("deadline"));
    let deadline = client_stack().deadline(Duration::from_secs(2));
    assert_eq!(client_call(&deadline, request).unwrap_err().part(), StackPart::Deadline);
    let tight = ClientDeadlineLayer::new(Duration::from_secs(2)).margin(Duration::from_secs(3));
    let tight = client_stack().deadline_layer(tight).explain(&Head::of(&Request::new(())));
    assert_eq!(tight.refused_by().map(ExplainedPart::place), Some("deadline"));
}

/// A program that shows an explanation in its own form reads the same from each part.
#[test]
fn parts_tell_their_name_their_wait_and_their_standing() {
    let clock = Arc::new(ManualClock::new());
    let limiter = Arc::new(RateLimiter::<TokenBucket, _>::with_clock(quota(2), Arc::clone(&clock)));
    let layer = RateLimitLayer::new(Arc::clone(&limiter)).named("orders").unwrap();
    let stack = server_stack().limit_layer(layer);
    limiter.check().unwrap();
    let part = stack.explain(&Head::of(&request(1))).parts()[0].clone();
    assert_eq!((part.name(), part.outcome(), part.detail()), (Some("orders"), PartOutcome::Passes, None));
    let standing = part.standing().unwrap();
    assert_eq!((standing.quota, standing.remaining), (quota(2), 1));

    limiter.check().unwrap();
    let explanation = stack.explain(&Head::of(&request(1)));
    let part = explanation.refused_by().unwrap();
    assert_eq!(part.retry_after(), Some(Duration::from_secs(3)));
    assert_eq!(part.detail(), Some("rate limit exceeded, retry in 3 s"));
    assert_eq!(part.standing().unwrap().remaining, 0);
    assert!(explanation.to_string().ends_with("\nrefused by the limit, retry in 3 s"), "{explanation}");
    assert!(explanation.to_json().contains("\"retry_after_ms\":3000"), "{}", explanation.to_json());
}

/// A request that would wait is not refused, neither at a server nor at a client.
#[tokio::test]
async fn request_that_would_wait_is_explained() {
    let limiter = Arc::new(RateLimiter::new(quota(1)));
    limiter.check().unwrap();
    let server = server_stack().limit_layer(RateLimitLayer::new(Arc::clone(&limiter)).wait(Duration::from_secs(9)));
    let pool = Arc::new(Bulkhead::new(1).queue(1));
    let _held = pool.try_acquire_owned().unwrap();
    let client = client_stack().concurrency_layer(ClientConcurrencyLayer::new(pool).waiting(Duration::from_secs(9)));
    let request = request(1);
    for explanation in [server.explain(&Head::of(&request)), client.explain(&Head::of(&request))] {
        assert_eq!(explanation.parts()[0].outcome(), PartOutcome::Waits, "{explanation}");
        assert!(explanation.refused_by().is_none());
        assert!(explanation.to_json().contains("\"outcome\":\"waits\""), "{}", explanation.to_json());
    }
    limiter.refund(1);
    assert_eq!(server.explain(&Head::of(&request)).parts()[0].outcome(), PartOutcome::Passes);
}

/// A request that may not wait for its token is explained as refused, with the wait of its response.
#[tokio::test]
async fn request_that_could_not_wait_long_enough_is_explained_as_refused() {
    // A token comes every 3 s.
    let limiter = |burst| {
        let limiter = RateLimiter::<TokenBucket, _>::with_clock(quota(burst), Arc::new(ManualClock::new()));
        _ = limiter.check();
        Arc::new(limiter)
    };
    let seconds = Duration::from_secs;
    let by = |deadline| {
        let mut request = request(1);
        request.extensions_mut().insert(Deadline::after(seconds(deadline)));
        request
    };
    for (burst, cost, longest, request, retry_after) in [
        (1, 1, 3, request(1), None),
        (1, 1, 2, request(1), Some("1")),
        (1, 1, 9, by(60), None),
        (1, 1, 9, by(1), Some("3")),
        (1, 2, 9, request(1), Some("never")),
        (0, 1, 9, request(1), Some("never")),
    ] {
        let layer = RateLimitLayer::new(limiter(burst)).cost(move |_| cost).wait(seconds(longest));
        let explanation = server_stack().limit_layer(layer.clone()).explain(&Head::of(&request));
        let outcome = if retry_after.is_some() { PartOutcome::Refuses } else { PartOutcome::Waits };
        assert_eq!(explanation.parts()[0].outcome(), outcome, "{burst}, {cost}, {longest}: {explanation}");
        let Some(response) = call(&layer, request) else {
            assert_eq!(retry_after, None, "{explanation}");
            continue;
        };
        let header = response.headers().get(RETRY_AFTER).map_or("never", |wait| wait.to_str().unwrap());
        assert_eq!(Some(header), retry_after, "{explanation}");
        let explained = explanation.parts()[0].retry_after().map(|wait| wait.as_secs_f64().ceil().to_string());
        assert_eq!(explained.as_deref().unwrap_or("never"), header, "{explanation}");
    }
}

/// A limit says the same with a log as without, and writes nothing to it.
#[test]
fn explanation_is_no_decision_that_is_logged() {
    let clock = Arc::new(ManualClock::new());
    let log = Arc::new(DecisionLog::with_clock(8, Arc::clone(&clock)));
    let limiter = Arc::new(RateLimiter::<TokenBucket, _>::with_clock(quota(1), Arc::clone(&clock)));
    let global = RateLimitLayer::new(Arc::clone(&limiter));
    let values = keyed::<[u8]>(1, &clock);
    let by_header = RateLimitLayer::new(ByHeader::new(KEY, Arc::clone(&values)));
    let explained = || {
        let request = request(1);
        let parts = |stack: &dyn Fn(&Head<'_>) -> damper::http::Explanation| stack(&Head::of(&request)).to_string();
        let (global, by_header) = (global.clone(), by_header.clone());
        let (logged, logged_by_header) =
            (global.clone().decision_log(Arc::clone(&log)), by_header.clone().decision_log(Arc::clone(&log)));
        [
            parts(&|head| server_stack().limit_layer(global.clone()).explain(head)),
            parts(&|head| server_stack().limit_layer(logged.clone()).explain(head)),
            parts(&|head| server_stack().limit_layer(by_header.clone()).explain(head)),
            parts(&|head| server_stack().limit_layer(logged_by_header.clone()).explain(head)),
        ]
    };
    let [global_passes, logged_passes, passes, also_passes] = explained();
    assert_eq!((&global_passes, &passes), (&logged_passes, &also_passes));
    limiter.check().unwrap();
    values.check(request(1).headers()[KEY].as_bytes()).unwrap();
    let [global_refuses, logged_refuses, refuses, also_refuses] = explained();
    assert_eq!((&global_refuses, &refuses), (&logged_refuses, &also_refuses));
    assert!(global_passes.ends_with("not refused") && global_refuses.contains("refused by the limit"));
    assert!(passes.ends_with("not refused") && refuses.contains("refused by the limit"));
    assert_eq!(log.written(), 0);
}

/// A breaker for all hosts refuses while it is open, and a class names its tenant.
#[test]
fn open_breaker_and_tenant_of_a_call_are_explained() {
    let single = Single::builder(BreakerConfig::DEFAULT).build();
    let stack = client_stack()
        .criticality(
            ClassHeaders::new(HeaderName::from_static("x-criticality")).tenant(HeaderName::from_static("x-tenant")),
        )
        .breakers(single.clone());
    let mut request = Request::get("http://one.example.com/").body(()).unwrap();
    request.extensions_mut().insert(CallClass::new(Criticality::Critical).tenant("acme").unwrap());
    let passes = stack.explain(&Head::of(&request));
    assert_eq!(passes.parts()[0].detail(), Some("critical, tenant acme"));
    assert!(passes.refused_by().is_none());
    single.breaker().force_open();
    let refuses = stack.explain(&Head::of(&request));
    assert_eq!(refuses.refused_by().and_then(ExplainedPart::detail), Some("circuit forced open"));
}

/// A callback that asks a stack about its request asks about the peer that its own layer was made for.
#[test]
fn head_keeps_its_peer_through_an_explanation() {
    let clock = Arc::new(ManualClock::new());
    let clients = keyed::<ClientAddress>(1, &clock);
    clients.check(&ClientAddress::from(std::net::IpAddr::from([192, 0, 2, 7]))).unwrap();
    let inner = server_stack().client_limit_layer(RateLimitLayer::new(PerClient::new(clients)));
    let nothing = Arc::new(RateLimiter::<TokenBucket, _>::with_clock(quota(0), clock));
    let layer = RateLimitLayer::new(nothing).exempt(move |head| inner.explain(head).refused_by().is_none());
    let status_of = |last: u8| {
        let layer = layer.for_peer(([192, 0, 2, last], 1).into());
        call(&layer, Request::new(())).unwrap().status()
    };
    assert_eq!(status_of(7), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status_of(8), StatusCode::OK);
}
