//! A redis-server that takes connections with TLS.

use crate::authority::Authority;
use crate::redis_cluster::{RedisCluster, cluster_options};
use crate::redis_server::{RedisServer, free_port};

/// A redis-server with TLS on one port, and without it on another, for the test's own questions.
#[derive(Debug)]
pub struct TlsServer {
    /// The server.
    pub server: RedisServer,
    port: u16,
}

impl TlsServer {
    /// Starts a server for `localhost` that asks for no certificate of clients.
    #[must_use]
    pub fn start(authority: &Authority) -> Self {
        Self::with(authority, &["localhost", "127.0.0.1"], &["--tls-auth-clients", "no"])
    }

    /// Starts a server whose certificate is for hosts of these names, with further options.
    #[must_use]
    pub fn with(authority: &Authority, names: &[&str], options: &[&str]) -> Self {
        let port = free_port();
        let own = authority.server_options(names, port);
        let options: Vec<&str> = own.iter().map(String::as_str).chain(options.iter().copied()).collect();
        Self { server: RedisServer::with(&options), port }
    }

    /// Starts three masters that speak TLS with each other too, and returns their URLs.
    #[must_use]
    pub fn cluster(authority: &Authority) -> (RedisCluster, Vec<String>) {
        let servers = [(); 3].map(|()| {
            let own = cluster_options();
            let mut options = vec!["--tls-auth-clients", "no", "--tls-cluster", "yes"];
            options.extend(own.iter().map(String::as_str));
            Self::with(authority, &["localhost", "127.0.0.1"], &options)
        });
        let ports = servers.each_ref().map(TlsServer::port);
        let urls = servers.iter().map(Self::url).collect();
        (RedisCluster::of(servers.map(|server| server.server).into(), &ports), urls)
    }

    /// Returns the port with TLS.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL with TLS.
    #[must_use]
    pub fn url(&self) -> String {
        format!("rediss://localhost:{}/", self.port)
    }
}
