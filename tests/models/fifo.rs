//! A bucket with a queue before it, run through from the beginning tick by tick whenever something is asked: no line,
//! no word, nothing remembered but who came when.

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Take {
    at: u64,
    n: u32,
}

/// What came of a take that was not wanted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// It was the last, and is as if it had never been.
    GivenBack,
    /// Others came after it, or its tokens were there: they are used up when its turn comes.
    Lost,
}

/// Why somebody may not queue up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    ExceedsBurst,
    TooMany,
    TooLate,
}

/// A token comes in `period` ticks, a part of it with each.
#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    period: u64,
    burst: u32,
    max_debt: u32,
    /// All there ever were, in the order in which they came, without those that were given back.
    takes: Vec<(usize, Take)>,
    named: usize,
}

/// How things stand after a tick.
struct Standing {
    /// The parts in the bucket.
    there: u64,
    /// The parts that those in the queue wait for.
    wanted: u64,
    /// When each of the takes had its tokens.
    served: Vec<Option<u64>>,
}

impl Fifo {
    pub(crate) fn new(period: u64, burst: u32, max_debt: u32) -> Self {
        Self { period, burst, max_debt, takes: Vec::new(), named: 0 }
    }

    fn parts(&self, n: u32) -> u64 {
        u64::from(n) * self.period
    }

    /// From the beginning until after the tick `end`.
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

    /// Queues up for `n` tokens, for which to wait so many ticks at most; gets a name.
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

    /// Takes `n` tokens if they are there and nobody waits.
    pub(crate) fn take(&mut self, at: u64, n: u32) -> bool {
        n == 0 || self.queue_up(at, n, Some(0)).is_ok()
    }

    /// Who has their tokens when, were nobody else to come.
    pub(crate) fn schedule(&self) -> Vec<(usize, u64)> {
        let last = self.takes.last().map_or(0, |(_, take)| take.at);
        let end = last + self.run(last).wanted;
        let names = self.takes.iter().map(|(name, _)| *name);
        names.zip(self.run(end).served.into_iter().map(Option::unwrap)).collect()
    }

    /// When a take has its tokens. `None` if it was given back, or needed none.
    pub(crate) fn served(&self, name: usize) -> Option<u64> {
        self.schedule().into_iter().find_map(|(other, at)| (other == name).then_some(at))
    }

    /// Somebody does not want what they queued up for.
    pub(crate) fn cancel(&mut self, at: u64, name: usize) -> Cancelled {
        let served = self.served(name);
        if self.takes.last().is_some_and(|(last, _)| *last == name) && served > Some(at) {
            self.takes.pop();
            return Cancelled::GivenBack;
        }
        Cancelled::Lost
    }

    /// The tokens that are there, or are missing: rounded down and up.
    pub(crate) fn level(&self, at: u64) -> (u32, u32) {
        let standing = self.run(at);
        let tokens = |parts: u64| u32::try_from(parts).unwrap();
        let there = standing.there.saturating_sub(standing.wanted) / self.period;
        let missing = standing.wanted.saturating_sub(standing.there).div_ceil(self.period);
        (tokens(there), tokens(missing))
    }
}
