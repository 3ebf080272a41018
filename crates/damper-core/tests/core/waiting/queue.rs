//! Waiters and cancelled waiters, against a slow model of a queue.

use super::virtual_time::{Runtime, Timers};
use crate::models::fifo::{Fifo, Refused};
use crate::waiting::{MILLIS, empty};
use damper::{Denied, ManualClock, Quota, RateLimiter, TokenBucket};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// So few ticks a second that most waits exceed the second for which a future sleeps at a time.
const FREQUENCY: u64 = 100;
const TICK: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A waiter arrives, and waits for at most this many ticks.
    Arrive {
        n: u32,
        longest: Option<u64>,
    },
    /// A call takes the available tokens or is refused.
    Check(u32),
    /// A waiter is cancelled, after some ticks in which no task ran.
    GiveUp {
        index: usize,
        asleep: u64,
    },
    /// The last waiter is cancelled.
    LastGivesUp,
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let n = || prop_oneof![4 => 1..4u32, 1 => 0..11u32];
    let longest = || prop_oneof![3 => Just(None), 1 => (0..200u64).prop_map(Some)];
    let event = prop_oneof![
        8 => (n(), longest()).prop_map(|(n, longest)| Event::Arrive { n, longest }),
        1 => n().prop_map(Event::Check),
        3 => (any::<usize>(), prop_oneof![3 => Just(0), 1 => 0..30u64])
            .prop_map(|(index, asleep)| Event::GiveUp { index, asleep }),
        2 => Just(Event::LastGivesUp),
        6 => (0..25u64).prop_map(Event::Pass),
    ];
    proptest::collection::vec(event, 1..60)
}

/// The result of a waiter and its tick.
type Outcome = Rc<Cell<Option<(u64, Result<(), Denied>)>>>;

/// A present or past waiter.
struct Waiter {
    name: usize,
    n: u32,
    task: usize,
    outcome: Outcome,
    gave_up: bool,
}

impl Waiter {
    fn waits(&self) -> bool {
        self.outcome.get().is_none() && !self.gave_up
    }
}

/// A limiter with its waiters, and the model of both.
struct Queue<'a> {
    timers: &'a Timers,
    limiter: &'a RateLimiter<TokenBucket, &'a ManualClock>,
    runtime: Runtime<'a>,
    model: Fifo,
    waiters: Vec<Waiter>,
    /// Spans in which no task ran: after the first tick and until the second, at which all run again.
    asleep: Vec<(u64, u64)>,
}

impl Queue<'_> {
    fn arrive(&mut self, n: u32, longest: Option<u64>) {
        let (now, timers) = (self.timers.now(), self.timers);
        let turn = self.limiter.acquire(n);
        let turn = longest.map_or(turn, |longest| turn.within(TICK * u32::try_from(longest).unwrap()));
        let outcome = Outcome::default();
        let report = Rc::clone(&outcome);
        let task = self.runtime.spawn(async move {
            let result = turn.sleeping_by(timers.sleep()).await;
            report.set(Some((timers.now(), result)));
        });
        self.runtime.run_now();
        match self.model.queue_up(now, n, longest) {
            Ok(name) => self.waiters.push(Waiter { name, n, task, outcome, gave_up: false }),
            Err(refused) => {
                let (at, result) = outcome.get().expect("the refusal is immediate");
                assert_eq!(at, now);
                assert_eq!(result.unwrap_err().exceeds_burst(), refused == Refused::ExceedsBurst);
            }
        }
    }

    fn give_up(&mut self, waiter: usize) {
        self.waiters[waiter].gave_up = true;
        self.runtime.drop_task(self.waiters[waiter].task);
        let cancelled = self.model.cancel(self.timers.now(), self.waiters[waiter].name);
        self.compare_level(&format!("{cancelled:?}"));
    }

    fn run(&mut self, event: Event) {
        let waiting: Vec<_> = (0..self.waiters.len()).filter(|index| self.waiters[*index].waits()).collect();
        match event {
            Event::Arrive { n, longest } => self.arrive(n, longest),
            Event::Check(n) => {
                let taken = n <= self.limiter.quota().burst_size() && self.model.take(self.timers.now(), n);
                assert_eq!(self.limiter.check_n(n).is_ok(), taken);
            }
            Event::GiveUp { index, asleep } if !waiting.is_empty() => {
                let now = self.timers.now();
                self.asleep.push((now, now + asleep));
                self.timers.clock.advance_ticks(asleep);
                self.give_up(waiting[index % waiting.len()]);
                self.runtime.run_now();
            }
            Event::LastGivesUp if !waiting.is_empty() => self.give_up(waiting[waiting.len() - 1]),
            Event::GiveUp { .. } | Event::LastGivesUp => {}
            Event::Pass(ticks) => self.runtime.run_until(self.timers.now() + ticks),
        }
    }

    /// The tick at which a waiter gets its result, if its tokens are available at `due`.
    fn result_at(&self, due: u64) -> u64 {
        self.asleep.iter().find(|(from, to)| *from < due && due <= *to).map_or(due, |(_, to)| *to)
    }

    fn compare(&self) {
        let schedule: HashMap<_, _> = self.model.schedule().into_iter().collect();
        for Waiter { name, n, outcome, gave_up, .. } in &self.waiters {
            let due = schedule.get(name).map(|due| self.result_at(*due));
            match outcome.get() {
                Some((_, result)) if *n == 0 => assert_eq!(result, Ok(())),
                Some((at, result)) => assert_eq!((Some(at), result), (due, Ok(())), "waiter {name}"),
                None => assert!(*gave_up || due > Some(self.timers.now()), "waiter {name} of {due:?} is late"),
            }
        }
        self.compare_level("");
    }

    fn compare_level(&self, what: &str) {
        let level = (self.limiter.peek().remaining(), self.limiter.debt());
        assert_eq!(level, self.model.level(self.timers.now()), "available and missing tokens {what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// Every waiter gets its result at the tick of the model.
    ///
    /// Tokens of a cancelled wait are given back, or used up at their turn.
    #[test]
    fn queue_is_served_on_the_tick_and_uses_every_token(
        (period, burst, max_debt) in (1..12u64, 1..10u32, 0..30u32),
        events in events(),
    ) {
        let timers = Timers::new(FREQUENCY);
        let quota = Quota::every(TICK * u32::try_from(period).unwrap()).unwrap().burst(burst).max_debt(max_debt);
        let limiter = RateLimiter::with_clock(quota, &timers.clock);
        let mut queue = Queue {
            timers: &timers,
            limiter: &limiter,
            runtime: Runtime::new(&timers),
            model: Fifo::new(period, burst, max_debt),
            waiters: Vec::new(),
            asleep: Vec::new(),
        };
        for event in events {
            queue.run(event);
            queue.compare();
        }
        let end = queue.model.schedule().last().map_or(0, |(_, at)| *at).max(timers.now());
        queue.runtime.run_until(end);
        queue.compare();
        prop_assert!(!queue.waiters.iter().any(Waiter::waits), "a waiter is left");
    }
}

/// A fixed example of the property.
///
/// Of five waiters the last is given back. The one before it is not, because others arrived later.
#[test]
fn only_the_last_reservation_gives_back_its_tokens() {
    let timers = Timers::new(MILLIS);
    let limiter = empty(Quota::per_second(10).burst(1), &timers);
    let served: [Cell<Option<u64>>; 5] = Default::default();
    let mut runtime = Runtime::new(&timers);
    let tasks = served.each_ref().map(|served| {
        runtime.spawn(async {
            limiter.acquire(1).sleeping_by(timers.sleep()).await.unwrap();
            served.set(Some(timers.now()));
        })
    });
    runtime.run_until(150);
    assert_eq!(limiter.debt(), 4, "half a token is available");
    runtime.drop_task(tasks[2]);
    assert_eq!(limiter.debt(), 4, "others arrived later");
    runtime.drop_task(tasks[4]);
    assert_eq!(limiter.debt(), 3, "given back");
    timers.clock.set_ticks(400);
    runtime.drop_task(tasks[3]);
    assert_eq!((limiter.debt(), limiter.peek().remaining()), (0, 0), "the token was available, and is used up");
    runtime.run_until(500);
    assert_eq!(
        served.each_ref().map(Cell::get),
        [Some(100), Some(400), None, None, None],
        "the second waiter ran late"
    );
    assert_eq!(limiter.peek().remaining(), 1);
}
