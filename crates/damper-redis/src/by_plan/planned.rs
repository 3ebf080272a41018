//! A call on limits by plan, decided by the server or the policy, and the end of its reservation.

use super::bucket::Bucket;
use super::path::{Path, Step};
use super::share::ShareTerms;
use crate::limiter::{CLOSED_WAIT, Fleet, RedisCounts, RedisKey, RedisStatus, Unavailable, WhenDown};
use crate::micros::{MicrosClock, micros_of};
use crate::script::{
    Command, Level, Limit, PathKeys, PlannedTake, PlannedTakes, Reply, Sighting, Status, Take, Terms, with_kept,
};
use core::time::Duration;
use damper_core::internal::{allowed_on, denied_on, outlasts, tree_allowed, tree_denied, usage_elsewhere};
use damper_core::keyed::TreeAllowed;
use damper_core::{BoundedStore, Denied, OutOfRange, Plan, Quota, TreeDenied, Usage};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::runtime::Handle;

/// The plan of a command that takes nothing.
const ANY_PLAN: Plan = match Plan::new(Quota::per_second(1)) {
    Ok(plan) => plan,
    Err(_) => Plan::UNLIMITED,
};

/// The settings of limits by plan.
#[derive(Clone, Debug)]
pub(crate) struct TreeSettings {
    /// The names of the levels, the root last.
    pub(crate) levels: Vec<&'static str>,
    pub(crate) dimensions: Vec<&'static str>,
    /// The most parts of a burst that may be unsettled.
    pub(crate) most_unsettled: u32,
    /// How long a reservation may live, in µs.
    pub(crate) time_to_live: u64,
    /// How many buckets this process remembers.
    pub(crate) capacity: usize,
}

/// The limits by plan of one name in this process.
pub(crate) struct Planned {
    fleet: Arc<Fleet>,
    settings: TreeSettings,
    buckets: BoundedStore<Vec<u8>, Bucket>,
    /// Held while the policy takes from the shares of a path, which it does from all or from none.
    shares: Mutex<()>,
}

/// A call that was allowed.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) allowed: TreeAllowed,
    /// The limited buckets of the call, to be settled.
    pub(super) path: Path,
    /// The parts of each bucket that the server counts as unsettled; empty if it did not decide the call.
    pub(super) counted: Vec<u32>,
    /// The server's time in µs at which it decided.
    pub(super) since: u64,
}

/// The first look at a call, without a round trip.
pub(super) enum Begun {
    /// This process has decided it.
    Done(Result<Admitted, TreeDenied>),
    /// The server or the policy has to decide it.
    Open(Path),
}

/// Whether the server counts what a call takes as unsettled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Check,
    Reserve,
}

impl Planned {
    pub(crate) fn new(fleet: Arc<Fleet>, settings: TreeSettings) -> Result<Self, OutOfRange> {
        let buckets = BoundedStore::new(settings.capacity)?.keep_if(Bucket::is_owed);
        Ok(Self { fleet, settings, buckets, shares: Mutex::default() })
    }

    pub(crate) fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    pub(super) fn settings(&self) -> &TreeSettings {
        &self.settings
    }

    pub(super) fn len(&self) -> usize {
        self.buckets.len()
    }

    pub(super) fn status(&self) -> RedisStatus {
        self.fleet.status(0)
    }

    pub(super) fn counts(&self) -> RedisCounts {
        self.fleet.counts(0)
    }

    /// Returns the limited buckets of a path that ends with its root, with a cost for each dimension.
    pub(super) fn path<K: RedisKey + ?Sized, const LEVELS: usize, const DIMENSIONS: usize>(
        &self,
        path: &[(&K, [&Plan; DIMENSIONS]); LEVELS],
        costs: [u32; DIMENSIONS],
    ) -> Path {
        let (tags, name) = (&self.fleet.tags, &self.fleet.name);
        let root = LEVELS - 1;
        let mut found =
            Path { keys: path[root].0.with_bytes(|bytes| PathKeys::new(tags, name, bytes)), steps: Vec::new() };
        for (level, (key, plans)) in path.iter().enumerate() {
            for (dimension, plan) in plans.iter().enumerate() {
                let Some(terms) = Terms::of_plan(plan) else { continue };
                let names = (self.settings.levels[level], self.settings.dimensions[dimension]);
                // The root's key is in the hash tag of all.
                let mut push = |key: &[u8]| found.keys.push(names.0, names.1, key);
                if level == root {
                    push(&[]);
                } else {
                    key.with_bytes(push);
                }
                let bucket = self.bucket(found.keys.names().last().map_or("", String::as_str));
                let (quota, cost) = (plan.quota(), costs[dimension]);
                found.steps.push(Step { terms, quota, cost, place: (level, dimension), bucket });
            }
        }
        found
    }

    /// Returns the memory of the bucket with this name.
    fn bucket(&self, name: &str) -> Arc<Bucket> {
        let make = || Bucket::new(self.fleet.shares_from(|| self.buckets.kept_evictions()));
        with_kept(name.as_bytes(), |kept| self.buckets.get_or_insert_with(kept, make))
    }

    /// Returns a command that takes nothing from a bucket of no key, with the names of its keys.
    pub(crate) fn look_at_nothing(&self) -> (Vec<String>, Command) {
        let mut keys = PathKeys::new(&self.fleet.tags, &self.fleet.name, &[]);
        keys.push("", "", &[]);
        let look = Terms::of_plan(&ANY_PLAN).map(|terms| PlannedTake {
            limit: Limit { terms, seen: Sighting::default() },
            take: Take::default(),
            count: 0,
            counted: 0,
        });
        (keys.names().to_vec(), self.command(look.into_iter().collect(), 0))
    }

    /// Decides on a call, if this process can.
    pub(super) fn begin(&self, mut path: Path) -> Begun {
        path.retain(|step| step.cost > 0);
        if path.steps.is_empty() {
            let allowed = tree_allowed(None, (0, 0));
            return Begun::Done(Ok(Admitted { allowed, path, counted: Vec::new(), since: 0 }));
        }
        let now = self.fleet.server.now();
        let mut refused = Longest::default();
        for step in &path.steps {
            if step.cost > step.terms.burst {
                // No wait helps.
                refused.add(step, denied_on(&MicrosClock, step.terms.burst, Some(0), Some(0)));
            } else if let Some(lack) = step.bucket.lack(&step.terms, step.cost, now) {
                refused.add(step, denied_on(&MicrosClock, lack.left, Some(lack.full_in), Some(lack.wait)));
            }
        }
        match refused.0 {
            None => {
                // A refused call asks no bucket, so it leaves this to a call that another bucket does not refuse.
                path.steps.iter().for_each(|step| step.bucket.ask(&step.terms, step.cost, now));
                Begun::Open(path)
            }
            Some((step, denied)) => {
                self.fleet.counters.denied_locally.add(1);
                Begun::Done(Err(self.denied(step, denied)))
            }
        }
    }

    /// Decides on a call by the server or, after the deadline, by the policy.
    pub(super) async fn decide(self: &Arc<Self>, path: Path, purpose: Purpose) -> Result<Admitted, TreeDenied> {
        let sent = self.fleet.server.now();
        let count = |step: &Step| if purpose == Purpose::Reserve { step.parts() } else { 0 };
        let takes = path.steps.iter().map(|step| (step.cost, count(step)));
        match self.call(&path, takes.collect(), sent).await {
            Ok(reply) => self.answer(path, reply, sent),
            Err(_) => self.decide_by_policy(path),
        }
    }

    /// Asks the server how much of each bucket of a path is used. The reply has a level for each step.
    pub(super) async fn look(self: &Arc<Self>, path: &Path) -> Result<Vec<Usage>, Unavailable> {
        if path.steps.is_empty() {
            return Ok(Vec::new());
        }
        let sent = self.fleet.server.now();
        let reply = self.call(path, vec![(0, 0); path.steps.len()], sent).await?;
        Self::see(path, &reply, sent);
        let usage = |(step, level): (&Step, &Level)| {
            let debt = level.owed.saturating_sub(step.terms.burst.into());
            let resets_in = level.resets_in(&step.terms, reply.now);
            usage_elsewhere(
                step.quota,
                level.remaining(&step.terms),
                u32::try_from(debt).unwrap_or(u32::MAX),
                resets_in,
            )
        };
        Ok(path.steps.iter().zip(&reply.levels).map(usage).collect())
    }

    /// Takes a cost from each bucket, counts so many parts of it, and books what waits for a command.
    async fn call(&self, path: &Path, takes: Vec<(u32, u32)>, sent: u64) -> Result<Reply, Unavailable> {
        let mut charges = Charges::new(&path.steps);
        let takes = path.steps.iter().zip(takes).map(|(step, (cost, count))| {
            let (seen, charge) = step.bucket.take_out();
            charges.tokens.push(charge);
            let limit = Limit { terms: step.terms, seen };
            PlannedTake { limit, take: Take { cost, charge, refund: 0 }, count, counted: 0 }
        });
        let command = self.command(takes.collect(), 0);
        let called = self.run(&path.keys, &command, self.until(sent)).await;
        charges.end(called.as_ref().err());
        called
    }

    /// Returns the deadline of a call that was sent at the local time `sent` in µs.
    fn until(&self, sent: u64) -> Instant {
        self.fleet.server.instant(sent) + self.fleet.server.deadline()
    }

    fn command(&self, takes: Vec<PlannedTake>, since: u64) -> Command {
        let TreeSettings { most_unsettled, time_to_live, .. } = self.settings;
        Command::ByPlan(PlannedTakes { takes, most_unsettled, time_to_live, since })
    }

    /// Runs a command on the buckets of a path.
    async fn run(&self, keys: &PathKeys, command: &Command, until: Instant) -> Result<Reply, Unavailable> {
        if Handle::try_current().is_err() {
            self.fleet.server.note(&Unavailable::NoRuntime);
            self.fleet.note(keys.slot(), Some(&Unavailable::NoRuntime));
            return Err(Unavailable::NoRuntime);
        }
        self.fleet.heartbeat.ensure(&self.fleet);
        let called = self.fleet.server.call(keys.slot(), keys.names(), command, until).await;
        self.fleet.note(keys.slot(), called.as_ref().err());
        called
    }

    /// Remembers the levels of a reply, and returns the refusal with the longest wait.
    fn see<'a>(path: &'a Path, reply: &Reply, sent: u64) -> Longest<'a> {
        let mut refused = Longest::default();
        for (step, level) in path.steps.iter().zip(&reply.levels) {
            let lacks = level.owed.saturating_add(step.cost.into()) > u64::from(step.terms.burst);
            let is_refusal = reply.status == Status::Denied && lacks;
            step.bucket.see(level, &step.terms, reply.now, sent, is_refusal);
            if is_refusal {
                let micros = |time: Option<Duration>| time.map(|time| micros_of(time).max(1));
                let wait = micros(level.retry_after(&step.terms, step.cost, reply.now));
                let full_in = micros(level.resets_in(&step.terms, reply.now));
                refused.add(step, denied_on(&MicrosClock, level.remaining(&step.terms), full_in, wait));
            }
        }
        refused
    }

    /// Returns the answer of the server, or that of the policy if a permission comes too late.
    fn answer(&self, path: Path, reply: Reply, sent: u64) -> Result<Admitted, TreeDenied> {
        let refused = Self::see(&path, &reply, sent);
        if let Some((step, denied)) = refused.0 {
            self.fleet.counters.denied_by_server.add(1);
            return Err(self.denied(step, denied));
        }
        if self.fleet.server.is_too_late(self.until(sent)) {
            return self.decide_by_policy(path);
        }
        self.fleet.counters.allowed_by_server.add(1);
        let levels = path.steps.iter().zip(&reply.levels).map(|(step, level)| {
            let full_in = level.resets_in(&step.terms, reply.now).map_or(u64::MAX, micros_of);
            (step.place, step.terms.burst, level.remaining(&step.terms), full_in)
        });
        let allowed = tightest(levels);
        Ok(Admitted { allowed, path, counted: reply.counted, since: reply.now })
    }

    fn denied(&self, step: &Step, denied: Denied) -> TreeDenied {
        let (level, dimension) = step.place;
        let names = [self.settings.levels[level], self.settings.dimensions[dimension]];
        tree_denied(denied, step.quota, step.place, names)
    }

    /// Decides on a call by the policy.
    #[cold]
    fn decide_by_policy(&self, path: Path) -> Result<Admitted, TreeDenied> {
        self.fleet.authority.decides(self.fleet.server.now());
        let decided = match self.fleet.when_down {
            WhenDown::Open => {
                Ok(tightest(path.steps.iter().map(|step| (step.place, step.terms.burst, step.terms.burst, 0))))
            }
            WhenDown::Closed => Err(self.closed(&path)),
            WhenDown::LocalShare => self.take_shares(&path),
        };
        match decided {
            Ok(allowed) => {
                self.fleet.counters.allowed_by_policy.add(1);
                Ok(Admitted { allowed, path, counted: Vec::new(), since: 0 })
            }
            Err(denied) => {
                self.fleet.counters.denied_by_policy.add(1);
                Err(denied)
            }
        }
    }

    /// Returns the refusal of a policy that admits nothing, which names the first bucket.
    fn closed(&self, path: &Path) -> TreeDenied {
        let denied = denied_on(&MicrosClock, 0, Some(CLOSED_WAIT), Some(CLOSED_WAIT));
        match path.steps.first() {
            Some(step) => self.denied(step, denied),
            // A call without a limited bucket is allowed before.
            None => {
                tree_denied(denied, Quota::UNLIMITED, (0, 0), [self.settings.levels[0], self.settings.dimensions[0]])
            }
        }
    }

    /// Takes from this process's shares of all buckets, or from none.
    fn take_shares(&self, path: &Path) -> Result<TreeAllowed, TreeDenied> {
        let processes = self.fleet.processes();
        if processes == 0 {
            // If each process guessed the number, each might take the whole quota.
            return Err(self.closed(path));
        }
        let now = self.fleet.server.now();
        let replied = self.fleet.server.shard(path.keys.slot()).1.replied_at();
        let _all_or_none = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let mut refused = Longest::default();
        let mut levels = Vec::with_capacity(path.steps.len());
        for step in &path.steps {
            let share = ShareTerms::new(&step.terms, processes);
            let level = step.bucket.share(&share, now, replied, step.cost);
            if level.wait != Some(0) {
                // The server may allow more than a share can ever hold, so such a call is worth another try.
                let wait = level.wait.unwrap_or(CLOSED_WAIT);
                refused.add(step, denied_on(&MicrosClock, level.left, Some(level.full_in), Some(wait)));
            }
            levels.push((step.place, share.burst(), level.left.saturating_sub(step.cost), level.full_in));
        }
        if let Some((step, denied)) = refused.0 {
            return Err(self.denied(step, denied));
        }
        for step in &path.steps {
            step.bucket.take_share(&ShareTerms::new(&step.terms, processes), now, replied, step.cost);
        }
        Ok(tightest(levels.into_iter()))
    }

    /// Settles what a call took: sends what it gives back and what it used beyond, in a task of its own.
    ///
    /// Without a runtime, and for a call that the policy decided, nothing is given back, and what was used beyond goes with the next
    /// command for the bucket.
    pub(super) fn settle(self: &Arc<Self>, admitted: Admitted, used: impl Fn(usize) -> u32) {
        let Admitted { path, counted, since, .. } = admitted;
        let is_by_server = counted.len() == path.steps.len() && !path.steps.is_empty();
        let runtime = Handle::try_current().ok().filter(|_| is_by_server);
        let mut charges = Vec::with_capacity(path.steps.len());
        let takes =
            path.steps.iter().zip(counted.iter().copied().chain(core::iter::repeat(0))).map(|(step, counted)| {
                let used = used(step.place.1);
                charges.push(u64::from(used.saturating_sub(step.cost)));
                let take = Take { cost: 0, charge: 0, refund: step.cost.saturating_sub(used).into() };
                PlannedTake { limit: Limit { terms: step.terms, seen: Sighting::default() }, take, count: 0, counted }
            });
        let mut takes: Vec<PlannedTake> = takes.collect();
        let is_nothing = charges.iter().all(|charge| *charge == 0) && takes.iter().all(|take| take.counted == 0);
        for (step, &charge) in path.steps.iter().zip(&charges) {
            step.bucket.charge(charge);
        }
        let Some(runtime) = runtime.filter(|_| !is_nothing) else { return };
        let planned = Arc::clone(self);
        runtime.spawn(async move {
            let sent = planned.fleet.server.now();
            let mut charges = Charges::new(&path.steps);
            for (step, take) in path.steps.iter().zip(&mut takes) {
                (take.limit.seen, take.take.charge) = step.bucket.take_out();
                charges.tokens.push(take.take.charge);
            }
            let until = Instant::now() + planned.fleet.server.deadline();
            // If the command is lost, so is what it gives back. Its charges are sent again.
            let command = planned.command(takes, since);
            let called = planned.run(&path.keys, &command, until).await;
            charges.end(called.as_ref().err());
            if let Ok(reply) = called {
                Self::see(&path, &reply, sent);
            }
        });
    }
}

impl Drop for Planned {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.fleet.server.is_connected() {
            let fleet = Arc::clone(&self.fleet);
            runtime.spawn(async move { fleet.heartbeat.leave(&fleet).await });
        }
    }
}

/// The charges that a command carries.
///
/// If it has no reply, they are sent again, also if its future is dropped.
struct Charges<'a> {
    steps: &'a [Step],
    tokens: Vec<u64>,
}

impl<'a> Charges<'a> {
    fn new(steps: &'a [Step]) -> Self {
        Self { steps, tokens: Vec::with_capacity(steps.len()) }
    }

    /// Ends the command. The buckets get the charges back if the server certainly has not booked them.
    fn end(&mut self, error: Option<&Unavailable>) {
        match error {
            Some(error) if error.was_sent() => {}
            Some(_) => {
                self.steps.iter().zip(self.tokens.drain(..)).for_each(|(step, tokens)| step.bucket.charge(tokens));
            }
            None => self.tokens.clear(),
        }
    }
}

impl Drop for Charges<'_> {
    fn drop(&mut self) {
        for (step, &tokens) in self.steps.iter().zip(&self.tokens) {
            step.bucket.doubt(tokens);
        }
    }
}

/// The refusal with the longest wait, and the first of equals.
#[derive(Default)]
struct Longest<'a>(Option<(&'a Step, Denied)>);

impl<'a> Longest<'a> {
    fn add(&mut self, step: &'a Step, denied: Denied) {
        if self.0.as_ref().is_none_or(|(_, longest)| outlasts(&denied, longest)) {
            self.0 = Some((step, denied));
        }
    }
}

/// Returns the permission of the tightest bucket, and of the first of equals.
///
/// It is that of which the smallest part of the burst is left. Each level is a place, a burst, what is left, and the time in µs until the bucket is full.
fn tightest(levels: impl Iterator<Item = ((usize, usize), u32, u32, u64)>) -> TreeAllowed {
    let mut tightest = None;
    for level @ (_, burst, left, _) in levels {
        let is_tighter = |&(_, other_burst, other_left, _): &((usize, usize), u32, u32, u64)| {
            u64::from(left) * u64::from(other_burst) < u64::from(other_left) * u64::from(burst)
        };
        if tightest.as_ref().is_none_or(is_tighter) {
            tightest = Some(level);
        }
    }
    match tightest {
        Some((place, _, left, full_in)) => tree_allowed(Some(allowed_on(&MicrosClock, left, full_in)), place),
        None => tree_allowed(None, (0, 0)),
    }
}
