//! A small copy of the breaker's word, with the bugs that the real one does not have.
//!
//! Consecutive failures trip it, and its cooldown is over at once.

use damper_core::breaker::{State, Verdict};
use loom::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The operations of a model on a breaker, the real one or the copy.
pub trait ModelBreaker: Clone + Send + 'static {
    type Permit: Send + 'static;

    fn acquire(&self) -> Option<Self::Permit>;

    fn record(&self, permit: Self::Permit, verdict: Verdict);

    fn force_open(&self);

    fn reset(&self);

    /// Half-open as soon as it is open.
    fn state(&self) -> State;

    /// The states that were reported to the listener, with their generations.
    fn reported(&self) -> Vec<(u32, State)>;

    fn success(&self) {
        self.record(self.acquire().unwrap(), Verdict::Success);
    }

    fn failure(&self) {
        self.record(self.acquire().unwrap(), Verdict::Failure);
    }
}

/// When it trips, how many probes there are at once, and how many must succeed.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub failures: u32,
    pub probes: u32,
    pub successes: u32,
}

/// The flaws of this copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Nothing, to show that the copy is right.
    None,
    /// A result counts whatever its generation.
    AnyGeneration,
    /// A transition keeps the generation.
    KeepsGeneration,
    /// Probes are not limited.
    NoLimit,
    /// A success whose swap fails does not reset the consecutive failures.
    LostSuccess,
    /// The listener is notified even if the swap failed.
    NotifiesAnyway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SmallWord {
    state: State,
    generation: u32,
    /// Failures when closed, probes in flight when half-open.
    count: u32,
    succeeded: u32,
}

const STATES: [State; 4] = [State::Closed, State::Open, State::HalfOpen, State::ForcedOpen];

impl SmallWord {
    fn unpack(word: u64) -> Self {
        let byte = |index: u32| (word >> (8 * index) & 0xff) as u32;
        Self { state: STATES[byte(0) as usize], generation: byte(1), count: byte(2), succeeded: byte(3) }
    }

    fn pack(self) -> u64 {
        let state = STATES.iter().position(|&state| state == self.state).unwrap() as u64;
        state | u64::from(self.generation) << 8 | u64::from(self.count) << 16 | u64::from(self.succeeded) << 24
    }
}

#[derive(Clone, Debug)]
pub struct SmallBreaker(Arc<SmallBreakerState>);

#[derive(Debug)]
struct SmallBreakerState {
    bug: Bug,
    rules: Rules,
    word: AtomicU64,
    reported: Mutex<Vec<(u32, State)>>,
}

impl SmallBreaker {
    /// A closed one.
    pub fn new(bug: Bug, rules: Rules) -> Self {
        Self(Arc::new(SmallBreakerState { bug, rules, word: AtomicU64::new(0), reported: Mutex::default() }))
    }

    fn load(&self) -> SmallWord {
        SmallWord::unpack(self.0.word.load(Ordering::Relaxed))
    }

    fn replace(&self, old: SmallWord, new: SmallWord) -> bool {
        let (old_word, new_word) = (old.pack(), new.pack());
        let is_swapped = self.0.word.compare_exchange(old_word, new_word, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let is_change = old.state != new.state || old.generation != new.generation;
        if is_change && (is_swapped || self.0.bug == Bug::NotifiesAnyway) {
            self.0.reported.lock().unwrap().push((new.generation, new.state));
        }
        is_swapped
    }

    fn next_state(&self, word: SmallWord, state: State, count: u32) -> SmallWord {
        let generation = if self.0.bug == Bug::KeepsGeneration { word.generation } else { word.generation + 1 };
        SmallWord { state, generation, count, succeeded: 0 }
    }

    fn after(&self, word: SmallWord, verdict: Verdict) -> SmallWord {
        let rules = self.0.rules;
        match (word.state, verdict) {
            (State::Closed, Verdict::Success) => SmallWord { count: 0, ..word },
            (State::Closed, Verdict::Failure) if word.count + 1 < rules.failures => {
                SmallWord { count: word.count + 1, ..word }
            }
            (State::Closed | State::HalfOpen, Verdict::Failure) => self.next_state(word, State::Open, 0),
            (State::HalfOpen, Verdict::Success) if word.succeeded + 1 < rules.successes => {
                SmallWord { count: word.count.saturating_sub(1), succeeded: word.succeeded + 1, ..word }
            }
            (State::HalfOpen, Verdict::Success) => self.next_state(word, State::Closed, 0),
            (State::HalfOpen, _) => SmallWord { count: word.count.saturating_sub(1), ..word },
            _ => word,
        }
    }

    fn force(&self, state: State) {
        loop {
            let word = self.load();
            if self.replace(word, self.next_state(word, state, 0)) {
                return;
            }
        }
    }
}

impl ModelBreaker for SmallBreaker {
    /// The generation.
    type Permit = u32;

    fn acquire(&self) -> Option<u32> {
        let Rules { probes, successes, .. } = self.0.rules;
        loop {
            let word = self.load();
            let most = if self.0.bug == Bug::NoLimit { u32::MAX } else { probes };
            let next = match word.state {
                State::Closed => return Some(word.generation),
                State::Open => self.next_state(word, State::HalfOpen, 1),
                State::HalfOpen if word.count < most && word.count + word.succeeded < probes.max(successes) => {
                    SmallWord { count: word.count + 1, ..word }
                }
                _ => return None,
            };
            if self.replace(word, next) {
                return Some(next.generation);
            }
        }
    }

    fn record(&self, generation: u32, verdict: Verdict) {
        loop {
            let word = self.load();
            if word.generation != generation && self.0.bug != Bug::AnyGeneration {
                return;
            }
            let next = self.after(word, verdict);
            let is_lost = self.0.bug == Bug::LostSuccess && verdict == Verdict::Success;
            if next == word || self.replace(word, next) || is_lost {
                return;
            }
        }
    }

    fn force_open(&self) {
        self.force(State::ForcedOpen);
    }

    fn reset(&self) {
        self.force(State::Closed);
    }

    fn state(&self) -> State {
        match self.load().state {
            State::Open => State::HalfOpen,
            state => state,
        }
    }

    fn reported(&self) -> Vec<(u32, State)> {
        self.0.reported.lock().unwrap().clone()
    }
}
