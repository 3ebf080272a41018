//! The explanations that an operator may ask the page for.

use super::access::Refusal;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use damper_http::{Explanation, Head, PeerAddress};
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderName, Request, StatusCode, Uri};

/// The address of the client whose request is to be explained.
const CLIENT: HeaderName = HeaderName::from_static("damper-client");

/// The method of the request that is to be explained.
const METHOD: HeaderName = HeaderName::from_static("damper-method");

/// A function of the application that explains a request.
type Explainer = Box<dyn Fn(&Head<'_>) -> Explanation + Send + Sync>;

/// The stacks that explain requests, by name.
#[derive(Default)]
pub(super) struct Explainers(pub(super) Vec<(String, Explainer)>);

impl Explainers {
    /// Explains the request that this one is about: its content type and its text, or why not.
    ///
    /// `target` has the name of a stack, and behind it the path of the request.
    pub(super) fn explain(&self, head: &Head<'_>, target: &str) -> Result<(&'static str, String), Refusal> {
        let (name, path) = target.split_once('/').unwrap_or((target, ""));
        let decoded = decoded(name);
        let Some((_, explain)) = self.0.iter().find(|(other, _)| *other.as_bytes() == *decoded) else {
            return Err((StatusCode::NOT_FOUND, format!("no stack with the name {name:?} explains requests\n")));
        };
        let explanation = explain(&Head::of(&request_about(head, path)?));
        let wants_text = head.headers.get(ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/plain"));
        Ok(if wants_text {
            ("text/plain; charset=utf-8", format!("{explanation}\n"))
        } else {
            ("application/json", explanation.to_json())
        })
    }
}

/// Returns the bytes that a part of a path stands for: `%20` is a space.
fn decoded(part: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [byte, after @ ..] = rest {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let escaped = match after {
            [high, low, ..] if *byte == b'%' => digit(*high).zip(digit(*low)),
            _ => None,
        };
        if let Some((high, low)) = escaped {
            decoded.push((high * 16 + low) as u8);
            rest = &after[2..];
        } else {
            decoded.push(*byte);
            rest = after;
        }
    }
    decoded
}

/// Returns the request that is to be explained.
///
/// It has the query and the headers of this one, but not its peer, its token and its extensions.
fn request_about(head: &Head<'_>, path: &str) -> Result<Request<()>, Refusal> {
    let invalid = |what: &str, value: &str| (StatusCode::BAD_REQUEST, format!("{value:?} is not {what}\n"));
    let query = head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let target = format!("/{path}{query}");
    let uri: Uri = target.parse().map_err(|_| invalid("the path of a request", &target))?;
    let mut request = Request::new(());
    *request.uri_mut() = uri;
    *request.headers_mut() = head.headers.clone();
    let headers = request.headers_mut();
    headers.remove(AUTHORIZATION);
    let [client, method] = [CLIENT, METHOD].map(|name| {
        let value = headers.remove(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).to_string())
    });
    if let Some(method) = method {
        *request.method_mut() = method.parse().map_err(|_| invalid("a method", &method))?;
    }
    if let Some(client) = client {
        let address: IpAddr = client.parse().map_err(|_| invalid("the address of a client", &client))?;
        request.extensions_mut().insert(PeerAddress(SocketAddr::new(address, 0)));
    }
    Ok(request)
}
