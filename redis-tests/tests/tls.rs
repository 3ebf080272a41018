//! Limits over TLS.
//!
//! rustls is compiled so that it chooses no provider of cryptography by itself, as in a program that has two.

use damper_core::Quota;
use damper_redis::{Leasing, RedisLimiter, RedisLimiterBuilder, RedisLimiterError, WhenDown};
use damper_redis_tests::{Authority, Identity, RedisServer, TlsServer};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Nobody waits that long. A loaded machine is never so late.
const LONG: Duration = Duration::from_secs(30);

fn builder(url: impl Into<String>) -> RedisLimiterBuilder {
    RedisLimiter::connect(url)
        .name("tls")
        .quota(Quota::per_second(20_000))
        .when_down(WhenDown::Closed)
        .deadline(Duration::from_secs(2))
        .connect_timeout(Duration::from_secs(5))
}

/// Builds a limiter whose limit is full, and takes a token of it.
async fn use_limit(builder: RedisLimiterBuilder) -> RedisLimiter {
    builder.clone().mark_deployed().await.expect("the server answers");
    let limiter = builder.build().await.expect("the server answers");
    limiter.check().await.expect("it is full");
    limiter
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < LONG, "{what} within {LONG:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The error of a handshake, said at once although a minute is allowed.
async fn handshake_error(builder: RedisLimiterBuilder) -> String {
    let begun = Instant::now();
    let error = builder.connect_timeout(Duration::from_mins(1)).build().await.expect_err("it is not encrypted");
    assert!(matches!(error, RedisLimiterError::Handshake { .. }), "{error}");
    assert!(begun.elapsed() < LONG, "{error} after {:?}", begun.elapsed());
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn encrypted_limit_is_leased() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority);
    for url in [server.url(), server.url().replace("rediss", "valkeys").replace("localhost", "127.0.0.1")] {
        let limiter = use_limit(builder(url).root_certificates(authority.root())).await;
        until("a lease", async || {
            for _ in 0..50 {
                _ = limiter.check().await;
            }
            limiter.status().leased > 0
        })
        .await;
        let clients: String = server.server.ask(&["CLIENT", "LIST"]);
        assert!(clients.contains(&format!("laddr=127.0.0.1:{}", server.port())), "{clients}");
    }
}

#[tokio::test]
async fn version_1_2_is_spoken_too() {
    let authority = Authority::new();
    let options = ["--tls-auth-clients", "no", "--tls-protocols", "TLSv1.2"];
    let server = TlsServer::with(&authority, &["localhost"], &options);
    use_limit(builder(server.url()).root_certificates(authority.root())).await;
}

#[tokio::test]
async fn certificate_of_another_root_is_refused() {
    let server = TlsServer::start(&Authority::new());
    let url = server.url().replace("//", "//me:s3cret@");
    let another = Authority::new();
    for builder in [builder(&*url).root_certificates(another.root()), builder(&*url)] {
        let error = handshake_error(builder).await;
        assert_eq!(
            error,
            format!(
                "cannot connect to localhost:{}: no TLS: invalid peer certificate: UnknownIssuer; \
                 set the root of the server's certificate with root_certificates()",
                server.port()
            )
        );
    }
}

#[tokio::test]
async fn certificate_of_another_host_is_refused() {
    let authority = Authority::new();
    let server = TlsServer::with(&authority, &["redis.example"], &["--tls-auth-clients", "no"]);
    let error = handshake_error(builder(server.url()).root_certificates(authority.root())).await;
    assert!(error.contains("not valid for name \"localhost\"") && error.contains("redis.example"), "{error}");
}

#[tokio::test]
async fn server_that_asks_for_a_certificate_gets_one_or_the_reason_is_named() {
    let authority = Authority::new();
    for protocols in ["TLSv1.3", "TLSv1.2"] {
        let options = ["--tls-auth-clients", "yes", "--tls-protocols", protocols];
        let server = TlsServer::with(&authority, &["localhost"], &options);
        let builder = || builder(server.url()).root_certificates(authority.root());
        let Identity { certificate, key } = authority.issue(&["client.example"]);
        use_limit(builder().client_certificate(certificate, key)).await;
        let error = handshake_error(builder()).await;
        assert!(error.contains("client_certificate()"), "{protocols}: {error}");
        let Identity { certificate, key } = Authority::new().issue(&["client.example"]);
        let error = handshake_error(builder().client_certificate(certificate, key)).await;
        assert!(error.contains("client_certificate()"), "{protocols}: {error}");
    }
}

#[tokio::test]
async fn server_without_tls_is_named() {
    let server = RedisServer::start();
    let url = server.url().replace("redis:", "rediss:");
    for builder in [builder(&*url), RedisLimiter::cluster([&*url]).quota(Quota::per_second(1))] {
        let error = builder.connect_timeout(Duration::from_secs(1)).build().await.expect_err("it is not encrypted");
        // It waits for the end of a line.
        assert!(matches!(error, RedisLimiterError::Unreachable { .. }), "{error}");
        assert!(
            error.to_string().ends_with("no answer in time; a server that does not speak TLS gives none"),
            "{error}"
        );
    }

    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("rediss://{}/", listener.local_addr().expect("it listens"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            _ = stream.read(&mut [0; 16]);
            _ = stream.write_all(b"-ERR what?\r\n");
        }
    });
    assert!(handshake_error(builder(url)).await.ends_with("the server does not speak TLS"));
}

#[tokio::test]
async fn server_with_tls_alone_is_named() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority);
    let url = server.url().replace("rediss:", "redis:");
    for builder in [builder(&*url), RedisLimiter::cluster([&*url]).quota(Quota::per_second(1))] {
        let error = builder.connect_timeout(Duration::from_secs(1)).build().await.expect_err("it speaks TLS alone");
        assert!(matches!(error, RedisLimiterError::Unreachable { .. }), "{error}");
        let hint = "the server closed the connection; if it speaks only TLS, its address begins with rediss://";
        assert!(error.to_string().ends_with(hint), "{error}");
    }
}

#[tokio::test]
async fn handshake_ends_with_the_connect_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("rediss://{}/", listener.local_addr().expect("it listens"));
    let begun = Instant::now();
    for limiter in [builder(&*url), RedisLimiter::cluster([&*url]).quota(Quota::per_second(1))] {
        let error = limiter.connect_timeout(Duration::from_millis(300)).build().await.expect_err("it is silent");
        assert!(matches!(error, RedisLimiterError::Unreachable { .. }), "{error}");
    }
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn restarted_server_is_used_again() {
    let authority = Authority::new();
    let mut server = TlsServer::start(&authority);
    let limiter = use_limit(builder(server.url()).leasing(Leasing::Never).root_certificates(authority.root())).await;
    server.server.kill();
    until("the policy", async || {
        _ = limiter.check().await;
        limiter.status().policy == Some(WhenDown::Closed)
    })
    .await;
    server.server.restart();
    until("a decision of the server", async || limiter.check().await.is_ok()).await;
    assert!(limiter.counts().connections >= 2);
}

#[tokio::test]
async fn cluster_is_encrypted() {
    let authority = Authority::new();
    let (cluster, urls) = TlsServer::cluster(&authority);
    let builder = || {
        RedisLimiter::cluster(urls.clone())
            .name("tenants")
            .quota(Quota::per_hour(1))
            .leasing(Leasing::Never)
            .when_down(WhenDown::Closed)
            .deadline(Duration::from_secs(2))
            .connect_timeout(Duration::from_secs(10))
    };
    let trusting = builder().root_certificates(authority.root());
    trusting.clone().mark_deployed().await.expect("the cluster answers");
    let tenants = trusting.build_keyed().await.expect("the cluster answers");
    for number in 0..60 {
        let key = format!("tenant-{number}");
        assert!(tenants.check(&key).await.is_ok() && tenants.check(&key).await.is_err(), "{key}");
    }
    for master in cluster.masters() {
        assert!(master.calls().scripts() > 0, "each has a third of the keys");
        let clients: String = master.ask(&["CLIENT", "LIST", "TYPE", "normal"]);
        let plain = format!("laddr={}", master.address());
        assert_eq!(clients.matches(&plain).count(), 1, "the test's own connection: {clients}");
    }
    let error = handshake_error(builder().root_certificates(Authority::new().root())).await;
    assert!(error.contains("UnknownIssuer; set the root"), "{error}");
}

#[test]
fn certificates_that_cannot_be_used_are_named_without_their_text() {
    let authority = Authority::new();
    let own = authority.issue(&["client.example"]);
    let other = authority.issue(&["client.example"]);
    let url = "rediss://localhost/";
    let error = |builder: RedisLimiterBuilder| match builder.build_lazy() {
        Ok(_) => "built".to_owned(),
        Err(error) => {
            assert!(matches!(error, RedisLimiterError::Certificate { .. }), "{error}");
            error.to_string()
        }
    };
    let roots = |pem: &str| error(builder(url).root_certificates(pem));
    assert_eq!(roots(authority.root()), "built");
    assert_eq!(roots(&format!("{}{}", authority.root(), Authority::new().root())), "built");
    assert_eq!(roots(""), "root_certificates: the PEM has no certificate");
    assert_eq!(roots(&own.key), "root_certificates: the PEM has no certificate");
    let end = authority.root().find("-----END").expect("a PEM");
    assert_eq!(roots(&authority.root()[..end]), "root_certificates: a section of the PEM has no line that ends it");
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(roots(nonsense).starts_with("root_certificates: invalid peer certificate"), "{}", roots(nonsense));

    let identity = |certificate: &str, key: &str| error(builder(url).client_certificate(certificate, key));
    assert_eq!(identity(&own.certificate, &own.key), "built");
    assert_eq!(identity(&own.key, &own.key), "client_certificate: the PEM has no certificate");
    assert_eq!(identity(&own.certificate, &other.key), "client_certificate: the key is that of another certificate");
    let no_key = "client_certificate: the PEM of the key has no private key without a passphrase";
    assert_eq!(identity(&own.certificate, &own.certificate), no_key);
    // As of a variable of the environment that has lost its line breaks.
    let in_one_line = own.key.replace('\n', " ");
    let flaw = "client_certificate: a section of the PEM has no line that ends it";
    assert_eq!(identity(&own.certificate, &in_one_line), flaw);
}

#[test]
fn certificates_without_encryption_are_refused() {
    let authority = Authority::new();
    for url in ["redis://me:s3cret@localhost/", "unix:/run/redis.sock"] {
        for builder in [builder(url), RedisLimiter::cluster(["rediss://localhost/", url]).quota(Quota::per_second(1))] {
            let error = builder.root_certificates(authority.root()).build_lazy().expect_err("it is not encrypted");
            assert!(matches!(error, RedisLimiterError::WithoutTls { .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }
    let error = builder("rediss://localhost/#insecure").build_lazy().expect_err("any certificate would do");
    assert!(matches!(error, RedisLimiterError::Insecure { .. }), "{error}");
}
