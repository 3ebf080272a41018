//! The pacer of Mesh clients against a slow model, which searches instant by instant.

use damper::ManualClock;
use damper::mesh::internal::{Next, ScopePacer, Sent, Turn};
use damper::mesh::{MeshBackoff, Response};
use damper::time::Seed;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

const FUNCTIONS: [&str; 3] = ["f", "g", "h"];

const SCOPES: [Option<&str>; 5] = [None, Some("global"), Some("service"), Some("user"), Some("function")];

/// The effect of responses and calls on a limit.
#[derive(Default)]
struct Limit {
    paused_until: Duration,
    interval: Duration,
    next: Duration,
    ends: Duration,
    newest: usize,
}

impl Limit {
    fn allows(&self, at: Duration) -> bool {
        at >= self.paused_until && (at >= self.ends || at >= self.next)
    }

    fn report(&mut self, number: usize, now: Duration, interval: Duration, ends: Duration) {
        if number >= self.newest {
            *self = Self { paused_until: self.paused_until, interval, next: now + interval, ends, newest: number };
        } else if now >= self.ends && !interval.is_zero() {
            (self.interval, self.next, self.ends) = (interval, now + interval, ends);
        } else if interval > self.interval {
            (self.interval, self.next) = (interval, self.next.max(now + interval));
            self.ends = self.ends.max(ends);
        }
    }
}

/// The limits by scope. Those of functions are also by function.
#[derive(Default)]
struct Model {
    limits: BTreeMap<(usize, &'static str), Limit>,
}

impl Model {
    fn limit(&mut self, scope: usize, function: &'static str) -> &mut Limit {
        self.limits.entry((scope, if scope == 4 { function } else { "" })).or_default()
    }

    fn counting(&self, function: &str) -> impl Iterator<Item = &Limit> {
        self.limits.iter().filter(move |((scope, of), _)| *scope < 4 || *of == function).map(|(_, limit)| limit)
    }

    /// Returns how late a call may be before it counts no more for calls of this function.
    fn longest_interval(&self, function: &str) -> Duration {
        self.counting(function).map(|limit| limit.interval).max().unwrap_or_default()
    }

    /// Returns the wait of a call that has no other before it.
    fn wait(&self, function: &str, now: Duration) -> Duration {
        let limits: Vec<_> = self.counting(function).collect();
        let instants = limits.iter().flat_map(|limit| [limit.paused_until, limit.next, limit.ends]);
        let instants = instants.filter(|at| *at > now).chain([now]);
        let allowed = instants.filter(|at| limits.iter().all(|limit| limit.allows(*at)));
        allowed.min().map_or(Duration::MAX, |at| at.saturating_sub(now))
    }

    fn send(&mut self, function: &str, now: Duration) {
        for ((scope, of), limit) in &mut self.limits {
            if *scope < 4 || *of == function {
                limit.next = now + limit.interval;
            }
        }
    }
}

/// Runs steps through the pacer and the model.
pub(crate) fn run(steps: &[(u8, u8, u16)]) {
    let clock = ManualClock::new();
    let pacer = ScopePacer::new(10, MeshBackoff::default().jitter(0), Seed::new(1, 2), &clock);
    let (mut model, mut now) = (Model::default(), Duration::ZERO);
    let mut turns: BTreeMap<u8, (Turn<'_, _>, &'static str)> = BTreeMap::new();
    // The place of each waiting call in the order of arrival, and the time at which it wakes.
    let (mut waiting, mut joined): (BTreeMap<u8, (u32, Duration)>, u32) = (BTreeMap::new(), 0);
    let mut sent: Vec<(Sent, &'static str)> = Vec::new();
    for &(kind, which, amount) in steps {
        let seconds = u64::from(amount % 100);
        match kind % 5 {
            0 => {
                let time = Duration::from_millis(u64::from(amount % 10_000));
                clock.advance(time);
                now += time;
            }
            1 => {
                let function = FUNCTIONS[usize::from(which) % 3];
                let (turn, function) = turns.entry(which % 6).or_insert_with(|| (pacer.turn(function), function));
                let function = *function;
                joined += 1;
                let (place, _) = *waiting.get(&(which % 6)).unwrap_or(&(joined, now));
                let late = model.longest_interval(function);
                let is_alone = waiting.values().all(|(other, due)| *other >= place || *due + late <= now);
                let longest = if amount % 4 == 0 { Duration::from_secs(seconds) } else { Duration::MAX };
                let (next, alone) = (turn.ask(longest), model.wait(function, now));
                match next {
                    Next::Due => {
                        assert_eq!(alone, Duration::ZERO, "sent too early");
                        let number = turn.send().expect("no other call was sent since");
                        model.send(function, now);
                        assert!(sent.last().is_none_or(|(last, _)| *last < number));
                        sent.push((number, function));
                    }
                    Next::Wait(wait) => assert!(wait >= alone && wait <= longest && !wait.is_zero()),
                    Next::GiveUp(wait) => assert!(wait >= alone && wait > longest),
                }
                if is_alone {
                    let wait = match next {
                        Next::Due => Duration::ZERO,
                        Next::Wait(wait) | Next::GiveUp(wait) => wait,
                    };
                    assert_eq!(wait, alone, "cancelled calls and those that wake late delay no other");
                }
                if let Next::Wait(wait) = next {
                    waiting.insert(which % 6, (place, now + wait));
                } else {
                    turns.remove(&(which % 6));
                    waiting.remove(&(which % 6));
                }
            }
            2 => {
                turns.remove(&(which % 6));
                waiting.remove(&(which % 6));
            }
            _ if sent.is_empty() => {}
            3 => {
                let index = usize::from(which) % sent.len();
                let (number, function) = sent[index];
                let scope = usize::from(amount / 100) % SCOPES.len();
                let remaining = u64::from(amount / 500) % 12;
                pacer.note(number, function, &usage(SCOPES[scope], remaining, seconds));
                let resets_in = Duration::from_secs(seconds);
                let parts = u32::try_from(remaining.max(1)).expect("below 12");
                let (interval, ends) = if remaining < 10 {
                    (resets_in / parts, now + resets_in)
                } else {
                    (Duration::ZERO, Duration::ZERO)
                };
                // The pacer does not keep functions that have enough left.
                if scope < 4 || !interval.is_zero() || model.limits.contains_key(&(scope, function)) {
                    model.limit(scope, function).report(index + 1, now, interval, ends);
                }
            }
            _ => {
                let (number, function) = sent[usize::from(which) % sent.len()];
                let scope = usize::from(amount / 100) % SCOPES.len();
                let wait = (amount % 3 != 0).then_some(seconds);
                pacer.note(number, function, &refusal(SCOPES[scope], wait));
                if let Some(wait) = wait {
                    let limit = model.limit(scope, function);
                    let wait = Duration::from_secs(wait).max(Duration::from_millis(1));
                    limit.paused_until = limit.paused_until.max(now + wait);
                }
            }
        }
    }
    turns.clear();
    for function in FUNCTIONS {
        let alone = model.wait(function, now);
        let expected = if alone.is_zero() { Next::Due } else { Next::GiveUp(alone) };
        let mut turn = pacer.turn(function);
        assert_eq!(turn.ask(Duration::ZERO), expected);
        if alone.is_zero() {
            assert!(turn.send().is_some());
            model.send(function, now);
        }
    }
}

fn response(errors: &serde_json::Value, meta: &serde_json::Value) -> Response {
    let document = json!({
        "protocol": { "name": "mesh", "version": "0.1.0" }, "id": null, "errors": errors, "meta": meta,
    });
    Response::from_json(document.to_string().as_bytes()).expect("a document of Mesh")
}

/// A response that reports this many left of 100.
pub(crate) fn usage(scope: Option<&str>, remaining: u64, resets_in: u64) -> Response {
    let usage = json!({
        "limit": 100, "used": 100 - remaining, "remaining": remaining,
        "window": { "value": 1, "unit": "minute" }, "resets_in": { "value": resets_in, "unit": "second" },
    });
    let meta = match scope {
        None => json!({ "rate_limit": usage }),
        Some(scope) => json!({ "rate_limits": { scope: usage } }),
    };
    response(&json!([]), &meta)
}

/// A refusal, with a wait in seconds if there is one.
pub(crate) fn refusal(scope: Option<&str>, retry_after: Option<u64>) -> Response {
    let mut details = json!({ "limit": 1, "used": 1, "window": { "value": 1, "unit": "minute" } });
    if let Some(scope) = scope {
        details["scope"] = json!(scope);
    }
    if let Some(seconds) = retry_after {
        details["retry_after"] = json!({ "value": seconds, "unit": "second" });
    }
    response(&json!([{ "code": "RATE_LIMITED", "message": "", "retryable": true, "details": details }]), &json!({}))
}
