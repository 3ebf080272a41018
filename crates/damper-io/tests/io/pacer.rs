//! The state machine beside its model, and the envelope of all connections of a limit.

use crate::cases::cases;
use crate::line_model::{LineModel, ModelQuota, ModelWait};
use damper::io::BytePacer;
use damper::{Clock, ManualClock, Quota, RateLimiter, TokenBucket};
use proptest::prelude::*;
use std::cell::Cell;
use std::time::Duration;

/// An operation of a connection, or time that passes.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// A connection asks, and moves a part of what it may, in 4ths of the offer.
    Io {
        connection: usize,
        wanted: u64,
        quarters: u64,
    },
    /// A connection asks, and does nothing.
    Ask {
        connection: usize,
        wanted: u64,
    },
    Pause {
        connection: usize,
    },
    /// A connection ends, and another one comes in its place.
    Replace {
        connection: usize,
    },
    Advance {
        nanos: u64,
    },
}

const CONNECTIONS: usize = 4;

fn op() -> impl Strategy<Value = Op> {
    let wanted = || prop_oneof![Just(0_u64), 1..100_u64, 100..5_000_u64, Just(4_096), Just(65_536), Just(1 << 20)];
    let connection = || 0..CONNECTIONS;
    prop_oneof![
        6 => (connection(), wanted(), prop_oneof![4 => Just(4_u64), 1 => 0..5_u64])
            .prop_map(|(connection, wanted, quarters)| Op::Io { connection, wanted, quarters }),
        2 => (connection(), wanted()).prop_map(|(connection, wanted)| Op::Ask { connection, wanted }),
        1 => connection().prop_map(|connection| Op::Pause { connection }),
        1 => connection().prop_map(|connection| Op::Replace { connection }),
        3 => prop_oneof![0..3_000_u64, 0..3_000_000_u64, 0..300_000_000_u64].prop_map(|nanos| Op::Advance { nanos }),
    ]
}

/// Quotas of which a byte takes a whole number of nanoseconds, so that the model is exact.
fn exact_quota() -> impl Strategy<Value = ModelQuota> {
    let rates = prop_oneof![Just(10_u64), Just(100), Just(1_000), Just(10_000), Just(1_000_000), Just(5_000_000_000)];
    let bursts = prop_oneof![1..10_u64, 1..3_000_u64, 1..100_000_u64];
    (rates, bursts, prop_oneof![Just(None), (0..200_000_u64).prop_map(Some)]).prop_map(
        |(nanos_per_byte, burst, max_debt)| ModelQuota {
            nanos_per_byte,
            burst,
            max_debt: max_debt.unwrap_or(10 * burst),
        },
    )
}

fn quota_of(model: ModelQuota) -> Quota {
    let quota = Quota::every(Duration::from_nanos(model.nanos_per_byte)).unwrap();
    quota.burst(model.burst as u32).max_debt(model.max_debt as u32)
}

/// Compares each answer with the model's, after each operation of any connection.
fn compare<const N: usize>(quotas: [ModelQuota; N], ops: Vec<Op>) -> Result<(), TestCaseError> {
    let clock = ManualClock::new();
    let limits = quotas.map(|quota| RateLimiter::<TokenBucket, _>::with_clock(quota_of(quota), &clock));
    // The sizes depend on the rate that the quota states.
    prop_assert!(quotas.into_iter().all(states_its_rate));
    let mut pacers: [_; CONNECTIONS] = std::array::from_fn(|_| BytePacer::all(limits.each_ref()));
    let mut model = LineModel::new(&quotas, CONNECTIONS);
    for limit in &limits {
        let _ = limit.peek(); // starts the line
    }
    for op in ops {
        match op {
            Op::Io { connection, wanted, .. } | Op::Ask { connection, wanted } => {
                let answer = pacers[connection].ask(wanted as usize);
                let expected = model.ask(connection, wanted);
                match expected {
                    Ok(bytes) => prop_assert_eq!(answer, Ok(bytes as usize)),
                    Err(ModelWait::Nanos(nanos)) => {
                        prop_assert_eq!(answer, Err(Duration::from_nanos(nanos.min(1_000_000_000))));
                    }
                    Err(ModelWait::Refused) => {
                        prop_assert!(answer.is_err_and(|wait| wait <= Duration::from_secs(1)), "{answer:?}");
                    }
                }
                if let (Op::Io { quarters, .. }, Ok(offered)) = (op, expected) {
                    let moved = offered * quarters / 4;
                    pacers[connection].report(offered as usize, moved as usize);
                    model.report(connection, offered, moved);
                }
            }
            Op::Pause { connection } => {
                pacers[connection].pause();
                model.pause(connection);
            }
            Op::Replace { connection } => {
                pacers[connection] = pacers[connection].clone();
                model.pause(connection);
            }
            Op::Advance { nanos } => {
                clock.advance(Duration::from_nanos(nanos));
                model.advance(nanos);
            }
        }
        let remaining: Vec<_> = limits.iter().map(|limit| u64::from(limit.peek().remaining())).collect();
        let debts: Vec<_> = limits.iter().map(|limit| u64::from(limit.debt())).collect();
        prop_assert_eq!((remaining, debts), (model.remaining(), model.debts()), "{:?}", op);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(200) })]

    // CLAIM: io::BytePacer
    #[test]
    fn pacer_is_its_model(quota in exact_quota(), ops in proptest::collection::vec(op(), 1..120)) {
        compare([quota], ops)?;
    }

    // CLAIM: io::BytePacer
    #[test]
    fn pacer_of_two_limits_is_its_model(
        total in exact_quota(), client in exact_quota(), ops in proptest::collection::vec(op(), 1..120),
    ) {
        compare([total, client], ops)?;
    }

    // CLAIM: io::BytePacer
    /// Connections move at most the burst, the bytes of the rate and those they kept, in any stretch.
    #[test]
    fn connections_keep_to_the_envelope(quota in exact_quota(), ops in proptest::collection::vec(op(), 1..120)) {
        let clock = ManualClock::new();
        let limit = RateLimiter::with_clock(quota_of(quota), &clock);
        let mut pacers: [_; CONNECTIONS] = std::array::from_fn(|_| BytePacer::new(&limit));
        let mut model = LineModel::new(&[quota], CONNECTIONS);
        let (mut at, mut total) = (0_u64, 0_u64);
        // The time, the bytes moved until then, and what the connections kept then.
        let mut history = vec![(0, 0, 0)];
        for op in ops {
            match op {
                Op::Io { connection, wanted, quarters } => {
                    if let Ok(offered) = pacers[connection].ask(wanted as usize) {
                        let _ = model.ask(connection, wanted);
                        let moved = offered * quarters as usize / 4;
                        pacers[connection].report(offered, moved);
                        model.report(connection, offered as u64, moved as u64);
                        total += moved as u64;
                    } else {
                        let _ = model.ask(connection, wanted);
                    }
                }
                Op::Ask { connection, wanted } => {
                    let _ = pacers[connection].ask(wanted as usize);
                    let _ = model.ask(connection, wanted);
                }
                Op::Pause { connection } => {
                    pacers[connection].pause();
                    model.pause(connection);
                }
                Op::Replace { connection } => {
                    pacers[connection] = pacers[connection].clone();
                    model.pause(connection);
                }
                Op::Advance { nanos } => {
                    clock.advance(Duration::from_nanos(nanos));
                    model.advance(nanos);
                    at += nanos;
                }
            }
            for &(since, before, kept) in &history {
                let brought = (at - since + 1) / quota.nanos_per_byte + 1;
                prop_assert!(total - before <= quota.burst + brought + kept, "{before} to {total}, {kept} kept");
            }
            history.push((at, total, model.kept()));
        }
    }

    /// The envelope holds on a clock that advances at each reading, and no byte is lost for good.
    #[test]
    fn pacer_on_a_restless_clock(
        step in 1..50_000_u64, quota in exact_quota(), ops in proptest::collection::vec(op(), 1..120),
    ) {
        let clock = Restless { now: Cell::new(0), step };
        let limit = RateLimiter::with_clock(quota_of(quota), &clock);
        let mut pacers: [_; CONNECTIONS] = std::array::from_fn(|_| BytePacer::new(&limit));
        let mut total = 0_u64;
        for op in ops {
            match op {
                Op::Io { connection, wanted, quarters } => {
                    if let Ok(offered) = pacers[connection].ask(wanted as usize) {
                        prop_assert!(offered as u64 <= wanted && (offered > 0 || wanted == 0));
                        let moved = offered * quarters as usize / 4;
                        pacers[connection].report(offered, moved);
                        total += moved as u64;
                    }
                }
                Op::Ask { connection, wanted } => drop(pacers[connection].ask(wanted as usize)),
                Op::Pause { connection } => pacers[connection].pause(),
                Op::Replace { connection } => pacers[connection] = pacers[connection].clone(),
                Op::Advance { nanos } => clock.now.set(clock.now.get() + nanos),
            }
            let brought = (clock.now.get() + step) / quota.nanos_per_byte + 1;
            prop_assert!(total <= quota.burst + brought, "{total}");
        }
        drop(pacers);
        clock.now.set(clock.now.get() + (quota.burst + quota.max_debt + 1) * quota.nanos_per_byte);
        prop_assert_eq!(u64::from(limit.peek().remaining()), quota.burst);
    }
}

/// Returns whether the quota has the rate of the model.
fn states_its_rate(model: ModelQuota) -> bool {
    let quota = quota_of(model);
    quota.limit() == 1 && quota.window() == Duration::from_nanos(model.nanos_per_byte)
}

/// A clock that advances at each reading.
#[derive(Debug)]
struct Restless {
    now: Cell<u64>,
    step: u64,
}

impl Clock for Restless {
    fn now(&self) -> u64 {
        self.now.set(self.now.get() + self.step);
        self.now.get()
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

#[test]
fn second_limit_that_refuses_leaves_the_first_untouched() {
    let clock = ManualClock::new();
    let total = RateLimiter::with_clock(Quota::per_second(1_000_000), &clock);
    let closed = RateLimiter::with_clock(Quota::per_second(0), &clock);
    let mut pacer = BytePacer::all([&total, &closed]);
    assert_eq!(pacer.ask(1_000), Err(Duration::from_secs(1)));
    assert_eq!((total.peek().used(), total.debt()), (0, 0));
    closed.set_quota(Quota::per_second(1_000)).unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(pacer.ask(1_000), Ok(20));
}

#[test]
fn chunk_suits_the_smallest_limit_in_any_order() {
    let clock = ManualClock::new();
    let [total, client] = [10_000_000, 1_000_000].map(|rate| RateLimiter::with_clock(Quota::per_second(rate), &clock));
    assert_eq!(BytePacer::all([&total, &client]).ask(64_000), Ok(2_000));
    assert_eq!(BytePacer::all([&client, &total]).ask(64_000), Ok(2_000));
}

/// The model computes in whole nanoseconds of a byte, so it has no limit above 1 GB/s.
#[test]
fn rates_beyond_a_word_of_bytes_are_paced() {
    let clock = ManualClock::new();
    let quota = Quota::per(u32::MAX, Duration::from_millis(1)).unwrap().burst(u32::MAX); // 4 TB/s
    let limit: RateLimiter<TokenBucket, _> = RateLimiter::with_clock(quota, &clock);
    let mut pacer = BytePacer::new(&limit);
    assert_eq!(pacer.ask(usize::MAX), Ok(u32::MAX as usize));
    pacer.report(u32::MAX as usize, u32::MAX as usize);
    let wait = pacer.ask(usize::MAX).unwrap_err();
    assert!((Duration::from_micros(999)..=Duration::from_millis(1)).contains(&wait), "{wait:?}");
    clock.advance(wait);
    assert_eq!(pacer.ask(usize::MAX), Ok(u32::MAX as usize));
    pacer.report(u32::MAX as usize, 1);
    assert_eq!(limit.peek().remaining(), u32::MAX - 1);
}

#[test]
fn quota_of_a_byte_in_seconds_moves_a_byte_at_a_time() {
    let clock = ManualClock::new();
    let limit = RateLimiter::with_clock(Quota::every(Duration::from_secs(5)).unwrap(), &clock);
    let mut pacer = BytePacer::new(&limit);
    assert_eq!(pacer.ask(64_000), Ok(1));
    pacer.report(1, 1);
    assert_eq!(pacer.ask(64_000), Err(Duration::from_secs(1)), "a second of five, then it looks again");
    clock.advance(Duration::from_secs(5));
    assert_eq!(pacer.ask(64_000), Ok(1));
}

#[test]
fn refused_connection_looks_again_after_a_second() {
    let limit = RateLimiter::with_clock(Quota::every(Duration::from_secs(5)).unwrap().max_debt(0), ManualClock::new());
    limit.drain();
    let mut pacer = BytePacer::new(&limit);
    assert_eq!(pacer.ask(1), Err(Duration::from_secs(1)), "there is no room in the line for five");
    assert_eq!(limit.debt(), 0);
}

#[test]
fn change_of_the_quota_reaches_a_waiter() {
    let clock = ManualClock::new();
    let limit = RateLimiter::with_clock(Quota::per_second(1_000).burst(20), &clock);
    let mut pacer = BytePacer::new(&limit);
    assert_eq!(pacer.ask(20), Ok(20));
    pacer.report(20, 20);
    assert_eq!(pacer.ask(20), Err(Duration::from_millis(20)));
    limit.set_quota(Quota::per_second(100_000).burst(20)).unwrap();
    assert_eq!(pacer.ask(20), Err(Duration::from_micros(200)));
}

#[test]
fn io_that_moves_more_than_it_may_is_charged() {
    let clock = ManualClock::new();
    let limit: RateLimiter<TokenBucket, _> = RateLimiter::with_clock(Quota::per_second(1_000_000).burst(5_000), &clock);
    let mut pacer = BytePacer::new(&limit);
    assert_eq!(pacer.ask(10_000), Ok(2_000));
    pacer.report(2_000, 3_000);
    assert_eq!(limit.peek().used(), 3_000);
}

#[test]
fn report_without_permission_does_nothing() {
    let clock = ManualClock::new();
    let limit = RateLimiter::with_clock(Quota::per_second(1_000).burst(20), &clock);
    limit.drain();
    let mut pacer = BytePacer::new(&limit);
    pacer.report(20, 20);
    assert_eq!(pacer.ask(20), Err(Duration::from_millis(20)));
    pacer.report(20, 20);
    assert_eq!((pacer.ask(20), limit.debt()), (Err(Duration::from_millis(20)), 20), "it still waits for its chunk");
}

#[test]
fn unlimited_quota_moves_whatever_is_wanted() {
    let limit = RateLimiter::with_clock(Quota::UNLIMITED, ManualClock::new());
    let mut pacer = BytePacer::new(&limit);
    for wanted in [1, 4_096, 1 << 30] {
        assert_eq!(pacer.ask(wanted), Ok(wanted));
        pacer.report(wanted, wanted);
    }
    assert_eq!(BytePacer::<&RateLimiter, 0>::all([]).ask(7), Ok(7));
}
