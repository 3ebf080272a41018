//! Tests that need no Lua: rates, waits, arguments, replies.

use super::{
    Command, Frame, Grant, LeaseRequest, Level, Limit, NEVER, PlannedTake, PlannedTakes, Rate, Reply, ReplyError,
    Sighting, Status, Take, Terms,
};
use core::time::Duration;
use damper_core::{Plan, Quota};
use redis::Value;

fn per(limit: u32, nanos: u64) -> Quota {
    Quota::per(limit, Duration::from_nanos(nanos)).unwrap()
}

fn terms(quota: Quota) -> Terms {
    Terms::new(quota, 5).unwrap()
}

fn ask() -> Command {
    let limit = Limit { terms: terms(Quota::per_second(10)), seen: Sighting { version: 8, full_at: 9 } };
    Command::Lease(limit, LeaseRequest { seq: 3, ack: 2, unspent: 4, back: 1, want: 6, charge: 7, refund: 5 })
}

fn ints(numbers: &[i64]) -> Value {
    Value::Array(numbers.iter().map(|&number| Value::Int(number)).collect())
}

#[test]
fn a_rate_is_the_quota_in_lowest_terms() {
    let rate = |quota| Rate::try_from(quota).map(|rate| (rate.tokens(), rate.micros()));
    assert_eq!(rate(Quota::per_second(10)), Ok((1, 100_000)));
    assert_eq!(rate(Quota::per_second(300_000)), Ok((3, 10)));
    assert_eq!(rate(Quota::per_hour(1)), Ok((1, 3_600_000_000)));
    assert_eq!(rate(Quota::per_second(0)), Ok((0, 1)), "nothing drips in");
    assert_eq!(rate(per(3, 7)), Ok((3_000, 7)), "a window of no whole microseconds");
    assert_eq!(rate(per(u32::MAX, 1)), Ok((4_294_967_295_000, 1)), "the fastest, below 2^43");
    assert_eq!(rate(per(1_000, 1 << 48)), Ok((15_625, 4_398_046_511_104)));
    assert_eq!(rate(per(1, (1 << 48) - 59)), Ok((1_000, (1 << 48) - 59)), "a prime");
    assert_eq!(rate(Quota::UNLIMITED).unwrap_err().setting(), "limit");
    let longest = per(1, ((1 << 48) + 1) * 1_000);
    assert_eq!(
        rate(longest).unwrap_err().to_string(),
        "period is 281474976.710657 s, it must be 1 µs to 281474976.710656 s (of the rate in lowest terms)"
    );
    assert_eq!(rate(per(1, (1 << 48) * 1_000)), Ok((1, 1 << 48)));
    assert_eq!(rate(per(7, u64::MAX)).unwrap_err().setting(), "period");
}

#[test]
fn terms_are_those_of_the_quota() {
    let found = Terms::new(Quota::per_second(10).burst(40), 1_000).unwrap();
    assert_eq!((found.burst, found.deepest, found.hold), (40, 440, 40));
    let found = Terms::new(Quota::per_second(10).max_debt(3), 2).unwrap();
    assert_eq!((found.burst, found.deepest, found.hold), (10, 13, 2));
    assert_eq!(Terms::new(Quota::UNLIMITED, 1).unwrap_err().setting(), "limit");
}

#[test]
fn waits_are_exact_to_a_microsecond_and_rounded_up() {
    let third = terms(per(3, 1_000_000_000).burst(10));
    let level = Level { version: 1, at: 1_000, owed: 10, frac: 1, held: 0, full_at: NEVER };
    // A third of a second less a third of a microsecond.
    assert_eq!(level.retry_after(&third, 1, 1_000), Some(Duration::from_micros(333_333)));
    let whole = Level { frac: 0, ..level };
    assert_eq!(whole.retry_after(&third, 1, 1_000), Some(Duration::from_micros(333_334)));
    assert_eq!(whole.retry_after(&third, 1, 900), Some(Duration::from_micros(333_434)), "of a clock that stepped back");
    assert_eq!(whole.retry_after(&third, 0, 1_000), Some(Duration::ZERO));
    assert_eq!(whole.retry_after(&third, 11, 1_000), None);
    assert_eq!(whole.resets_in(&third, 1_000), Some(Duration::from_micros(3_333_334)));
    assert_eq!((whole.remaining(&third), Level { owed: 12, ..whole }.remaining(&third)), (0, 0));
    assert_eq!(Level { owed: 3, ..whole }.remaining(&third), 7);
    let leased = Level { held: 2, full_at: 5_000, ..whole };
    assert_eq!(leased.resets_in(&third, 1_000), Some(Duration::from_millis(4)));
}

#[test]
fn waits_of_the_largest_numbers_do_not_overflow() {
    let slowest = terms(per(1, (1 << 48) * 1_000).burst(u32::MAX));
    let most = Level { version: NEVER, at: NEVER, owed: NEVER, frac: 0, held: NEVER, full_at: NEVER };
    assert_eq!(most.retry_after(&slowest, 1, 0), None, "longer than can be told");
    assert_eq!(most.resets_in(&slowest, 0), None);
    let fastest = terms(per(u32::MAX, 1));
    assert_eq!(most.retry_after(&fastest, u32::MAX, 0), Some(Duration::from_micros(NEVER + 2_098)));
    let never = terms(Quota::per_second(0).burst(3));
    assert_eq!(most.retry_after(&never, 1, 0), None);
}

#[test]
fn arguments_are_in_the_order_that_the_script_reads() {
    let frame = Frame { not_after: 20, lease: 21, after_loss: u64::MAX };
    let limit = [1, 100_000, 10, 110, 5, 8, 9];
    let lease: Vec<u64> = [&[1, 20, 21, NEVER], &limit[..], &[6, 7, 5], &[3, 2, 4, 1]].concat();
    assert_eq!(ask().args(&frame), lease);
    let Command::Lease(of_lease, _) = ask() else { unreachable!("it is a lease") };
    let take = Command::Take(vec![(of_lease, Take { cost: 2, charge: 3, refund: 4 })]);
    assert_eq!(take.args(&frame), [&[0, 20, 21, NEVER], &limit[..], &[2, 3, 4]].concat());
    let reset = Command::Reset(vec![of_lease; 2]);
    let zeros = [0, 0, 0];
    assert_eq!(reset.args(&frame), [&[2, 20, 21, NEVER], &limit[..], &zeros, &limit[..], &zeros].concat());
}

#[test]
fn replies_are_read() {
    let level = Level { version: 8, at: 101, owed: 3, frac: 4, held: 12, full_at: 900 };
    let done = ints(&[0, 100, 8, 101, 3, 4, 12, 900, 3, 6, 4, 50, 2]);
    let reply = Reply::parse(&done, &ask()).unwrap();
    let grant = Some(Grant { seq: 3, granted: 6, kept: 4, length: 50, leased: 2 });
    assert_eq!(reply, Reply { status: Status::Done, now: 100, levels: vec![level], grant, counted: vec![] });
    assert_eq!(level.seen(), Sighting { version: 8, full_at: 900 });
    for (code, status) in [(2, Status::Late), (3, Status::Stale)] {
        let reply = Reply::parse(&ints(&[code, 100]), &ask()).unwrap();
        assert_eq!(reply, Reply { status, now: 100, levels: vec![], grant: None, counted: vec![] });
    }
}

#[test]
fn other_replies_are_refused() {
    let refused = |numbers: &[i64]| Reply::parse(&ints(numbers), &ask()).unwrap_err();
    assert_eq!(refused(&[]), ReplyError::TooShort { found: 0 });
    assert_eq!(refused(&[0, 1, 1, 1, 1, 1, 1, 1, 3, 1]), ReplyError::TooShort { found: 10 });
    assert_eq!(refused(&[0, 1, 1, 1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1]), ReplyError::TooLong { found: 14, expected: 13 });
    assert_eq!(refused(&[2, 1, 1]), ReplyError::TooLong { found: 3, expected: 2 });
    assert_eq!(refused(&[1, 1, 1, 1, 1, 1, 1, 1]), ReplyError::Status { found: 1 }, "no lease is denied");
    assert_eq!(refused(&[0, 1, 1, 1, 1, 1, 1, 1, 4, 1, 1]), ReplyError::Seq { found: 4, expected: 3 });
    let range = |field, found, most| ReplyError::Range { field, found, most };
    assert_eq!(refused(&[4, 1]), range("status", 4, 3));
    assert_eq!(refused(&[-1, 1]), range("status", -1, 3));
    assert_eq!(refused(&[0, 1 << 53]), range("time", 1 << 53, NEVER));
    assert_eq!(refused(&[0, 1, 1, 1, 1, 100_000]), range("fraction", 100_000, 99_999));
    assert_eq!(refused(&[0, 1, 1, 1, 1, 1, 1, 1, 3, 7, 1]), range("grant", 7, 6));
    assert_eq!(refused(&[0, 1, 1, 1, 1, 1, 1, 1, 3, 6, 5]), range("kept tokens", 5, 4));
    assert_eq!(refused(&[0, 1, 1, 1, 1, 1, 1, 1, 3, 6, 4, -1]), range("length of a lease", -1, NEVER));
    assert_eq!(refused(&[0, 1, 1, 1, 1, 1, 1, 1, 3, 6, 4, 1, -1]), range("leased tokens", -1, NEVER));
    for value in [Value::Nil, Value::Int(0), Value::Okay, Value::SimpleString("OK".to_owned())] {
        assert_eq!(Reply::parse(&value, &ask()), Err(ReplyError::Shape));
        assert!(Reply::parse(&Value::Array(vec![value]), &ask()).is_err());
    }
    let text = refused(&[0, 1, 1, 1, 1, 100_000]).to_string();
    assert_eq!(text, "in the reply of the script, fraction 100000 is out of range, it must be 0 to 99999");
}

#[test]
fn terms_are_those_of_the_plan() {
    let of = |quota| Terms::of_plan(&Plan::new(quota).unwrap()).unwrap();
    assert_eq!(of(Quota::per_second(10).burst(40)), terms_without_leases(Quota::per_second(10).burst(40)));
    assert_eq!(Terms::of_plan(&Plan::UNLIMITED), None);
    // Ten bursts of debt would take more than the 52 days of a plan.
    let slow = of(Quota::per(30, Duration::from_hours(30 * 24)).unwrap());
    assert_eq!((slow.burst, slow.deepest), (30, 52));
    // A window that is a prime number of ns, of some more than 78 hours and of nine years.
    for (limit, window) in [(7, (1 << 48) + 21), (1_000, (1 << 58) - 27)] {
        let rate = of(per(limit, window).burst(1)).rate;
        assert!(rate.micros() < 1 << 49, "{rate:?}");
        // It is slower, by less than 4 parts in 10^12.
        let of_window = u128::from(rate.tokens()) * u128::from(window);
        let exact = u128::from(limit) * 1_000 * u128::from(rate.micros());
        assert!(of_window <= exact && (exact - of_window) * 1_000_000_000_000 < 4 * exact, "{rate:?}");
    }
}

fn terms_without_leases(quota: Quota) -> Terms {
    Terms::new(quota, 0).unwrap()
}

/// A take from two buckets, of which the second was reserved from before.
fn planned() -> Command {
    let limit = |limit| Limit { terms: terms_without_leases(Quota::per_second(limit)), seen: Sighting::default() };
    let take = |cost, refund| Take { cost, charge: 1, refund };
    let takes = vec![
        PlannedTake { limit: limit(10), take: take(2, 0), count: 30, counted: 0 },
        PlannedTake { limit: limit(20), take: take(0, 4), count: 0, counted: 50 },
    ];
    Command::ByPlan(PlannedTakes { takes, most_unsettled: 60, time_to_live: 70, since: 80 })
}

#[test]
fn limits_by_plan_have_arguments_behind_all_limits() {
    let frame = Frame { not_after: 20, lease: 21, after_loss: 22 };
    let limits = [[1, 100_000, 10, 110, 0, 0, 0, 2, 1, 0], [1, 50_000, 20, 220, 0, 0, 0, 0, 1, 4]];
    let expected = [&[3, 20, 21, 22], limits.as_flattened(), &[70, 60, 80], &[30, 0, 0, 50]].concat();
    assert_eq!(planned().args(&frame), expected);
}

#[test]
fn counted_parts_are_read_behind_each_level() {
    let reply = |counted| ints(&[0, 100, 8, 100, 3, 4, 0, 900, counted, 9, 100, 0, 0, 0, 100, 0]);
    let read = Reply::parse(&reply(30), &planned()).unwrap();
    assert_eq!((read.status, read.levels.len(), &*read.counted), (Status::Done, 2, &[30, 0][..]));
    let error = Reply::parse(&reply(31), &planned()).unwrap_err();
    assert_eq!(error, ReplyError::Range { field: "counted parts", found: 31, most: 30 });
    assert_eq!(Reply::parse(&ints(&[2, 100]), &planned()).unwrap().status, Status::Late);
}
