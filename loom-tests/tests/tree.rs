//! Trees of limits.
//!
//! Calls take from several words, plans change, costs are settled, and calls wait.
//!
//! In brackets: the weakening of the code under which each model was seen to fail.
#![cfg(loom)]

use damper_core::AcquireFuture;
use damper_core::keyed::QuotaTreeBuilder;
use damper_core::{Plan, Quota, QuotaTree, TreeRefusal, TreeReservation};
use damper_loom_tests::tables::{A, B, C, Identity, check_flawed};
use damper_loom_tests::{Flaw, Stopped, check_preemptions};
use loom::sync::{Arc, Notify};
use loom::thread;
use std::future::{Pending, pending};
use std::hash::BuildHasherDefault;
use std::num::NonZeroU8;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

type Hasher = BuildHasherDefault<Identity>;
type Tree = QuotaTree<u64, 2, 1, Stopped, Hasher>;

fn plan(burst: u32) -> Plan {
    Plan::new(Quota::per_hour(burst)).unwrap()
}

/// Returns a tree of two levels with a key or two each, whose bound is half a burst.
fn tree() -> Arc<Tree> {
    let builder = QuotaTreeBuilder::new(["user", "team"], ["calls"], Stopped(7), Hasher::default());
    Arc::new(builder.capacities([2, 1]).unsettled(0.5).build().unwrap())
}

fn used(tree: &Tree, user: u64, plan: &Plan) -> [u32; 2] {
    tree.peek(&[(&user, [plan]), (&C, [plan])]).map(|[usage]| usage.used())
}

/// Two calls for the last token of both levels: one of them is served.
///
/// [A `store` in the place of the swap.]
// CLAIM: QuotaTree
#[test]
fn one_of_two_calls_gets_the_last_tokens() {
    check_preemptions(2, one_of_two_calls_gets_the_last_tokens_model);
}

#[test]
#[should_panic]
fn one_of_two_calls_gets_the_last_tokens_unless_flawed() {
    check_flawed(Flaw::BlindExchange, one_of_two_calls_gets_the_last_tokens_model);
}

fn one_of_two_calls_gets_the_last_tokens_model() {
    let (tree, plan) = (tree(), plan(2));
    let call = move |tree: &Tree| tree.check(&[(&A, [&plan]), (&C, [&plan])], [1]).is_ok();
    assert!(call(&tree));
    let rival = {
        let tree = Arc::clone(&tree);
        thread::spawn(move || call(&tree))
    };
    let served = u32::from(call(&tree)) + u32::from(rival.join().unwrap());
    assert_eq!(served, 1, "the calls must not annihilate each other, nor share a token");
    assert_eq!(used(&tree, A, &plan), [2, 2]);
}

/// Two users, one token of their team: the user who loses gets the own token back.
///
/// [No roll-back.]
// CLAIM: QuotaTree
#[test]
fn a_call_that_loses_gives_back_what_it_took() {
    check_preemptions(2, || {
        let (tree, plan) = (tree(), plan(3));
        let call = move |tree: &Tree, user: u64| tree.check(&[(&user, [&plan]), (&C, [&plan])], [1]).is_ok();
        assert!(call(&tree, A) && call(&tree, B));
        let rival = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || call(&tree, B))
        };
        let served = [call(&tree, A), rival.join().unwrap()];
        assert!(served[0] ^ served[1], "one token, one winner");
        let after = [A, B].map(|user| used(&tree, user, &plan)[0]);
        assert_eq!(after, served.map(|served| 1 + u32::from(served)), "the loser has lost nothing");
    });
}

/// Two threads convert the debt of a key: it is converted once.
///
/// [`replanned` without a look at the tag.]
// CLAIM: Plan
#[test]
fn a_debt_is_converted_once() {
    check_preemptions(2, || {
        let (old, new) = (plan(4).tagged(NonZeroU8::MIN), plan(40).tagged(NonZeroU8::MAX));
        let tree = tree();
        tree.check(&[(&A, [&old]), (&C, [&Plan::UNLIMITED])], [4]).unwrap();
        let convert = move |tree: &Tree| tree.replan(0, &A, [&old], [&new])[0];
        let rival = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || convert(&tree))
        };
        assert!(convert(&tree) ^ rival.join().unwrap(), "once");
        assert_eq!(tree.peek(&[(&A, [&new]), (&C, [&Plan::UNLIMITED])])[0][0].used(), 4);
    });
}

/// Two reservations take up all that may be unsettled: a third one gives nothing back.
///
/// [A `store` in the place of the swap that counts.]
// CLAIM: QuotaTree
#[test]
fn unsettled_reservations_stay_within_the_bound() {
    check_preemptions(2, unsettled_reservations_stay_within_the_bound_model);
}

#[test]
#[should_panic]
fn unsettled_reservations_stay_within_the_bound_unless_flawed() {
    check_flawed(Flaw::BlindExchange, unsettled_reservations_stay_within_the_bound_model);
}

fn unsettled_reservations_stay_within_the_bound_model() {
    let (tree, plan) = (tree(), plan(8));
    // The slot is there before the threads race.
    tree.check(&[(&A, [&plan]), (&C, [&Plan::UNLIMITED])], [1]).unwrap();
    let reserve =
        move |tree: &Tree| std::mem::forget(tree.reserve(&[(&A, [&plan]), (&C, [&Plan::UNLIMITED])], [2]).unwrap());
    let rival = {
        let tree = Arc::clone(&tree);
        thread::spawn(move || reserve(&tree))
    };
    reserve(&tree);
    rival.join().unwrap();
    tree.reserve(&[(&A, [&plan]), (&C, [&Plan::UNLIMITED])], [2]).unwrap().settle([0]);
    assert_eq!(
        tree.peek(&[(&A, [&plan]), (&C, [&Plan::UNLIMITED])])[0][0].used(),
        7,
        "half a burst is unsettled for ever"
    );
}

/// A guaranteed call and one that borrows ask for the team's last token: the first is served.
///
/// [A call that borrows leaves nothing.]
// CLAIM: QuotaTree
#[test]
fn a_guaranteed_call_is_served_beside_one_that_borrows() {
    check_preemptions(2, || {
        let builder = QuotaTreeBuilder::new(["user", "team"], ["calls"], Stopped(7), Hasher::default());
        let tree: Arc<Tree> = Arc::new(builder.capacities([2, 1]).guarantees(0, 0.25).build().unwrap());
        let call = move |tree: &Tree, user: u64, guarantee: u32| {
            tree.check(&[(&user, [&plan(guarantee)]), (&C, [&plan(4)])], [1]).map(|allowed| allowed.is_borrowed())
        };
        // The slots are there before the threads race. A token of A's is left, none of B's, and one of the team's.
        assert!(
            [(A, 3), (A, 3), (B, 1)].into_iter().all(|(user, guarantee)| call(&tree, user, guarantee) == Ok(false))
        );
        let borrower = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || call(&tree, B, 1))
        };
        assert_eq!(call(&tree, A, 3), Ok(false), "the guaranteed call is served");
        assert!(borrower.join().unwrap().is_err(), "the last token is kept");
        assert_eq!(used(&tree, A, &plan(4))[1], 4, "the envelope is exact");
    });
}

/// Two calls ask for the last token of one guarantee: the one that loses it leaves what is kept.
///
/// [A call that keeps to what its look found of the guarantee.]
// CLAIM: QuotaTree
#[test]
fn a_call_that_loses_its_guarantee_leaves_what_is_kept() {
    check_preemptions(2, || {
        let builder = QuotaTreeBuilder::new(["user", "team"], ["calls"], Stopped(7), Hasher::default());
        let tree: Arc<Tree> = Arc::new(builder.capacities([1, 1]).guarantees(0, 0.25).build().unwrap());
        let call = move |tree: &Tree| {
            tree.check(&[(&A, [&plan(4)]), (&C, [&plan(4)])], [1]).map(|allowed| allowed.is_borrowed())
        };
        assert!((0..3).all(|_| call(&tree) == Ok(false)));
        let rival = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || call(&tree))
        };
        let calls = [call(&tree), rival.join().unwrap()];
        assert!(calls.contains(&Ok(false)) && calls.iter().any(Result::is_err), "the last token is kept: {calls:?}");
    });
}

type Bucket = QuotaTree<u64, 1, 1, Stopped, Hasher>;
type Wait = AcquireFuture<std::sync::Arc<Bucket>, fn(Duration) -> Pending<()>>;

type Path = [(&'static u64, [&'static Plan; 1]); 1];

/// A bucket of two tokens, both taken by a call, and the path to it.
fn taken_bucket() -> (std::sync::Arc<Bucket>, TreeReservation<std::sync::Arc<Bucket>>, &'static Path) {
    static PLAN: LazyLock<Plan> = LazyLock::new(|| plan(2));
    static PATH: LazyLock<Path> = LazyLock::new(|| [(&A, [&*PLAN])]);
    let builder = QuotaTreeBuilder::new(["user"], ["calls"], Stopped(7), Hasher::default());
    let tree = std::sync::Arc::new(builder.capacities([1]).queue(8).build().unwrap());
    let call = tree.reserve_owned(&PATH, [2]).unwrap();
    (tree, call, &PATH)
}

/// Wakes a thread.
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.notify();
    }
}

/// Blocks until a call is served, which only a waker wakes: its sleeps never end.
fn block_on<R>(mut call: Pin<Box<impl Future<Output = Result<R, TreeRefusal>>>>) -> bool {
    let bell = std::sync::Arc::new(Bell(Notify::new()));
    let waker = Waker::from(std::sync::Arc::clone(&bell));
    loop {
        match call.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result.is_ok(),
            Poll::Pending => bell.0.wait(),
        }
    }
}

/// A call is settled while another one joins a line and asks.
///
/// The other one is served, whatever it was about to do: else the model deadlocks. [A settlement that wakes no call; one
/// that wakes it before it gives back; one without its fence; a call that does not ask again after it has joined.]
// CLAIM: QuotaTree
#[test]
fn settlement_wakes_a_waiting_call() {
    check_preemptions(2, || {
        let (tree, settled, path) = taken_bucket();
        let waiting = {
            let tree = std::sync::Arc::clone(&tree);
            thread::spawn(move || block_on(Box::pin(tree.acquire_owned(path, [2]).sleeping_by(|_| pending::<()>()))))
        };
        settled.settle([0]);
        assert!(waiting.join().unwrap());
        assert_eq!((tree.peek(path)[0][0].remaining(), tree.waiting()), (0, 0));
    });
}

/// The first call of a line is cancelled while the next one waits, and then another call is settled.
///
/// The next one is served. [A call that leaves without waking the next one.]
// CLAIM: QuotaTree
#[test]
fn cancelled_call_wakes_the_next_of_its_line() {
    check_preemptions(2, || {
        let (tree, settled, path) = taken_bucket();
        let mut first: Pin<Box<Wait>> = Box::pin(tree.acquire_owned(path, [2]).sleeping_by(|_| pending()));
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let waiting = {
            let tree = std::sync::Arc::clone(&tree);
            thread::spawn(move || block_on(Box::pin(tree.acquire_owned(path, [1]).sleeping_by(|_| pending::<()>()))))
        };
        settled.settle([0]);
        drop(first);
        assert!(waiting.join().unwrap());
        assert_eq!((tree.peek(path)[0][0].remaining(), tree.waiting()), (1, 0));
    });
}

type Words = QuotaTree<u64, 1, 2, Stopped, Hasher>;
type WaitForBoth = AcquireFuture<std::sync::Arc<Words>, fn(Duration) -> Pending<()>>;

/// A call waits for two words, whose tokens come back one after the other.
///
/// It is served, also if the second word refuses it after the first one has its tokens. [A call that does not ask again after
/// it has joined another line.]
// CLAIM: QuotaTree
#[test]
fn call_that_joins_another_line_asks_again() {
    check_preemptions(2, || {
        static PLAN: LazyLock<Plan> = LazyLock::new(|| plan(2));
        static PATH: LazyLock<[(&u64, [&Plan; 2]); 1]> = LazyLock::new(|| [(&A, [&*PLAN; 2])]);
        let builder = QuotaTreeBuilder::new(["user"], ["requests", "tokens"], Stopped(7), Hasher::default());
        let tree: std::sync::Arc<Words> = std::sync::Arc::new(builder.capacities([1]).queue(1).build().unwrap());
        // Each takes from one word alone, so its settlement wakes the line of that word alone.
        let plans = [([&*PLAN, &Plan::UNLIMITED], 2), ([&Plan::UNLIMITED, &*PLAN], 1)];
        let settled = plans.map(|(plans, cost)| tree.reserve_owned(&[(&A, plans)], [cost; 2]).unwrap());
        let mut call: Pin<Box<WaitForBoth>> = Box::pin(tree.acquire_owned(&PATH, [2, 2]).sleeping_by(|_| pending()));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let waiting = thread::spawn(move || block_on(call));
        for call in settled {
            call.settle([0, 0]);
        }
        assert!(waiting.join().unwrap());
        assert_eq!((tree.peek(&PATH)[0].map(|usage| usage.remaining()), tree.waiting()), ([0, 0], 0));
    });
}
