//! A model of a bulkhead and its queue: plain lists of names, searched linearly.
//!
//! It has no word and no slab.

use damper::concurrency::RefusalCause;

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Waiting,
    /// It has a slot.
    Granted,
    Refused(RefusalCause),
}

#[derive(Clone, Debug)]
struct Call {
    name: usize,
    /// The tick at which the call gives up.
    expiry: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct BulkheadModel {
    limit: u32,
    places: usize,
    is_newest_first: bool,
    /// Includes granted calls that have not been polled since.
    in_flight: u32,
    /// Waiting calls, in order of arrival.
    waiting: Vec<Call>,
    /// Granted calls that have not been polled since.
    granted: Vec<usize>,
    /// Displaced calls that have not been polled since. Their refusal depends on whether they have expired.
    displaced: Vec<Call>,
}

impl BulkheadModel {
    pub(crate) fn new(limit: u32, places: usize, is_newest_first: bool) -> Self {
        let (waiting, granted, displaced) = Default::default();
        Self { limit, places, is_newest_first, in_flight: 0, waiting, granted, displaced }
    }

    /// The limit, the calls in flight, and the waiting calls.
    pub(crate) fn counts(&self) -> [u32; 3] {
        [self.limit, self.in_flight, self.waiting.len() as u32]
    }

    pub(crate) fn try_acquire(&mut self) -> bool {
        let is_free = self.in_flight < self.limit;
        self.in_flight += u32::from(is_free);
        is_free
    }

    /// A call arrives, and waits until `expiry` if it has to.
    pub(crate) fn join(&mut self, name: usize, expiry: Option<u64>, now: u64) -> Standing {
        if self.try_acquire() {
            return Standing::Granted;
        }
        if self.places == 0 {
            return Standing::Refused(RefusalCause::NoQueue);
        }
        if expiry.is_some_and(|expiry| expiry <= now) {
            return Standing::Refused(RefusalCause::TimedOut);
        }
        if self.waiting.len() + self.granted.len() == self.places {
            if !self.is_newest_first || self.waiting.is_empty() {
                return Standing::Refused(RefusalCause::QueueFull);
            }
            let oldest = self.waiting.remove(0);
            self.displaced.push(oldest);
        }
        self.waiting.push(Call { name, expiry });
        Standing::Waiting
    }

    /// A call is polled. If it no longer waits, its place may already belong to another call.
    pub(crate) fn ask(&mut self, name: usize, now: u64) -> Standing {
        if let Some(at) = self.granted.iter().position(|&granted| granted == name) {
            self.granted.remove(at);
            return Standing::Granted;
        }
        let is_over = |call: &Call| call.expiry.is_some_and(|expiry| expiry <= now);
        if let Some(at) = self.displaced.iter().position(|call| call.name == name) {
            let call = self.displaced.remove(at);
            let is_displaced = self.is_newest_first && !is_over(&call);
            return Standing::Refused(if is_displaced { RefusalCause::Displaced } else { RefusalCause::TimedOut });
        }
        let at =
            self.waiting.iter().position(|call| call.name == name).expect("the call is queued, granted or displaced");
        if is_over(&self.waiting[at]) {
            self.waiting.remove(at);
            return Standing::Refused(RefusalCause::TimedOut);
        }
        Standing::Waiting
    }

    /// A call is cancelled, in any state.
    pub(crate) fn give_up(&mut self, name: usize, now: u64) {
        self.waiting.retain(|call| call.name != name);
        self.displaced.retain(|call| call.name != name);
        if let Some(at) = self.granted.iter().position(|&granted| granted == name) {
            self.granted.remove(at);
            self.end(now);
        }
    }

    /// A call in flight ends.
    pub(crate) fn end(&mut self, now: u64) {
        self.in_flight -= 1;
        self.grant(now);
    }

    pub(crate) fn set_limit(&mut self, limit: u32, now: u64) {
        self.limit = limit;
        self.grant(now);
    }

    /// Whether the call still waits.
    pub(crate) fn is_undecided(&self, name: usize) -> bool {
        self.waiting.iter().any(|call| call.name == name)
    }

    fn grant(&mut self, now: u64) {
        while self.in_flight < self.limit && !self.waiting.is_empty() {
            let next = if self.is_newest_first { self.waiting.len() - 1 } else { 0 };
            let call = self.waiting.remove(next);
            if call.expiry.is_some_and(|expiry| expiry <= now) {
                self.displaced.push(call);
            } else {
                self.granted.push(call.name);
                self.in_flight += 1;
            }
        }
    }
}
