//! Limits by plan and a server that works, fails or is not there: what is sent, and who decides.

use crate::fake::{Call, Fake, Mode, refused, until};
use damper_core::{Plan, Quota};
use damper_redis::{RedisLimiter, RedisLimiterBuilder, RedisLimiterError, RedisTree, WhenDown};
use std::time::{Duration, Instant};

const NONE: Plan = Plan::UNLIMITED;

fn plan(quota: Quota) -> Plan {
    Plan::new(quota).unwrap()
}

fn builder(fake: &Fake) -> RedisLimiterBuilder {
    let second = Duration::from_secs(1);
    RedisLimiter::connect(fake.url()).name("test").deadline(second).when_down(WhenDown::Closed)
}

async fn tree(builder: RedisLimiterBuilder) -> RedisTree<2, 2> {
    builder.build_tree(["user", "organisation"], ["requests", "tokens"]).await.unwrap()
}

#[tokio::test]
async fn limited_buckets_of_a_path_are_one_command() {
    let fake = Fake::start(100);
    let tree = tree(builder(&fake)).await;
    let (requests, tokens) = (plan(Quota::per_hour(100)), plan(Quota::per_hour(200)));
    let path = [("alice", [&requests, &NONE]), ("acme", [&requests, &tokens])];
    let allowed = tree.check(&path, [1, 20]).await.unwrap();
    assert_eq!((allowed.level(), allowed.dimension()), (1, 1), "a smaller part of 200 is left");
    let call = fake.calls().remove(0);
    let names = [
        "{0}",
        "{acme}:test:user.requests:alice",
        "{acme}:test:organisation.requests:",
        "{acme}:test:organisation.tokens:",
    ];
    assert_eq!(call.keys, names.map(|name| format!("damper:{name}")));
    assert_eq!((call.operation(), call.args[31]), (3, 20), "the cost of the third");
    // A time-to-live of two minutes, two bursts, and nothing to count for a check.
    assert_eq!(call.unsettled(), [120_000_000, 32_768, 0, 0, 0, 0, 0, 0, 0]);
    assert!(tree.check(&path, [0, 0]).await.unwrap().allowed().is_none(), "nothing is taken");
    assert!(tree.check(&[("alice", [&NONE, &NONE]), ("acme", [&NONE, &NONE])], [9, 9]).await.is_ok());
    assert!(tree.check(&path, [0, 5]).await.is_ok());
    assert_eq!(fake.calls()[1].keys.len(), 2, "without what costs nothing");
    assert_eq!((fake.calls().len(), tree.counts().allowed_by_server, tree.len()), (2, 2, 3));
}

#[tokio::test]
async fn reservation_is_settled_by_one_command() {
    let fake = Fake::start(100);
    let tree = tree(builder(&fake).unsettled(1.5).time_to_live(Duration::from_secs(7))).await;
    let tokens = plan(Quota::per_hour(100));
    let path = [("alice", [&NONE, &NONE]), ("acme", [&NONE, &tokens])];
    let call = tree.reserve(&path, [1, 50]).await.unwrap();
    assert_eq!((call.costs(), call.allowed().allowed().map(|allowed| allowed.remaining())), ([1, 50], Some(50)));
    assert_eq!(fake.calls()[0].unsettled(), [7_000_000, 24_576, 0, 8_192, 0], "half of the burst is counted");
    call.settle([1, 20]);
    until("the command", async || fake.calls().len() == 2).await;
    let settled = fake.calls().remove(1);
    assert_eq!((settled.args[11], settled.charge(), settled.refund()), (0, 0, 30));
    assert!(settled.unsettled()[2] > 1_700_000_000_000_000, "the server's time of the reservation");
    assert_eq!(settled.unsettled()[3..], [0, 8_192]);
    until("the tokens", async || fake.tokens() == 80).await;

    tree.reserve(&path, [1, 10]).await.unwrap().settle([1, 15]);
    until("the command", async || fake.calls().len() == 4).await;
    assert_eq!((fake.calls()[3].charge(), fake.calls()[3].refund()), (5, 0));
    drop(tree.reserve(&path, [1, 10]).await.unwrap());
    until("the command", async || fake.calls().len() == 6).await;
    assert_eq!((fake.calls()[5].charge(), fake.calls()[5].refund()), (0, 0), "used in full");
    assert_eq!(fake.calls()[5].unsettled()[4], 1_639, "and counted no more, rounded up");
}

#[tokio::test]
async fn refusal_is_remembered_for_a_moment() {
    let fake = Fake::start(3);
    let users = builder(&fake).build_by_plan().await.unwrap();
    let slow = plan(Quota::per_hour(100));
    let begun = Instant::now();
    let denied = users.check_with("alice", &slow, 4).await.unwrap_err();
    assert!(denied.retry_after().is_some_and(|wait| wait > Duration::from_secs(30)), "{denied}");
    assert!(users.check_with("alice", &slow, 101).await.unwrap_err().exceeds_burst(), "no server is asked");
    until("another call that asks", async || {
        assert!(users.check_with("alice", &slow, 4).await.is_err());
        fake.calls().len() >= 2
    })
    .await;
    let most = 2 + begun.elapsed().as_millis() as usize / 100;
    assert!(fake.calls().len() <= most, "{} calls, at most {most}: one in 100 ms", fake.calls().len());
    assert!(users.counts().denied_locally > 0);
    assert!(users.check_with("alice", &slow, 2).await.is_ok(), "less may be there");
    assert!(users.check_with("bob", &plan(Quota::per_hour(100)), 1).await.is_ok());
    let usage = users.usage_with("bob", &slow).await.unwrap();
    assert_eq!((usage.remaining(), usage.used()), (0, 100));
    assert_eq!(users.check_with("alice", &NONE, 7).await.unwrap().remaining(), u32::MAX);
}

#[tokio::test]
async fn policies_decide_while_the_server_is_silent() {
    let fake = Fake::start(100);
    fake.set_processes(2);
    let silent = || builder(&fake).deadline(Duration::from_millis(5));
    let requests = plan(Quota::per_hour(10));
    let path = [("alice", [&requests, &NONE]), ("acme", [&requests, &NONE])];
    let closed = tree(silent()).await;
    let open = tree(silent().when_down(WhenDown::Open)).await;
    fake.set(Mode::Silent);
    let denied = closed.check(&path, [1, 0]).await.unwrap_err();
    assert_eq!((denied.level_name(), denied.dimension_name()), ("user", "requests"), "the first limit");
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(200)));
    let reserved = open.reserve(&path, [3, 0]).await.unwrap();
    let calls = fake.calls().len();
    reserved.settle([1, 0]);
    fake.set(Mode::Answer);
    until("the server", async || open.check(&path, [1, 0]).await.is_ok() && open.counts().allowed_by_server > 0).await;
    assert!(fake.calls()[calls..].iter().all(|call| call.refund() == 0), "nothing is given back");
    assert_eq!((closed.counts().denied_by_policy, open.counts().allowed_by_policy > 0), (1, true));
}

#[tokio::test]
async fn share_is_spent_while_the_server_is_silent_and_charged_when_it_is_back() {
    let fake = Fake::start(1_000);
    fake.set_processes(2);
    let tree = tree(builder(&fake).deadline(Duration::from_millis(5)).when_down(WhenDown::LocalShare)).await;
    // Half of it for each process is a token each 2 ms, and 500 at most.
    let requests = plan(Quota::per_second(1_000));
    let path = [("alice", [&requests, &NONE]), ("acme", [&NONE, &NONE])];
    let begun = Instant::now();
    tree.check(&path, [1, 0]).await.unwrap();
    until("two processes", async || tree.status().processes == 2).await;
    fake.set(Mode::Silent);
    let mut allowed = 0;
    until("a part of the share", async || {
        allowed += u64::from(tree.check(&path, [20, 0]).await.is_ok());
        allowed >= 3
    })
    .await;
    // It was empty at the last reply.
    let most = begun.elapsed().as_millis() as u64 / 40;
    assert!(allowed <= most, "{allowed} calls of 20 tokens, at most {most}");
    let by_policy = tree.counts().allowed_by_policy;
    assert!(by_policy >= 3, "{by_policy}");
    fake.set(Mode::Answer);
    until("the charge", async || {
        _ = tree.check(&path, [1, 0]).await;
        fake.calls().iter().map(Call::charge).sum::<u64>() >= 60
    })
    .await;
}

#[tokio::test]
async fn settings_of_trees_are_checked() {
    let lazy = || RedisLimiter::connect("redis://127.0.0.1/").name("test");
    let built =
        |builder: RedisLimiterBuilder| builder.build_tree_lazy(["user"], ["tokens"]).map(drop).unwrap_err().to_string();
    assert_eq!(built(lazy().unsettled(256.0)), "unsettled is 256.0, it must be 0.0 to 255.0 (bursts)");
    assert_eq!(built(lazy().time_to_live(Duration::ZERO)), "time_to_live is 0 ns, it must be 1 ms to 30 days");
    assert_eq!(
        built(lazy().quota(Quota::per_hour(1))),
        "1 quotas are set for limits by plan, whose quotas come with the calls; leave out quota()"
    );
    assert_eq!(built(lazy().name("")), "name \"\" must have 1 to 64 bytes");
    assert_eq!(built(lazy().capacity(0)), "capacity is 0, it must be 1 to 268435456");
    let same = lazy().build_tree_lazy(["a", "b", "a"], ["tokens"]).unwrap_err();
    assert!(matches!(same, RedisLimiterError::SameName { name: "a" }), "{same}");
    assert_eq!(same.to_string(), "name \"a\" occurs twice, each level and dimension needs its own");
    let none: [&str; 0] = [];
    let error = lazy().build_tree_lazy(none, ["tokens"]).unwrap_err().to_string();
    assert_eq!(error, "levels is 0, it must be 1 to 8");
    let tree = lazy().build_tree_lazy(["user", "organisation"], ["tokens"]).unwrap();
    assert_eq!((tree.name(), tree.levels(), tree.dimensions()), ("test", ["user", "organisation"], ["tokens"]));
    assert_eq!(
        format!("{tree:?}"),
        r#"RedisTree { name: "test", levels: ["user", "organisation"], dimensions: ["tokens"], .. }"#
    );
}

#[test]
fn policy_decides_without_a_runtime() {
    let tree = RedisLimiter::connect("redis://127.0.0.1:1/").when_down(WhenDown::Open);
    let tree = tree.build_tree_lazy(["organisation"], ["tokens"]).unwrap();
    let tokens = plan(Quota::per_hour(100));
    let path = [("acme", [&tokens])];
    let waker = std::task::Waker::noop();
    let mut reserve = std::pin::pin!(tree.reserve(&path, [50]));
    let std::task::Poll::Ready(Ok(reserved)) = reserve.as_mut().poll(&mut std::task::Context::from_waker(waker)) else {
        panic!("it is decided at once")
    };
    assert_eq!(reserved.allowed().allowed().map(|allowed| allowed.remaining()), Some(100));
    reserved.settle([70]);
    assert_eq!(tree.counts().allowed_by_policy, 1);
}

/// Each level and dimension has its usage at its place. Those that the plans do not limit are free.
#[tokio::test]
async fn usage_of_a_tree_is_that_of_each_limit_and_takes_nothing() {
    let fake = Fake::start(40);
    let tree = tree(builder(&fake)).await;
    let (requests, tokens) = (plan(Quota::per_hour(100)), plan(Quota::per_hour(200)));
    let path = [("alice", [&requests, &NONE]), ("acme", [&NONE, &tokens])];
    let usage = tree.usage(&path).await.unwrap();
    assert_eq!(usage.map(|level| level.map(|usage| usage.remaining())), [[40, u32::MAX], [u32::MAX, 40]]);
    assert_eq!(usage.map(|level| level.map(|usage| usage.used())), [[60, 0], [0, 160]]);
    assert_eq!((fake.tokens(), tree.is_empty()), (40, false));
    assert!(fake.calls().iter().all(Call::is_look));
    let free = [("alice", [&NONE, &NONE]), ("acme", [&NONE, &NONE])];
    assert_eq!(tree.usage(&free).await.unwrap().map(|level| level.map(|usage| usage.used())), [[0; 2]; 2]);

    fake.set(Mode::Error);
    assert!(tree.usage(&path).await.is_err());
}

/// A process may start before the server.
#[tokio::test]
async fn lazy_limits_by_plan_are_decided_by_the_policy_until_the_server_is_there() {
    let lazy = RedisLimiter::connect(refused()).name("users").when_down(WhenDown::Open).build_by_plan_lazy().unwrap();
    assert!(lazy.check_with("alice", &plan(Quota::per_hour(1)), 1).await.is_ok());
    assert_eq!((lazy.name(), lazy.status().policy), ("users", Some(WhenDown::Open)));
}

/// Each command that the server executes would otherwise book the whole charge again.
#[tokio::test]
async fn charge_without_a_reply_is_booked_twice_at_most() {
    let fake = Fake::start(1_000_000);
    let millis = Duration::from_millis;
    let tree = tree(builder(&fake).deadline(millis(20)).when_down(WhenDown::Open)).await;
    let requests = plan(Quota::per_hour(1_000_000));
    let path = [("alice", [&NONE, &NONE]), ("acme", [&requests, &NONE])];
    fake.set_delay(millis(60));
    tree.reserve(&path, [1, 0]).await.unwrap().settle([8, 0]);
    for _ in 0..6 {
        assert!(tree.check(&path, [1, 0]).await.is_ok(), "the policy allows all");
        tokio::time::sleep(millis(100)).await;
    }
    let charged = || fake.calls().iter().map(Call::charge).sum::<u64>();
    assert_eq!(charged(), 7, "once while nothing is answered");
    fake.set_delay(Duration::ZERO);
    until("the second booking", async || tree.check(&path, [1, 0]).await.is_ok() && charged() > 7).await;
    for _ in 0..5 {
        assert!(tree.check(&path, [1, 0]).await.is_ok());
    }
    assert_eq!(charged(), 14);
}

/// The reply says that the server has booked the charge, though the process was stopped when it came.
#[tokio::test]
async fn charge_is_booked_once_though_the_process_is_stopped() {
    let fake = Fake::start(1_000_000);
    let millis = Duration::from_millis;
    let tree = tree(builder(&fake).deadline(millis(600))).await;
    let requests = plan(Quota::per_hour(1_000_000));
    let path = [("alice", [&NONE, &NONE]), ("acme", [&requests, &NONE])];
    fake.set_delay(millis(50));
    tree.reserve(&path, [1, 0]).await.unwrap().settle([8, 0]);
    let other = tree.clone();
    let check = tokio::spawn(async move {
        let path = [("alice", [&NONE, &NONE]), ("acme", [&requests, &NONE])];
        other.check(&path, [1, 0]).await.is_ok()
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    std::thread::sleep(millis(1_000));
    assert!(!check.await.unwrap(), "the deadline has passed");
    fake.set_delay(Duration::ZERO);
    for _ in 0..3 {
        assert!(tree.check(&path, [1, 0]).await.is_ok());
    }
    assert_eq!((fake.calls().iter().map(Call::charge).sum::<u64>(), tree.counts().failures), (7, 0));
}
