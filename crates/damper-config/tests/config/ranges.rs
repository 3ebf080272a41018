//! The ends of each range: what is in is built, as it is given; what is out is refused.

use damper_config::{Kind, ProblemCause, Settings, Sources};
use damper_core::Quota;
use damper_core::Ramp;
use damper_core::breaker::{BreakerConfig, Window};
use damper_core::retry::{RetryBudgetConfig, Unlimited};
use damper_core::throttle::{Hints, Level, Moment, NoPacing, PacedRetry, RemainingDecrease, Strategy};
use std::time::Duration;

/// Each key at both ends of its range, and beyond them; `None` where there is nothing beyond.
fn ends() -> Vec<(String, [String; 2], Vec<String>)> {
    let words = |duration: Duration| format!("{}s {}ns", duration.as_secs(), duration.subsec_nanos());
    let tick = Duration::from_nanos(1);
    let ends = Settings::keys().into_iter().filter_map(|key| {
        let (inside, outside) = match key.kind {
            Kind::Count { min, max } => (
                [min.to_string(), max.to_string()],
                vec![(i64::from(min) - 1).to_string(), (i64::from(max) + 1).to_string()],
            ),
            Kind::Number { min, max } => {
                ([min.to_string(), max.to_string()], vec![(min - 1e-4).to_string(), (max + 1e-4).to_string()])
            }
            Kind::Percent { min, max } => (
                [format!("{min}%"), max.to_string()],
                vec![format!("{}%", i64::from(min) - 1), format!("{}%", max + 1)],
            ),
            Kind::Fraction { min, max } => (
                [format!("{}%", min * 100.0), max.to_string()],
                vec![(min - 1e-4).to_string(), (max + 1e-4).to_string()],
            ),
            Kind::Duration { min, max } => (
                [words(min), words(max)],
                min.checked_sub(tick).map(words).into_iter().chain([words(max + tick)]).collect(),
            ),
            _ => return None,
        };
        Some((key.path, inside, outside))
    });
    ends.collect()
}

#[test]
fn both_ends_of_each_range_are_taken_and_nothing_beyond() {
    for (key, inside, outside) in ends() {
        for value in inside {
            if let Err(error) = Sources::new().value("--option", &key, &value).load() {
                // It may contradict the default of another key, and nothing else.
                let is_conflict = matches!(error.problems()[0].cause(), ProblemCause::Conflict { .. });
                assert!(is_conflict && error.to_string().contains(" by default"), "{key} = {value}: {error}");
            }
        }
        for value in outside {
            let error = Sources::new().value("--option", &key, &value).load().expect_err(&key);
            assert!(error.to_string().contains(&format!("{key} is {value:?}, it must be ")), "{error}");
        }
    }
}

#[test]
fn each_end_is_what_is_built_and_not_a_default_instead() {
    for (key, inside, _) in ends() {
        for value in inside {
            // With company that fits it.
            let company = [
                ("cooldown", "max_cooldown", "2400h"),
                ("base_delay", "max_delay", "24h"),
                ("attempt_timeout", "timeout", "24h"),
                ("initial_sleep", "max_sleep", "24h"),
            ];
            let mut sources = Sources::new().value("--option", &key, &value);
            for (name, other, fitting) in company {
                if let Some(section) = key.strip_suffix(&format!(".{name}")) {
                    sources = sources.value("--option", &format!("{section}.{other}"), fitting);
                }
            }
            let Ok(settings) = sources.load() else { continue };
            assert_eq!(settings.buildable(), Ok(()), "{key} = {value}");
        }
    }
}

/// A file that `damper-config check` accepts does not stop a server at its start.
#[test]
fn largest_limit_of_each_algorithm_and_key_is_built_and_no_larger_one_is_read() {
    let with = |section: &str, text: String| Sources::new().toml("app.toml", &format!("[server.{section}]\n{text}"));
    let (sliding, fixed, unlimited) = ((1 << 20) - 2, u32::MAX - 1, u32::MAX);
    for (settings, largest) in [
        ("algorithm = 'sliding_log'", 1_000_000),
        ("algorithm = 'sliding_counter'", 10_000_000),
        ("algorithm = 'sliding_counter'\nkey = 'client'", sliding),
        ("algorithm = 'sliding_counter'\nkey = 'path'", sliding),
        ("algorithm = 'sliding_counter'\nkey = 'header:x-client'", sliding),
        // A limit of all requests ignores tiers.
        ("algorithm = 'sliding_counter'\ntiers = ['5/day']", 10_000_000),
        ("algorithm = 'sliding_counter'\nkey = 'client'\ntiers = ['5/day']", sliding),
        ("algorithm = 'fixed_window'", unlimited),
        ("algorithm = 'fixed_window'\nkey = 'client'", fixed),
        ("key = 'client'", unlimited),
    ] {
        let limited = |limit: u64| with("http.ratelimit", format!("{settings}\nquota = '{limit}/day burst 5'")).load();
        assert_eq!(limited(largest.into()).unwrap().buildable(), Ok(()), "{settings}");
        assert!(largest == unlimited || limited(u64::from(largest) + 1).is_err(), "{settings}");
    }
    let tier = |algorithm: &str, limit: u64| {
        with(
            "http.ratelimit",
            format!("algorithm = '{algorithm}'\ntiers = {{ free = '5/s', pro = '{limit}/day burst 5' }}"),
        )
    };
    // No limit per key counts by these, so the tiers are token buckets.
    for algorithm in ["leaky_bucket", "sliding_log"] {
        assert_eq!(tier(algorithm, unlimited.into()).load().unwrap().buildable(), Ok(()), "{algorithm}");
    }
    for (algorithm, largest) in [("sliding_counter", sliding), ("fixed_window", fixed), ("token_bucket", unlimited)] {
        let tier = |limit: u64| tier(algorithm, limit);
        let scope = |limit: u64| with("mesh", format!("algorithm = '{algorithm}'\nuser = '{limit}/day burst 5'"));
        for sources in [&tier as &dyn Fn(u64) -> Sources, &scope] {
            assert_eq!(sources(largest.into()).load().unwrap().buildable(), Ok(()), "{algorithm}");
            assert!(largest == unlimited || sources(u64::from(largest) + 1).load().is_err(), "{algorithm}");
        }
    }
}

#[test]
fn builders_use_the_values_that_were_read() {
    let text = "failure_threshold = 7\ncooldown = '9s'\nmax_cooldown = '20s'\ncooldown_factor = 2.5\ncooldown_jitter = 30\n\
        failure_rate = 40\nslow_rate = 60\nslow_call = '250ms'\nwindow_time = '20s'\nminimum_calls = 11\nmax_retry_after = '1h'\n\
        half_open_max_requests = 3\nsuccesses_to_close = 2\nprobe_failure_rate = 50\nmax_half_open = '8s'\nabandoned_probes_fail = true\nramp = '20s'\nramp_shape = 'steps'";
    let settings = Sources::new().toml("app", &format!("[client.http.circuit_breaker]\n{text}")).load().unwrap();
    let config = settings.client.http.circuit_breaker.config();
    let expected = BreakerConfig::builder()
        .failure_threshold(7)
        .cooldown(Duration::from_secs(9))
        .max_cooldown(Duration::from_secs(20))
        .cooldown_factor(2.5)
        .cooldown_jitter(30)
        .failure_rate(40)
        .slow_rate(60, Duration::from_millis(250))
        .window(Window::last(Duration::from_secs(20)))
        .minimum_calls(11)
        .max_retry_after(Duration::from_hours(1))
        .max_probes(3)
        .successes_to_close(2)
        .probe_failure_rate(50)
        .max_half_open(Duration::from_secs(8))
        .abandoned_probes_fail()
        .ramp(Ramp::steps(Duration::from_secs(20)));
    assert_eq!(config, expected.build().unwrap());

    let text = "[client.http]\nhedge = { max_attempts = 3, max_extra = 0.5, fixed_delay = '5ms' }\nretry.max_attempts = 6\n\
        ratelimit = { requests_per_second = 3, burst = 4 }\nadaptive_limit = { min_limit = 3, max_limit = 9, initial_limit = 4 }\n\
        retry_budget = { ratio = 0.5, ttl = '5s', floor = 2, reserve = 7 }";
    let settings = Sources::new().toml("app", text).load().unwrap();
    let client = &settings.client.http;
    let hedge = client.hedge.config();
    assert_eq!((hedge.max_attempts(), hedge.max_extra()), (3, 0.5));
    assert_eq!(hedge.fixed_delay(), Some(Duration::from_millis(5)));
    assert_eq!(client.retry.retry().max_attempts(), 6);
    assert_eq!(client.ratelimit.limiter().quota().to_string(), "3/s burst 4");
    let bounds = client.adaptive_limit.bounds();
    assert_eq!((bounds.min(), bounds.max(), client.adaptive_limit.limit().limit()), (3, 9, 4));
    let budget = RetryBudgetConfig::builder().ratio(0.5).ttl(Duration::from_secs(5)).floor(2).reserve(7);
    assert_eq!(client.retry_budget.config(), budget.build().unwrap());
}

/// The sleeps after each of these answers, without chance.
fn sleeps(strategy: &impl Strategy) -> Vec<Duration> {
    let (mut learned, mut schedule) = (0, 0);
    let answers = [Hints::REJECTED, Hints::ACCEPTED.remaining(Some(3)), Hints::REJECTED.retry_after(Some(DAY))];
    let sleeps = (0_u64..).zip(answers).flat_map(|(second, hints)| {
        let moment = Moment::new(second * 1_000_000, 0);
        let before = strategy.before_call(learned, moment);
        let again = strategy.answered(&mut learned, &hints, moment);
        let placed = strategy.schedule(&mut schedule, learned, again, moment);
        let pause = strategy.pause(learned, &hints).unwrap_or_default();
        [before, again, placed, pause, strategy.spread(learned, pause)]
    });
    sleeps.collect()
}

const DAY: Duration = Duration::from_secs(24 * 3600);

#[test]
fn each_strategy_of_pacing_has_the_options_that_were_read() {
    let (quota, start, cap) = (Quota::per_minute(30), Duration::from_secs(5), Duration::from_secs(9));
    let of = |options: &str| {
        let text = format!("client.http.pacing = {{ quota = '30/min', {options} }}");
        let settings = Sources::new().toml("app", &text).load().unwrap();
        assert_eq!(settings.buildable(), Ok(()), "{options}");
        sleeps(settings.client.http.pacing.pacer().strategy())
    };
    let options = "initial_sleep = '5s', max_sleep = '9s', multiplier = 3.0, divisor = 7";
    macro_rules! expected {
        ($strategy:ident $($setter:ident($value:expr))*) => { sleeps(&$strategy::new(quota)$(.$setter($value).unwrap())*) };
    }
    for (name, expected) in [
        ("level", expected!(Level cap(cap) start(start))),
        ("remaining_decrease", expected!(RemainingDecrease cap(cap) start(start) multiplier(3.0) divisor(7))),
        ("none", sleeps(&NoPacing)),
    ] {
        assert_eq!(of(&format!("{options}, strategy = '{name}'")), expected, "{name}");
        for ends in [
            "multiplier = 1.0, divisor = 1, max_sleep = '1us'",
            "multiplier = 10.0, divisor = 10000000, initial_sleep = '1day', max_sleep = '1day'",
        ] {
            of(&format!("{ends}, strategy = '{name}'"));
        }
    }
    // The defaults are those of the strategies.
    assert_eq!(of("strategy = 'level'"), expected!(Level));
    assert_eq!(of("strategy = 'remaining_decrease'"), expected!(RemainingDecrease));

    let settings =
        Sources::new().toml("app", "client.http.pacing = { max_attempts = 4, max_time = '9s', max_hint = '7s' }");
    let pacing = settings.load().unwrap().client.http.pacing;
    let retry = pacing.retry(Unlimited);
    assert_eq!((retry.max_attempts(), retry.longest_time()), (4, Duration::from_secs(9)));
    let pacer = pacing.pacer();
    pacer.answered(&Hints::REJECTED.retry_after(Some(DAY)));
    assert!((6..=7).contains(&pacer.peek().as_secs()), "{:?}", pacer.peek());
    let default = Settings::default().client.http.pacing.retry(Unlimited);
    assert_eq!(default, PacedRetry::DEFAULT);
}

#[test]
fn each_choice_is_read_and_written() {
    let mut count = 0;
    for key in Settings::keys() {
        let Kind::Choice(choices) = key.kind else { continue };
        for choice in choices {
            let (section, name) = key.path.rsplit_once('.').unwrap();
            // The key that this one needs.
            let needed = match name {
                "alignment" => Some(("algorithm", "fixed_window")),
                "default_class" => Some(("class_header", "x-class")),
                "mark_class" => Some(("mark", "true")),
                "ramp_shape" => Some(("ramp", "30s")),
                _ => None,
            };
            let with = |(key, value)| Sources::new().value("--option", &format!("{section}.{key}"), value);
            let sources = needed.map_or_else(Sources::new, with);
            let settings = sources.value("--option", &key.path, choice).load().unwrap();
            assert!(settings.to_toml().contains(&format!("{name} = \"{choice}\"")), "{} = {choice}", key.path);
            count += 1;
        }
    }
    assert!(count >= 30, "{count}");
}
