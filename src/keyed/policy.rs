//! What becomes of a newcomer for whom there is no slot.

/// What becomes of a key that has no slot, when every slot that it could have is another's who still owes something.
///
/// None of them gives anybody a fresh burst: what an evicted key owed, its successor owes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenFull {
    /// All such keys share one bucket more, with the quota of one key. Known keys are never disturbed.
    #[default]
    SharedOverflow,
    /// It is refused, and told when a slot is free.
    DenyNew,
    /// It takes over the slot of the key that is full soonest, with what that owes, if that leaves enough tokens.
    EvictLeastIndebted,
}
