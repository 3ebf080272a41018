//! The reply of the script.

use super::{Command, Grant, LeaseRequest, Level, NEVER, Terms};
use core::fmt;
use redis::Value;

/// The outcome of a command, with its code in the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The command was done: tokens taken from all limits, leased or reset.
    Done = 0,
    /// A take was denied, because a limit has too few tokens. Charges and refunds were booked.
    Denied = 1,
    /// The command arrived after its `not_after`. Nothing was booked, and the reply has no levels.
    Late = 2,
    /// The number of a lease request is lower than the last one's.
    ///
    /// Nothing was booked, and the reply has no levels.
    Stale = 3,
}

/// The parsed reply to a [`Command`](super::Command).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The outcome.
    pub status: Status,
    /// The server's time in µs since 1970.
    pub now: u64,
    /// The limits in the order of the command; none if the status is `Late` or `Stale`.
    pub levels: Vec<Level>,
    /// The response to a lease request that was done.
    pub grant: Option<Grant>,
    /// The parts of a burst that were counted as unsettled, of each limit by plan.
    pub counted: Vec<u32>,
}

impl Reply {
    /// Parses the reply to `command`.
    ///
    /// A parsed reply grants no more than the command asked for.
    ///
    /// # Errors
    ///
    /// [`ReplyError`] if the script does not reply so to this command.
    pub fn parse(value: &Value, command: &Command) -> Result<Self, ReplyError> {
        let Value::Array(values) = value else { return Err(ReplyError::Shape) };
        let mut fields = Fields { values, next: 0 };
        let refusal = match command {
            Command::Take(_) | Command::ByPlan(_) => Status::Denied,
            Command::Lease(..) => Status::Stale,
            Command::Reset(_) => Status::Done,
        };
        let status = match fields.next("status", 3)? {
            0 => Status::Done,
            2 => Status::Late,
            code if code == refusal as u64 => refusal,
            code => return Err(ReplyError::Status { found: code as u8 }),
        };
        let now = fields.next("time", NEVER)?;
        if matches!(status, Status::Late | Status::Stale) {
            fields.end()?;
            return Ok(Self { status, now, levels: Vec::new(), grant: None, counted: Vec::new() });
        }
        let mut levels = Vec::with_capacity(command.limits());
        let mut counted = Vec::new();
        for index in 0..command.limits() {
            levels.push(fields.level(command.terms(index))?);
            if let Command::ByPlan(planned) = command {
                // It fits, because it is at most the number in the command.
                counted.push(fields.next("counted parts", planned.takes[index].count.into())? as u32);
            }
        }
        let grant = match command {
            Command::Lease(_, ask) => Some(fields.grant(ask)?),
            _ => None,
        };
        fields.end()?;
        Ok(Self { status, now, levels, grant, counted })
    }
}

/// A cursor over the integers of a reply.
struct Fields<'a> {
    values: &'a [Value],
    next: usize,
}

impl Fields<'_> {
    /// Reads the next integer, from 0 to `most`.
    fn next(&mut self, field: &'static str, most: u64) -> Result<u64, ReplyError> {
        let value = self.values.get(self.next).ok_or(ReplyError::TooShort { found: self.values.len() })?;
        let Value::Int(found) = *value else { return Err(ReplyError::Shape) };
        self.next += 1;
        u64::try_from(found).ok().filter(|&number| number <= most).ok_or(ReplyError::Range { field, found, most })
    }

    /// Reads a level.
    fn level(&mut self, terms: &Terms) -> Result<Level, ReplyError> {
        Ok(Level {
            version: self.next("version", NEVER)?,
            at: self.next("time of a level", NEVER)?,
            owed: self.next("debt", NEVER)?,
            frac: self.next("fraction", terms.rate.micros() - 1)?,
            held: self.next("held tokens", NEVER)?,
            full_at: self.next("time of a full bucket", NEVER)?,
        })
    }

    /// Reads a grant.
    fn grant(&mut self, ask: &LeaseRequest) -> Result<Grant, ReplyError> {
        let seq = self.next("number of a request", NEVER)?;
        if seq != ask.seq {
            return Err(ReplyError::Seq { found: seq, expected: ask.seq });
        }
        // Both fit, because they are at most the numbers in the request.
        let granted = self.next("grant", u64::from(ask.want))? as u32;
        let kept = self.next("kept tokens", u64::from(ask.unspent))? as u32;
        let length = self.next("length of a lease", NEVER)?;
        let leased = self.next("leased tokens", NEVER)?;
        Ok(Grant { seq, granted, kept, length, leased })
    }

    /// Returns an error unless all integers were read.
    fn end(&self) -> Result<(), ReplyError> {
        if self.next == self.values.len() {
            return Ok(());
        }
        Err(ReplyError::TooLong { found: self.values.len(), expected: self.next })
    }
}

/// The error of a malformed reply.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyError {
    /// The reply is no array of integers.
    Shape,
    /// The reply ends too early.
    TooShort {
        /// How many integers it has.
        found: usize,
    },
    /// The reply goes on after its end.
    TooLong {
        /// How many integers it has.
        found: usize,
        /// How many it must have.
        expected: usize,
    },
    /// This operation does not have such a status.
    Status {
        /// The code of the status, 0 to 3.
        found: u8,
    },
    /// The reply is to another lease request.
    Seq {
        /// The number in the reply.
        found: u64,
        /// The number of the request.
        expected: u64,
    },
    /// An integer is out of range.
    Range {
        /// The name of the integer.
        field: &'static str,
        /// Its value.
        found: i64,
        /// The largest value allowed. The smallest is 0.
        most: u64,
    },
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("in the reply of the script, ")?;
        match self {
            Self::Shape => f.write_str("something is no integer, it must be an array of integers"),
            Self::TooShort { found } => write!(f, "{found} integers are too few for this command"),
            Self::TooLong { found, expected } => write!(f, "{found} integers are too many, there must be {expected}"),
            Self::Status { found } => write!(f, "status {found} is none of this operation"),
            Self::Seq { found, expected } => {
                write!(f, "the number of the request is {found}, it must be {expected}")
            }
            Self::Range { field, found, most } => write!(f, "{field} {found} is out of range, it must be 0 to {most}"),
        }
    }
}

damper_core::internal::debug_by_display!(ReplyError);

impl core::error::Error for ReplyError {}
