//! The gate in all places where damper has gates. A test sets the time of day, and waits for nothing.

mod before_grpc;
mod before_http;
mod before_services;
mod combined;
#[path = "../../../../crates/damper-tonic/tests/grpc/support.rs"]
#[expect(dead_code, reason = "some of it is for the other tests")]
mod grpc;
mod in_stacks;
#[path = "../../../../crates/damper-http/tests/http/support.rs"]
#[expect(dead_code, reason = "some of it is for the other tests")]
#[allow(unexpected_cfgs, reason = "this package has no feature `axum`")]
mod web;

use damper_opening_hours::{Closed, OpeningHours};
use std::error::Error;
use std::iter::successors;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tower::{Service, ServiceExt};

const HOUR: Duration = Duration::from_secs(3600);
const MIDNIGHT: Duration = Duration::ZERO;

/// The time of day, which is midnight until a test sets another.
#[derive(Clone, Default)]
struct TimeOfDay(Arc<AtomicU64>);

impl TimeOfDay {
    fn set(&self, time: Duration) {
        self.0.store(time.as_secs(), Ordering::Relaxed);
    }

    /// Returns a gate that is open from 8 to 20 by this time.
    fn gate(&self) -> OpeningHours<impl Fn() -> Duration + Clone + Send + Sync + use<>> {
        let time = self.clone();
        OpeningHours::new(8, 20, move || Duration::from_secs(time.0.load(Ordering::Relaxed))).unwrap()
    }
}

/// Counts the calls of a service.
#[derive(Clone, Default)]
struct Calls(Arc<AtomicUsize>);

impl Calls {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Makes a call once the service is ready.
async fn call<Q, S: Service<Q>>(service: &mut S, request: Q) -> Result<S::Response, S::Error> {
    service.ready().await?.call(request).await
}

/// Returns the refusal of the gate in the chain of an error's sources.
fn closed_in(error: &(dyn Error + 'static)) -> Option<Closed> {
    successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref().copied())
}
