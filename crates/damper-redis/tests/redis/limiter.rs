//! A limiter and a server that works: what is sent, what is leased, and what callers may do to a check.

use crate::fake::{self, Fake, Mode, until};
use damper_core::Quota;
use damper_redis::{KeyedRedisLimiter, Leasing, RedisLimiter, RedisLimiterBuilder, RedisLimiterError, WhenDown};
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};

fn builder(fake: &Fake) -> RedisLimiterBuilder {
    let second = Duration::from_secs(1);
    RedisLimiter::connect(fake.url())
        .name("test")
        .quota(Quota::per_hour(100))
        .deadline(second)
        .when_down(WhenDown::Closed)
}

/// A limiter that has leased tokens.
async fn leasing(fake: &Fake) -> RedisLimiter {
    let limiter = builder(fake).quota(Quota::per_second(100_000)).build().await.unwrap();
    until("a lease", async || {
        for _ in 0..50 {
            _ = limiter.check().await;
        }
        limiter.status().leased > 0
    })
    .await;
    limiter
}

fn assert_send<T: Send>(value: T) -> T {
    value
}

#[tokio::test]
async fn user_without_a_permission_is_an_error_of_build() {
    let errors = [
        ("EVALSHA", "NOPERM this user has no permissions to run the 'evalsha' command"),
        ("SCRIPT", "NOPERM this user has no permissions to run the 'script|load' command"),
        ("EVALSHA", "ERR Error running script: No permissions to access a key script"),
    ];
    for (command, error) in errors {
        let fake = Fake::start(10);
        fake.refuse(command, error);
        let builder = || RedisLimiter::connect(fake.url()).quota(Quota::per_second(10));
        for built in [builder().build().await.map(drop), builder().build_keyed().await.map(drop)] {
            let built = built.unwrap_err();
            assert!(matches!(built, RedisLimiterError::Refused { .. }), "{built:?}");
            assert!(built.to_string().contains(&error[5..]), "{built}");
        }
    }
    // This one may be over at the next check, which the policy decides until then.
    let fake = Fake::start(10);
    fake.refuse("EVALSHA", "OOM command not allowed when used memory > 'maxmemory'");
    assert!(RedisLimiter::connect(fake.url()).quota(Quota::per_second(10)).build().await.is_ok());
}

#[tokio::test]
async fn server_decides_and_the_process_remembers_a_denial() {
    let fake = Fake::start(3);
    let limiter = builder(&fake).build().await.unwrap();
    assert_eq!(limiter.check_n(2).await.unwrap().remaining(), 1);
    let denied = limiter.check_n(2).await.unwrap_err();
    assert!(denied.retry_after().is_some_and(|wait| wait > Duration::from_secs(30)), "{denied}");
    let asked = fake.calls().len();
    for _ in 0..100 {
        assert!(limiter.check_n(2).await.is_err());
    }
    assert_eq!(fake.calls().len(), asked, "denied without asking");
    assert_eq!(limiter.counts().denied_locally, 100);
    assert!(limiter.check().await.is_ok(), "less may be there");
    assert!(limiter.check_n(101).await.unwrap_err().exceeds_burst());
    assert!(limiter.check_n(0).await.is_ok());
}

#[tokio::test]
async fn script_that_the_server_does_not_know_is_sent_and_the_call_made_once() {
    let fake = Fake::start(100);
    let limiter = builder(&fake).build().await.unwrap();
    fake.forget_scripts();
    assert!(limiter.check().await.is_ok());
    let commands: Vec<_> = fake.calls().into_iter().map(|call| call.command).collect();
    assert_eq!(commands, ["EVAL"]);
    assert_eq!(fake.tokens(), 99);
    assert!(limiter.check().await.is_ok());
    assert_eq!(fake.calls().last().unwrap().command, "EVALSHA");
}

#[tokio::test]
async fn every_take_carries_a_time_after_which_it_has_no_effect() {
    let fake = Fake::start(100);
    let limiter = builder(&fake).build().await.unwrap();
    for _ in 0..5 {
        assert!(limiter.check().await.is_ok());
    }
    assert!(fake.calls().iter().all(|call| call.not_after() > 1_700_000_000_000_000));
}

#[tokio::test]
async fn check_survives_a_forward_step_of_the_servers_clock() {
    let fake = Fake::start(100);
    let limiter = builder(&fake).leasing(Leasing::Never).build().await.unwrap();
    assert!(limiter.check().await.is_ok());
    fake.set_clock_ahead(Duration::from_hours(1));
    assert!(limiter.check().await.is_ok(), "asked again by the new time");
    assert_eq!(fake.tokens(), 98);
    let calls = fake.calls();
    assert_eq!(calls.len(), 3);
    assert!(calls[2].not_after() > calls[1].not_after() + 3_000_000_000);
    fake.set_clock_ahead(Duration::ZERO);
    assert!(limiter.check().await.is_ok());
    assert!(limiter.check().await.is_ok());
    assert!(fake.calls()[4].not_after() < calls[2].not_after(), "and back");
}

#[tokio::test]
async fn busy_limit_is_leased_with_few_commands() {
    let fake = Fake::start(1_000_000);
    let limiter = leasing(&fake).await;
    let (before, begun) = (limiter.counts().commands, std::time::Instant::now());
    let mut allowed = 0;
    for _ in 0..100 {
        for _ in 0..100 {
            allowed += u64::from(limiter.check().await.is_ok());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let commands = limiter.counts().commands - before;
    assert!(allowed > 1_000, "{allowed}");
    // At most one every 20 ms, and one more.
    assert!(commands <= 2 + begun.elapsed().as_millis() as u64 / 20, "{commands} in {:?}", begun.elapsed());
    let counts = limiter.counts();
    assert!(
        counts.grants > 0 && counts.tokens_granted >= counts.tokens_by_lease && counts.tokens_by_lease > 0,
        "{counts:?}"
    );
}

#[tokio::test]
async fn lease_is_returned_when_the_last_clone_is_dropped() {
    let fake = Fake::start(1_000_000);
    let limiter = leasing(&fake).await;
    let clone = limiter.clone();
    drop(limiter);
    assert!(clone.check().await.is_ok());
    assert_eq!(fake.left(), 0);
    drop(clone);
    let returned = || fake.calls().iter().rev().find(|call| call.operation() == 1).is_some_and(|call| call.back() > 0);
    until("the lease is back", async || returned()).await;
    until("the process has left", async || fake.left() == 1).await;
}

#[tokio::test]
async fn lease_of_an_idle_process_is_returned() {
    let fake = Fake::start(1_000_000);
    let limiter = leasing(&fake).await;
    until("the lease is back", async || fake.calls().iter().any(|call| call.operation() == 1 && call.back() > 0)).await;
    assert_eq!(limiter.status().leased, 0);
}

/// The next request for tokens of an exhausted limit is five seconds away.
///
/// Charges and refunds do not wait for it.
#[tokio::test]
async fn process_whose_lease_is_used_up_sends_charges_and_refunds() {
    let fake = Fake::start(1_000);
    let limiter = builder(&fake).quota(Quota::per_hour(40).burst(1_000)).build().await.unwrap();
    until("the end of the tokens", async || {
        for _ in 0..50 {
            _ = limiter.check().await;
        }
        fake.tokens() == 0 && limiter.status().leased == 0
    })
    .await;
    until("no request", async || {
        let calls = fake.calls().len();
        tokio::time::sleep(Duration::from_millis(300)).await;
        calls == fake.calls().len()
    })
    .await;
    assert_eq!(fake.calls().last().unwrap().operation(), 1, "it leases");
    for (tokens, book) in [(-7, RedisLimiter::charge as fn(&RedisLimiter, u32)), (0, RedisLimiter::refund)] {
        book(&limiter, 7);
        let booked = until("the booking", async || fake.tokens() == tokens);
        tokio::time::timeout(Duration::from_secs(3), booked).await.expect("it comes before the next request");
        assert_eq!(fake.calls().last().unwrap().operation(), 1, "it leases");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn dropped_checks_harm_no_other() {
    let fake = Fake::start(1_000_000);
    for leasing in [Leasing::Never, Leasing::WhenHot] {
        let limiter = builder(&fake).quota(Quota::per_second(100_000)).leasing(leasing).build().await.unwrap();
        fake.set(Mode::Silent);
        for _ in 0..100 {
            // Dropped in the middle.
            assert!(tokio::time::timeout(Duration::from_millis(1), limiter.check()).await.is_err());
        }
        fake.set(Mode::Answer);
        until("a check is allowed", async || limiter.check().await.is_ok()).await;
        assert!(limiter.status().policy.is_none());
    }
}

/// A future that is never polled may hold the request that all others wait for.
#[tokio::test]
async fn checks_that_are_never_polled_keep_no_other_waiting() {
    let fake = Fake::start(1_000_000);
    let limits = builder(&fake).quota(Quota::per_second(100_000)).build_keyed().await.unwrap();
    limits.charge("hot", 9);
    for _ in 0..50 {
        drop(limits.check("hot"));
    }
    let decided = tokio::time::timeout(Duration::from_millis(500), limits.check("hot")).await;
    assert!(decided.is_ok_and(|answer| answer.is_ok()), "half of a deadline, and of a lease");
    until("the charge", async || fake.tokens() <= 1_000_000 - 9).await;
    assert_eq!(fake.calls().iter().map(fake::Call::charge).sum::<u64>(), 9);
}

/// While the limit has tokens, a lease that runs dry denies none of the checks.
#[tokio::test]
async fn thousand_checks_at_once_are_allowed_with_few_commands() {
    let fake = Fake::start(1_000_000);
    let limiter = builder(&fake).quota(Quota::per_second(100_000)).build().await.unwrap();
    let checks: Vec<_> = (0..1_000)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.check().await.is_ok() })
        })
        .collect();
    let mut allowed = 0;
    for check in checks {
        allowed += u32::from(check.await.unwrap());
    }
    assert_eq!(allowed, 1_000);
    let commands = limiter.counts().commands;
    assert!(commands <= 20, "{commands} commands");
}

/// So that a request that arrives late, and could be forgotten, leases nothing.
#[tokio::test]
async fn request_for_a_lease_has_no_effect_after_the_lease() {
    let fake = Fake::start(1_000_000);
    let limiter =
        builder(&fake).quota(Quota::per_second(100_000)).lease_length(Duration::from_millis(100)).build().await;
    let limiter = limiter.unwrap();
    until("a request", async || {
        // More than the 80 a second from which it leases, also where each pause of `until` takes 20 ms.
        for _ in 0..5 {
            _ = limiter.check().await;
        }
        fake.calls().iter().any(|call| call.operation() == 1)
    })
    .await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64;
    let calls = fake.calls();
    let request = calls.iter().find(|call| call.operation() == 1).unwrap();
    assert!(calls[0].not_after() > request.not_after(), "that of a check is a second");
    assert!(request.not_after() <= now + 100_000);
}

#[tokio::test]
async fn dropped_check_has_taken_its_tokens_at_most() {
    let fake = Fake::start(1_000);
    let limiter = builder(&fake).quota(Quota::per_hour(1_000)).leasing(Leasing::Never).build().await.unwrap();
    for _ in 0..50 {
        drop(tokio::time::timeout(Duration::from_micros(50), limiter.check_n(2)).await);
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(fake.tokens() >= 900, "{}", fake.tokens());
    assert_eq!(fake.tokens() % 2, 0);
}

#[tokio::test]
async fn charge_is_told_again_until_it_is_acknowledged() {
    let fake = Fake::start(100);
    let limiter = builder(&fake).build().await.unwrap();
    fake.set(Mode::Error);
    limiter.charge(7);
    assert!(limiter.check().await.is_err(), "the command with the charge failed");
    fake.set(Mode::Answer);
    until("the charge", async || fake.calls().iter().any(|call| call.charge() == 7)).await;
    until("and its count", async || fake.tokens() == 93).await;
}

#[tokio::test]
async fn charge_of_a_dropped_check_is_told_again() {
    let fake = Fake::start(100);
    let limiter = builder(&fake).build().await.unwrap();
    fake.set(Mode::Silent);
    limiter.charge(7);
    assert!(tokio::time::timeout(Duration::from_millis(20), limiter.check()).await.is_err());
    fake.set(Mode::Answer);
    until("the charge", async || fake.calls().iter().any(|call| call.charge() == 7)).await;
}

#[tokio::test]
async fn settled_reservation_gives_back_or_charges_the_difference() {
    let fake = Fake::start(100);
    let limiter = builder(&fake).build().await.unwrap();
    let reservation = limiter.reserve(10).await.unwrap();
    assert_eq!(reservation.allowed().remaining(), 90);
    reservation.settle(4);
    until("the refund", async || fake.tokens() == 96).await;
    limiter.reserve(10).await.unwrap().settle(15);
    until("the charge", async || fake.tokens() == 81).await;
    assert_eq!(limiter.usage().await.unwrap().remaining(), 81);
    limiter.reset().await.unwrap();
    assert_eq!(fake.tokens(), 100);
}

#[tokio::test]
async fn keys_have_limits_of_their_own_and_an_evicted_lease_is_returned() {
    let fake = Fake::start(1_000_000);
    let quota = Quota::per_second(100_000);
    let limits: KeyedRedisLimiter = builder(&fake).quota(quota).capacity(1).build_keyed().await.unwrap();
    let address: IpAddr = [192, 0, 2, 7].into();
    assert!(limits.check("tenant").await.is_ok() && limits.check(&address).await.is_ok());
    assert!(limits.check(&Some(42_u32)).await.is_ok() && limits.check(&None::<u32>).await.is_ok());
    let keys: Vec<_> = fake.calls().into_iter().map(|call| call.keys[1].clone()).collect();
    assert_eq!(
        keys,
        ["damper:{tenant}:test:0", "damper:{192.0.2.7}:test:0", "damper:{=42}:test:0", "damper:{%}:test:0"]
    );
    until("a lease", async || {
        for _ in 0..50 {
            _ = limits.check("hot").await;
        }
        limits.status().leased > 0
    })
    .await;
    assert!(limits.check("other").await.is_ok());
    assert_eq!(limits.len(), 1);
    until("the lease is back", async || fake.calls().iter().any(|call| call.operation() == 1 && call.back() > 0)).await;
    limits.reserve("other", 5).await.unwrap().settle(2);
    assert!(limits.usage("other").await.unwrap().remaining() > 0);
}

/// A refund, a charge and a reset reach the key, whether it is text or bytes.
#[tokio::test]
async fn keys_are_refunded_and_reset_one_by_one() {
    let fake = Fake::start(100);
    let limits: KeyedRedisLimiter = builder(&fake).build_keyed().await.unwrap();
    limits.check_n("tenant", 10).await.unwrap();
    limits.refund("tenant", 4);
    until("the refund", async || fake.tokens() == 94).await;
    limits.charge(&b"tenant"[..], 5);
    until("the charge", async || fake.tokens() == 89).await;
    limits.reset("tenant").await.unwrap();
    assert_eq!((fake.tokens(), limits.len()), (100, 1));
    let calls = fake.calls();
    assert!(calls.iter().all(|call| call.keys[1] == "damper:{tenant}:test:0"), "{calls:?}");
    assert_eq!(calls.last().unwrap().operation(), 2);

    fake.set(Mode::Error);
    let error = limits.reset("tenant").await.unwrap_err();
    assert!(error.to_string().starts_with("the server failed: "), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn unlimited_quota_asks_no_server() {
    let limiter = RedisLimiter::connect(fake::refused()).quota(Quota::UNLIMITED).build().await.unwrap();
    assert_eq!(limiter.check_n(u32::MAX).await.unwrap().remaining(), u32::MAX);
    assert_eq!(limiter.usage().await.unwrap().remaining(), u32::MAX);
    limiter.charge(1);
    limiter.refund(1);
    assert_eq!(limiter.counts().commands, 0);
    limiter.reset().await.unwrap();
    assert_eq!((limiter.name(), limiter.quotas(), limiter.status().policy), ("default", &[Quota::UNLIMITED][..], None));
    let keyed: KeyedRedisLimiter =
        RedisLimiter::connect(fake::refused()).name("keys").quota(Quota::UNLIMITED).build_keyed().await.unwrap();
    assert!(keyed.check("any").await.is_ok());
    keyed.refund("any", 1);
    keyed.charge("any", 1);
    keyed.reset("any").await.unwrap();
    assert_eq!(keyed.usage("any").await.unwrap().remaining(), u32::MAX);
    assert_eq!((keyed.name(), keyed.quotas(), keyed.status().policy), ("keys", &[Quota::UNLIMITED][..], None));
    assert_eq!((keyed.counts().commands, keyed.is_empty()), (0, true));
}

#[tokio::test]
async fn server_is_marked_whatever_the_quota() {
    let fake = Fake::start(1);
    RedisLimiter::connect(fake.url()).mark_deployed().await.unwrap();
    RedisLimiter::connect(fake.url()).quota(Quota::UNLIMITED).mark_deployed().await.unwrap();
    assert_eq!(fake.markers(), ["damper:{0} 0 NX", "damper:{0} 0 NX"]);
    let nowhere = RedisLimiter::connect(fake::refused()).quota(Quota::UNLIMITED);
    assert!(nowhere.connect_timeout(Duration::from_millis(20)).mark_deployed().await.is_err());
}

/// A cluster has a marker for each of its 16,384 slots, which take a while.
#[tokio::test]
async fn markers_have_the_whole_timeout_once_the_server_is_connected() {
    let fake = Fake::start(1);
    let part = Duration::from_millis(1_200);
    fake.refuse("SCRIPT", "LOADING it is loading");
    fake.set_delay(part);
    let mark = RedisLimiter::connect(fake.url()).connect_timeout(Duration::from_secs(2)).mark_deployed();
    let load = async {
        tokio::time::sleep(part).await;
        fake.refuse("", "");
    };
    let (marked, ()) = tokio::join!(mark, load);
    marked.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limiter_works_on_many_threads() {
    let fake = Fake::start(1_000_000);
    let limiter = builder(&fake).quota(Quota::per_second(100_000)).build().await.unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(assert_send(async move {
                let mut allowed = 0;
                for _ in 0..500 {
                    allowed += u32::from(limiter.check().await.is_ok());
                }
                allowed
            }))
        })
        .collect();
    let mut allowed = 0;
    for task in tasks {
        allowed += task.await.unwrap();
    }
    assert!(allowed > 0);
    let keyed = builder(&fake).build_keyed().await.unwrap();
    assert!(tokio::spawn(keyed.check("tenant")).await.unwrap().is_ok());
}

/// A connection ends with its runtime, and the next runtime makes another.
#[test]
fn limiter_outlives_its_runtime() {
    let fake = Fake::start(1_000);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = runtime().block_on(builder(&fake).build()).unwrap();
    for _ in 0..2 {
        let mut check = pin!(limiter.check());
        assert!(check.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        assert_eq!(limiter.status().policy, Some(WhenDown::Closed));
        assert!(limiter.status().last_error.is_some_and(|error| error.message.contains("runtime")));
        runtime().block_on(until("a decision of the server", async || limiter.check().await.is_ok()));
        assert_eq!(limiter.status().policy, None);
    }
}
