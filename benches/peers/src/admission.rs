//! One call through the gate of admission with a slot free: it is admitted, and its success recorded.
//!
//! No peer has one in Rust.

use crate::contest::{Contest, Side, calls, calls_on_threads};
use damper::Deadline;
use damper::concurrency::{Admission, AdmissionPermit, AdmissionRequest, Criticality};
use std::hint::black_box;
use std::time::Duration;

pub(crate) const CONTESTS: &[Contest] = &[
    Contest { name: "admission_call", damper: call, peer: None },
    // The same on two threads, of one gate.
    Contest { name: "admission_call_2t", damper: call_on_two_threads, peer: None },
];

/// A request with a class, a tenant and a deadline.
fn request() -> AdmissionRequest {
    let deadline = Deadline::after(Duration::from_hours(1));
    AdmissionRequest::new().criticality(Criticality::CriticalPlus).tenant("acme").by(&deadline)
}

fn call() -> Side {
    let (gate, request) = (Admission::default(), request());
    calls(move || black_box(&gate).try_acquire(black_box(request)).map(AdmissionPermit::success).is_ok())
}

fn call_on_two_threads() -> Side {
    let (gate, request) = (Admission::default(), request());
    calls_on_threads(2, move || gate.try_acquire(request).map(AdmissionPermit::success).is_ok())
}
