//! Before services of tower.

use crate::{Calls, HOUR, TimeOfDay, call};
use damper::gate::Refusal;
use damper::tower::GateLayer;
use damper::{CallError, is_refusal};
use std::convert::Infallible;
use std::error::Error;
use std::future::{Pending, pending, ready};
use std::task::{Context, Poll};
use tower::{Layer, Service, service_fn};

#[tokio::test]
async fn calls_are_refused_as_errors_while_the_gate_is_closed() {
    let (time, calls) = (TimeOfDay::default(), Calls::default());
    let counted = calls.clone();
    let mut service = GateLayer::new(time.gate()).layer(service_fn(move |number: u32| {
        counted.add();
        ready(Ok::<_, Infallible>(2 * number))
    }));
    time.set(7 * HOUR + HOUR / 2);
    let error = call(&mut service, 21).await.unwrap_err();
    let source = error.source().unwrap().to_string();
    assert_eq!((error.to_string(), source), ("call refused".to_owned(), "closed, opens at 8:00".to_owned()));
    assert!(is_refusal(&error));
    let CallError::Refused(closed) = error;
    assert_eq!((closed.retry_after(), calls.count()), (Some(HOUR / 2), 0));

    time.set(8 * HOUR);
    assert_eq!((call(&mut service, 21).await, calls.count()), (Ok(42), 1));
    time.set(20 * HOUR);
    let closed = *call(&mut service, 21).await.unwrap_err().refusal().unwrap();
    assert_eq!((closed.retry_after(), calls.count()), (Some(12 * HOUR), 1));
}

/// A service that never becomes ready.
struct Busy;

impl Service<u32> for Busy {
    type Response = u32;
    type Error = Infallible;
    type Future = Pending<Result<u32, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Pending
    }

    fn call(&mut self, _: u32) -> Self::Future {
        pending()
    }
}

#[tokio::test]
async fn closed_gate_does_not_wait_for_the_service_to_be_ready() {
    let mut service = GateLayer::new(TimeOfDay::default().gate()).layer(Busy);
    assert!(matches!(call(&mut service, 21).await, Err(CallError::Refused(_))));
}
