//! Limits per client combined with limits per network.

use bytes::Bytes;
use damper::http::{
    Detail, Head, Headers, Limit, LimitAnswer, Limited, PeerAddress, PerClient, RateLimitLayer, Refusal,
};
use damper::{ClientAddress, KeyedLimiter, ManualClock, Quota};
use http::{Request, Response};
use http_body_util::Empty;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tower::ServiceExt;

type Clocked = Arc<ManualClock>;
type Limits = Arc<KeyedLimiter<ClientAddress, Clocked>>;

fn limits(clock: &Clocked, quota: Quota) -> Limits {
    Arc::new(KeyedLimiter::builder(quota).clock(Arc::clone(clock)).build().unwrap())
}

fn ask(limit: &impl Limit, from: IpAddr) -> LimitAnswer {
    let mut request = Request::new(());
    request.extensions_mut().insert(PeerAddress(SocketAddr::from((from, 443))));
    limit.decide(&Head::of(&request), 1, Detail::None).at_once().expect("the limit decides at once")
}

fn passes(limit: &impl Limit, from: IpAddr) -> bool {
    ask(limit, from).is_ok()
}

fn limited(answer: LimitAnswer) -> Limited {
    match answer {
        Err(Refusal::Limited(limited)) => limited,
        other => panic!("{other:?}"),
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The /64 network with this number within the /48 network with that one.
fn in_network(network: u16, subnet: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, network, subnet, 0, 0, 0, 1).into()
}

/// An attacker rotates through all 65,536 /64 networks that it owns, for 20 seconds.
///
/// It gets the limit of its /48, and clients elsewhere get everything they ask for.
#[test]
fn network_prefix_bounds_an_attacker_with_many_subnets() {
    let clock = Arc::new(ManualClock::new());
    let networks = limits(&clock, Quota::per_second(500).burst(1_000));
    let limit = PerClient::new(limits(&clock, Quota::per_second(50).burst(100))).prefix(48, networks);
    let others: Vec<_> = (1..=100).map(|network| in_network(network, 7)).chain([address("192.0.2.7")]).collect();
    let (step, steps) = (Duration::from_millis(10), 2_000_u64);
    let mut attacks = (0..=u16::MAX).cycle().map(|subnet| in_network(0, subnet));
    let mut passed = 0;
    for number in 0..steps {
        passed += attacks.by_ref().take(100).filter(|&from| passes(&limit, from)).count() as u64;
        let other = others[number as usize % others.len()];
        assert!(passes(&limit, other), "{other} asks once a second from another network");
        let envelope = 1_000 + 500 * 10 * number / 1_000;
        assert!(passed <= envelope, "{passed} passed, the /48 may have {envelope}");
        clock.advance(step);
    }
    assert!(passed >= 1_000 + 500 * 19, "{passed}: the /48 gets its whole limit");
}

/// IPv4 networks have separate limits from IPv6 networks.
///
/// The form of the address does not matter.
#[test]
fn ipv4_networks_have_limits() {
    let clock = Arc::new(ManualClock::new());
    let nothing = || limits(&clock, Quota::per_hour(0).burst(3));
    let limit = PerClient::new(limits(&clock, Quota::per_hour(10)));
    let limit =
        limit.prefix_v4(24, nothing()).prefix_v4(0, limits(&clock, Quota::per_hour(0).burst(5))).prefix(0, nothing());
    for (from, is_allowed) in [
        ("192.0.2.1", true),
        ("::ffff:192.0.2.2", true),
        ("64:ff9b::192.0.2.3", true),
        ("192.0.2.4", false),
        ("192.0.3.4", true),
        ("198.51.100.1", true),
        ("198.51.100.1", false),
        ("2001:db8::1", true),
        ("2001:db8:1::1", true),
        ("::1", true),
        ("fd00::1", false),
        ("64:ff9b:1::1", false),
    ] {
        assert_eq!(passes(&limit, address(from)), is_allowed, "{from}");
    }
}

/// A prefix longer than the address is the whole address.
#[test]
fn prefixes_are_capped_at_the_address_length() {
    let clock = Arc::new(ManualClock::new());
    let one = || limits(&clock, Quota::per_hour(1));
    let limit = PerClient::new(limits(&clock, Quota::per_hour(9))).prefix(u32::MAX, one()).prefix_v4(33, one());
    for from in ["2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.2"] {
        assert_eq!([(); 2].map(|()| passes(&limit, address(from))), [true, false], "{from}");
    }
}

/// A refusal returns the tokens of the narrower limits, so every limit counts only passed requests.
#[test]
fn refused_request_returns_tokens_to_all_limits() {
    let clock = Arc::new(ManualClock::new());
    let each = limits(&clock, Quota::per_hour(10));
    let [sites, networks] = [(5, 48), (3, 32)].map(|(burst, bits)| (limits(&clock, Quota::per_hour(burst)), bits));
    let limit = PerClient::new(Arc::clone(&each)).prefix(networks.1, Arc::clone(&networks.0));
    let limit = limit.prefix(sites.1, Arc::clone(&sites.0));
    let from = in_network(0, 0);
    let used = |limits: &Limits, bits| limits.peek(&ClientAddress::with_ipv6_prefix(from, bits)).used();
    for number in 1..=8 {
        assert_eq!(passes(&limit, from), number <= 3);
        let taken = number.min(3);
        assert_eq!([used(&each, 64), used(&sites.0, 48), used(&networks.0, 32)], [taken; 3]);
    }
}

/// Headers report the limit with the fewest tokens left.
///
/// If several limits refuse, headers report the one with the longest wait.
#[tokio::test]
async fn headers_report_the_tightest_limit() {
    let clock = Arc::new(ManualClock::new());
    let sites = limits(&clock, Quota::per_minute(3));
    let limit = PerClient::new(limits(&clock, Quota::per_second(2))).prefix(48, sites);
    let answered = async |from: IpAddr| -> [String; 3] {
        let layer =
            RateLimitLayer::new(limit.clone()).headers(Headers::OnAllResponses).for_peer(SocketAddr::from((from, 1)));
        let bare = |_: Request<()>| std::future::ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())));
        let response = layer.layer(tower::service_fn(bare)).oneshot(Request::new(())).await.unwrap();
        ["ratelimit-policy", "ratelimit", "retry-after"].map(|name| {
            response.headers().get(name).map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
        })
    };
    let own = r#""default";q=2;w=1"#;
    let site = r#""default";q=3;w=60"#;
    assert_eq!(answered(in_network(0, 0)).await, [own, r#""default";r=1;t=1"#, ""]);
    assert_eq!(answered(in_network(0, 0)).await, [own, r#""default";r=0;t=1"#, ""]);
    assert_eq!(answered(in_network(0, 0)).await, [own, r#""default";r=0;t=1"#, "1"], "the site has one left");
    assert_eq!(answered(in_network(0, 1)).await, [site, r#""default";r=0;t=60"#, ""]);
    assert_eq!(answered(in_network(0, 2)).await, [site, r#""default";r=0;t=20"#, "20"]);
    assert_eq!(answered(in_network(0, 0)).await, [site, r#""default";r=0;t=20"#, "20"], "both refuse");
    let limited = limited(ask(&limit, in_network(0, 0)));
    assert_eq!(limited.retry_after(), Some(Duration::from_secs(20)));
    clock.advance(Duration::from_secs(20));
    assert!(passes(&limit, in_network(0, 0)), "the request passes after the stated wait");
}

/// The layer creates the limiters itself.
#[test]
fn layer_creates_limits_of_wider_prefixes() {
    let layer = RateLimitLayer::per_client(Quota::per_hour(50)).prefix(48, Quota::per_hour(0).burst(2));
    let layer = layer.prefix_v4(24, Quota::per_hour(0).burst(1)).ipv6_prefix(56);
    let bare = |_: Request<()>| std::future::ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())));
    let statuses = ["2001:db8::1", "2001:db8:0:100::1", "2001:db8:0:200::1", "192.0.2.1", "192.0.2.2"].map(|from| {
        let service = layer.for_peer(SocketAddr::from((address(from), 1))).layer(tower::service_fn(bare));
        let polled = std::pin::pin!(service.oneshot(Request::new(())))
            .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        match polled {
            std::task::Poll::Ready(answer) => answer.unwrap().status().as_u16(),
            std::task::Poll::Pending => panic!("it waits"),
        }
    });
    assert_eq!(statuses, [200, 200, 429, 200, 429]);
}

/// Across threads no limit exceeds its burst, and each counts exactly the passed requests.
#[test]
fn threads_stay_within_the_burst_of_every_prefix() {
    let clock = Arc::new(ManualClock::new());
    let sites = limits(&clock, Quota::per_hour(0).burst(100));
    let each = limits(&clock, Quota::per_hour(0).burst(40));
    let limit = PerClient::new(Arc::clone(&each)).prefix(48, Arc::clone(&sites));
    let passed: [AtomicU64; 4] = Default::default();
    std::thread::scope(|scope| {
        for (subnet, passed) in (0..).zip(&passed) {
            let limit = &limit;
            scope.spawn(move || {
                for _ in 0..1_000 {
                    passed.fetch_add(u64::from(passes(limit, in_network(0, subnet))), Ordering::Relaxed);
                }
            });
        }
    });
    let passed = passed.map(AtomicU64::into_inner);
    for (subnet, &passed) in (0..).zip(&passed) {
        assert_eq!(u64::from(each.peek(&in_network(0, subnet).into()).used()), passed);
    }
    let site = ClientAddress::with_ipv6_prefix(in_network(0, 0), 48);
    assert_eq!(u64::from(sites.peek(&site).used()), passed.iter().sum::<u64>());
    assert!(passed.iter().sum::<u64>() <= 100);
}

proptest! {
    /// The model counts the passed requests in each network, while the clock stands still.
    #[test]
    fn decisions_match_the_model(
        bursts in prop::array::uniform3(0..6u32),
        asks in prop::collection::vec((0..2u16, 0..3u16), 1..60),
    ) {
        let clock = Arc::new(ManualClock::new());
        let [own, site, region] = bursts.map(|burst| limits(&clock, Quota::per_hour(0).burst(burst)));
        let limit = PerClient::new(own).prefix(32, region).prefix(48, site);
        let mut counts = BTreeMap::new();
        for (network, subnet) in asks {
            let from = in_network(network, subnet);
            let groups = [64, 48, 32].map(|bits| (bits, ClientAddress::with_ipv6_prefix(from, bits).address()));
            let has_room = |(group, burst)| counts.get(group).copied().unwrap_or(0) < burst;
            let is_allowed = groups.iter().zip(bursts).all(has_room);
            prop_assert_eq!(passes(&limit, from), is_allowed, "{}", from);
            if is_allowed {
                for group in groups {
                    *counts.entry(group).or_insert(0) += 1;
                }
            }
        }
    }
}
