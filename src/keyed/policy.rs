//! What becomes of a newcomer for whom there is no slot.

/// What becomes of a key that has no slot, when every slot that it could have is another's who still owes something.
///
/// What an evicted key owed, its successor owes; a key that has used up its burst is not evicted while another has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum WhenFull {
    /// All such keys share one bucket more, with the quota of one key. Known keys are never disturbed.
    #[default]
    SharedOverflow,
    /// It is refused, and told when a slot is free.
    DenyNew,
    /// It takes over the slot of the key that is full soonest, with what that owes, if that leaves enough tokens. All
    /// slots together give no more than they hold; but a key that was pushed out before it had used up its burst, and
    /// comes back to a slot that owes nothing, has a burst again.
    EvictLeastIndebted,
}
