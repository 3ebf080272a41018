//! The harness keeps its own promises.

use damper_redis::internal::SOURCE;
use damper_redis_tests::{
    Admission, Fault, Load, Log, Loss, Policy, Proxy, RedisServer, ShiftedClock, Snapshot, Substitution, micros_now,
};
use std::time::{Duration, Instant};

fn ping(url: &str) -> redis::RedisResult<String> {
    let client = redis::Client::open(url)?;
    let mut connection = client.get_connection_with_timeout(Duration::from_millis(500))?;
    connection.set_read_timeout(Some(Duration::from_millis(500)))?;
    redis::cmd("PING").query(&mut connection)
}

#[test]
fn server_is_killed_and_comes_back_on_its_port() {
    let mut server = RedisServer::start();
    server.ask::<()>(&["SET", "key", "value"]);
    server.kill();
    assert!(ping(&server.url()).is_err());
    server.restart();
    assert_eq!(server.ask::<Option<String>>(&["GET", "key"]), None, "nothing was kept");
    assert_eq!(server.calls().of("get"), 1);
    assert_eq!(server.calls().of("set"), 0);
}

#[test]
fn replica_follows_and_is_promoted() {
    let server = RedisServer::start();
    server.ask::<()>(&["SET", "key", "value"]);
    let replica = server.replica();
    assert_eq!(replica.ask::<String>(&["GET", "key"]), "value");
    assert!(replica.try_ask::<()>(&["SET", "key", "other"]).is_err(), "a replica takes no writes");
    replica.promote();
    replica.ask::<()>(&["SET", "key", "other"]);
}

#[test]
fn paused_server_answers_once_it_is_resumed() {
    let server = RedisServer::start();
    server.pause();
    let paused = ping(&server.url()).is_err();
    server.resume();
    assert!(paused);
    assert!(ping(&server.url()).is_ok());
}

#[test]
fn proxy_delays_stalls_loses_refuses_and_recovers() {
    let server = RedisServer::start();
    let proxy = Proxy::new(server.address());
    assert_eq!(ping(&proxy.url()).as_deref(), Ok("PONG"));
    proxy.set(Fault::Delay(Duration::from_millis(40)));
    let start = Instant::now();
    assert!(ping(&proxy.url()).is_ok());
    assert!(start.elapsed() >= Duration::from_millis(80), "{:?}", start.elapsed());
    for fault in [Fault::Stall, Fault::LoseReplies, Fault::Blackhole, Fault::Refuse] {
        proxy.set(fault);
        assert!(ping(&proxy.url()).is_err(), "{fault:?}");
    }
    proxy.set(Fault::None);
    assert!(ping(&proxy.url()).is_ok());
    assert!(proxy.accepted() >= 6);
}

#[test]
fn proxy_resets_closes_and_redirects() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    other.ask::<()>(&["SET", "name", "other"]);
    let proxy = Proxy::new(server.address());
    let client = redis::Client::open(proxy.url()).expect("the URL is valid");
    for cut in [Proxy::reset, Proxy::close] {
        let mut connection = client.get_connection().expect("it connects");
        assert_eq!(redis::cmd("GET").arg("name").query::<Option<String>>(&mut connection), Ok(None));
        cut(&proxy);
        let error = redis::cmd("PING").query::<String>(&mut connection).expect_err("it is cut");
        println!("{error}");
    }
    proxy.redirect(other.address());
    let mut connection = client.get_connection().expect("it connects");
    assert_eq!(redis::cmd("GET").arg("name").query::<String>(&mut connection).as_deref(), Ok("other"));
}

/// The time that the script sees, by a take of nothing.
fn time_of_script(url: &str, digest: &str) -> u64 {
    let client = redis::Client::open(url).expect("the URL is valid");
    let mut connection = client.get_connection().expect("it connects");
    let mut take = redis::cmd("EVALSHA");
    take.arg(digest).arg(2).arg("damper:{x}").arg("damper:{x}:load:0");
    // A take, at any time, with leases of a second, on a server that has lost nothing; a limit of 1 token a second.
    for number in [0_u64, 0, 1_000_000, 0, 1, 1_000_000, 10, 100, 2, 0, 0, 0, 0, 0] {
        take.arg(number);
    }
    let reply: Vec<u64> = take.query(&mut connection).expect("the script runs");
    reply[1]
}

#[test]
fn clock_of_the_script_steps_forward_and_back() {
    let server = RedisServer::start();
    let proxy = Proxy::new(server.address());
    let clock = ShiftedClock::new(&server, &proxy);
    let digest: String = server.ask(&["SCRIPT", "LOAD", SOURCE]);
    for offset in [0, 3_600_000_000, -3_600_000_000, 1_500_000] {
        clock.step_to(offset);
        let before = micros_now().wrapping_add_signed(offset);
        let seen = time_of_script(&proxy.url(), &digest);
        let after = micros_now().wrapping_add_signed(offset);
        assert!((before..=after).contains(&seen), "{before} <= {seen} <= {after} at {offset}");
    }
    let real = time_of_script(&server.url(), &digest);
    assert!(real <= micros_now(), "a client beside the proxy sees the server's own clock");
}

#[test]
fn words_are_replaced_across_chunks() {
    let text = b"an apple and an appappleple, app";
    for size in 1..=text.len() {
        let mut substitution = Substitution::new("apple", "lemon");
        let mut passed = Vec::new();
        for chunk in text.chunks(size) {
            passed.extend(substitution.pass(chunk));
        }
        // The end may be the beginning of the word.
        assert_eq!(String::from_utf8_lossy(&passed), "an lemon and an applemonple, ", "in chunks of {size}");
    }
}

#[test]
fn load_and_logs_are_read_as_they_were_written() {
    let load = Load {
        policy: Policy::LocalShare,
        loss: Loss::EmptyFor(Duration::from_millis(7)),
        processes: Some(4),
        ..Load::new("redis://127.0.0.1:1/", 3, 2)
    };
    assert_eq!(Load::of_arguments(load.arguments().into_iter()), Ok(load.clone()));
    assert!(Load::of_arguments(["pace=fast".to_owned()].into_iter()).is_err());

    let server = RedisServer::start();
    let path = server.directory().join("log");
    let admissions = [u64::MAX, 5].map(|begun| Admission { begun, ended: begun, tokens: 1 << 31 });
    let log = Log::append(&path).expect("the folder can be written");
    admissions.iter().try_for_each(|one| log.write(*one)).expect("the folder can be written");
    assert_eq!(Log::read(&path).expect("it was written"), admissions);
    let snapshot = Snapshot { at: 7, by_policy: 3, policy_in_force: true, ..Snapshot::default() };
    std::fs::write(&path, snapshot.line() + "8 1").expect("the folder can be written");
    assert_eq!(Snapshot::read(&path).expect("it was written"), [snapshot]);
}
