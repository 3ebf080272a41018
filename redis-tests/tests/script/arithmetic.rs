//! Exact amounts: a year of simulated time, and products against 128 bits.

use crate::seed::seed;
use damper_core::Quota;
use damper_redis::internal::{
    Command, Frame, Keys, Level, Limit, Reply, SOURCE, Sighting, SlotTags, Status, Take, Terms,
};
use damper_redis_tests::{LuaServer, Random};
use mlua::{Function, Lua};
use std::time::Duration;

const START: u64 = 1_790_000_000_000_000;
const SECOND: u64 = 1_000_000;
const YEAR: u64 = 365 * 24 * 3_600 * SECOND;
const FRAME: Frame = Frame { not_after: 0, lease: SECOND, after_loss: 60 * SECOND };

/// One limit that is taken from by the per check path.
struct Bucket {
    server: LuaServer,
    keys: Keys,
    terms: Terms,
    seen: Sighting,
}

impl Bucket {
    fn new(quota: Quota) -> Self {
        let keys = Keys::new(&SlotTags::new(), "year", b"subject");
        let server = LuaServer::new(START);
        server.set(keys.marker(), b"0");
        Self { server, keys, terms: Terms::new(quota, 0).unwrap(), seen: Sighting::default() }
    }

    fn take(&mut self, cost: u32) -> Reply {
        let limit = Limit { terms: self.terms, seen: self.seen };
        let command = Command::Take(vec![(limit, Take { cost, ..Take::default() })]);
        let reply = self.server.execute(&self.keys, 0, &command, &FRAME).unwrap();
        self.seen = reply.levels[0].seen();
        reply
    }

    fn level(&mut self) -> Level {
        self.take(0).levels[0]
    }

    /// The tokens that drip in until a time, rounded down.
    fn produced(&self, since: u64) -> u64 {
        let micros = u128::from(self.server.now() - since);
        let parts = micros * u128::from(self.terms.rate.tokens());
        u64::try_from(parts / u128::from(self.terms.rate.micros())).unwrap()
    }
}

fn rates() -> Vec<(Quota, u64)> {
    let per = |limit, window| Quota::per(limit, window).unwrap();
    let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3_600));
    // A burst, and the longest time between two takes: less than fills it.
    vec![
        (per(10, second).burst(1_000_000), 50_000 * SECOND),
        (per(7, second).burst(u32::MAX), 50_000 * SECOND),
        (per(300_000, second).burst(u32::MAX), 14_000 * SECOND),
        (per(300_000, second).burst(1_000), 3_000),
        (per(1, hour).burst(100), 20 * 3_600 * SECOND),
        (per(1, hour).burst(2), 3_599 * SECOND),
        (per(999_983, Duration::from_micros(3_600_000_017)).burst(u32::MAX), 50_000 * SECOND),
        (per(u32::MAX, Duration::from_nanos((1 << 48) - 59)).burst(u32::MAX), 250_000 * SECOND),
        (per(4_294_967_291, Duration::from_nanos(140_737_488_355_327)).burst(u32::MAX), 100_000 * SECOND),
    ]
}

#[test]
fn a_year_is_exact_to_one_token() {
    for (quota, longest) in rates() {
        let mut random = Random(seed());
        let mut bucket = Bucket::new(quota);
        let mut taken = 0;
        let all = |bucket: &mut Bucket| {
            let remaining = bucket.level().remaining(&bucket.terms);
            assert_eq!(bucket.take(remaining).status, Status::Done, "{quota}: {remaining} tokens remain");
            u64::from(remaining)
        };
        taken += all(&mut bucket);
        assert_eq!(taken, u64::from(quota.burst_size()), "{quota}: the burst");
        let mut polls = 0;
        while bucket.server.now() < START + YEAR && polls < 12_000 {
            // The year in a few thousand takes where the burst allows for it, and many short intervals.
            let interval = if polls % 8 > 0 { longest } else { 1 + random.below(longest.min(SECOND)) };
            bucket.server.advance(interval);
            taken += all(&mut bucket);
            polls += 1;
            let expected = u64::from(quota.burst_size()) + bucket.produced(START);
            assert_eq!(taken, expected, "{quota}: after {} µs and {polls} takes", bucket.server.now() - START);
        }
        println!("{quota}: {taken} tokens in {} s", (bucket.server.now() - START) / SECOND);
    }
}

/// A bucket in whole parts of a token, as many as the period has microseconds.
struct Exact {
    terms: Terms,
    debt: u128,
    at: u64,
}

impl Exact {
    /// Lets tokens drip in, and takes `cost` tokens if there are so many.
    fn take(&mut self, now: u64, cost: u32) -> Status {
        let (tokens, part) = (u128::from(self.terms.rate.tokens()), u128::from(self.terms.rate.micros()));
        self.debt = self.debt.saturating_sub(u128::from(now - self.at) * tokens);
        self.at = now;
        let debt = self.debt + u128::from(cost) * part;
        if cost > 0 && debt > u128::from(self.terms.burst) * part {
            return Status::Denied;
        }
        self.debt = debt;
        Status::Done
    }
}

#[test]
fn a_year_at_300_000_a_second_is_exact_in_every_take() {
    const TAKES: u64 = 8_000;
    for burst in [1_000, 30_000, 300_000, 1_000_000_000, u32::MAX] {
        let mut random = Random(seed());
        let mut bucket = Bucket::new(Quota::per_second(300_000).burst(burst));
        let mut exact = Exact { terms: bucket.terms, debt: 0, at: START };
        let (mut admitted, mut denied) = (0, 0);
        for take in 1..=TAKES {
            let interval = match random.below(4) {
                0 => random.below(20),
                1 => random.below(3_000),
                2 => random.below(u64::from(burst) * 10 / 3),
                // Up to this take's part of the year.
                _ => (START + take * YEAR / TAKES).saturating_sub(bucket.server.now()),
            };
            bucket.server.advance(interval);
            let remaining = bucket.level().remaining(&bucket.terms);
            let cost = match random.below(3) {
                0 => remaining,
                1 => remaining.saturating_add(1),
                _ => random.below(u64::from(remaining) + 1) as u32,
            };
            let reply = bucket.take(cost);
            let expected = exact.take(bucket.server.now(), cost);
            let Level { owed, frac, .. } = reply.levels[0];
            let debt = u128::from(owed) * u128::from(bucket.terms.rate.micros()) - u128::from(frac);
            assert_eq!((reply.status, debt), (expected, exact.debt), "burst {burst}: take {take} of {cost} tokens");
            match expected {
                Status::Done => admitted += u64::from(cost),
                _ => denied += 1,
            }
        }
        bucket.server.advance((START + YEAR).saturating_sub(bucket.server.now()));
        assert_eq!(exact.take(bucket.server.now(), 0), Status::Done);
        assert_eq!(
            u128::from(bucket.level().owed),
            exact.debt.div_ceil(bucket.terms.rate.micros().into()),
            "burst {burst}"
        );
        assert!(denied > TAKES / 10, "{denied} takes were denied");
        println!("burst {burst}: {admitted} tokens in a year, {denied} of {TAKES} takes denied");
    }
}

#[test]
fn an_idle_year_is_exact_to_one_token() {
    for limit in [1, 7, 10, 100] {
        let mut bucket = Bucket::new(Quota::per_second(limit).burst(u32::MAX));
        assert_eq!(bucket.take(u32::MAX).status, Status::Done);
        bucket.server.advance(YEAR + 999_999);
        let produced = bucket.produced(START).min(u32::MAX.into());
        assert_eq!(u64::from(bucket.level().remaining(&bucket.terms)), produced, "{limit} per second");
    }
}

#[test]
fn a_retry_is_neither_too_early_nor_a_microsecond_late() {
    for (quota, _) in rates() {
        let mut random = Random(seed());
        let mut bucket = Bucket::new(quota);
        bucket.take(quota.burst_size());
        for _ in 0..200 {
            let cost = random.below(u64::from(quota.burst_size()).min(1_000)) as u32 + 1;
            let reply = bucket.take(cost);
            if reply.status == Status::Done {
                continue;
            }
            let wait = reply.levels[0].retry_after(&bucket.terms, cost, reply.now).unwrap();
            let wait = u64::try_from(wait.as_micros()).unwrap();
            bucket.server.advance(wait - 1);
            assert_eq!(bucket.take(cost).status, Status::Denied, "{quota}: {cost} tokens a µs early");
            bucket.server.advance(1);
            assert_eq!(bucket.take(cost).status, Status::Done, "{quota}: {cost} tokens after {wait} µs");
        }
    }
}

#[test]
fn a_full_bucket_is_announced_exactly() {
    for (quota, _) in rates() {
        let mut bucket = Bucket::new(quota);
        let reply = bucket.take(quota.burst_size().min(90));
        let level = reply.levels[0];
        let wait = level.resets_in(&bucket.terms, reply.now).unwrap();
        let wait = u64::try_from(wait.as_micros()).unwrap();
        assert!((reply.now + wait..=reply.now + wait + 2).contains(&level.full_at), "{quota}: {level:?}");
        bucket.server.advance(wait - 1);
        assert_eq!(bucket.level().owed, 1, "{quota}");
        bucket.server.advance(1);
        assert_eq!(bucket.level().owed, 0, "{quota}");
        // The key is stored until then, and not much longer.
        assert!(bucket.server.get(&bucket.keys.limit(0)).is_some(), "{quota}");
        bucket.server.advance(5_000);
        assert!(bucket.server.get(&bucket.keys.limit(0)).is_none(), "{quota}");
    }
}

#[test]
fn products_are_those_of_128_bits() {
    let begin = SOURCE.find("local function multiply_divide").unwrap();
    let end = begin + SOURCE[begin..].find("\nend\n").unwrap() + "\nend\n".len();
    let lua = Lua::new();
    let constants = "local floor, EXACT = math.floor, 9007199254740992\n";
    let source = format!("{constants}{}return multiply_divide", &SOURCE[begin..end]);
    let multiply_divide: Function = lua.load(source).eval().unwrap();
    let mut random = Random(seed());
    let (mut direct, mut digits) = (0, 0);
    for _ in 0..100_000 {
        let q = match random.below(4) {
            0 => 1 << 48,
            1 => (1 << 48) - random.below(1_000),
            _ => 1 + random.bits(),
        };
        let (a, c) = if random.once_in(4) { (q - 1, q - 1) } else { (random.below(q), random.below(q)) };
        let b = match random.below(4) {
            0 => (1 << 43) - 1,
            1 => ((1_u64 << 53) / q).saturating_sub(random.below(3)).min(1 << 48),
            _ => random.bits(),
        };
        if u128::from(q) * u128::from(b + 1) <= 1 << 53 {
            direct += 1
        } else {
            digits += 1
        }
        let (whole, rest): (f64, f64) = multiply_divide.call((a as f64, b as f64, c as f64, q as f64)).unwrap();
        let exact = u128::from(a) * u128::from(b) + u128::from(c);
        let expected = (exact / u128::from(q), exact % u128::from(q));
        assert_eq!((whole as u128, rest as u128), expected, "({a} * {b} + {c}) / {q}");
    }
    assert!(direct > 10_000 && digits > 10_000, "{direct} direct, {digits} digit by digit");
}
