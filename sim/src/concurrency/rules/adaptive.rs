//! damper's rule, on plain values.

use super::INITIAL;
use crate::concurrency::limit::{Finished, Limit, Outcome};

const TARGET: f64 = 1.4;
const WINDOW_SAMPLES: u32 = 50;
const PROBE_SAMPLES: u32 = 100;
const WINDOW_SECONDS: f64 = 0.5;
const PROBE_INTERVAL: f64 = 2.0;

/// The limit, its baseline and its probe.
#[derive(Clone, Debug)]
pub struct Adaptive {
    limit: f64,
    baseline: Option<f64>,
    in_flight: u32,
    window: Window,
    /// Completions that belong to the limit of before.
    skip: u32,
    /// The first full window of a life without a baseline is thrown away.
    warmed: bool,
    learned_at: f64,
    /// The highest limit since the baseline was learned.
    highest: f64,
    interval: f64,
    /// The last reading, if it is below the baseline by more than the target.
    low: Option<f64>,
    probe: Option<Probe>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    began: f64,
    finished: u32,
    samples: u32,
    log_sum: f64,
    peak: u32,
    refused: bool,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    began: f64,
    refused_at: f64,
    limit_before: f64,
    reading_before: f64,
    last: Option<f64>,
}

impl Adaptive {
    /// Creates a limit with the constants of the specification.
    #[must_use]
    pub fn new() -> Self {
        Self {
            limit: INITIAL,
            baseline: None,
            in_flight: 0,
            window: Window::default(),
            skip: 0,
            warmed: false,
            learned_at: 0.0,
            highest: INITIAL,
            interval: PROBE_INTERVAL,
            low: None,
            probe: None,
        }
    }

    /// Begins a window, after as many completions as are in flight if the limit changed.
    fn begin(&mut self, now: f64, limit_before: f64) {
        if (self.limit / limit_before - 1.0).abs() > 0.05 {
            self.skip = self.in_flight;
        }
        self.window = Window { began: now, peak: self.in_flight, ..Window::default() };
    }

    fn learn(&mut self, now: f64, baseline: f64) {
        self.baseline = Some(baseline);
        self.learned_at = now;
        self.highest = self.limit;
        self.low = None;
    }

    fn close(&mut self, now: f64) {
        let (window, before) = (self.window, self.limit);
        let dropped = f64::from(window.finished - window.samples) > 0.1 * f64::from(window.finished);
        if window.samples == 0 {
            if dropped && self.probe.is_none() {
                self.limit = (0.9 * self.limit).max(1.0);
            }
        } else {
            let reading = (window.log_sum / f64::from(window.samples)).exp();
            if self.probe.is_some() {
                self.probed(now, reading);
            } else {
                self.ordinary(now, reading, window, dropped);
            }
        }
        self.begin(now, before);
    }

    fn ordinary(&mut self, now: f64, reading: f64, window: Window, dropped: bool) {
        let full = window.refused || f64::from(window.peak) >= self.limit.floor();
        if f64::from(window.peak) <= self.limit / 2.0 && !window.refused {
            let learned = self.baseline.map_or(reading, |baseline| baseline.powf(0.8) * reading.powf(0.2));
            self.learn(now, learned);
            return;
        }
        if let Some(baseline) = self.baseline {
            if reading < baseline / TARGET {
                if let Some(low) = self.low {
                    self.baseline = Some(reading.max(low));
                    self.low = None;
                } else {
                    self.low = Some(reading);
                }
            } else {
                self.low = None;
            }
        }
        if !full {
            return;
        }
        if self.baseline.is_none() && !self.warmed {
            self.warmed = true;
            return;
        }
        let mut urgent = false;
        let before = self.limit;
        if let Some(baseline) = self.baseline {
            let gain = (TARGET * baseline / reading).clamp(0.5, 1.5);
            let gain = if gain > 1.0 / TARGET && gain < 1.0 { gain.sqrt() } else { gain };
            let mut next = self.limit * gain;
            if dropped {
                next = next.min(0.9 * self.limit);
            }
            if next < self.highest / 2.0 {
                next = self.highest / 2.0;
                urgent = true;
            }
            self.limit = next.max(1.0);
            self.highest = self.highest.max(self.limit);
        }
        if urgent || now - self.learned_at >= self.interval {
            self.probe =
                Some(Probe { began: now, refused_at: now, limit_before: before, reading_before: reading, last: None });
            self.limit = (self.limit / 2.0).floor().max(1.0);
        }
    }

    fn probed(&mut self, now: f64, reading: f64) {
        let Some(mut probe) = self.probe else { return };
        let first = probe.last.is_none();
        if let (true, Some(baseline)) = (first, self.baseline) {
            if reading >= baseline / 1.2 && reading <= TARGET * baseline {
                self.finish(now, probe, (baseline * reading).sqrt());
                self.interval = (2.0 * self.interval).min((30.0 * (now - probe.began)).max(30.0));
                return;
            }
        }
        let compared = probe.last.or((self.baseline.is_none()).then_some(probe.reading_before));
        let fell = compared.is_none_or(|before| before / reading > TARGET);
        if fell && self.limit > 1.0 {
            probe.last = Some(reading);
            self.probe = Some(probe);
            self.limit = (self.limit / 2.0).floor().max(1.0);
        } else {
            self.finish(now, probe, reading);
            self.interval = PROBE_INTERVAL;
        }
    }

    fn finish(&mut self, now: f64, probe: Probe, baseline: f64) {
        let kept = probe.limit_before * (TARGET * baseline / probe.reading_before).min(1.0);
        self.limit = self.limit.max(kept);
        self.learn(now, baseline);
        self.probe = None;
    }
}

impl Default for Adaptive {
    fn default() -> Self {
        Self::new()
    }
}

impl Limit for Adaptive {
    fn try_acquire(&mut self, now: f64, _call: usize) -> bool {
        if let Some(probe) = &mut self.probe {
            if now - probe.refused_at > 60.0 {
                let before = self.limit;
                self.limit = probe.limit_before;
                self.probe = None;
                self.begin(now, before);
            }
        }
        if f64::from(self.in_flight) < self.limit.floor() {
            self.in_flight += 1;
            self.window.peak = self.window.peak.max(self.in_flight);
            return true;
        }
        self.window.refused = true;
        if let Some(probe) = &mut self.probe {
            probe.refused_at = now;
        }
        false
    }

    fn finished(&mut self, now: f64, call: Finished) {
        self.in_flight -= 1;
        if self.skip > 0 {
            self.skip -= 1;
            if self.skip == 0 {
                self.window = Window { began: now, peak: self.in_flight, ..Window::default() };
            }
            return;
        }
        self.window.finished += 1;
        if call.outcome == Outcome::Success {
            self.window.samples += 1;
            self.window.log_sum += call.latency.ln();
        }
        let needed = if self.probe.is_some() { PROBE_SAMPLES } else { WINDOW_SAMPLES };
        if self.window.finished >= needed && now - self.window.began >= WINDOW_SECONDS {
            self.close(now);
        }
    }

    fn limit(&self) -> f64 {
        self.limit
    }
}
