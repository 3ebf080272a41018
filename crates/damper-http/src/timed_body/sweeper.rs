//! The timer that drops bodies.
//!
//! Each thread that creates such bodies has a list of its own, so that threads do not contend for it. One task per list sleeps until the first
//! body of the list may expire, looks at all of them, and sleeps again. It ends when the list is empty, and the next body starts another.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::mem;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread_local;
use tokio::runtime::{self, Handle};
use tokio::time::{Instant, Sleep};

/// A body that may be dropped.
pub(super) trait Expiring: Send + Sync {
    /// Returns when to look at the body again, or `None` if there is no body any more.
    ///
    /// The body expires then, or later.
    fn expires(&self, now: Instant) -> Option<Instant>;

    /// Drops the body if it has expired.
    fn expire(&self, now: Instant);
}

/// The shortest time between two sweeps of a list.
///
/// It bounds what a long list costs, and a body is dropped that much late.
const BETWEEN_SWEEPS: Duration = Duration::from_millis(5);

thread_local! {
    /// The list of this thread, and the runtime on which its task runs.
    static LIST: RefCell<Option<(runtime::Id, Arc<List>)>> = const { RefCell::new(None) };
}

/// The place of a body in a list. The body leaves the list when this is dropped.
pub(super) struct Registration {
    list: Arc<List>,
    place: usize,
}

impl Registration {
    /// Puts a body into the list of this thread, or returns `None` outside of a runtime.
    pub(super) fn new(body: Arc<dyn Expiring>, now: Instant) -> Option<Self> {
        let runtime = Handle::try_current().ok()?;
        let expires = body.expires(now)?;
        // A thread that ends has no list any more.
        let list = LIST.try_with(|lists| lists.try_borrow_mut().ok().map(|mut list| list_of(&mut list, &runtime)));
        let list = list.ok().flatten()?;
        let place = list.insert(body, expires, &runtime);
        Some(Self { list, place })
    }
}

/// Returns the list of a thread on this runtime.
fn list_of(list: &mut Option<(runtime::Id, Arc<List>)>, runtime: &Handle) -> Arc<List> {
    match list {
        Some((id, list)) if *id == runtime.id() => Arc::clone(list),
        // A task of another runtime may not run again.
        _ => Arc::clone(&list.insert((runtime.id(), Arc::default())).1),
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut bodies = self.list.lock();
        let body = bodies.places.get_mut(self.place).and_then(Option::take);
        bodies.vacant.push(self.place);
        drop(bodies);
        drop(body);
    }
}

/// The bodies of a thread.
#[derive(Default)]
struct List(Mutex<Bodies>);

#[derive(Default)]
struct Bodies {
    /// A place is `None` while it is vacant, and after its body has gone.
    places: Vec<Option<Arc<dyn Expiring>>>,
    /// The places without a registration.
    vacant: Vec<usize>,
    /// When to sweep next.
    next_sweep: Option<Instant>,
    /// Wakes the task if a body expires before the next sweep; `None` until the task has run.
    task: Option<Waker>,
    is_swept: bool,
}

impl List {
    fn lock(&self) -> MutexGuard<'_, Bodies> {
        // No code of a user runs while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(self: &Arc<Self>, body: Arc<dyn Expiring>, expires: Instant, runtime: &Handle) -> usize {
        let mut bodies = self.lock();
        let place = bodies.vacant.pop().unwrap_or_else(|| {
            bodies.places.push(None);
            bodies.places.len() - 1
        });
        if let Some(vacant) = bodies.places.get_mut(place) {
            *vacant = Some(body);
        }
        let is_first = bodies.next_sweep.is_none_or(|next| expires < next);
        if is_first {
            bodies.next_sweep = Some(expires);
        }
        let is_swept = mem::replace(&mut bodies.is_swept, true);
        let task = if is_first { bodies.task.clone() } else { None };
        drop(bodies);
        if !is_swept {
            runtime.spawn(Sweep { list: Arc::clone(self), sleeping: None, has_ended: false });
        } else if let Some(task) = task {
            task.wake();
        }
        place
    }

    /// Drops the bodies that have expired. Returns when to sweep again, or `None` if the list is empty.
    fn sweep(&self, now: Instant) -> Option<Instant> {
        let mut due = Vec::new();
        let mut next: Option<Instant> = None;
        let mut bodies = self.lock();
        for place in &mut bodies.places {
            let Some(body) = place else { continue };
            match body.expires(now) {
                None => *place = None,
                Some(expires) => {
                    if expires <= now {
                        due.push(Arc::clone(body));
                    }
                    next = Some(next.map_or(expires, |next| next.min(expires)));
                }
            }
        }
        bodies.next_sweep = next.map(|next| next.max(now + BETWEEN_SWEEPS));
        if bodies.next_sweep.is_none() {
            bodies.is_swept = false;
            bodies.task = None;
            if bodies.vacant.len() == bodies.places.len() {
                // A crowd of bodies leaves no long list behind.
                (bodies.places, bodies.vacant) = (Vec::new(), Vec::new());
            }
        }
        let next_sweep = bodies.next_sweep;
        drop(bodies);
        for body in due {
            // A body that panics when it is dropped must not keep the others.
            drop(catch_unwind(AssertUnwindSafe(|| body.expire(now))));
        }
        next_sweep
    }
}

/// The task that sweeps a list.
struct Sweep {
    list: Arc<List>,
    sleeping: Option<Pin<Box<Sleep>>>,
    /// Whether it left the list to the next task already.
    has_ended: bool,
}

impl Future for Sweep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut bodies = self.list.lock();
            // Before `next_sweep` is read, so that a body that expires earlier wakes this task.
            bodies.task = Some(context.waker().clone());
            let next_sweep = bodies.next_sweep;
            drop(bodies);
            let now = Instant::now();
            let next_sweep = match next_sweep {
                Some(next) if next > now => next,
                _ => {
                    let Some(next) = self.list.sweep(now) else {
                        self.has_ended = true;
                        return Poll::Ready(());
                    };
                    next
                }
            };
            let sleeping = self.sleeping.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(next_sweep)));
            sleeping.as_mut().reset(next_sweep);
            ready!(sleeping.as_mut().poll(context));
        }
    }
}

/// A task that its runtime drops leaves the list to the next one.
///
/// One that panics does not: the runtime has no timer, so each further one would panic, too.
impl Drop for Sweep {
    fn drop(&mut self) {
        if !self.has_ended {
            let mut bodies = self.list.lock();
            bodies.is_swept = std::thread::panicking();
            bodies.task = None;
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("place", &self.place).finish_non_exhaustive()
    }
}
