//! The slow, obvious model of connections at one limit: exact integers and a list.

/// The rate of a model: one byte in so many nanoseconds, and a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelQuota {
    pub(crate) nanos_per_byte: u64,
    pub(crate) burst: u64,
    pub(crate) max_debt: u64,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelState {
    Idle,
    /// It waits for `bytes`, which are there when the line has come to `target`.
    Waiting {
        bytes: u64,
        target: i128,
    },
    Moving {
        bytes: u64,
        moved: u64,
    },
}

/// The answer to a connection that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelTurn {
    Move(u64),
    /// Nanoseconds.
    Wait(u64),
    /// The limiter refused.
    Refused,
}

/// A line of bytes.
///
/// `now` is how many nanoseconds' worth of bytes it has brought, also by bytes that were given back. The bucket is empty when `now` is
/// at `empty_at`.
#[derive(Debug)]
pub(crate) struct LineModel {
    quota: ModelQuota,
    now: i128,
    empty_at: i128,
    connections: Vec<(ModelState, u64)>,
}

impl LineModel {
    pub(crate) fn new(quota: ModelQuota, connections: usize) -> Self {
        let full = -(i128::from(quota.burst) * i128::from(quota.nanos_per_byte));
        Self { quota, now: 0, empty_at: full, connections: vec![(ModelState::Idle, 0); connections] }
    }

    fn worth(&self, bytes: u64) -> i128 {
        i128::from(bytes) * i128::from(self.quota.nanos_per_byte)
    }

    /// A full bucket takes no more.
    fn cap(&mut self) {
        self.empty_at = self.empty_at.max(self.now - self.worth(self.quota.burst));
    }

    pub(crate) fn advance(&mut self, nanos: u64) {
        self.now += i128::from(nanos);
        self.cap();
    }

    /// Returns the bytes that are there.
    pub(crate) fn remaining(&self) -> u64 {
        ((self.now - self.empty_at).max(0) / i128::from(self.quota.nanos_per_byte)) as u64
    }

    /// Returns the bytes that are missing, rounded up.
    pub(crate) fn debt(&self) -> u64 {
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

    pub(crate) fn ask(&mut self, connection: usize, wanted: u64) -> ModelTurn {
        if wanted == 0 {
            return ModelTurn::Move(0);
        }
        let (mut state, last) = self.connections[connection];
        if state == ModelState::Idle {
            let grown = if self.debt() > 0 { last * 2 } else { 0 };
            let bytes = wanted.max(grown).min(self.most());
            let after = self.empty_at + self.worth(bytes);
            if bytes > self.quota.burst || after - self.now > self.worth(self.quota.max_debt) {
                return ModelTurn::Refused;
            }
            self.empty_at = after;
            state = ModelState::Waiting { bytes, target: after };
        }
        if let ModelState::Waiting { bytes, target } = state {
            if target > self.now {
                self.connections[connection].0 = state;
                return ModelTurn::Wait((target - self.now) as u64);
            }
            state = ModelState::Moving { bytes, moved: 0 };
        }
        self.connections[connection].0 = state;
        let ModelState::Moving { bytes, moved } = state else { unreachable!() };
        ModelTurn::Move(wanted.min(bytes - moved))
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
            // They are there: given back like the rest of a chunk.
            ModelState::Waiting { bytes, target } if target <= self.now => self.give_back(bytes),
            // No bytes were taken after them.
            ModelState::Waiting { bytes, target } if target == self.empty_at => self.empty_at -= self.worth(bytes),
            ModelState::Idle | ModelState::Waiting { .. } => {}
            ModelState::Moving { bytes, moved } => self.give_back(bytes - moved),
        }
    }

    fn give_back(&mut self, bytes: u64) {
        // Bytes that the full bucket has no room for are lost. They must not move the line on.
        let room = self.now - self.worth(self.quota.burst) - self.empty_at;
        self.now += self.worth(bytes).min(-room);
        self.cap();
    }

    /// Returns the bytes that connections have and did not move.
    ///
    /// The bytes of waiters whose moment has come count too.
    pub(crate) fn kept(&self) -> u64 {
        let kept = self.connections.iter().map(|&(state, _)| match state {
            ModelState::Moving { bytes, moved } => bytes - moved,
            ModelState::Waiting { bytes, target } if target <= self.now => bytes,
            ModelState::Waiting { .. } | ModelState::Idle => 0,
        });
        kept.sum()
    }
}
