//! The ends of each range: what is in is built, as it is given; what is out is refused.

use damper_config::{Kind, Settings, Sources};
use std::time::Duration;

/// Each key at both ends of its range, and beyond them; `None` where there is nothing beyond.
fn ends() -> Vec<(String, [String; 2], Vec<String>)> {
    let words = |duration: Duration| format!("{}s {}ns", duration.as_secs(), duration.subsec_nanos());
    let tick = Duration::from_nanos(1);
    let ends = Settings::keys().into_iter().filter_map(|key| {
        let (inside, outside) = match key.key.kind() {
            Kind::Count { min, max } => (
                [min.to_string(), max.to_string()],
                vec![(i64::from(min) - 1).to_string(), (i64::from(max) + 1).to_string()],
            ),
            Kind::Number { min, max } => {
                ([min.to_string(), max.to_string()], vec![(min - 1e-4).to_string(), (max + 1e-4).to_string()])
            }
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
            // Some contradict the default of another key.
            if let Err(error) = Sources::new().value(&key, &value).load() {
                assert!(error.to_string().contains(" must be no "), "{key} = {value}: {error}");
            }
        }
        for value in outside {
            let error = Sources::new().value(&key, &value).load().expect_err(&key);
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
            ];
            let mut sources = Sources::new().value(&key, &value);
            for (name, other, fitting) in company {
                if let Some(section) = key.strip_suffix(&format!(".{name}")) {
                    sources = sources.value(&format!("{section}.{other}"), fitting);
                }
            }
            let Ok(settings) = sources.load() else { continue };
            let breaker = &settings.client.http.circuit_breaker;
            let config = breaker.config();
            assert_eq!(config.failure_threshold(), breaker.failure_threshold(), "{key} = {value}");
            assert_eq!(
                (config.cooldown(), config.max_probes()),
                (breaker.cooldown(), breaker.half_open_max_requests()),
                "{key} = {value}"
            );
            assert_eq!(config.minimum_calls(), breaker.minimum_calls(), "{key} = {value}");
            let hedge = &settings.client.http.hedge;
            assert_eq!(hedge.config().max_attempts(), hedge.max_attempts(), "{key} = {value}");
            let adaptive = &settings.server.http.adaptive_limit;
            assert_eq!(
                (adaptive.bounds().min(), adaptive.bounds().max()),
                (adaptive.min_limit(), adaptive.max_limit()),
                "{key} = {value}"
            );
            assert_eq!(
                settings.client.http.retry.retry().max_attempts(),
                settings.client.http.retry.max_attempts(),
                "{key} = {value}"
            );
            assert_eq!(
                settings.server.http.bulkhead.bulkhead().limit(),
                settings.server.http.bulkhead.limit(),
                "{key} = {value}"
            );
            let limits = &settings.server.http.ratelimit;
            assert_eq!(limits.effective_quota().burst_size(), limits.burst(), "{key} = {value}");
            assert_eq!(limits.limiter().quota(), limits.effective_quota(), "{key} = {value}");
        }
    }
}
