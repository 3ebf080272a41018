//! The calls that wait for a tree, in a line for each bucket that refuses.
//!
//! A call waits in the line of the bucket that refused it. It asks again only if no older call waits in the line of a bucket
//! that it takes from. If another bucket refuses it then, it moves to the line of that one, behind the older calls and before the
//! younger ones. Nothing is taken in advance, because tokens of one level would be used late where another one holds the
//! call up.
//!
//! **Bystanders.** A call waits only behind older calls that share a bucket with it, and that this bucket refuses or holds
//! up in turn. One queue for the whole tree would let a user without tokens hold up all users of an organisation. A call within
//! its guarantee waits behind no call at the next level.
//!
//! **The order.** Calls that take from the same buckets are served in the order in which they came: while one waits, wherever
//! that is, its line is that of a bucket which the others take from too.
//!
//! **Liveness.** Calls wait behind older ones only, so the oldest call may always ask. In a tree in which calls that share a
//! key also share all levels above it, a call that a level refuses keeps what it needs below: later calls of its key wait
//! behind it in the line above.
//!
//! **Wake-ups.** A call leaves its waker in its line before it asks. A settlement gives its tokens back first and then wakes
//! the first call of each line of its buckets. The first call of a line also asks again when its tokens are due.

use crate::keyed::table::Fingerprint;
use crate::sync::{AtomicU32, Guarded, Ordering, fence};
use alloc::vec::Vec;
use core::fmt;
use core::task::Waker;

/// A bucket of a tree. Its dimension is a part of the fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bucket {
    level: usize,
    fingerprint: u64,
}

/// A call's place in a line. Older calls have lower tickets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    bucket: Bucket,
    ticket: u64,
}

/// All places are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Full;

/// The lines of all buckets of a tree.
pub struct Lines {
    /// How many calls wait. It is written under the lock.
    waiting: AtomicU32,
    waiters: Guarded<Waiters>,
}

struct Waiters {
    /// The calls, by bucket and then by age: the line of a bucket is a part of it.
    ///
    /// It never grows beyond its capacity.
    by_place: Vec<Waiter>,
    places: u16,
    next_ticket: u64,
}

struct Waiter {
    place: Place,
    /// `None` once it was woken.
    waker: Option<Waker>,
}

impl Bucket {
    pub(super) fn new(level: usize, bucket: Fingerprint) -> Self {
        Self { level, fingerprint: bucket.get() }
    }
}

impl Place {
    /// Returns the bucket in whose line the call waits.
    pub(super) fn bucket(self) -> Bucket {
        self.bucket
    }
}

impl Lines {
    /// Allocates `places` for calls that wait.
    pub(super) fn new(places: u16) -> Self {
        let waiters = Waiters { by_place: Vec::with_capacity(places.into()), places, next_ticket: 0 };
        Self { waiting: AtomicU32::new(0), waiters: Guarded::new(waiters) }
    }

    /// Returns how many calls wait.
    #[inline]
    pub(super) fn waiting(&self) -> u32 {
        // ORDERING: Relaxed: nothing is published by the number. A call that does not see a waiter came at the same time.
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns one of the buckets for which another call waits, if there is one.
    #[cold]
    pub(super) fn with_waiters(&self, buckets: impl Iterator<Item = Bucket>) -> Option<Bucket> {
        self.waiters.read(|waiters| waiters.ahead_of(u64::MAX, buckets))
    }

    /// Gives a newcomer a place behind the calls that wait for one of its buckets; `None` if there are none.
    pub(super) fn arrive(&self, buckets: impl Iterator<Item = Bucket>, waker: &Waker) -> Result<Option<Place>, Full> {
        if self.waiting() == 0 {
            return Ok(None);
        }
        self.add(waker, |waiters| waiters.ahead_of(u64::MAX, buckets))
    }

    /// Gives a call that a bucket has refused a place in the line of that bucket. It has to ask again then.
    pub(super) fn join(&self, bucket: Bucket, waker: &Waker) -> Result<Place, Full> {
        self.add(waker, |_| Some(bucket))?.ok_or(Full)
    }

    fn add(&self, waker: &Waker, line: impl FnOnce(&Waiters) -> Option<Bucket>) -> Result<Option<Place>, Full> {
        let mut waker = Some(waker.clone());
        let place = self.waiters.write(|waiters| {
            let Some(bucket) = line(waiters) else { return Ok(None) };
            if waiters.by_place.len() >= waiters.places.into() {
                return Err(Full);
            }
            let place = Place { bucket, ticket: waiters.next_ticket };
            waiters.next_ticket += 1;
            waiters.insert(Waiter { place, waker: waker.take() });
            self.count(waiters);
            Ok(Some(place))
        });
        // ORDERING: SeqCst with the fence in `wake`: either a settlement sees that this call waits, or this call's next
        // question sees what the settlement gave back. loom: tree::settlement_wakes_a_waiting_call.
        fence(Ordering::SeqCst);
        place
    }

    /// Returns whether the call may ask now. If not, `waker` wakes it when it is the first of its line.
    ///
    /// It moves to the line of a bucket for which an older call waits.
    pub(super) fn look(&self, place: &mut Place, buckets: impl Iterator<Item = Bucket>, waker: &Waker) -> bool {
        let waker = Some(waker.clone());
        let (may_ask, _dropped_outside_the_lock, next) = self.waiters.write(|waiters| {
            let own = waiters.position(*place).map(|index| &mut waiters.by_place[index].waker);
            let earlier = own.map(|own| core::mem::replace(own, waker));
            match waiters.ahead_of(place.ticket, core::iter::once(place.bucket).chain(buckets)) {
                None => (true, earlier, None),
                Some(bucket) => (false, earlier, waiters.move_to(place, bucket)),
            }
        });
        wake(next);
        may_ask
    }

    /// Moves a call that another bucket has refused to the line of that bucket.
    ///
    /// It has to look and ask again then.
    pub(super) fn move_to(&self, place: &mut Place, bucket: Bucket) {
        wake(self.waiters.write(|waiters| waiters.move_to(place, bucket)));
    }

    /// Removes a call that was served or has given up.
    pub(super) fn leave(&self, place: Place) {
        let (_dropped_outside_the_lock, next) = self.waiters.write(|waiters| {
            let removed = waiters.remove(place);
            self.count(waiters);
            removed
        });
        wake(next);
    }

    /// Wakes the first call of the line of each bucket, after tokens were given back to it.
    pub(super) fn wake(&self, buckets: impl Iterator<Item = Bucket>) {
        // ORDERING: SeqCst, as `add` says. With `std` the wake-up of the key's own waiters has such a fence too.
        fence(Ordering::SeqCst);
        if self.waiting() == 0 {
            return;
        }
        for bucket in buckets {
            wake(self.waiters.write(|waiters| waiters.first_of(bucket)?.waker.take()));
        }
    }

    fn count(&self, waiters: &Waiters) {
        // ORDERING: Relaxed: the fences in `add` and `wake` order it. There are at most 2^16 - 1.
        self.waiting.store(waiters.by_place.len() as u32, Ordering::Relaxed);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Waiters {
    fn position(&self, place: Place) -> Option<usize> {
        self.by_place.binary_search_by_key(&place, |waiter| waiter.place).ok()
    }

    /// Returns the first call of a bucket's line.
    fn first_of(&mut self, bucket: Bucket) -> Option<&mut Waiter> {
        let first = self.by_place.partition_point(|waiter| waiter.place.bucket < bucket);
        self.by_place.get_mut(first).filter(|waiter| waiter.place.bucket == bucket)
    }

    /// Returns one of the buckets for which a call waits that is older than `ticket`.
    fn ahead_of(&self, ticket: u64, mut buckets: impl Iterator<Item = Bucket>) -> Option<Bucket> {
        buckets.find(|&bucket| {
            let first = self.by_place.partition_point(|waiter| waiter.place.bucket < bucket);
            let first = self.by_place.get(first).map(|waiter| waiter.place);
            first.is_some_and(|first| first.bucket == bucket && first.ticket < ticket)
        })
    }

    fn insert(&mut self, waiter: Waiter) {
        let index = self.by_place.partition_point(|other| other.place < waiter.place);
        self.by_place.insert(index, waiter);
    }

    /// Removes a call; returns its waker, and that of the call that has become the first of the line.
    fn remove(&mut self, place: Place) -> (Option<Waker>, Option<Waker>) {
        let Some(index) = self.position(place) else { return (None, None) };
        let is_first = index == 0 || self.by_place[index - 1].place.bucket != place.bucket;
        let Waiter { waker, .. } = self.by_place.remove(index);
        let next = if is_first { self.first_of(place.bucket).and_then(|next| next.waker.take()) } else { None };
        (waker, next)
    }

    /// Moves a call to another line, and returns the waker of the new first call of its earlier line.
    fn move_to(&mut self, place: &mut Place, bucket: Bucket) -> Option<Waker> {
        if place.bucket == bucket {
            return None;
        }
        let (waker, next) = self.remove(*place);
        place.bucket = bucket;
        self.insert(Waiter { place: *place, waker });
        next
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}
