//! A holder's request for leased tokens, and its response.

/// A holder's request: what it has left, what it gives back, and what it wants.
///
/// A holder has one request in flight per limit. It numbers them, and discards the response to any but the last one sent.
///
/// **Validity.** The tokens that a request brings, and those that remain of what the holder had, may be spent until 7/8 of
/// [`Grant::length`] have passed on the holder's monotonic clock since *the first sending of this number*. A request that is sent again keeps its
/// number and its fields, and so its validity. Until its response arrives the holder's end is that of the response before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The number of this request. The first one is 1, and each further one is larger.
    pub seq: u64,
    /// The number of the last response that the holder applied; 0 before the first one.
    ///
    /// If this is lower than the last number that the server received, that response was lost, and the server takes its
    /// grant back. So the holder must never apply it later.
    pub ack: u64,
    /// The leased tokens that the holder keeps as it sends this. It may go on spending them.
    ///
    /// 0 if they have expired by the holder's clock.
    pub unspent: u32,
    /// Leased tokens that the holder gives back: taken out of its lease before this was sent.
    ///
    /// Sent once. They are not part of `unspent`, and are not sent again with the next number if the response is lost.
    pub back: u32,
    /// How many tokens the holder wants beyond `unspent`. 0 asks for none, and renews what is unspent.
    pub want: u32,
    /// Tokens that were used without being taken: all that no applied response has acknowledged.
    ///
    /// A response acknowledges what its request sent. If it is lost, the sum goes with the next
    /// number again, and is counted once as long as the server knows the holder.
    pub charge: u64,
    /// Tokens that were taken and not used, beyond what the lease can hold.
    ///
    /// Sent once, with this number only: a refund that is sent twice would be counted twice.
    pub refund: u64,
}

/// The script's response to a [`LeaseRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The number of the request.
    pub seq: u64,
    /// The tokens granted: at most `want`.
    pub granted: u32,
    /// How much of `unspent` the server recognises.
    ///
    /// All of it, or nothing after the server lost the holder, or the lease expired there.
    ///
    /// The holder keeps at most so many of the tokens that it still has of `unspent`, and drops the rest.
    pub kept: u32,
    /// The length of this lease in µs.
    ///
    /// That of the frame. For a lease's time after the server lost the limit it may be less.
    pub length: u64,
    /// The tokens that all known holders have now, this one included.
    ///
    /// [`Level::held`](super::Level::held) has also those that may be out since a loss.
    pub leased: u64,
}
