//! Settings that are wrong: what the message says, and that the normalized ones still protect.

use damper_config::{Format, Settings, Sources};
use damper_core::breaker::CircuitBreaker;
use damper_core::throttle::Hints;
use std::time::Duration;

/// A text, and its messages as `app.toml`.
const BROKEN: [(&str, &[&str]); 60] = [
    (
        "[server.http.stack]\nclass_header = ''\ntenant_header = 'größe'\n[client.http.stack]\nclass_header = true",
        &[
            "app.toml:2:1: server.http.stack.class_header is \"\", it must be the name of a header such as \"x-name\" (a name has 1 to 256 characters, this has 0)",
            "app.toml:3:1: server.http.stack.tenant_header is \"größe\", it must be the name of a header such as \"x-name\" ('ö' is no character of header names)",
            "app.toml:5:1: client.http.stack.class_header is true, it must be the name of a header such as \"x-name\"",
        ],
    ),
    (
        "[server.http.stack]\nclass_header = 'Host'\n[server.http.ratelimit]\nmark = true\nmark_header = 'content-length'",
        &[
            "app.toml:2:1: server.http.stack.class_header is \"Host\", it must be the name of a header such as \"x-name\" (host is a header of HTTP itself)",
            "app.toml:5:1: server.http.ratelimit.mark_header is \"content-length\", it must be the name of a header such as \"x-name\" (content-length is a header of HTTP itself)",
        ],
    ),
    (
        "[server.http.stack]\nclass_haeder = 'x-class'\nmark = true\n[client.http.stack]\ntrusted_callers = ['10.0.0.0/8']",
        &[
            "app.toml:2:1: server.http.stack.class_haeder is no known key, did you mean server.http.stack.class_header?",
            "app.toml:3:1: server.http.stack.mark is no known key, did you mean server.http.ratelimit.mark?",
            "app.toml:5:1: client.http.stack.trusted_callers is no known key, did you mean server.http.stack.trusted_callers?",
        ],
    ),
    (
        "[server.http.stack]\nclass_header = 'x-class'\ntrusted_callers = ['10.0.0.1', 'gateway.internal']",
        &[
            "app.toml:3:32: server.http.stack.trusted_callers is [\"10.0.0.1\", \"gateway.internal\"], it must be a list of networks such as \"10.0.0.0/8\", at least 8 bits of IPv4 or 7 of IPv6 (\"gateway.internal\" is no network)",
        ],
    ),
    (
        "[server.http.stack]\ntrusted_callers = ['10.0.0.0/8']",
        &[
            "app.toml:2:1: server.http.stack: class_header must be set too; trusted_callers is [\"10.0.0.0/8\"] (app.toml:2:1)",
        ],
    ),
    (
        "[server.http.ratelimit]\nmark = true\nmark_header = 'x:over'\nmark_class = 'sheddable-plus'",
        &[
            "app.toml:3:1: server.http.ratelimit.mark_header is \"x:over\", it must be the name of a header such as \"x-name\" (':' is no character of header names)",
            "app.toml:4:1: server.http.ratelimit.mark_class is \"sheddable-plus\", it must be one of critical_plus, critical, sheddable_plus, sheddable",
        ],
    ),
    (
        "[server.http.ratelimit]\nmark = false\nmark_header = 'x-over-limit'",
        &[
            "app.toml:3:1: server.http.ratelimit: mark_header and mark_class need mark = true; mark_header is \"x-over-limit\" (app.toml:3:1), mark is false (app.toml:2:1)",
        ],
    ),
    (
        "[client.http.circuit_breaker]\nramp = '0s'\n[client.grpc.circuit_breaker]\nramp = '2days'\nramp_shape = 'step'",
        &[
            "app.toml:2:1: client.http.circuit_breaker.ramp is \"0s\", it must be a duration from 1ms to 1day, such as \"30s\"",
            "app.toml:4:1: client.grpc.circuit_breaker.ramp is \"2days\", it must be a duration from 1ms to 1day, such as \"30s\"",
            "app.toml:5:1: client.grpc.circuit_breaker.ramp_shape is \"step\", it must be one of linear, steps",
        ],
    ),
    (
        "[client.http.circuit_breaker]\nramp_shape = 'steps'",
        &["app.toml:2:1: client.http.circuit_breaker: ramp_shape needs a ramp; ramp_shape is \"steps\" (app.toml:2:1)"],
    ),
    (
        "[server.http.stack]\nclass_header = 'x criticality'",
        &[
            "app.toml:2:1: server.http.stack.class_header is \"x criticality\", it must be the name of a header such as \"x-name\" (' ' is no character of header names)",
        ],
    ),
    (
        "[server.http.stack]\ntenant_header = 'x-tenant'",
        &[
            "app.toml:2:1: server.http.stack: class_header must be set too; tenant_header is \"x-tenant\" (app.toml:2:1)",
        ],
    ),
    (
        "[server.http.stack]\nclass_header = 'x-class'\ntenant_header = 'X-Class'",
        &[
            "app.toml:3:1: server.http.stack: tenant_header must differ from class_header; tenant_header is \"x-class\" (app.toml:3:1), class_header is \"x-class\" (app.toml:2:1)",
        ],
    ),
    (
        "[server.http.stack]\nclass_header = 'x-class'\ntrusted_callers = ['10.0.0.0/8', '0.0.0.0/0']",
        &[
            "app.toml:3:34: server.http.stack.trusted_callers is [\"10.0.0.0/8\", \"0.0.0.0/0\"], it must be a list of networks such as \"10.0.0.0/8\", at least 8 bits of IPv4 or 7 of IPv6 (0.0.0.0/0 would trust too many clients, the shortest prefix is 8 bits)",
        ],
    ),
    (
        "[server.http.stack]\nclass_header = 'x-class'\ndefault_class = 'low'",
        &[
            "app.toml:3:1: server.http.stack.default_class is \"low\", it must be one of critical_plus, critical, sheddable_plus, sheddable",
        ],
    ),
    (
        "[client.grpc.stack]\ndefault_class = 'sheddable'",
        &[
            "app.toml:2:1: client.grpc.stack: class_header must be set too; default_class is \"sheddable\" (app.toml:2:1)",
        ],
    ),
    (
        "[server.http.ratelimit]\nmark_class = 'sheddable'",
        &[
            "app.toml:2:1: server.http.ratelimit: mark_header and mark_class need mark = true; mark_class is \"sheddable\" (app.toml:2:1), mark is false by default",
        ],
    ),
    (
        "[client.http.circuitBreaker]\ncooldown = '1s'",
        &["app.toml:1:14: client.http.circuitBreaker is no known key, did you mean client.http.circuit_breaker?"],
    ),
    (
        "[server.http.ratelimit]\nburst = 0",
        &["app.toml:2:1: server.http.ratelimit.burst is 0, it must be a whole number from 1 to 10000000"],
    ),
    (
        "[server.http.ratelimit]\nburst = -5",
        &["app.toml:2:1: server.http.ratelimit.burst is -5, it must be a whole number from 1 to 10000000"],
    ),
    (
        "[server.http.ratelimit]\nburst = 99999999999999999999",
        &[
            "app.toml:2:1: server.http.ratelimit.burst is 99999999999999999999, it must be a whole number from 1 to 10000000",
        ],
    ),
    (
        "server.http.ratelimit.requests_per_second = 0",
        &["app.toml:1:23: server.http.ratelimit.requests_per_second is 0, it must be a number from 0.001 to 10000000"],
    ),
    (
        "server.http.ratelimit.requests_per_second = nan",
        &[
            "app.toml:1:23: server.http.ratelimit.requests_per_second is nan, it must be a number from 0.001 to 10000000",
        ],
    ),
    (
        "server.http.ratelimit.requests_per_second = inf",
        &[
            "app.toml:1:23: server.http.ratelimit.requests_per_second is inf, it must be a number from 0.001 to 10000000",
        ],
    ),
    (
        "server.http.ratelimit.requests_per_second = 1e300",
        &[
            "app.toml:1:23: server.http.ratelimit.requests_per_second is 1e300, it must be a number from 0.001 to 10000000",
        ],
    ),
    (
        "server.http.ratelimit.requests_per_second = \"fifty\"",
        &[
            "app.toml:1:23: server.http.ratelimit.requests_per_second is \"fifty\", it must be a number from 0.001 to 10000000",
        ],
    ),
    (
        "server.http.ratelimit.quota = \"unlimited\"",
        &[
            "app.toml:1:23: server.http.ratelimit.quota is \"unlimited\", it must be a quota such as \"100/s burst 200\", at most 10000000 a second, burst 1 to 10000000",
        ],
    ),
    (
        "server.http.ratelimit.quota = \"0/s burst 5\"",
        &[
            "app.toml:1:23: server.http.ratelimit.quota is \"0/s burst 5\", it must be a quota such as \"100/s burst 200\", at most 10000000 a second, burst 1 to 10000000",
        ],
    ),
    (
        "server.http.ratelimit.quota = \"100 a second\"",
        &[
            "app.toml:1:23: server.http.ratelimit.quota is \"100 a second\", it must be a quota such as \"100/s burst 200\", at most 10000000 a second, burst 1 to 10000000 (at byte 3: expected a slash between limit and window, as in 100/s)",
        ],
    ),
    (
        "[server.http.ratelimit]\nquota = \"10/s\"\nburst = 5",
        &[
            "app.toml:3:1: server.http.ratelimit: quota stands instead of requests_per_second and burst, give one or the other; quota is \"10/s burst 10\" (app.toml:2:1), burst is 5 (app.toml:3:1)",
        ],
    ),
    (
        "server.http.ratelimit.key = \"ip\"",
        &["app.toml:1:23: server.http.ratelimit.key is \"ip\", it must be global, client, path, or header:NAME"],
    ),
    (
        "server.http.ratelimit.trusted_proxies = [\"0.0.0.0/0\"]",
        &[
            "app.toml:1:42: server.http.ratelimit.trusted_proxies is [\"0.0.0.0/0\"], it must be a list of networks such as \"10.0.0.0/8\", at least 8 bits of IPv4 or 7 of IPv6 (0.0.0.0/0 would trust too many clients, the shortest prefix is 8 bits)",
        ],
    ),
    (
        "[server.http.ratelimits]\nburst = 5",
        &["app.toml:1:14: server.http.ratelimits is no known key, did you mean server.http.ratelimit?"],
    ),
    (
        "[server.http.ratelimit]\nrequest_per_second = 5\nbrust = 1",
        &[
            "app.toml:2:1: server.http.ratelimit.request_per_second is no known key, did you mean server.http.ratelimit.requests_per_second?",
            "app.toml:3:1: server.http.ratelimit.brust is no known key, did you mean server.http.ratelimit.burst?",
        ],
    ),
    ("[client.http.retries]", &["app.toml:1:14: client.http.retries is no known key, did you mean client.http.retry?"]),
    (
        "client.http.retrys.max_attempt = 5",
        &["app.toml:1:13: client.http.retrys is no known key, did you mean client.http.retry?"],
    ),
    ("[retries]", &["app.toml:1:2: retries is no known key, did you mean client.http.retry?"]),
    ("[databases]", &["app.toml:1:2: databases is no known key; one of your program's own is for Sources::foreign"]),
    ("[ratelimit]\nburst = 5", &["app.toml:1:2: ratelimit is no known key, did you mean server.http.ratelimit?"]),
    ("[server]\nhttp = 5", &["app.toml:2:1: server.http is 5, it must be a table of settings"]),
    ("[server.http.ratelimit]\nburst = 5\nburst = 6", &["app.toml:3:1: duplicate key"]),
    ("[server.http.ratelimit\nburst = 5", &["app.toml:1:23: unclosed table, expected `]`"]),
    (
        "client.http.circuit_breaker.cooldown = 30",
        &[
            "app.toml:1:29: client.http.circuit_breaker.cooldown is 30, it must be a duration from 1ms to 100days, such as \"30s\" (a number needs a unit)",
        ],
    ),
    (
        "client.http.circuit_breaker.cooldown = \"0s\"",
        &[
            "app.toml:1:29: client.http.circuit_breaker.cooldown is \"0s\", it must be a duration from 1ms to 100days, such as \"30s\"",
        ],
    ),
    (
        "[client.http.circuit_breaker]\ncooldown = \"1h\"\nmax_cooldown = \"1m\"\nfailure_threshold = 4294967295",
        &[
            "app.toml:4:1: client.http.circuit_breaker.failure_threshold is 4294967295, it must be a whole number from 1 to 1000",
            "app.toml:3:1: client.http.circuit_breaker: max_cooldown must be no less than cooldown; max_cooldown is \"1m\" (app.toml:3:1), cooldown is \"1h\" (app.toml:2:1)",
        ],
    ),
    (
        "client.http.circuit_breaker.cooldown = '1M'",
        &[
            "app.toml:1:29: client.http.circuit_breaker.cooldown is \"1M\", it must be a duration from 1ms to 100days, such as \"30s\" (M is no unit here: m is a minute, and a month is given in days)",
        ],
    ),
    (
        "[client.http]\ncircuit_breaker.failure_threshold = 1001\ncircuit_breaker.cooldown = '1us'\ncircuit_breaker.cooldown_jitter = 100\nretry_budget.floor = 1000000",
        &[
            "app.toml:2:17: client.http.circuit_breaker.failure_threshold is 1001, it must be a whole number from 1 to 1000",
            "app.toml:3:17: client.http.circuit_breaker.cooldown is \"1us\", it must be a duration from 1ms to 100days, such as \"30s\"",
            "app.toml:4:17: client.http.circuit_breaker.cooldown_jitter is 100, it must be a percentage from 0% to 90%, such as \"50%\"",
            "app.toml:5:14: client.http.retry_budget.floor is 1000000, it must be a whole number from 0 to 10000",
        ],
    ),
    (
        "client.grpc.retry.max_attempts = 1000000",
        &["app.toml:1:19: client.grpc.retry.max_attempts is 1000000, it must be a whole number from 1 to 100"],
    ),
    (
        "[server.http.bulkhead]\nlimit = 1.5",
        &["app.toml:2:1: server.http.bulkhead.limit is 1.5, it must be a whole number from 1 to 1000000"],
    ),
    (
        "[server.http.admission]\nmin_limit = 50\nmax_limit = 10",
        &[
            "app.toml:2:1: server.http.admission: min_limit must be no more than max_limit, with initial_limit between them; min_limit is 50 (app.toml:2:1), max_limit is 10 (app.toml:3:1)",
        ],
    ),
    (
        "[server.http.ratelimit]\nalgorithm = 'sliding_log'\nkey = 'client'",
        &[
            "app.toml:2:1: server.http.ratelimit: with another key than global, algorithm must be token_bucket, fixed_window or sliding_counter; algorithm is \"sliding_log\" (app.toml:2:1), key is \"client\" (app.toml:3:1)",
        ],
    ),
    (
        "[server.http.ratelimit]\nalgorithm = 'sliding_log'\nquota = '2000000/day burst 100'",
        &[
            "app.toml:2:1: server.http.ratelimit: a window must have at most 1000000 requests with a sliding_log, and 10000000 with a sliding_counter; per key or tier, at most 1048574 with a sliding_counter, and 4294967294 with a fixed_window; algorithm is \"sliding_log\" (app.toml:2:1), quota is \"2000000/day burst 100\" (app.toml:3:1)",
        ],
    ),
    (
        "[server.http.ratelimit]\nquota = '5/s'\n[server.http.ratelimit.tiers.free]\n# quota = '1/s'\n[server.http.ratelimit.tiers.pro]\nquota = '9/s'\n[server.http.ratelimit.tiers.team.quota]",
        &[
            "app.toml:3:30: server.http.ratelimit.tiers.free is a table, it must be a quota such as \"100/s burst 200\", at most 10000000 a second, burst 1 to 10000000; an empty table is none",
            "app.toml:7:35: server.http.ratelimit.tiers.team.quota is a table, it must be a quota such as \"100/s burst 200\", at most 10000000 a second, burst 1 to 10000000; an empty table is none",
        ],
    ),
    (
        "client.http.stack.circuit_breaker = 'off'\nclient.http.stack.concurrency = 'all'",
        &[
            "app.toml:1:19: client.http.stack.circuit_breaker is \"off\", it must be true or false",
            "app.toml:2:19: client.http.stack.concurrency is \"all\", it must be one of none, bulkhead, bulkhead_per_host, adaptive_limit",
        ],
    ),
    (
        "server.mesh.functions = ['orders.create']\nserver.mesh.user = '5/s max_debt 9'",
        &[
            "app.toml:1:26: server.mesh.functions is [\"orders.create\"], it must be a list of functions with quotas such as \"orders.create 100/min burst 20\" (\"orders.create\" is no name with a quota)",
            "app.toml:2:13: server.mesh.user is \"5/s max_debt 9\", it must be a quota such as \"100/s burst 200\", at most 10000000 a second, burst 1 to 10000000 (max_debt is not read from settings)",
        ],
    ),
    (
        "[client.http.circuit_breaker]\nmax_cooldown = '10s'",
        &[
            "app.toml:2:1: client.http.circuit_breaker: max_cooldown must be no less than cooldown; max_cooldown is \"10s\" (app.toml:2:1), cooldown is \"30s\" by default",
        ],
    ),
    (
        "\"\" = 1\n[client.http.a_section_whose_name_is_far_too_long_for_one_message.retry]\nmax_atempts = 5",
        &[
            "app.toml:1:1: \"\" is no known key; one of your program's own is for Sources::foreign",
            "app.toml:2:14: …nt.http.a_section_whose_name_is_far_too_long_for_one_message is no known key; one of your program's own is for Sources::foreign",
        ],
    ),
    (
        "client.http.throttle.multiplier = true\nclient.http.throttle.max_refused = 1\nclient.http.hedge.max_extra = 0",
        &[
            "app.toml:1:22: client.http.throttle.multiplier is true, it must be a number from 1 to 10",
            "app.toml:2:22: client.http.throttle.max_refused is 1, it must be a percentage from 0% to 99%, such as \"20%\", or the fraction 0.2 (1 percent are written \"1%\")",
            "app.toml:3:19: client.http.hedge.max_extra is 0, it must be a percentage from 0.1% to 100%, such as \"20%\", or the fraction 0.2",
        ],
    ),
    (
        "[client.http.pacing]\nquota = '0/s'\nstrategy = 'leveled'\nmultiplier = 0.5\ndivisor = 0\nmax_attempts = 0\nmax_time = '0s'",
        &[
            "app.toml:2:1: client.http.pacing.quota is \"0/s\", it must be a quota such as \"100/s burst 200\", at most 10000000 a second, burst 1 to 10000000",
            "app.toml:3:1: client.http.pacing.strategy is \"leveled\", it must be one of level, remaining_decrease, none",
            "app.toml:4:1: client.http.pacing.multiplier is 0.5, it must be a number from 1 to 10",
            "app.toml:5:1: client.http.pacing.divisor is 0, it must be a whole number from 1 to 10000000",
            "app.toml:6:1: client.http.pacing.max_attempts is 0, it must be a whole number from 1 to 100",
            "app.toml:7:1: client.http.pacing.max_time is \"0s\", it must be a duration from 1ms to 1day, such as \"30s\"",
        ],
    ),
    (
        "[client.http.pacing]\ninitial_sleep = '2s'\n[client.grpc.pacing]\ninitial_sleep = '5s'\nmax_sleep = '4s'\nquota = '100/min'",
        &[
            "app.toml:4:1: client.grpc.pacing: initial_sleep must be no more than max_sleep, or than the window of the quota (at least 1s) if max_sleep is unset; initial_sleep is \"5s\" (app.toml:4:1), max_sleep is \"4s\" (app.toml:5:1), quota is \"100/min burst 100\" (app.toml:6:1)",
            "app.toml:2:1: client.http.pacing: initial_sleep must be no more than max_sleep, or than the window of the quota (at least 1s) if max_sleep is unset; initial_sleep is \"2s\" (app.toml:2:1), quota is \"50/s burst 100\" by default",
        ],
    ),
    (
        "[server.http.ratelimit]\ntiers = [\n    '5/s',\n    '0/s',\n]\ntrusted_proxies = ['10.0.0.0/8', 5]",
        &[
            "app.toml:4:5: server.http.ratelimit.tiers is [\"5/s\", \"0/s\"], it must be at most 15 quotas such as \"100/s burst 200\", by the names of tiers or in a list (\"0/s\": at most 10000000 a second, burst 1 to 10000000)",
            "app.toml:6:34: server.http.ratelimit.trusted_proxies is [\"10.0.0.0/8\", 5], it must be a list of networks such as \"10.0.0.0/8\", at least 8 bits of IPv4 or 7 of IPv6",
        ],
    ),
];

#[test]
fn each_mistake_is_named_with_line_key_value_and_range() {
    for (text, expected) in BROKEN {
        let error = Sources::new().toml("app.toml", text).load().expect_err(text);
        assert_eq!(error.to_string(), expected.join("\n"), "{text}");
    }
}

#[test]
fn normalized_settings_protect_as_the_defaults_do() {
    for (text, expected) in BROKEN {
        let (settings, problems) = Sources::new().toml("app.toml", text).normalized();
        assert_eq!(problems.len(), expected.len(), "{text}");
        assert!(problems.iter().all(|problem| problem.instead().is_some()), "{problems:?}");
        assert_protects(&settings, text);
        let again = Sources::new().toml("normalized", &settings.to_toml()).load().expect(text);
        assert_eq!(again, settings, "what is written is read: {text}");
    }
}

#[test]
fn an_empty_section_protects_as_the_defaults_do() {
    for (format, text) in [
        (Format::Toml, "[server.http.ratelimit]\n[client]"),
        (Format::Json, "{\"server\": {\"http\": {\"ratelimit\": {}}}}"),
        (Format::Yaml, "server:\n  http:\n    ratelimit:\n      # burst: 5\n"),
        (Format::Yaml, "# nothing\n"),
    ] {
        let settings = Sources::new().text("app", format, text).load().expect(text);
        assert_eq!(settings, Settings::default(), "{text}");
        assert_protects(&settings, text);
    }
}

#[test]
fn a_bad_value_leaves_that_of_an_earlier_source() {
    let sources = Sources::new().toml("file", "server.http.ratelimit.burst = 7").value(
        "--option",
        "server.http.ratelimit.burst",
        "0",
    );
    let (settings, problems) = sources.normalized();
    assert_eq!(settings.server.http.ratelimit.burst(), 7);
    assert_eq!(
        problems[0].to_string(),
        "--option: server.http.ratelimit.burst is \"0\", it must be a whole number from 1 to 10000000; 7 is used instead",
    );
}

#[test]
fn a_broken_file_is_ignored_by_normalized_settings() {
    let sources = Sources::new().toml("one.toml", "[").toml("two.toml", "server.http.ratelimit.burst = 7");
    let (settings, problems) = sources.normalized();
    assert_eq!(settings.server.http.ratelimit.burst(), 7);
    assert!(problems[0].to_string().starts_with("one.toml:1:2: ") && problems.len() == 1, "{problems:?}");
    assert!(problems[0].to_string().ends_with("; the file is ignored"), "{problems:?}");
}

#[test]
fn a_missing_file_and_an_unknown_format_are_errors() {
    let error = Sources::new().file("/does/not/exist.toml").file("/etc/hosts").load().unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("/does/not/exist.toml: cannot read the file: "), "{text}");
    assert!(
        text.ends_with("/etc/hosts: the format is unknown, the name must end with .toml, .json, .yaml or .yml"),
        "{text}"
    );
}

#[test]
fn a_text_that_is_too_large_and_one_that_is_no_text_are_errors() {
    let large = Sources::new().toml("large", &" ".repeat((1 << 17) + 1)).load().unwrap_err();
    assert_eq!(large.to_string(), "large: the text is longer than the maximum of 131072 bytes");
    let keys: Vec<String> = (0..3_000).map(|key| format!("a{key}=1")).collect();
    let error = Sources::new().toml("keys", &keys.join("\n")).load().unwrap_err();
    // All can be looked at, but a log gets no 3,000 lines.
    assert_eq!((error.problems().len(), error.to_string().lines().count()), (3_000, 51));
    assert!(error.to_string().ends_with("\nand 2950 more"), "{error}");
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bytes.yaml");
    std::fs::write(&file, [b'a', 0xFF]).unwrap();
    assert!(Sources::new().file(&file).load().unwrap_err().to_string().contains("bytes.yaml: the file is not UTF-8: "));
}

#[test]
fn a_network_of_proxies_is_no_large_part_of_all_addresses() {
    for (network, why) in [
        ("0.0.0.0/0", "0.0.0.0/0 would trust too many clients, the shortest prefix is 8 bits"),
        ("128.0.0.0/1", "128.0.0.0/1 would trust too many clients, the shortest prefix is 8 bits"),
        ("2000::/3", "2000::/3 would trust too many clients, the shortest prefix is 7 bits"),
        // All of IPv4, as IPv6 writes it.
        ("::ffff:0:0/96", "::ffff:0:0/96 would trust too many clients, the shortest prefix is 104 bits"),
        ("::ffff:128.0.0.0/97", "::ffff:128.0.0.0/97 would trust too many clients, the shortest prefix is 104 bits"),
        ("::/16", "::/16 would trust too many clients, the shortest prefix is 104 bits"),
        // Octal to others.
        ("010.0.0.1/8", "\"010.0.0.1/8\" is no network"),
    ] {
        let text = format!("server.http.ratelimit.trusted_proxies = [{network:?}]");
        let error = Sources::new().toml("app.toml", &text).load().expect_err(network).to_string();
        assert!(error.ends_with(&format!("({why})")), "{error}");
    }
    for network in ["10.0.0.0/8", "10.0.0.1", "fc00::/7", "::1", "::ffff:10.0.0.0/104", "2001:db8::/32"] {
        let text = format!("server.http.ratelimit.trusted_proxies = [{network:?}]");
        Sources::new().toml("app.toml", &text).load().expect(network);
    }
}

#[test]
fn a_key_cannot_write_lines_of_its_own_into_a_log() {
    let error = Sources::new().toml("app", "\"a\\nb\" = 1").load().unwrap_err();
    assert_eq!(error.to_string(), "app:1:1: a\\nb is no known key; one of your program's own is for Sources::foreign");
}

/// The assertion on protection is one that can fail.
#[test]
fn settings_that_protect_less_are_noticed() {
    for text in [
        "server.http.ratelimit.quota = '10000000/s'",
        "server.http.ratelimit.burst = 2000",
        "client.http.circuit_breaker.failure_threshold = 900",
        "server.http.bulkhead.limit = 1000000",
        "server.http.admission.fixed_limit = 2000",
        "client.grpc.retry.max_attempts = 50",
        "client.http.stack.circuit_breaker = false",
        "server.http.stack.ratelimit = false",
        "client.http.pacing.strategy = 'none'",
        "client.http.pacing.quota = '100000/s'",
    ] {
        let settings = Sources::new().toml("app.toml", text).load().unwrap();
        let protects = std::panic::catch_unwind(|| assert_protects(&settings, text));
        assert!(protects.is_err(), "{text}");
    }
}

/// Builds what guards, and tries it. The broken texts ask for no more than the defaults allow.
fn assert_protects(settings: &Settings, text: &str) {
    let limits = &settings.server.http.ratelimit;
    let limiter = limits.limiter();
    let allowed = (0..10_000).filter(|_| limiter.check().is_ok()).count();
    assert!((1..=1_000).contains(&allowed), "{text}: {allowed}");
    let limiter = limits.any_limiter().unwrap();
    let allowed = (0..10_000).filter(|_| limiter.try_acquire(1).is_ok()).count();
    assert!(
        (1..=1_000).contains(&allowed),
        "{text}: {allowed} by {:?}",
        settings.value("server.http.ratelimit.algorithm")
    );
    let table = limits.keyed_builder::<str>().build().unwrap();
    let allowed = (0..10_000).filter(|_| table.check("client").is_ok()).count();
    assert!((1..=1_000).contains(&allowed), "{text}: {allowed}");

    let breaker = CircuitBreaker::new(settings.client.http.circuit_breaker.config());
    let called =
        (0..1_000).filter(|_| breaker.call(|| Err::<(), _>(())).is_err_and(|error| !error.is_refused())).count();
    assert!((1..=100).contains(&called), "{text}: {called}");

    let bulkhead = settings.server.http.bulkhead.bulkhead();
    let permits: Vec<_> = (0..2_000).map_while(|_| bulkhead.try_acquire().ok()).collect();
    assert!((1..2_000).contains(&permits.len()), "{text}: {}", permits.len());
    let gate = settings.server.http.admission.fixed();
    assert!((1..2_000).contains(&gate.limit()), "{text}");
    assert!(settings.client.grpc.retry.retry().max_attempts() <= 10, "{text}");
    let pacer = settings.client.http.pacing.pacer();
    let sleep = pacer.answered(&Hints::REJECTED.remaining(Some(0))).expect("a rejected call is made again");
    assert!(sleep >= Duration::from_millis(1), "{text}: {sleep:?}");
    // A mistake switches no part of a stack off.
    let (server, client) = (&settings.server.http.stack, &settings.client.http.stack);
    assert!(server.deadline() && server.ratelimit(), "{text}");
    assert!(client.deadline() && client.circuit_breaker() && client.retry(), "{text}");
    assert_eq!(settings.buildable(), Ok(()), "{text}");
}

#[test]
fn a_conflict_takes_back_what_the_last_source_gave_and_nothing_else() {
    for (first, second, expected) in [
        // One mistaken variable must not lift a limit.
        (
            "ratelimit.quota = '1/h'\nadaptive_limit.max_limit = 10",
            "ratelimit.burst = 5\nadaptive_limit.min_limit = 50",
            "ratelimit.quota = '1/h'\nadaptive_limit.max_limit = 10",
        ),
        // The values that the quota had overridden are back with it.
        (
            "ratelimit.requests_per_second = 1",
            "ratelimit.quota = '100/s'\nratelimit.burst = 5",
            "ratelimit.requests_per_second = 1\nratelimit.burst = 5",
        ),
        (
            "admission.min_limit = 2",
            "admission.min_limit = 50\nadmission.max_limit = 10",
            "admission.min_limit = 2\nadmission.max_limit = 10",
        ),
    ] {
        let of = |text: &str| format!("[server.http]\n{text}");
        let (settings, problems) = Sources::new().toml("one", &of(first)).toml("two", &of(second)).normalized();
        let expected = Sources::new().toml("expected", &of(expected)).load().unwrap();
        assert_eq!(settings, expected, "{first}\n{second}");
        assert!(problems.iter().all(|problem| problem.source_name() == "two"), "{problems:?}");
    }
}

#[test]
fn of_a_conflict_in_one_source_the_tighter_value_stays() {
    for (text, expected, message) in [
        (
            "adaptive_limit.min_limit = 50\nadaptive_limit.max_limit = 10",
            "adaptive_limit.max_limit = 10",
            "; min_limit 1 is used instead",
        ),
        (
            "adaptive_limit.min_limit = 50\nadaptive_limit.initial_limit = 60\nadaptive_limit.max_limit = 10",
            "adaptive_limit.max_limit = 10",
            "; min_limit 1, initial_limit unset is used instead",
        ),
        ("ratelimit.quota = '1/h'\nratelimit.burst = 5", "ratelimit.quota = '1/h'", "; burst 100 is used instead"),
        ("ratelimit.quota = '1000/s'\nratelimit.burst = 5", "ratelimit.burst = 5", "; quota unset is used instead"),
        (
            "ratelimit.quota = '7200/h'\nratelimit.requests_per_second = 3",
            "ratelimit.quota = '7200/h'",
            "; requests_per_second 50.0 is used instead",
        ),
    ] {
        let of = |text: &str| format!("[server.http]\n{text}");
        let (settings, problems) = Sources::new().toml("app", &of(text)).normalized();
        assert_eq!(settings, Sources::new().toml("expected", &of(expected)).load().unwrap(), "{text}");
        assert!(problems.len() == 1 && problems[0].to_string().ends_with(message), "{problems:?}");
    }
}

#[test]
fn a_right_configuration_is_taken_whatever_the_order_of_its_keys() {
    // The values of the first source would contradict the cooldown of the second, which is set before its max_cooldown.
    let one =
        "{\"client.http.circuit_breaker\": {\"cooldown\": \"30s\", \"max_cooldown\": \"60s\", \"window_calls\": 100}}";
    let two = "{\"client.http.circuit_breaker\": {\"cooldown\": \"5m\", \"window_time\": \"10s\", \"max_cooldown\": \"10m\"}}";
    let sources = Sources::new().text("one", Format::Json, one).text("two", Format::Json, two);
    let settings = sources.load().unwrap();
    assert_eq!(settings.client.http.circuit_breaker.window_calls(), None);
}

#[test]
fn a_conflict_of_two_sources_names_both() {
    let error = Sources::new()
        .toml("app.toml", "server.http.ratelimit.quota = '1/h'")
        .value("--burst", "server.http.ratelimit.burst", "5")
        .load()
        .unwrap_err();
    let expected = "--burst: server.http.ratelimit: quota stands instead of requests_per_second and burst, give one or the other; quota is \"1/h burst 1\" (app.toml:1:23), burst is 5 (--burst)";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_rate_that_is_too_high_for_its_algorithm_is_named() {
    let text = "server.http.ratelimit = { algorithm = 'sliding_log', requests_per_second = 2e6 }";
    let error = Sources::new().toml("app.toml", text).load().unwrap_err().to_string();
    let values = "; algorithm is \"sliding_log\" (app.toml:1:27), requests_per_second is 2000000.0 (app.toml:1:54)";
    assert!(error.ends_with(values), "{error}");
}

#[test]
fn a_mistake_in_a_list_has_the_position_of_its_element() {
    let key = "server.http.ratelimit.tiers";
    for (format, text, position) in [
        (Format::Toml, format!("{key} = ['1/s', '2/s', 'x']"), (1, 46)),
        (Format::Json, format!("{{\"{key}\": [\"1/s\",\n  \"x\"]}}"), (2, 3)),
        (Format::Yaml, format!("{key}:\n  - 1/s\n  - x"), (3, 5)),
        // The first that is too many.
        (Format::Toml, format!("{key} = [{}]", "'1/s',".repeat(17)), (1, 32 + 6 * 15)),
    ] {
        let error = Sources::new().text("app", format, &text).load().expect_err(&text);
        let problem = &error.problems()[0];
        assert_eq!((problem.line(), problem.column()), (Some(position.0), Some(position.1)), "{text}");
    }
    // A variable has no lines.
    let error = Sources::new().value("--tiers", key, "1/s,x").load().unwrap_err();
    assert!(error.to_string().starts_with("--tiers: server.http.ratelimit.tiers is \"1/s,x\", "), "{error}");
}

#[test]
fn a_path_and_a_list_that_are_long_are_cut_where_the_mistake_is_not() {
    let text = format!("server.http.ratelimit.{}_brust = 1", "a".repeat(200));
    let error = Sources::new().toml("app.toml", &text).load().unwrap_err().to_string();
    assert!(error.contains("aaaa_brust is no known key") && error.chars().count() < 180, "{error}");
    let list = "[".to_owned() + &"\"x\", ".repeat(1_000) + "]";
    let error = Sources::new().toml("app.toml", &format!("server.http.ratelimit.tiers = {list}")).load().unwrap_err();
    assert!(error.to_string().contains("tiers is [\"x\", \"x\", \"x\", \"x\", …], it must be"), "{error}");
}

#[test]
fn a_file_that_is_no_regular_file_is_an_error() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("folder.toml");
    std::fs::create_dir_all(&folder).unwrap();
    let error = Sources::new().file(&folder).load().unwrap_err().to_string();
    assert!(error.ends_with("folder.toml: cannot read the file: it is no regular file"), "{error}");
}
