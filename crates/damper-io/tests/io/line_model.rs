//! The slow, obvious model of connections at some limits: exact integers and lists.

/// The rate of a model: one byte in so many nanoseconds, and a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelQuota {
    pub(crate) nanos_per_byte: u64,
    pub(crate) burst: u64,
    pub(crate) max_debt: u64,
}

/// The state of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ModelState {
    Idle,
    /// It waits for `bytes`. They are there when each line has come to its target.
    Waiting {
        bytes: u64,
        targets: Vec<i128>,
    },
    Moving {
        bytes: u64,
        moved: u64,
    },
}

/// Why a connection that asks may move nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelWait {
    Nanos(u64),
    /// A limiter refused.
    Refused,
}

/// A line of bytes.
///
/// `now` is how many nanoseconds' worth of bytes it has brought, also by bytes that were given back. The bucket is empty when `now` is
/// at `empty_at`.
#[derive(Debug)]
struct Line {
    quota: ModelQuota,
    now: i128,
    empty_at: i128,
}

impl Line {
    fn worth(&self, bytes: u64) -> i128 {
        i128::from(bytes) * i128::from(self.quota.nanos_per_byte)
    }

    /// A full bucket takes no more.
    fn cap(&mut self) {
        self.empty_at = self.empty_at.max(self.now - self.worth(self.quota.burst));
    }

    /// Returns the bytes that are missing, rounded up.
    fn debt(&self) -> u64 {
        let missing = (self.empty_at - self.now).max(0);
        ((missing + i128::from(self.quota.nanos_per_byte) - 1) / i128::from(self.quota.nanos_per_byte)) as u64
    }

    /// Returns the documented size of a chunk.
    ///
    /// It is 2 ms, a packet or 20 ms, and at most the burst. While others wait for more than 250 ms or a quarter of the line, it is less in
    /// proportion, and at most a 16th of the room that is left.
    fn most(&self) -> u64 {
        let in_millis = |millis: u64| millis * 1_000_000 / self.quota.nanos_per_byte;
        let chunk = in_millis(2).max(in_millis(20).min(1_460)).min(self.quota.burst);
        let (round, debt) = (in_millis(250).min(self.quota.max_debt / 4).max(1), self.debt());
        let shrunk = if debt > round { chunk * round / debt } else { chunk };
        let room = if debt > 0 { (self.quota.max_debt - debt) / 16 } else { chunk };
        shrunk.min(room).max(1)
    }

    /// Takes bytes, and returns where the line must come to until they are there.
    fn take(&mut self, bytes: u64) -> Option<i128> {
        let after = self.empty_at + self.worth(bytes);
        if bytes > self.quota.burst || after - self.now > self.worth(self.quota.max_debt) {
            return None;
        }
        self.empty_at = after;
        Some(after)
    }

    /// Gives back what a connection waited for.
    fn leave(&mut self, bytes: u64, target: i128) {
        if target <= self.now {
            // They are there: given back like the rest of a chunk.
            self.give_back(bytes);
        } else if target == self.empty_at {
            // No bytes were taken after them.
            self.empty_at -= self.worth(bytes);
        }
    }

    fn give_back(&mut self, bytes: u64) {
        // Bytes that the full bucket has no room for are lost. They must not move the line on.
        let room = self.now - self.worth(self.quota.burst) - self.empty_at;
        self.now += self.worth(bytes).min(-room);
        self.cap();
    }
}

/// Connections at some limits: their states, and the last chunk that each moved to its last byte.
#[derive(Debug)]
pub(crate) struct LineModel {
    lines: Vec<Line>,
    connections: Vec<(ModelState, u64)>,
}

impl LineModel {
    pub(crate) fn new(quotas: &[ModelQuota], connections: usize) -> Self {
        let full = |quota: &ModelQuota| -(i128::from(quota.burst) * i128::from(quota.nanos_per_byte));
        let lines = quotas.iter().map(|quota| Line { quota: *quota, now: 0, empty_at: full(quota) }).collect();
        Self { lines, connections: vec![(ModelState::Idle, 0); connections] }
    }

    pub(crate) fn advance(&mut self, nanos: u64) {
        for line in &mut self.lines {
            line.now += i128::from(nanos);
            line.cap();
        }
    }

    /// Returns the bytes that are there, of each limit.
    pub(crate) fn remaining(&self) -> Vec<u64> {
        let there = |line: &Line| (line.now - line.empty_at).max(0) / i128::from(line.quota.nanos_per_byte);
        self.lines.iter().map(|line| there(line) as u64).collect()
    }

    /// Returns the bytes that are missing, of each limit.
    pub(crate) fn debts(&self) -> Vec<u64> {
        self.lines.iter().map(Line::debt).collect()
    }

    /// Takes bytes of all limits, or of none.
    fn take(&mut self, bytes: u64) -> Option<Vec<i128>> {
        let mut targets = Vec::new();
        for place in 0..self.lines.len() {
            let Some(target) = self.lines[place].take(bytes) else {
                for (line, target) in self.lines.iter_mut().zip(targets) {
                    line.leave(bytes, target);
                }
                return None;
            };
            targets.push(target);
        }
        Some(targets)
    }

    pub(crate) fn ask(&mut self, connection: usize, wanted: u64) -> Result<u64, ModelWait> {
        if wanted == 0 {
            return Ok(0);
        }
        let (mut state, last) = self.connections[connection].clone();
        if state == ModelState::Idle {
            let grown = if self.debts().iter().any(|&debt| debt > 0) { last * 2 } else { 0 };
            let bytes = wanted.max(grown).min(self.lines.iter().map(Line::most).min().unwrap());
            state = ModelState::Waiting { bytes, targets: self.take(bytes).ok_or(ModelWait::Refused)? };
        }
        if let ModelState::Waiting { bytes, ref targets } = state {
            let wait = self.lines.iter().zip(targets).map(|(line, target)| target - line.now).max().unwrap();
            if wait > 0 {
                self.connections[connection].0 = state;
                return Err(ModelWait::Nanos(wait as u64));
            }
            state = ModelState::Moving { bytes, moved: 0 };
        }
        let ModelState::Moving { bytes, moved } = state else { unreachable!() };
        self.connections[connection].0 = state;
        Ok(wanted.min(bytes - moved))
    }

    pub(crate) fn report(&mut self, connection: usize, offered: u64, bytes: u64) {
        let (ModelState::Moving { bytes: chunk, moved }, _) = self.connections[connection] else { return };
        self.connections[connection].0 = ModelState::Moving { bytes: chunk, moved: moved + bytes };
        if bytes < offered {
            self.pause(connection);
        } else if moved + bytes == chunk {
            self.connections[connection] = (ModelState::Idle, chunk);
        }
    }

    pub(crate) fn pause(&mut self, connection: usize) {
        let (state, _) = std::mem::replace(&mut self.connections[connection], (ModelState::Idle, 0));
        match state {
            ModelState::Waiting { bytes, targets } => {
                for (line, target) in self.lines.iter_mut().zip(targets) {
                    line.leave(bytes, target);
                }
            }
            ModelState::Idle => {}
            ModelState::Moving { bytes, moved } => self.lines.iter_mut().for_each(|line| line.give_back(bytes - moved)),
        }
    }

    /// Returns the bytes of the only limit that connections have and did not move.
    ///
    /// The bytes of waiters whose moment has come count too.
    pub(crate) fn kept(&self) -> u64 {
        let kept = self.connections.iter().map(|(state, _)| match state {
            ModelState::Moving { bytes, moved } => bytes - moved,
            ModelState::Waiting { bytes, targets } if targets[0] <= self.lines[0].now => *bytes,
            ModelState::Waiting { .. } | ModelState::Idle => 0,
        });
        kept.sum()
    }
}
