//! Calls that wait for a set of limits: first come, first served, within the envelope of each limit.

use crate::models::alarms::{Flag, Timer};
use crate::models::cases::cases;
use crate::models::tick_bucket::{Bucket, bucket};
use damper::AcquireFuture;
use damper::concurrency::SetQueue;
use damper::{Bulkhead, Deadline, LimitSet, LimitSetRefusal, ManualClock, Quota, SetReservation, TokenBucket};
use proptest::prelude::*;
use std::future::{Pending, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

/// Ticks per second.
const FREQUENCY: u64 = 1_000;

type Set<C, P = Bulkhead<C>> = LimitSet<[TokenBucket; 2], C, SetQueue<P>>;
type Clocked = Arc<ManualClock>;

/// A call that waits.
struct Waiting {
    name: usize,
    costs: [u32; 2],
    expiry: Option<u64>,
    future: Pin<Box<AcquireFuture<Arc<Set<Clocked>>, Timer>>>,
    woken: Arc<Flag>,
}

type Call = SetReservation<Arc<Set<Clocked>>>;

#[derive(Clone, Debug)]
enum Act {
    Pass(u64),
    Arrive([u32; 2], Option<u16>),
    /// Asks without waiting.
    Reserve([u32; 2]),
    /// Settles one of the calls in flight.
    Settle(usize, [u32; 2]),
    /// Drops one of the calls in flight.
    Drop(usize),
    /// Drops one of the calls that wait.
    Cancel(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let cost = || prop_oneof![6 => 0..4u32, 2 => 0..9u32, 1 => Just(u32::MAX)];
    let costs = || [cost(), cost()];
    prop_oneof![
        3 => (0..400u64).prop_map(Act::Pass),
        6 => (costs(), prop::option::of(0..600u16)).prop_map(|(costs, longest)| Act::Arrive(costs, longest)),
        1 => costs().prop_map(Act::Reserve),
        3 => (any::<usize>(), costs()).prop_map(|(which, used)| Act::Settle(which, used)),
        1 => any::<usize>().prop_map(Act::Drop),
        1 => any::<usize>().prop_map(Act::Cancel),
    ]
}

/// The set beside its model: two buckets, some slots, and the calls that wait in their order.
struct Comparison {
    set: Arc<Set<Clocked>>,
    timer: Timer,
    models: [Bucket; 2],
    slots: u32,
    waiting: Vec<Waiting>,
    calls: Vec<([u32; 2], Call)>,
}

const PLACES: usize = 3;

/// More bursts than the calls in flight may take, so that each settlement gives its rest back.
const ALL: f64 = 4.0;

impl Comparison {
    fn new(models: [Bucket; 2], slots: u32) -> Self {
        let timer = Timer::new(FREQUENCY);
        let pool = Bulkhead::with_clock(slots, Arc::clone(&timer.clock));
        let set = LimitSet::with_clock(models.map(|model| model.quota()), Arc::clone(&timer.clock));
        let set = Arc::new(set.with_bulkhead(pool).queue(PLACES as u16).unsettled(ALL).unwrap());
        Self { set, timer, models, slots, waiting: Vec::new(), calls: Vec::new() }
    }

    fn allows(&self, costs: [u32; 2]) -> bool {
        self.calls.len() < self.slots as usize && self.models.iter().zip(costs).all(|(model, n)| model.allows(n))
    }

    fn is_hopeless(&self, costs: [u32; 2]) -> bool {
        self.models.iter().zip(costs).any(|(model, n)| model.wait(n).is_none())
    }

    fn begin(&mut self, costs: [u32; 2], call: Call) {
        assert!(self.allows(costs), "beyond the envelope or the slots");
        for (model, n) in self.models.iter_mut().zip(costs) {
            model.take(n);
        }
        self.calls.push((costs, call));
    }

    /// Polls the calls that were woken, the newest first, until none is; and compares.
    fn run(&mut self) {
        while let Some(index) = self.waiting.iter().rposition(|call| call.woken.take()) {
            let call = &mut self.waiting[index];
            let waker = Waker::from(Arc::clone(&call.woken));
            let Poll::Ready(result) = call.future.as_mut().poll(&mut Context::from_waker(&waker)) else { continue };
            let call = self.waiting.remove(index);
            match result {
                Ok(reservation) => {
                    assert_eq!(index, 0, "call {} overtakes", call.name);
                    self.begin(call.costs, reservation);
                }
                Err(refusal) => {
                    let is_over = call.expiry.is_some_and(|expiry| expiry <= self.timer.now());
                    assert!(is_over || self.is_hopeless(call.costs), "call {}: {refusal}", call.name);
                    let is_first = index == 0;
                    let is_timed_out = matches!(refusal, LimitSetRefusal::TimedOut);
                    assert!(is_first || is_timed_out || self.is_hopeless(call.costs), "{refusal}");
                }
            }
        }
        if let Some(first) = self.waiting.first() {
            assert!(!self.allows(first.costs), "call {} has lost a wake-up", first.name);
        }
        let late = self.waiting.iter().find(|call| call.expiry.is_some_and(|expiry| expiry <= self.timer.now()));
        assert!(late.is_none(), "a call waits beyond its time");
        assert_eq!(self.set.bulkhead().waiting() as usize, self.waiting.len());
        assert_eq!(self.set.bulkhead().get_ref().in_flight() as usize, self.calls.len());
        let left = self.models.map(|model| (model.level / model.token).max(0));
        assert_eq!(self.set.peek().map(|usage| i64::from(usage.remaining())), left);
    }

    fn arrive(&mut self, name: usize, costs: [u32; 2], longest: Option<u16>) {
        let mut acquire = self.set.acquire_owned(costs);
        if let Some(longest) = longest {
            acquire = acquire.within(Duration::from_millis(longest.into()));
        }
        let mut future = Box::pin(acquire.sleeping_by(self.timer.clone()));
        let woken = Arc::new(Flag::default());
        let waker = Waker::from(Arc::clone(&woken));
        let expiry = longest.map(|longest| self.timer.now() + u64::from(longest));
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {
                assert!(!self.is_hopeless(costs) && self.waiting.len() <= PLACES && longest != Some(0));
                self.waiting.push(Waiting { name, costs, expiry, future, woken });
            }
            Poll::Ready(Ok(call)) => {
                assert!(self.waiting.is_empty(), "a newcomer overtakes");
                self.begin(costs, call);
            }
            Poll::Ready(Err(LimitSetRefusal::QueueFull)) => {
                assert!(self.waiting.len() > PLACES, "there is a place");
            }
            Poll::Ready(Err(refusal)) => assert!(self.is_hopeless(costs) || longest == Some(0), "{refusal}"),
        }
    }

    fn act(&mut self, name: usize, act: &Act) {
        match *act {
            Act::Pass(ticks) => {
                let target = self.timer.now() + ticks;
                while self.timer.now() < target {
                    let before = self.timer.now();
                    self.timer.advance_towards(target);
                    for model in &mut self.models {
                        model.pass((self.timer.now() - before) as i64);
                    }
                    self.run();
                }
            }
            Act::Arrive(costs, longest) => self.arrive(name, costs, longest),
            Act::Reserve(costs) => match self.set.reserve_owned(costs) {
                Ok(call) => {
                    assert!(self.waiting.is_empty(), "a call that does not wait overtakes");
                    self.begin(costs, call);
                }
                Err(_) => assert!(!self.waiting.is_empty() || !self.allows(costs)),
            },
            Act::Settle(which, used) if !self.calls.is_empty() => {
                let (taken, call) = self.calls.swap_remove(which % self.calls.len());
                call.settle(used);
                for ((model, taken), used) in self.models.iter_mut().zip(taken).zip(used) {
                    model.settle(taken, used);
                }
            }
            Act::Drop(which) if !self.calls.is_empty() => {
                drop(self.calls.swap_remove(which % self.calls.len()));
            }
            Act::Cancel(which) if !self.waiting.is_empty() => {
                drop(self.waiting.remove(which % self.waiting.len()));
            }
            Act::Settle(..) | Act::Drop(_) | Act::Cancel(_) => {}
        }
        self.run();
    }
}

proptest! {
    #![proptest_config(cases(400))]

    // CLAIM: LimitSet
    #[test]
    fn waiters_are_served_in_order_within_the_envelope(models in [bucket(), bucket()], slots in 0..4u32, acts in prop::collection::vec(act(), 1..60)) {
        let mut comparison = Comparison::new(models, slots);
        for (name, act) in acts.iter().enumerate() {
            comparison.act(name, act);
        }
    }
}

/// A set for 6,000 tokens a minute and two calls in flight, with two places behind the first call.
fn llm(clock: &ManualClock) -> Set<&ManualClock, Bulkhead> {
    let limits = LimitSet::with_clock([Quota::per_minute(60), Quota::per_minute(6_000)], clock);
    limits.with_bulkhead(Bulkhead::new(2)).queue(2)
}

/// A call that only a waker can wake.
struct Task<'a> {
    future: Pin<Box<Sleepless<'a>>>,
    woken: Arc<Flag>,
}

type Sleepless<'a> = AcquireFuture<&'a Set<&'a ManualClock, Bulkhead>, fn(Duration) -> Pending<()>>;

impl<'a> Task<'a> {
    fn waiting(set: &'a Set<&'a ManualClock, Bulkhead>, costs: [u32; 2]) -> Self {
        let sleep: fn(Duration) -> Pending<()> = |_| pending();
        let mut task = Self { future: Box::pin(set.acquire(costs).sleeping_by(sleep)), woken: Arc::default() };
        assert!(!task.is_served(), "it has to wait");
        task
    }

    fn is_served(&mut self) -> bool {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
    }
}

#[test]
fn settlement_wakes_the_first_waiter_only() {
    let clock = ManualClock::new();
    let llm = llm(&clock);
    let call = llm.reserve([1, 5_000]).unwrap();
    let (mut first, mut second) = (Task::waiting(&llm, [1, 3_000]), Task::waiting(&llm, [1, 1]));
    call.settle([1, 1_000]);
    assert!(first.woken.take() && !second.woken.take());
    assert!(!second.is_served(), "it does not overtake");
    assert!(first.is_served());
    assert!(second.woken.take() && second.is_served());
}

// CLAIM: LimitSet
#[test]
fn cancelled_waiter_keeps_others_in_place() {
    let clock = ManualClock::new();
    let llm = llm(&clock);
    let call = llm.reserve([1, 6_000]).unwrap();
    let tasks = [[1, 6_000], [1, 5_000], [1, 1_000]].map(|costs| Task::waiting(&llm, costs));
    call.settle([1, 5_000]);
    let [first, second, mut third] = tasks;
    drop(second);
    assert!(!third.is_served() && !third.woken.take());
    drop(first); // it was woken by the settlement, and leaves that to the next one
    assert!(third.woken.take() && third.is_served());
    assert_eq!((llm.bulkhead().waiting(), llm.peek()[1].used()), (0, 6_000));
}

#[test]
fn quota_change_wakes_the_first_waiter() {
    let clock = ManualClock::new();
    let llm = llm(&clock);
    drop(llm.reserve([1, 6_000]).unwrap());
    let mut first = Task::waiting(&llm, [1, 1_000]);
    llm.set_quota(1, Quota::per_minute(8_000)).unwrap();
    assert!(first.woken.take() && first.is_served());
    drop(llm.reserve([1, 1_000]).unwrap());
    let mut first = Task::waiting(&llm, [1, 1_000]);
    llm.set_quotas([Quota::per_minute(60), Quota::per_minute(9_000)]).unwrap();
    assert!(first.woken.take() && first.is_served());
}

#[test]
fn refund_wakes_the_first_waiter() {
    let clock = ManualClock::new();
    let llm = llm(&clock);
    drop(llm.reserve([1, 6_000]).unwrap());
    let mut first = Task::waiting(&llm, [1, 1_000]);
    llm.refund([0, 999]);
    assert!(first.woken.take() && !first.is_served());
    llm.refund([5, 1]);
    assert!(first.woken.take() && first.is_served());
    // The request of the call in flight is there again, and no more than that.
    assert_eq!(llm.peek().map(|usage| usage.used()), [1, 6_000]);
    llm.refund([u32::MAX; 2]);
    assert_eq!(llm.peek().map(|usage| usage.used()), [0, 0]);
}

#[test]
fn refusal_says_why_a_call_does_not_wait() {
    let clock = ManualClock::new();
    let llm = llm(&clock);
    let refusal = |result: Result<SetReservation<_>, LimitSetRefusal>| result.unwrap_err().to_string();
    drop(llm.reserve([1, 6_000]).unwrap());
    let waiting = [(); 3].map(|()| Task::waiting(&llm, [1, 1]));
    assert_eq!(refusal(llm.acquire([1, 1]).wait()), "too many calls wait for the limits, queue full");
    assert_eq!(refusal(llm.reserve([0, 0])), "other calls wait for the limits");
    assert!(refusal(llm.acquire([1, 6_001]).wait()).starts_with("limit 2 (6000/min burst 6000): "));
    let at_once = llm.acquire([1, 1]).within(Duration::ZERO).wait();
    assert_eq!(refusal(at_once), "other calls waited for the limits longer than this one could");
    let expired = Deadline::with_clock(Duration::ZERO, &clock);
    let late = llm.acquire([1, 1]).by(&expired).wait().unwrap_err();
    assert!(matches!(late, LimitSetRefusal::TimedOut) && late.retry_after().is_none());
    drop(waiting);
    let first = refusal(llm.acquire([1, 1]).within(Duration::ZERO).wait());
    assert!(first.starts_with("limit 2"), "of a call that nobody holds up: {first}");
}

/// A call behind others is refused when its time is over, although nothing has changed for it.
#[test]
fn waiter_behind_others_is_refused_in_its_time() {
    let clock = ManualClock::new();
    let llm = llm(&clock);
    drop(llm.reserve([1, 6_000]).unwrap());
    let _first = Task::waiting(&llm, [1, 6_000]);
    let acquire = llm.acquire([1, 1]).within(Duration::from_secs(1));
    let mut second = Box::pin(acquire.sleeping_by(|_| pending::<()>()));
    let mut poll = || second.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    clock.advance(Duration::from_millis(999));
    assert!(poll().is_pending());
    clock.advance(Duration::from_millis(1));
    let Poll::Ready(Err(refusal)) = poll() else { panic!("its time is over") };
    assert!(matches!(refusal, LimitSetRefusal::TimedOut));
    assert_eq!(llm.bulkhead().waiting(), 1);
}

#[test]
fn threads_wait_for_a_settlement() {
    let limits = LimitSet::new([Quota::per_hour(60), Quota::per_hour(100)]).queue(8);
    let call = limits.acquire([1, 100]).wait().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| limits.acquire([1, 40]).wait().map(|call| call.settle([1, 30])));
        while limits.bulkhead().waiting() == 0 {
            thread::yield_now();
        }
        call.settle([1, 20]);
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(limits.peek()[1].used(), 50);
}

/// A tenth of the callers estimate the whole burst and use nothing of it, and another tenth give up.
///
/// Each call is served in its turn. The large estimates cost the others what it takes to fill the burst, and no more.
#[test]
fn large_estimates_delay_others_by_a_fill_each() {
    let timer = Timer::new(FREQUENCY);
    let quotas = [Quota::per_second(10).burst(10), Quota::per_second(100).burst(100)];
    let limits = LimitSet::with_clock(quotas, Arc::clone(&timer.clock))
        .with_bulkhead(Bulkhead::with_clock(64, Arc::clone(&timer.clock)));
    let set = Arc::new(limits.queue(64));
    let mut waiting = Vec::new();
    for name in 0..40 {
        let costs = if name % 10 == 0 { [1, 100] } else { [1, 5] };
        let acquire = set.acquire_owned(costs);
        let acquire = if name % 10 == 5 { acquire.within(Duration::from_millis(300)) } else { acquire };
        let mut future = Box::pin(acquire.sleeping_by(timer.clone()));
        let woken = Arc::new(Flag::default());
        let waker = Waker::from(Arc::clone(&woken));
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => waiting.push((name, future, woken)),
            Poll::Ready(result) => result.unwrap().settle([1, 0]),
        }
    }
    let mut served = Vec::new();
    while !waiting.is_empty() {
        while let Some(index) = waiting.iter().position(|(_, _, woken)| woken.take()) {
            let waker = Waker::from(Arc::clone(&waiting[index].2));
            let Poll::Ready(result) = waiting[index].1.as_mut().poll(&mut Context::from_waker(&waker)) else {
                continue;
            };
            let (name, ..) = waiting.remove(index);
            if let Ok(call) = result {
                served.push(name);
                call.settle(if name % 10 == 0 { [1, 0] } else { [1, 5] });
            }
        }
        if !waiting.is_empty() {
            timer.advance_towards(u64::MAX);
        }
    }
    assert!(served.is_sorted(), "{served:?}");
    // Ten requests are there at once and each further second; a fill of 100 tokens is a second each.
    assert!(timer.now() <= 3_000 + 3_000, "{} ms", timer.now());
}
