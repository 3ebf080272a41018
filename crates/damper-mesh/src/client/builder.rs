//! The settings of a client.

use super::Settings;
use super::scope_pacer::ScopePacer;
use super::{Client, MeshBackoff};
use crate::telemetry::ClientTelemetry;
use damper_core::retry::{Budget, Retry, RetryBudget};
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use damper_core::time::{Clock, DefaultClock, Seed};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Sets up a [`Client`].
#[must_use]
pub struct ClientBuilder<S, Z, B = RetryBudget, C = DefaultClock> {
    http: S,
    uri: Uri,
    retry: Retry<C, B>,
    backoff: MeshBackoff,
    pace_below: u32,
    max_pacing_wait: Option<Duration>,
    timeout: Option<Duration>,
    max_response: usize,
    headers: HeaderMap,
    name: String,
    sleep: Z,
}

const ATTEMPTS: u32 = 5;

const PACE_BELOW: u32 = 10;

const MAX_RESPONSE: usize = 4 << 20;

const UNNAMED: &str = "default";

#[cfg(feature = "tokio")]
impl<S> ClientBuilder<S, TokioSleep> {
    pub(super) fn new(http: S, uri: Uri) -> Self {
        Self::sleeping_by(http, uri, TokioSleep)
    }
}

impl<S, Z> ClientBuilder<S, Z> {
    /// Starts from a client that sleeps by `sleep`, a [`Sleep`](damper_core::time::Sleep).
    pub fn sleeping_by(http: S, uri: Uri, sleep: Z) -> Self {
        Self {
            http,
            uri,
            retry: Retry::new(ATTEMPTS).budget(RetryBudget::DEFAULT),
            backoff: MeshBackoff::default(),
            pace_below: PACE_BELOW,
            max_pacing_wait: None,
            timeout: None,
            max_response: MAX_RESPONSE,
            headers: HeaderMap::new(),
            name: UNNAMED.to_owned(),
            sleep,
        }
    }
}

impl<S, Z, B, C> ClientBuilder<S, Z, B, C> {
    /// Sets the number of attempts, their budget and their clock.
    ///
    /// Its backoff spaces the retries that no refusal spaces. Default: 5 attempts, within a [`RetryBudget`] of the
    /// client's own.
    ///
    /// The waits after refusals are those of the [`backoff`](Self::backoff), so its longest wait replaces the policy's
    /// [`max_hint`](Retry::max_hint). A deadline of the policy is a deadline of every call.
    pub fn retry<N: Budget, D: Clock + Clone>(self, retry: Retry<D, N>) -> ClientBuilder<S, Z, N, D> {
        let Self {
            http, uri, backoff, pace_below, max_pacing_wait, timeout, max_response, headers, name, sleep, ..
        } = self;
        ClientBuilder {
            http,
            uri,
            retry,
            backoff,
            pace_below,
            max_pacing_wait,
            timeout,
            max_response,
            headers,
            name,
            sleep,
        }
    }

    /// Sets the waits after refusals.
    pub fn backoff(self, backoff: MeshBackoff) -> Self {
        Self { backoff, ..self }
    }

    /// Sets the percentage of a limit below which calls are slowed down. Default: 10.
    ///
    /// With 0, calls wait only once nothing is left.
    pub fn pace_below(self, percent: u32) -> Self {
        Self { pace_below: percent, ..self }
    }

    /// Sets the longest wait of a call that is slowed down or paused.
    ///
    /// A call that would wait longer fails at once with [`ClientError::Paced`](crate::ClientError::Paced). Default: until
    /// the call's deadline, or without one, the longest wait of the [`backoff`](Self::backoff).
    pub fn max_pacing_wait(self, wait: Duration) -> Self {
        Self { max_pacing_wait: Some(wait), ..self }
    }

    /// Sets the time that each call may take.
    ///
    /// Default: none, so calls only pass on the deadlines that they are given.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Sets the maximum size of a response in bytes. Default: 4 MiB.
    pub fn max_response(self, bytes: usize) -> Self {
        Self { max_response: bytes, ..self }
    }

    /// Adds a header to each HTTP request, such as the name of the calling service.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sets the name in logs and metrics. Default: `default`.
    ///
    /// The name of the service that is called is a good one. See [the crate](crate#metrics-and-logs).
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }
}

impl<S, Z, B: Budget, C: Clock + Clone> ClientBuilder<S, Z, B, C> {
    /// Builds the client.
    pub fn build(self) -> Client<S, Z, B, C> {
        let Self {
            http,
            uri,
            retry,
            backoff,
            pace_below,
            max_pacing_wait,
            timeout,
            max_response,
            headers,
            name,
            sleep,
        } = self;
        let seed = Seed::random();
        let pacer = ScopePacer::new(pace_below, backoff, seed, retry.clock().clone());
        // A wait above the backoff's longest one is shortened to it, and does not end the call.
        let retry = retry.max_hint(backoff.longest());
        let telemetry = ClientTelemetry::new(&name);
        let settings =
            Settings { uri, retry, backoff, max_pacing_wait, timeout, max_response, headers, pacer, seed, telemetry };
        Client::new_of(http, sleep, Arc::new(settings))
    }
}

impl<S: fmt::Debug, Z, B, C> fmt::Debug for ClientBuilder<S, Z, B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("http", &self.http)
            .field("uri", &self.uri)
            .field("name", &self.name)
            .field("backoff", &self.backoff)
            .field("pace_below", &self.pace_below)
            .field("max_pacing_wait", &self.max_pacing_wait)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
