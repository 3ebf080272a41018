//! The server or the cluster to connect to.

use super::address;
use super::connect_error::ConnectError;
use super::connection::Connection;
use super::tls::Certificates;
use crate::limiter::RedisLimiterError;
use core::time::Duration;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr};

/// The most commands in the queue of a connection. Further ones wait for room until their deadline.
const BUFFERED_COMMANDS: usize = 1_024;

/// The server or the cluster to connect to. Its addresses are parsed, and nothing is connected yet.
pub(crate) struct Target {
    client: AnyClient,
    address: String,
    has_tls: bool,
}

enum AnyClient {
    Server(Box<Client>),
    Cluster(Box<ClusterClient>),
}

impl Target {
    /// Creates the target of a server with this URL.
    pub(crate) fn server(url: &str, certificates: Option<&Certificates>) -> Result<Self, RedisLimiterError> {
        let information = address::parse(url, certificates)?.set_tcp_settings(tcp_settings());
        certificates.map_or(Ok(()), Certificates::check)?;
        let (address, has_tls) = (address::of_server(information.addr()), has_tls(information.addr()));
        match certificates {
            Some(certificates) => certificates.client(information),
            None => Client::open(information),
        }
        .map(|client| Self { client: AnyClient::Server(Box::new(client)), address, has_tls })
        .map_err(|error| address::refused(url, &error))
    }

    /// Creates the target of a cluster of which some servers have these URLs.
    pub(crate) fn cluster(
        urls: &[String],
        certificates: Option<&Certificates>,
        connect_timeout: Duration,
    ) -> Result<Self, RedisLimiterError> {
        let Some(first) = urls.first() else { return Err(RedisLimiterError::NoAddress) };
        let nodes = urls.iter().map(|url| address::parse(url, certificates)).collect::<Result<Vec<_>, _>>()?;
        certificates.map_or(Ok(()), Certificates::check)?;
        let address = nodes.iter().map(|node| address::of_server(node.addr())).collect::<Vec<_>>().join(", ");
        let has_tls = nodes.iter().any(|node| has_tls(node.addr()));
        // The client must not retry: a take that is sent again after a timeout takes twice. `Connection` follows redirections.
        let builder = ClusterClientBuilder::new(nodes)
            .retries(0)
            // With a third of the timeout for each server, there is time left to connect without those that do not answer.
            .connection_timeout(connect_timeout / 3)
            // Calls have deadlines of their own, so this timeout applies only to the client's own commands.
            .response_timeout(connect_timeout / 3)
            .overall_response_timeout(None)
            .tcp_settings(tcp_settings());
        match certificates {
            Some(certificates) => certificates.of_cluster(builder),
            None => builder,
        }
        .build()
        .map(|client| Self { client: AnyClient::Cluster(Box::new(client)), address, has_tls })
        .map_err(|error| address::refused(first, &error))
    }

    /// Connects once.
    pub(crate) async fn connect(&self, timeout: Duration) -> Result<Connection, ConnectError> {
        #[cfg(feature = "tls")]
        if self.has_tls {
            super::tls::provide_cryptography();
        }
        Ok(match &self.client {
            AnyClient::Server(client) => {
                // The response timeout would drop replies that a call still waits for.
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(timeout))
                    .set_response_timeout(None)
                    .set_pipeline_buffer_size(BUFFERED_COMMANDS);
                Connection::Server(client.get_multiplexed_async_connection_with_config(&config).await?)
            }
            AnyClient::Cluster(client) => Connection::Cluster(client.get_async_connection().await?),
        })
    }

    /// Returns the host and the port, or those of a cluster's servers, without a user or a password.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.client, AnyClient::Cluster(_))
    }

    /// Returns whether connections are encrypted.
    pub(super) fn has_tls(&self) -> bool {
        self.has_tls
    }
}

fn has_tls(address: &ConnectionAddr) -> bool {
    matches!(address, ConnectionAddr::TcpTls { .. })
}

/// Returns settings that send commands at once, and close the socket of a dead peer within seconds.
fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(5)).with_interval(Duration::from_secs(1));
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let settings = settings.set_user_timeout(Duration::from_secs(3));
    settings
}
