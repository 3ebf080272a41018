//! The latency of the unloaded service, never measured under load, for rules that compare with it.

use crate::concurrency::{WindowPlan, WindowSummary};

/// The number of full windows without learning after which one is measured at a third of the limit.
const FULL_WINDOWS: u32 = 30;

/// The divisor of the limit for such a measurement.
///
/// A rule that lets latency rise by a factor has to cut by more than that factor: otherwise it measures the queue, and takes it
/// for the unloaded service.
const CUT: f64 = 3.0;

/// The latency of the unloaded service, as the logarithm of microseconds.
///
/// It is learned from windows in which at most a third of the limit was in flight. The lowest reading of other windows lowers it.
/// A limit that stays full is cut for one window now and then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unloaded {
    latency: Option<f64>,
    full_windows: u32,
    is_measuring: bool,
}

impl Unloaded {
    pub(super) const fn new() -> Self {
        // The first full window is followed by a measurement.
        Self { latency: None, full_windows: FULL_WINDOWS, is_measuring: false }
    }

    pub(super) const fn latency(&self) -> Option<f64> {
        self.latency
    }

    /// Returns whether the current window has a cut limit.
    pub(super) const fn is_measuring(&self) -> bool {
        self.is_measuring
    }

    /// Evaluates a window under `limit`, and returns the latency to compare its own with.
    ///
    /// `None` if the window says nothing about the limit.
    pub(super) fn learn(&mut self, window: &WindowSummary, limit: f64) -> Option<f64> {
        // First, because a window of only overloaded calls has no reading, and the next one is not that measurement.
        let was_measuring = core::mem::take(&mut self.is_measuring);
        let reading = window.log2_latency?;
        if was_measuring || f64::from(window.peak_in_flight) <= limit / CUT {
            self.latency = Some(reading);
            self.full_windows = 0;
        } else if self.latency.is_none_or(|latency| reading < latency) {
            self.latency = Some(reading);
        }
        if was_measuring { None } else { self.latency }
    }

    /// Returns the plan of the next window, after one under a limit of `old`.
    pub(super) fn plan(&mut self, window: &WindowSummary, old: f64, new: f64) -> WindowPlan {
        self.full_windows += u32::from(window.is_full(old as u32));
        if self.full_windows <= FULL_WINDOWS {
            return WindowPlan::new(new as u32).after(old, new, window.in_flight);
        }
        self.full_windows = 0;
        self.is_measuring = true;
        // The cut may be below the lowest bound, because a measurement at that bound could be that of a queue.
        let cut = (new / CUT).max(1.0);
        WindowPlan { skip: window.in_flight, ..WindowPlan::new(cut as u32) }
    }
}
