//! One reading of everything on the page, shared by all browsers that look.

use super::control::{ChangeableLimit, SwitchableBreaker};
use super::hot_keys::WatchedLog;
use super::latency::Latencies;
use super::primitives::SwitchBreaker;
use super::recorder::{Capture, LiveRecorder};
use super::stream::event;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use core::cmp::Reverse;
use core::fmt;
use core::time::Duration;
use damper_core::breaker::StateChange;
use damper_metrics::Exporter;
use histogram::Histogram;
use metrics::Key;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use tokio::time::Instant;

/// A function that says something of the application.
pub(super) type Status = Box<dyn Fn() -> String + Send + Sync>;

/// The contents of the page.
#[derive(Default)]
pub(super) struct Watched {
    pub(super) exporter: Exporter,
    /// The limits whose quotas are shown as texts.
    pub(super) limits: Vec<(String, ChangeableLimit)>,
    /// The breakers whose changes are shown.
    pub(super) breakers: Vec<(String, SwitchableBreaker)>,
    pub(super) recorder: Option<LiveRecorder>,
    pub(super) logs: Vec<WatchedLog>,
    pub(super) latencies: Vec<WatchedLatencies>,
    pub(super) statuses: Vec<(String, Status)>,
}

/// Latencies, and the state that they had in the last sample.
pub(super) struct WatchedLatencies {
    latencies: Latencies,
    earlier: Histogram,
}

impl WatchedLatencies {
    pub(super) fn new(latencies: Latencies) -> Self {
        let earlier = latencies.so_far();
        Self { latencies, earlier }
    }

    fn read(&mut self) -> Value {
        let now = self.latencies.so_far();
        let found = Latencies::since(&self.earlier, &now);
        self.earlier = now;
        let name = self.latencies.name();
        match found {
            Some(found) => {
                let [p50, p90, p99, longest] = found.seconds;
                json!({ "name": name, "calls": found.calls, "p50": p50, "p90": p90, "p99": p99, "longest": longest })
            }
            None => json!({ "name": name, "calls": 0 }),
        }
    }
}

/// Reads what the page shows, at most once in an interval.
///
/// It has no thread and no task. The streams of open pages ask it when their timers ring; the first of them reads, and the others get what
/// it read. So nothing is read while no page is open.
pub(super) struct Sampler {
    interval: Duration,
    began: Instant,
    /// Locked by streams only, never by a request that is limited.
    state: Mutex<Sampling>,
}

struct Sampling {
    watched: Watched,
    last: Option<Sample>,
}

/// The values of one moment, as an event of a stream.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) number: u64,
    pub(super) at: Instant,
    pub(super) event: Bytes,
}

impl Sampler {
    pub(super) fn new(interval: Duration, watched: Watched) -> Self {
        Self { interval, began: Instant::now(), state: Mutex::new(Sampling { watched, last: None }) }
    }

    pub(super) const fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns the last sample if it is of this interval, or else a new one.
    pub(super) fn sample(&self, now: Instant) -> Sample {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let age = state.last.as_ref().map(|last| now.saturating_duration_since(last.at));
        if let (Some(last), Some(age)) = (&state.last, age)
            // A timer rings up to a millisecond early by another one's reckoning.
            && age + Duration::from_millis(2) < self.interval
        {
            return last.clone();
        }
        // After a pause there is no interval that rates could be of.
        let elapsed = age.filter(|age| *age <= 3 * self.interval);
        let number = state.last.as_ref().map_or(1, |last| last.number + 1);
        let at = now.saturating_duration_since(self.began);
        let values = state.watched.read(elapsed);
        let event = event("sample", &with(values, number, at));
        let sample = Sample { number, at: now, event };
        state.last = Some(sample.clone());
        sample
    }
}

fn with(mut values: Map<String, Value>, number: u64, at: Duration) -> Value {
    values.insert("number".into(), number.into());
    values.insert("at".into(), at.as_secs_f64().into());
    // The server's, so that the page and the server's logs name the same times.
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    values.insert("wall".into(), wall.as_secs_f64().into());
    Value::Object(values)
}

impl Watched {
    /// Reads everything. Rates are those since the last time, `elapsed` ago; without it they begin now.
    fn read(&mut self, elapsed: Option<Duration>) -> Map<String, Value> {
        if elapsed.is_none() {
            self.logs.iter_mut().for_each(WatchedLog::begin);
            self.latencies.iter_mut().for_each(|watched| watched.earlier = watched.latencies.so_far());
        }
        let read = Capture::of(|| self.exporter.record());
        // The recorder also keeps the totals that an exporter of the program wrote at its last scrape. Those just read are newer.
        let is_read: HashSet<&Key> = read.iter().map(|(key, _)| key).collect();
        let counted = self.recorder.iter().flat_map(LiveRecorder::totals).filter(|(key, _)| !is_read.contains(key));
        let series: Vec<Value> = read.iter().map(of_key).chain(counted.map(total)).collect();
        let logs: Vec<Value> = self.logs.iter_mut().map(|log| log.read(elapsed)).collect();
        let latencies: Vec<Value> = self.latencies.iter_mut().map(WatchedLatencies::read).collect();
        let statuses: Vec<Value> =
            self.statuses.iter().map(|(name, status)| json!({ "name": name, "text": status() })).collect();
        let quotas: Map<String, Value> =
            self.limits.iter().map(|(name, limit)| (name.clone(), limit.quota().to_string().into())).collect();
        let breakers: Vec<Value> =
            self.breakers.iter().filter_map(|(name, breaker)| changes_of(name, &**breaker)).collect();
        let mut values = Map::new();
        values.insert("breakers".into(), breakers.into());
        values.insert("quotas".into(), quotas.into());
        values.insert("series".into(), series.into());
        values.insert("logs".into(), logs.into());
        values.insert("latencies".into(), latencies.into());
        values.insert("statuses".into(), statuses.into());
        values
    }
}

/// The most changes that a sample has of a name.
const MOST_CHANGES: usize = 8;

/// The last changes of the breakers of a name, the oldest first; none if there are no breakers.
fn changes_of(name: &str, breaker: &dyn SwitchBreaker) -> Option<Value> {
    let (mut breakers, mut openings, mut changes) = (0_u64, 0_u64, Vec::new());
    breaker.visit_changes(&mut |recent| {
        breakers += 1;
        openings += u64::from(recent.openings());
        changes.extend(recent.iter());
        if changes.len() > 4 * MOST_CHANGES {
            keep_newest(&mut changes);
        }
    });
    keep_newest(&mut changes);
    let changes: Vec<Value> = changes.iter().map(of_change).collect();
    (breakers > 0).then(|| json!({ "name": name, "breakers": breakers, "openings": openings, "changes": changes }))
}

fn keep_newest(changes: &mut Vec<(StateChange, Duration)>) {
    changes.sort_by_key(|(_, ago)| Reverse(*ago));
    changes.drain(..changes.len().saturating_sub(MOST_CHANGES));
}

fn of_change((change, ago): &(StateChange, Duration)) -> Value {
    let [from, to] = [change.from(), change.to()].map(|state| state.to_string());
    json!([change.generation(), ago.as_secs_f64(), from, to, change.cause().to_string()])
}

/// A value with its name and labels. Values that JSON has no number for, such as infinities, are `null`.
fn of_key((key, value): &(Key, f64)) -> Value {
    let labels: Map<String, Value> =
        key.labels().map(|label| (label.key().into(), Value::from(label.value()))).collect();
    json!([key.name(), labels, value])
}

#[expect(clippy::cast_precision_loss, reason = "a page shows fewer digits than an f64 has")]
fn total((key, total): (Key, u64)) -> Value {
    of_key(&(key, total as f64))
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("interval", &self.interval).finish_non_exhaustive()
    }
}
