//! The provider of cryptography that a program has chosen stays in force.
//!
//! One test, because a process has one.

use damper_core::Quota;
use damper_redis::RedisLimiter;
use damper_redis_tests::{Authority, TlsServer};
use rustls::crypto::{CryptoProvider, ring};
use std::time::Duration;

#[tokio::test]
async fn chosen_provider_stays_in_force() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority);
    let builder = || {
        RedisLimiter::connect(server.url())
            .quota(Quota::per_second(1))
            .connect_timeout(Duration::from_secs(10))
            .root_certificates(authority.root())
    };
    _ = builder().build_lazy().expect("it asks no server");
    assert!(CryptoProvider::get_default().is_none(), "a program may still choose");
    let mut chosen = ring::default_provider();
    chosen.cipher_suites.truncate(1);
    chosen.install_default().expect("it is the first");
    builder().build().await.expect("the server answers");
    assert_eq!(CryptoProvider::get_default().map(|provider| provider.cipher_suites.len()), Some(1));
}
