//! The keys with the most decisions, from a log of decisions, in bounded memory.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Deref;
use core::time::Duration;
use damper_core::decision_log::{Decision, DecisionLog};
use damper_core::time::Clock;
use serde_json::{Value, json};
use std::collections::HashMap;

/// The most keys that are kept: 32 KiB.
const MOST_KEYS: usize = 1024;

/// The most decisions that are read for a sample. Of more, so many stand for all, at equal distances.
///
/// So a sample takes no longer under a flood. Shares of all decisions are then right to 2 % or so.
const MOST_DECISIONS: u64 = 2048;

/// The keys that a sample shows.
const SHOWN: usize = 10;

/// In this time a key that gets no more calls falls to a third.
const MEMORY: Duration = Duration::from_secs(5);

/// The calls of a key, weighted: the older, the less.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    all: f64,
    refused: f64,
}

/// Counts the decisions of the keys of one log.
///
/// When there are too many keys, the lighter half is forgotten, and the rest counts by so much less. So a key may count by a little less
/// than it had, and never by more (Misra and Gries, 1982).
#[derive(Debug, Default)]
pub(super) struct HotKeys {
    keys: HashMap<u64, Calls>,
    /// Of the last sample, all keys together.
    allowed: f64,
    refused: f64,
}

impl HotKeys {
    /// Forgets a part of what is older than the sample that follows.
    fn age(&mut self, by: Duration) {
        let kept = (-by.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        self.keys.retain(|_, calls| {
            calls.all *= kept;
            calls.refused *= kept;
            calls.all >= 0.1
        });
        (self.allowed, self.refused) = (0.0, 0.0);
    }

    /// Counts a decision that stands for `weight` of them.
    fn count(&mut self, decision: &Decision, weight: f64) {
        let refused = if decision.is_allowed { 0.0 } else { weight };
        self.refused += refused;
        self.allowed += weight - refused;
        if self.keys.len() >= MOST_KEYS && !self.keys.contains_key(&decision.key) {
            self.forget_half();
        }
        let calls = self.keys.entry(decision.key).or_default();
        calls.all += weight;
        calls.refused += refused;
    }

    fn forget_half(&mut self) {
        let mut counts: Vec<f64> = self.keys.values().map(|calls| calls.all).collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable_by(middle, f64::total_cmp);
        let median = *median;
        self.keys.retain(|_, calls| {
            let left = calls.all - median;
            calls.refused *= left.max(0.0) / calls.all;
            calls.all = left;
            left > 0.0
        });
    }

    /// Returns the rates of the keys with the most calls.
    fn hottest(&self) -> Vec<Value> {
        let mut keys: Vec<(&u64, &Calls)> = self.keys.iter().collect();
        let order = |a: &(&u64, &Calls), b: &(&u64, &Calls)| b.1.all.total_cmp(&a.1.all).then(a.0.cmp(b.0));
        if keys.len() > SHOWN {
            keys.select_nth_unstable_by(SHOWN, order);
            keys.truncate(SHOWN);
        }
        keys.sort_unstable_by(order);
        let rate = |calls: f64| (calls / MEMORY.as_secs_f64() * 10.0).round() / 10.0;
        let shown = |(key, calls): (&u64, &Calls)| json!({ "key": hexadecimal(*key), "calls": rate(calls.all), "refused": rate(calls.refused) });
        keys.into_iter().map(shown).collect()
    }
}

/// The 48 bits of a key's hash that a log has.
fn hexadecimal(key: u64) -> String {
    format!("{key:012x}")
}

/// A log of decisions, and how far it was read.
pub(super) struct WatchedLog {
    /// The limit whose decisions are logged.
    limit: String,
    log: Box<dyn ReadLog>,
    /// How many decisions had been written when it was last read.
    seen: u64,
    hot: HotKeys,
}

/// A log on any clock, behind any pointer.
trait ReadLog: Send + Sync {
    fn written(&self) -> u64;

    /// Returns at most `MOST_DECISIONS` of the last `new` ones.
    fn read(&self, written: u64, new: u64) -> Vec<Decision>;
}

struct Behind<G>(G);

impl<G: Deref<Target = DecisionLog<C>> + Send + Sync, C: Clock> ReadLog for Behind<G> {
    fn written(&self) -> u64 {
        self.0.written()
    }

    fn read(&self, written: u64, new: u64) -> Vec<Decision> {
        // Writers that go on meanwhile overwrite the oldest, which readers then skip.
        let there = new.min(self.0.capacity().into());
        let read = there.min(MOST_DECISIONS);
        let at = |number: u64| written - there + number * there / read;
        (0..read).filter_map(|number| self.0.reader_after(at(number)).next()).collect()
    }
}

impl WatchedLog {
    pub(super) fn new<C: Clock>(
        limit: String,
        log: impl Deref<Target = DecisionLog<C>> + Send + Sync + 'static,
    ) -> Self {
        Self { limit, log: Box::new(Behind(log)), seen: 0, hot: HotKeys::default() }
    }

    /// Forgets the keys, and skips the decisions made while no page was open.
    pub(super) fn begin(&mut self) {
        self.seen = self.log.written();
        self.hot = HotKeys::default();
    }

    /// Reads what was written since the last time, `elapsed` ago.
    ///
    /// Without `elapsed` there are no rates yet.
    #[expect(clippy::cast_precision_loss, reason = "counts of one interval are far below 2^53")]
    pub(super) fn read(&mut self, elapsed: Option<Duration>) -> Value {
        let written = self.log.written();
        let new = written.saturating_sub(self.seen);
        let decisions = self.log.read(written, new);
        self.seen = written;
        self.hot.age(elapsed.unwrap_or_default());
        let weight = new as f64 / decisions.len().max(1) as f64;
        for decision in &decisions {
            self.hot.count(decision, weight);
        }
        let per_second = |count: f64| elapsed.map(|elapsed| (count / elapsed.as_secs_f64() * 10.0).round() / 10.0);
        json!({
            "limit": self.limit,
            "allowed": per_second(self.hot.allowed),
            "refused": per_second(self.hot.refused),
            "estimated": decisions.len() as u64 != new,
            "hottest": self.hot.hottest(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use damper_core::time::ManualClock;

    fn decision(key: u64, is_allowed: bool) -> Decision {
        Decision { at: Duration::ZERO, key, cost: 1, is_allowed }
    }

    #[test]
    fn heavy_keys_stay_in_a_flood_of_others() {
        let mut hot = HotKeys::default();
        for number in 0..200_000 {
            hot.count(&decision(1_000 + number, true), 1.0);
            assert!(hot.keys.len() <= MOST_KEYS);
            if number % 10 == 0 {
                hot.count(&decision(7, false), 1.0);
            }
        }
        let hottest = hot.hottest();
        assert_eq!(hottest.len(), SHOWN);
        assert_eq!(hottest[0]["key"], "000000000007");
        let calls = hot.keys[&7].all;
        // 220,000 decisions in 512 halves: the most that is forgotten of a key.
        assert!((20_000.0 - 220_000.0 / 512.0..=20_000.0).contains(&calls), "{calls}");
        assert!((hot.keys[&7].refused - calls).abs() < 1e-6, "all of its calls were refused");
    }

    #[test]
    fn keys_without_calls_are_forgotten() {
        let mut hot = HotKeys::default();
        (0..100).for_each(|_| hot.count(&decision(7, true), 1.0));
        hot.age(MEMORY);
        assert!((hot.keys[&7].all - 100.0 / core::f64::consts::E).abs() < 1e-6);
        hot.age(10 * MEMORY);
        assert!(hot.keys.is_empty());
    }

    #[test]
    fn sample_has_the_decisions_since_the_last_one() {
        let log = Arc::new(DecisionLog::with_clock(1 << 10, ManualClock::new()));
        let write = |answer: Result<(), ()>| log.record(0xBEEF, 1, &answer);
        write(Ok(()));
        let mut watched = WatchedLog::new("clients".into(), Arc::clone(&log));
        watched.begin();
        (0..30).for_each(|_| write(Ok(())));
        (0..10).for_each(|_| write(Err(())));
        let sample = watched.read(Some(Duration::from_secs(2)));
        assert_eq!((&sample["allowed"], &sample["refused"]), (&json!(15.0), &json!(5.0)));
        assert_eq!(sample["estimated"], false);
        assert_eq!(sample["hottest"][0], json!({ "key": "00000000beef", "calls": 8.0, "refused": 2.0 }));
        let sample = watched.read(Some(Duration::from_secs(1)));
        assert_eq!((&sample["allowed"], &sample["refused"]), (&json!(0.0), &json!(0.0)));
    }

    /// A decision between the beginning and the first sample would otherwise count as a thousand a second.
    #[test]
    fn first_sample_has_no_rates() {
        let log = Arc::new(DecisionLog::with_clock(64, ManualClock::new()));
        let mut watched = WatchedLog::new("clients".into(), Arc::clone(&log));
        watched.begin();
        log.record(7, 1, &Err::<(), _>(()));
        let sample = watched.read(None);
        assert_eq!((&sample["allowed"], &sample["refused"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn decisions_of_a_flood_are_estimated() {
        let log = Arc::new(DecisionLog::with_clock(1 << 17, ManualClock::new()));
        let mut watched = WatchedLog::new("clients".into(), Arc::clone(&log));
        watched.begin();
        // One in three is refused, and one key has a quarter of all.
        for number in 0..100_000 {
            let key = if number % 4 == 0 { 7 } else { number };
            log.record(key, 1, &if number % 3 == 0 { Err(()) } else { Ok(()) });
        }
        let sample = watched.read(Some(Duration::from_secs(1)));
        let close = |value: &Value, expected: f64| (value.as_f64().unwrap_or(0.0) / expected - 1.0).abs() < 0.1;
        assert!(close(&sample["refused"], 33_333.0) && close(&sample["allowed"], 66_667.0), "{sample}");
        assert_eq!((&sample["estimated"], &sample["hottest"][0]["key"]), (&json!(true), &json!("000000000007")));
        assert!(close(&sample["hottest"][0]["calls"], 25_000.0 / MEMORY.as_secs_f64()), "{sample}");
    }

    #[test]
    fn overwritten_decisions_are_estimated() {
        let log = Arc::new(DecisionLog::with_clock(64, ManualClock::new()));
        let mut watched = WatchedLog::new("clients".into(), Arc::clone(&log));
        watched.begin();
        (0..640).for_each(|number| log.record(number, 1, &if number % 2 == 0 { Ok(()) } else { Err(()) }));
        let sample = watched.read(Some(Duration::from_secs(1)));
        assert_eq!((&sample["allowed"], &sample["refused"]), (&json!(320.0), &json!(320.0)));
        assert_eq!(sample["estimated"], true);
    }
}
