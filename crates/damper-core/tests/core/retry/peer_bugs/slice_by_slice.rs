//! Deposits in ten slices of time, cleared one by one for as long as there was no call.

use crate::retry::peer_bugs::Withdrawing;
use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

const SLICES: usize = 10;
/// A tenth of the ttl, in milliseconds.
const SLICE: u64 = 1_000;

pub(crate) struct SliceBySlice {
    ratio: f64,
    slices: [Cell<f64>; SLICES],
    index: Cell<usize>,
    /// The time in milliseconds.
    now: Cell<u64>,
    slice_began: Cell<u64>,
}

impl SliceBySlice {
    fn expire(&self) {
        while self.now.get() - self.slice_began.get() >= SLICE {
            self.index.set((self.index.get() + 1) % SLICES);
            black_box(&self.slices)[self.index.get()].set(0.0);
            self.slice_began.set(self.slice_began.get() + SLICE);
        }
    }
}

impl Withdrawing for SliceBySlice {
    fn new(ratio: f64) -> Self {
        Self { ratio, slices: Default::default(), index: Cell::new(0), now: Cell::new(0), slice_began: Cell::new(0) }
    }

    fn deposit(&self) {
        self.expire();
        let slice = &self.slices[self.index.get()];
        slice.set(slice.get() + self.ratio);
    }

    fn withdraw(&self, _: impl FnOnce() + 'static) -> bool {
        self.expire();
        let is_allowed = self.slices.iter().map(Cell::get).sum::<f64>() >= 1.0;
        if is_allowed {
            let slice = &self.slices[self.index.get()];
            slice.set(slice.get() - 1.0);
        }
        is_allowed
    }

    fn pass(&self, time: Duration) {
        self.now.set(self.now.get() + time.as_millis() as u64);
    }
}
