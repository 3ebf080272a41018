//! A runtime whose time is a manual clock.
//!
//! It has tasks and timers, and is deterministic.

use damper::{Clock, ManualClock};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Alarms by tick, and within a tick in the order in which they were set.
#[derive(Debug)]
pub(crate) struct Timers {
    pub(crate) clock: ManualClock,
    set: RefCell<BTreeMap<(u64, u64), Waker>>,
    alarms: Cell<u64>,
}

impl Timers {
    /// Creates timers on a clock at tick 0 with `frequency` ticks per second.
    pub(crate) fn new(frequency: u64) -> Self {
        Self { clock: ManualClock::with_frequency(frequency), set: RefCell::default(), alarms: Cell::new(0) }
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Returns a sleep that ends exactly at the requested tick.
    pub(crate) fn sleep<'a>(&'a self) -> impl Fn(Duration) -> Alarm<'a> + Copy {
        |duration| {
            let ticks = (duration.as_nanos() * u128::from(self.clock.frequency())).div_ceil(1_000_000_000);
            let at = self.now() + u64::try_from(ticks).unwrap();
            self.alarms.set(self.alarms.get() + 1);
            Alarm { timers: self, key: (at, self.alarms.get()) }
        }
    }
}

/// A future that is ready at a tick.
#[derive(Debug)]
pub(crate) struct Alarm<'a> {
    timers: &'a Timers,
    key: (u64, u64),
}

impl Future for Alarm<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.timers.now() >= self.key.0 {
            return Poll::Ready(());
        }
        self.timers.set.borrow_mut().insert(self.key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.timers.set.borrow_mut().remove(&self.key);
    }
}

/// Lets all other ready tasks run.
pub(crate) fn yield_now() -> impl Future<Output = ()> {
    let mut yielded = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

type Tasks = Arc<Mutex<VecDeque<usize>>>;

struct Task {
    id: usize,
    woken: Tasks,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap().push_back(self.id);
    }
}

/// Tasks, which run in the order in which they are woken.
pub(crate) struct Runtime<'a> {
    timers: &'a Timers,
    tasks: Vec<Option<Pin<Box<dyn Future<Output = ()> + 'a>>>>,
    woken: Tasks,
}

impl<'a> Runtime<'a> {
    pub(crate) fn new(timers: &'a Timers) -> Self {
        Self { timers, tasks: Vec::new(), woken: Tasks::default() }
    }

    /// Adds a task, which first runs in the next `run`.
    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + 'a) -> usize {
        let id = self.tasks.len();
        self.tasks.push(Some(Box::pin(task)));
        self.woken.lock().unwrap().push_back(id);
        id
    }

    /// Drops a task in its present state.
    pub(crate) fn drop_task(&mut self, id: usize) {
        self.tasks[id] = None;
    }

    /// Runs all woken tasks, without advancing the time.
    fn run(&mut self) {
        loop {
            let next = self.woken.lock().unwrap().pop_front();
            let Some(id) = next else { return };
            let waker = Waker::from(Arc::new(Task { id, woken: Arc::clone(&self.woken) }));
            let task = &mut self.tasks[id];
            if let Some(future) = task
                && future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
            {
                *task = None;
            }
        }
    }

    /// Runs all tasks up to and including the tick.
    pub(crate) fn run_until(&mut self, tick: u64) {
        self.run();
        loop {
            let next = self.timers.set.borrow_mut().first_entry().filter(|alarm| alarm.key().0 <= tick).map(|alarm| {
                let key = *alarm.key();
                (key.0, alarm.remove())
            });
            let Some((at, waker)) = next else { break };
            // The clock never moves back, even if a task slept too long.
            self.timers.clock.set_ticks(at.max(self.timers.now()));
            waker.wake();
            self.run();
        }
        self.timers.clock.set_ticks(tick);
    }

    /// Runs all tasks up to the present tick.
    pub(crate) fn run_now(&mut self) {
        self.run_until(self.timers.now());
    }
}
