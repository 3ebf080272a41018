//! The messages of errors: the value, then the constraint, in lower case without a full stop.

use damper::breaker::SetConfigError;
use damper::retry::Failure;
use damper::time::Seed;
#[cfg(feature = "alloc")]
use damper::{
    BoxedError, SlidingLog, TreeRefusal,
    concurrency::Criticality,
    gate::{Refusal, RefusalKind},
};
use damper::{
    BreakerConfig, CircuitBreaker, Deadline, LimitSet, ManualClock, Quota, Ramp, Retry, SetQuotaError, SlidingCounter,
    TierError, TokenBucket,
};
use std::error::Error;
use std::time::Duration;

#[track_caller]
fn says(error: &dyn Error, message: &str) {
    assert_eq!(error.to_string(), message);
    // This is what `main` and `unwrap` print.
    assert_eq!(format!("{error:?}"), message);
    assert!(!message.ends_with('.') && !message.starts_with(char::is_uppercase));
    assert!(error.source().is_none());
}

#[test]
fn quota_errors() {
    says(
        &Quota::every(Duration::ZERO).unwrap_err(),
        "interval is 0 ns, it must be 1 ns to 18446744073.709551615 s (584 years)",
    );
    for (error, message) in [
        (SetQuotaError::Busy, "another thread is changing the quota"),
        (
            SetQuotaError::TooFast { quota: Quota::per_minute(5_000).burst(1), most: 17 },
            "5000/min exceeds the maximum 17/min that the limiter was built for",
        ),
        (
            SetQuotaError::WindowTooShort { window: Duration::from_nanos(7), least: Duration::from_micros(2) },
            "a window of 7ns is below the minimum 2µs that the limiter was built for",
        ),
        (
            SetQuotaError::TooLarge { tokens: 9_000, most: 8_191 },
            "burst and max_debt are 9000 tokens, which exceeds the maximum 8191 that the limiter was built for",
        ),
        (
            SetQuotaError::LimitTooLarge { limit: 70_000, most: 65_535 },
            "limit 70000 exceeds the maximum 65535 that the limiter can count",
        ),
        (
            SetQuotaError::FixedLimit,
            "the limit of this limiter is fixed by what it was built with, only its window can be changed",
        ),
        (
            SetQuotaError::BurstWithinBudget,
            "the burst must be more than the budget of leases or stripes that the limiter was built with",
        ),
    ] {
        says(&error, message);
    }
}

#[test]
fn window_and_limit_set_errors() {
    #[cfg(feature = "alloc")]
    says(
        &SlidingLog::new(Quota::per_second(1 << 25)).unwrap_err(),
        "limit is 33554432, it must be at most 16777216 (2^24, of a sliding log)",
    );
    says(
        &SlidingCounter::new(Quota::per_second(1 << 24)).unwrap_err(),
        "limit is 16777216, it must be at most 16777215 (2^24 - 1, of a sliding counter)",
    );
    let both = LimitSet::with_algorithms(
        [Quota::per_second(5), Quota::per_minute(3)].map(TokenBucket::new),
        ManualClock::new(),
    );
    both.check_n(3).unwrap();
    says(&both.check().unwrap_err(), "limit 2 (3/min burst 3): rate limit exceeded, retry in 20 s");
    says(
        &both.check_n(4).unwrap_err(),
        "limit 2 (3/min burst 3): rate limit exceeded: more tokens asked for than the burst",
    );
}

#[test]
fn tier_errors() {
    says(&TierError::Missing { tier: 3, tiers: 2 }, "tier 3 does not exist, there are 2");
    says(&TierError::Missing { tier: 1, tiers: 1 }, "tier 1 does not exist, there is 1");
    says(&TierError::Quota { tier: 2, error: SetQuotaError::Busy }, "tier 2: another thread is changing the quota");
    says(&TierError::TooMany, "there are 15 tiers, which is the maximum");
    says(&TierError::OneQuota, "the limiter has one quota for all keys, it was built without tiers");
}

#[test]
fn texts_of_quotas_say_what_is_expected_where() {
    for (text, message) in [
        ("x/s", "at byte 0: expected a whole number"),
        ("4294967296/s", "at byte 0: the number exceeds the maximum 4294967295"),
        ("10 s", "at byte 2: expected a slash between limit and window, as in 100/s"),
        ("10/fortnight", "at byte 3: expected a unit of time: ns, us, ms, s, min, h, day, or a name such as minute"),
        ("10/0.1ns", "at byte 3: expected a window such as 250ms or 1.5s, in whole nanoseconds"),
        ("10/s brust 5", "at byte 5: expected burst or max_debt, as in 100/s burst 200"),
        ("10/s burst 5 burst 6", "at byte 13: the setting is there already"),
        ("10/0s", "at byte 3: the window is zero, it must be at least 1 ns"),
        ("1/600000000min", "at byte 2: the window exceeds the maximum of 2^64 - 1 ns (584 years)"),
    ] {
        says(&text.parse::<Quota>().unwrap_err(), message);
    }
}

#[test]
fn breaker_and_ramp_messages() {
    says(&SetConfigError::Busy, "another thread is changing the configuration");
    let seconds = Duration::from_secs(30);
    assert_eq!(Ramp::steps(seconds).to_string(), "steps of 30 s");
    assert_eq!(Ramp::linear(seconds).to_string(), "linear in 30 s");
}

#[cfg(feature = "alloc")]
#[test]
fn concurrency_messages() {
    says(&TreeRefusal::TimedOut, "other calls waited for the limits longer than this one could");
    assert_eq!(TreeRefusal::TimedOut.kind(), RefusalKind::Unavailable);
    let names = [
        (Criticality::CriticalPlus, "critical plus"),
        (Criticality::Critical, "critical"),
        (Criticality::SheddablePlus, "sheddable plus"),
        (Criticality::Sheddable, "sheddable"),
    ];
    for (class, name) in names {
        assert_eq!(class.to_string(), name);
    }
}

#[cfg(feature = "alloc")]
#[test]
fn boxed_error_reads_as_the_error_in_it() {
    let error = BoxedError::from(Box::<dyn Error + Send + Sync>::from(SetQuotaError::Busy));
    says(&error, "another thread is changing the quota");
    assert!(error.get_ref().is::<SetQuotaError>());
    assert!(error.into_inner().is::<SetQuotaError>());
}

#[test]
fn declined_retry_says_that_the_server_asked_for_none() {
    let clock = ManualClock::new();
    let retry = Retry::with_clock(2, &clock, 7).when(|_: &Result<(), Busy>| Some(Failure::TRANSIENT.declined()));
    let declined = retry.call_sleeping_by(|wait| clock.advance(wait), |_| Err(Busy)).unwrap_err();
    assert_eq!(declined.to_string(), "gave up after 1 attempt in 0 ns: the server asked for no retry");
}

#[derive(Debug)]
struct Busy;

#[test]
fn quota_display() {
    for (quota, text) in [
        (Quota::per_second(50).burst(100), "50/s burst 100"),
        (Quota::per_minute(30), "30/min burst 30"),
        (Quota::per_hour(1_000).burst(1), "1000/h burst 1"),
        (Quota::per(10, Duration::from_millis(250)).unwrap(), "10/250ms burst 10"),
        (Quota::UNLIMITED, "unlimited"),
    ] {
        assert_eq!(quota.to_string(), text);
    }
}

/// Returns the text that `main` prints after `Error: ` when it returns an error.
fn printed_by_main<E: Error>(result: Result<(), E>) -> String {
    format!("{:?}", result.unwrap_err())
}

#[test]
fn main_prints_the_message_of_an_error_and_its_sources() {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), &clock);
    let call = || breaker.call(|| "x".parse::<u32>().map(drop)).map_err(|error| Box::new(error) as Box<dyn Error>);
    assert_eq!(format!("{:?}", call().unwrap_err()), "call failed: ParseIntError { kind: InvalidDigit }");
    breaker.force_open();
    assert_eq!(format!("{:?}", call().unwrap_err()), "call refused: circuit forced open");

    let retry = Retry::with_clock(2, &clock, 7);
    let refused = || breaker.call(|| "42".parse::<u32>().map(drop));
    let error = retry.call_sleeping_by(|wait| clock.advance(wait), |_| refused());
    assert_eq!(
        printed_by_main(error),
        "gave up after 1 attempt in 0 ns: not retryable: call refused: circuit forced open"
    );
    let late = retry.deadline(Deadline::with_clock(Duration::ZERO, &clock));
    assert_eq!(
        printed_by_main(late.call_sleeping_by(drop, |_| refused())),
        "gave up after 0 attempts in 0 ns: no time left"
    );
}

/// Every `Error` of the crates writes its `Debug` by itself, so that no `main` prints the fields of a struct.
#[cfg(feature = "std")]
#[test]
fn no_error_derives_its_debug() {
    let mut sources = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))];
    let mut errors = 0;
    while let Some(path) = sources.pop() {
        if path.is_dir() {
            sources.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "rs")
            || !path.components().any(|part| part.as_os_str() == "src")
        {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let implemented = text.lines().filter(|line| line.starts_with("impl"));
        for name in implemented.filter_map(|line| line.split_once("Error for ")).map(|(_, name)| name) {
            let name = name.split(|letter: char| !letter.is_alphanumeric()).next().unwrap();
            let mut attributes: Vec<&str> = Vec::new();
            for line in text.lines() {
                let is_defined = ["pub struct ", "pub enum "].iter().any(|start| {
                    line.strip_prefix(start)
                        .and_then(|rest| rest.strip_prefix(name))
                        .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
                });
                if is_defined {
                    errors += 1;
                    assert!(
                        !attributes.iter().any(|line| line.starts_with("#[derive(") && line.contains("Debug")),
                        "{name} in {} derives Debug",
                        path.display()
                    );
                }
                if line.starts_with("#[") || line.starts_with("//") {
                    attributes.push(line);
                } else {
                    attributes.clear();
                }
            }
        }
    }
    assert!(errors > 40, "found only {errors} errors");
}

/// Returns what the compiler says about a `main` with this body, beside a damper without features.
#[cfg(feature = "std")]
fn compiler_output(body: &str) -> String {
    let core = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiler-messages");
    std::fs::create_dir_all(package.join("src")).unwrap();
    let manifest = format!(
        "[package]\nname = 'compiler-messages'\nedition = '2024'\n[workspace]\n\
         [dependencies]\ndamper-core = {{ path = '{}', default-features = false }}\n",
        core.display()
    );
    std::fs::write(package.join("Cargo.toml"), manifest).unwrap();
    std::fs::copy(core.join("../../Cargo.lock"), package.join("Cargo.lock")).unwrap();
    std::fs::write(package.join("src/main.rs"), format!("fn main() {{ {body} }}\n")).unwrap();
    let mut cargo = std::process::Command::new(env!("CARGO"));
    cargo.args(["check", "--quiet", "--offline"]).current_dir(&package).env("CARGO_TARGET_DIR", package.join("target"));
    // Flags such as those of a coverage build concern the test, not the program that it compiles.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    String::from_utf8_lossy(&cargo.output().unwrap().stderr).into_owned()
}

#[cfg(feature = "std")]
#[test]
fn compiler_names_when_for_retries_of_errors_without_error() {
    let retry =
        "let clock = damper_core::ManualClock::new(); let retry = damper_core::Retry::with_clock(3, &clock, 7);";
    for call in [
        "let _ = retry.run(|_| async { Err::<(), &str>(\"no\") });",
        "let _ = retry.call_sleeping_by(drop, |_| Err::<(), &str>(\"no\"));",
    ] {
        let output = compiler_output(&format!("{retry} {call}"));
        for part in ["error[E0277]", "from `Result<(), &str>`", "name what to retry: `.when(|result| result.is_err()"] {
            assert!(output.contains(part), "{call}: {output}");
        }
    }
    let call = "let _ = retry.run(|_| async { Err::<(), _>(core::fmt::Error) });";
    assert_eq!(compiler_output(&format!("{retry} {call}")), "", "an error that implements `Error` is retried");
}

#[test]
fn debug_output_hides_the_seed() {
    assert_eq!(format!("{:?}", Seed::new(1, 2)), "Seed(..)");
}
