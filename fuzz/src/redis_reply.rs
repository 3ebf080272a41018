//! Replies of the script of damper-redis, well-formed and not, and the waits computed from them.

use crate::input::QuotaInput;
use arbitrary::Arbitrary;
use damper_redis::internal::{
    Command, LeaseRequest, Level, Limit, NEVER, PlannedTake, PlannedTakes, Reply, Sighting, Status, Take, Terms,
};
use redis::Value;

/// A reply and the command that it is to.
#[derive(Arbitrary, Debug)]
pub struct Exchange<'a> {
    quota: QuotaInput,
    operation: Operation,
    reply: ReplyInput<'a>,
    now: Number,
    n: u32,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Operation {
    Take { limits: u8 },
    Lease { seq: Number, want: u32, unspent: u32 },
    Reset { limits: u8 },
    ByPlan { limits: u8, count: u32 },
}

#[derive(Arbitrary, Debug)]
enum ReplyInput<'a> {
    /// Mostly as the script replies.
    Numbers {
        status: u8,
        numbers: Vec<Number>,
        seq_of_the_request: bool,
        length: bool,
    },
    Values(Vec<Element<'a>>),
    /// The bytes that a server sent.
    Wire(&'a [u8]),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Number {
    Small(u8),
    Any(i64),
    Exact(u64),
}

#[derive(Arbitrary, Debug)]
enum Element<'a> {
    Int(Number),
    Text(&'a [u8]),
    Nil,
    Nested,
}

impl Number {
    fn value(self) -> i64 {
        match self {
            Self::Small(number) => i64::from(number),
            Self::Any(number) => number,
            Self::Exact(number) => (number % (NEVER + 1)) as i64,
        }
    }

    fn time(self) -> u64 {
        self.value().unsigned_abs() % (NEVER + 1)
    }
}

impl Operation {
    fn command(self, limit: Limit) -> Command {
        match self {
            Self::Take { limits } => Command::Take(vec![(limit, Take::default()); usize::from(limits % 4)]),
            Self::Lease { seq, want, unspent } => {
                Command::Lease(limit, LeaseRequest { seq: seq.time(), want, unspent, ..LeaseRequest::default() })
            }
            Self::Reset { limits } => Command::Reset(vec![limit; usize::from(limits % 4)]),
            Self::ByPlan { limits, count } => {
                let take = PlannedTake { limit, take: Take::default(), count, counted: 0 };
                let takes = vec![take; usize::from(limits % 4)];
                Command::ByPlan(PlannedTakes { takes, most_unsettled: count, time_to_live: 1, since: 0 })
            }
        }
    }
}

impl ReplyInput<'_> {
    fn value(&self, command: &Command) -> Value {
        match self {
            Self::Wire(bytes) => redis::parse_redis_value(bytes).unwrap_or(Value::Nil),
            Self::Values(elements) => Value::Array(elements.iter().map(Element::value).collect()),
            Self::Numbers { status, numbers, seq_of_the_request, length } => {
                let mut numbers: Vec<i64> = numbers.iter().map(|number| number.value()).collect();
                if *length {
                    numbers.resize(length_of(command) - 1, 0);
                }
                let seq = 1 + 6 * command.limits();
                if let (Command::Lease(_, ask), true, true) = (command, *seq_of_the_request, seq < numbers.len()) {
                    numbers[seq] = ask.seq as i64;
                }
                numbers.insert(0, i64::from(status % 5));
                Value::Array(numbers.into_iter().map(Value::Int).collect())
            }
        }
    }
}

impl Element<'_> {
    fn value(&self) -> Value {
        match self {
            Self::Int(number) => Value::Int(number.value()),
            Self::Text(text) => Value::BulkString(text.to_vec()),
            Self::Nil => Value::Nil,
            Self::Nested => Value::Array(vec![Value::Int(0)]),
        }
    }
}

/// How many integers a reply has that is done.
fn length_of(command: &Command) -> usize {
    2 + fields_of(command) * command.limits() + if matches!(command, Command::Lease(..)) { 5 } else { 0 }
}

/// How many integers a reply has for each limit.
fn fields_of(command: &Command) -> usize {
    if matches!(command, Command::ByPlan(_)) { 7 } else { 6 }
}

/// Parses a reply, and computes the waits of its levels.
pub fn redis_reply(exchange: Exchange<'_>) {
    let Ok(terms) = Terms::new(exchange.quota.quota(u32::MAX), u32::MAX) else { return };
    let command = exchange.operation.command(Limit { terms, seen: Sighting::default() });
    let value = exchange.reply.value(&command);
    let read = Reply::parse(&value, &command);
    assert_eq!(read.clone().ok(), slow(&value, &command, &terms), "{read:?}");
    match read {
        Ok(reply) => reply.levels.iter().for_each(|level| waits(level, &terms, exchange.n, exchange.now.time())),
        Err(error) => assert!(error.to_string().len() < 200, "{error}"),
    }
}

/// Reads a reply by the rules of its documentation: all integers first, then their ranges.
fn slow(value: &Value, command: &Command, terms: &Terms) -> Option<Reply> {
    let Value::Array(values) = value else { return None };
    let number = |value: &Value| match value {
        Value::Int(number) => u64::try_from(*number).ok().filter(|number| *number <= NEVER),
        _ => None,
    };
    let numbers: Vec<u64> = values.iter().map(number).collect::<Option<_>>()?;
    let lease = if let Command::Lease(_, ask) = command { Some(ask) } else { None };
    let status = match numbers.first()? {
        0 => Status::Done,
        1 if matches!(command, Command::Take(_) | Command::ByPlan(_)) => Status::Denied,
        2 => Status::Late,
        3 if lease.is_some() => Status::Stale,
        _ => return None,
    };
    let has_levels = matches!(status, Status::Done | Status::Denied);
    let length = if has_levels { length_of(command) } else { 2 };
    if numbers.len() != length {
        return None;
    }
    let mut reply = Reply { status, now: numbers[1], levels: Vec::new(), grant: None, counted: Vec::new() };
    if has_levels {
        for fields in numbers[2..].chunks_exact(fields_of(command)).take(command.limits()) {
            let [version, at, owed, frac, held, full_at, counted @ ..] = fields else { return None };
            let [version, at, owed, frac, held, full_at] = [version, at, owed, frac, held, full_at].map(|field| *field);
            reply.levels.push(Level { version, at, owed, frac, held, full_at });
            reply.counted.extend(counted.iter().filter_map(|&parts| u32::try_from(parts).ok()));
        }
        if let Some(ask) = lease {
            let [seq, granted, kept, length, leased] = numbers[8..] else { return None };
            let fits = seq == ask.seq && granted <= ask.want.into() && kept <= ask.unspent.into();
            let (granted, kept) = (granted as u32, kept as u32);
            let grant = damper_redis::internal::Grant { seq, granted, kept, length, leased };
            reply.grant = Some(fits.then_some(grant)?);
        }
    }
    let counts_fit = match command {
        Command::ByPlan(planned) if has_levels => {
            reply.counted.len() == planned.takes.len()
                && reply.counted.iter().zip(&planned.takes).all(|(counted, take)| *counted <= take.count)
        }
        _ => true,
    };
    (counts_fit && reply.levels.iter().all(|level| level.frac < terms.rate.micros())).then_some(reply)
}

/// Checks that a wait is neither too short nor a microsecond too long.
fn waits(level: &Level, terms: &Terms, n: u32, now: u64) {
    let remaining = level.remaining(terms);
    assert_eq!(u64::from(remaining), u64::from(terms.burst) - level.owed.min(terms.burst.into()));
    let wait = level.retry_after(terms, n, now);
    let reset = level.resets_in(terms, now);
    assert!(reset.is_none() || level.held > 0 || wait <= reset || n > terms.burst, "{wait:?}, {reset:?}");
    let (p, q) = (u128::from(terms.rate.tokens()), u128::from(terms.rate.micros()));
    let excess = (u128::from(level.owed) + u128::from(n)).saturating_sub(terms.burst.into());
    // The tokens that have to drip in, in parts of q.
    let parts = (excess * q).saturating_sub(u128::from(level.frac));
    let ahead = u128::from(level.at.saturating_sub(now));
    match wait {
        None => assert!(n > terms.burst || p == 0 || parts > p * (u128::from(u64::MAX) - ahead)),
        Some(wait) if excess == 0 => assert!(wait.is_zero() && n <= terms.burst),
        Some(wait) => {
            let micros = wait.as_micros() - ahead;
            assert_eq!(wait.subsec_nanos() % 1_000, 0);
            assert!(micros * p >= parts && (micros - 1) * p < parts, "{wait:?} for {parts} parts");
        }
    }
}
