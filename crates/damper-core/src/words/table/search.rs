//! Searches every interleaving of a few processes on two slots, with kills at any step.
//!
//! A process is killed by not being scheduled any more, which each prefix of an interleaving is. Time moves between any two steps. Accesses
//! are sequentially consistent here; the models of loom have weak memory.
//!
//! Two claims are checked in every state that can be reached:
//!
//! - **No second burst.** A key has a burst of one token, which is refilled in [`REFILL`] units. Two of its takes are at least so far apart, by
//!   the clock readings on which they were decided.
//! - **Nothing is stuck.** If all processes but one are dead, and time passes until no key owes anything, a call of the one that is left is
//!   admitted, in a bounded number of steps.
//!
//! The rules that do not hold are searched too, and each of them has to be refuted.

extern crate std;

use super::newcomer::{Access, Arrival, Newcomer};
use super::slot::Slot;
use core::hash::{BuildHasher, BuildHasherDefault, Hash};
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::vec::Vec;

/// The time in which the token of a key is refilled.
const REFILL: u64 = 2;

/// The time at which the clock stops.
const LAST: u64 = 2;

const SLOTS: usize = 2;

/// More steps than a process takes that is alone.
const LONGEST: u32 = 40;

/// A rule by which a key gets a slot.
trait Way: Copy + Eq + Hash {
    fn start(fingerprint: u64, at: u64, nonce: u64) -> Self;
    fn access(&self) -> Access;
    fn found(&mut self, word: Slot, is_full: impl Fn(u64) -> bool) -> Option<End>;
}

/// The end of a way.
#[derive(Clone, Copy, Debug)]
enum End {
    Arrived(Arrival),
    /// The swap that inserted the key took the token too.
    Admitted,
}

/// The rule that the table has.
impl Way for Newcomer {
    fn start(fingerprint: u64, at: u64, nonce: u64) -> Self {
        Self::new(fingerprint, at, SLOTS, nonce)
    }

    fn access(&self) -> Access {
        self.access()
    }

    fn found(&mut self, word: Slot, is_full: impl Fn(u64) -> bool) -> Option<End> {
        self.found(word, is_full).map(End::Arrived)
    }
}

/// The rule that broke with equal provisional words: all processes have the same nonce.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct EqualWords(Newcomer);

impl Way for EqualWords {
    fn start(fingerprint: u64, at: u64, _: u64) -> Self {
        Self(Newcomer::new(fingerprint, at, SLOTS, 0))
    }

    fn access(&self) -> Access {
        self.0.access()
    }

    fn found(&mut self, word: Slot, is_full: impl Fn(u64) -> bool) -> Option<End> {
        self.0.found(word, is_full).map(End::Arrived)
    }
}

/// The rule that broke with one word: the swap that inserts a key takes its token.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct AdmittedByInsertion {
    fingerprint: u64,
    at: u64,
    next: usize,
    best: Option<(usize, Slot)>,
}

impl Way for AdmittedByInsertion {
    fn start(fingerprint: u64, at: u64, _: u64) -> Self {
        Self { fingerprint, at, next: 0, best: None }
    }

    fn access(&self) -> Access {
        match self.best {
            Some((best, old)) if self.next == SLOTS => {
                Access::Swap(best, old, Slot::confirmed(self.fingerprint, self.at + REFILL))
            }
            _ => Access::Load(self.next),
        }
    }

    fn found(&mut self, word: Slot, is_full: impl Fn(u64) -> bool) -> Option<End> {
        if let Access::Swap(_, old, _) = self.access() {
            return Some(if old == word { End::Admitted } else { End::Arrived(Arrival::Disturbed) });
        }
        if word.is_of(self.fingerprint) {
            return Some(End::Arrived(Arrival::InSlot(self.next, word)));
        }
        if self.best.is_none() && (word.is_vacant() || is_full(word.level())) {
            self.best = Some((self.next, word));
        }
        self.next += 1;
        (self.next == SLOTS && self.best.is_none()).then_some(End::Arrived(Arrival::NoSlot))
    }
}

/// The rule that broke with claims, which no other process touches.
///
/// A slot is claimed, and then the claim is published as the key's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Claims {
    fingerprint: u64,
    full: u64,
    nonce: u64,
    next: usize,
    best: Option<(usize, Slot)>,
    has_claimed: bool,
}

impl Way for Claims {
    fn start(fingerprint: u64, at: u64, nonce: u64) -> Self {
        Self { fingerprint, full: at, nonce, next: 0, best: None, has_claimed: false }
    }

    fn access(&self) -> Access {
        let claim = Slot::provisional(self.fingerprint, self.nonce);
        match self.best {
            Some((at, _)) if self.has_claimed => Access::Swap(at, claim, Slot::confirmed(self.fingerprint, self.full)),
            Some((at, old)) if self.next == SLOTS => Access::Swap(at, old, claim),
            _ => Access::Load(self.next),
        }
    }

    fn found(&mut self, word: Slot, is_full: impl Fn(u64) -> bool) -> Option<End> {
        if let Access::Swap(at, old, new) = self.access() {
            if old != word {
                return Some(End::Arrived(Arrival::Disturbed));
            }
            if self.has_claimed {
                return Some(End::Arrived(Arrival::InSlot(at, new)));
            }
            self.has_claimed = true;
            return None;
        }
        if word.is_of(self.fingerprint) {
            return Some(End::Arrived(Arrival::InSlot(self.next, word)));
        }
        let is_free = word.is_vacant() || !word.is_provisional() && is_full(word.level());
        if self.best.is_none() && is_free {
            self.best = Some((self.next, word));
        }
        self.next += 1;
        (self.next == SLOTS && self.best.is_none()).then_some(End::Arrived(Arrival::NoSlot))
    }
}

/// The rule that broke with takeovers: a claim counts as free, and its sleeping owner wakes up.
///
/// The owner looks for another word of its key after its claim, and then stores its key, whatever is there by now.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Takeover {
    fingerprint: u64,
    full: u64,
    nonce: u64,
    next: usize,
    best: Option<(usize, Slot)>,
    /// The slot that was claimed, and the word that was found there last.
    claimed: Option<(usize, Slot)>,
}

impl Way for Takeover {
    fn start(fingerprint: u64, at: u64, nonce: u64) -> Self {
        Self { fingerprint, full: at, nonce, next: 0, best: None, claimed: None }
    }

    fn access(&self) -> Access {
        match (self.claimed, self.best) {
            (Some((at, word)), _) if self.next == SLOTS => {
                Access::Swap(at, word, Slot::confirmed(self.fingerprint, self.full))
            }
            (None, Some((at, old))) if self.next == SLOTS => {
                Access::Swap(at, old, Slot::provisional(self.fingerprint, self.nonce))
            }
            _ => Access::Load(self.next),
        }
    }

    fn found(&mut self, word: Slot, is_full: impl Fn(u64) -> bool) -> Option<End> {
        match (self.access(), self.claimed) {
            (Access::Swap(at, old, new), Some(_)) if old == word => Some(End::Arrived(Arrival::InSlot(at, new))),
            (Access::Swap(at, ..), Some(_)) => {
                // A store overwrites any word.
                self.claimed = Some((at, word));
                None
            }
            (Access::Swap(at, old, new), None) if old == word => {
                (self.claimed, self.next) = (Some((at, new)), 0);
                None
            }
            (Access::Swap(..), None) => Some(End::Arrived(Arrival::Disturbed)),
            (Access::Load(at), Some((own, _))) => {
                self.next += 1;
                (at != own && word.names(self.fingerprint)).then_some(End::Arrived(Arrival::Disturbed))
            }
            (Access::Load(at), None) if word.is_of(self.fingerprint) => Some(End::Arrived(Arrival::InSlot(at, word))),
            (Access::Load(at), None) => {
                if self.best.is_none() && (word.is_vacant() || word.is_provisional() || is_full(word.level())) {
                    self.best = Some((at, word));
                }
                self.next += 1;
                (self.next == SLOTS && self.best.is_none()).then_some(End::Arrived(Arrival::NoSlot))
            }
        }
    }
}

impl<W> At<W> {
    fn first(calls: [u64; 2]) -> Self {
        if calls[0] == 0 { Self::Ended } else { Self::Looks(0) }
    }
}

/// Where a process is in its call.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum At<W> {
    /// Looks for the slot of its key, at the next candidate.
    Looks(usize),
    /// Has a word of its key, and reads the clock next.
    Reads(usize, Slot),
    /// Swaps that word, for a take decided at this reading.
    Takes(usize, Slot, u64),
    /// Reads the clock, to go the way of a newcomer.
    Comes,
    /// Goes it, with the reading at which it started.
    Goes(W, u64),
    /// Has no more calls.
    Ended,
}

/// A process, with the fingerprints of its call and of the one after it; 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Process<W> {
    at: At<W>,
    calls: [u64; 2],
}

/// The number of processes. The last makes no call where there are fewer.
const PROCESSES: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct World<W> {
    now: u64,
    slots: [Slot; SLOTS],
    processes: [Process<W>; PROCESSES],
    /// The keys that were admitted, with their clock readings, in order, after those that are not used yet.
    takes: [(u64, u64); 4],
}

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// Both claims hold in so many states.
    Holds(usize),
    SecondBurst,
    Stuck,
}

impl<W: Way> World<W> {
    /// Creates processes that make these calls.
    fn new(calls: [[u64; 2]; PROCESSES]) -> Self {
        let processes = calls.map(|calls| Process { at: At::first(calls), calls });
        Self { now: 0, slots: [Slot::VACANT; SLOTS], processes, takes: [(0, 0); 4] }
    }

    fn access(&mut self, access: Access) -> Slot {
        let slot = &mut self.slots[access.candidate()];
        let found = *slot;
        if let Access::Swap(_, old, new) = access
            && old == found
        {
            *slot = new;
        }
        found
    }

    /// Lets a process make one step. A call that ends is followed by the next.
    fn step(&mut self, number: usize) {
        let Process { at, calls: calls @ [key, later] } = self.processes[number];
        let next = match at {
            At::Looks(candidate) => {
                let word = self.access(Access::Load(candidate));
                if word.is_of(key) {
                    At::Reads(candidate, word)
                } else if candidate + 1 < SLOTS {
                    At::Looks(candidate + 1)
                } else {
                    At::Comes
                }
            }
            At::Reads(candidate, word) if word.level() <= self.now => At::Takes(candidate, word, self.now),
            At::Takes(candidate, word, reading) => {
                if self.access(Access::Swap(candidate, word, word.with_level(reading + REFILL))) == word {
                    self.admit(key, reading);
                    At::Ended
                } else {
                    At::Looks(0)
                }
            }
            // A process never leaves a word of its own behind when it starts again, so the search needs one nonce for each.
            At::Comes => At::Goes(W::start(key, self.now, number as u64), self.now),
            At::Goes(mut way, reading) => {
                let word = self.access(way.access());
                match way.found(word, |level| level <= self.now) {
                    None => At::Goes(way, reading),
                    Some(End::Arrived(Arrival::InSlot(candidate, word))) => At::Reads(candidate, word),
                    Some(End::Arrived(Arrival::Disturbed)) => At::Comes,
                    Some(End::Arrived(Arrival::NoSlot)) => At::Ended,
                    Some(End::Admitted) => {
                        self.admit(key, reading);
                        At::Ended
                    }
                }
            }
            At::Reads(..) | At::Ended => At::Ended,
        };
        self.processes[number] = match next {
            At::Ended => Process { at: At::first([later, 0]), calls: [later, 0] },
            at => Process { at, calls },
        };
    }

    fn admit(&mut self, key: u64, reading: u64) {
        self.takes[0] = (key, reading);
        self.takes.sort_unstable();
    }

    fn has_second_burst(&self) -> bool {
        self.takes.windows(2).any(|pair| pair[0].0 == pair[1].0 && pair[0].0 > 0 && pair[1].1 - pair[0].1 < REFILL)
    }

    /// Returns whether a process is not admitted, though all others are dead and no key owes anything.
    fn is_stuck(&self) -> bool {
        (0..PROCESSES).filter(|&number| self.processes[number].at != At::Ended).any(|number| {
            let key = self.processes[number].calls[0];
            let mut alone = *self;
            // The call that goes on may still be refused, by an older reading of the clock. So another one follows.
            alone.processes[number].calls[1] = key;
            alone.takes = [(0, 0); 4];
            for _ in 0..2 {
                alone.now += LAST + REFILL;
                let calls = alone.processes[number].calls;
                let mut steps = 0;
                while alone.processes[number].calls == calls && steps < LONGEST {
                    alone.step(number);
                    steps += 1;
                }
                if steps == LONGEST {
                    return true;
                }
            }
            alone.takes[3].0 != key
        })
    }

    /// Visits every state. It remembers hashes of 64 bits, of which no two are expected to be equal.
    fn search(calls: [[u64; 2]; PROCESSES]) -> Found {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let first = Self::new(calls);
        let (mut seen, mut open) = (HashSet::from([hasher.hash_one(first)]), Vec::from([first]));
        while let Some(world) = open.pop() {
            if world.has_second_burst() {
                return Found::SecondBurst;
            }
            if world.is_stuck() {
                return Found::Stuck;
            }
            let mut visit = |next: Self| {
                if seen.insert(hasher.hash_one(next)) {
                    open.push(next);
                }
            };
            for number in 0..PROCESSES {
                let mut next = world;
                next.step(number);
                visit(next);
            }
            if world.now < LAST {
                visit(Self { now: world.now + 1, ..world });
            }
        }
        Found::Holds(seen.len())
    }
}

fn assert_holds(calls: [[u64; 2]; PROCESSES]) {
    let found = World::<Newcomer>::search(calls);
    let Found::Holds(states) = found else { panic!("{found:?} with the calls {calls:?}") };
    std::println!("{states} states with the calls {calls:?}");
    assert!(states > 1_000, "{states} states are too few to be all");
}

// CLAIM: WordTable
#[test]
fn a_key_has_one_burst_and_nothing_is_stuck() {
    assert_holds([[1, 1], [1, 0], [0, 0]]);
    assert_holds([[1, 2], [2, 1], [0, 0]]);
    assert_holds([[1, 0], [1, 0], [1, 0]]);
    assert_holds([[1, 0], [1, 0], [2, 0]]);
}

#[test]
fn equal_provisional_words_are_refuted() {
    assert_eq!(World::<EqualWords>::search([[1, 0], [1, 0], [1, 0]]), Found::SecondBurst);
}

#[test]
fn admission_by_the_inserting_swap_is_refuted() {
    assert_eq!(World::<AdmittedByInsertion>::search([[2, 1], [1, 0], [0, 0]]), Found::SecondBurst);
}

#[test]
fn claims_are_refuted() {
    assert_eq!(World::<Claims>::search([[1, 0], [2, 0], [3, 0]]), Found::Stuck);
}

#[test]
fn takeovers_of_claims_are_refuted() {
    assert_eq!(World::<Takeover>::search([[1, 0], [2, 2], [0, 0]]), Found::SecondBurst);
}
