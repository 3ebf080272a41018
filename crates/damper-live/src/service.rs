//! The service that answers browsers.

use super::Beside;
use super::access::{self, Refusal};
use super::body::LiveBody;
use super::control::{Command, ControlError, LONGEST};
use super::page::Shared;
use super::stream::{EventStream, Full};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::{Buf, Bytes};
use core::convert::Infallible;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use damper_core::keyed::ClientAddress;
use damper_http::Head;
use damper_http::internal::with_peer;
use http::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Body;
use pin_project_lite::pin_project;
use serde_json::json;

const STYLE: &str = include_str!("assets/live.css");
const ICON: &str = include_str!("assets/icon.svg");
/// Modules: the page, drawing, cards, changes of breakers, what a sample has, and controls.
const SCRIPTS: [(&str, &str); 6] = [
    ("live.js", include_str!("assets/live.js")),
    ("charts.js", include_str!("assets/charts.js")),
    ("cards.js", include_str!("assets/cards.js")),
    ("changes.js", include_str!("assets/changes.js")),
    ("sample.js", include_str!("assets/sample.js")),
    ("controls.js", include_str!("assets/controls.js")),
];

/// The policy of what a browser may load: the files of the page.
///
/// The hash is that of the script in `page.html`.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self' 'sha256-fVXk3ZOhDSxMVuJkmf7DcLP0KTE/Bfj6IfkInVE61K8='; \
     style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
);

/// The page as a service of hyper and tower. Made by [`LivePage::build`](super::LivePage::build).
///
/// Clones share the page.
///
/// # Mounting
///
/// With axum, `router.nest_service("/damper", live)`, served with `into_make_service_with_connect_info::<SocketAddr>()`.
///
/// With hyper, for each connection, beside the service that the connection is for:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub extern crate damper_live as live; }
/// use damper::live::LivePage;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use hyper::service::service_fn;
///
/// let live = LivePage::new().build()?;
/// # let peer: std::net::SocketAddr = ([127, 0, 0, 1], 5_000).into();
/// // For each connection:
/// let service = service_fn(async |_: Request<hyper::body::Incoming>| {
///     Ok::<_, std::convert::Infallible>(Response::new(Full::new(bytes::Bytes::from("hello"))))
/// });
/// let service = live.for_peer(peer).beside(service);
/// # let _ = service;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Services of tower are mounted in the same way; [`PeerAddress`](damper_http::PeerAddress) says how else a request may tell its peer.
#[derive(Clone)]
pub struct LiveService {
    shared: Arc<Shared>,
    peer: Option<SocketAddr>,
}

impl LiveService {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, peer: None }
    }

    /// Returns the same service for requests of this peer.
    #[must_use]
    pub fn for_peer(&self, peer: SocketAddr) -> Self {
        Self { peer: Some(peer), ..self.clone() }
    }

    /// Puts the page beside a service, which gets all requests for other paths.
    pub fn beside<S>(&self, service: S) -> Beside<S> {
        Beside::new(service, self.clone())
    }

    /// Returns the path under which the page is mounted.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.shared.path
    }

    /// Returns whether a request is for the page.
    #[inline]
    #[must_use]
    pub fn is_for(&self, uri: &Uri) -> bool {
        uri.path().strip_prefix(&*self.shared.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Answers a request, or reads its body first.
    pub(super) fn answer<B: Body>(&self, request: Request<B>) -> LiveFuture<B> {
        let head = with_peer(Head::of(&request), self.peer.as_ref());
        match self.respond(&head) {
            Ok(Answer::Now(response)) => LiveFuture::respond(response),
            Ok(Answer::AfterBody) => LiveFuture {
                state: State::Collecting {
                    body: Box::pin(request.into_body()),
                    collected: Vec::new(),
                    shared: Arc::clone(&self.shared),
                },
            },
            Err((status, why)) => {
                let mut response = text(status, why);
                if status == StatusCode::UNAUTHORIZED && self.is_to_look(&head) {
                    // A browser asks its user then, and sends what it is told with each later request.
                    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"damper\""));
                }
                LiveFuture::respond(response)
            }
        }
    }

    fn respond(&self, head: &Head<'_>) -> Result<Answer, Refusal> {
        let shared = &*self.shared;
        shared.access.look(head)?;
        let file = self.file_of(head);
        if self.is_to_look(head) {
            self.admit_look(head)?;
        }
        let method = if file == "control" { &Method::POST } else { &Method::GET };
        if head.method != method && !(head.method == Method::HEAD && method == Method::GET) {
            let allowed = if file == "control" { "POST" } else { "GET" };
            let why = format!("the method {} is not allowed here, {allowed} is\n", head.method);
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, why);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            return Ok(Answer::Now(response));
        }
        if let Some(target) = file.strip_prefix("explain/") {
            let (content_type, explanation) = shared.explainers.explain(head, target)?;
            return Ok(Answer::Now(content(content_type, explanation.into())));
        }
        let is_head = head.method == Method::HEAD;
        let file = match file {
            "" => content("text/html; charset=utf-8", shared.page.clone()),
            "live.css" => content("text/css; charset=utf-8", Bytes::from_static(STYLE.as_bytes())),
            "icon.svg" => content("image/svg+xml", Bytes::from_static(ICON.as_bytes())),
            "events" if is_head => return Ok(Answer::Now(self.would_open_stream(head))),
            "events" => return Ok(Answer::Now(self.open_stream(head))),
            "control" => return self.admit_control(head).map(|()| Answer::AfterBody),
            name => match SCRIPTS.iter().find(|(script, _)| *script == name) {
                Some((_, script)) => content("text/javascript; charset=utf-8", Bytes::from_static(script.as_bytes())),
                None => return Err((StatusCode::NOT_FOUND, missing(name, &shared.path))),
            },
        };
        Ok(Answer::Now(file))
    }

    /// Returns the file that a request is for.
    fn file_of<'a>(&self, head: &Head<'a>) -> &'a str {
        let path = head.uri.path();
        // Routers may have removed the path.
        let path = if self.is_for(head.uri) { &path[self.shared.path.len()..] } else { path };
        path.trim_start_matches('/')
    }

    /// Returns whether a request needs the token to look.
    ///
    /// A control needs another one.
    fn is_to_look(&self, head: &Head<'_>) -> bool {
        self.shared.look_token.is_some() && self.file_of(head) != "control"
    }

    /// Returns the address of the browser, or the same one for all if their addresses are not known.
    fn address_of(&self, head: &Head<'_>) -> ClientAddress {
        let peer = head.peer().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
        ClientAddress::from(match &self.shared.proxies {
            Some(proxies) => proxies.client_of(peer, head.headers),
            None => peer,
        })
    }

    /// Answers a page that could not open its stream and asks why.
    fn would_open_stream(&self, head: &Head<'_>) -> Response<LiveBody> {
        let would = self.shared.open.check(self.address_of(head), self.shared.most_open);
        text(would.map_or_else(status_of, |()| StatusCode::OK), String::new())
    }

    fn open_stream(&self, head: &Head<'_>) -> Response<LiveBody> {
        let place = match self.shared.open.take(self.address_of(head), self.shared.most_open) {
            Ok(place) => place,
            Err(full) => {
                let why = match full {
                    Full::Page => "too many live pages are open\n",
                    Full::Address => {
                        "too many live pages of one address are open: see `LivePage::most_open_per_address`, and \
                         `LivePage::behind` if a proxy has this address\n"
                    }
                };
                let mut response = text(status_of(full), why.to_owned());
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
                return response;
            }
        };
        let stream = EventStream::new(Arc::clone(&self.shared), place);
        let mut response = with_headers(LiveBody::events(stream, self.shared.patience), "text/event-stream");
        // nginx would collect the stream otherwise.
        let buffering = HeaderName::from_static("x-accel-buffering");
        response.headers_mut().insert(buffering, HeaderValue::from_static("no"));
        response
    }

    /// Lets a request look whose page has a token for that, or says why not.
    fn admit_look(&self, head: &Head<'_>) -> Result<(), Refusal> {
        // The token of controls lets look, too.
        let tokens = || [&self.shared.look_token, &self.shared.token].into_iter().flatten();
        self.admit_token(head, || tokens().any(|token| token.is_in(head.headers) || token.is_password_in(head.headers)))
    }

    /// Lets a request pass whose token is right, or says why not.
    ///
    /// An address that has sent too many wrong ones waits.
    fn admit_token(&self, head: &Head<'_>, is_right: impl FnOnce() -> bool) -> Result<(), Refusal> {
        let refused = (StatusCode::UNAUTHORIZED, "the token is missing or wrong\n".to_owned());
        if !head.headers.contains_key(AUTHORIZATION) {
            return Err(refused);
        }
        let Some(attempts) = &self.shared.attempts else { return Err(refused) };
        let address = self.address_of(head);
        // Taken before the look, so that many requests at once do not share a token of the limit.
        if attempts.check(&address).is_err() {
            return Err((StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens of this address\n".to_owned()));
        }
        if !is_right() {
            return Err(refused);
        }
        attempts.refund(&address, 1);
        Ok(())
    }

    /// Lets a control be read, or says why not.
    fn admit_control(&self, head: &Head<'_>) -> Result<(), Refusal> {
        access::change(head)?;
        let Some(token) = &self.shared.token else {
            return Err((StatusCode::FORBIDDEN, "this page has no token, so nothing can be changed\n".to_owned()));
        };
        self.admit_token(head, || token.is_in(head.headers))?;
        // A form of another site cannot send this type without asking first.
        if !is_json(head.headers) {
            let why = match head.headers.get(CONTENT_TYPE) {
                Some(found) => format!("a control is `application/json`, and this request's type is {found:?}\n"),
                None => "a control is `application/json`, and this request has no `Content-Type`\n".to_owned(),
            };
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
        Ok(())
    }
}

/// Returns the status for a stream that may not be open.
const fn status_of(full: Full) -> StatusCode {
    match full {
        Full::Page => StatusCode::SERVICE_UNAVAILABLE,
        Full::Address => StatusCode::TOO_MANY_REQUESTS,
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let is_json = |value: &HeaderValue| {
        let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
        essence.trim().eq_ignore_ascii_case("application/json")
    };
    headers.get(CONTENT_TYPE).is_some_and(is_json)
}

/// The course that a request takes.
enum Answer {
    Now(Response<LiveBody>),
    /// A control, which has a body.
    AfterBody,
}

/// The answer to a request for a file that does not exist, such as a router's own path.
fn missing(file: &str, path: &str) -> String {
    format!(
        "the live page has no file {file:?}: it answers below {path:?}, and a router that mounts it elsewhere has to take its own path away, \
         as axum's `nest_service` does; else see `LivePage::path`\n"
    )
}

fn content(content_type: &'static str, content: Bytes) -> Response<LiveBody> {
    with_headers(LiveBody::text(content), content_type)
}

fn text(status: StatusCode, text: String) -> Response<LiveBody> {
    let mut response = content("text/plain; charset=utf-8", text.into());
    *response.status_mut() = status;
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("6"));
    }
    response
}

fn with_headers(body: LiveBody, content_type: &'static str) -> Response<LiveBody> {
    let mut response = Response::new(body);
    let same_origin = HeaderValue::from_static("same-origin");
    response.headers_mut().extend([
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (HeaderName::from_static("cross-origin-resource-policy"), same_origin.clone()),
        (HeaderName::from_static("cross-origin-opener-policy"), same_origin),
    ]);
    response
}

impl Shared {
    /// Makes the change that a request asks for.
    fn obey(&self, request: &[u8]) -> Response<LiveBody> {
        let answer = Command::read(request).and_then(|command| self.controls.obey(command));
        let (status, json) = match answer {
            Ok(done) => (StatusCode::OK, json!({ "done": done })),
            Err(error) => (ControlError::status(&error), json!({ "error": error.to_string() })),
        };
        let mut response = content("application/json", json.to_string().into());
        *response.status_mut() = status;
        response
    }
}

pin_project! {
    /// The page's answer to a request. Made by [`LiveService`].
    pub struct LiveFuture<B> {
        state: State<B>,
    }
}

enum State<B> {
    Respond(Option<Response<LiveBody>>),
    Collecting { body: Pin<Box<B>>, collected: Vec<u8>, shared: Arc<Shared> },
}

impl<B> LiveFuture<B> {
    fn respond(response: Response<LiveBody>) -> Self {
        Self { state: State::Respond(Some(response)) }
    }
}

impl<B: Body> Future for LiveFuture<B> {
    type Output = Result<Response<LiveBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let state = self.project().state;
        let response = match state {
            // Polled again after it was ready, which futures need not allow: an empty response.
            State::Respond(response) => response.take().unwrap_or_else(|| Response::new(LiveBody::text(Bytes::new()))),
            State::Collecting { body, collected, shared } => loop {
                match ready!(body.as_mut().poll_frame(cx)) {
                    Some(Ok(frame)) => {
                        let Ok(mut part) = frame.into_data() else { continue };
                        if collected.len() + part.remaining() > LONGEST {
                            let why = format!("a control has at most {LONGEST} bytes\n");
                            break text(StatusCode::PAYLOAD_TOO_LARGE, why);
                        }
                        while part.has_remaining() {
                            collected.extend_from_slice(part.chunk());
                            part.advance(part.chunk().len());
                        }
                    }
                    Some(Err(_)) => break text(StatusCode::BAD_REQUEST, "the request broke off\n".to_owned()),
                    None => break shared.obey(collected),
                }
            },
        };
        *state = State::Respond(None);
        Poll::Ready(Ok(response))
    }
}

impl<B: Body> tower_service::Service<Request<B>> for LiveService {
    type Response = Response<LiveBody>;
    type Error = Infallible;
    type Future = LiveFuture<B>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> LiveFuture<B> {
        self.answer(request)
    }
}

impl<B: Body> hyper::service::Service<Request<B>> for LiveService {
    type Response = Response<LiveBody>;
    type Error = Infallible;
    type Future = LiveFuture<B>;

    fn call(&self, request: Request<B>) -> LiveFuture<B> {
        self.answer(request)
    }
}

/// As [`beside`](LiveService::beside).
impl<S> tower_layer::Layer<S> for LiveService {
    type Service = Beside<S>;

    fn layer(&self, service: S) -> Beside<S> {
        self.beside(service)
    }
}

impl fmt::Debug for LiveService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveService").field("page", &self.shared).field("peer", &self.peer).finish()
    }
}

impl<B> fmt::Debug for LiveFuture<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveFuture").finish_non_exhaustive()
    }
}
