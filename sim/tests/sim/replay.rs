//! A day of ordinary traffic, its log, and the smallest quota for it.
#![allow(clippy::cast_precision_loss, reason = "counts are far below 2^52 here")]

use damper::decision_log::{DecisionLog, Logged};
use damper::{KeyedLimiter, ManualClock, Quota};
use damper_sim::random::Random;
use damper_sim::replay::decision_file::{DecisionFile, DecisionFileError, LineError};
use damper_sim::replay::options::Arguments;
use damper_sim::replay::report::report;
use damper_sim::replay::search::{Family, Replay, Share, Window};
use std::collections::HashMap;
use std::time::Duration;

const DAY: f64 = 86_400.0;

/// The calls of a day: seconds, client and cost, in their order.
///
/// Most come in the evening, and in bursts.
fn day(seed: u64, costs: u32) -> Vec<(f64, u32, u32)> {
    let mut random = Random::new(seed);
    let mut calls = Vec::new();
    for client in 0..40 {
        let visits = 20.0 + 60.0 * random.uniform();
        let mut at = random.exponential(DAY / visits);
        while at < DAY {
            // Twice as many at the end of the day as at its begin.
            if random.uniform() < 0.5 + 0.5 * at / DAY {
                let mut call = at;
                for _ in 0..(1.0 + random.exponential(12.0)) as u32 {
                    let cost = 1 + (random.uniform() * f64::from(costs)) as u32;
                    calls.push((call, client, cost));
                    call += random.exponential(0.3);
                }
            }
            at += random.exponential(DAY / visits);
        }
    }
    calls.sort_by(|one, other| one.0.total_cmp(&other.0));
    calls
}

/// Sends the calls through a limiter that logs, and returns the file that a reader wrote every hour.
fn logged(calls: &[(f64, u32, u32)], quota: Quota) -> String {
    let clock = ManualClock::new();
    let log = DecisionLog::with_clock(1 << 15, &clock);
    let limits = KeyedLimiter::<u32>::builder(quota).capacity(1_000).clock(&clock).build().unwrap();
    let limits = Logged::new(limits, &log);
    let (mut reader, mut file, mut hour) = (log.reader(), Vec::new(), 1.0);
    for (seconds, client, cost) in calls {
        while *seconds >= hour * 3_600.0 {
            reader.write_to(&mut file).unwrap();
            hour += 1.0;
        }
        clock.set_ticks(Duration::from_secs_f64(*seconds).as_nanos() as u64);
        _ = limits.check_n(client, *cost);
    }
    reader.write_to(&mut file).unwrap();
    String::from_utf8(file).unwrap()
}

/// A bucket per key in exact numbers: a token is as many parts as the window has microseconds.
fn refused_by_model(file: &DecisionFile, limit: u32, window_micros: u128, burst: u32) -> usize {
    let full = u128::from(burst) * window_micros;
    let mut buckets: HashMap<u64, (u128, u128)> = HashMap::new();
    let refused = file.decisions.iter().filter(|decision| {
        let now = decision.at.as_micros();
        let (level, at) = buckets.entry(decision.key).or_insert((full, now));
        *level = (*level + (now - *at) * u128::from(limit)).min(full);
        *at = now;
        let cost = u128::from(decision.cost) * window_micros;
        let is_refused = *level < cost;
        *level -= if is_refused { 0 } else { cost };
        is_refused
    });
    refused.count()
}

#[test]
fn smallest_quota_of_a_day_is_that_of_brute_force() {
    for seed in 1..=3 {
        let calls = day(seed, 0);
        let file: DecisionFile = logged(&calls, Quota::per_minute(60).burst(20)).parse().unwrap();
        assert_eq!((file.decisions.len(), file.lost), (calls.len(), 0));
        assert!(calls.len() > 10_000, "{} calls", calls.len());
        let replay = Replay::new(&file);
        assert_eq!(replay.keys(), 40);
        for (window, micros) in [(Window::Second, 1_000_000), (Window::Minute, 60_000_000)] {
            for (share, burst) in [(0.001, None), (0.02, None), (0.001, Some(30)), (0.05, Some(10))] {
                let family = Family { window, burst };
                let found = replay.smallest(family, Share::new(share).unwrap()).unwrap();
                let refused = |limit: u32| refused_by_model(&file, limit, micros, burst.unwrap_or(limit));
                let enough = |refused: usize| refused as f64 <= share * calls.len() as f64;
                assert_eq!(found.refused, refused(found.limit), "{family:?} {share} {}", found.limit);
                assert!(enough(found.refused));
                let by_brute_force = (1..=found.limit).find(|limit| enough(refused(*limit))).unwrap();
                assert_eq!(found.limit, by_brute_force, "{family:?} {share}");
            }
        }
    }
}

#[test]
fn next_smaller_quota_is_not_enough_where_costs_differ() {
    let file: DecisionFile = logged(&day(1, 9), Quota::per_minute(600)).parse().unwrap();
    let replay = Replay::new(&file);
    assert!(replay.costs_differ());
    let (family, share) = (Family { window: Window::Minute, burst: None }, Share::new(0.01).unwrap());
    let found = replay.smallest(family, share).unwrap();
    let most = share.of(replay.calls());
    assert!(refused_by_model(&file, found.limit, 60_000_000, found.limit) <= most);
    assert!(refused_by_model(&file, found.limit - 1, 60_000_000, found.limit - 1) > most);
}

/// The replay of the quota that was in force refuses the calls that were refused.
#[test]
fn quota_in_force_refuses_as_it_did() {
    let quota = Quota::per_minute(30).burst(5);
    let file: DecisionFile = logged(&day(4, 0), quota).parse().unwrap();
    let refused = file.decisions.iter().filter(|decision| !decision.is_allowed).count();
    assert!(refused > 1_000);
    assert!(Replay::new(&file).refused(quota).abs_diff(refused) <= 2, "times have microseconds");
}

#[test]
fn calls_that_exceed_the_burst_have_no_quota() {
    let file: DecisionFile = "0 a 7 allowed\n1 a 7 allowed\n".parse().unwrap();
    let replay = Replay::new(&file);
    let family = Family { window: Window::Second, burst: Some(6) };
    assert_eq!(replay.smallest(family, Share::new(0.5).unwrap()), None);
    assert_eq!(replay.smallest(family, Share::new(1.0).unwrap()).unwrap().refused, 2);
    let empty = Replay::new(&DecisionFile::default());
    assert_eq!(empty.smallest(family, Share::new(0.0).unwrap()).unwrap().limit, 1);
}

#[test]
fn errors_name_the_line_and_what_is_allowed() {
    for (text, error) in [
        ("# a comment\n\n1 a 1 yes", "line 3: the answer is \"yes\", it must be allowed or refused"),
        ("lost many", "line 1: lost is followed by \"many\", it must be a number from 0 to 18446744073709551615"),
        (
            "1 a 1 allowed\n2",
            "line 2: the decision is \"2\", it must be of 4 fields: microseconds, key, cost and answer",
        ),
    ] {
        assert_eq!(text.parse::<DecisionFile>().map_err(|error| error.to_string()), Err(error.to_owned()));
    }
    let lost = DecisionFileError { line: 1, cause: LineError::Lost { found: "x".into() } };
    assert_eq!("lost x".parse::<DecisionFile>(), Err(lost));
    let file: DecisionFile = "lost 3\n2 b 1 refused\n1 a 1 allowed\nlost 4".parse().unwrap();
    assert_eq!((file.lost, file.decisions[0].key), (7, 0xA), "in the order of their times");
}

#[test]
fn command_prints_the_smallest_quota() {
    let lines: Vec<String> = (0..1_000).map(|call| format!("{} a 1 allowed", call * 100_000)).collect();
    let file: DecisionFile = lines.join("\n").parse().unwrap();
    let arguments = Arguments::parse(&["FILE", "--refuse-at-most", "0.1%", "--burst", "1"]).unwrap();
    let printed = report(&file, &arguments).unwrap();
    assert!(printed.starts_with("1000 calls of 1 keys in 0.0 h: 0 were refused (0.000 %), 0 are lost"), "{printed}");
    assert!(printed.contains("smallest quota: 10/s burst 1, which refuses 0 calls (0.000 %)"), "{printed}");
    for (arguments, error) in [
        (&["FILE", "--refuse-at-most", "101%"][..], "--refuse-at-most 101%: must be from 0% to 100%, or from 0 to 1"),
        (&["FILE", "--per", "week"], "--per week: must be second, minute or hour"),
        (&["FILE", "--burst", "0"], "--burst 0: must be from 1 to 4294967295"),
    ] {
        assert_eq!(Arguments::parse(arguments), Err(error.to_owned()));
    }
    assert!(Arguments::parse(&[]).unwrap_err().starts_with("the file is missing"));
    assert!(Arguments::parse(&["FILE", "--burst"]).unwrap_err().starts_with("--burst has no value"));
}
