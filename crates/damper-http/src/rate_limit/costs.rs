//! The costs of requests, and the correction of costs by responses.

use super::Refused;
use super::settings::RateLimitSettings;
use crate::Head;
use crate::limit::{CorrectedLimit, Correction, Detail, Limit, Reservation, Settle, Standing, Tokens};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use http::{Request, request, response};

/// Returns the cost of a request, in tokens.
pub(super) type RequestCost = Arc<dyn Fn(&Head<'_>) -> u32 + Send + Sync>;

/// Writes the cost of a request by the head of its response, in tokens of each dimension.
type CostByResponse = Arc<dyn Fn(&Head<'_>, &response::Parts, &mut [u32]) + Send + Sync>;

/// Corrects the cost of a request by the next piece of a body, in tokens of each dimension.
type CountPiece = Box<dyn FnMut(&[u8], &mut [u32]) + Send + Sync>;

/// Makes what counts the body of a response.
type CountBody = Arc<dyn Fn(&Head<'_>, &response::Parts) -> CountPiece + Send + Sync>;

/// The cost of a request that took one token.
pub(super) const ONE_TOKEN: u32 = 1;

/// How the cost of a request is corrected when its response is known.
pub(super) struct Settling<L> {
    by_response: Option<CostByResponse>,
    by_body: Option<SettlingByBody<L>>,
    /// Whether requests that were not served are refunded, and which of them.
    refunds: Option<Arc<EverySecond>>,
    correction: Correction<L>,
}

/// How the cost of a request is corrected by the body of its response.
struct SettlingByBody<L> {
    count: CountBody,
    /// A function pointer, so that no other limit has to outlive a body.
    outlive: fn(Box<Unsettled<L>>) -> Box<dyn Reservation>,
}

impl<L: Send + Sync + 'static> SettlingByBody<L> {
    fn new(count: CountBody) -> Self {
        Self { count, outlive: |unsettled| unsettled }
    }
}

impl<L: CorrectedLimit> Settling<L> {
    fn new() -> Self {
        Self { by_response: None, by_body: None, refunds: None, correction: L::correction() }
    }

    pub(super) fn charge_by_response(
        settling: Option<Self>,
        cost: impl Fn(&Head<'_>, &response::Parts) -> L::Cost + Send + Sync + 'static,
    ) -> Self {
        let write_cost = move |head: &Head<'_>, response: &response::Parts, tokens: &mut [u32]| {
            if let Some(tokens) = L::Cost::of(tokens) {
                *tokens = cost(head, response);
            }
        };
        Self { by_response: Some(Arc::new(write_cost)), ..settling.unwrap_or_else(Self::new) }
    }

    pub(super) fn charge_by_body<F: FnMut(&[u8], &mut L::Cost) + Send + Sync + 'static>(
        settling: Option<Self>,
        count: impl Fn(&Head<'_>, &response::Parts) -> F + Send + Sync + 'static,
    ) -> Self
    where
        L: Send + Sync + 'static,
    {
        let count = move |head: &Head<'_>, response: &response::Parts| {
            let mut count = count(head, response);
            let count_piece = move |piece: &[u8], tokens: &mut [u32]| {
                if let Some(tokens) = L::Cost::of(tokens) {
                    count(piece, tokens);
                }
            };
            Box::new(count_piece) as CountPiece
        };
        let by_body = Some(SettlingByBody::new(Arc::new(count)));
        Self { by_body, ..settling.unwrap_or_else(Self::new) }
    }

    pub(super) fn refund_unserved(settling: Option<Self>) -> Self {
        Self { refunds: Some(Arc::default()), ..settling.unwrap_or_else(Self::new) }
    }
}

impl<L> Settling<L> {
    /// Returns the same corrections of another limit.
    pub(super) fn of_limit<M: Limit + for<'a> Settle<Head<'a>> + Send + Sync + 'static>(self) -> Settling<M> {
        Settling {
            by_response: self.by_response,
            by_body: self.by_body.map(|by_body| SettlingByBody::new(by_body.count)),
            refunds: self.refunds,
            correction: M::correction(),
        }
    }

    /// Returns how costs are corrected.
    #[inline]
    pub(super) fn correction(&self) -> Correction<L> {
        self.correction
    }

    /// Returns whether a request with this response is refunded.
    fn refunds(&self, response: &response::Parts) -> bool {
        self.refunds.as_ref().is_some_and(|refunds| Refused::is_in(&response.extensions) && refunds.is_chosen())
    }
}

impl<L> Clone for Settling<L> {
    fn clone(&self) -> Self {
        Self {
            by_response: self.by_response.clone(),
            by_body: self.by_body.clone(),
            refunds: self.refunds.clone(),
            correction: self.correction,
        }
    }
}

impl<L> Clone for SettlingByBody<L> {
    fn clone(&self) -> Self {
        Self { count: Arc::clone(&self.count), outlive: self.outlive }
    }
}

/// Chooses one of two, which callers cannot foresee.
///
/// By turns it would always be the same caller's where two alternate.
#[derive(Default)]
struct EverySecond(AtomicU32);

impl EverySecond {
    fn is_chosen(&self) -> bool {
        // The finalizer of MurmurHash3: each bit of the count changes half of the bits of the result.
        // ORDERING: Relaxed: a count, through which nothing is published.
        let mut bits = self.0.fetch_add(1, Ordering::Relaxed);
        bits = (bits ^ (bits >> 16)).wrapping_mul(0x85EB_CA6B);
        bits = (bits ^ (bits >> 13)).wrapping_mul(0xC2B2_AE35);
        (bits ^ (bits >> 16)) & 1 == 0
    }
}

/// The tokens that a request has taken and may get back.
pub(super) enum Taken {
    /// So many tokens of a limit that remembers nothing of the request.
    Tokens(u32),
    /// The costs of a reservation.
    Reserved(Box<dyn Reservation>),
}

/// A request whose cost is to be corrected by its response.
pub(super) struct Unsettled<L> {
    parts: request::Parts,
    peer: Option<SocketAddr>,
    taken: Taken,
    /// The standing of the limit, if headers report it.
    standing: Option<Standing>,
    settings: Arc<RateLimitSettings<L>>,
}

impl<L> Unsettled<L> {
    /// Keeps the head of a request that took so much.
    #[cold]
    pub(super) fn new(
        head: &Head<'_>,
        taken: Taken,
        standing: Option<Standing>,
        settings: &Arc<RateLimitSettings<L>>,
    ) -> Box<Self> {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = head.method.clone();
        parts.uri = head.uri.clone();
        parts.version = head.version;
        parts.headers = head.headers.clone();
        parts.extensions = head.extensions.clone();
        // A correction needs a standing that no header reports.
        let standing = standing.filter(|_| settings.headers.detail() == Detail::Standing);
        Box::new(Self { parts, peer: head.peer(), taken, standing, settings: Arc::clone(settings) })
    }

    /// Corrects the cost of the request to that by this response, which gets its headers.
    ///
    /// Returns what corrects it further, if the body of the response is counted.
    pub(super) fn settle_by(self: Box<Self>, response: &mut response::Parts) -> Option<BodyCounter> {
        let settings = Arc::clone(&self.settings);
        if let Some(standing) = self.standing {
            settings.write_headers(&mut response.headers, standing);
        }
        let settling = settings.settling.as_ref()?;
        let mut used = self.taken();
        let head = self.head();
        if settling.refunds(response) {
            used.fill(0);
        } else {
            if let Some(write_cost) = &settling.by_response {
                write_cost(&head, response, &mut used);
            }
            if let Some(SettlingByBody { count, outlive }) = &settling.by_body {
                let count = count(&head, response);
                return Some(BodyCounter { count, used, reservation: Some(outlive(self)) });
            }
        }
        self.settle_to(&used);
        None
    }

    fn head(&self) -> Head<'_> {
        Head::from(&self.parts).with_peer(self.peer.as_ref())
    }

    fn taken(&self) -> Box<[u32]> {
        match &self.taken {
            Taken::Tokens(tokens) => Box::new([*tokens]),
            Taken::Reserved(reservation) => reservation.taken(),
        }
    }

    fn settle_to(self: Box<Self>, used: &[u32]) {
        let Self { parts, peer, taken, settings, .. } = *self;
        match (taken, settings.settling.as_ref().map(Settling::correction), used) {
            (Taken::Reserved(reservation), ..) => reservation.settle(used),
            (Taken::Tokens(taken), Some(Correction::Settle(settle)), &[used]) => {
                settle(&settings.limit, &Head::from(&parts).with_peer(peer.as_ref()), taken, used);
            }
            // Only these settings make such a request, and it has one number of tokens.
            (Taken::Tokens(_), ..) => {}
        }
    }
}

impl<L: Send + Sync> Reservation for Unsettled<L> {
    fn standing(&self) -> Option<Standing> {
        self.standing
    }

    fn taken(&self) -> Box<[u32]> {
        self.taken()
    }

    fn settle(self: Box<Self>, used: &[u32]) {
        self.settle_to(used);
    }
}

impl<L> fmt::Debug for Unsettled<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsettled").field("taken", &self.taken()).finish_non_exhaustive()
    }
}

/// A request whose cost is corrected by the body of its response.
///
/// It is settled once: at the end of the body, or when the body is dropped before.
pub(super) struct BodyCounter {
    count: CountPiece,
    /// The tokens that the request has used so far, in each dimension.
    used: Box<[u32]>,
    /// It is there until the request is settled.
    reservation: Option<Box<dyn Reservation>>,
}

impl BodyCounter {
    /// Counts the next piece of the body.
    pub(super) fn count(&mut self, piece: &[u8]) {
        (self.count)(piece, &mut self.used);
    }

    /// Settles the request by what was counted.
    pub(super) fn settle(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            reservation.settle(&self.used);
        }
    }
}

impl Drop for BodyCounter {
    // Apart, because every body's drop contains this one.
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        self.settle();
    }
}
