//! Latencies of requests: a histogram that threads share without a lock, and the layer that fills it.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use damper_core::time::{Clock, Monotonic};
use histogram::{AtomicHistogram, Config, Histogram, Quantile};
use pin_project_lite::pin_project;

// The histogram is the crate histogram's: a count takes 27 instructions, and hdrhistogram behind a lock of parking_lot 80. Two threads on two
// cores took 18 ns and 50 ns a value. hdrhistogram's own recorder for threads has a queue that allocates.

/// Values are kept to 1 in 2^5, which is 3 %.
const PRECISION: u8 = 5;

/// Longer latencies count as 2^44 ticks, which is over an hour of a clock of 4 GHz.
const LARGEST: u8 = 44;

const SHAPE: Config = match Config::new(PRECISION, LARGEST) {
    Ok(shape) => shape,
    // While it compiles.
    Err(_) => panic!("the shape of the histogram"),
};

/// The latencies of a service's calls, for the page. It is the layer that records them.
///
/// Clones share one histogram, of 10 KiB and a relative error of 3 %. To record a latency takes two readings of the clock and one addition
/// to an atomic count: no lock and no allocation. Readers change nothing.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub extern crate damper_live as live; }
/// use damper::live::{Latencies, LivePage};
/// use std::time::Duration;
///
/// let queries = Latencies::new("queries");
/// let page = LivePage::new().latencies(&queries);
/// queries.record(Duration::from_millis(12));
/// # let _ = page;
/// ```
#[derive(Clone)]
pub struct Latencies(Arc<Recorded>);

struct Recorded {
    name: String,
    /// In ticks of [`Monotonic`], so that a call needs no conversion.
    ticks: AtomicHistogram,
}

/// The percentiles of the latencies of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Percentiles {
    pub(super) calls: u64,
    /// In seconds: of 50, 90 and 99 in a hundred calls, and the longest.
    pub(super) seconds: [f64; 4],
}

impl Latencies {
    /// Creates a histogram without latencies.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(Arc::new(Recorded { name: name.into(), ticks: AtomicHistogram::with_config(&SHAPE) }))
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Records a latency that the caller has measured.
    pub fn record(&self, latency: Duration) {
        let ticks = latency.as_nanos().saturating_mul(Monotonic.frequency().into()) / 1_000_000_000;
        self.record_ticks(u64::try_from(ticks).unwrap_or(u64::MAX));
    }

    #[inline]
    fn record_ticks(&self, ticks: u64) {
        // ORDERING: histogram adds to one count, Relaxed: nothing is published through it.
        // Below the largest value there is always a bucket.
        _ = self.0.ticks.increment(ticks.min((1 << LARGEST) - 1));
    }

    /// Records how long a service takes for each response.
    ///
    /// A latency lasts from the call to the head of the response. A response with any status counts; an error and a call that is dropped
    /// do not.
    pub fn layer<S>(&self, service: S) -> Timed<S> {
        Timed { service, latencies: self.clone() }
    }

    /// Returns all that was recorded so far.
    pub(super) fn so_far(&self) -> Histogram {
        self.0.ticks.load()
    }

    /// Returns the percentiles of what was recorded since an earlier state; `None` without a call.
    pub(super) fn since(earlier: &Histogram, now: &Histogram) -> Option<Percentiles> {
        // Counts only grow, and threads add to them meanwhile, so a later state is never less.
        let recent = now.checked_sub(earlier).ok()?;
        let calls = recent.iter().map(|bucket| bucket.count()).sum();
        if calls == 0 {
            return None;
        }
        let found = recent.quantiles(&[0.5, 0.9, 0.99, 1.0]).ok()??;
        let of = |quantile| {
            let bucket = Quantile::new(quantile).ok().and_then(|quantile| found.get(&quantile));
            seconds(bucket.map_or(0, histogram::Bucket::end))
        };
        Some(Percentiles { calls, seconds: [of(0.5), of(0.9), of(0.99), of(1.0)] })
    }
}

#[expect(clippy::cast_precision_loss, reason = "3 % is far more than an f64 loses")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / Monotonic.frequency().max(1) as f64
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latencies").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl<S> tower_layer::Layer<S> for Latencies {
    type Service = Timed<S>;

    fn layer(&self, service: S) -> Timed<S> {
        self.layer(service)
    }
}

/// A service whose latencies are recorded. Made by [`Latencies::layer`].
#[derive(Clone, Debug)]
pub struct Timed<S> {
    service: S,
    latencies: Latencies,
}

impl<S: tower_service::Service<R>, R> tower_service::Service<R> for Timed<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = TimedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: R) -> Self::Future {
        TimedFuture { began: Monotonic.now(), call: self.service.call(request), latencies: self.latencies.clone() }
    }
}

impl<S: hyper::service::Service<R>, R> hyper::service::Service<R> for Timed<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = TimedFuture<S::Future>;

    #[inline]
    fn call(&self, request: R) -> Self::Future {
        TimedFuture { began: Monotonic.now(), call: self.service.call(request), latencies: self.latencies.clone() }
    }
}

pin_project! {
    /// A call whose latency is recorded. Made by [`Timed`].
    #[derive(Debug)]
    pub struct TimedFuture<F> {
        #[pin]
        call: F,
        // In ticks.
        began: u64,
        latencies: Latencies,
    }
}

impl<F: Future<Output = Result<T, E>>, T, E> Future for TimedFuture<F> {
    type Output = Result<T, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        let this = self.project();
        let result = ready!(this.call.poll(cx));
        if result.is_ok() {
            // The clocks of two cores may differ by a little.
            this.latencies.record_ticks(Monotonic.now().saturating_sub(*this.began));
        }
        Poll::Ready(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_interval() {
        let latencies = Latencies::new("test");
        latencies.record(Duration::from_secs(10));
        let earlier = latencies.so_far();
        assert_eq!(Latencies::since(&earlier, &latencies.so_far()), None, "nothing since");
        for millis in 1..=1_000 {
            latencies.record(Duration::from_millis(millis));
        }
        let Some(Percentiles { calls, seconds }) = Latencies::since(&earlier, &latencies.so_far()) else {
            unreachable!("there are calls");
        };
        assert_eq!(calls, 1_000);
        for (found, expected) in seconds.into_iter().zip([0.5, 0.9, 0.99, 1.0]) {
            assert!((found / expected - 1.0).abs() < 0.04, "{found} for {expected}");
        }
    }

    #[test]
    fn extreme_latencies_are_recorded() {
        let latencies = Latencies::new("test");
        let earlier = latencies.so_far();
        latencies.record(Duration::ZERO);
        latencies.record(Duration::MAX);
        assert_eq!(Latencies::since(&earlier, &latencies.so_far()).map(|found| found.calls), Some(2));
    }
}
