//! Inside damper's combinators.

use crate::{HOUR, TimeOfDay, call};
use damper::gate::{AnswerOf, AnyGate, Ask, Either, Exempt, Gate, Never, PerKey, Refusal, RefusalKind, Shared};
use damper::shadow::Shadowed;
use damper::tower::GateLayer;
use damper::{Bulkhead, CallError, ManualClock, Quota, RateLimiter, is_refusal};
use damper_opening_hours::{Closed, OpeningHours};
use std::convert::Infallible;
use std::error::Error;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use tower::{Layer, service_fn};

/// The opening hours of each shop, by its number.
#[derive(Clone)]
struct Shops<F>(Arc<[OpeningHours<F>]>);

impl<F: Fn() -> Duration> Gate for Shops<F> {
    type Permit = ();
    type Refusal = Closed;
    type Wait = Never<(), Closed>;
}

impl<F: Fn() -> Duration> Ask<usize> for Shops<F> {
    fn ask(&self, shop: &usize) -> AnswerOf<Self> {
        self.0[*shop].ask(shop)
    }
}

#[tokio::test]
async fn each_key_has_opening_hours_of_its_own() {
    let shop = |opens, closes| OpeningHours::new(opens, closes, || 7 * HOUR).unwrap();
    let shops = Shops(Arc::from([shop(6, 14), shop(9, 18)]));
    let gate = PerKey::new(|request: &(usize, u32)| request.0, shops);
    let mut service = GateLayer::new(gate).layer(service_fn(|(_, number)| ready(Ok::<u32, Infallible>(2 * number))));
    assert_eq!(call(&mut service, (0, 21)).await, Ok(42));
    let Err(CallError::Refused(closed)) = call(&mut service, (1, 21)).await else { panic!("it is closed") };
    assert_eq!((closed.retry_after(), closed.to_string()), (Some(2 * HOUR), "closed, opens at 9:00".to_owned()));
}

#[test]
fn absent_gate_passes_and_a_present_one_refuses_all_calls() {
    let gate = TimeOfDay::default().gate();
    let absent = Some(gate.clone()).filter(|_| false);
    assert!(absent.ask("a call").is_pass() && absent.refusal().is_none());
    let present = Some(gate);
    let closed = present.ask("a call").at_once().unwrap().unwrap_err();
    assert_eq!((closed.retry_after(), present.refusal()), (Some(8 * HOUR), Some(closed)));
}

#[test]
fn pair_refuses_by_the_outer_gate_first_and_holds_nothing() {
    let (time, pool) = (TimeOfDay::default(), Arc::new(Bulkhead::with_clock(1, ManualClock::new())));
    let outside = (time.gate(), Arc::clone(&pool));
    let Err(closed @ Either::First(_)) = outside.ask("a call").at_once().unwrap() else { panic!("it is closed") };
    assert_eq!((closed.kind(), closed.retry_after()), (RefusalKind::Unavailable, Some(8 * HOUR)));
    assert_eq!((closed.label(), closed.to_string()), ("closed", "closed, opens at 8:00".to_owned()));
    assert!(is_refusal(&closed));
    let inside = (Arc::clone(&pool), time.gate());
    assert!(matches!(inside.ask("a call").at_once().unwrap(), Err(Either::Second(_))));
    assert_eq!(pool.in_flight(), 0);

    time.set(8 * HOUR);
    let permit = outside.ask("a call").at_once().unwrap().unwrap();
    assert_eq!(pool.in_flight(), 1);
    assert!(matches!(outside.ask("a call").at_once().unwrap(), Err(Either::Second(_))));
    drop(permit);
    assert!(inside.ask("a call").is_pass());
}

#[tokio::test]
async fn gate_of_any_type_refuses_as_the_gate_inside() {
    let (time, limit) = (TimeOfDay::default(), RateLimiter::with_clock(Quota::per_hour(1), ManualClock::new()));
    let gates: [AnyGate<u32>; 2] = [AnyGate::new(time.gate()), AnyGate::new(Arc::new(limit))];
    let [hours, limit] = gates.map(GateLayer::new);
    let doubling = service_fn(|number| ready(Ok::<u32, Infallible>(2 * number)));
    let (mut hours, mut limit) = (hours.layer(doubling), limit.layer(doubling));
    assert_eq!(call(&mut limit, 21).await.unwrap(), 42);
    let error = call(&mut hours, 21).await.unwrap_err();
    assert_eq!(error.source().unwrap().to_string(), "closed, opens at 8:00");
    assert!(is_refusal(&error));
    let closed = error.refusal().unwrap();
    assert_eq!((closed.kind(), closed.retry_after()), (RefusalKind::Unavailable, Some(8 * HOUR)));
    time.set(8 * HOUR);
    assert_eq!(call(&mut hours, 21).await.unwrap(), 42);
}

#[test]
fn exempt_calls_pass_a_closed_gate() {
    let gate = Exempt::new(TimeOfDay::default().gate(), |path: &str| path == "/healthz");
    assert!(gate.ask("/healthz").is_pass() && !gate.ask("/").is_pass());
}

#[test]
fn candidate_hours_refuse_nothing_and_are_counted() {
    let time = TimeOfDay::default();
    let longer = OpeningHours::new(7, 22, || 7 * HOUR).unwrap();
    time.set(7 * HOUR);
    let gate = Shared::new(Shadowed::new(longer, time.gate()));
    assert!(gate.ask("a call").is_pass());
    assert_eq!((gate.report().only_by_candidate, gate.report().only_in_force), (1, 0));
}

#[test]
fn one_of_two_gates_is_chosen_at_run_time() {
    let gate = |is_limited| {
        let limit = RateLimiter::with_clock(Quota::per_hour(1), ManualClock::new());
        if is_limited { Either::First(Arc::new(limit)) } else { Either::Second(TimeOfDay::default().gate()) }
    };
    assert!(gate(true).ask("a call").is_pass());
    let Err(Either::Second(closed)) = gate(false).ask("a call").at_once().unwrap() else { panic!("it is closed") };
    assert_eq!(closed.retry_after(), Some(8 * HOUR));
}
