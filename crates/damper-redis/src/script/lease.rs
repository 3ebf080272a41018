//! A holder's request for leased tokens, and its response.

/// A holder's request: the tokens that it has left, gives back and wants.
///
/// A holder has one request in flight per limit. It numbers its requests, and discards the response to any but the last one.
///
/// **Validity.** The holder may spend its remaining tokens, and those that a request brings, until 7/8 of [`Grant::length`] have passed on
/// its monotonic clock since it *first sent this number*. A request that is sent again keeps its number, its fields and its validity.
/// Until the response arrives, the end of the previous response applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The number of this request. The first number is 1, and each further one is larger.
    pub seq: u64,
    /// The number of the last response that the holder applied; 0 before the first one.
    ///
    /// If this is lower than the last number that the server received, the response to that one was lost, and the server takes its grant
    /// back. So the holder must never apply that response later.
    pub ack: u64,
    /// The leased tokens that the holder keeps as it sends this. It may go on spending them.
    ///
    /// It is 0 if they have expired by the holder's clock.
    pub unspent: u32,
    /// The leased tokens that the holder gives back. It took them out of its lease before it sent this.
    ///
    /// They are not part of `unspent`. They are sent only once: if the response is lost, the next request does not repeat them.
    pub back: u32,
    /// The tokens that the holder wants beyond `unspent`. With 0 the request only renews the unspent tokens.
    pub want: u32,
    /// Tokens that were used without being taken, as far as no applied response has acknowledged them.
    ///
    /// A response acknowledges the charge of its request. If the response is lost, the next request repeats the sum. The server counts
    /// it once as long as it knows the holder.
    pub charge: u64,
    /// Tokens that were taken and not used, beyond what the lease can hold.
    ///
    /// They are sent only with this number, because a refund that is sent twice would count twice.
    pub refund: u64,
}

/// The script's response to a [`LeaseRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The number of the request.
    pub seq: u64,
    /// The granted tokens: at most `want`.
    pub granted: u32,
    /// The part of `unspent` that the server recognises.
    ///
    /// It is all of `unspent`, or nothing if the server lost the holder or the lease expired there. The holder keeps at most as many
    /// tokens, and drops the rest.
    pub kept: u32,
    /// The length of this lease in µs.
    ///
    /// It is the length in the frame, or less for the length of a lease after the server lost the limit.
    pub length: u64,
    /// The tokens that all known holders have now, including this one.
    ///
    /// [`Level::held`](super::Level::held) also has those that unknown holders may have since a loss.
    pub leased: u64,
}
