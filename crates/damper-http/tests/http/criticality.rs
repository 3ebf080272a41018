//! Classes and tenants of requests: whom a server believes, and what a client passes on.

use crate::cases::cases;
use crate::tokio_clock::TokioClock;
use bytes::Bytes;
use damper::concurrency::{Admission, Criticality};
use damper::http::{
    CallClass, ClassHeaders, ClientCriticalityLayer, ConcurrencyLayer, CriticalityLayer, DeadlineLayer, Head,
    PeerAddress, TimeoutUnit, client_stack, server_stack,
};
use damper::wire::{PRIORITY, TrustedProxies, urgency_in};
use damper::{Deadline, Retry};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{Empty, Full};
use proptest::prelude::*;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt, service_fn};

const CLASS: HeaderName = HeaderName::from_static("x-criticality");
const TENANT: HeaderName = HeaderName::from_static("x-tenant");
const TIMEOUT: HeaderName = HeaderName::from_static("x-timeout-ms");

fn headers() -> ClassHeaders {
    ClassHeaders::new(CLASS).tenant(TENANT)
}

/// Trusts the network 10.0.0.0/8.
fn server() -> CriticalityLayer {
    CriticalityLayer::new(headers()).trusting(TrustedProxies::new(["10.0.0.0/8"]).unwrap())
}

const INSIDE: [u8; 4] = [10, 0, 0, 7];
const OUTSIDE: [u8; 4] = [203, 0, 113, 9];

fn request(peer: Option<[u8; 4]>, lines: &[(HeaderName, &[u8])]) -> Request<()> {
    let mut request = Request::new(());
    for (name, value) in lines {
        request.headers_mut().append(name, HeaderValue::from_bytes(value).unwrap());
    }
    if let Some(peer) = peer {
        request.extensions_mut().insert(PeerAddress(SocketAddr::from((peer, 5_000))));
    }
    request
}

/// Sends a request through a layer, and returns what its service gets.
fn behind<L: Layer<Record, Service: Service<Request<()>>>>(layer: &L, request: Request<()>) -> Request<()> {
    let record = Record::default();
    drop(layer.layer(record.clone()).call(request));
    record.0.lock().unwrap().take().expect("the service is called")
}

/// A service that keeps its request.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Option<Request<()>>>>);

impl Service<Request<()>> for Record {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        *self.0.lock().unwrap() = Some(request);
        ready(Ok(Response::new(())))
    }
}

fn class_behind(layer: &CriticalityLayer, request: Request<()>) -> (Criticality, Option<String>, HeaderMap) {
    let seen = behind(layer, request);
    let class = seen.extensions().get::<CallClass>().expect("every request has a class");
    (class.criticality(), class.tenant_name().map(str::to_owned), seen.headers().clone())
}

// CLAIM: http::CriticalityLayer
#[test]
fn callers_from_outside_choose_no_class_and_no_tenant() {
    let layer = server().urgency();
    for peer in [Some(OUTSIDE), None] {
        for claim in [&b"critical-plus"[..], b"sheddable", b"\xff", b""] {
            let lines: [(_, &[u8]); 4] = [(CLASS, claim), (TENANT, b"victim"), (TENANT, b"victim"), (PRIORITY, b"u=0")];
            let (class, tenant, headers) = class_behind(&layer, request(peer, &lines));
            assert_eq!((class, tenant), (Criticality::Critical, None));
            assert!(!headers.contains_key(CLASS) && !headers.contains_key(TENANT), "nothing is forwarded");
            assert!(headers.contains_key(PRIORITY), "it is the client's own");
        }
    }
}

/// The lines of the class and of the tenant, and what counts.
type Row<'a> = (&'a [&'a [u8]], &'a [&'a [u8]], Criticality, Option<&'a str>);

#[test]
fn trusted_caller_is_believed_where_its_headers_are_valid() {
    let huge = [b'a'; 257];
    let none: &[u8] = b"";
    let rows: [Row<'_>; 14] = [
        (&[b"critical-plus"], &[b"acme"], Criticality::CriticalPlus, Some("acme")),
        (&[b"CRITICAL_PLUS"], &[b"Acme & Sons"], Criticality::CriticalPlus, Some("Acme & Sons")),
        (&[b"sheddable_plus"], &[], Criticality::SheddablePlus, None),
        (&[b"Sheddable"], &[&huge[..256]], Criticality::Sheddable, std::str::from_utf8(&huge[..256]).ok()),
        (&[b"critical"], &[&huge], Criticality::Critical, None),
        // A class that is not valid counts as the default one, which is `SheddablePlus` here.
        (&[], &[b"acme"], Criticality::SheddablePlus, Some("acme")),
        (&[none], &[none], Criticality::SheddablePlus, None),
        (&[b"critical-plus", b"critical-plus"], &[b"acme", b"acme"], Criticality::SheddablePlus, None),
        (&[b"sheddable", b"critical-plus"], &[b"acme", b"other"], Criticality::SheddablePlus, None),
        (&[b"critical-plus, sheddable"], &[b"a\tb"], Criticality::SheddablePlus, None),
        (&[b"critical-plu"], &["ä".as_bytes()], Criticality::SheddablePlus, None),
        (&[b"critical-pluss"], &[b" acme"], Criticality::SheddablePlus, None),
        (&[b"0"], &[b"acme "], Criticality::SheddablePlus, None),
        (&[b"critical\xadplus"], &[b"\xff"], Criticality::SheddablePlus, None),
    ];
    let layer = server().default_class(Criticality::SheddablePlus);
    for (classes, tenants, expected, tenant) in rows {
        let lines: Vec<_> = classes.iter().map(|line| (CLASS, *line)).collect();
        let lines: Vec<_> = lines.into_iter().chain(tenants.iter().map(|line| (TENANT, *line))).collect();
        let (class, name, headers) = class_behind(&layer, request(Some(INSIDE), &lines));
        assert_eq!((class, name.as_deref()), (expected, tenant), "{lines:?}");
        assert_eq!(headers.get(TENANT).map(HeaderValue::as_bytes), tenant.map(str::as_bytes), "{lines:?}");
        let is_valid = classes.len() == 1 && expected != Criticality::SheddablePlus || classes == [b"sheddable_plus"];
        assert_eq!(headers.contains_key(CLASS), is_valid, "{lines:?}");
    }
}

/// The mark of a TLS acceptor.
#[derive(Clone)]
struct Mesh;

#[test]
fn callers_are_trusted_by_network_by_predicate_or_by_the_connection() {
    let claim = |peer| request(peer, &[(CLASS, b"sheddable")]);
    let is_believed = |layer: &CriticalityLayer, peer| class_behind(layer, claim(peer)).0 == Criticality::Sheddable;
    let nobody = CriticalityLayer::new(headers());
    assert!(!is_believed(&nobody, Some(INSIDE)) && !is_believed(&nobody, None), "nobody by default");
    let layer = server();
    assert!(is_believed(&layer, Some(INSIDE)) && !is_believed(&layer, Some(OUTSIDE)) && !is_believed(&layer, None));
    // The connection's peer counts, whatever the request says.
    assert!(is_believed(&layer.for_peer((INSIDE, 1).into()), Some(OUTSIDE)));
    assert!(!is_believed(&layer.for_peer((OUTSIDE, 1).into()), Some(INSIDE)));
    let mapped: SocketAddr = "[::ffff:10.0.0.7]:1".parse().unwrap();
    assert!(is_believed(&layer.for_peer(mapped), None), "IPv4 in IPv6");
    let mut forwarded = claim(Some(OUTSIDE));
    forwarded.headers_mut().insert("x-forwarded-for", HeaderValue::from_static("10.0.0.7"));
    assert_eq!(class_behind(&layer, forwarded).0, Criticality::Critical, "no header makes a caller trusted");
    // By what a TLS acceptor found, beside the networks.
    let layer = layer.trusting_if(|head: &Head<'_>| head.extensions.get::<Mesh>().is_some());
    let mut of_mesh = claim(Some(OUTSIDE));
    of_mesh.extensions_mut().insert(Mesh);
    assert_eq!(class_behind(&layer, of_mesh).0, Criticality::Sheddable);
    assert!(is_believed(&layer, Some(INSIDE)) && !is_believed(&layer, Some(OUTSIDE)));
}

#[test]
fn urgency_is_read_as_the_rfc_says() {
    let read = |lines: &[&'static str]| {
        urgency_in(&lines.iter().map(|line| (PRIORITY, HeaderValue::from_static(line))).collect())
    };
    for (lines, expected) in [
        (&["u=0"][..], Some(0)),
        (&["u=7, i"], Some(7)),
        (&["i, u=4;x=1"], Some(4)),
        (&["u=1", "u=5"], Some(5)), // one dictionary, of which the last member counts
        (&["u=1, u=9"], None),
        (&["u=5, u=(1 2)"], None),
        (&["u=8"], None),
        (&["u=-1"], None),
        (&["u=3.0"], None),
        (&["u=\"3\""], None),
        (&["u"], None),
        (&["U=3"], None),
        (&["u=3,"], None),
        (&["u=3 u=4"], None),
        (&["i"], None),
        (&[""], None),
        (&[], None),
    ] {
        assert_eq!(read(lines), expected, "{lines:?}");
    }
    assert_eq!(urgency_in(&HeaderMap::from_iter([(PRIORITY, HeaderValue::from_bytes(b"u=\xff").unwrap())])), None);
}

/// How a server decides, written as its table says.
fn expected_class(trusted: bool, lines: &[(HeaderName, Vec<u8>)], default: Criticality, urgency: bool) -> CallClass {
    let values = |name: &HeaderName| -> Vec<String> {
        let of_name = lines.iter().filter(|(other, _)| other == name);
        of_name.map(|(_, value)| value.iter().map(|byte| char::from(*byte)).collect()).collect()
    };
    let claimed = match &values(&CLASS)[..] {
        [one] => match one.to_lowercase().replace('_', "-").as_str() {
            "critical-plus" => Some(Criticality::CriticalPlus),
            "critical" => Some(Criticality::Critical),
            "sheddable-plus" => Some(Criticality::SheddablePlus),
            "sheddable" => Some(Criticality::Sheddable),
            _ => None,
        },
        _ => None,
    };
    // The test writes dictionaries of single digits only, and what is none.
    let urgency = if urgency { values(&PRIORITY).join(",") } else { String::new() };
    let is_whole = urgency.split(',').all(|member| matches!(member.as_bytes(), [b'u', b'=', b'0'..=b'9'] | [b'i']));
    let last = urgency.split(',').rfind(|member| member.starts_with("u="));
    let urgency = match last.filter(|_| is_whole) {
        Some("u=0" | "u=1") => Some(Criticality::CriticalPlus),
        Some("u=2" | "u=3") => Some(Criticality::Critical),
        Some("u=4" | "u=5") => Some(Criticality::SheddablePlus),
        Some("u=6" | "u=7") => Some(Criticality::Sheddable),
        _ => None,
    };
    if !trusted {
        let lower = urgency.filter(|class| class.class() > default.class());
        return CallClass::new(lower.unwrap_or(default));
    }
    let class = CallClass::new(claimed.or(urgency).unwrap_or(default));
    match &values(&TENANT)[..] {
        [one] => class.clone().tenant(one).unwrap_or(class),
        _ => class,
    }
}

/// Lines of headers: valid, misspelled, and of any bytes that a header can have.
fn some_lines() -> impl Strategy<Value = Vec<(HeaderName, Vec<u8>)>> {
    let any_value = prop::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| {
        bytes.into_iter().map(|byte| if byte < 0x20 || byte == 0x7f { b'-' } else { byte }).collect::<Vec<u8>>()
    });
    let class = prop_oneof![
        8 => "(?i)(critical|sheddable)([-_]plus)?".prop_map(String::into_bytes),
        1 => "[a-z-]{0,14}".prop_map(String::into_bytes),
        1 => any_value.clone(),
    ];
    let tenant = prop_oneof![4 => "[a-z ]{1,3}".prop_map(String::into_bytes), 1 => any_value];
    let urgency = prop_oneof![6 => "(u=[0-9]|i)(,(u=[0-9]|i)){0,2}", 1 => "u=x y|,|u=", ].prop_map(String::into_bytes);
    let line = prop_oneof![
        class.prop_map(|value| (CLASS, value)),
        tenant.prop_map(|value| (TENANT, value)),
        urgency.prop_map(|value| (PRIORITY, value)),
    ];
    prop::collection::vec(line, 0..5)
}

fn some_class() -> impl Strategy<Value = Criticality> {
    prop::sample::select(Criticality::ALL.to_vec())
}

proptest! {
    #![proptest_config(cases(512))]

    // CLAIM: http::CriticalityLayer
    #[test]
    fn server_decides_as_its_table_says(
        lines in some_lines(),
        trusted: bool,
        default in some_class(),
        urgency: bool,
    ) {
        let mut layer = server().default_class(default);
        if urgency {
            layer = layer.urgency();
        }
        let borrowed: Vec<_> = lines.iter().map(|(name, value)| (name.clone(), &value[..])).collect();
        let seen = behind(&layer, request(Some(if trusted { INSIDE } else { OUTSIDE }), &borrowed));
        let class = seen.extensions().get::<CallClass>().unwrap();
        prop_assert_eq!(class, &expected_class(trusted, &lines, default, urgency));
        if !trusted {
            prop_assert!(class.criticality() >= default, "no caller from outside raises a class");
        }
        // The headers that are left say nothing else, to any reader.
        let left = &seen.headers();
        prop_assert!(left.get_all(CLASS).iter().count() <= 1 && left.get_all(TENANT).iter().count() <= 1);
        prop_assert_eq!(left.get(TENANT).map(HeaderValue::as_bytes), class.tenant_name().map(str::as_bytes));
    }

    #[test]
    fn class_that_a_client_sends_is_the_class_that_a_server_reads(
        criticality in some_class(),
        tenant in prop::option::of("[!-~]([ -~]{0,20}[!-~])?"),
        stale in some_lines(),
    ) {
        let mut class = CallClass::new(criticality);
        if let Some(tenant) = &tenant {
            class = class.tenant(tenant).unwrap();
        }
        let stale: Vec<_> = stale.iter().map(|(name, value)| (name.clone(), &value[..])).collect();
        let mut request = request(Some(INSIDE), &stale);
        request.extensions_mut().insert(class.clone());
        let mut sent = behind(&ClientCriticalityLayer::new(headers()), request);
        sent.extensions_mut().remove::<CallClass>();
        let seen = behind(&server(), sent);
        prop_assert_eq!(seen.extensions().get::<CallClass>(), Some(&class));
    }
}

#[test]
fn client_passes_on_the_class_of_the_request_and_its_own_otherwise() {
    let layer = ClientCriticalityLayer::new(headers());
    let sent = behind(&layer, request(None, &[(CLASS, b"sheddable")]));
    assert_eq!(sent.headers()[CLASS], "sheddable", "a header of the caller's own is left alone");
    let batch = CallClass::new(Criticality::Sheddable).tenant("batch").unwrap();
    let layer = layer.default_class(batch);
    let sent = behind(&layer, request(None, &[]));
    assert_eq!(
        (&sent.headers()[CLASS], &sent.headers()[TENANT]),
        (&"sheddable".parse().unwrap(), &"batch".parse().unwrap())
    );
    let mut of_user = request(None, &[(TENANT, b"stale")]);
    of_user.extensions_mut().insert(CallClass::new(Criticality::CriticalPlus));
    let sent = behind(&layer, of_user);
    assert_eq!((&sent.headers()[CLASS], sent.headers().get(TENANT)), (&"critical-plus".parse().unwrap(), None));
}

#[test]
fn tenant_that_no_header_can_carry_is_an_error() {
    for name in ["", " ", "a\nb", "ä", "a\u{7f}", &"a".repeat(257)] {
        let error = CallClass::default().tenant(name).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the tenant is {name:?}, it must be 1 to 256 visible characters of ASCII, with spaces only between them"
            )
        );
    }
    let class = CallClass::new(Criticality::Critical).tenant("acme").unwrap();
    assert_eq!(class.clone().at_most(Criticality::Sheddable).criticality(), Criticality::Sheddable);
    assert_eq!(class.clone().at_most(Criticality::CriticalPlus), class, "never raised");
}

/// The class, the time given and the headers of a request.
type Seen = (CallClass, Duration, HeaderMap);

/// A request that one server makes of another while it serves one of its own, over HTTP and as gRPC.
// CLAIM: http::CriticalityLayer
#[tokio::test]
async fn class_tenant_and_deadline_go_from_hop_to_hop() {
    for grpc in [false, true] {
        let stack = server_stack()
            .criticality(server())
            .deadline_layer(DeadlineLayer::propagating().header(TIMEOUT, TimeoutUnit::Milliseconds));
        let seen: Arc<Mutex<Option<Seen>>> = Arc::default();
        let last = stack.for_peer((INSIDE, 1).into()).service(service_fn({
            let seen = Arc::clone(&seen);
            move |request: Request<Empty<Bytes>>| {
                let deadline = request.extensions().get::<Deadline>().expect("it was sent");
                let class = CallClass::of(&Head::of(&request));
                *seen.lock().unwrap() = Some((class, deadline.specified(), request.headers().clone()));
                ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())))
            }
        }));
        let deadlines = damper::http::ClientDeadlineLayer::propagating().header(TIMEOUT, TimeoutUnit::Milliseconds);
        let client = client_stack().deadline_layer(deadlines).criticality(headers()).retry(Retry::new(2)).service(last);
        let first =
            stack.for_peer((INSIDE, 2).into()).service(service_fn(move |request: Request<Empty<Bytes>>| {
                let head = Head::of(&request);
                let mut next = Request::post("http://last/").body(Empty::<Bytes>::new()).unwrap();
                next.extensions_mut().insert(CallClass::of(&head));
                next.extensions_mut().insert(*head.extensions.get::<Deadline>().unwrap());
                if grpc {
                    next.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
                }
                let client = client.clone();
                // By value, so a task of its own has it too.
                async move {
                    tokio::spawn(client.oneshot(next)).await.unwrap().map(|_| Response::new(Full::<Bytes>::default()))
                }
            }));
        let mut request = Request::post("http://first/").body(Empty::new()).unwrap();
        for (name, value) in [(CLASS, "critical-plus"), (TENANT, "acme"), (TIMEOUT, "60000")] {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        let response = first.oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let (class, given, headers) = seen.lock().unwrap().take().expect("the last server is called");
        assert_eq!(class, CallClass::new(Criticality::CriticalPlus).tenant("acme").unwrap());
        assert!(given <= Duration::from_secs(60) && given > Duration::ZERO);
        assert_eq!(headers.contains_key("grpc-timeout"), grpc);
    }
}

/// How many requests came and were served.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Served {
    came: u32,
    served: u32,
}

impl Served {
    fn share(self) -> f64 {
        f64::from(self.served) / f64::from(self.came)
    }
}

/// Sends three times the capacity of a server, on a paused clock.
///
/// A fifth of the requests are important ones of a trusted caller, and seven tenths its ordinary ones. A tenth comes from outside and claims
/// the highest class and a new tenant each time.
async fn overload(classes: CriticalityLayer) -> [Served; 3] {
    const WORK: Duration = Duration::from_millis(10);
    const SLOTS: u32 = 4;
    let gate = Arc::new(Admission::fixed_with_clock(SLOTS, TokioClock(Instant::now())));
    let handler = service_fn(|_: Request<Empty<Bytes>>| async {
        tokio::time::sleep(WORK).await;
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let stack =
        server_stack().admission_layer(ConcurrencyLayer::admission(gate).longest_wait(5 * WORK)).criticality(classes);
    let groups: Arc<Mutex<[Served; 3]>> = Arc::default();
    let mut clients = Vec::new();
    for turn in 0_u32..3_000 {
        let group = match turn % 10 {
            0 | 5 => 0,
            9 => 2,
            _ => 1,
        };
        let peer = if group == 2 { OUTSIDE } else { INSIDE };
        let service = stack.for_peer((peer, 1).into()).service(handler);
        let mut request = Request::get("http://test.example/").body(Empty::new()).unwrap();
        if group != 1 {
            request.headers_mut().insert(CLASS, HeaderValue::from_static("critical-plus"));
        }
        if group == 2 {
            request.headers_mut().insert(TENANT, HeaderValue::from(turn));
        }
        let groups = Arc::clone(&groups);
        clients.push(tokio::spawn(async move {
            let response = service.oneshot(request).await.unwrap();
            let mut groups = groups.lock().unwrap();
            groups[group].came += 1;
            groups[group].served += u32::from(response.status() == StatusCode::OK);
        }));
        tokio::time::sleep(WORK / (3 * SLOTS)).await;
    }
    for client in clients {
        client.await.unwrap();
    }
    *groups.lock().unwrap()
}

// CLAIM: http::CriticalityLayer
#[tokio::test(start_paused = true)]
async fn claims_from_outside_take_no_service_from_others() {
    let [important, ordinary, hostile] = overload(server()).await;
    assert!(important.served == important.came, "{important:?}");
    // The outside is one tenant of the ordinary class, without a name like the others.
    assert!(hostile.share() <= ordinary.share() * 1.5, "{hostile:?} {ordinary:?}");
    // The rest of the capacity goes to the ordinary requests, about a sixth of which can be served.
    assert!(ordinary.share() > 0.12, "{ordinary:?}");
    // A server that believes everyone gives the hostile tenth all that it asks for.
    let [_, robbed, believed] = overload(server().trusting_if(|_| true)).await;
    assert!(believed.share() > 0.9 && robbed.share() < ordinary.share(), "{believed:?} {robbed:?}");
}
