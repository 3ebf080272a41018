//! The limiters as gates decide as they do alone, at once where no server is needed.

use crate::fake::Fake;
use damper_core::gate::{Answer, Ask, Costs, Gate, PerKey};
use damper_core::{Denied, Quota};
use damper_redis::{RedisLimiter, RedisLimiterBuilder, WhenDown};
use std::time::Duration;

/// So slow that no token drips in within a test.
const QUOTA: Quota = Quota::per_hour(10);

fn builder(fake: &Fake) -> RedisLimiterBuilder {
    let second = Duration::from_secs(1);
    RedisLimiter::connect(fake.url()).name("gate").quota(QUOTA).deadline(second).when_down(WhenDown::Closed)
}

async fn decided<Q: ?Sized>(gate: &impl Ask<Q, Permit = (), Refusal = Denied>, call: &Q) -> Result<(), Denied> {
    match gate.ask(call) {
        Answer::Pass(()) => Ok(()),
        Answer::Refuse(denied) => Err(denied),
        Answer::Wait(wait) => wait.await,
    }
}

#[tokio::test]
async fn ten_of_thirteen_calls_pass() {
    let fake = Fake::start(10);
    let fleet = builder(&fake).build().await.unwrap();
    let mut passed = 0;
    for _ in 0..13 {
        passed += u32::from(decided(&fleet, "a call").await.is_ok());
    }
    assert_eq!(passed, 10);
    // This process remembers the denial, and needs no server to repeat it.
    let Answer::Refuse(denied) = fleet.ask("a call") else { panic!("it is denied here") };
    assert!(denied.retry_after().is_some());
}

#[tokio::test]
async fn keys_and_costs_are_those_of_the_calls() {
    let fake = Fake::start(10);
    let limits = builder(&fake).build_keyed().await.unwrap();
    let gate = Costs::new(
        PerKey::new(|call: &(&'static str, u32)| call.0.to_owned(), limits),
        |call: &(&'static str, u32)| call.1,
    );
    assert!(decided(&gate, &("alice", 7)).await.is_ok());
    assert!(decided(&gate, &("alice", 4)).await.is_err());
    assert!(decided(&gate, &("alice", 3)).await.is_ok());
    assert_eq!(fake.calls()[0].keys[1], "damper:{alice}:gate:0");
}

#[tokio::test]
async fn unlimited_quota_lets_every_call_pass_at_once() {
    let fake = Fake::start(10);
    let fleet = RedisLimiter::connect(fake.url()).name("gate").quota(Quota::UNLIMITED).build().await.unwrap();
    assert!(fleet.ask("a call").is_pass());
    assert!(fleet.refusal().is_none());
}

#[tokio::test]
async fn store_answers_for_borrowed_keys() {
    let fake = Fake::start(1);
    let limits = builder(&fake).build_keyed().await.unwrap();
    let Answer::Wait(wait) = Ask::<str>::ask(&limits, "alice") else { panic!("the server decides") };
    assert!(wait.await.is_ok());
}
