//! Breakers on a clock of their own, and response bodies that follow a script.

use bytes::Bytes;
use damper::{BreakerConfig, CircuitBreaker, ManualClock};
use http::{HeaderMap, Request};
use http_body::{Body, Frame};
use http_body_util::Empty;
use std::collections::VecDeque;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub(crate) const COOLDOWN: Duration = Duration::from_secs(30);

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

pub(crate) type Clocked = Arc<CircuitBreaker<Arc<ManualClock>>>;

pub(crate) type Asked = Request<Empty<Bytes>>;

pub(crate) fn request() -> Asked {
    Request::default()
}

/// A breaker that trips on this many consecutive failures.
pub(crate) fn clocked(failures: u32) -> (Arc<ManualClock>, Clocked) {
    clocked_with(BreakerConfig::builder().failure_threshold(failures).build().unwrap())
}

/// A breaker of this configuration.
pub(crate) fn clocked_with(config: BreakerConfig) -> (Arc<ManualClock>, Clocked) {
    let clock = Arc::new(ManualClock::new());
    (Arc::clone(&clock), Arc::new(CircuitBreaker::with_clock(config, clock)))
}

/// Trips a closed breaker, and lets its cooldown pass.
pub(crate) fn let_probe(clock: &ManualClock, breaker: &Clocked) {
    while let Ok(permit) = breaker.try_acquire() {
        permit.failure();
    }
    clock.advance(COOLDOWN);
}

/// Panics without a message on stderr.
pub(crate) fn panic() -> ! {
    resume_unwind(Box::new("requested by the test"))
}

/// Whether the closure panics.
pub(crate) fn panics<T>(run: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(run)).is_err()
}

/// Polls a future that is ready at the first poll.
pub(crate) fn polled<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => std::panic!("the future is not ready at the first poll"),
    }
}

/// A body's next step.
pub(crate) enum Step {
    Data(&'static [u8]),
    Trailers(HeaderMap),
    Fail,
    Panic,
}

/// A body that follows the test's script, and ends when the test drops the script.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<VecDeque<Step>>>);

impl Script {
    pub(crate) fn of(steps: impl IntoIterator<Item = Step>) -> Self {
        Self(Arc::new(Mutex::new(steps.into_iter().collect())))
    }

    pub(crate) fn push(&self, step: Step) {
        self.0.lock().unwrap().push_back(step);
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let step = self.0.lock().unwrap().pop_front();
        Poll::Ready(Some(match step {
            Some(Step::Data(data)) => Ok(Frame::data(Bytes::from_static(data))),
            Some(Step::Trailers(trailers)) => Ok(Frame::trailers(trailers)),
            Some(Step::Fail) => Err("cut off".into()),
            Some(Step::Panic) => panic(),
            None if Arc::strong_count(&self.0) == 1 => return Poll::Ready(None),
            None => return Poll::Pending,
        }))
    }
}
