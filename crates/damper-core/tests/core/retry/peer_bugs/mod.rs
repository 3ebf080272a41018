//! Bugs seen in other retries and budgets, each reproduced by a small copy that must fail its test.
//!
//! | bug | effect | test | copy |
//! |---|---|---|---|
//! | jitter is added to the longest delay | waits of up to twice the longest | `wait_is_never_longer_than_the_longest` | `jitter_beyond_the_longest` |
//! | one seed for all | all sessions and devices draw the same waits | `sessions_and_devices_draw_their_own_waits` | `seed_of_everyone` |
//! | the policy does not see `Retry-After` | 100 ms where the server asked for 60 s | `retry_waits_as_long_as_the_server_asks` | `blind_to_the_server` |
//! | a budget that expires slice by slice | a loop of 3 s after an idle year | `withdrawal_after_an_idle_year_is_quick` | `slice_by_slice` |
//! | a budget that sums up, and then subtracts | two threads withdraw one deposit | `deposit_is_withdrawn_once` | `sum_then_subtract` |
//! | a budget that counts calls per retry in whole numbers | a ratio of 0.6 allows 1.0 | `ratio_is_not_rounded` | `whole_calls_per_retry` |
//!
//! Other tests cover bugs that need a wire: a client timeout that sends no `grpc-timeout`
//! (`client_sends_the_smallest_remaining_time` in `grpc/deadline.rs`), a gRPC status that is searched in the headers
//! only (`grpc/circuit_breaker.rs`), and `Retry-After: 0` and permits taken in `poll_ready` (`http/rate_limit.rs`,
//! `http/circuit_breaker/`).

mod blind_to_the_server;
mod jitter_beyond_the_longest;
mod seed_of_everyone;
mod slice_by_slice;
mod sum_then_subtract;
mod whole_calls_per_retry;

use blind_to_the_server::BlindToTheServer;
use damper::retry::{Attempts, Budget, Failure, RetryBudgetConfig};
use damper::{Backoff, Clock, ManualClock, Retry, RetryBudget};
use jitter_beyond_the_longest::JitterBeyondTheLongest;
use seed_of_everyone::SeedOfEveryone;
use slice_by_slice::SliceBySlice;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};
use sum_then_subtract::SumThenSubtract;
use whole_calls_per_retry::WholeCallsPerRetry;

const BASE: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(20);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A policy of one session or device: 100 ms, doubled each time, up to 20 s, with jitter.
trait Policy {
    fn new(device: u64) -> Self;
    /// The wait after another failure, with this hint of the server.
    fn next_wait(&mut self, retry_after: Option<Duration>) -> Duration;
}

/// A budget with a ttl of 10 s and neither a floor nor a reserve.
trait Withdrawing {
    fn new(ratio: f64) -> Self;
    fn deposit(&self);
    /// Withdraws a retry. The rival runs where another thread could intervene.
    fn withdraw(&self, rival: impl FnOnce() + 'static) -> bool;
    fn pass(&self, time: Duration);
}

struct Damper {
    retry: Retry<Stopped>,
    attempts: Attempts<Stopped>,
}

/// A clock that stands still.
#[derive(Clone)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> u64 {
        7
    }

    fn frequency(&self) -> u64 {
        1_000
    }
}

impl Policy for Damper {
    fn new(device: u64) -> Self {
        let backoff = Backoff::exponential(BASE).max_delay(LONGEST);
        let retry = Retry::with_clock(u32::MAX, Stopped, device).backoff(backoff);
        Self { attempts: retry.begin(), retry }
    }

    fn next_wait(&mut self, retry_after: Option<Duration>) -> Duration {
        let failure = Failure::TRANSIENT.retry_after(retry_after);
        self.attempts.failed(&self.retry, failure).expect("attempts are unlimited")
    }
}

/// damper's budget, on a clock that runs a rival at a reading.
struct DamperBudget {
    budget: RetryBudget<Interrupted>,
    clock: Interrupted,
}

#[derive(Clone, Default)]
struct Interrupted {
    clock: Rc<ManualClock>,
    rival: Rc<RefCell<Rival>>,
}

/// The next action of another thread.
type Rival = Option<Box<dyn FnOnce()>>;

impl Clock for Interrupted {
    fn now(&self) -> u64 {
        let rival = self.rival.take();
        if let Some(rival) = rival {
            rival();
        }
        self.clock.now()
    }

    fn frequency(&self) -> u64 {
        self.clock.frequency()
    }
}

impl Withdrawing for DamperBudget {
    fn new(ratio: f64) -> Self {
        let clock = Interrupted::default();
        let config = RetryBudgetConfig::builder().ratio(ratio).floor(0).reserve(0).build().expect("in range");
        Self { budget: RetryBudget::with_clock(config, clock.clone()), clock }
    }

    fn deposit(&self) {
        self.budget.began();
    }

    fn withdraw(&self, rival: impl FnOnce() + 'static) -> bool {
        *self.clock.rival.borrow_mut() = Some(Box::new(rival));
        self.budget.try_withdraw()
    }

    fn pass(&self, time: Duration) {
        self.clock.clock.advance(time);
    }
}

#[test]
fn wait_is_never_longer_than_the_longest() {
    /// The longest of ten waits in each of a hundred sessions.
    fn longest<P: Policy>() -> Duration {
        let waits = |device| {
            let mut policy = P::new(device);
            (0..10).map(move |_| policy.next_wait(None))
        };
        (0..100).flat_map(waits).max().expect("there are waits")
    }
    assert!(longest::<Damper>() <= LONGEST);
    assert!(longest::<JitterBeyondTheLongest>() > LONGEST * 3 / 2);
}

#[test]
fn sessions_and_devices_draw_their_own_waits() {
    /// The number of different first waits of a hundred devices.
    fn different<P: Policy>() -> usize {
        (0..100).map(|device| P::new(device).next_wait(None)).collect::<BTreeSet<_>>().len()
    }
    assert_eq!(different::<Damper>(), 100);
    assert_eq!(different::<SeedOfEveryone>(), 1);
    // Sessions of one device that begin at the same tick and the same line of code.
    let retry = Retry::with_clock(2, Stopped, 7);
    let waits: BTreeSet<_> =
        (0..100).map(|_| retry.begin().failed(&retry, Failure::TRANSIENT).expect("one more")).collect();
    assert_eq!(waits.len(), 100);
}

#[test]
fn retry_waits_as_long_as_the_server_asks() {
    const ASKED: Duration = Duration::from_secs(60);
    assert!(<Damper as Policy>::new(1).next_wait(Some(ASKED)) >= ASKED);
    assert!(BlindToTheServer::new(1).next_wait(Some(ASKED)) < ASKED);
}

#[test]
fn withdrawal_after_an_idle_year_is_quick() {
    /// The fastest of some trials, because the scheduler may preempt one.
    fn quickest<B: Withdrawing>(trials: usize) -> Duration {
        let withdrawal = |_| {
            let budget = B::new(0.1);
            budget.deposit();
            budget.pass(YEAR);
            let start = Instant::now();
            assert!(!budget.withdraw(|| {}), "the deposit has expired");
            start.elapsed()
        };
        (0..trials).map(withdrawal).min().expect("there are trials")
    }
    assert!(quickest::<DamperBudget>(5) < Duration::from_millis(1));
    assert!(quickest::<SliceBySlice>(1) > Duration::from_millis(10));
}

#[test]
fn deposit_is_withdrawn_once() {
    fn withdrawn<B: Withdrawing + 'static>() -> usize {
        let budget = Rc::new(B::new(1.0));
        budget.deposit();
        let rivals = Rc::new(RefCell::new(false));
        let (rival, has_withdrawn) = (Rc::clone(&budget), Rc::clone(&rivals));
        let is_mine = budget.withdraw(move || {
            let is_rivals = rival.withdraw(|| {});
            *has_withdrawn.borrow_mut() = is_rivals;
        });
        let is_rivals = *rivals.borrow();
        [is_mine, is_rivals].into_iter().filter(|is_withdrawn| *is_withdrawn).count()
    }
    assert_eq!(withdrawn::<DamperBudget>(), 1);
    assert_eq!(withdrawn::<SumThenSubtract>(), 2);
}

#[test]
fn ratio_is_not_rounded() {
    /// The retries that a hundred calls allow at a ratio of 0.6.
    fn retries<B: Withdrawing>() -> usize {
        let budget = B::new(0.6);
        (0..100).for_each(|_| budget.deposit());
        (0..200).filter(|_| budget.withdraw(|| {})).count()
    }
    assert_eq!(retries::<DamperBudget>(), 60);
    assert_eq!(retries::<WholeCallsPerRetry>(), 100);
}
