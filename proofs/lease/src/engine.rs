//! Runs the real state machine and the real script.
//!
//! Processes, server and network are independent between messages, so the same step of one of them occurs in many states of
//! the world. Each thread runs it once and remembers what it led to.

use crate::lua_server::{LuaServer, Memory};
use crate::process::Broken;
use crate::process_state::{Birth, Event, Output, ProcessState, digest};
use crate::scenario::{LEASE, terms};
use damper_redis::internal::{Command, Frame, Keys, Limit, NEVER, Plan, Reply, SOURCE, Sighting, SlotTags, Take};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// The server's time at the start of the world, in µs since 1970.
///
/// A lease that begins then ends a lease later, not rounded.
pub const START: u64 = 1_790_000_000_000_000;

/// How long a check waits for the server, in µs.
const DEADLINE: u64 = 5_000;

/// The rules in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub script: Arc<str>,
    pub broken: Broken,
}

impl Rules {
    /// Returns the rules of the protocol, with none left out.
    pub fn as_built() -> Self {
        Self { script: SOURCE.into(), broken: Broken::Nothing }
    }
}

/// The memory of the server.
#[derive(Debug, Default)]
pub struct ServerState {
    pub memory: Memory,
    digest: u64,
}

impl Hash for ServerState {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl PartialEq for ServerState {
    fn eq(&self, other: &Self) -> bool {
        self.memory == other.memory
    }
}

impl ServerState {
    fn new(memory: Memory) -> Self {
        let mut hasher = DefaultHasher::new();
        memory.hash(&mut hasher);
        Self { memory, digest: hasher.finish() }
    }
}

/// A command on its way.
#[derive(Debug)]
pub struct Message {
    pub id: u64,
    pub holder: u64,
    pub command: Command,
    pub frame: Frame,
    /// When it was sent, in µs since the start of the world.
    pub sent: u64,
    digest: u64,
}

impl Message {
    /// Creates the message of a command that is sent now.
    pub fn new(id: u64, holder: u64, command: Command, now: u64) -> Self {
        let not_after = match command {
            // Later the server may have forgotten its number, and would book it again.
            Command::Lease(..) => START + now + LEASE / 8 * 7,
            // When the caller of a check gives up.
            _ => START + now + DEADLINE,
        };
        let frame = Frame { not_after, lease: LEASE, after_loss: NEVER };
        let digest = digest(&(id, holder, &command, &frame));
        Self { id, holder, command, frame, sent: now, digest }
    }

    /// Creates a take of a process that knows nothing and holds nothing.
    pub fn take_of_others(cost: u32, now: u64) -> Self {
        let take = Take { cost, charge: 0, refund: 0 };
        let limit = Limit { terms: terms(), seen: Sighting::default() };
        Self::new(0, 0, Command::Take(vec![(limit, take)]), now)
    }

    /// Returns whether it is a request for leased tokens.
    pub fn is_lease(&self) -> bool {
        matches!(self.command, Command::Lease(..))
    }
}

impl Hash for Message {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

/// The server after a command, and its reply.
///
/// There is none if no client can read it, as of a script without one of its rules.
pub type Execution = (Arc<ServerState>, Option<Arc<Reply>>);

#[derive(Debug)]
pub struct Engine {
    pub rules: Rules,
    pub plan: Arc<Plan>,
    pub server: LuaServer,
    pub keys: Keys,
    processes: HashMap<(u64, u64), (Arc<ProcessState>, Arc<Output>)>,
    executions: HashMap<(u64, u64, u64), Execution>,
    spare: HashMap<(u64, u64), Option<u32>>,
}

impl Engine {
    fn new(rules: &Rules) -> Self {
        let lease = if rules.broken == Broken::SevenEighths { LEASE * 8 / 7 } else { LEASE };
        Self {
            rules: rules.clone(),
            plan: Arc::new(Plan::new(vec![terms()], Duration::from_micros(lease))),
            server: LuaServer::with_script(&rules.script, START),
            keys: Keys::new(&SlotTags::new(), "limit", b"subject"),
            processes: HashMap::new(),
            executions: HashMap::new(),
            spare: HashMap::new(),
        }
    }

    /// Calls a function with this thread's engine for these rules.
    pub fn with<R>(rules: &Rules, run: impl FnOnce(&mut Self) -> R) -> R {
        thread_local! {
            static ENGINE: RefCell<Option<Engine>> = const { RefCell::new(None) };
        }
        ENGINE.with_borrow_mut(|kept| {
            let same = kept.take().filter(|engine| engine.rules == *rules);
            run(kept.insert(same.unwrap_or_else(|| Engine::new(rules))))
        })
    }

    pub fn begin(&self, birth: Birth) -> Arc<ProcessState> {
        Arc::new(ProcessState::begin(birth, &self.plan, self.rules.broken))
    }

    /// Returns a server of a first deployment, with an old marker.
    pub fn deployed(&self) -> Arc<ServerState> {
        self.server.flush();
        self.server.set(self.keys.marker(), b"1");
        Arc::new(ServerState::new(self.server.memory()))
    }

    /// Returns the process after `event`, and what it led to.
    pub fn react(&mut self, process: &ProcessState, event: &Event) -> (Arc<ProcessState>, Arc<Output>) {
        let Self { plan, rules, processes, .. } = self;
        let key = (process.digest, digest(event));
        let (state, output) = processes.entry(key).or_insert_with(|| {
            let (state, output) = process.after(event, plan, rules.broken);
            (Arc::new(state), Arc::new(output))
        });
        (Arc::clone(state), Arc::clone(output))
    }

    /// Returns the server after a command that arrives `now`, and its reply.
    pub fn execute(&mut self, state: &ServerState, now: u64, message: &Message) -> Execution {
        let Self { server, keys, executions, .. } = self;
        let (after, reply) = executions.entry((state.digest, now, message.digest)).or_insert_with(|| {
            // Setting the time forgets what has expired by the time before, so the memory comes after it.
            server.set_time(START + now);
            server.restore(state.memory.clone());
            let Message { holder, command, frame, .. } = message;
            let reply = server.execute(keys, *holder, command, frame).ok();
            (Arc::new(ServerState::new(server.memory())), reply.map(Arc::new))
        });
        (Arc::clone(after), reply.clone())
    }

    /// Returns the tokens that the server would give now to a process that knows nothing.
    pub fn spare(&mut self, state: &ServerState, now: u64) -> Option<u32> {
        if let Some(spare) = self.spare.get(&(state.digest, now)) {
            return *spare;
        }
        let (_, reply) = self.execute(state, now, &Message::take_of_others(0, now));
        let spare = reply.map(|reply| reply.levels[0].remaining(&terms()));
        self.spare.insert((state.digest, now), spare);
        spare
    }
}
