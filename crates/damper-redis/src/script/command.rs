//! The commands to the script.

use super::{LeaseRequest, NEVER, Sighting, Terms};

/// The parts of a burst in which the tokens of reservations are counted.
pub const PARTS_PER_BURST: u32 = 1 << 14;

/// One limit as a process knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limit's terms in this process.
    pub terms: Terms,
    /// The last sighting of the limit.
    pub seen: Sighting,
}

/// An amount to take from one limit, and amounts to book before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Take {
    /// The tokens to take; 0 only looks, and is never denied.
    pub cost: u32,
    /// Tokens that were used without being taken.
    ///
    /// They are booked before the take, up to the deepest debt, and also if the take is denied.
    pub charge: u64,
    /// Tokens that were taken and not used.
    ///
    /// They are given back before the charge is booked, up to a full bucket, and also if the take is denied. Nothing is given back while
    /// the debt exceeds the burst. A refund is sent only once, whether or not a reply arrives.
    pub refund: u64,
}

/// A take from a limit by plan, and the counts of what is reserved and unsettled.
///
/// The parts are those of the plan's burst: [`PARTS_PER_BURST`] of them are all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedTake {
    /// The limit, by the plan of this call. Nothing of it can be leased.
    pub limit: Limit,
    /// The tokens to take and to book.
    ///
    /// A refund gives back no more than the tokens of the parts that were counted and still are.
    pub take: Take,
    /// The parts to count as unsettled if the take is allowed.
    pub count: u32,
    /// The parts of a settled reservation that were counted, to be counted no more.
    pub counted: u32,
}

/// Takes from limits by plan, of which the command takes all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTakes {
    /// The takes, in the order of the keys.
    pub takes: Vec<PlannedTake>,
    /// The most parts of a burst that may be unsettled.
    pub most_unsettled: u32,
    /// How long a reservation may live, in µs; at least 1.
    pub time_to_live: u64,
    /// The server's time in µs at which the settled reservation was made; 0 if the command settles none.
    pub since: u64,
}

/// The arguments of a command as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The server's time in µs after which the command has no effect; 0 for none.
    pub not_after: u64,
    /// The length of a lease in µs.
    ///
    /// Commands without a lease send it too. It tells the script how long lost holders may still have tokens.
    pub lease: u64,
    /// How long a missing limit counts as empty after the server lost its memory, in µs.
    ///
    /// With 0 a missing limit is always full (`AfterLoss::Full`), with [`NEVER`](super::NEVER) it always counts as empty
    /// (`AfterLoss::Empty`).
    pub after_loss: u64,
}

/// An operation on the limits of one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Takes from all limits or from none.
    Take(Vec<(Limit, Take)>),
    /// Asks for leased tokens of a limit that is the subject's only one.
    Lease(Limit, LeaseRequest),
    /// Fills all limits, except for the leased tokens.
    Reset(Vec<Limit>),
    /// Takes from all limits by plan or from none.
    ByPlan(PlannedTakes),
}

impl Limit {
    /// Appends the arguments that every operation has for this limit.
    fn push(&self, args: &mut Vec<u64>, take: Take) {
        let Self { terms, seen } = self;
        args.extend([
            terms.rate.tokens(),
            terms.rate.micros(),
            u64::from(terms.burst),
            terms.deepest.max(u64::from(terms.burst)),
            u64::from(terms.hold),
            seen.version,
            seen.full_at,
            u64::from(take.cost),
            take.charge,
            take.refund,
        ]);
    }
}

impl Command {
    /// Returns the number of limits.
    #[must_use]
    pub fn limits(&self) -> usize {
        match self {
            Self::Take(limits) => limits.len(),
            Self::Lease(..) => 1,
            Self::Reset(limits) => limits.len(),
            Self::ByPlan(planned) => planned.takes.len(),
        }
    }

    /// Returns the terms of the limit at `index`, which must be below [`limits`](Self::limits).
    pub(super) fn terms(&self, index: usize) -> &Terms {
        match self {
            Self::Take(limits) => &limits[index].0.terms,
            Self::Lease(limit, _) => &limit.terms,
            Self::Reset(limits) => &limits[index].terms,
            Self::ByPlan(planned) => &planned.takes[index].limit.terms,
        }
    }

    /// Returns the `ARGV` of the script: each is sent as decimal text.
    ///
    /// The operation and the frame are 4 arguments. Each limit adds 10, a lease 4, and limits by plan 3 and 2 for each. Numbers above [`NEVER`] are sent as `NEVER`,
    /// because the script counts no further.
    #[must_use]
    pub fn args(&self, frame: &Frame) -> Vec<u64> {
        let mut args = Vec::with_capacity(8 + 12 * self.limits());
        let operation = match self {
            Self::Take(_) => 0,
            Self::Lease(..) => 1,
            Self::Reset(_) => 2,
            Self::ByPlan(_) => 3,
        };
        args.extend([operation, frame.not_after, frame.lease, frame.after_loss]);
        match self {
            Self::Take(limits) => limits.iter().for_each(|(limit, take)| limit.push(&mut args, *take)),
            Self::Lease(limit, ask) => {
                limit.push(&mut args, Take { cost: ask.want, charge: ask.charge, refund: ask.refund });
                args.extend([ask.seq, ask.ack, u64::from(ask.unspent), u64::from(ask.back)]);
            }
            Self::Reset(limits) => limits.iter().for_each(|limit| limit.push(&mut args, Take::default())),
            Self::ByPlan(planned) => {
                planned.takes.iter().for_each(|planned| planned.limit.push(&mut args, planned.take));
                args.extend([planned.time_to_live, planned.most_unsettled.into(), planned.since]);
                args.extend(planned.takes.iter().flat_map(|planned| [planned.count, planned.counted].map(u64::from)));
            }
        }
        for arg in &mut args {
            *arg = (*arg).min(NEVER);
        }
        args
    }
}
