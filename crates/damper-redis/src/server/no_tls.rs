//! Stand-in for `tls.rs` without the feature `tls`.

use crate::limiter::RedisLimiterError;
use redis::cluster::ClusterClientBuilder;
use redis::{Client, ConnectionInfo, RedisResult};

/// The certificates of a crate without TLS. No value exists.
#[derive(Clone)]
pub(crate) enum Certificates {}

impl Certificates {
    pub(super) fn check(&self) -> Result<(), RedisLimiterError> {
        match *self {}
    }

    pub(super) fn client(&self, _: ConnectionInfo) -> RedisResult<Client> {
        match *self {}
    }

    pub(super) fn of_cluster(&self, _: ClusterClientBuilder) -> ClusterClientBuilder {
        match *self {}
    }
}
