//! Greedy, slow and lost callers of a tree delay the others no more than the order allows.

use damper::Acquire;
use damper::AcquireFuture;

use damper::time::Seed;
use damper::{ManualClock, Plan, Quota, QuotaTree, TreeRefusal, WhenFull};
use std::future::{Pending, pending};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

type Tree<'c, const LEVELS: usize, const DIMENSIONS: usize> = QuotaTree<str, LEVELS, DIMENSIONS, &'c ManualClock, Seed>;
type Wait<'a, 'c, const LEVELS: usize, const DIMENSIONS: usize> =
    Pin<Box<AcquireFuture<&'a Tree<'c, LEVELS, DIMENSIONS>, fn(Duration) -> Pending<()>>>>;

fn plan(quota: Quota) -> Plan {
    Plan::new(quota).unwrap()
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns a future that only wakers and polls of the test move on: its sleeps never end.
fn future<'a, 'c, const LEVELS: usize, const DIMENSIONS: usize>(
    acquire: Acquire<&'a Tree<'c, LEVELS, DIMENSIONS>>,
) -> Wait<'a, 'c, LEVELS, DIMENSIONS> {
    Box::pin(acquire.sleeping_by(|_| pending()))
}

/// Polls a call, and returns whether it was served now.
fn is_served<const LEVELS: usize, const DIMENSIONS: usize>(call: &mut Wait<'_, '_, LEVELS, DIMENSIONS>) -> bool {
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => {
            drop(result.unwrap());
            true
        }
        Poll::Pending => false,
    }
}

/// Three guarantees of 33 a second are all of an organisation's rate.
// CLAIM: QuotaTree
#[test]
fn call_within_its_guarantee_waits_behind_no_borrower() {
    let clock = ManualClock::new();
    let builder = QuotaTree::<str, 2, 1>::builder(["team", "organisation"], ["requests"]).guarantees(0, 0.2);
    let tree = builder.clock(&clock).build().unwrap();
    let (all, own) = (plan(Quota::per_second(100)), plan(Quota::per_second(33).burst(5)));
    let greedy = [("greedy", [&Plan::NOTHING]), ("acme", [&all])];
    let paths = ["a", "b", "c"].map(|team| [(team, [&own]), ("acme", [&all])]);
    while tree.check(&greedy, [1]).is_ok() {}
    let mut borrower = future(tree.acquire(&greedy, [80]));
    assert!(!is_served(&mut borrower));
    while tree.check(&paths[0], [1]).is_ok_and(|allowed| !allowed.is_borrowed()) {}
    let mut waiting = future(tree.acquire(&paths[0], [1]));
    assert!(!is_served(&mut waiting), "its guarantee is used up");
    let mut after = 0;
    while !is_served(&mut waiting) {
        after += 1;
        assert!(after <= 31, "its guarantee was there after 31 ms");
        clock.advance(ms(1));
        assert!(!is_served(&mut borrower), "the three take all of the rate");
        for path in &paths[1..] {
            let _ = tree.check(path, [1]);
        }
    }
}

/// The guaranteed call arrives while the organisation has no token at all.
#[test]
fn guaranteed_call_that_was_refused_passes_a_borrower_in_the_same_line() {
    let clock = ManualClock::new();
    let builder = QuotaTree::<str, 2, 1>::builder(["team", "organisation"], ["requests"]).guarantees(0, 0.1);
    let tree = builder.clock(&clock).build().unwrap();
    let (all, own) = (plan(Quota::per_second(10).burst(100)), plan(Quota::per_second(5).burst(10)));
    let path = |team| [(team, [&own]), ("acme", [&all])];
    let (greedy, modest, other) = ([("greedy", [&Plan::NOTHING]), ("acme", [&all])], path("modest"), path("other"));
    while tree.check(&greedy, [1]).is_ok() {}
    let mut borrower = future(tree.acquire(&greedy, [50]));
    assert!(!is_served(&mut borrower));
    assert!((0..10).all(|_| tree.check(&other, [1]).is_ok_and(|allowed| !allowed.is_borrowed())));
    let mut waiting = future(tree.acquire(&modest, [1]));
    assert!(!is_served(&mut waiting));
    clock.advance(ms(100));
    assert!(is_served(&mut waiting));
    assert!(!is_served(&mut borrower));
}

/// A call beyond its guarantee wakes up by itself when the guarantee is refilled.
#[test]
fn call_behind_a_borrower_sleeps_until_its_guarantee_is_refilled() {
    let clock = ManualClock::new();
    let builder = QuotaTree::<str, 2, 1>::builder(["team", "organisation"], ["requests"]).guarantees(0, 0.2);
    let tree = builder.clock(&clock).build().unwrap();
    let (all, own, slow) =
        (plan(Quota::per_second(100)), plan(Quota::per_second(20).burst(5)), plan(Quota::per_minute(1).burst(1)));
    let greedy = [("greedy", [&Plan::NOTHING]), ("acme", [&all])];
    while tree.check(&greedy, [1]).is_ok() {}
    let mut borrower = future(tree.acquire(&greedy, [80]));
    assert!(!is_served(&mut borrower));
    for (team, own, cost, sleep) in [("modest", &own, 5, Some(ms(250))), ("rare", &slow, 1, Some(ms(1_000)))] {
        let path = [(team, [own]), ("acme", [&all])];
        tree.check(&path, [cost]).unwrap();
        let slept = std::cell::Cell::new(None);
        let sleep_noted = |wait| {
            slept.set(Some(wait));
            pending::<()>()
        };
        let mut waiting = Box::pin(tree.acquire(&path, [cost]).sleeping_by(sleep_noted));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(slept.get(), sleep, "{team}");
    }
    let never = std::cell::Cell::new(None);
    let noted = |wait| {
        never.set(Some(wait));
        pending::<()>()
    };
    let mut waiting = Box::pin(tree.acquire(&greedy, [1]).sleeping_by(noted));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(never.get(), None, "a key without a guarantee waits to be woken");
}

/// Later calls of a key do not take the guarantee that one waits for, if that can have its cost.
#[test]
fn later_calls_of_a_key_leave_its_guarantee_to_a_waiter() {
    for (cost, is_guaranteed) in [(5, true), (6, false)] {
        let clock = ManualClock::new();
        let builder = QuotaTree::<str, 2, 1>::builder(["team", "organisation"], ["requests"]).guarantees(0, 0.2);
        let tree = builder.clock(&clock).build().unwrap();
        let (all, own) = (plan(Quota::per_second(100)), plan(Quota::per_second(50).burst(5)));
        let path = |team| [(team, [&own]), ("acme", [&all])];
        let (greedy, own, other) = ([("greedy", [&Plan::NOTHING]), ("acme", [&all])], path("own"), path("other"));
        while tree.check(&greedy, [1]).is_ok() {}
        let mut borrower = future(tree.acquire(&greedy, [80]));
        assert!(!is_served(&mut borrower));
        tree.check(&own, [5]).unwrap();
        let mut waiting = future(tree.acquire(&own, [cost]));
        assert!(!is_served(&mut waiting));
        let (mut later, mut after) = (0, 0);
        while !is_served(&mut waiting) && after < 1_000 {
            after += 1;
            clock.advance(ms(1));
            later += u32::from(tree.check(&own, [1]).is_ok());
            let _ = tree.check(&other, [1]);
        }
        let expected = if is_guaranteed { (0, 100) } else { (50, 1_000) };
        assert_eq!((later, after), expected, "a call of {cost}");
    }
}

/// A full table gives a new team no slot. So the team cannot have its guarantee, and borrows.
// CLAIM: QuotaTree
#[test]
fn newcomer_without_a_slot_waits_behind_borrowers() {
    for when_full in [WhenFull::DenyNew, WhenFull::EvictLeastIndebted] {
        let clock = ManualClock::new();
        let builder = QuotaTree::<str, 2, 1>::builder(["team", "organisation"], ["requests"]).guarantees(0, 0.0);
        let tree = builder.capacities([1, 16]).when_full(when_full).clock(&clock).build().unwrap();
        let (all, own) = (plan(Quota::per_second(10).burst(50)), plan(Quota::per_hour(1).burst(1)));
        let teams: Vec<String> = (0..50).map(|team| format!("team {team}")).collect();
        let mut paths = teams.iter().map(|team| [(team.as_str(), [&own]), ("acme", [&all])]);
        let newcomer = paths.find(|path| tree.check(path, [1]).unwrap().is_borrowed()).unwrap();
        let greedy = [("greedy", [&Plan::NOTHING]), ("acme", [&all])];
        while tree.check(&greedy, [1]).is_ok() {}
        let mut borrower = future(tree.acquire(&greedy, [5]));
        assert!(!is_served(&mut borrower));
        clock.advance(ms(100));
        let denied = tree.check(&newcomer, [1]).unwrap_err();
        assert!(denied.is_behind_waiters(), "{when_full:?}: {denied}");
        let mut waiting = future(tree.acquire(&newcomer, [1]));
        assert!(!is_served(&mut waiting), "{when_full:?}: it overtakes");
        clock.advance(ms(400));
        assert!(!is_served(&mut waiting) && is_served(&mut borrower));
        clock.advance(ms(100));
        assert!(is_served(&mut waiting), "{when_full:?}: it waits for ever");
    }
}

/// The look at a level finds that it has no slot for a new key, so other levels stay untouched.
#[test]
fn newcomer_without_a_slot_takes_nothing_of_other_levels() {
    let clock = ManualClock::new();
    let builder = QuotaTree::<str, 2, 1>::builder(["user", "organisation"], ["requests"]).capacities([64, 1]);
    let tree = builder.when_full(WhenFull::DenyNew).clock(&clock).build().unwrap();
    let plan = plan(Quota::per_minute(60));
    let organisations: Vec<String> = (0..50).map(|organisation| format!("organisation {organisation}")).collect();
    let mut paths = organisations.iter().map(|organisation| [("alice", [&plan]), (organisation.as_str(), [&plan])]);
    let path = paths.find(|path| tree.check(path, [1]).is_err()).unwrap();
    let before = tree.peek(&path)[0][0].remaining();
    let mut waiting = future(tree.acquire(&path, [1]));
    assert!(!is_served(&mut waiting));
    assert_eq!(tree.peek(&path)[0][0].remaining(), before);
    clock.advance(ms(1_000));
    assert!(is_served(&mut waiting), "the slot whose key owes least is free");
}

/// Calls of one dimension each take turns at draining the bucket that has just refused the large call.
// CLAIM: QuotaTree
#[test]
fn call_in_two_dimensions_is_not_overtaken_by_calls_in_one() {
    let clock = ManualClock::new();
    let tree = QuotaTree::<str, 1, 2>::builder(["organisation"], ["requests", "tokens"]).clock(&clock).build().unwrap();
    let (requests, tokens) = (plan(Quota::per_second(10)), plan(Quota::per_second(10)));
    let path = [("acme", [&requests, &tokens])];
    tree.check(&path, [10, 10]).unwrap();
    let mut large = future(tree.acquire(&path, [5, 5]));
    assert!(!is_served(&mut large));
    let (mut after, mut overtakers) = (0, 0);
    while !is_served(&mut large) {
        for costs in [[1, 0], [0, 1]] {
            overtakers += u32::from(tree.check(&path, costs).is_ok());
        }
        after += 1;
        assert!(after <= 1_001, "{overtakers} have overtaken it");
        clock.advance(ms(1));
    }
}

/// Metadata calls cost a request, and calls of a batch cost tokens alone.
#[test]
fn call_of_a_user_is_not_overtaken_at_its_organisation() {
    let clock = ManualClock::new();
    let builder = QuotaTree::<str, 2, 2>::builder(["user", "organisation"], ["requests", "tokens"]);
    let tree = builder.clock(&clock).build().unwrap();
    let (free, requests, tokens) = (Plan::UNLIMITED, plan(Quota::per_second(20)), plan(Quota::per_second(1_000)));
    let path = |user, requests| [(user, [&free, &free]), ("acme", [requests, &tokens])];
    let (own, metadata, batch) = (path("own", &requests), path("metadata", &requests), path("batch", &free));
    tree.check(&own, [20, 1_000]).unwrap();
    let mut large = future(tree.acquire(&own, [1, 300]));
    assert!(!is_served(&mut large));
    let mut after = 0;
    while !is_served(&mut large) {
        let _ = (tree.check(&metadata, [1, 0]), tree.check(&batch, [1, 10]));
        after += 1;
        assert!(after <= 1_000, "300 tokens are refilled in 300 ms");
        clock.advance(ms(1));
    }
}

/// A call that its organisation has refused waits while its user spends all own tokens elsewhere.
#[test]
fn user_without_tokens_leaves_the_line_of_the_organisation() {
    let clock = ManualClock::new();
    let builder = QuotaTree::<str, 2, 2>::builder(["user", "organisation"], ["requests", "tokens"]);
    let tree = builder.clock(&clock).build().unwrap();
    let (hourly, per_second, free) = (plan(Quota::per_hour(60)), plan(Quota::per_second(10)), Plan::UNLIMITED);
    let greedy = [("greedy", [&free, &hourly]), ("acme", [&per_second, &free])];
    let modest = [("modest", [&free, &free]), ("acme", [&per_second, &free])];
    tree.check(&modest, [10, 0]).unwrap();
    let mut hostage = future(tree.acquire(&greedy, [1, 60]));
    assert!(!is_served(&mut hostage));
    tree.check(&greedy, [0, 60]).unwrap();
    assert!(tree.check(&modest, [1, 0]).unwrap_err().is_behind_waiters());
    clock.advance(ms(100));
    assert!(!is_served(&mut hostage), "its user has no tokens now");
    for _ in 0..3_600 {
        assert!(tree.check(&modest, [1, 0]).is_ok(), "a user without tokens holds up no other one");
        clock.advance(ms(1_000));
        if is_served(&mut hostage) {
            return;
        }
    }
    panic!("the user's tokens were refilled in an hour");
}

/// A call whose time is over holds up others no longer, even if no thread polls it.
#[test]
fn expired_call_that_is_not_polled_holds_up_none() {
    let clock = ManualClock::new();
    let tree = QuotaTree::<str, 1, 1>::builder(["organisation"], ["tokens"]).clock(&clock).build().unwrap();
    let plan = plan(Quota::per_second(10));
    let path = [("acme", [&plan])];
    tree.check(&path, [10]).unwrap();
    let mut lost = future(tree.acquire(&path, [10]).within(ms(150)));
    assert!(!is_served(&mut lost));
    let slept = std::cell::Cell::new(None);
    let noted = |wait| {
        slept.set(Some(wait));
        pending::<()>()
    };
    let mut next = Box::pin(tree.acquire(&path, [1]).sleeping_by(noted));
    assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(slept.get(), Some(ms(150)), "it looks again when the time of the call before it is over");
    clock.advance(ms(149));
    assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(tree.check(&path, [1]).unwrap_err().is_behind_waiters());
    clock.advance(ms(1));
    assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    clock.advance(ms(50));
    assert!(tree.check(&path, [1]).is_ok());
    let late = lost.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(late, Poll::Ready(Err(TreeRefusal::Denied(_)))));
    assert_eq!(tree.waiting(), 0);
}

/// A call that waiters hold up is told a wait after which they may be gone, not the clock's tick.
#[test]
fn wait_behind_waiters_is_never_shorter_than_a_token_takes() {
    let clock = ManualClock::new();
    let builder = QuotaTree::<str, 1, 2>::builder(["organisation"], ["requests", "tokens"]);
    let tree = builder.clock(&clock).build().unwrap();
    let (requests, tokens) = (plan(Quota::per_second(10)), plan(Quota::per_minute(60)));
    let path = [("acme", [&requests, &tokens])];
    tree.check(&path, [10, 60]).unwrap();
    let mut first = future(tree.acquire(&path, [10, 0]));
    assert!(!is_served(&mut first));
    clock.advance(ms(3_000));
    // The bucket is full, and the call that waits was not polled.
    let denied = tree.check(&path, [1, 0]).unwrap_err();
    assert!(denied.is_behind_waiters() && denied.denied().remaining() == 10, "{denied}");
    assert!(denied.retry_after() >= Some(ms(100)), "{denied}");
    // Both buckets refuse another call. It waits for the tokens for longer.
    assert!(is_served(&mut first));
    let mut second = future(tree.acquire(&path, [1, 30]));
    assert!(!is_served(&mut second));
    clock.advance(ms(1_000));
    assert!(!is_served(&mut second));
    let denied = tree.check(&path, [0, 1]).unwrap_err();
    assert!(denied.retry_after() >= Some(ms(26_000)), "{denied}");
}

/// Calls that wait hide neither a refusal for ever nor one for longer.
#[test]
fn refusal_behind_waiters_names_the_longest_wait() {
    let clock = ManualClock::new();
    let tree = QuotaTree::<str, 2, 1>::builder(["user", "organisation"], ["tokens"]).clock(&clock).build().unwrap();
    let (hourly, per_second) = (plan(Quota::per_hour(10)), plan(Quota::per_second(10)));
    let other = [("other", [&Plan::UNLIMITED]), ("acme", [&per_second])];
    let path = [("alice", [&hourly]), ("acme", [&per_second])];
    tree.check(&path, [10]).unwrap();
    let mut waiting = future(tree.acquire(&other, [10]));
    assert!(!is_served(&mut waiting));
    let never = tree.check(&path, [11]).unwrap_err();
    assert_eq!((never.level(), never.retry_after()), (0, None), "no wait helps");
    assert!(never.denied().exceeds_burst() && never.is_behind_waiters());
    let denied = tree.check(&path, [1]).unwrap_err();
    assert_eq!((denied.level(), denied.retry_after()), (0, Some(Duration::from_secs(360))));
    assert!(denied.is_behind_waiters());
}

/// Polls calls until each waits or is refused, and returns those that wait and the refusals.
fn waiting_of<'a, 'c>(calls: impl Iterator<Item = Wait<'a, 'c, 2, 1>>) -> (Vec<Wait<'a, 'c, 2, 1>>, Vec<TreeRefusal>) {
    let (mut waiting, mut refused) = (Vec::new(), Vec::new());
    for mut call in calls {
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => refused.push(result.unwrap_err()),
            Poll::Pending => waiting.push(call),
        }
    }
    (waiting, refused)
}

/// A tenth of a hundred users start as many calls as they can: each of the others still finds a place.
#[test]
fn lines_of_greedy_users_leave_places_for_others() {
    let clock = ManualClock::new();
    let tree = QuotaTree::<str, 2, 1>::builder(["user", "organisation"], ["requests"]).clock(&clock).build().unwrap();
    let (own, all) = (plan(Quota::per_minute(60)), plan(Quota::per_second(10_000)));
    let users: Vec<String> = (0..100).map(|user| format!("user {user}")).collect();
    let paths: Vec<_> = users.iter().map(|user| [(user.as_str(), [&own]), ("acme", [&all])]).collect();
    for path in &paths {
        tree.check(path, [60]).unwrap();
    }
    let mut lines = Vec::new();
    for path in &paths[..10] {
        let (waiting, refused) = waiting_of((0..1_024).map(|_| future(tree.acquire(path, [60]))));
        assert!(refused.iter().all(|&refusal| {
            refusal == TreeRefusal::LineFull { level: "user", dimension: "requests" } && refusal.retry_after().is_none()
        }));
        assert_eq!(refused[0].to_string(), "too many calls wait for the requests of this user, line full");
        lines.push(waiting);
    }
    assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [205, 164, 131, 105, 84, 67, 54, 43, 35, 28]);
    let (waiting, refused) = waiting_of(paths[10..].iter().map(|path| future(tree.acquire(path, [1]))));
    assert_eq!((waiting.len(), refused.len()), (90, 0));
}

/// A call whose time is over gives up its place, even if no thread polls it.
#[test]
fn expired_call_that_is_not_polled_takes_up_no_place() {
    let clock = ManualClock::new();
    let builder = QuotaTree::<str, 2, 1>::builder(["user", "organisation"], ["requests"]).clock(&clock).queue(2);
    let tree = builder.build().unwrap();
    let (own, all) = (plan(Quota::per_minute(60)), plan(Quota::per_second(10_000)));
    let paths = ["lost", "bob", "carol"].map(|user| [(user, [&own]), ("acme", [&all])]);
    for path in &paths {
        tree.check(path, [60]).unwrap();
    }
    let mut lost = future(tree.acquire(&paths[0], [1]).within(ms(5)));
    let mut of_bob = future(tree.acquire(&paths[1], [1]));
    assert!(!is_served(&mut lost) && !is_served(&mut of_bob));
    let full = future(tree.acquire(&paths[2], [1])).as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(full, Poll::Ready(Err(TreeRefusal::QueueFull))));
    clock.advance(ms(5));
    let mut of_carol = future(tree.acquire(&paths[2], [1]));
    assert!(!is_served(&mut of_carol));
    assert_eq!(tree.waiting(), 2);
    let over = lost.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(over, Poll::Ready(Err(TreeRefusal::Denied(_)))));
    assert_eq!(tree.waiting(), 2);
    clock.advance(ms(1_000));
    assert!(is_served(&mut of_bob) && is_served(&mut of_carol));
    assert_eq!(tree.waiting(), 0);
}
