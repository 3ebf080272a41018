//! A slow, obvious model of the script, with debts as exact fractions of 128 bits.

use damper_redis::internal::{Command, Frame, Grant, LeaseRequest, Level, Limit, NEVER, Reply, Status, Take, Terms};
use std::collections::BTreeMap;

/// One limit as it is stored.
#[derive(Clone, Debug)]
struct State {
    born: u64,
    version: u64,
    safe: u64,
    told: u64,
    at: u64,
    /// The debt in parts of `period`.
    debt: i128,
    period: u64,
    /// Ends and counts, earliest first.
    leases: Vec<(u64, u64)>,
    /// The end of the tokens that may be out since a state was lost, and their count.
    lost: Option<(u64, u64)>,
    /// In ms; `None` where the key stays.
    expires: Option<u64>,
}

/// The last request of a holder.
#[derive(Clone, Debug)]
struct Record {
    born: u64,
    seq: u64,
    ack: u64,
    granted: u64,
    kept: u64,
    end: u64,
    length: u64,
    charge: u64,
    expires: u64,
}

/// A limit while a command runs.
#[derive(Debug)]
struct Open {
    state: State,
    terms: Terms,
    take: Take,
    changed: bool,
}

/// The keys of one subject on a server.
#[derive(Clone, Debug, Default)]
pub struct Model {
    marker: Option<u64>,
    limits: BTreeMap<usize, State>,
    holders: BTreeMap<u64, Record>,
}

/// Nothing, or in what the script differs.
type Answer = Result<(), String>;

fn require(holds: bool, what: impl FnOnce() -> String) -> Answer {
    if holds { Ok(()) } else { Err(what()) }
}

fn lease_end(from: u64, length: u64) -> u64 {
    let step = (length / 8).max(1);
    (from + length).div_ceil(step) * step
}

/// The tokens that may be leased beside those of a state that was lost, and for how long.
fn terms_after_loss(terms: &Terms, frame: &Frame) -> (u64, u64) {
    let most = terms.hold.min((terms.burst - terms.hold) / 2);
    let rest = f64::from(terms.burst - terms.hold - most);
    // With the doubles of the script, which round where this is longer than any lease or a µs is worth millions of tokens.
    let time = (rest * terms.rate.micros() as f64 / terms.rate.tokens() as f64).floor();
    (most.into(), if time < frame.lease as f64 { time as u64 } else { frame.lease })
}

fn expiry(now: u64, until: u64) -> u64 {
    now / 1_000 + until.saturating_sub(now) / 1_000 + 3
}

impl State {
    fn full(now: u64, period: u64) -> Self {
        let (leases, lost, expires) = (Vec::new(), None, None);
        Self { born: now, version: now, safe: 0, told: 0, at: now, debt: 0, period, leases, lost, expires }
    }

    fn held(&self) -> u64 {
        self.leases.iter().map(|(_, count)| count).sum()
    }

    /// The tokens of holders that are known.
    fn leased(&self) -> u64 {
        self.held() - self.lost.map_or(0, |(_, count)| count)
    }

    fn parts(&self, tokens: u64) -> i128 {
        i128::from(tokens) * i128::from(self.period)
    }

    fn ceiling(&mut self) {
        self.debt = self.debt.max(self.parts(self.held()));
    }

    fn refill(&mut self, to: u64, terms: &Terms) {
        self.debt -= i128::from(to - self.at) * i128::from(terms.rate.tokens());
        self.at = to;
        self.ceiling();
    }

    /// The debt in tokens, rounded up.
    fn owed(&self) -> u64 {
        let period = i128::from(self.period);
        u64::try_from((self.debt + period - 1) / period).expect("a debt of fewer than 2^64 tokens")
    }

    fn level(&self, full_at: u64) -> Level {
        let (owed, held) = (self.owed(), self.held());
        let frac = u64::try_from(self.parts(owed) - self.debt).expect("less than a token");
        Level { version: self.version, at: self.at, owed, frac, held, full_at }
    }

    /// Converts the fraction to another period, rounded down.
    fn convert(&mut self, period: u64) {
        let level = self.level(0);
        let frac = u128::from(level.frac) * u128::from(period) / u128::from(self.period);
        self.period = period;
        self.debt = self.parts(level.owed) - i128::try_from(frac).expect("below the period");
    }

    /// Cuts the debt to the deepest one, and heals a clock that stepped back. Returns whether it did.
    fn heal(&mut self, now: u64, terms: &Terms, frame: &Frame) -> bool {
        let deepest = self.parts(terms.deepest.max(self.held()));
        if now >= self.at {
            let cut = self.debt > deepest;
            self.debt = self.debt.min(deepest);
            return cut;
        }
        let today = self.debt + i128::from(self.at - now) * i128::from(terms.rate.tokens());
        if today <= self.parts(terms.deepest) {
            return false;
        }
        (self.debt, self.at, self.version) = (deepest, now, self.version + 1);
        (self.born, self.safe) = (self.version, self.version);
        let last = lease_end(now, frame.lease);
        self.lost = self.lost.map(|(end, count)| (end.min(last), count));
        let late: u64 = self.leases.iter().filter(|(end, _)| *end >= last).map(|(_, count)| count).sum();
        self.leases.retain(|(end, _)| *end < last);
        if late > 0 {
            self.leases.push((last, late));
        }
        true
    }

    fn catch_up(&mut self, now: u64, terms: &Terms) {
        let time = now.max(self.at);
        while let Some(&(end, _)) = self.leases.first().filter(|(end, _)| *end <= time) {
            self.refill(end.max(self.at), terms);
            self.leases.remove(0);
        }
        self.lost = self.lost.filter(|(end, _)| *end > time);
        self.refill(time, terms);
    }

    /// Counts leased tokens, and returns the end until which.
    fn lease(&mut self, end: u64, count: u64) -> u64 {
        let later = self.leases.iter().position(|(other, _)| *other >= end);
        let index = match later {
            Some(index) if self.leases[index].0 == end || self.leases.len() == 10 => index,
            None if self.leases.len() == 10 => {
                self.leases[9].0 = end;
                9
            }
            vacant => {
                let index = vacant.unwrap_or(self.leases.len());
                self.leases.insert(index, (end, 0));
                index
            }
        };
        self.leases[index].1 += count;
        self.leases[index].0
    }

    /// Takes leased tokens out. Returns whether they were there.
    fn release(&mut self, end: u64, count: u64) -> bool {
        let Some(index) = self.leases.iter().position(|lease| lease.0 == end && lease.1 >= count) else {
            return count == 0;
        };
        self.leases[index].1 -= count;
        if self.leases[index].1 == 0 {
            self.leases.remove(index);
        }
        true
    }

    /// The exact time at which the bucket is full, and the latest that the script may say.
    fn full_times(&self, terms: &Terms) -> (u64, u64) {
        let tokens = i128::from(terms.rate.tokens());
        if self.debt == 0 {
            return (self.at, self.at);
        } else if tokens == 0 {
            return (NEVER, NEVER);
        }
        let until = |from: u64, parts: i128| i128::from(from) + (parts + tokens - 1) / tokens;
        let (mut exact, mut latest) = (until(self.at, self.debt), until(self.at, self.debt));
        let mut held = self.held();
        let last = self.leases.last().map_or(0, |lease| lease.0);
        if held > 0 {
            latest = latest.max(until(last, self.parts(held)));
        }
        for (end, count) in &self.leases {
            exact = exact.max(until(*end, self.parts(held)));
            held -= count;
        }
        // The script computes this with doubles.
        let slack = 2 + (exact >> 50);
        let cap = |time: i128| u64::try_from(time).unwrap_or(NEVER).min(NEVER);
        (cap(exact - (exact >> 50)), cap(latest + slack))
    }

    fn begin_empty(&mut self, version: u64, safe: u64, at: u64, terms: &Terms, frame: &Frame) {
        let lost = (lease_end(at, frame.lease), self.held().max(terms.hold.into()));
        self.debt = self.parts(self.owed().max(u64::from(terms.burst)));
        self.lost = (lost.1 > 0).then_some(lost);
        self.leases = self.lost.into_iter().collect();
        (self.born, self.version, self.safe, self.at) = (version, version, safe, at);
    }
}

impl Open {
    fn settle(&mut self) {
        let Take { charge, refund, .. } = self.take;
        self.changed |= charge > 0 || refund > 0;
        if refund > 0 && self.state.owed() <= u64::from(self.terms.burst) {
            self.state.debt -= self.state.parts(refund);
            self.state.ceiling();
        }
        let deepest = self.terms.deepest.max(self.state.owed());
        let charge = charge.min(deepest - self.state.owed());
        self.state.debt += self.state.parts(charge);
    }

    fn spare(&self) -> u64 {
        u64::from(self.terms.burst).saturating_sub(self.state.owed())
    }
}

impl Model {
    /// Runs a command at a time, and compares the reply of the script.
    ///
    /// # Errors
    ///
    /// In what the script differs.
    pub fn compare(&mut self, now: u64, holder: u64, command: &Command, frame: &Frame, reply: &Reply) -> Answer {
        require(reply.now == now, || format!("the time is {now}"))?;
        if frame.not_after > 0 && now > frame.not_after {
            return require(reply.status == Status::Late, || "a late command had an effect".to_owned());
        }
        self.expire(now);
        let stored = self.clone();
        let mut open = Vec::new();
        for (index, (limit, take)) in limits_of(command).into_iter().enumerate() {
            open.push(self.open(now, index, limit, take, frame));
        }
        let (status, grant) = match command {
            Command::Take(_) => (take(&mut open), None),
            Command::Lease(_, ask) => match self.lease(now, &mut open[0], holder, ask, frame) {
                Some(grant) => (Status::Done, Some(grant)),
                None => (Status::Stale, None),
            },
            Command::Reset(_) | Command::ByPlan(_) => {
                for limit in &mut open {
                    limit.state.debt = 0;
                    limit.state.ceiling();
                    limit.changed = true;
                }
                (Status::Done, None)
            }
        };
        require(reply.status == status, || format!("the status is {status:?}"))?;
        require(reply.grant == grant, || format!("the grant is {grant:?}"))?;
        if status == Status::Stale {
            // Nothing is written but the marker.
            *self = Self { marker: self.marker, ..stored };
            return Ok(());
        }
        for (index, (mut limit, level)) in open.into_iter().zip(&reply.levels).enumerate() {
            let state = &mut limit.state;
            state.version += u64::from(limit.changed);
            let expected = state.level(level.full_at);
            require(*level == expected, || format!("limit {index} is {expected:?}"))?;
            let (exact, latest) = state.full_times(&limit.terms);
            require((exact..=latest).contains(&level.full_at), || {
                format!("limit {index} is full between {exact} and {latest}")
            })?;
            if limit.changed {
                state.told = state.told.max(level.full_at);
                state.expires = (state.told < NEVER).then(|| expiry(now, state.told));
                self.limits.insert(index, limit.state);
            }
        }
        Ok(())
    }

    /// Forgets what has expired.
    pub fn expire(&mut self, now: u64) {
        let millis = now / 1_000;
        self.limits.retain(|_, state| state.expires.is_none_or(|expires| millis <= expires));
        self.holders.retain(|_, record| millis <= record.expires);
    }

    /// The limit as it is stored or must be assumed to be, up to now.
    fn open(&mut self, now: u64, index: usize, limit: Limit, take: Take, frame: &Frame) -> Open {
        let Limit { mut terms, seen } = limit;
        terms.hold = terms.hold.min(terms.burst);
        let stored = self.limits.get(&index).cloned();
        let missing = stored.is_none();
        let mut state = stored.unwrap_or(State::full(now, terms.rate.micros()));
        if state.period != terms.rate.micros() {
            state.convert(terms.rate.micros());
        }
        if state.told == NEVER && terms.rate.tokens() > 0 {
            state.told = 0;
        }
        let ahead = seen.full_at > now && frame.after_loss > 0;
        let replaced = state.safe <= seen.version && seen.version < state.born;
        let lost = ahead && (missing || state.version < seen.version || replaced);
        let marker = self.marker.map_or(now, |marker| marker.min(now));
        if missing {
            self.marker = Some(marker);
        }
        let mut changed = false;
        if lost {
            let version = now.max(state.version).max(seen.version) + 1;
            state.told = state.told.max(seen.full_at);
            state.begin_empty(version, version, now, &terms, frame);
            changed = true;
        } else if missing && now - marker < frame.after_loss {
            state.begin_empty(now, marker, marker, &terms, frame);
            changed = true;
        }
        changed |= state.heal(now, &terms, frame);
        state.catch_up(now, &terms);
        changed &= !missing || state.debt > 0;
        Open { state, terms, take, changed }
    }

    fn lease(&mut self, now: u64, limit: &mut Open, holder: u64, ask: &LeaseRequest, frame: &Frame) -> Option<Grant> {
        let state = &mut limit.state;
        let (mut count, mut charged) = (0, 0);
        if let Some(record) = self.holders.get(&holder) {
            let same = record.born == state.born;
            if record.seq == ask.seq && same {
                let (granted, kept) = (record.granted as u32, record.kept as u32);
                return Some(Grant { seq: ask.seq, granted, kept, length: record.length, leased: state.leased() });
            } else if ask.seq <= record.seq {
                return None;
            }
            let (applied, lost) = (ask.ack == record.seq, ask.ack == record.ack && ask.ack != record.seq);
            if same && (applied || lost) && state.release(record.end, record.granted + record.kept) {
                count = record.granted + record.kept;
                if lost {
                    state.debt -= state.parts(record.granted);
                    (count, charged) = (record.kept, record.charge);
                }
            }
        }
        let (unspent, back) = (u64::from(ask.unspent), u64::from(ask.back));
        let (unspent, back) = if unspent + back <= count { (unspent, back) } else { (0, 0) };
        state.debt -= state.parts(back);
        let (most, length) = match state.lost {
            None => (limit.terms.hold.into(), frame.lease),
            Some(_) => terms_after_loss(&limit.terms, frame),
        };
        let mut end = lease_end(state.at, length);
        if unspent > 0 {
            end = state.lease(end, unspent);
        }
        limit.take.charge = ask.charge.saturating_sub(charged);
        limit.settle();
        let free = most.saturating_sub(limit.state.leased());
        let granted = limit.spare().min(free).min(ask.want.into());
        if granted > 0 {
            limit.state.debt += limit.state.parts(granted);
            end = limit.state.lease(end, granted);
        }
        limit.changed = true;
        let (born, charge) = (limit.state.born, ask.charge.max(charged));
        let (seq, ack, kept) = (ask.seq, ask.ack, unspent);
        let expires = expiry(now, end.max(lease_end(limit.state.at, frame.lease)));
        self.holders.insert(holder, Record { born, seq, ack, granted, kept, end, length, charge, expires });
        Some(Grant { seq, granted: granted as u32, kept: kept as u32, length, leased: limit.state.leased() })
    }

    /// Sets the marker of a first deployment.
    pub fn deploy(&mut self) {
        self.marker = Some(0);
    }

    /// Loses everything.
    pub fn flush(&mut self) {
        *self = Self::default();
    }

    /// Loses a limit.
    pub fn evict(&mut self, index: usize) {
        self.limits.remove(&index);
    }

    /// Loses a holder.
    pub fn evict_holder(&mut self, holder: u64) {
        self.holders.remove(&holder);
    }
}

fn limits_of(command: &Command) -> Vec<(Limit, Take)> {
    match command {
        Command::Take(limits) => limits.clone(),
        Command::Lease(limit, ask) => {
            vec![(*limit, Take { cost: 0, charge: ask.charge, refund: ask.refund })]
        }
        Command::Reset(limits) => limits.iter().map(|limit| (*limit, Take::default())).collect(),
        Command::ByPlan(_) => unreachable!("`by_plan` has a model of these"),
    }
}

fn take(limits: &mut [Open]) -> Status {
    limits.iter_mut().for_each(Open::settle);
    if limits.iter().any(|limit| u64::from(limit.take.cost) > limit.spare()) {
        return Status::Denied;
    }
    for limit in limits {
        limit.changed |= limit.take.cost > 0;
        limit.state.debt += limit.state.parts(limit.take.cost.into());
    }
    Status::Done
}
