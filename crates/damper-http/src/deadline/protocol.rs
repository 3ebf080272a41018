//! How HTTP and gRPC carry a timeout and report that it has passed.

use super::{BoxError, TimeoutHeader};
use crate::Head;
#[cfg(feature = "tonic")]
use crate::rate_limit::grpc;
use crate::rate_limit::refusal_body::plain_text;
#[cfg(feature = "tonic")]
use crate::wire;
use alloc::boxed::Box;
#[cfg(feature = "tonic")]
use alloc::{string::ToString, sync::Arc};
use bytes::Bytes;
use core::time::Duration;
use damper_core::deadline::DeadlineExceeded;
use http::{HeaderMap, Response, StatusCode};
#[cfg(feature = "tonic")]
use http::{HeaderValue, header::CONTENT_TYPE};
#[cfg(feature = "tonic")]
use tonic::{Code, Status};

/// The prefix of gRPC-Web's content types.
#[cfg(feature = "tonic")]
const GRPC_WEB: &[u8] = b"application/grpc-web";

/// The protocol of a request.
#[derive(Clone, Debug)]
pub(super) enum Protocol {
    Http,
    /// Keeps the request's content type, because gRPC-Web expects its own.
    #[cfg(feature = "tonic")]
    Grpc {
        content_type: Option<HeaderValue>,
    },
}

impl Protocol {
    pub(super) fn of(head: &Head<'_>) -> Self {
        #[cfg(feature = "tonic")]
        if grpc::is_grpc(head) {
            return Self::Grpc { content_type: head.headers.get(CONTENT_TYPE).cloned() };
        }
        // Without the feature, every request is plain HTTP.
        #[cfg(not(feature = "tonic"))]
        let _ = head;
        Self::Http
    }

    /// Reads the timeout of a request, from `grpc-timeout` in gRPC or else from this header.
    pub(super) fn read_timeout(&self, headers: &HeaderMap, header: Option<&TimeoutHeader>) -> Option<Duration> {
        match self {
            Self::Http => header?.read(headers),
            #[cfg(feature = "tonic")]
            Self::Grpc { .. } => wire::grpc_timeout_in(headers),
        }
    }

    /// Writes the timeout of a request, to `grpc-timeout` in gRPC or else to this header.
    pub(super) fn write_timeout(&self, headers: &mut HeaderMap, header: Option<&TimeoutHeader>, timeout: Duration) {
        match self {
            Self::Http => {
                if let Some(header) = header {
                    header.write(headers, timeout);
                }
            }
            #[cfg(feature = "tonic")]
            Self::Grpc { .. } => {
                headers.insert(wire::GRPC_TIMEOUT, wire::grpc_timeout(timeout));
            }
        }
    }

    /// Returns a server's response in place of the handler's: a 504, or `DEADLINE_EXCEEDED`.
    #[cold]
    pub(super) fn response(&self, exceeded: DeadlineExceeded) -> Response<Bytes> {
        match self {
            Self::Http => plain_text(StatusCode::GATEWAY_TIMEOUT, &exceeded).map(Bytes::from),
            #[cfg(feature = "tonic")]
            Self::Grpc { content_type } => {
                let status = grpc::status(Code::DeadlineExceeded, &exceeded, None);
                grpc::trailers_only(status, content_type.clone())
            }
        }
    }

    /// Returns a client's error in place of the response.
    ///
    /// In gRPC it is a status, because a generated client would turn any other error into `UNKNOWN`.
    #[cold]
    pub(super) fn error(&self, exceeded: DeadlineExceeded) -> BoxError {
        match self {
            Self::Http => Box::new(exceeded),
            #[cfg(feature = "tonic")]
            Self::Grpc { .. } => Box::new(status(exceeded)),
        }
    }

    /// Returns the trailers that end a server's response, if its protocol has a status in them.
    ///
    /// gRPC-Web has none: its trailers are a part of the data, to which this body cannot add.
    #[cfg(feature = "tonic")]
    #[cold]
    pub(super) fn trailers(&self, exceeded: DeadlineExceeded) -> Option<HeaderMap> {
        let Self::Grpc { content_type } = self else { return None };
        let content_type = content_type.as_ref().map_or(&[][..], HeaderValue::as_bytes);
        if content_type.get(..GRPC_WEB.len()).is_some_and(|start| start.eq_ignore_ascii_case(GRPC_WEB)) {
            return None;
        }
        let mut trailers = HeaderMap::new();
        // If the message is not a valid header value, the body is cut off with an error instead.
        status(exceeded).add_header(&mut trailers).ok()?;
        Some(trailers)
    }
}

/// Returns `DEADLINE_EXCEEDED`, whose source is the error.
#[cfg(feature = "tonic")]
fn status(exceeded: DeadlineExceeded) -> Status {
    let mut status = Status::deadline_exceeded(exceeded.to_string());
    status.set_source(Arc::new(exceeded));
    status
}
