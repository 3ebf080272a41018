//! The gateway: a limit per client address before everything, a breaker before the upstream.

use crate::envelope::FloodMeter;
use crate::headers::{ASKED, PHASE, set_tick};
use crate::live::Live;
use crate::plan::Phase;
use crate::proxy::{UpstreamCall, UpstreamError};
use crate::server;
use crate::watch::BreakerWatch;
use bytes::Bytes;
use damper::breaker::KeyListener;
use damper::decision_log::{DecisionLog, Logged};
use damper::http::{
    CircuitBreak, CircuitBreakerLayer, Detail, Head, Headers, Limit, LimitDecision, Limited, NoWait, RateLimitLayer,
    Refusal, Single, Standing,
};
use damper::time::DefaultClock;
use damper::{
    Allowed, BreakerConfig, CallError, CircuitBreaker, CircuitOpen, Clock, KeyedLimiter, Monotonic, Quota, wire,
};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, HeaderValue, RETRY_AFTER};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response, StatusCode};
use std::convert::Infallible;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// Answered here and never limited, because a load balancer must not be turned away.
const HEALTH: &str = "/healthz";

/// The upstream's answer, or a line of the gateway's own.
type Body = Either<Incoming, Full<Bytes>>;

/// The last decisions on clients, from which the live page takes its hottest keys.
pub(crate) static DECISIONS: DecisionLog = DecisionLog::new(1 << 16);

/// A limit for each client address, whose decisions are logged.
pub(crate) type ClientLimits = Logged<KeyedLimiter<IpAddr>>;

/// The breaker before the upstream, whose layer counts what it refuses.
pub(crate) type UpstreamBreaker = CircuitBreaker<DefaultClock, KeyListener<String>>;

#[derive(Debug)]
pub(crate) struct Gateway {
    limits: Arc<ClientLimits>,
    breaker: Arc<UpstreamBreaker>,
    upstream: CircuitBreak<UpstreamCall, Single>,
    watch: Arc<BreakerWatch>,
    flood: FloodMeter,
}

impl Gateway {
    pub(crate) fn new(
        quota: Quota,
        cooldown: Duration,
        patience: Duration,
        upstream: SocketAddr,
    ) -> Result<Self, Box<dyn Error>> {
        // 5 consecutive failures and one probe at a time are the defaults.
        let single = Single::builder(BreakerConfig::builder().cooldown(cooldown).build()?).named("upstream").build();
        let breaker = Arc::clone(single.breaker());
        let watch = Arc::new(BreakerWatch::new(Arc::clone(&breaker)));
        let call = UpstreamCall::new(upstream, patience, Arc::clone(&watch));
        Ok(Self {
            limits: Arc::new(Logged::new(KeyedLimiter::builder(quota).build()?, &DECISIONS)),
            upstream: CircuitBreakerLayer::new(single).layer(call),
            breaker,
            watch,
            flood: FloodMeter::default(),
        })
    }

    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        let limits = self.limit_layer();
        server::serve(listener, |peer| limits.for_peer(peer).layer(self.proxy())).await;
    }

    /// Serves as [`serve`](Self::serve) does, with the live page beside it and what the page shows around it.
    pub(crate) async fn serve_with_page(self: Arc<Self>, listener: TcpListener, live: Live) {
        server::serve(listener, |peer| live.service(peer, self.proxy())).await;
    }

    pub(crate) fn limit_layer(self: &Arc<Self>) -> RateLimitLayer<Arc<Self>> {
        RateLimitLayer::new(Arc::clone(self)).exempt(|head| head.uri.path() == HEALTH).headers(Headers::OnAllResponses)
    }

    fn proxy(
        self: &Arc<Self>,
    ) -> impl Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + use<>
    {
        let gateway = Arc::clone(self);
        service_fn(move |request| Arc::clone(&gateway).forward(request))
    }

    pub(crate) fn limits(&self) -> &Arc<ClientLimits> {
        &self.limits
    }

    pub(crate) fn breaker(&self) -> &Arc<UpstreamBreaker> {
        &self.breaker
    }

    pub(crate) fn watch(&self) -> &Arc<BreakerWatch> {
        &self.watch
    }

    pub(crate) fn flood(&self) -> &FloodMeter {
        &self.flood
    }

    async fn forward(self: Arc<Self>, mut request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        if request.uri().path() == HEALTH {
            return Ok(text(StatusCode::OK, "healthy\n"));
        }
        self.watch.observe();
        set_tick(request.headers_mut(), ASKED, Monotonic.now());
        let answer = self.upstream.call(request).await;
        self.watch.observe();
        Ok(match answer {
            Ok(answer) if answer.status().is_server_error() => {
                text(StatusCode::BAD_GATEWAY, format!("upstream answered {}\n", answer.status()))
            }
            Ok(answer) => answer.map(Either::Left),
            Err(CallError::Refused(open)) => unavailable(open),
            Err(CallError::Failed(error @ UpstreamError::Unreachable(_))) => {
                text(StatusCode::BAD_GATEWAY, format!("{error}\n"))
            }
            Err(CallError::Failed(error @ UpstreamError::Silent(_))) => {
                text(StatusCode::GATEWAY_TIMEOUT, format!("{error}\n"))
            }
        })
    }
}

/// As `PerClient`, but what the flooder is given is counted.
impl Limit for Gateway {
    type Future = NoWait;

    fn decide(&self, head: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
        let Some(client) = head.peer().map(|peer| peer.ip()) else {
            return LimitDecision::Refuse(Refusal::MissingPeer);
        };
        let check = || self.limits.check_n(&client, cost);
        let checked = if is_of_flood(client, head) { self.flood.count(check) } else { check() };
        let quota = self.limits.limiter().quota();
        let standing = |allowed: Allowed| Standing::new(quota, allowed.remaining(), allowed.resets_in());
        let answer = checked.map(|allowed| detail.then(|| standing(allowed)));
        LimitDecision::from(answer.map_err(|denied| Limited::by(denied, quota).into()))
    }
}

/// The first client floods, and says so.
fn is_of_flood(client: IpAddr, head: &Head<'_>) -> bool {
    client == IpAddr::from([127, 0, 0, 1])
        && head.headers.get(PHASE).is_some_and(|phase| phase.as_bytes() == Phase::Flood.name().as_bytes())
}

/// The response to the breaker's refusal.
///
/// While a probe is in flight the breaker names no time, so clients are asked to retry in a second.
fn unavailable(open: CircuitOpen) -> Response<Body> {
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, format!("{open}\n"));
    let wait = open.retry_after().unwrap_or(Duration::from_secs(1));
    response.headers_mut().insert(RETRY_AFTER, wire::retry_after(wait));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Either::Right(Full::new(text.into())));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::Gateway;
    use crate::upstream::Upstream;
    use damper::Quota;
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    /// The answers of a gateway with this quota to `requests` of one client, in lower case.
    async fn answers(quota: Quota, requests: usize) -> Vec<String> {
        let listener = async || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
        let (behind, before) = (listener().await, listener().await);
        let (upstream, address) = (behind.local_addr().expect("bound"), before.local_addr().expect("bound"));
        tokio::spawn(Arc::new(Upstream::new()).serve(behind));
        let gateway = Gateway::new(quota, Duration::from_secs(1), Duration::from_secs(60), upstream).expect("fits");
        tokio::spawn(Arc::new(gateway).serve(before));
        let mut answers = Vec::new();
        for _ in 0..requests {
            let mut stream = TcpStream::connect(address).await.expect("listens");
            stream.write_all(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").await.expect("is read");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("is text");
            answers.push(answer.to_lowercase());
        }
        answers
    }

    #[tokio::test]
    async fn allowed_answers_carry_the_headers_of_refusals() {
        let answers = answers(Quota::per_hour(1).burst(2), 3).await;
        for (answer, (status, remaining)) in answers.iter().zip([("200", 1), ("200", 0), ("429", 0)]) {
            assert!(answer.starts_with(&format!("http/1.1 {status} ")), "{answer}");
            assert!(answer.contains("\r\nratelimit-policy: "), "{answer}");
            assert!(answer.contains(&format!(";r={remaining};")), "{answer}");
        }
    }
}
