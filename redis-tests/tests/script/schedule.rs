//! Random schedules of commands, clock steps and losses: the script replies what the model says.

use crate::model::Model;
use crate::seed::seed;
use damper_core::Quota;
use damper_redis::internal::{
    Command, Frame, Grant, Keys, LeaseRequest, Limit, NEVER, Reply, SOURCE, Sighting, SlotTags, Status, Take, Terms,
};
use damper_redis_tests::{LuaServer, Memory, Random};
use std::time::Duration;

const START: u64 = 1_790_000_000_000_000;
const STEPS: usize = 120;
const PROCESSES: usize = 3;

/// A process that shares the limits: what it has seen, and its lease of the first one.
#[derive(Clone, Debug)]
struct Process {
    terms: Vec<Terms>,
    frame: Frame,
    seen: [Sighting; 2],
    seq: u64,
    ack: u64,
    unspent: u32,
    charge: u64,
    last: Option<(Command, u64)>,
}

/// A schedule by chance. The same seed is the same schedule, as long as the script replies the same.
struct Schedule {
    random: Random,
    server: LuaServer,
    model: Model,
    keys: Keys,
    processes: Vec<Process>,
    backup: Option<(Memory, Model)>,
    /// Holders of the later lives of processes.
    restarts: u64,
    /// Whether there are many slots: commands differ in the length of leases, and holders restart often.
    ragged: bool,
}

/// Runs a schedule with a script.
///
/// # Errors
///
/// Where the script differs from the model.
pub fn run(script: &str, tags: &SlotTags, seed: u64) -> Result<(), String> {
    let mut schedule = Schedule::new(script, tags, seed);
    (0..STEPS).try_for_each(|step| schedule.step().map_err(|error| format!("seed {seed}, step {step}: {error}")))
}

fn quota(random: &mut Random) -> Quota {
    let limit = random.one_of(&[0, 1, 1, 7, 10, 100, 1_000, 300_000, 999_999_937, u32::MAX]);
    let window = match random.below(6) {
        0 => Duration::from_secs(3_600),
        1 => Duration::from_nanos(1 + random.below(1 << 40)),
        2 => Duration::from_nanos(random.one_of(&[7, 1_001, 999_999_999_989, 281_474_976_710_597])),
        _ => Duration::from_secs(1),
    };
    let burst = random.one_of(&[1, 3, 10, 40, 1_000, u32::MAX]);
    let quota = Quota::per(limit, window).unwrap().burst(burst);
    match random.below(3) {
        0 => quota.max_debt(random.one_of(&[0, 1, 5, u32::MAX])),
        _ => quota,
    }
}

impl Schedule {
    fn new(script: &str, tags: &SlotTags, seed: u64) -> Self {
        let mut random = Random(seed);
        let ragged = random.once_in(8);
        let limits = if ragged { 1 } else { 1 + random.below(2) as usize };
        let quotas: Vec<Quota> =
            (0..limits).map(|_| if ragged { Quota::per_second(1_000) } else { quota(&mut random) }).collect();
        let lease = random.one_of(&[1_000_000, 100_000, 999_999, 7]);
        let after_loss = random.one_of(&[0, 60_000_000, 300_000, NEVER, NEVER]);
        let share = if ragged { 4 } else { random.one_of(&[4, 4, 1, 2, 10]) };
        let mixed = !ragged && random.once_in(3);
        let mut processes = Vec::new();
        for _ in 0..PROCESSES {
            let other = mixed && random.once_in(2);
            let quotas: Vec<Quota> =
                if other { quotas.iter().map(|_| quota(&mut random)).collect() } else { quotas.clone() };
            let lease = if other { random.one_of(&[1_000_000, 250_001]) } else { lease };
            let hold = |quota: &Quota| if limits == 1 { quota.burst_size().div_ceil(share) } else { 0 };
            let terms = quotas.iter().map(|quota| Terms::new(*quota, hold(quota)).unwrap()).collect();
            let frame = Frame { not_after: 0, lease, after_loss };
            let (seen, last) = ([Sighting::default(); 2], None);
            processes.push(Process { terms, frame, seen, seq: 0, ack: 0, unspent: 0, charge: 0, last });
        }
        let server = LuaServer::with_script(script, START + random.below(2_000_000));
        let keys = Keys::new(tags, "a limit", &random.number().to_le_bytes());
        let mut model = Model::default();
        if random.once_in(2) {
            server.set(keys.marker(), b"0");
            model.deploy();
        }
        Self { random, server, model, keys, processes, backup: None, restarts: 0, ragged }
    }

    fn step(&mut self) -> Result<(), String> {
        let random = &mut self.random;
        let what = random.below(100);
        if (37..=42).contains(&what) {
            // No server writes a limit, loses it and begins it anew within a microsecond.
            self.server.advance(1);
        }
        match what {
            0..35 => self.pass_time(),
            35..37 => {
                let step = random.one_of(&[1, 1_000, 100_000, 3_000_000, 7_200_000_000]);
                let back = random.below(step) + 1;
                self.model.expire(self.server.now());
                self.server.set_time(self.server.now() - back);
            }
            37 => {
                self.server.flush();
                self.model.flush();
            }
            38 => {
                let index = random.below(2) as usize;
                let _ = self.server.remove(&self.keys.limit(index));
                self.model.evict(index);
            }
            39 => {
                let holder = random.below(PROCESSES as u64) + self.restarts;
                let _ = self.server.remove(&self.keys.holder(holder));
                self.model.evict_holder(holder);
            }
            40 => self.backup = Some((self.server.memory(), self.model.clone())),
            41 => {
                if let Some((memory, model)) = self.backup.take() {
                    self.server.restore(memory);
                    self.model = model;
                }
            }
            42 => self.restarts += PROCESSES as u64,
            _ => return self.command(),
        }
        Ok(())
    }

    fn pass_time(&mut self) {
        let random = &mut self.random;
        let period = self.processes[0].terms[0].rate.micros();
        let longest = match random.below(6) {
            _ if self.ragged => 20_000,
            0 => 10,
            1 => 2_000,
            2 => 200_000,
            3 => 3_000_000,
            4 => period.min(1 << 45),
            _ => (4 * period).min(1 << 46),
        };
        self.server.advance(random.below(longest) + 1);
    }

    fn command(&mut self) -> Result<(), String> {
        let index = self.random.below(PROCESSES as u64) as usize;
        let mut process = self.processes[index].clone();
        let leases = process.terms.len() == 1 && process.terms[0].hold > 0;
        let again = process.last.clone().filter(|_| self.random.once_in(8));
        let command = match again {
            Some((command, _)) => command,
            None if self.random.once_in(20) => Command::Reset(self.limits(&process)),
            None if leases && self.random.below(3) > 0 => self.ask(&mut process),
            None => self.take(&process),
        };
        let mut frame = process.frame;
        if self.ragged {
            frame.lease = 100_000 + self.random.below(1_000_000);
            self.restarts += if self.random.once_in(4) { 0 } else { PROCESSES as u64 };
        }
        if self.random.once_in(12) {
            frame.not_after = self.server.now() - 1 + self.random.below(3);
        }
        let holder = index as u64 + self.restarts;
        let before = self.server.writes();
        let run = self.server.run(&self.keys.of(&command, holder), &command.args(&frame));
        let value = run.map_err(|error| format!("{command:?}: {error}"))?;
        let reply = Reply::parse(&value, &command).map_err(|error| format!("{command:?}: {error}: {value:?}"))?;
        self.model
            .compare(self.server.now(), holder, &command, &frame, &reply)
            .map_err(|error| format!("{error}, in reply to {command:?}, {frame:?}: {reply:?}"))?;
        if matches!(reply.status, Status::Late) && self.server.writes() > before {
            return Err(format!("wrote after it was late: {command:?}"));
        }
        process.last = Some((command.clone(), holder));
        // Some replies are lost.
        if !self.random.once_in(4) {
            process.apply(&command, &reply);
        }
        self.processes[index] = process;
        Ok(())
    }

    fn limits(&self, process: &Process) -> Vec<Limit> {
        process.terms.iter().zip(process.seen).map(|(&terms, seen)| Limit { terms, seen }).collect()
    }

    fn take(&mut self, process: &Process) -> Command {
        let limits = self.limits(process);
        let random = &mut self.random;
        let mut take = |limit: Limit| {
            let burst = u64::from(limit.terms.burst);
            let cost = match random.below(6) {
                0 => 0,
                1 => burst as u32,
                2 => random.below(burst + 1) as u32,
                _ => random.below(4) as u32,
            };
            let mut some = |most: u64| if random.once_in(6) { random.below(most + 1) } else { 0 };
            (limit, Take { cost, charge: some(2 * limit.terms.deepest), refund: some(2 * burst) })
        };
        Command::Take(limits.into_iter().map(&mut take).collect())
    }

    fn ask(&mut self, process: &mut Process) -> Command {
        let limit = self.limits(process)[0];
        let random = &mut self.random;
        let hold = u64::from(limit.terms.hold);
        let keeps = process.unspent - random.below(u64::from(process.unspent) + 1) as u32;
        let back = if random.once_in(3) { random.below(u64::from(keeps) + 1) as u32 } else { 0 };
        let refund = if random.once_in(8) { random.below(2 * u64::from(limit.terms.burst)) } else { 0 };
        process.charge += if random.once_in(4) { random.below(hold + 2) } else { 0 };
        process.seq += 1;
        let mut ask = LeaseRequest {
            seq: process.seq,
            ack: process.ack,
            unspent: keeps - back,
            back,
            want: random.below(if self.ragged { 9 } else { 2 * hold + 2 }).min(u64::from(u32::MAX)) as u32,
            charge: process.charge,
            refund,
        };
        // Some claim nonsense.
        match random.below(24) {
            0 => ask.unspent = ask.unspent.saturating_add(1 + random.below(hold + 1) as u32),
            1 => ask = LeaseRequest::default(),
            2 => ask.ack = random.below(ask.seq + 1),
            _ => {}
        }
        process.unspent = ask.unspent;
        Command::Lease(limit, ask)
    }
}

impl Process {
    fn apply(&mut self, command: &Command, reply: &Reply) {
        for (seen, level) in self.seen.iter_mut().zip(&reply.levels) {
            *seen = level.seen();
        }
        if let (Some(Grant { seq, granted, kept, .. }), Command::Lease(_, ask)) = (reply.grant, command)
            && seq == self.seq
        {
            self.ack = seq;
            self.unspent = kept.saturating_add(granted);
            self.charge -= ask.charge.min(self.charge);
        }
    }
}

#[test]
fn script_replies_what_the_model_says() {
    let tags = SlotTags::new();
    let first = seed();
    for number in 0..1_000 {
        run(SOURCE, &tags, first.wrapping_add(number)).unwrap_or_else(|error| panic!("{error}"));
    }
}
