//! Classes, tenants and marks by settings.

use bytes::Bytes;
use damper_config::{ConfiguredLimitError, ConfiguredServerStack, Reloader, Settings, Sources};
use damper_core::concurrency::Criticality;
use damper_http::{CallClass, Head, Marks, PartOutcome, PeerAddress, RateLimitLayer};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Empty;
use std::io;
use std::sync::{Arc, Mutex};
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

type Body = Empty<Bytes>;

const ADMISSION: &str = "class_header = 'x-criticality', tenant_header = 'X-Tenant', trusted_callers = ['10.0.0.0/8']";

fn server_of(text: &str) -> ConfiguredServerStack {
    let text = format!("[server.http]\n{text}");
    Sources::new().toml("app", &text).load().unwrap().server.http.server_stack().unwrap()
}

fn request(peer: [u8; 4], headers: &[(&'static str, &str)]) -> Request<Body> {
    let mut request = Request::get("http://one.example.com/").body(Body::new()).unwrap();
    request.extensions_mut().insert(PeerAddress((peer, 5_000).into()));
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    request
}

/// The parts of a request that a handler or a transport sees.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    class: Option<CallClass>,
    marks: Vec<String>,
    headers: HeaderMap,
}

impl Seen {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    fn class(&self) -> Option<(Criticality, Option<&str>)> {
        self.class.as_ref().map(|class| (class.criticality(), class.tenant_name()))
    }
}

/// Sends a request through a layer. Returns the status and what the service inside saw.
async fn send<L, S, R, E>(layer: &L, request: Request<Body>) -> (Result<StatusCode, E>, Option<Seen>)
where
    L: Layer<BoxCloneSyncService<Request<Body>, Response<Body>, io::Error>, Service = S>,
    S: tower::Service<Request<Body>, Response = Response<R>, Error = E>,
{
    let seen = Arc::new(Mutex::new(None));
    let seen_inside = Arc::clone(&seen);
    let inside = service_fn(move |request: Request<Body>| {
        let head = Head::of(&request);
        *seen_inside.lock().unwrap() = Some(Seen {
            class: request.extensions().get().cloned(),
            marks: Marks::of(&head).iter().map(|mark| mark.limit().to_owned()).collect(),
            headers: request.headers().clone(),
        });
        std::future::ready(Ok(Response::new(Body::new())))
    });
    let service = layer.layer(BoxCloneSyncService::new(inside));
    let status = service.oneshot(request).await.map(|response| response.status());
    let seen = seen.lock().unwrap().take();
    (status, seen)
}

async fn served(stack: &ConfiguredServerStack, request: Request<Body>) -> Seen {
    let (status, seen) = send(&stack.parts(), request).await;
    assert_eq!(status.unwrap(), StatusCode::OK);
    seen.unwrap()
}

#[tokio::test]
async fn server_believes_the_callers_that_settings_trust_and_no_other() {
    let named = [("x-criticality", "critical-plus"), ("x-tenant", "acme")];
    let stack = server_of(&format!("stack = {{ {ADMISSION}, default_class = 'sheddable_plus' }}"));
    let trusted = served(&stack, request([10, 0, 0, 7], &named)).await;
    assert_eq!(trusted.class(), Some((Criticality::CriticalPlus, Some("acme"))));
    assert_eq!(trusted.header("x-tenant"), Some("acme"));
    let outside = served(&stack, request([203, 0, 113, 9], &named)).await;
    assert_eq!(outside.class(), Some((Criticality::SheddablePlus, None)));
    assert_eq!((outside.header("x-criticality"), outside.header("x-tenant")), (None, None));
    // The peer of the connection, for servers that do not put it into requests.
    let mut unknown = request([203, 0, 113, 9], &named);
    unknown.extensions_mut().remove::<PeerAddress>();
    let (_, seen) = send(&stack.for_peer(([10, 0, 0, 7], 5_000).into()), unknown).await;
    assert_eq!(seen.unwrap().class(), trusted.class());
}

#[tokio::test]
async fn urgency_counts_only_where_settings_say_so() {
    for (setting, expected) in [("", Criticality::Critical), (", urgency = true", Criticality::Sheddable)] {
        let stack = server_of(&format!("stack = {{ class_header = 'x-criticality'{setting} }}"));
        let seen = served(&stack, request([203, 0, 113, 9], &[("priority", "u=7")])).await;
        assert_eq!(seen.class(), Some((expected, None)));
    }
}

#[tokio::test]
async fn without_the_settings_requests_have_no_class_and_no_mark() {
    let named = [("x-criticality", "critical-plus"), ("x-over-limit", "made up")];
    let seen = served(&server_of(""), request([10, 0, 0, 7], &named)).await;
    assert_eq!((seen.class(), &*seen.marks), (None, &[][..]));
    assert_eq!(seen.header("x-criticality"), Some("critical-plus"), "it is the program's business");
    assert_eq!(seen.header("x-over-limit"), Some("made up"));
}

#[tokio::test]
async fn client_passes_on_the_class_of_a_request() {
    let client = |text: &str| {
        let text = format!("[client.http]\nstack = {{ {text} }}");
        Sources::new().toml("app", &text).load().unwrap().client.http.client_stack().unwrap()
    };
    let class = CallClass::new(Criticality::SheddablePlus).tenant("acme").unwrap();
    let call = |class: Option<&CallClass>| {
        let mut call = request([10, 0, 0, 7], &[("x-criticality", "critical-plus")]);
        if let Some(class) = class {
            call.extensions_mut().insert(class.clone());
        }
        call
    };
    for (text, class, expected) in [
        (
            "class_header = 'x-criticality', tenant_header = 'x-tenant'",
            Some(&class),
            [Some("sheddable-plus"), Some("acme")],
        ),
        ("class_header = 'x-criticality'", Some(&class), [Some("sheddable-plus"), None]),
        ("class_header = 'x-criticality', default_class = 'sheddable'", None, [Some("sheddable"), None]),
        ("class_header = 'x-criticality', default_class = 'sheddable'", Some(&class), [Some("sheddable-plus"), None]),
        ("class_header = 'x-criticality'", None, [Some("critical-plus"), None]),
        ("", Some(&class), [Some("critical-plus"), None]),
    ] {
        let (status, seen) = send(&client(text).parts(), call(class)).await;
        let seen = seen.unwrap();
        assert_eq!(status.unwrap(), StatusCode::OK);
        assert_eq!(["x-criticality", "x-tenant"].map(|name| seen.header(name)), expected, "{text}");
    }
}

#[tokio::test]
async fn limit_that_marks_lets_pass_and_follows_a_reload() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("marks.toml");
    let text = |quota: &str, more: &str| {
        format!(
            "[server.http]\nratelimit = {{ quota = '{quota}', key = 'header:x-client', mark = true, mark_header = 'x-over-limit', \
             mark_class = 'sheddable' }}\nstack = {{ {ADMISSION}{more} }}"
        )
    };
    std::fs::write(&file, text("1/h", "")).unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let stack = reloader.settings().server.http.server_stack().unwrap();
    let reloader = reloader.bind(|settings| &settings.server.http, stack.clone());
    let call = |path: &str| {
        let mut call =
            request([10, 0, 0, 7], &[("x-client", "a"), ("x-over-limit", "made up"), ("x-criticality", "critical")]);
        *call.uri_mut() = path.parse().unwrap();
        call
    };
    let first = served(&stack, call("/")).await;
    assert_eq!((&*first.marks, first.header("x-over-limit")), (&[][..], None));
    for _ in 0..3 {
        let marked = served(&stack, call("/")).await;
        assert_eq!(marked.marks, ["server.http"]);
        assert_eq!(marked.header("x-over-limit"), Some("\"server.http\";t=3600"));
        assert_eq!(marked.class(), Some((Criticality::Sheddable, None)));
    }
    // Health checks are exempt, and those that the program adds.
    assert!(served(&stack, call("/healthz")).await.marks.is_empty());
    assert!(served(&stack.clone().exempt(|head| head.uri.path() == "/free"), call("/free")).await.marks.is_empty());

    std::fs::write(&file, text("90/h burst 90", "")).unwrap();
    assert_eq!(reloader.reload().unwrap().len(), 1);
    assert!(served(&stack, call("/")).await.marks.is_empty());
    for (changed, key) in [
        (text("90/h burst 90", ", urgency = true"), "stack.urgency changed from false to true"),
        (
            text("90/h burst 90", "").replace("x-over-limit", "x-other"),
            "ratelimit.mark_header changed from \"x-over-limit\"",
        ),
    ] {
        std::fs::write(&file, changed).unwrap();
        let error = reloader.reload().unwrap_err().to_string();
        assert!(error.contains(key) && error.contains("; this needs a restart"), "{error}");
    }
}

/// A server behind this one believes the header, whatever is switched off here.
#[tokio::test]
async fn header_of_marks_is_removed_also_while_the_limit_is_off() {
    let text = "ratelimit = { quota = '1/h', mark = true, mark_header = 'x-over-limit' }\n\
        stack = { ratelimit = false, deadline = false, concurrency = 'bulkhead' }";
    let is_seen = Arc::new(Mutex::new(None));
    let is_seen_inside = Arc::clone(&is_seen);
    let stack = server_of(text).exempt(move |head| {
        *is_seen_inside.lock().unwrap() = Some(head.headers.contains_key("x-over-limit"));
        head.uri.path() == "/free"
    });
    for _ in 0..3 {
        let seen = served(&stack, request([10, 0, 0, 7], &[("x-over-limit", "made up")])).await;
        assert_eq!((&*seen.marks, seen.header("x-over-limit")), (&[][..], None));
    }
    *is_seen.lock().unwrap() = None;
    let made_up = request([10, 0, 0, 7], &[("x-over-limit", "made up")]);
    let explained = stack.parts().explain(&Head::of(&made_up)).to_string();
    assert!(!explained.contains("limit"), "there is no limit to explain: {explained}");
    assert_eq!(*is_seen.lock().unwrap(), Some(false), "the bulkhead is explained by the request that it would get");
}

/// A layer that refuses would let clients send the header of the marks, too.
#[test]
fn limit_that_marks_is_no_layer_that_refuses() {
    let text = "[server.grpc]\nratelimit = { quota = '1/h', mark = true }";
    let ratelimit = Sources::new().toml("app", text).load().unwrap().server.grpc.ratelimit;
    let error = ratelimit.layer().unwrap_err();
    assert_eq!(error, ConfiguredLimitError::Marks { section: "server.grpc.ratelimit".to_owned() });
    assert_eq!(
        error.to_string(),
        "server.grpc.ratelimit.mark is true, it must be false for a layer that refuses requests, outside of a stack"
    );
    assert!(ratelimit.marking(RateLimitLayer::new(ratelimit.limit().unwrap())).is_some());

    let ratelimit = &Settings::default().server.grpc.ratelimit;
    assert!(ratelimit.layer().is_ok() && ratelimit.marking(RateLimitLayer::new(ratelimit.limit().unwrap())).is_none());
}

#[tokio::test]
async fn stack_of_settings_explains_a_request() {
    let explained = |text: &str| {
        let stack = server_of(text);
        stack.parts().explain(&Head::of(&request([10, 0, 0, 7], &[("x-criticality", "sheddable")]))).to_string()
    };
    assert_eq!(
        explained(&format!(
            "stack = {{ {ADMISSION}, concurrency = 'admission' }}\nadmission.max_limit = 1\nratelimit = {{ quota = '9/h', key = 'client' }}"
        )),
        "class: passes: sheddable, without a tenant\n\
         deadline: passes: 30 s given\n\
         limit \"server.http\": passes (9 left of 9/h burst 9)\n\
         admission: passes\n\
         not refused"
    );
    for text in ["key = 'path'", "key = 'header:x-client'", "algorithm = 'sliding_log'", "algorithm = 'fixed_window'"] {
        let text = explained(&format!("ratelimit = {{ quota = '9/h', {text} }}\nstack.concurrency = 'bulkhead'"));
        assert!(text.contains("limit \"server.http\": passes (9 left of 9/h"), "{text}");
        assert!(!text.contains("unknown") && !text.contains("class"), "{text}");
    }
    assert_eq!(
        explained("ratelimit.mark = true\nratelimit.quota = '1/h'\nstack.deadline = false"),
        "deadline: passes: without a deadline\n\
         limit \"server.http\": passes (1 left of 1/h burst 1)\n\
         admission: passes\n\
         not refused"
    );

    let stack = server_of("ratelimit = { mark = true, quota = '1/h' }");
    served(&stack, request([10, 0, 0, 7], &[])).await;
    let explanation = stack.parts().explain(&Head::of(&request([10, 0, 0, 7], &[])));
    assert_eq!(explanation.parts()[1].outcome(), PartOutcome::Marks);

    let client = Sources::new().toml("app", "[client.http]\nstack = { class_header = 'x-criticality', ratelimit = true, throttle = true, pacing = true, concurrency = 'bulkhead_per_host' }\nbulkhead.limit = 1");
    let client = client.load().unwrap().client.http.client_stack().unwrap();
    assert_eq!(
        client.parts().explain(&Head::of(&request([10, 0, 0, 7], &[]))).to_string(),
        "class: passes: no class is sent\n\
         deadline: passes: 30 s given\n\
         breaker: passes\n\
         pacing: unknown: the pacer decides at the call\n\
         throttle: passes\n\
         limit: passes\n\
         concurrency: passes\n\
         not refused"
    );
}

#[test]
fn marks_need_a_header_of_their_own() {
    for header in ["x-criticality", "x-tenant"] {
        let text = format!("stack = {{ {ADMISSION} }}\nratelimit = {{ mark = true, mark_header = '{header}' }}");
        let settings = Sources::new().toml("app", &format!("[server.http]\n{text}")).load().unwrap();
        let error = settings.server.http.server_stack().unwrap_err().to_string();
        let rule = "it must differ from class_header and tenant_header of server.http.stack";
        assert_eq!(error, format!("server.http.ratelimit.mark_header is {header:?}, {rule}"));
    }
}
