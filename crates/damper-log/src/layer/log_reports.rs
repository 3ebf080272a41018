//! Reports on demand, from outside of any event.

use super::report::with_request;
use super::sites::Sites;
use alloc::sync::Arc;
use core::fmt;
use damper_core::Clock;
use damper_core::time::DefaultClock;
use tracing::dispatcher::WeakDispatch;

/// Makes a [`LimitedLayer`](super::LimitedLayer) report what it suppressed.
///
/// Keep it until the program ends: when it is dropped, it reports what was suppressed last. It does nothing before the layer is
/// a part of a subscriber, and after the subscriber is dropped.
///
/// # Examples
///
/// A thread that reports the end of a flood, even if the program logs nothing else:
///
/// ```no_run
/// # extern crate damper_log as logs;
/// use logs::{LimitedLayer, Quota};
/// use std::{thread, time::Duration};
/// use tracing_subscriber::{fmt, prelude::*, registry};
///
/// let (layer, reports) = LimitedLayer::builder(Quota::per_second(1).burst(10)).build(fmt::layer())?;
/// registry().with(layer).init();
/// thread::spawn(move || {
///     loop {
///         thread::sleep(Duration::from_secs(1));
///         reports.tick();
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "layer")]
#[must_use = "it reports what was suppressed last when it is dropped"]
pub struct LogReports<C: Clock = DefaultClock> {
    sites: Arc<Sites<C>>,
}

impl<C: Clock> LogReports<C> {
    pub(super) const fn new(sites: Arc<Sites<C>>) -> Self {
        Self { sites }
    }

    /// Reports if it is time, as an event would. Call it from a timer of yours.
    pub fn tick(&self) {
        if self.sites.is_report_due() {
            self.flush();
        }
    }

    /// Reports all that was suppressed since the last reports.
    pub fn flush(&self) {
        // The inner layer can be called only with the context of a subscriber. So the layer is asked by an event, and reports
        // before any layer gets the event.
        if let Some(dispatch) = self.sites.dispatch.get().and_then(WeakDispatch::upgrade) {
            with_request(self.sites.number(), |request| dispatch.event(request));
        }
    }
}

impl<C: Clock> Drop for LogReports<C> {
    fn drop(&mut self) {
        self.flush();
    }
}

impl<C: Clock> fmt::Debug for LogReports<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogReports").field("sites", &self.sites).finish()
    }
}
