//! A status of gRPC in headers or trailers, as the protocol over HTTP/2 writes it.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use damper_core::gate::Refusal;
use damper_core::quota::Quota;
use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The header with a `google.rpc.Status`, whose details say more than code and message.
const GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// The header that tells gRPC's own clients when to retry.
///
/// They do not read the details of a status.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The type of the detail that has a wait.
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// The type of the detail that has a quota.
const QUOTA_FAILURE: &str = "type.googleapis.com/google.rpc.QuotaFailure";

/// The type of the detail that has a cause.
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";

/// The subject of a quota: damper names no client in a response.
pub const QUOTA_SUBJECT: &str = "caller";

/// The domain of the reasons of a `google.rpc.ErrorInfo`.
pub const ERROR_DOMAIN: &str = "damper";

/// The longest wait that the details can have, which is about 10,000 years.
const LONGEST: Duration = Duration::new(315_576_000_000, 999_999_999);

/// The details that a status has beside its code and its message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StatusDetails {
    /// The wait, for a `google.rpc.RetryInfo`.
    pub(crate) retry_after: Option<Duration>,
    /// The quota that is used up, for a `google.rpc.QuotaFailure`.
    pub(crate) quota: Option<Quota>,
    /// The [label](damper_core::gate::Refusal::label) of the refusal, for a `google.rpc.ErrorInfo`.
    pub(crate) label: Option<&'static str>,
}

impl StatusDetails {
    /// Returns the details of a gate's refusal.
    pub(crate) fn of(refusal: &impl Refusal) -> Self {
        let quota = refusal.standing().map(|standing| standing.quota);
        Self { retry_after: refusal.retry_after(), quota, label: Some(refusal.label()) }
    }

    /// Returns whether there are none.
    const fn is_empty(&self) -> bool {
        matches!(self, Self { retry_after: None, quota: None, label: None })
    }
}

/// Writes the code, the message and the details of a status.
pub(crate) fn write_grpc_status(headers: &mut HeaderMap, code: u32, message: &str, details: &StatusDetails) {
    headers.insert(GRPC_STATUS, code.into());
    if !message.is_empty() {
        insert(headers, GRPC_MESSAGE, percent_encoded(message).into());
    }
    if !details.is_empty() {
        insert(headers, GRPC_DETAILS, base64(&status(code, message, details)).into());
    }
}

/// Returns a label as the reason of a `google.rpc.ErrorInfo`.
///
/// It has at most 63 of `A` to `Z`, digits and `_`, as google.aip.dev/193 demands: `no_slot` is `NO_SLOT`.
#[must_use]
pub fn error_reason(label: &str) -> String {
    let reason = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
    label.chars().map(reason).take(63).collect()
}

/// Writes the wait of a limit for gRPC's own clients, rounded up.
///
/// It writes nothing if the wait is too long for the header.
pub(crate) fn write_grpc_pushback(headers: &mut HeaderMap, wait: Duration) {
    if let Ok(millis) = i32::try_from(wait.as_nanos().div_ceil(1_000_000)) {
        headers.insert(PUSHBACK, millis.into());
    }
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: Bytes) {
    // Percent-encoded text and base64 are valid values.
    if let Ok(value) = HeaderValue::from_maybe_shared(value) {
        headers.insert(name, value);
    }
}

/// Returns a message as a header has it, with the bytes of spaces and unusual characters as `%20`.
///
/// gRPC demands that of all but printable ASCII. Rust's own servers of gRPC encode the others too.
fn percent_encoded(message: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            ..=b' ' | b'"' | b'#' | b'%' | b'<' | b'>' | b'?' | b'`' | b'{' | b'}' | 0x7f.. => {
                encoded.push('%');
                encoded.push(char::from(DIGITS[usize::from(byte >> 4)]));
                encoded.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
            plain => encoded.push(char::from(plain)),
        }
    }
    encoded
}

/// Returns bytes in base64 without padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letters = |[first, second, third]: [u8; 3]| {
        let bits = u32::from(first) << 16 | u32::from(second) << 8 | u32::from(third);
        [18, 12, 6, 0].map(|shift| LETTERS[(bits >> shift) as usize & 63])
    };
    let mut encoded = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    let (whole, rest) = bytes.as_chunks();
    for chunk in whole {
        encoded.extend_from_slice(&letters(*chunk));
    }
    if let Some(&first) = rest.first() {
        let last = letters([first, rest.get(1).copied().unwrap_or(0), 0]);
        encoded.extend_from_slice(&last[..=rest.len()]);
    }
    encoded
}

/// Returns a `google.rpc.Status`.
fn status(code: u32, message: &str, details: &StatusDetails) -> Vec<u8> {
    let mut status = Message::new();
    status.number(1, code.into());
    status.text(2, message);
    let mut detail = |name: &str, message: &Message| {
        let mut any = Message::new();
        any.text(1, name).bytes(2, &message.0);
        status.bytes(3, &any.0);
    };
    if let Some(wait) = details.retry_after {
        let wait = wait.min(LONGEST);
        let (mut duration, mut info) = (Message::new(), Message::new());
        duration.number(1, wait.as_secs()).number(2, wait.subsec_nanos().into());
        info.bytes(1, &duration.0);
        detail(RETRY_INFO, &info);
    }
    if let Some(quota) = details.quota {
        let (mut violation, mut failure) = (Message::new(), Message::new());
        violation.text(1, QUOTA_SUBJECT).text(2, &quota.to_string()).number(7, quota.limit().into());
        failure.bytes(1, &violation.0);
        detail(QUOTA_FAILURE, &failure);
    }
    if let Some(label) = details.label {
        let mut info = Message::new();
        info.text(1, &error_reason(label)).text(2, ERROR_DOMAIN);
        detail(ERROR_INFO, &info);
    }
    status.0
}

/// A message of protocol buffers, to which fields are appended.
struct Message(Vec<u8>);

impl Message {
    const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends a number that is not negative. Zero is the default, which is left out.
    fn number(&mut self, field: u8, number: u64) -> &mut Self {
        if number != 0 {
            self.0.push(field << 3);
            self.varint(number);
        }
        self
    }

    /// Appends a text, unless it is empty, which is the default.
    fn text(&mut self, field: u8, text: &str) -> &mut Self {
        if text.is_empty() { self } else { self.bytes(field, text.as_bytes()) }
    }

    /// Appends another message.
    fn bytes(&mut self, field: u8, bytes: &[u8]) -> &mut Self {
        self.0.push(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends seven bits a byte, the lowest first. All but the last byte have their highest bit set.
    fn varint(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_percent_encoded() {
        assert_eq!(percent_encoded("retry in 1.2 s: 100 %\n"), "retry%20in%201.2%20s:%20100%20%25%0A");
        assert_eq!(percent_encoded("\u{20ac}\u{7f}"), "%E2%82%AC%7F");
    }

    /// The vectors of RFC 4648, section 10, without their padding.
    #[test]
    fn base64_has_no_padding() {
        for (bytes, text) in
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text.as_bytes());
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xbf]), b"+/+/");
    }
}
