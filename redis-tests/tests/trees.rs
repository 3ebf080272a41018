//! Limits by plan on a real Redis: envelopes, all or none, reservations, and one slot of a cluster.

use damper_core::{Plan, Quota};
use damper_redis::{AfterLoss, RedisLimiter, RedisLimiterBuilder, RedisTree, WhenDown};
use damper_redis_tests::{Admission, Envelope, RedisCluster, RedisServer, exclusive, micros_now};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

const NONE: Plan = Plan::UNLIMITED;

fn plan(quota: Quota) -> Plan {
    Plan::new(quota).expect("it is in range")
}

fn builder(server: &RedisServer) -> RedisLimiterBuilder {
    // Timeouts count as taken, and are not the subject here.
    let deadline = Duration::from_secs(2);
    RedisLimiter::connect(server.url()).name("trees").when_down(WhenDown::Closed).deadline(deadline)
}

async fn tree(builder: RedisLimiterBuilder) -> RedisTree<2, 2> {
    builder.clone().mark_deployed().await.expect("the server answers");
    builder.build_tree(["user", "organisation"], ["requests", "tokens"]).await.expect("the server answers")
}

/// Returns what is used of the tokens of the user and of the organisation.
async fn used(tree: &RedisTree<2, 2>, path: &[(&str, [&Plan; 2]); 2]) -> [u32; 2] {
    tree.usage(path).await.expect("the server answers").map(|dimensions| dimensions[1].used())
}

/// Tries again until it is so. Fails after ten seconds, which no machine is too slow for.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..1_000 {
        if is_so().await {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} within ten seconds");
}

// CLAIM: redis::RedisTree
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envelopes_hold_for_callers_of_several_processes_with_plans_that_alternate() {
    let _machine = exclusive();
    let server = RedisServer::start();
    let plans = [plan(Quota::per_second(200).burst(50)), plan(Quota::per_second(50).burst(20))];
    let root = plan(Quota::per_second(300).burst(60));
    let trees = [tree(builder(&server)).await, tree(builder(&server)).await];
    let mut callers = JoinSet::new();
    for caller in 0..6_usize {
        let tree = trees[caller % 2].clone();
        let user = ["alice", "bob", "carol"][caller % 3];
        callers.spawn(async move {
            let mut admitted = Vec::new();
            let end = micros_now() + 2_000_000;
            for call in 0.. {
                let number = call % 2;
                let begun = micros_now();
                if begun > end {
                    break;
                }
                let path = [(user, [&NONE, &plans[number]]), ("acme", [&NONE, &root])];
                if tree.check(&path, [1, 1 + caller as u32 % 3]).await.is_ok() {
                    let tokens = 1 + caller as u32 % 3;
                    admitted.push((user, number, Admission { begun, ended: micros_now() + 1, tokens }));
                }
            }
            admitted
        });
    }
    let mut log = Vec::new();
    while let Some(admitted) = callers.join_next().await {
        log.extend(admitted.expect("no caller panics"));
    }
    let of = |is: &dyn Fn(&str, usize) -> bool| -> Vec<Admission> {
        log.iter().filter(|(user, plan, _)| is(user, *plan)).map(|(.., admission)| *admission).collect()
    };
    let second = Duration::from_secs(1);
    let all = of(&|_, _| true);
    let envelope = Envelope::new(60, 300, second);
    println!("organisation: {} admissions, {:?}", all.len(), envelope.peak(&all));
    assert_eq!(envelope.excess(&all), 0, "the organisation's envelope");
    for user in ["alice", "bob", "carol"] {
        for (number, envelope) in [Envelope::new(50, 200, second), Envelope::new(20, 50, second)].iter().enumerate() {
            let own = of(&|of, plan| of == user && plan == number);
            assert_eq!(
                envelope.excess(&own),
                0,
                "the envelope of {user} under plan {number}: {:?}",
                envelope.peak(&own)
            );
        }
    }
    let tokens: u32 = all.iter().map(|one| one.tokens).sum();
    assert!(tokens >= 300, "{tokens} tokens in two seconds of 300 a second");
}

// CLAIM: redis::RedisTree
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_take_from_all_buckets_or_from_none() {
    let server = RedisServer::start();
    let trees = [tree(builder(&server)).await, tree(builder(&server)).await];
    // No token comes back within the test.
    let (small, large) = (plan(Quota::per_hour(40)), plan(Quota::per_hour(100)));
    let users = ["alice", "bob", "carol", "dave"];
    let mut callers = JoinSet::new();
    for caller in 0..8_usize {
        let (tree, user) = (trees[caller % 2].clone(), users[caller % 4]);
        callers.spawn(async move {
            let mut taken = 0;
            for _ in 0..20 {
                let path = [(user, [&NONE, &small]), ("acme", [&NONE, &large])];
                taken += if tree.check(&path, [1, 3]).await.is_ok() { 3 } else { 0 };
            }
            (user, taken)
        });
    }
    let mut taken = [0; 4];
    while let Some(caller) = callers.join_next().await {
        let (user, tokens) = caller.expect("no caller panics");
        taken[users.iter().position(|other| *other == user).expect("a user")] += tokens;
    }
    assert_eq!(taken.iter().sum::<u32>(), 99, "of 100, by threes");
    for (user, taken) in users.into_iter().zip(taken) {
        assert!(taken <= 39, "{user} has 40");
        let path = [(user, [&NONE, &small]), ("acme", [&NONE, &large])];
        assert_eq!(used(&trees[0], &path).await, [taken, 99], "a refused call of {user} took nothing");
    }
    let path = [("erin", [&NONE, &small]), ("acme", [&NONE, &large])];
    let denied = trees[1].check(&path, [1, 3]).await.expect_err("one is left");
    assert_eq!(
        (denied.level_name(), denied.dimension_name(), denied.is_contended()),
        ("organisation", "tokens", false)
    );
    let wait = denied.retry_after().expect("it is worth waiting");
    assert!(wait > Duration::from_secs(60) && wait <= Duration::from_secs(72), "{wait:?} for two tokens");
    let other = [("alice", [&NONE, &small]), ("globex", [&NONE, &large])];
    assert_eq!(used(&trees[0], &other).await, [0, 0], "a user of another organisation");
}

#[tokio::test]
async fn key_keeps_its_time_under_another_plan() {
    let server = RedisServer::start();
    builder(&server).mark_deployed().await.expect("the server answers");
    let users = builder(&server).build_by_plan().await.expect("the server answers");
    let (free, pro) = (plan(Quota::per_hour(100)), plan(Quota::per_hour(1_000)));
    assert_eq!(users.check_with("alice", &free, 50).await.expect("it is full").remaining(), 50);
    let under = async |plan| users.usage_with("alice", plan).await.expect("the server answers").remaining();
    // Half an hour of either, and what drips in meanwhile.
    let left = under(&pro).await;
    assert!((500..510).contains(&left), "{left}");
    assert_eq!(users.check_with("bob", &pro, 700).await.expect("it is full").remaining(), 300);
    assert!(users.check_with("bob", &free, 40).await.is_err(), "42 minutes are owed");
    assert!(users.check_with("bob", &free, 25).await.is_ok());
}

#[tokio::test]
async fn reservations_give_back_what_is_counted_and_no_more() {
    let server = RedisServer::start();
    let tree = tree(builder(&server).unsettled(1.0)).await;
    let tokens = plan(Quota::per_hour(1_000));
    let path = [("alice", [&NONE, &NONE]), ("acme", [&NONE, &tokens])];
    let used = async || used(&tree, &path).await[1];
    let one = tree.reserve(&path, [1, 600]).await.expect("it is full");
    one.settle([1, 100]);
    until("500 back", async || used().await == 100).await;
    let (one, other) = (tree.reserve(&path, [1, 600]).await, tree.reserve(&path, [1, 300]).await);
    assert_eq!(used().await, 1_000);
    drop(other.expect("there are 300"));
    one.expect("there are 600").settle([1, 0]);
    until("600 back", async || used().await == 400).await;
    // Beyond the bound of a burst: 600 are counted, and 400 of the next 500.
    let first = tree.reserve(&path, [1, 600]).await.expect("there are 600");
    let wait = tree.check(&path, [1, 1]).await.expect_err("nothing is left").retry_after();
    assert!(wait.is_some_and(|wait| wait <= Duration::from_millis(3_600)), "{wait:?}");
    first.settle([1, 700]);
    // A hundred tokens in debt.
    until("a debt", async || tree.usage(&path).await.expect("it answers")[1][1].debt() > 90).await;
}

/// An estimate of 0 is settled to what was used, beside others and alone.
#[tokio::test]
async fn estimates_of_zero_are_settled_to_what_was_used() {
    let server = RedisServer::start();
    let tree = tree(builder(&server)).await;
    let (requests, tokens) = (plan(Quota::per_hour(60)), plan(Quota::per_hour(1_000)));
    let path = [("alice", [&requests, &tokens]), ("acme", [&NONE, &tokens])];
    tree.reserve(&path, [1, 0]).await.expect("it is full").settle([1, 300]);
    until("300 of both", async || used(&tree, &path).await == [300; 2]).await;
    tree.reserve(&path, [0, 0]).await.expect("it asks for nothing").settle([0, 200]);
    until("500 of both", async || used(&tree, &path).await == [500; 2]).await;
}

// CLAIM: redis::RedisTree
#[tokio::test]
async fn reservation_beyond_the_bound_or_after_its_time_gives_nothing_back() {
    let server = RedisServer::start();
    // Half a burst may be unsettled, for 300 ms.
    let tree = tree(builder(&server).unsettled(0.5).time_to_live(Duration::from_millis(300))).await;
    let tokens = plan(Quota::per_hour(1_000));
    let path = [("alice", [&NONE, &NONE]), ("acme", [&NONE, &tokens])];
    let used = async || used(&tree, &path).await[1];
    let (one, other) = (tree.reserve(&path, [1, 400]).await, tree.reserve(&path, [1, 400]).await);
    let (one, other) = (one.expect("it is full"), other.expect("there are 600"));
    other.settle([1, 0]);
    until("what was counted of it", async || used().await == 700).await;
    sleep(Duration::from_millis(400)).await;
    one.settle([1, 0]);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(used().await, 700, "after its time");
    // A process that dies with a reservation: it takes up the bound for two times-to-live at most.
    std::mem::forget(tree.reserve(&path, [1, 100]).await.expect("there are 300"));
    sleep(Duration::from_millis(700)).await;
    tree.reserve(&path, [1, 200]).await.expect("there are 200").settle([1, 0]);
    until("all of it", async || used().await == 800).await;
    assert!(server.ask::<usize>(&["DBSIZE"]) <= 4, "no key for a reservation");
}

#[tokio::test]
async fn lost_tree_begins_empty() {
    let server = RedisServer::start();
    let tree = tree(builder(&server).after_loss(AfterLoss::Empty)).await;
    let tokens = plan(Quota::per_hour(1_000));
    let path = [("alice", [&NONE, &tokens]), ("acme", [&NONE, &tokens])];
    let call = tree.reserve(&path, [1, 500]).await.expect("it is full");
    server.flush_all();
    assert!(tree.check(&path, [1, 5]).await.is_err(), "a lost tree is empty");
    call.settle([1, 0]);
    sleep(Duration::from_millis(200)).await;
    let used = used(&tree, &path).await;
    assert!(used.iter().all(|used| (995..=1_000).contains(used)), "nothing is given back: {used:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn path_is_in_the_slot_of_its_root_on_a_cluster() {
    let _machine = exclusive();
    let cluster = RedisCluster::start();
    let builder = RedisLimiter::cluster(cluster.urls())
        .name("trees")
        .when_down(WhenDown::Closed)
        .deadline(Duration::from_secs(2))
        .connect_timeout(Duration::from_secs(10));
    let tree = tree(builder).await;
    let (small, large) = (plan(Quota::per_hour(4)), plan(Quota::per_hour(6)));
    for root in 0..40 {
        let root = format!("organisation-{root}");
        for (user, expected) in [("alice", true), ("bob", true), ("carol", false)] {
            let path = [(user, [&small, &NONE]), (&*root, [&large, &NONE])];
            let allowed = tree.check(&path, [3, 1]).await.is_ok();
            assert_eq!(allowed, expected, "{user} of {root}");
        }
        let path = [("alice", [&small, &NONE]), (&*root, [&large, &NONE])];
        assert_eq!(tree.usage(&path).await.expect("the cluster answers")[1][0].used(), 6, "{root}");
    }
    let keys = |master: &RedisServer| master.ask::<Vec<String>>(&["KEYS", "*organisation-*"]).len();
    let keys: Vec<usize> = cluster.masters().iter().map(keys).collect();
    println!("keys of each master: {keys:?}");
    // Three buckets of each of 40 roots: less than 15 of a third has a chance below 1 in 10^4.
    assert!(keys.iter().sum::<usize>() == 120 && keys.iter().all(|keys| *keys >= 15), "{keys:?}");
}
