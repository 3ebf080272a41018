//! The keys of a server's limit.
//!
//! Tiers by name, alignment, full tables and percentages; with stacks the headers, the exempt paths and the header of proxies.

use damper_config::{Format, Reloader, Settings, Sources};
use damper_core::Quota;
use proptest::prelude::*;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn load(text: &str) -> Settings {
    Sources::new().toml("app.toml", text).load().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn mistake(text: &str) -> String {
    Sources::new().toml("app.toml", text).load().expect_err(text).to_string()
}

#[test]
fn tiers_have_names_in_each_format() {
    let free = Quota::per_minute(60);
    for (format, text) in [
        (Format::Toml, "[server.http.ratelimit.tiers]\nfree = '60/minute'\npro = '10/s'"),
        (
            Format::Toml,
            "[server.http.ratelimit.tiers.pro]\nquota = '10/s'\n[server.http.ratelimit.tiers.free]\nquota = '60/min'",
        ),
        (Format::Toml, "server.http.ratelimit.tiers.pro = '10/s'\nserver.http.ratelimit.tiers.free.quota = '60/min'"),
        (
            Format::Json,
            r#"{ "server.http.ratelimit.tiers.pro": "10/s", "server.http.ratelimit.tiers": { "free": "60/m" } }"#,
        ),
        (
            Format::Yaml,
            "server:\n  http:\n    ratelimit:\n      tiers:\n        pro: 10/s\n        free: {quota: 60/min}",
        ),
    ] {
        let tiers = Sources::new().text("app", format, text).load().unwrap().server.http.ratelimit.tiers();
        assert_eq!(tiers.names().collect::<Vec<_>>(), ["free", "pro"], "{text}");
        assert_eq!((tiers.number("free"), tiers.number("pro"), tiers.number("gold")), (Some(1), Some(2), None));
        assert_eq!((tiers.len(), tiers.quota("free")), (2, Some(free)));
        assert_eq!(tiers.into_iter().collect::<Vec<_>>(), [free, Quota::per_second(10)]);
    }
}

#[test]
fn later_sources_change_single_tiers_and_a_list_replaces_all() {
    let key = "server.http.ratelimit.tiers";
    let file = Sources::new().toml("app.toml", &format!("{key} = {{ free = '1/s', pro = '9/s' }}"));
    let settings = file.clone().value("--free", &format!("{key}.free"), "2/s").load().unwrap();
    assert!(settings.to_toml().contains("tiers = { free = \"2/s burst 2\", pro = \"9/s burst 9\" }\n"));
    assert_eq!(Sources::new().toml("again", &settings.to_toml()).load().unwrap(), settings);
    let list = file.value("--tiers", key, "5/s, 6/s").load().unwrap().server.http.ratelimit.tiers();
    assert_eq!((list.len(), list.names().count()), (2, 0));
}

#[test]
fn mistakes_in_tiers_name_the_tier() {
    let table = "[server.http.ratelimit.tiers]\n";
    for (text, expected) in [
        (
            "free = 'fast'",
            "app.toml:2:1: server.http.ratelimit.tiers.free is \"fast\", it must be a quota such as \"100/s burst 200\", at most 10000000 a second, burst 1 to 10000000 (at byte 0: expected a whole number)",
        ),
        (
            "free = { rate = '1/s' }",
            "app.toml:2:10: server.http.ratelimit.tiers.free.rate is no known key, did you mean server.http.ratelimit.tiers.free.quota?",
        ),
        (
            "free = '1/s'\nserver.x = 1",
            "app.toml:3:8: server.http.ratelimit.tiers.server.x is no known key, did you mean server.http.ratelimit.tiers.server.quota?",
        ),
        (
            "'two words' = '1/s'",
            "app.toml:2:1: server.http.ratelimit.tiers.two words is \"1/s\", it must be a quota such as \"100/s burst 200\", at most 10000000 a second, burst 1 to 10000000 (the name of a tier has 1 to 64 letters, digits, _ or -)",
        ),
    ] {
        assert_eq!(mistake(&format!("{table}{text}")), expected);
    }
    let many = (0..16).map(|tier| format!("t{tier:02} = '1/s'")).collect::<Vec<_>>().join("\n");
    assert!(mistake(&format!("{table}{many}")).ends_with("(there are 15 tiers already, which is the maximum)"));
    let json = r#"{ "server.http.ratelimit.tiers.a": "1/s", "server.http.ratelimit.tiers.a.quota": "2/s" }"#;
    let twice = Sources::new().text("app.json", Format::Json, json).load().unwrap_err().to_string();
    assert!(twice.ends_with("server.http.ratelimit.tiers.a.quota is given twice"), "{twice}");
}

#[test]
fn a_reload_changes_the_quota_of_a_named_tier_but_not_its_name() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("named_tiers.toml");
    let write = |tiers: &str| std::fs::write(&file, format!("server.http.ratelimit.tiers = {{ {tiers} }}")).unwrap();
    write("free = '1/h', pro = '2/h'");
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let settings = reloader.settings().server.http.ratelimit.clone();
    let limits = settings.keyed_builder::<str>().tiers(settings.tiers(), |_| 0).build().unwrap();
    let limits = std::sync::Arc::new(limits);
    let reloader = reloader.bind(|settings| &settings.server.http.ratelimit, std::sync::Arc::clone(&limits));
    write("free = '1/h', pro = '3/h'");
    reloader.reload().unwrap();
    assert_eq!(limits.tier_quota(2), Some(Quota::per_hour(3)));
    write("free = '1/h', gold = '3/h'");
    let error = reloader.reload().unwrap_err().to_string();
    assert!(error.ends_with("other names of tiers need a restart"), "{error}");
}

/// Whatever the first quota and the frequency of the machine's clock are.
#[test]
fn a_reload_can_set_the_largest_burst() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("largest_burst.toml");
    let write = |quota: &str| {
        let client = format!("[client.http]\nratelimit.quota = '{quota}'\n");
        let server = format!("[server.http.ratelimit]\nquota = '{quota}'\nkey = 'client'\ntiers.pro = '{quota}'\n");
        let grpc = format!("[server.grpc.ratelimit]\nquota = '{quota}'\nkey = 'client'\n");
        let mesh = format!("[server.mesh]\nuser = '{quota}'\n");
        std::fs::write(&file, [client, server, grpc, mesh].concat()).unwrap();
    };
    write("1/30d");
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let settings = reloader.settings();
    let ratelimit = &settings.server.http.ratelimit;
    let tiers = ratelimit.keyed_builder::<str>().tiers(ratelimit.tiers(), |_| 1).build().unwrap();
    let (tiers, scopes) = (std::sync::Arc::new(tiers), std::sync::Arc::new(settings.server.mesh.scopes().unwrap()));
    let of_client = settings.server.grpc.ratelimit.limit().unwrap();
    let all = std::sync::Arc::new(settings.client.http.ratelimit.limiter());
    let reloader = reloader
        .bind(|settings| &settings.server.http.ratelimit, std::sync::Arc::clone(&tiers))
        .bind(|settings| &settings.server.grpc.ratelimit, of_client.clone())
        .bind(|settings| &settings.server.mesh, std::sync::Arc::clone(&scopes))
        .bind(|settings| &settings.client.http.ratelimit, std::sync::Arc::clone(&all));
    for quota in ["1000/30d burst 10000000", "1/h burst 10000000", "100000/s", "1/30d", "10000000/30d"] {
        write(quota);
        reloader.reload().unwrap();
        let quota = quota.parse::<Quota>().unwrap();
        let user = scopes.limiter(damper_mesh::Scope::User).unwrap();
        let quotas = [tiers.quota(), tiers.tier_quota(1).unwrap(), of_client.quota(), user.quota(), all.quota()];
        assert_eq!(quotas, [quota; 5]);
    }
    assert!(tiers.check_n("acme", 9_000_000).is_ok());
}

#[test]
fn windows_begin_where_the_alignment_says() {
    for algorithm in ["fixed_window", "sliding_counter"] {
        let settings = |alignment: &str| {
            let text = format!(
                "server.http.ratelimit = {{ quota = '5/day', algorithm = '{algorithm}', alignment = '{alignment}' }}"
            );
            load(&text).server.http.ratelimit
        };
        let first = settings("first_request").fixed_window().check().unwrap().resets_in().unwrap();
        assert!((DAY.as_secs() - 60..=DAY.as_secs()).contains(&first.as_secs()), "{first:?}");
        let utc = settings("utc");
        for resets_in in [
            utc.fixed_window().check().unwrap().resets_in().unwrap(),
            utc.keyed_builder::<str>()
                .algorithm::<damper_core::FixedWindow>()
                .build()
                .unwrap()
                .check("a")
                .unwrap()
                .resets_in()
                .unwrap(),
        ] {
            let end = SystemTime::UNIX_EPOCH.elapsed().unwrap() + resets_in;
            let past = end.as_secs() % DAY.as_secs();
            // The test may be paused for a minute between the check and here.
            assert!(past < 60 || past == DAY.as_secs() - 1, "{past}");
        }
    }
    assert_eq!(
        mistake("server.http.ratelimit.alignment = 'utc'"),
        "app.toml:1:23: server.http.ratelimit: alignment is for the algorithms fixed_window and sliding_counter; \
         alignment is \"utc\" (app.toml:1:23), algorithm is \"token_bucket\" by default"
    );
}

#[test]
fn new_keys_of_a_full_table_meet_the_policy() {
    let admitted = |policy: &str| {
        let text = format!("server.http.ratelimit = {{ quota = '1/day', max_keys = 1, when_full = '{policy}' }}");
        let limits = load(&text).server.http.ratelimit.keyed_builder::<u32>().build().unwrap();
        (0..10_000).filter(|key| limits.check(key).is_ok()).count()
    };
    let (shared, denied) = (admitted("shared_overflow"), admitted("deny_new"));
    assert!(denied < shared, "{denied} with deny_new, {shared} with shared_overflow");
}

#[test]
fn shares_are_percentages_or_what_code_takes() {
    let text = "[client.http]\ncircuit_breaker = { failure_rate = '50%', slow_rate = 20, cooldown_jitter = '10 %' }\n\
        retry_budget.ratio = '7%'\nhedge.max_extra = 0.05";
    let client = load(text).client.http;
    let breaker = &client.circuit_breaker;
    assert_eq!((breaker.failure_rate(), breaker.slow_rate(), breaker.cooldown_jitter()), (Some(50), Some(20), 10));
    assert_eq!((client.retry_budget.ratio(), client.hedge.max_extra()), (0.07, 0.05));
    let written = load(text).to_toml();
    for line in ["failure_rate = \"50%\"", "slow_rate = \"20%\"", "ratio = \"7%\"", "max_extra = \"5%\""] {
        assert!(written.contains(&format!("{line}\n")), "{line}: {written}");
    }
    for (text, expected) in [
        (
            "client.http.circuit_breaker.failure_rate = 0.5",
            "app.toml:1:29: client.http.circuit_breaker.failure_rate is 0.5, it must be a percentage from 1% to 100%, such as \"50%\" (a part of 0.5 is written \"50%\")",
        ),
        (
            "client.http.retry_budget.ratio = 20",
            "app.toml:1:26: client.http.retry_budget.ratio is 20, it must be a percentage from 0% to 100%, such as \"20%\", or the fraction 0.2 (20 percent are written \"20%\")",
        ),
        (
            "client.http.hedge.max_extra = '0.05%'",
            "app.toml:1:19: client.http.hedge.max_extra is \"0.05%\", it must be a percentage from 0.1% to 100%, such as \"20%\", or the fraction 0.2",
        ),
        (
            "client.http.retry_budget.ratio = 'inf%'",
            "app.toml:1:26: client.http.retry_budget.ratio is \"inf%\", it must be a percentage from 0% to 100%, such as \"20%\", or the fraction 0.2",
        ),
    ] {
        assert_eq!(mistake(text), expected);
    }
}

proptest! {
    /// A fraction is written as a percentage that is read as the same fraction.
    #[test]
    fn percentages_come_back(fraction in 0.001_f64..=1.0) {
        let settings = load(&format!("client.http.hedge.max_extra = {fraction:?}"));
        prop_assert_eq!(settings.client.http.hedge.max_extra().to_bits(), fraction.to_bits());
        let again = load(&settings.to_toml());
        prop_assert_eq!(again.client.http.hedge.max_extra().to_bits(), fraction.to_bits());
    }

    /// Any text as a tier, as a path or as a percentage is read or refused, and what is read comes back.
    #[test]
    fn any_text_is_read_or_refused(key in 0_usize..5, text in "\\PC{0,12}", name in "[a-z._*/% -]{0,12}") {
        let key = [
            "server.http.ratelimit.tiers",
            &format!("server.http.ratelimit.tiers.{name}"),
            "server.http.stack.exempt_paths",
            "client.http.circuit_breaker.failure_rate",
            "client.http.retry_budget.ratio",
        ][key].to_owned();
        for text in [text, name] {
            match Sources::new().value("--option", &key, &text).load() {
                Ok(settings) => prop_assert_eq!(load(&settings.to_toml()), settings),
                Err(error) => prop_assert_eq!(error.problems().len(), 1),
            }
        }
    }
}

#[test]
fn paths_that_exempt_too_much_or_are_none_are_refused() {
    for (path, why) in [
        ("/*", "would exempt every request"),
        ("healthz", "does not begin with /"),
        ("/a*", "has a * elsewhere than at the end, after a /"),
        ("/*/a", "has a * elsewhere than at the end, after a /"),
        ("/a?b", "is no path: it has a space, a query or a fragment"),
        ("/a b", "is no path: it has a space, a query or a fragment"),
    ] {
        let error = mistake(&format!("server.http.stack.exempt_paths = ['/ok', '{path}']"));
        assert!(error.starts_with("app.toml:1:42: ") && error.ends_with(&format!("({path:?} {why})")), "{error}");
    }
}

#[cfg(all(feature = "tower", feature = "tokio"))]
mod stacks {
    use super::load;
    use bytes::Bytes;
    use damper_config::ConfiguredServerStack;
    use http::{Request, Response, StatusCode};
    use http_body_util::Empty;
    use std::convert::Infallible;
    use std::net::SocketAddr;
    use tower::{Layer, Service, ServiceExt, service_fn};

    type Body = Empty<Bytes>;

    fn stack(text: &str) -> ConfiguredServerStack {
        load(&format!("[server.http]\n{text}")).server.http.server_stack().unwrap()
    }

    async fn status_of(
        service: &mut (impl Service<Request<Body>, Response = Response<impl Sized>, Error: std::fmt::Debug> + Send),
        path: &str,
    ) -> StatusCode {
        let request = Request::get(path).body(Body::new()).unwrap();
        service.ready().await.unwrap().call(request).await.unwrap().status()
    }

    async fn ok(_: Request<Body>) -> Result<Response<Body>, Infallible> {
        Ok(Response::new(Body::new()))
    }

    #[tokio::test]
    async fn health_checks_are_never_limited_unless_the_list_is_empty() {
        const LIMITED: StatusCode = StatusCode::TOO_MANY_REQUESTS;
        let full = "ratelimit.quota = '1/day'\nstack.concurrency = 'fixed_admission'\nadmission.fixed_limit = 1";
        for (keys, exempt, limited) in [
            (
                "",
                vec!["/health", "/healthz", "/livez", "/readyz", "/grpc.health.v1.Health/Check"],
                vec!["/", "/healthz/", "/health/x"],
            ),
            ("stack.exempt_paths = []", vec![], vec!["/", "/healthz"]),
            (
                "stack.exempt_paths = ['/status/*', '/up']",
                vec!["/status/", "/status/db", "/up", "/up?verbose"],
                vec!["/healthz", "/status", "/upper"],
            ),
        ] {
            let stack = stack(&format!("{full}\n{keys}"));
            let mut service = stack.service(service_fn(ok));
            assert_eq!(status_of(&mut service, "/first").await, StatusCode::OK);
            for _ in 0..3 {
                for path in &exempt {
                    assert_eq!(status_of(&mut service, path).await, StatusCode::OK, "{keys}: {path}");
                }
                for path in &limited {
                    assert_eq!(status_of(&mut service, path).await, LIMITED, "{keys}: {path}");
                }
            }
            // A predicate of the program adds to the list.
            let mut service = stack.exempt(|head| head.uri.path() == "/metrics").service(service_fn(ok));
            for path in exempt.iter().chain([&"/metrics"]) {
                assert_eq!(status_of(&mut service, path).await, StatusCode::OK, "{keys}: {path}");
            }
        }
    }

    #[tokio::test]
    async fn responses_carry_the_headers_that_are_set() {
        for (headers, on_allowed, with_x) in [
            ("on_refusals", false, false),
            ("on_all_responses", true, false),
            ("on_refusals_with_x", false, true),
            ("on_all_responses_with_x", true, true),
        ] {
            let text = format!("ratelimit = {{ quota = '1/day', headers = '{headers}' }}");
            let layer = load(&format!("[server.http]\n{text}")).server.http.ratelimit.layer().unwrap();
            let mut alone = layer.layer(service_fn(ok));
            let mut stacked = stack(&text).service(service_fn(ok));
            for is_allowed in [true, false] {
                let request = || Request::get("/").body(Body::new()).unwrap();
                let alone = alone.ready().await.unwrap().call(request()).await.unwrap();
                let stacked = stacked.ready().await.unwrap().call(request()).await.unwrap();
                for (status, map) in [(alone.status(), alone.headers()), (stacked.status(), stacked.headers())] {
                    assert_eq!(status.is_success(), is_allowed);
                    let is_set = on_allowed || !is_allowed;
                    let has = |name: &str| map.contains_key(name);
                    assert_eq!(
                        (has("ratelimit"), has("x-ratelimit-remaining")),
                        (is_set, is_set && with_x),
                        "{headers}"
                    );
                }
            }
        }
    }

    #[tokio::test]
    async fn clients_are_told_apart_by_the_header_that_the_proxies_write() {
        for (key, written, other) in
            [("x_forwarded_for", "x-forwarded-for", "forwarded"), ("forwarded", "forwarded", "x-forwarded-for")]
        {
            let text = format!(
                "ratelimit = {{ quota = '1/day', key = 'client', trusted_proxies = ['10.0.0.0/8'], proxy_header = '{key}' }}"
            );
            let peer = SocketAddr::from(([10, 0, 0, 1], 80));
            let mut service = stack(&text).for_peer(peer).layer(service_fn(ok));
            let value = |header: &str, client: u8| match header {
                "forwarded" => format!("for=192.0.2.{client}"),
                _ => format!("192.0.2.{client}"),
            };
            for (client, made_up, expected) in
                [(1, 7, StatusCode::OK), (2, 7, StatusCode::OK), (1, 8, StatusCode::TOO_MANY_REQUESTS)]
            {
                let request = Request::get("/").header(written, value(written, client));
                let request = request.header(other, value(other, made_up)).body(Body::new()).unwrap();
                let response = service.ready().await.unwrap().call(request).await.unwrap();
                assert_eq!(response.status(), expected, "{key}: client {client}");
            }
        }
    }
}
