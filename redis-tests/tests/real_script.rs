//! The script on a real server: the same replies as in the embedded Lua, and what it costs.

use damper_core::{Plan, Quota};
use damper_redis::internal::{
    Command, Frame, Keys, LeaseRequest, Limit, NEVER, PARTS_PER_BURST, PathKeys, PlannedTake, PlannedTakes, Reply,
    SOURCE, Sighting, SlotTags, Status, Take, Terms,
};
use damper_redis_tests::{LuaServer, Random, RedisServer};
use redis::{Connection, Script, Value};
use std::net::TcpListener;
use std::process;
use std::time::Duration;

#[path = "../../crates/damper-core/tests/core/models/seed.rs"]
mod seed;

const FRAME: Frame = Frame { not_after: 0, lease: 1_000_000, after_loss: 60_000_000 };

/// A real server with the script.
struct Real {
    server: RedisServer,
    connection: Connection,
    script: Script,
}

impl Real {
    fn new() -> Self {
        let server = RedisServer::start();
        let client = redis::Client::open(server.url()).unwrap();
        Self { connection: client.get_connection().unwrap(), script: Script::new(SOURCE), server }
    }

    fn run(&mut self, keys: &[String], args: &[u64]) -> Value {
        let mut invocation = self.script.prepare_invoke();
        keys.iter().for_each(|key| {
            invocation.key(key);
        });
        args.iter().for_each(|arg| {
            invocation.arg(arg);
        });
        invocation.invoke(&mut self.connection).unwrap()
    }

    /// The mean time of a script in µs since the counts were reset.
    fn micros_per_call(&self) -> f64 {
        let text: String = self.server.ask(&["INFO", "commandstats"]);
        let line = text.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
        let field = line.split(',').find_map(|field| field.strip_prefix("usec_per_call=")).unwrap();
        field.parse().unwrap()
    }
}

fn quotas() -> [Quota; 4] {
    let odd = Quota::per(u32::MAX, Duration::from_nanos((1 << 48) - 59)).unwrap();
    // All take long to fill, so that no key expires between the two servers.
    [
        Quota::per_second(100).burst(100_000),
        Quota::per(7, Duration::from_secs(60)).unwrap().burst(1_000),
        odd.burst(u32::MAX).max_debt(0),
        Quota::per_second(0).burst(1_000),
    ]
}

/// A command by chance, of a holder that may have had any numbers before.
fn command(random: &mut Random, limits: &[Limit], seq: u64) -> Command {
    let burst = |limit: &Limit| u64::from(limit.terms.burst);
    match random.below(8) {
        0 => Command::Reset(limits.to_vec()),
        1..4 => {
            let limit = limits[0];
            let hold = u64::from(limit.terms.hold) + 1;
            let ack = seq - 1 - random.below(seq.min(3));
            let [unspent, back, want, charge] = [20, 10, hold, 40].map(|most| random.below(most) as u32);
            let ask = LeaseRequest { seq, ack, unspent, back, want, charge: charge.into(), refund: random.below(20) };
            Command::Lease(limit, ask)
        }
        _ => {
            let mut take = |limit: &Limit| {
                let cost = random.below(burst(limit) / 20 + 2) as u32;
                (*limit, Take { cost, charge: random.below(20), refund: random.below(40) })
            };
            Command::Take(limits.iter().map(&mut take).collect())
        }
    }
}

#[test]
fn a_real_server_replies_as_the_embedded_lua() {
    let mut real = Real::new();
    let tags = SlotTags::new();
    let lua = LuaServer::new(0);
    let mut random = Random(seed::seed());
    for round in 0..40 {
        let count = 1 + round % 2;
        let terms = quotas().map(|quota| Terms::new(quota, 400).unwrap());
        let mut limits: Vec<Limit> = (0..count).map(|_| random.one_of(&terms)).map(limit).collect();
        let keys = Keys::new(&tags, "real", &random.number().to_le_bytes());
        let frame = Frame { after_loss: random.one_of(&[0, NEVER, 60_000_000]), ..FRAME };
        for step in 0..60 {
            if random.once_in(60) {
                real.server.flush_all();
                lua.flush();
            }
            let command = command(&mut random, &limits, step / 3 + 1);
            let holder = random.below(3);
            let (names, args) = (keys.of(&command, holder), command.args(&frame));
            let found = real.run(&names, &args);
            let reply = Reply::parse(&found, &command);
            let now = match (&reply, &found) {
                (Ok(reply), _) => reply.now,
                // The number of a request was used before, with another want.
                (Err(_), Value::Array(values)) => match values[1] {
                    Value::Int(now) => u64::try_from(now).unwrap(),
                    _ => panic!("{found:?}"),
                },
                _ => panic!("{found:?}"),
            };
            lua.set_time(now);
            assert_eq!(lua.run(&names, &args), Ok(found), "round {round}, step {step}: {command:?}");
            for name in &names {
                let stored: Option<Vec<u8>> = real.server.ask(&["GET", name]);
                if stored.is_none() {
                    // On a busy machine a key may expire between the script and this look at it.
                    let (secs, micros): (u64, u64) = real.server.ask(&["TIME"]);
                    lua.set_time(secs * 1_000_000 + micros);
                }
                assert_eq!(stored, lua.get(name), "{name}");
            }
            for (limit, level) in limits.iter_mut().zip(reply.iter().flat_map(|reply| &reply.levels)) {
                limit.seen = level.seen();
            }
        }
    }
}

/// Plans that alternate. All take long to fill, so that no key expires between the two servers.
fn plans() -> [Terms; 3] {
    let odd = Quota::per(999_983, Duration::from_nanos(3_600_000_000_017)).unwrap().burst(90_000);
    [Quota::per_minute(90).burst(5_000), Quota::per_hour(60), odd].map(|quota| {
        // None of them is unlimited.
        Terms::of_plan(&Plan::new(quota).unwrap()).unwrap()
    })
}

/// A command on the buckets of a path by chance, which takes or settles.
fn planned(random: &mut Random, buckets: usize, since: u64) -> Command {
    let takes = (0..buckets).map(|_| {
        let terms = random.one_of(&plans());
        let [cost, charge, refund] = [terms.burst.into(), 20, 40].map(|most| random.below(most));
        let [cost, charge] = if random.once_in(3) { [0, charge] } else { [cost / 4, 0] };
        let (count, counted) = (random.below(PARTS_PER_BURST.into()) as u32, random.below(9_000) as u32);
        let take = Take { cost: cost as u32, charge, refund };
        PlannedTake { limit: limit(terms), take, count: if cost > 0 { count } else { 0 }, counted }
    });
    let (takes, most_unsettled) = (takes.collect(), 2 * PARTS_PER_BURST);
    Command::ByPlan(PlannedTakes { takes, most_unsettled, time_to_live: 120_000_000, since })
}

/// Returns the keys of a path of so many buckets.
fn path(tags: &SlotTags, root: u64, buckets: usize) -> PathKeys {
    let mut keys = PathKeys::new(tags, "real", &root.to_le_bytes());
    (0..buckets).for_each(|bucket| keys.push(["user", "team", "root"][bucket % 3], "tokens", &[bucket as u8]));
    keys
}

#[test]
fn a_real_server_decides_by_plan_as_the_embedded_lua() {
    let mut real = Real::new();
    let tags = SlotTags::new();
    let lua = LuaServer::new(0);
    let mut random = Random(seed::seed());
    for round in 0..20 {
        let (buckets, mut since) = (1 + round % 4, 0);
        let keys = path(&tags, random.number(), buckets);
        for step in 0..40 {
            let command = planned(&mut random, buckets, since);
            let args = command.args(&FRAME);
            let found = real.run(keys.names(), &args);
            let reply = Reply::parse(&found, &command).unwrap();
            lua.set_time(reply.now);
            assert_eq!(lua.run(keys.names(), &args), Ok(found), "round {round}, step {step}: {command:?}");
            for name in keys.names() {
                let stored: Option<Vec<u8>> = real.server.ask(&["GET", name]);
                assert_eq!(stored, lua.get(name), "{name}");
            }
            since = if random.once_in(2) { reply.now } else { since };
        }
    }
}

/// Expressions in Lua that return a text, or fail.
const STRUCTS: &[&str] = &[
    "struct.pack('<Bdd', 1, 9007199254740991, 0)",
    "struct.pack('<Bd', 255, 1790000000000123)",
    "struct.pack('<B', 257)",
    "struct.pack('<d', 1, 2)",
    "struct.pack('<dd', 1)",
    "struct.pack('<' .. string.rep('d', 3), unpack({ 1, 2, 3 }, 1, 3))",
    "table.concat({ struct.unpack('<d', struct.pack('<Bd', 1, 77), 2) }, ' ')",
    "table.concat({ struct.unpack('<Bdd', struct.pack('<Bdd', 1, 77, 4503599627370497)) }, ' ')",
    "table.concat({ struct.unpack('<', 'abc', 2) }, ' ')",
    "table.concat({ struct.unpack('<d', '1234567') }, ' ')",
    "table.concat({ struct.unpack('<d', '12345678', 2) }, ' ')",
    "table.concat({ struct.unpack('<B', '', 1) }, ' ')",
];

#[test]
fn struct_is_that_of_a_real_server() {
    let server = RedisServer::start();
    for expression in STRUCTS {
        let script = format!("local done, text = pcall(function() return {expression} end) return done and text");
        let found: Option<Vec<u8>> = server.ask(&["EVAL", &script, "0"]);
        let lua = match LuaServer::with_script(&script, 0).run(&[], &[]).unwrap() {
            Value::BulkString(bytes) => Some(bytes),
            Value::Nil => None,
            other => panic!("{expression}: {other:?}"),
        };
        assert_eq!(lua, found, "{expression}");
    }
}

fn limit(terms: Terms) -> Limit {
    Limit { terms, seen: Sighting::default() }
}

#[test]
fn keys_are_in_the_slots_that_a_server_says() {
    // Its bus would have a port of those that the kernel gives to clients.
    let begin = 10_000 + (process::id() % 9_000) as u16;
    let bus = (begin..20_000).find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).unwrap();
    let server = RedisServer::with(&["--cluster-enabled", "yes", "--cluster-port", &bus.to_string()]);
    let tags = SlotTags::new();
    for subject in
        ["", "tenant-42", "}{", "{}", "a long subject, of some words, \u{1F600} and of more than a hundred bytes"]
    {
        let keys = Keys::new(&tags, "slots", subject.as_bytes());
        let of = |key: &str| server.ask::<u16>(&["CLUSTER", "KEYSLOT", key]);
        assert_eq!(of(&keys.limit(1)), of(keys.marker()), "{subject}");
        assert_eq!(of(&keys.holder(1)), of(keys.marker()), "{subject}");
    }
    for (slot, marker) in tags.markers().enumerate().step_by(97) {
        assert_eq!(server.ask::<usize>(&["CLUSTER", "KEYSLOT", &marker]), slot, "{marker}");
    }
}

/// Prints what scripts cost. Asserts only what a busy machine keeps: that holders cost nothing.
#[test]
fn a_script_costs_the_same_for_any_number_of_holders() {
    const CALLS: u64 = 10_000;
    let mut real = Real::new();
    let tags = SlotTags::new();
    let terms = Terms::new(Quota::per_second(100_000).burst(1_000_000), 500_000).unwrap();
    let one = limit(terms);
    let frame = Frame { after_loss: 0, ..FRAME };
    let mut measure = |text: &str, command: &mut dyn FnMut(u64) -> (Command, u64)| {
        let keys = Keys::new(&tags, "cost", text.as_bytes());
        real.run(&keys.of(&command(0).0, 0), &command(0).0.args(&frame));
        real.server.reset_calls();
        for call in 0..CALLS {
            let (command, holder) = command(call);
            let reply = real.run(&keys.of(&command, holder), &command.args(&frame));
            assert_ne!(Reply::parse(&reply, &command).unwrap().status, Status::Late);
        }
        let micros = real.micros_per_call();
        println!("{text}: {micros} µs");
        micros
    };
    let take = |cost| Take { cost, ..Take::default() };
    measure("take, allowed", &mut |_| (Command::Take(vec![(one, take(1))]), 0));
    measure("take, denied", &mut |_| (Command::Take(vec![(one, take(2_000_000))]), 0));
    measure("take of three limits", &mut |_| (Command::Take(vec![(one, take(1)); 3]), 0));
    let of_path = |buckets: usize| {
        let takes = plans().into_iter().cycle().take(buckets).map(|terms| PlannedTake {
            limit: limit(Terms { burst: 4_000_000_000, ..terms }),
            take: take(1),
            count: 1,
            counted: 0,
        });
        let takes = takes.collect::<Vec<_>>();
        move |_| {
            let (takes, most_unsettled) = (takes.clone(), 2 * PARTS_PER_BURST);
            (Command::ByPlan(PlannedTakes { takes, most_unsettled, time_to_live: 120_000_000, since: 0 }), 0)
        }
    };
    measure("take by plan of one bucket", &mut of_path(1));
    measure("take by plan of six buckets", &mut of_path(6));
    let of = |holders: u64| {
        move |call: u64| {
            let seq = call / holders + 1;
            let ask = LeaseRequest { seq, ack: seq - 1, unspent: 0, back: 1, want: 2, ..LeaseRequest::default() };
            (Command::Lease(one, ask), call % holders)
        }
    };
    let few = measure("lease, one holder", &mut of(1));
    let many = measure("lease, 2,000 holders", &mut of(2_000));
    assert!(many < 3.0 * few, "{many} µs with 2,000 holders, {few} with one");
}
