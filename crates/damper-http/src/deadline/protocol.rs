//! How HTTP and gRPC carry a timeout, and how a server reports that it has passed.

use super::TimeoutHeader;
use crate::Head;
use crate::rate_limit::grpc::{self, grpc_type};
use crate::rate_limit::refusal_body::plain_text;
use crate::wire::{self, StatusDetails};
use bytes::Bytes;
use core::time::Duration;
use damper_core::deadline::DeadlineExceeded;
use http::{HeaderMap, HeaderValue, Response, StatusCode};

/// The prefix of gRPC-Web's content types.
const GRPC_WEB: &[u8] = b"application/grpc-web";

/// The code of gRPC's status `DEADLINE_EXCEEDED`.
const DEADLINE_EXCEEDED: u32 = 4;

/// The protocol of a request.
#[derive(Clone, Debug)]
pub enum Protocol {
    Http,
    /// Keeps the request's content type, because gRPC-Web expects its own.
    Grpc {
        content_type: HeaderValue,
    },
}

impl Protocol {
    #[inline]
    pub(super) fn of(head: &Head<'_>) -> Self {
        match grpc_type(head) {
            Some(content_type) => Self::Grpc { content_type: content_type.clone() },
            None => Self::Http,
        }
    }

    /// Reads the timeout of a request, from `grpc-timeout` in gRPC or else from this header.
    pub(super) fn read_timeout(&self, headers: &HeaderMap, header: Option<&TimeoutHeader>) -> Option<Duration> {
        match self {
            Self::Http => header?.read(headers),
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
            Self::Grpc { .. } => _ = headers.insert(wire::GRPC_TIMEOUT, wire::grpc_timeout(timeout)),
        }
    }

    /// Returns a server's response in place of the handler's: a 504, or `DEADLINE_EXCEEDED`.
    #[cold]
    pub(super) fn response(&self, exceeded: DeadlineExceeded) -> Response<Bytes> {
        match self {
            Self::Http => plain_text(StatusCode::GATEWAY_TIMEOUT, &exceeded).map(Bytes::from),
            Self::Grpc { content_type } => {
                grpc::trailers_only(content_type, DEADLINE_EXCEEDED, &exceeded, &StatusDetails::default())
            }
        }
    }

    /// Returns the trailers that end a server's response, if its protocol has a status in them.
    ///
    /// gRPC-Web has none: its trailers are a part of the data, to which this body cannot add.
    #[cold]
    pub(super) fn trailers(&self, exceeded: DeadlineExceeded) -> Option<HeaderMap> {
        let Self::Grpc { content_type } = self else { return None };
        let content_type = content_type.as_bytes();
        if content_type.get(..GRPC_WEB.len()).is_some_and(|start| start.eq_ignore_ascii_case(GRPC_WEB)) {
            return None;
        }
        let mut trailers = HeaderMap::new();
        grpc::write_status(&mut trailers, DEADLINE_EXCEEDED, &exceeded, &StatusDetails::default());
        Some(trailers)
    }
}
