//! Witnesses of what the explored states have shown. A scenario that never gets there proves little.

use std::sync::atomic::{AtomicU64, Ordering};

/// Something that happened on the way to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// Leased tokens ended unspent.
    Ended,
    /// A request arrived a second time and got the same grant.
    Repeated,
    /// A request arrived after a later one.
    Stale,
    /// A command arrived too late to have an effect.
    Late,
    /// The server took a grant back, because its reply was lost.
    TakenBack,
    /// The server did not know the tokens that a holder reported.
    Unknown,
    /// A check took tokens of a joint take.
    JointTaken,
}

/// How often each witness was seen.
#[derive(Debug, Default)]
pub struct Witnesses([AtomicU64; 7]);

impl Witnesses {
    pub fn note(&self, witness: Witness) {
        // ORDERING: Relaxed. The counters are read after the threads have ended.
        self.0[witness as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn note_if(&self, is_seen: bool, witness: Witness) {
        if is_seen {
            self.note(witness);
        }
    }

    pub fn count(&self, witness: Witness) -> u64 {
        // ORDERING: Relaxed, as in `note`.
        self.0[witness as usize].load(Ordering::Relaxed)
    }
}
