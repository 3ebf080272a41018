//! A bucket with a queue, simulated from the beginning, tick by tick, at every query.
//!
//! It has no line and no word, and only keeps the arrivals.

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Take {
    at: u64,
    n: u32,
}

/// The result of cancelling a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// The take was the last, and is as if it had never arrived.
    GivenBack,
    /// Others arrived later, or its tokens were available. They are used up at its turn.
    Lost,
}

/// Why a take is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    ExceedsBurst,
    TooMany,
    TooLate,
}

/// A token takes `period` ticks, and each tick adds a part of it.
#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    period: u64,
    burst: u32,
    max_debt: u32,
    /// All takes in order of arrival, without those given back.
    takes: Vec<(usize, Take)>,
    named: usize,
}

/// The state after a tick.
struct Standing {
    /// The parts in the bucket.
    there: u64,
    /// The parts that the queue waits for.
    wanted: u64,
    /// The tick at which each take got its tokens.
    served: Vec<Option<u64>>,
}

impl Fifo {
    pub(crate) fn new(period: u64, burst: u32, max_debt: u32) -> Self {
        Self { period, burst, max_debt, takes: Vec::new(), named: 0 }
    }

    fn parts(&self, n: u32) -> u64 {
        u64::from(n) * self.period
    }

    /// Simulates from the beginning through the tick `end`.
    fn run(&self, end: u64) -> Standing {
        let full = self.parts(self.burst);
        let mut there = full;
        let mut queue = VecDeque::new();
        let mut served = vec![None; self.takes.len()];
        let mut coming = self.takes.iter().enumerate().peekable();
        for tick in 0..=end {
            there = full.min(there + u64::from(tick > 0));
            while let Some((index, (_, take))) = coming.next_if(|(_, (_, take))| take.at == tick) {
                queue.push_back((index, self.parts(take.n)));
            }
            while let Some(&(index, parts)) = queue.front()
                && parts <= there
            {
                queue.pop_front();
                there -= parts;
                served[index] = Some(tick);
            }
        }
        Standing { there, wanted: queue.iter().map(|(_, parts)| parts).sum(), served }
    }

    /// Queues up for `n` tokens, waiting at most `longest` ticks, and returns a name.
    pub(crate) fn queue_up(&mut self, at: u64, n: u32, longest: Option<u64>) -> Result<usize, Refused> {
        if n > self.burst {
            return Err(Refused::ExceedsBurst);
        }
        self.named += 1;
        if n == 0 {
            return Ok(self.named);
        }
        let standing = self.run(at);
        if standing.wanted + self.parts(n) > standing.there + self.parts(self.max_debt) {
            return Err(Refused::TooMany);
        }
        self.takes.push((self.named, Take { at, n }));
        if longest.is_some_and(|longest| self.served(self.named).is_none_or(|served| served - at > longest)) {
            self.takes.pop();
            return Err(Refused::TooLate);
        }
        Ok(self.named)
    }

    /// Takes `n` tokens if they are available and the queue is empty.
    pub(crate) fn take(&mut self, at: u64, n: u32) -> bool {
        n == 0 || self.queue_up(at, n, Some(0)).is_ok()
    }

    /// The tick at which each take gets its tokens, if no other arrives.
    pub(crate) fn schedule(&self) -> Vec<(usize, u64)> {
        let last = self.takes.last().map_or(0, |(_, take)| take.at);
        let end = last + self.run(last).wanted;
        let names = self.takes.iter().map(|(name, _)| *name);
        names.zip(self.run(end).served.into_iter().map(Option::unwrap)).collect()
    }

    /// The tick at which a take gets its tokens, or `None` if it was given back or needed none.
    pub(crate) fn served(&self, name: usize) -> Option<u64> {
        self.schedule().into_iter().find_map(|(other, at)| (other == name).then_some(at))
    }

    /// Cancels a take.
    pub(crate) fn cancel(&mut self, at: u64, name: usize) -> Cancelled {
        let served = self.served(name);
        if self.takes.last().is_some_and(|(last, _)| *last == name) && served > Some(at) {
            self.takes.pop();
            return Cancelled::GivenBack;
        }
        Cancelled::Lost
    }

    /// The available tokens, rounded down, and the missing tokens, rounded up.
    pub(crate) fn level(&self, at: u64) -> (u32, u32) {
        let standing = self.run(at);
        let tokens = |parts: u64| u32::try_from(parts).unwrap();
        let there = standing.there.saturating_sub(standing.wanted) / self.period;
        let missing = standing.wanted.saturating_sub(standing.there).div_ceil(self.period);
        (tokens(there), tokens(missing))
    }
}
