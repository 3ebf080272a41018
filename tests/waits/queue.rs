//! Who waits, and who gives up, against a slow model of a queue.

use super::virtual_time::{Runtime, Timers};
use crate::models::fifo::{Fifo, Refused};
use crate::{MILLIS, empty};
use damper::{Denied, ManualClock, Quota, RateLimiter, TokenBucket};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// So long that what is waited for takes more than the second for which a future sleeps at a time.
const FREQUENCY: u64 = 100;
const TICK: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Somebody comes to wait, for so many ticks at most.
    Arrive {
        n: u32,
        longest: Option<u64>,
    },
    /// Somebody takes what is there, or goes.
    Check(u32),
    /// One of those who wait gives up, after nobody ran for some ticks.
    GiveUp {
        who: usize,
        asleep: u64,
    },
    /// The last of those who wait gives up.
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
            .prop_map(|(who, asleep)| Event::GiveUp { who, asleep }),
        2 => Just(Event::LastGivesUp),
        6 => (0..25u64).prop_map(Event::Pass),
    ];
    proptest::collection::vec(event, 1..60)
}

/// What somebody was told, and when.
type HostListener = Rc<Cell<Option<(u64, Result<(), Denied>)>>>;

/// Somebody who waits, or waited.
struct Waiter {
    name: usize,
    n: u32,
    task: usize,
    told: HostListener,
    gave_up: bool,
}

impl Waiter {
    fn waits(&self) -> bool {
        self.told.get().is_none() && !self.gave_up
    }
}

/// A limiter before which waiters queue up, and the model of it.
struct Queue<'a> {
    timers: &'a Timers,
    limiter: &'a RateLimiter<TokenBucket, &'a ManualClock>,
    runtime: Runtime<'a>,
    model: Fifo,
    waiters: Vec<Waiter>,
    /// Ticks in which nobody ran: from after the first until the second, at which all ran again.
    asleep: Vec<(u64, u64)>,
}

impl Queue<'_> {
    fn arrive(&mut self, n: u32, longest: Option<u64>) {
        let (now, timers) = (self.timers.now(), self.timers);
        let turn = self.limiter.acquire(n);
        let turn = longest.map_or(turn, |longest| turn.within(TICK * u32::try_from(longest).unwrap()));
        let told = HostListener::default();
        let tell = Rc::clone(&told);
        let task = self.runtime.spawn(async move {
            let result = turn.sleeping_by(timers.sleep()).await;
            tell.set(Some((timers.now(), result)));
        });
        self.runtime.run_now();
        match self.model.queue_up(now, n, longest) {
            Ok(name) => self.waiters.push(Waiter { name, n, task, told, gave_up: false }),
            Err(refused) => {
                let (at, result) = told.get().expect("a refusal at once");
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
            Event::GiveUp { who, asleep } if !waiting.is_empty() => {
                let now = self.timers.now();
                self.asleep.push((now, now + asleep));
                self.timers.clock.advance_ticks(asleep);
                self.give_up(waiting[who % waiting.len()]);
                self.runtime.run_now();
            }
            Event::LastGivesUp if !waiting.is_empty() => self.give_up(waiting[waiting.len() - 1]),
            Event::GiveUp { .. } | Event::LastGivesUp => {}
            Event::Pass(ticks) => self.runtime.run_until(self.timers.now() + ticks),
        }
    }

    /// When somebody is told whose tokens are there at the tick `due`.
    fn told_at(&self, due: u64) -> u64 {
        self.asleep.iter().find(|(from, to)| *from < due && due <= *to).map_or(due, |(_, to)| *to)
    }

    fn compare(&self) {
        let schedule: HashMap<_, _> = self.model.schedule().into_iter().collect();
        for Waiter { name, n, told, gave_up, .. } in &self.waiters {
            let due = schedule.get(name).map(|due| self.told_at(*due));
            match told.get() {
                Some((_, result)) if *n == 0 => assert_eq!(result, Ok(())),
                Some((at, result)) => assert_eq!((Some(at), result), (due, Ok(())), "waiter {name}"),
                None => assert!(*gave_up || due > Some(self.timers.now()), "waiter {name} of {due:?} is late"),
            }
        }
        self.compare_level("");
    }

    fn compare_level(&self, what: &str) {
        let level = (self.limiter.peek().remaining(), self.limiter.debt());
        assert_eq!(level, self.model.level(self.timers.now()), "there and missing {what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// Everybody is told at the tick of the model, and what is given up is given back, or used up when its turn comes.
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
        prop_assert!(!queue.waiters.iter().any(Waiter::waits), "all had their turn");
    }
}

/// What the property is about, in numbers: of five who wait, the last is given back, and the one before who others came
/// after is not.
#[test]
fn only_the_last_reservation_gives_back_its_tokens() {
    let timers = Timers::new(MILLIS);
    let limiter = empty(Quota::per_second(10).burst(1), &timers);
    let told: [Cell<Option<u64>>; 5] = Default::default();
    let mut runtime = Runtime::new(&timers);
    let tasks = told.each_ref().map(|told| {
        runtime.spawn(async {
            limiter.acquire(1).sleeping_by(timers.sleep()).await.unwrap();
            told.set(Some(timers.now()));
        })
    });
    runtime.run_until(150);
    assert_eq!(limiter.debt(), 4, "half a token is there");
    runtime.drop_task(tasks[2]);
    assert_eq!(limiter.debt(), 4, "others came after");
    runtime.drop_task(tasks[4]);
    assert_eq!(limiter.debt(), 3, "given back");
    timers.clock.set_ticks(400);
    runtime.drop_task(tasks[3]);
    assert_eq!((limiter.debt(), limiter.peek().remaining()), (0, 0), "the token was there, and is used up");
    runtime.run_until(500);
    assert_eq!(
        told.each_ref().map(Cell::get),
        [Some(100), Some(400), None, None, None],
        "the second was kept from running"
    );
    assert_eq!(limiter.peek().remaining(), 1);
}
