//! The queue of a set of limits: the first call and its waker.
//!
//! In brackets: the weakening of the code under which each model was seen to fail, all of them in
//! `weakenings/set_queue`.
#![cfg(loom)]

use damper_core::AcquireFuture;
use damper_core::concurrency::SetQueue;
use damper_core::{LimitSet, LimitSetRefusal, Quota, SetReservation, TokenBucket};
use damper_loom_tests::{Stopped, check_preemptions};
use loom::sync::Notify;
use loom::thread;
use std::future::{Pending, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

type Set = LimitSet<[TokenBucket; 1], Stopped, SetQueue<()>>;
type Call = Pin<Box<AcquireFuture<Arc<Set>, fn(Duration) -> Pending<()>>>>;

/// A set of two tokens, which are never refilled, and of one place behind the first call.
fn set() -> Arc<Set> {
    Arc::new(LimitSet::with_clock([Quota::per_second(0).burst(2)], Stopped(7)).queue(1))
}

/// A call that only a waker wakes: its sleeps never end.
fn call(set: &Arc<Set>, n: u32) -> Call {
    Box::pin(set.acquire_owned([n]).sleeping_by(|_| pending()))
}

/// Wakes a thread.
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// Blocks until a call is served.
fn block_on(mut call: Call) -> Result<SetReservation<Arc<Set>>, LimitSetRefusal> {
    let bell = Arc::new(Bell(Notify::new()));
    let waker = Waker::from(Arc::clone(&bell));
    loop {
        match call.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => bell.0.wait(),
        }
    }
}

/// A call is settled while another one joins the queue and asks.
///
/// The other one is served, whatever it was about to do: else the model deadlocks. [A settlement that wakes no call; a
/// waker that is left after the limits were asked; the waker taken before the tokens are given back.]
#[test]
fn settlement_wakes_the_first_call() {
    check_preemptions(3, || {
        let set = set();
        let settled = set.reserve_owned([2]).unwrap();
        let waiting = {
            let set = Arc::clone(&set);
            thread::spawn(move || block_on(call(&set, 2)).is_ok())
        };
        settled.settle([0]);
        assert!(waiting.join().unwrap());
        assert_eq!((set.peek()[0].remaining(), set.bulkhead().waiting()), (0, 0));
    });
}

/// The first call is cancelled while the next one waits, and then another call is settled.
///
/// The next one is served. [The turn passed on before the waker is taken.]
#[test]
fn next_call_keeps_its_waker() {
    check_preemptions(3, || {
        let set = set();
        let settled = set.reserve_owned([2]).unwrap();
        let mut first = call(&set, 2);
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let waiting = {
            let set = Arc::clone(&set);
            thread::spawn(move || block_on(call(&set, 1)).is_ok())
        };
        drop(first);
        settled.settle([0]);
        assert!(waiting.join().unwrap());
        assert_eq!((set.peek()[0].remaining(), set.bulkhead().waiting()), (1, 0));
    });
}
