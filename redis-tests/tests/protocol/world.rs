//! A schedule: the processes, the network, the server, and what happens by chance.

mod stories;

use crate::bucket::Bucket;
use crate::process::{Broken, Process};
use crate::trouble::Trouble;
use damper_core::Quota;
use damper_redis::internal::{Command, Dispatch, Frame, Keys, NEVER, Plan, Reply, SlotTags, Status, Terms};
use damper_redis_tests::LuaServer;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

const START: u64 = 1_790_000_000_000_000;
const LEASE: u64 = 1_000_000;
/// Three processes lease. The last one asks for each check, so it can take all that there is at once.
const HOLDERS: usize = 3;
pub const GLUTTON: usize = HOLDERS;

/// The stories that [`World::outlive`] knows.
pub const PLOTS: u64 = 6;

/// The shortest time between two requests.
pub const PACE: u64 = 20_000;

/// Numbers by chance, the same ones for the same seed.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// How a schedule is run.
#[derive(Clone, Debug)]
pub struct Setting {
    pub script: String,
    pub broken: Broken,
    pub trouble: Trouble,
}

/// A command that arrives at the server, perhaps.
#[derive(Clone, Debug)]
pub struct Message {
    id: u64,
    holder: u64,
    command: Command,
    pub frame: Frame,
}

/// A reply that arrives at its process, perhaps.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub id: u64,
    pub holder: u64,
    pub reply: Reply,
}

/// The kinds of things that happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Wait,
    Check,
    Drain,
    Due,
    Refund,
    Arrive,
    Return,
    GiveUp,
    Pause,
    Crash,
    Trouble,
    Outlive,
}

const STEPS: [Step; 12] = [
    Step::Wait,
    Step::Check,
    Step::Drain,
    Step::Due,
    Step::Refund,
    Step::Arrive,
    Step::Return,
    Step::GiveUp,
    Step::Pause,
    Step::Crash,
    Step::Trouble,
    Step::Outlive,
];

pub struct World<'a> {
    setting: &'a Setting,
    random: Random,
    pub server: LuaServer,
    keys: Keys,
    plan: Arc<Plan>,
    plan_of_glutton: Arc<Plan>,
    terms: Terms,
    now: u64,
    pub processes: Vec<Process>,
    pub wire: Vec<Message>,
    pub back: Vec<Delivery>,
    serial: u64,
    holders: u64,
    weights: [u64; STEPS.len()],
    /// The requests that the server has had, by holder and number.
    executed: HashSet<(u64, u64)>,
    /// Whether what is sent stays on its way.
    pub is_silent: bool,
    /// Refunds that the server has not had, by holder.
    pending_refunds: HashMap<u64, u64>,
    pub bucket: Bucket,
}

/// The terms of all schedules: a hundred tokens a second.
pub fn terms() -> Terms {
    Terms::new(Quota::per_second(100).burst(60), 30).expect("a rate that can be counted")
}

/// Tells one of the stories twice, in a world of its own.
///
/// # Errors
///
/// How much was admitted that should not have been.
pub fn tell(setting: &Setting, tags: &SlotTags, seed: u64, plot: u64) -> Result<(), String> {
    let mut world = World::new(setting, tags, seed);
    for _ in 0..2 {
        world.outlive(plot).map_err(|error| format!("seed {seed}, story {plot}, {:?}: {error}", setting.broken))?;
    }
    Ok(())
}

/// Runs a schedule of so many steps.
///
/// # Errors
///
/// How much was admitted that should not have been.
pub fn run(setting: &Setting, tags: &SlotTags, seed: u64, steps: usize) -> Result<u64, String> {
    let mut world = World::new(setting, tags, seed);
    for step in 0..steps {
        world.step().map_err(|error| format!("seed {seed}, step {step}, {:?}: {error}", setting.broken))?;
    }
    Ok(world.bucket.admitted)
}

impl<'a> World<'a> {
    pub fn new(setting: &'a Setting, tags: &SlotTags, seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0xD134_2543_DE82_EF95));
        let terms = terms();
        let keys = Keys::new(tags, "limit", b"subject");
        let server = LuaServer::with_script(&setting.script, START);
        // A first deployment with an old marker.
        server.set(keys.marker(), b"1");
        let lease = if setting.broken == Broken::SevenEighths { LEASE * 8 / 7 } else { LEASE };
        let plan = Arc::new(Plan::new(vec![terms], Duration::from_micros(lease)));
        let plan_of_glutton = Arc::new(Plan::new(vec![terms], Duration::ZERO));
        assert!(plan.leases() && !plan_of_glutton.leases());
        let mut weights = STEPS.map(|_| random.one_of(&[1, 4, 16]));
        for (weight, step) in weights.iter_mut().zip(STEPS) {
            match step {
                Step::Pause | Step::Crash | Step::Trouble => *weight = random.one_of(&[0, 0, 1]),
                Step::Outlive => *weight = random.one_of(&[0, 4, 16]),
                Step::Due | Step::GiveUp | Step::Refund => *weight = random.one_of(&[0, 1, 8]),
                _ => {}
            }
        }
        let mut world = Self {
            setting,
            server,
            keys,
            plan,
            plan_of_glutton,
            terms,
            now: 0,
            processes: Vec::new(),
            wire: Vec::new(),
            back: Vec::new(),
            serial: 0,
            holders: 0,
            weights,
            executed: HashSet::new(),
            is_silent: false,
            pending_refunds: HashMap::new(),
            bucket: Bucket::new(&terms, 0),
            random,
        };
        for who in 0..=GLUTTON {
            let process = world.start(who);
            world.processes.push(process);
        }
        world
    }

    fn start(&mut self, who: usize) -> Process {
        self.holders += 1;
        let plan = if who == GLUTTON { &self.plan_of_glutton } else { &self.plan };
        Process::new(plan, self.holders, self.now, &mut self.random, self.setting.broken)
    }

    fn frame(&mut self, command: &Command) -> Frame {
        let after_loss = if self.setting.trouble == Trouble::Loss { NEVER } else { 60_000_000 };
        let not_after = match command {
            // Later the server may have forgotten its number, and would book it again.
            Command::Lease(..) => self.server.now() + LEASE / 8 * 7,
            _ if self.random.once_in(2) => self.server.now() + self.random.below(20_000),
            _ => 0,
        };
        Frame { not_after, lease: LEASE, after_loss }
    }

    /// Does one thing by chance.
    ///
    /// # Errors
    ///
    /// How much was admitted that should not have been.
    pub fn step(&mut self) -> Result<(), String> {
        let mut at = self.random.below(self.weights.iter().sum());
        let mut index = 0;
        while at >= self.weights[index] {
            at -= self.weights[index];
            index += 1;
        }
        let who = self.random.below(self.processes.len() as u64) as usize;
        let is_running = self.processes[who].is_running();
        match STEPS[index] {
            Step::Wait => {
                let longest = self.random.one_of(&[500, 5_000, 30_000, 150_000, 1_200_000]);
                let mut time = self.random.below(longest);
                if self.random.once_in(4) {
                    time = self.until_an_end(LEASE);
                }
                self.wait(time);
            }
            Step::Check if is_running => {
                let n = 1 + self.random.below(3) as u32;
                self.check(who, n)?;
            }
            Step::Drain if is_running => self.drain(who, 70)?,
            Step::Due => self.due(who),
            Step::Refund if is_running && self.processes[who].used > 0 => {
                let n = 1 + self.random.below(u64::from(self.processes[who].used.min(9))) as u32;
                // The rest goes with a command, and is refunded when the server has it.
                let refunded = self.processes[who].refund(n);
                self.bucket.refund(refunded, self.now);
                *self.pending_refunds.entry(self.processes[who].holder).or_default() += u64::from(n - refunded);
            }
            Step::Arrive => self.arrive()?,
            Step::Return => self.return_reply(),
            Step::GiveUp if is_running && !self.processes[who].waiting.is_empty() => {
                let index = self.random.below(self.processes[who].waiting.len() as u64) as usize;
                self.processes[who].give_up(index);
            }
            Step::Pause => self.processes[who].paused_until = self.now + self.random.below(3_000_000),
            Step::Crash => self.processes[who] = self.start(who),
            Step::Trouble => self.trouble(),
            Step::Outlive => {
                let plot = self.random.below(PLOTS);
                self.outlive(plot)?;
            }
            _ => {}
        }
        Ok(())
    }

    pub fn wait(&mut self, time: u64) {
        self.now += time;
        self.server.advance(time);
        for process in &mut self.processes {
            process.tick(self.now);
        }
    }

    /// Returns whether the process took the tokens from its lease, or sent a command.
    pub fn check(&mut self, who: usize, n: u32) -> Result<bool, String> {
        let (spent, dispatch) = self.processes[who].check(n);
        if spent > 0 {
            self.bucket.admit(spent, self.now)?;
        }
        // The decision was counted when it was made.
        let taken = std::mem::take(&mut self.processes[who].taken);
        let pending = self.pending_refunds.entry(self.processes[who].holder).or_default();
        *pending = pending.checked_sub(taken.into()).ok_or("tokens that were set aside are used twice")?;
        let goes_on = spent > 0 || taken > 0 || dispatch.is_some();
        if let Some(dispatch) = dispatch {
            self.send(who, *dispatch);
            // Most replies come at once.
            if !self.is_silent && self.random.below(8) > 0 {
                self.arrive_at(self.wire.len() - 1)?;
                if self.random.below(8) > 0 && !self.back.is_empty() {
                    self.return_at(self.back.len() - 1);
                }
            }
        }
        Ok(goes_on)
    }

    pub fn send(&mut self, who: usize, dispatch: Dispatch) {
        self.serial += 1;
        let id = self.processes[who].number(self.serial);
        let command = self.processes[who].send(id, dispatch, &mut self.random);
        let frame = self.frame(&command);
        self.wire.push(Message { id, holder: self.processes[who].holder, command, frame });
    }

    fn arrive(&mut self) -> Result<(), String> {
        if self.wire.is_empty() {
            return Ok(());
        }
        let index = self.random.below(self.wire.len() as u64) as usize;
        if self.random.once_in(8) {
            self.wire.swap_remove(index);
            return Ok(());
        }
        self.arrive_at(index)
    }

    pub fn arrive_at(&mut self, index: usize) -> Result<(), String> {
        // A request for a lease may be sent twice; a take never is.
        let is_lease = matches!(self.wire[index].command, Command::Lease(..));
        let is_kept = is_lease && self.random.once_in(6);
        let message = if is_kept { self.wire[index].clone() } else { self.wire.swap_remove(index) };
        let Message { id, holder, command, frame } = message;
        let reply = self.server.execute(&self.keys, holder, &command, &frame).map_err(|error| error.to_string())?;
        let refund = match &command {
            Command::Take(limits) if reply.status != Status::Late => limits[0].1.refund,
            Command::Lease(_, ask) if reply.grant.is_some() && self.executed.insert((holder, ask.seq)) => ask.refund,
            _ => 0,
        };
        // Each refund once, whatever was sent, and also that of a process which has crashed since.
        let pending = self.pending_refunds.entry(holder).or_default();
        let refund = refund.min(*pending);
        *pending -= refund;
        self.bucket.refund(refund as u32, self.now);
        if let Command::Take(limits) = &command
            && reply.status == Status::Done
        {
            // A decision counts when it is made, also one whose reply is lost.
            self.bucket.admit(limits[0].1.cost, self.now)?;
        }
        self.back.push(Delivery { id, holder, reply });
        Ok(())
    }

    fn return_reply(&mut self) {
        if self.back.is_empty() {
            return;
        }
        let index = self.random.below(self.back.len() as u64) as usize;
        if self.random.once_in(8) {
            self.back.swap_remove(index);
            return;
        }
        self.return_at(index);
    }

    pub fn return_at(&mut self, index: usize) {
        let holder = self.back[index].holder;
        let Some(process) = self.processes.iter_mut().find(|process| process.holder == holder) else {
            self.back.swap_remove(index);
            return;
        };
        if process.is_running() {
            let delivery = if self.random.once_in(6) { self.back[index].clone() } else { self.back.swap_remove(index) };
            process.replied(delivery);
            // Those that no check takes go back.
            *self.pending_refunds.entry(holder).or_default() += u64::from(std::mem::take(&mut process.set_aside));
        }
    }

    fn trouble(&mut self) {
        match self.setting.trouble {
            Trouble::Processes => {}
            Trouble::Loss => self.server.flush(),
            Trouble::Steps => {
                let step = self.random.one_of(&[1_000, 100_000, 2_000_000, 3_600_000_000]);
                if self.random.once_in(2) {
                    self.server.set_time(self.server.now() - step);
                } else {
                    // By the slowest clock, and with the end of a slot rounded up.
                    self.bucket.allow_step(step, self.terms.hold, LEASE + LEASE / 4, self.now);
                    self.server.set_time(self.server.now() + step);
                }
            }
        }
    }
}
