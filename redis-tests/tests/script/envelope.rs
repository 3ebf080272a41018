//! Admissions of greedy processes never exceed burst + rate · t, by a bucket of the test's own.

use crate::seed::seed;
use crate::weakened::without;
use damper_core::Quota;
use damper_redis::internal::{
    Command, Frame, Grant, Keys, LeaseRequest, Limit, NEVER, SOURCE, Sighting, SlotTags, Status, Take, Terms,
};
use damper_redis_tests::{LuaServer, Random};

const START: u64 = 1_790_000_000_000_000;
const LEASE: u64 = 1_000_000;
const STEPS: usize = 400;
const HOLDERS: usize = 4;
const FRAME: Frame = Frame { not_after: 0, lease: LEASE, after_loss: NEVER };

/// A bucket that every admission is taken from, wherever it was decided. In parts of the rate's period.
struct Truth {
    terms: Terms,
    level: i128,
    at: u64,
    admitted: u64,
}

impl Truth {
    fn parts(&self, tokens: u64) -> i128 {
        i128::from(tokens) * i128::from(self.terms.rate.micros())
    }

    fn admit(&mut self, now: u64, tokens: u64) -> Result<(), String> {
        let dripped = i128::from(now - self.at) * i128::from(self.terms.rate.tokens());
        self.level = (self.level + dripped).min(self.parts(self.terms.burst.into()));
        self.at = now;
        self.level -= self.parts(tokens);
        self.admitted += tokens;
        if self.level >= 0 {
            Ok(())
        } else {
            Err(format!("more than the envelope {} µs after the start", now - START))
        }
    }
}

/// A process that holds a lease and tells the truth.
#[derive(Clone, Debug, Default)]
struct Holder {
    id: u64,
    seq: u64,
    ack: u64,
    tokens: u32,
    end: u64,
    /// A response under way: when its request was sent, and what it grants.
    response: Option<(u64, Grant)>,
    seen: Sighting,
}

struct World {
    random: Random,
    server: LuaServer,
    keys: Keys,
    terms: Terms,
    truth: Truth,
    holders: Vec<Holder>,
    losses: bool,
}

/// Runs a schedule, and returns how many tokens were admitted.
fn run(script: &str, tags: &SlotTags, seed: u64, losses: bool) -> Result<u64, String> {
    let mut random = Random(seed);
    let quota = random.one_of(&[
        Quota::per_second(1_000).burst(100),
        Quota::per_second(100),
        Quota::per_second(70).burst(400),
        Quota::per_minute(999).burst(20),
    ]);
    let terms = Terms::new(quota, random.one_of(&[quota.burst_size() / 4, quota.burst_size()])).unwrap();
    let keys = Keys::new(tags, "envelope", &seed.to_le_bytes());
    let server = LuaServer::with_script(script, START + random.below(LEASE));
    server.set(keys.marker(), b"0");
    let level = i128::from(terms.burst) * i128::from(terms.rate.micros());
    let truth = Truth { terms, level, at: server.now(), admitted: 0 };
    let holders = (0..HOLDERS).map(|id| Holder { id: id as u64, ..Holder::default() }).collect();
    let mut world = World { random, server, keys, terms, truth, holders, losses };
    for step in 0..STEPS {
        world.step().map_err(|error| format!("seed {seed}, step {step}: {error}"))?;
    }
    Ok(world.truth.admitted)
}

impl World {
    fn step(&mut self) -> Result<(), String> {
        let which = self.random.below(HOLDERS as u64) as usize;
        let mut holder = self.holders[which].clone();
        match self.random.below(40) {
            0..12 => {
                let longest = self.random.one_of(&[1_000, 30_000, 200_000, 1_500_000]);
                self.server.advance(self.random.below(longest));
            }
            12..20 => self.request(&mut holder)?,
            20..24 => self.take(&mut holder)?,
            24 => holder = Holder { id: holder.id + HOLDERS as u64, ..Holder::default() },
            25 if self.losses => self.server.flush(),
            26..30 => holder.receive(),
            _ => self.spend(&mut holder)?,
        }
        self.holders[which] = holder;
        Ok(())
    }

    fn limit(&self, seen: Sighting) -> Limit {
        Limit { terms: self.terms, seen }
    }

    fn take(&mut self, holder: &mut Holder) -> Result<(), String> {
        let cost = self.random.below(u64::from(self.terms.burst) / 2 + 2) as u32;
        let command = Command::Take(vec![(self.limit(holder.seen), Take { cost, ..Take::default() })]);
        let reply = self.server.execute(&self.keys, holder.id, &command, &FRAME).map_err(|error| error.to_string())?;
        holder.seen = reply.levels[0].seen();
        if reply.status == Status::Done { self.truth.admit(self.server.now(), cost.into()) } else { Ok(()) }
    }

    /// Asks for more; the response arrives later, or never.
    fn request(&mut self, holder: &mut Holder) -> Result<(), String> {
        let now = self.server.now();
        if now >= holder.end {
            holder.tokens = 0;
        }
        let back = if self.random.once_in(4) { self.random.below(u64::from(holder.tokens) + 1) as u32 } else { 0 };
        holder.tokens -= back;
        holder.seq += 1;
        let want = self.random.below(u64::from(self.terms.burst) + 1) as u32;
        let (seq, ack, unspent) = (holder.seq, holder.ack, holder.tokens);
        let ask = LeaseRequest { seq, ack, unspent, back, want, ..LeaseRequest::default() };
        let command = Command::Lease(self.limit(holder.seen), ask);
        let reply = self.server.execute(&self.keys, holder.id, &command, &FRAME).map_err(|error| error.to_string())?;
        let granted = reply.grant.unwrap();
        holder.response = (!self.random.once_in(4)).then_some((now, granted));
        if holder.response.is_some() {
            holder.seen = reply.levels[0].seen();
        }
        Ok(())
    }

    fn spend(&mut self, holder: &mut Holder) -> Result<(), String> {
        let now = self.server.now();
        if now >= holder.end {
            return Ok(());
        }
        let spent = self.random.below(u64::from(holder.tokens) + 1) as u32;
        holder.tokens -= spent;
        self.truth.admit(now, spent.into())
    }
}

impl Holder {
    fn receive(&mut self) {
        if let Some((sent, grant)) = self.response.take() {
            self.ack = grant.seq;
            self.tokens = self.tokens.min(grant.kept) + grant.granted;
            self.end = sent + grant.length / 8 * 7;
        }
    }
}

#[test]
fn leases_and_takes_stay_in_the_envelope() {
    let tags = SlotTags::new();
    for losses in [false, true] {
        let mut admitted = 0;
        for number in 0..500 {
            let ran = run(SOURCE, &tags, seed().wrapping_add(number), losses);
            admitted += ran.unwrap_or_else(|error| panic!("{error}"));
        }
        println!("{admitted} tokens, with losses of the server's memory: {losses}");
        assert!(admitted > 50_000, "{admitted} tokens are too few to show anything");
    }
}

/// Lets the server forget after each of two intervals in turn, while holders lease what they can.
///
/// They spend none of it.
///
/// Returns the most tokens that were leased and in the bucket at a time.
fn hoarded(script: &str, tags: &SlotTags, hold: u32, intervals: [u64; 2]) -> u64 {
    let terms = Terms::new(Quota::per_second(1_000), hold).unwrap();
    let keys = Keys::new(tags, "hoarded", b"subject");
    let server = LuaServer::with_script(script, START);
    server.set(keys.marker(), b"0");
    let limit = Limit { terms, seen: Sighting::default() };
    let mut leases: Vec<(u64, u64)> = Vec::new();
    let mut most = 0;
    for holder in 0..20 {
        let now = server.now();
        let ask = LeaseRequest { seq: 1, want: terms.burst, ..LeaseRequest::default() };
        let command = Command::Lease(limit, ask);
        let reply = server.execute(&keys, holder, &command, &FRAME).unwrap();
        let Grant { granted, length, .. } = reply.grant.unwrap();
        leases.push((now + length / 8 * 7, granted.into()));
        leases.retain(|&(end, _)| now < end);
        let leased: u64 = leases.iter().map(|(_, tokens)| tokens).sum();
        most = most.max(leased + u64::from(reply.levels[0].remaining(&terms)));
        server.flush();
        // The server begins to count with the next command.
        server.execute(&keys, holder, &Command::Take(vec![(limit, Take::default())]), &FRAME).unwrap();
        server.advance(intervals[holder as usize % 2]);
    }
    most
}

#[test]
fn losses_one_after_another_leave_no_more_than_the_burst() {
    let tags = SlotTags::new();
    let most = |script: &str| {
        let holds = [100, 250, 333, 334, 500, 900, 1_000];
        let each = |hold| (0..64).map(move |step| (hold, [1 + 100_000 * (step / 8), 1 + 100_000 * (step % 8)]));
        holds.into_iter().flat_map(each).map(|(hold, intervals)| hoarded(script, &tags, hold, intervals)).max()
    };
    assert_eq!(most(SOURCE), Some(1_000), "the burst");
    for rule in
        ["after a loss leases are short", "after a loss less may be leased", "a lost limit has a phantom holder"]
    {
        let without = most(&without(rule));
        println!("{rule}: without it {without:?}");
        assert!(without > Some(1_000), "{rule}: {without:?}");
    }
}

/// Rules whose absence these schedules notice soon. `weakened` compares all of them with the model.
const NEEDED: [&str; 5] = [
    "leased tokens count as still in the bucket",
    "a grant is in the bucket",
    "a grant leaves the bucket",
    "a lost limit has a phantom holder",
    "a missing limit was empty at the marker's time",
];

#[test]
fn rules_left_out_exceed_the_envelope() {
    let tags = SlotTags::new();
    let mut unnoticed = Vec::new();
    for rule in NEEDED {
        let script = without(rule);
        match (0..1_000).find_map(|seed| run(&script, &tags, seed, true).err()) {
            Some(error) => println!("{rule}: {error}"),
            None => unnoticed.push(rule),
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}
