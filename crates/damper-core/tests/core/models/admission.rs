//! A model of a gate with a fixed limit: plain lists of calls, searched linearly.
//!
//! It has no word, no slab and no hashes.

use damper::concurrency::RefusalCause;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Waiting,
    /// It has a slot.
    Granted,
    Refused(RefusalCause),
}

/// A call. Later calls have higher names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) name: usize,
    pub(crate) class: usize,
    pub(crate) tenant: u32,
    /// The tick at which the call must have ended.
    pub(crate) deadline: Option<u64>,
}

impl Call {
    fn is_late(&self, now: u64, needed: u64) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now + needed)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct AdmissionModel {
    limit: u32,
    places: usize,
    /// Includes granted calls that have not been polled since.
    in_flight: u32,
    waiting: Vec<Call>,
    /// Granted calls that have not been polled since.
    granted: Vec<Call>,
    /// Refused calls that have not been polled since.
    refused: Vec<(Call, RefusalCause)>,
    /// The vacant places, each with the refused call that left it. The next call gets the first one.
    vacant: VecDeque<Option<usize>>,
    /// The calls started, by class and tenant.
    starts: HashMap<(usize, u32), u64>,
}

impl AdmissionModel {
    pub(crate) fn new(limit: u32, places: usize) -> Self {
        let (waiting, granted, refused, starts) = Default::default();
        Self { limit, places, in_flight: 0, waiting, granted, refused, vacant: vec![None; 2 * places].into(), starts }
    }

    /// The limit, the calls in flight, and the waiting calls.
    pub(crate) fn counts(&self) -> [u32; 3] {
        [self.limit, self.in_flight, self.waiting.len() as u32]
    }

    pub(crate) fn queued_of(&self, class: usize) -> u32 {
        self.waiting.iter().filter(|call| call.class == class).count() as u32
    }

    pub(crate) fn try_acquire(&mut self, call: &Call, now: u64) -> Standing {
        if call.is_late(now, 0) {
            return Standing::Refused(RefusalCause::Late);
        }
        if self.in_flight >= self.limit {
            return Standing::Refused(RefusalCause::NoSlot);
        }
        self.in_flight += 1;
        Standing::Granted
    }

    /// A call arrives, and waits if it has to. Calls take `needed` ticks.
    pub(crate) fn join(&mut self, call: Call, now: u64, needed: u64) -> Standing {
        if self.try_acquire(&call, now) == Standing::Granted {
            return Standing::Granted;
        }
        if call.is_late(now, needed) {
            return Standing::Refused(RefusalCause::Late);
        }
        if self.longest() == 0 {
            return Standing::Refused(RefusalCause::NoSlot);
        }
        if self.waiting.len() == self.longest() || self.vacant.is_empty() {
            match self.victim(Some(&call)) {
                Some(victim) if self.waiting[victim].class >= call.class => {
                    self.refuse(victim, RefusalCause::Displaced);
                }
                _ => return Standing::Refused(RefusalCause::QueueFull),
            }
        }
        self.vacant.pop_front().expect("a place is vacant");
        self.waiting.push(call);
        Standing::Waiting
    }

    /// A call is polled. If it no longer waits, its place may already belong to another call.
    pub(crate) fn ask(&mut self, name: usize, now: u64, needed: u64) -> Standing {
        if let Some(at) = self.granted.iter().position(|call| call.name == name) {
            let call = self.granted.remove(at);
            self.vacant.push_back(None);
            if call.is_late(now, 0) {
                self.end(now, needed);
                return Standing::Refused(RefusalCause::Late);
            }
            return Standing::Granted;
        }
        if let Some(at) = self.refused.iter().position(|(call, _)| call.name == name) {
            let (call, cause) = self.refused.remove(at);
            let guess = if call.is_late(now, needed) { RefusalCause::Late } else { RefusalCause::Displaced };
            let is_known = self.vacant.contains(&Some(name));
            return Standing::Refused(if is_known { cause } else { guess });
        }
        let at =
            self.waiting.iter().position(|call| call.name == name).expect("the call is queued, granted or refused");
        if self.waiting[at].is_late(now, needed) {
            self.waiting.remove(at);
            self.vacant.push_back(None);
            return Standing::Refused(RefusalCause::Late);
        }
        Standing::Waiting
    }

    /// A call is cancelled, in any state.
    pub(crate) fn give_up(&mut self, name: usize, now: u64, needed: u64) {
        self.refused.retain(|(call, _)| call.name != name);
        if let Some(at) = self.waiting.iter().position(|call| call.name == name) {
            self.waiting.remove(at);
            self.vacant.push_back(None);
        }
        if let Some(at) = self.granted.iter().position(|call| call.name == name) {
            self.granted.remove(at);
            self.vacant.push_back(None);
            self.end(now, needed);
        }
    }

    /// A call in flight ends.
    pub(crate) fn end(&mut self, now: u64, needed: u64) {
        self.in_flight -= 1;
        self.grant(now, needed);
    }

    pub(crate) fn set_limit(&mut self, limit: u32, now: u64, needed: u64) {
        self.limit = limit;
        self.grant(now, needed);
        while self.waiting.len() > self.longest()
            && let Some(victim) = self.victim(None)
        {
            self.refuse(victim, RefusalCause::Displaced);
        }
    }

    /// Whether the call still waits.
    pub(crate) fn is_undecided(&self, name: usize) -> bool {
        self.waiting.iter().any(|call| call.name == name)
    }

    fn longest(&self) -> usize {
        self.places.min(self.limit as usize)
    }

    fn refuse(&mut self, at: usize, cause: RefusalCause) {
        let call = self.waiting.remove(at);
        self.refused.push((call, cause));
        self.vacant.push_back(Some(call.name));
    }

    fn grant(&mut self, now: u64, needed: u64) {
        while self.in_flight < self.limit
            && let Some(next) = self.next()
        {
            if self.waiting[next].is_late(now, needed) {
                self.refuse(next, RefusalCause::Late);
                continue;
            }
            let call = self.waiting.remove(next);
            self.granted.push(call);
            self.in_flight += 1;
            let starts = self.starts(&call);
            self.starts.insert((call.class, call.tenant), starts + 1);
        }
    }

    /// Counts at most ten fewer than the highest count of the class.
    fn starts(&self, call: &Call) -> u64 {
        let of_class = self.starts.iter().filter(|((class, _), _)| *class == call.class);
        let highest = of_class.map(|(_, starts)| *starts).max().unwrap_or(0);
        let own = self.starts.get(&(call.class, call.tenant)).copied().unwrap_or(0);
        own.max(highest.saturating_sub(10))
    }

    /// Picks the highest class, in it the tenant with the fewest starts, and its newest call.
    fn next(&self) -> Option<usize> {
        (0..self.waiting.len()).min_by_key(|&at| {
            let call = &self.waiting[at];
            (call.class, self.starts(call), Reverse(call.name))
        })
    }

    /// Picks the lowest class, in it the tenant with the most calls, and its oldest call.
    ///
    /// A newcomer counts towards its tenant.
    fn victim(&self, newcomer: Option<&Call>) -> Option<usize> {
        (0..self.waiting.len()).max_by_key(|&at| {
            let call = &self.waiting[at];
            let same = |other: &&Call| (other.class, other.tenant) == (call.class, call.tenant);
            let calls = self.waiting.iter().chain(newcomer).filter(same).count();
            (call.class, calls, Reverse(call.name))
        })
    }
}
