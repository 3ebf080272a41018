//! The costs of requests, and the correction of costs by responses.

use super::settings::RateLimitSettings;
use crate::Head;
use crate::limit::{Detail, SettledLimit, Standing};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddr;
use http::{Request, request, response};

/// Returns the cost of a request, in tokens.
pub(super) type RequestCost = Arc<dyn Fn(&Head<'_>) -> u32 + Send + Sync>;

/// Returns the cost of a request by its response, in tokens.
type CostByResponse = Arc<dyn Fn(&Head<'_>, &response::Parts) -> u32 + Send + Sync>;

/// The cost of a request that took one token.
pub(super) const ONE_TOKEN: u32 = 1;

/// The cost of a request by its response, and how a limit corrects what it took to that.
pub(super) struct ResponseCost<L> {
    cost: CostByResponse,
    /// A function pointer, so that no other limit has to have one.
    settle: fn(&L, &Head<'_>, u32, u32),
}

impl<L: SettledLimit> ResponseCost<L> {
    pub(super) fn new(cost: impl Fn(&Head<'_>, &response::Parts) -> u32 + Send + Sync + 'static) -> Self {
        Self { cost: Arc::new(cost), settle: L::settle }
    }
}

impl<L> ResponseCost<L> {
    /// Returns the same cost for another limit.
    pub(super) fn of_limit<M: SettledLimit>(self) -> ResponseCost<M> {
        ResponseCost { cost: self.cost, settle: M::settle }
    }
}

impl<L> Clone for ResponseCost<L> {
    fn clone(&self) -> Self {
        Self { cost: Arc::clone(&self.cost), settle: self.settle }
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
    /// Keeps the head of a request that took so many tokens, if these settings have a cost by response.
    #[inline]
    pub(super) fn of(
        head: &Head<'_>,
        taken: u32,
        standing: Standing,
        settings: &Arc<RateLimitSettings<L>>,
    ) -> Option<Box<Self>> {
        if settings.response_cost.is_some() { Some(Self::keeping(head, taken, standing, settings)) } else { None }
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
        if let Some(ResponseCost { cost, settle }) = &settings.response_cost {
            let head = Head::from(&self.parts).with_peer(self.peer.as_ref());
            settle(&settings.limit, &head, self.taken, cost(&head, response));
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
