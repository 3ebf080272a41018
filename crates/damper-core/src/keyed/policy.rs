//! What becomes of a newcomer for whom there is no slot.

/// What becomes of a key that has no slot, when every slot that it could have is another's that still owes something.
///
/// [The guide](https://docs.rs/damper/latest/damper/guide/full_table/) has a simulation of who is refused under each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum WhenFull {
    /// It spends from a shared bucket with the quota of one key, which its hash chooses. Known keys keep their slots, and each
    /// key stays in its envelope. There are two such buckets for each key of the capacity, unless the builder was told
    /// otherwise.
    #[default]
    SharedOverflow,
    /// It is refused, and told when a slot is free. Known keys keep their slots, and each key stays in its envelope.
    DenyNew,
    /// It takes over the slot of the key that is full soonest, with the debt of that key, if that leaves enough tokens.
    ///
    /// All slots together admit no more than they hold. A single key may exceed its quota: evicted before it has used up its
    /// burst, and back through the other of its two sets in a slot that owes nothing, it has a burst again.
    EvictLeastIndebted,
}
