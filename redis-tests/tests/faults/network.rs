//! A network that is slow, that resets, that loses replies, and that splits the fleet.

use crate::{RECOVERY, SETTLE, WORKER, leased, millis, per_check};
use damper_redis_tests::{Fault, Fleet, Load, Policy, Proxy, RedisServer, exclusive, micros_now};
use std::thread::sleep;
use std::time::Duration;

/// An attempt to connect that was swallowed is given up after this, by default.
const CONNECT: Duration = Duration::from_secs(1);

struct Scene {
    server: RedisServer,
    proxy: Proxy,
    fleets: [Fleet; 2],
}

impl Scene {
    /// Four processes behind a proxy, with leases and without; without a server everything is denied.
    fn start() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::new(server.address());
        [leased(&server.url()), per_check(&server.url())].iter().for_each(Load::deploy);
        let loads = [leased(&proxy.url()), per_check(&proxy.url())];
        let fleets = loads.map(|load| Fleet::start(WORKER, server.directory(), 4, &load));
        sleep(SETTLE);
        Self { server, proxy, fleets }
    }

    /// Applies a fault for some time.
    ///
    /// Expects that nothing hangs, that the server decides again within `recovery`, and no excess.
    fn disturb(mut self, fault: Fault, time: Duration, recovery: Duration) {
        let begun = micros_now();
        self.proxy.set(fault);
        sleep(time);
        let over = micros_now();
        self.proxy.set(Fault::None);
        millis(2_500);
        for fleet in &mut self.fleets {
            let figures = fleet.between(begun, over);
            fleet.expect_in_time(&figures);
            assert_eq!(figures.on_policy, figures.reported, "the policy is in force");
            let after = fleet.since(over);
            fleet.expect_in_time(&after);
            let recovered = fleet.recovered_after(over).expect("the server decides again");
            let most = recovery + 2 * after.lateness + Duration::from_millis(250);
            assert!(recovered <= most, "it took {recovered:?}, at most {most:?} are allowed");
            fleet.finish();
            assert_eq!(fleet.excess(), 0, "nothing beyond burst + rate · t");
        }
        drop(self.server);
    }
}

#[test]
fn slow_server_is_replaced_by_the_policy() {
    let _machine = exclusive();
    // More than twice the deadline, there and back.
    Scene::start().disturb(Fault::Delay(Duration::from_millis(50)), Duration::from_secs(3), RECOVERY);
}

#[test]
fn stalled_network_is_replaced_by_the_policy() {
    let _machine = exclusive();
    Scene::start().disturb(Fault::Stall, Duration::from_secs(3), RECOVERY);
}

#[test]
fn lost_replies_count_as_taken() {
    let _machine = exclusive();
    Scene::start().disturb(Fault::LoseReplies, Duration::from_secs(3), RECOVERY + CONNECT);
}

#[test]
fn connections_that_lead_nowhere_are_replaced() {
    let _machine = exclusive();
    let scene = Scene::start();
    let before = scene.proxy.accepted();
    scene.proxy.set(Fault::Blackhole);
    sleep(Duration::from_secs(3));
    let connections = scene.proxy.accepted();
    println!("{} connections in 3 s of 8 limiters", connections - before);
    assert!(connections > before, "a connection that times out again and again is replaced");
    scene.disturb(Fault::Blackhole, Duration::from_millis(500), RECOVERY + CONNECT);
}

#[test]
fn reset_connections_are_made_again_and_nothing_hangs() {
    let _machine = exclusive();
    let mut scene = Scene::start();
    let from = micros_now();
    for _ in 0..10 {
        scene.proxy.reset();
        millis(300);
    }
    let over = micros_now();
    millis(2_000);
    for fleet in &mut scene.fleets {
        let figures = fleet.between(from, over);
        fleet.expect_in_time(&figures);
        assert!(figures.by_lease + figures.by_server > 0, "the server decides between resets");
        let recovered = fleet.recovered_after(over).expect("the server decides again");
        assert!(recovered <= RECOVERY + Duration::from_millis(250), "it took {recovered:?}");
        fleet.finish();
        assert_eq!(fleet.excess(), 0, "nothing beyond burst + rate · t");
    }
}

#[test]
fn partition_of_one_process_in_four_adds_a_quarter_of_the_rate_at_most() {
    let _machine = exclusive();
    let server = RedisServer::start();
    let proxy = Proxy::new(server.address());
    let load = Load { policy: Policy::LocalShare, ..leased(&server.url()) };
    load.deploy();
    let mut majority = Fleet::start(WORKER, server.directory(), 3, &load);
    let lost = server.directory().join("lost");
    std::fs::create_dir(&lost).expect("the folder can be written");
    let mut minority = Fleet::start(WORKER, &lost, 1, &Load { url: proxy.url(), ..load.clone() });
    sleep(SETTLE);
    let counted: Vec<u64> =
        [&majority, &minority].iter().flat_map(|fleet| fleet.workers()).map(|one| one.latest().processes).collect();
    println!("processes as each has counted them: {counted:?}");
    assert_eq!(counted, [4; 4], "the server has told all processes how many there are");

    let begun = micros_now();
    proxy.set(Fault::Stall);
    millis(1_300);
    let from = micros_now();
    millis(3_000);
    let until = micros_now();
    let (most, least) = (majority.between(from, until), minority.between(from, until));
    assert!((0.97..=1.02).contains(&most.used), "the others use the whole rate: {:.3}", most.used);
    assert!((0.22..=0.26).contains(&least.used), "the lost one has a quarter of it: {:.3}", least.used);
    proxy.set(Fault::None);
    let back = micros_now();
    millis(3_000);
    minority.recovered_after(back).expect("it recovers");
    let healed = micros_now();
    majority.finish();
    minority.finish();

    let mut admissions = majority.admissions();
    admissions.extend(minority.admissions());
    let excess = load.envelope().excess(&admissions);
    let added = load.envelope().refilled(Duration::from_micros(healed - begun)) / 4;
    println!("{excess} in excess of at most {added}");
    assert!(excess <= added, "{excess} beyond the envelope, at most a quarter of the rate: {added}");
    // The lost one is charged up to its share of the burst when it is back.
    let spent = minority.admissions_between(begun, back).len() as u64;
    let charged = spent.min(u64::from(load.burst) / 4);
    let all = admissions.len() as u64;
    let time = Duration::from_micros(micros_now() - admissions.iter().map(|one| one.begun).min().unwrap_or(0));
    let bound = u64::from(load.burst) + load.envelope().refilled(time) + spent - charged;
    println!("{all} admitted in {time:?}, {spent} by the lost one of which {charged} are charged; at most {bound}");
    assert!(all <= bound, "{all} admitted, at most {bound}");
}
