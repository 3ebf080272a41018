//! A state of the model: processes, server, network, and the exact bucket of all admissions.

use crate::bucket::Bucket;
use crate::engine::{Engine, Message, ServerState};
use crate::process_state::{Birth, ProcessState, digest};
use crate::property::Fault;
use crate::scenario::{Bounds, Scenario, terms};
use damper_redis::internal::Reply;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The choices of a process that a schedule would draw: always the same.
#[derive(Clone, Debug)]
pub struct Random(pub usize);

impl Random {
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0 % choices.len()]
    }

    pub fn below(&mut self, end: u64) -> u64 {
        end - 1
    }
}

/// A reply, as the process gets it.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub id: u64,
    pub holder: u64,
    pub reply: Reply,
}

/// A reply on its way.
#[derive(Debug)]
pub struct Answered {
    pub delivery: Arc<Delivery>,
    pub request: Arc<Message>,
    digest: u64,
}

impl Answered {
    pub fn new(request: &Arc<Message>, reply: &Reply) -> Self {
        let delivery = Delivery { id: request.id, holder: request.holder, reply: reply.clone() };
        let digest = digest(&delivery);
        Self { delivery: Arc::new(delivery), request: Arc::clone(request), digest }
    }
}

impl Hash for Answered {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl PartialEq for Answered {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

/// The state of the server at an instant, as its files or its replica have it.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Saved {
    pub server: Arc<ServerState>,
    /// The tokens that the server has taken since.
    pub taken: u32,
}

/// A state.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct World {
    /// The time in µs since the start.
    pub now: u64,
    pub server: Arc<ServerState>,
    pub saved: Option<Saved>,
    pub processes: Vec<Arc<ProcessState>>,
    /// For each process, when the server may have given the tokens of its lease to others.
    pub ends: Vec<u64>,
    /// Commands and replies on their way, which may arrive in any order or never.
    pub wire: Vec<Arc<Message>>,
    pub back: Vec<Arc<Answered>>,
    pub bucket: Bucket,
    /// Admitted tokens that a process may still refund or, after a joint take, use: by holder.
    pub pending: BTreeMap<u64, u64>,
    /// The requests that the server has had, by holder and number.
    pub executed: BTreeSet<(u64, u64)>,
    pub left: Bounds,
    /// The number of the last holder.
    pub holders: u64,
    pub fault: Option<Fault>,
}

impl World {
    /// Returns the state before anything happened.
    pub fn new(scenario: &Scenario, paces: &[usize], engine: &mut Engine) -> Self {
        let mut world = Self {
            now: 0,
            server: engine.deployed(),
            saved: None,
            processes: Vec::new(),
            ends: vec![0; paces.len()],
            wire: Vec::new(),
            back: Vec::new(),
            bucket: Bucket::new(&terms(), 0),
            pending: BTreeMap::new(),
            executed: BTreeSet::new(),
            left: scenario.bounds,
            holders: 0,
            fault: None,
        };
        for &pace in paces {
            let birth = world.next_birth(pace);
            world.processes.push(engine.begin(birth));
        }
        world
    }

    /// Returns how the next process begins.
    pub fn next_birth(&mut self, pace: usize) -> Birth {
        self.holders += 1;
        Birth { holder: self.holders, began: self.now, pace }
    }
}
