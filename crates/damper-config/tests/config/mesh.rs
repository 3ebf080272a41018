//! Scopes of Mesh from settings, and their reload.

use damper_config::{ConfiguredScopes, Reloader, Sources};
use damper_core::{Clock, KeyedAlgorithm};
use damper_mesh::{Caller, Scope, Scopes};
use std::path::Path;
use std::sync::Arc;

#[test]
fn scopes_are_those_that_are_set_and_keep_their_state_over_a_reload() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mesh.toml");
    let write = |text: &str| std::fs::write(&file, format!("[server.mesh]\n{text}")).unwrap();
    write("user = '2/h burst 2'\nfunctions = ['orders.create 1/h', 'orders.list 9/h']");
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let scopes = Arc::new(reloader.settings().server.mesh.scopes().unwrap());
    let reloader = reloader.bind(|settings| &settings.server.mesh, Arc::clone(&scopes));
    assert!(scopes.limiter(Scope::Global).is_none() && scopes.limiter(Scope::Service).is_none());

    let list = Caller::of("orders.list").user("ann");
    for _ in 0..2 {
        assert!(scopes.check(list).is_ok());
    }
    assert_eq!(scopes.check(list).unwrap_err().scope(), Scope::User);
    assert!(scopes.check(Caller::of("orders.create").user("bob")).is_ok());
    assert_eq!(scopes.check(Caller::of("orders.create").user("cay")).unwrap_err().scope(), Scope::Function);

    write("user = '3/h burst 2'\nfunctions = ['orders.create 2/h burst 1', 'orders.list 9/h']");
    assert_eq!(reloader.reload().unwrap().len(), 2);
    assert_eq!(scopes.limiter(Scope::User).unwrap().quota().limit(), 3);
    assert_eq!(scopes.function_limiter("orders.create").unwrap().quota().limit(), 2);
    assert!(scopes.check(list).is_err(), "an exhausted user stays exhausted");

    for (text, why) in [
        ("functions = ['orders.create 2/h burst 1', 'orders.list 9/h']", "user has no quota any more"),
        (
            "global = '5/s'\nuser = '3/h burst 2'\nfunctions = ['orders.create 2/h burst 1', 'orders.list 9/h']",
            "global had no quota",
        ),
        ("user = '3/h burst 2'\nfunctions = ['orders.create 2/h burst 1']", "orders.list has no quota any more"),
    ] {
        write(text);
        let error = reloader.reload().expect_err(text).to_string();
        assert!(error.starts_with("server.mesh: ") && error.contains(why), "{error}");
    }
}

fn server(text: &str) -> damper_config::MeshSettings {
    Sources::new().toml("app.toml", &format!("[server.mesh]\n{text}")).load().unwrap().server.mesh
}

#[test]
fn scopes_count_by_the_algorithm_that_is_set() {
    // A burst means nothing to a window.
    let admitted = |text: &str| {
        let settings = server(&format!("global = '10/day burst 20'\n{text}"));
        let caller = Caller::of("f");
        match settings.configured_scopes().unwrap() {
            ConfiguredScopes::TokenBucket(scopes) => {
                ("token_bucket", (0..30).filter(|_| scopes.check(caller).is_ok()).count())
            }
            ConfiguredScopes::FixedWindow(scopes) => {
                ("fixed_window", (0..30).filter(|_| scopes.check(caller).is_ok()).count())
            }
            ConfiguredScopes::SlidingCounter(scopes) => {
                ("sliding_counter", (0..30).filter(|_| scopes.check(caller).is_ok()).count())
            }
        }
    };
    assert_eq!(admitted(""), ("token_bucket", 20));
    assert_eq!(admitted("algorithm = 'fixed_window'"), ("fixed_window", 10));
    assert_eq!(admitted("algorithm = 'sliding_counter'"), ("sliding_counter", 10));
}

/// The limits that are bound are those of the algorithm that is set.
#[test]
fn scopes_of_each_algorithm_keep_their_state_over_a_reload() {
    fn check<C: Clock, A: KeyedAlgorithm>(
        scopes: &Arc<Scopes<C, A>>,
        reload: impl Fn(&str) -> Result<usize, String>,
        algorithm: &str,
    ) {
        let ann = Caller::of("orders.list").user("ann");
        scopes.check(ann).unwrap();
        scopes.check(ann).unwrap();
        assert_eq!(scopes.check(ann).unwrap_err().scope(), Scope::User, "{algorithm}");
        assert_eq!(reload("service = '50/h'\nuser = '3/h burst 2'"), Ok(2), "{algorithm}");
        assert_eq!(scopes.limiter(Scope::User).unwrap().quota().limit(), 3, "{algorithm}");
        assert_eq!(scopes.limiter(Scope::Service).unwrap().quota().limit(), 50, "{algorithm}");
        assert!(scopes.check_n(ann, 2).is_err(), "{algorithm}: what ann has taken stays taken");
        let error = reload("service = '50/h'").unwrap_err();
        assert!(error.contains("user has no quota any more"), "{error}");
    }
    for algorithm in ["token_bucket", "fixed_window", "sliding_counter"] {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mesh-{algorithm}.toml"));
        let text = |scopes: &str| format!("[server.mesh]\nalgorithm = '{algorithm}'\n{scopes}");
        std::fs::write(&file, text("service = '40/h'\nuser = '2/h burst 2'")).unwrap();
        let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
        let scopes = reloader.settings().server.mesh.configured_scopes().unwrap();
        let reloader = reloader.bind(|settings| &settings.server.mesh, scopes.clone());
        let reload = |scopes: &str| {
            std::fs::write(&file, text(scopes)).unwrap();
            reloader.reload().map(|changes| changes.len()).map_err(|error| error.to_string())
        };
        match scopes {
            ConfiguredScopes::TokenBucket(scopes) => check(&scopes, reload, algorithm),
            ConfiguredScopes::FixedWindow(scopes) => check(&scopes, reload, algorithm),
            ConfiguredScopes::SlidingCounter(scopes) => check(&scopes, reload, algorithm),
        }
    }
}

#[test]
fn windows_of_mesh_begin_where_the_alignment_says() {
    let day = 24 * 3_600;
    for (alignment, is_aligned) in [("first_request", false), ("utc", true)] {
        let text = format!("global = '10/day'\nalgorithm = 'fixed_window'\nalignment = '{alignment}'");
        let ConfiguredScopes::FixedWindow(scopes) = server(&text).configured_scopes().unwrap() else {
            panic!("another algorithm")
        };
        let resets_in = scopes.check(Caller::of("f")).unwrap().usage(Scope::Global).unwrap().resets_in().unwrap();
        let end = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap() + resets_in;
        let past = end.as_secs() % day;
        // The test may be paused for a minute between the check and here.
        if is_aligned {
            assert!(past < 60 || past == day - 1, "{past}");
        } else {
            assert!((day - 60..=day).contains(&resets_in.as_secs()), "{resets_in:?}");
        }
    }
}

#[test]
fn responses_warn_at_the_thresholds_that_are_set() {
    for (text, used, warning) in [
        ("", 89, None),
        ("", 90, Some("Approaching rate limit")),
        ("", 98, Some("Rate limit nearly exhausted")),
        ("warn_approaching = '30%'\nwarn_nearly_exhausted = 20", 70, Some("Approaching rate limit")),
        ("warn_approaching = '30%'\nwarn_nearly_exhausted = 20", 80, Some("Rate limit nearly exhausted")),
        ("warn_approaching = 0\nwarn_nearly_exhausted = 0", 100, None),
        ("warn_nearly_exhausted = 0", 100, Some("Approaching rate limit")),
    ] {
        let scopes = server(&format!("global = '100/day'\n{text}")).scopes().unwrap();
        let meta = scopes.check_n(Caller::of("f"), used).unwrap().meta();
        assert_eq!(meta.rate_limit.unwrap().warning.as_deref(), warning, "{text}: {used}");
    }
}

#[test]
fn settings_of_mesh_that_contradict_each_other_are_mistakes() {
    for (text, expected) in [
        (
            "server.mesh.alignment = 'utc'",
            "app.toml:1:13: server.mesh: alignment is for the algorithms fixed_window and sliding_counter; \
             alignment is \"utc\" (app.toml:1:13), algorithm is \"token_bucket\" by default",
        ),
        (
            "server.mesh.warn_nearly_exhausted = '11%'",
            "app.toml:1:13: server.mesh: warn_nearly_exhausted must be no more than warn_approaching; \
             warn_nearly_exhausted is \"11%\" (app.toml:1:13), warn_approaching is \"10%\" by default",
        ),
        (
            "server.mesh = { algorithm = 'sliding_counter', user = '1048575/h burst 5' }",
            "app.toml:1:17: server.mesh: a window must have at most 1048574 requests with a sliding_counter, and 4294967294 with a fixed_window; \
             algorithm is \"sliding_counter\" (app.toml:1:17), user is \"1048575/h burst 5\" (app.toml:1:48)",
        ),
        (
            "server.mesh.max_request = 5",
            "app.toml:1:13: server.mesh.max_request is 5, it must be a whole number from 1024 to 1073741824",
        ),
        (
            "client.mesh.max_wait = 5",
            "app.toml:1:13: client.mesh.max_wait is 5, it must be a duration from 1ms to 1day, such as \"30s\" (a number needs a unit)",
        ),
    ] {
        let error = Sources::new().toml("app.toml", text).load().expect_err(text);
        assert_eq!(error.to_string(), expected);
    }
}

#[cfg(feature = "tokio")]
mod client {
    use bytes::Bytes;
    use damper_config::Sources;
    use damper_mesh::{ClientError, Request, Response};
    use http_body_util::Full;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tower::service_fn;

    /// Makes a call through a client with these keys. Returns the result, and how many attempts it made.
    async fn called(keys: &str, answer: String) -> (Result<Response, ClientError>, u32) {
        let settings = Sources::new().toml("app", &format!("[client.mesh]\n{keys}")).load().unwrap().client.mesh;
        let attempts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&attempts);
        let http = service_fn(move |_: http::Request<Full<Bytes>>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let answer = Full::new(Bytes::from(answer.clone()));
            async { Ok::<_, Infallible>(http::Response::new(answer)) }
        });
        let client = settings.builder(http, "http://service.example/".parse().unwrap()).build();
        let result = client.call(Request::new("req_1", "f", "1", serde_json::json!({}))).await;
        (result, attempts.load(Ordering::Relaxed))
    }

    fn document(errors: &serde_json::Value, result: &str) -> String {
        let protocol = serde_json::json!({ "name": "mesh", "version": "0.1.0" });
        serde_json::json!({ "protocol": protocol, "id": "req_1", "result": result, "errors": errors }).to_string()
    }

    #[tokio::test]
    async fn clients_make_the_attempts_and_read_the_sizes_that_are_set() {
        let wait = serde_json::json!({ "value": 1, "unit": "millisecond" });
        let refusal = serde_json::json!([
            { "code": "RATE_LIMITED", "message": "", "retryable": true, "details": { "retry_after": wait } },
        ]);
        for (keys, expected) in [("", 5), ("max_attempts = 1", 1), ("max_attempts = 3", 3)] {
            let (answer, attempts) = called(keys, document(&refusal, "")).await;
            assert!(attempts == expected && !answer.unwrap().errors.is_empty(), "{keys}: {attempts}");
        }
        let long = document(&serde_json::json!([]), &"x".repeat(2_000));
        assert!(called("", long.clone()).await.0.is_ok());
        assert!(matches!(called("max_response = 1024", long).await.0, Err(ClientError::Body(_))));
    }

    #[test]
    fn clients_have_the_waits_that_are_set() {
        let text = "client.mesh = { pace_below = '20%', max_pacing_wait = '7s', max_wait = '30s', jitter = '5%', timeout = '2s' }";
        let settings = Sources::new().toml("app", text).load().unwrap().client.mesh;
        let shown = |settings: &damper_config::MeshClientSettings| {
            format!("{:?}", settings.builder((), "http://service.example/".parse().unwrap()))
        };
        let set = shown(&settings);
        for part in [
            "max_wait: 30s, jitter: 5",
            "pace_below: 20",
            "max_pacing_wait: Some(7s)",
            "timeout: Some(2s)",
            "\"client.mesh\"",
        ] {
            assert!(set.contains(part), "{part}: {set}");
        }
        let default = damper_mesh::Client::builder((), "http://service.example/".parse().unwrap());
        assert_eq!(shown(&damper_config::MeshClientSettings::default()), format!("{default:?}"));
    }
}
