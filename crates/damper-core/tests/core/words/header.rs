//! The header of shared words.

use damper::time::Seed;
use damper::words::{AtomicU64, Contents, Header, HeaderError};
use damper::{BreakerConfig, ManualClock, Plan, Quota};
use std::hash::BuildHasher;
use std::num::NonZeroU8;
use std::sync::atomic::Ordering;

const SEED: Seed = Seed::new(2, 4);

fn words() -> [AtomicU64; 9] {
    [const { AtomicU64::new(0) }; 9]
}

fn contents() -> Contents {
    Contents::version(1).plan(&Plan::new(Quota::per_second(10)).unwrap()).number(200).boot_id(b"a boot")
}

#[test]
fn the_first_seed_is_that_of_all_processes() {
    let (words, clock) = (words(), ManualClock::new());
    clock.set_ticks(77);
    let first = Header::create(&words, &contents(), SEED, &clock).unwrap();
    clock.set_ticks(99);
    let again = Header::create(&words, &contents(), Seed::new(8, 16), &clock).unwrap();
    let worker = Header::attach(&words, &contents(), &clock).unwrap();
    for header in [again, worker] {
        assert_eq!((header.created_at(), header.seed().hash_one(5)), (77, first.seed().hash_one(5)));
    }
    assert_eq!(words[8].load(Ordering::Relaxed), 0, "a header has eight words");
}

#[test]
fn a_header_half_written_is_completed() {
    let (words, clock) = (words(), ManualClock::new());
    Header::create(&words, &contents(), SEED, &clock).unwrap();
    for killed_after in 1..7 {
        let left = self::words();
        for index in 1..killed_after {
            left[index].store(words[index].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        assert_eq!(Header::attach(&left, &contents(), &clock).unwrap_err(), HeaderError::NotCreated);
        let header = Header::create(&left, &contents(), Seed::new(2, 4), &clock).unwrap();
        assert_eq!(header.seed().hash_one(5), Seed::new(3, 5).hash_one(5));
    }
}

#[test]
fn refusals_say_what_differs() {
    let (words, clock) = (words(), ManualClock::new());
    clock.set_ticks(77);
    let attach = |contents: Contents| Header::attach(&words, &contents, &clock).map(|_| ()).unwrap_err();
    assert_eq!(attach(contents()), HeaderError::NotCreated);
    Header::create(&words, &contents(), SEED, &clock).unwrap();
    for other in [contents().number(1), contents().breaker(&BreakerConfig::DEFAULT)] {
        let error = attach(other);
        assert!(matches!(error, HeaderError::Contents { found, expected } if found != expected), "{error}");
    }
    let error = attach(contents().boot_id(b"another"));
    assert!(matches!(error, HeaderError::Boot { found, expected } if found != expected), "{error}");
    let other = ManualClock::with_frequency(1_000);
    other.set_ticks(77);
    let error = Header::attach(&words, &contents(), &other).unwrap_err();
    assert_eq!(error.to_string(), "the frequency of the clock differs, found 1000000000, expected 1000");

    clock.set_ticks(76);
    let error = attach(contents());
    assert_eq!(error, HeaderError::BeforeCreation { created_at: 77, now: 76 });
    assert_eq!(
        error.to_string(),
        "the clock reads 76, before the words were created at 77: after a reboot, or in another time namespace"
    );
    clock.set_ticks(77);
    let first = words[0].load(Ordering::Relaxed);
    words[0].store(first + 1, Ordering::Relaxed);
    assert_eq!(attach(contents()).to_string(), "the version of damper's layouts differs, found 2, expected 1");
    words[0].store(first << 1, Ordering::Relaxed);
    let error = attach(contents());
    assert!(matches!(error, HeaderError::NoHeader { found, expected } if found != expected), "{error}");
    let error = Header::create(&words[..7], &contents(), SEED, &clock).unwrap_err();
    assert_eq!(error.to_string(), "words is 7, it must be at least 8 (the header)");
}

#[test]
fn messages_name_what_differs_and_both_values() {
    let (words, clock) = (words(), ManualClock::new());
    let attach = |contents: Contents| Header::attach(&words, &contents, &clock).unwrap_err().to_string();
    assert_eq!(attach(contents()), "the header of the words was not created yet");
    Header::create(&words, &contents(), SEED, &clock).unwrap();
    for (message, start) in [
        (attach(contents().number(1)), "the plans or settings of the words differ, found 0x"),
        (attach(contents().boot_id(b"another")), "the boot of the words differs, found 0x"),
    ] {
        assert!(message.starts_with(start), "{message}");
        let [found, expected] = message[start.len()..].split(", expected 0x").collect::<Vec<_>>()[..] else {
            panic!("{message}")
        };
        assert_ne!(found, expected);
    }
    let mark = words[0].load(Ordering::Relaxed);
    words[0].store(mark << 1, Ordering::Relaxed);
    assert!(attach(contents()).starts_with("the mark of the words differs, found 0x"));
}

#[test]
fn every_setting_counts() {
    let plan = Plan::new(Quota::per_second(10)).unwrap();
    let all = [
        Contents::version(1),
        Contents::version(2),
        Contents::version(1).number(0),
        Contents::version(1).number(1),
        Contents::version(1).number(0).number(1),
        Contents::version(1).number(1).number(0),
        Contents::version(1).plan(&plan),
        Contents::version(1).plan(&plan.tagged(NonZeroU8::MIN)),
        Contents::version(1).plan(&Plan::new(Quota::per_second(10).burst(9)).unwrap()),
        Contents::version(1).plan(&Plan::new(Quota::per_second(10).max_debt(9)).unwrap()),
        Contents::version(1).plan(&Plan::new(Quota::per_minute(10)).unwrap()),
        Contents::version(1).breaker(&BreakerConfig::DEFAULT),
        Contents::version(1).breaker(&BreakerConfig::builder().failure_threshold(6).build().unwrap()),
        Contents::version(1).breaker(&BreakerConfig::builder().max_probes(2).build().unwrap()),
    ];
    for (index, one) in all.iter().enumerate() {
        for (other_index, other) in all.iter().enumerate() {
            assert_eq!(one == other, index == other_index, "{index}, {other_index}");
        }
    }
}
