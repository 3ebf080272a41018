//! The costs of requests, and the correction of costs by responses.

use super::Refused;
use super::settings::RateLimitSettings;
use crate::Head;
use crate::limit::{Detail, SettledLimit, Standing};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use http::{Request, request, response};

/// Returns the cost of a request, in tokens.
pub(super) type RequestCost = Arc<dyn Fn(&Head<'_>) -> u32 + Send + Sync>;

/// Returns the cost of a request by its response, in tokens.
type CostByResponse = Arc<dyn Fn(&Head<'_>, &response::Parts) -> u32 + Send + Sync>;

/// The cost of a request that took one token.
pub(super) const ONE_TOKEN: u32 = 1;

/// How the cost of a request is corrected when its response is known.
pub(super) struct Settling<L> {
    by_response: Option<CostByResponse>,
    /// Whether requests that were not served are refunded, and which of them.
    refunds: Option<Arc<EverySecond>>,
    /// A function pointer, so that no other limit has to have one.
    settle: fn(&L, &Head<'_>, u32, u32),
}

impl<L: SettledLimit> Settling<L> {
    fn new() -> Self {
        Self { by_response: None, refunds: None, settle: L::settle }
    }

    pub(super) fn charge_by_response(
        settling: Option<Self>,
        cost: impl Fn(&Head<'_>, &response::Parts) -> u32 + Send + Sync + 'static,
    ) -> Self {
        Self { by_response: Some(Arc::new(cost)), ..settling.unwrap_or_else(Self::new) }
    }

    pub(super) fn refund_unserved(settling: Option<Self>) -> Self {
        Self { refunds: Some(Arc::default()), ..settling.unwrap_or_else(Self::new) }
    }
}

impl<L> Settling<L> {
    /// Returns the same corrections of another limit.
    pub(super) fn of_limit<M: SettledLimit>(self) -> Settling<M> {
        Settling { by_response: self.by_response, refunds: self.refunds, settle: M::settle }
    }

    /// Returns what a request cost that took so many tokens and has this response.
    fn cost(&self, head: &Head<'_>, taken: u32, response: &response::Parts) -> u32 {
        if let Some(refunds) = &self.refunds
            && Refused::is_in(&response.extensions)
            && refunds.is_chosen()
        {
            return 0;
        }
        self.by_response.as_ref().map_or(taken, |cost| cost(head, response))
    }
}

impl<L> Clone for Settling<L> {
    fn clone(&self) -> Self {
        Self { by_response: self.by_response.clone(), refunds: self.refunds.clone(), settle: self.settle }
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

/// A request whose cost is to be corrected by its response.
pub(super) struct Unsettled<L> {
    parts: request::Parts,
    peer: Option<SocketAddr>,
    taken: u32,
    standing: Standing,
    settings: Arc<RateLimitSettings<L>>,
}

impl<L> Unsettled<L> {
    /// Keeps the head of a request that took so many tokens, if these settings correct the cost.
    #[inline]
    pub(super) fn of(
        head: &Head<'_>,
        taken: u32,
        standing: Standing,
        settings: &Arc<RateLimitSettings<L>>,
    ) -> Option<Box<Self>> {
        if settings.settling.is_some() { Some(Self::keeping(head, taken, standing, settings)) } else { None }
    }

    #[cold]
    fn keeping(head: &Head<'_>, taken: u32, standing: Standing, settings: &Arc<RateLimitSettings<L>>) -> Box<Self> {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = head.method.clone();
        parts.uri = head.uri.clone();
        parts.version = head.version;
        parts.headers = head.headers.clone();
        parts.extensions = head.extensions.clone();
        Box::new(Self { parts, peer: head.peer(), taken, standing, settings: Arc::clone(settings) })
    }

    /// Corrects the cost of the request to that by this response, which gets its headers.
    pub(super) fn settle(&self, response: &mut response::Parts) {
        let settings = &*self.settings;
        if let Some(settling) = &settings.settling {
            let head = Head::from(&self.parts).with_peer(self.peer.as_ref());
            (settling.settle)(&settings.limit, &head, self.taken, settling.cost(&head, self.taken, response));
        }
        if settings.headers.detail() == Detail::Standing {
            settings.write_headers(&mut response.headers, self.standing);
        }
    }
}

impl<L> fmt::Debug for Unsettled<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsettled").field("taken", &self.taken).finish_non_exhaustive()
    }
}
