//! The slots of the bulkhead that are certainly taken, as clients know.

use std::collections::HashMap;

/// Counts by the number of the worker's process.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The requests that are certainly in the bulkhead; `None` for a worker that was killed.
    held: HashMap<u32, Option<u32>>,
    /// The most that were in it at once.
    pub(crate) most: u32,
    /// How many entered in all.
    pub(crate) entered: u64,
    /// How many workers let a request in.
    pub(crate) workers: u64,
}

impl Ledger {
    /// Notes that the head of a response came: from now on the request is in the bulkhead.
    pub(crate) fn enters(&mut self, worker: u32) {
        let held = self.held.entry(worker).or_insert_with(|| {
            self.workers += 1;
            Some(0)
        });
        // A response may come after the death of its worker.
        let Some(held) = held else { return };
        *held += 1;
        self.entered += 1;
        self.most = self.most.max(self.held.values().flatten().sum());
    }

    /// Notes that a client is about to end its request, after which it may leave the bulkhead.
    pub(crate) fn leaves(&mut self, worker: u32) {
        if let Some(Some(held)) = self.held.get_mut(&worker) {
            *held -= 1;
        }
    }

    /// Notes that a worker is about to be killed, after which its slots may be free.
    pub(crate) fn kills(&mut self, worker: u32) {
        self.held.insert(worker, None);
    }
}
