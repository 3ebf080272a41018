//! One call through admission: a permit is given and dropped.

use crate::still::{SEED, still};
use crate::{Call, Row, rows};
use damper::Deadline;
use damper::concurrency::{Admission, AdmissionPermit, AdmissionRequest, LimitBounds};
use std::time::Duration;

pub(crate) const ROWS: &[Row] =
    rows![admission_fixed, admission_call, admission_ignored, admission_tenant, admission_full, admission_queued];

/// Under a fixed limit, dropped without a word.
fn admission_fixed() -> Call {
    let gate = Admission::fixed_with_clock(64, still!());
    Box::new(move || gate.try_acquire(AdmissionRequest::new()).is_ok())
}

/// A permit, and its success.
fn admission_call() -> Call {
    let gate = Admission::with_clock(LimitBounds::DEFAULT, still!());
    Box::new(move || gate.try_acquire(AdmissionRequest::new()).map(AdmissionPermit::success).is_ok())
}

/// A permit, dropped without a word.
fn admission_ignored() -> Call {
    let gate = Admission::with_clock(LimitBounds::DEFAULT, still!());
    Box::new(move || gate.try_acquire(AdmissionRequest::new()).map(AdmissionPermit::ignore).is_ok())
}

/// With a tenant and a deadline.
fn admission_tenant() -> Call {
    let clock = still!();
    let gate = Admission::with_clock(LimitBounds::DEFAULT, clock);
    let deadline = Deadline::with_clock(Duration::from_secs(1), clock);
    Box::new(move || {
        let request = AdmissionRequest::new().tenant(&7_u64).by(&deadline);
        gate.try_acquire(request).map(AdmissionPermit::success).is_ok()
    })
}

/// A call that finds no slot free.
fn admission_full() -> Call {
    let gate: &'static _ = Box::leak(Box::new(Admission::fixed_with_clock(1, still!())));
    let permit = gate.try_acquire(AdmissionRequest::new());
    Box::new(move || permit.is_ok() && gate.try_acquire(AdmissionRequest::new()).is_err())
}

/// A call that is queued beside seven others of as many tenants, and gives up.
fn admission_queued() -> Call {
    use std::future::{Future, pending};
    use std::task::{Context, Waker};
    let gate: &'static _ = Box::leak(Box::new(Admission::fixed_with_clock(8, still!()).seed(SEED)));
    let permits: Vec<_> = (0..8).map(|_| gate.try_acquire(AdmissionRequest::new())).collect();
    let call = move |tenant: u64| {
        let request = AdmissionRequest::new().tenant(&tenant);
        let mut call = Box::pin(gate.acquire(request).sleeping_by(|_| pending::<()>()));
        let is_queued = call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
        (call, is_queued)
    };
    let others: Vec<_> = (0..7).map(call).collect();
    Box::new(move || call(9).1 && permits.len() + others.len() == 15)
}
