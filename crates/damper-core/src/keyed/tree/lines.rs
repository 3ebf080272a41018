//! The lines of a tree. Each bucket has a line, in which the calls wait that this bucket has refused.
//!
//! A call gets one ticket for all of its wait. Older calls have lower tickets. A call *asks* when it tries to take its
//! costs. It asks only if no older call stands in the line of a bucket that it takes from. It takes nothing in advance:
//! tokens taken at one level would be of no use while another level holds the call up.
//!
//! **Where a call stands.** It stands in the line of each bucket that has refused it, until it is served or gives up.
//! So once two buckets have refused it, no later call takes from either of them before it does. Otherwise later calls
//! could keep it waiting for ever: some take from one bucket, some from the other, and both buckets never have the
//! tokens at once.
//!
//! There is one exception: while a call waits at a level, it stands in no line of a later level. Otherwise a user
//! without tokens could hold up all users of an organisation.
//!
//! An older call may hold a call up at a bucket that has not refused it yet. The call then stands in the line of this
//! bucket too. It leaves this line when another bucket refuses it, or when an older call holds it up at another bucket.
//!
//! **Guarantees.** A call within its guarantee waits behind no call at the next level. A call beyond its guarantee also
//! stands in the line of the guarantee's bucket, so that later calls of the same key leave the guarantee to it. It does
//! not stand there if its cost exceeds the guarantee's burst, because it can then only borrow.
//!
//! **Bystanders.** A call waits only behind older calls that stand in the line of a bucket from which it takes too.
//! With one queue for the whole tree, a user without tokens would hold up all users of an organisation.
//!
//! **The order.** Calls that take from the same buckets are served in the order in which they came. While one of them
//! waits, it stands in the line of a bucket that the others take from too, so they wait behind it.
//!
//! **Liveness.** Calls wait behind older ones only, so the oldest call may always ask. At the first level it keeps its
//! place at each bucket that has refused it, so no later call takes from these buckets. Once these buckets have the
//! tokens for it, the same argument applies to the next level, and so on.
//!
//! **Wake-ups.**
//!
//! - A call stores its waker before it asks.
//! - A settlement first gives tokens back. Then it wakes the first call in the line of each of its buckets. It also
//!   wakes the other calls that such a bucket has refused, because they may be within their guarantee.
//! - A call that was refused also asks again when its tokens are due.
//! - A call whose time is over does not hold up others, even if no thread polls it. The call behind it wakes up by
//!   itself at that time, and looks again.

use crate::concurrency::Expiry;
use crate::keyed::table::Fingerprint;
use crate::sync::{AtomicU32, Guarded, Ordering, fence};
use alloc::vec::Vec;
use core::fmt;
use core::task::Waker;

/// A call gets a place in a line only if more than this many places are free for each call in the line.
///
/// So one line takes at most a fifth of all places, rounded up. Ten greedy users leave `(4/5)^10`, a tenth of the
/// places, to the others.
const PART_OF_FREE_PLACES: usize = 4;

/// Identifies a bucket by its level and by a fingerprint of the key and the dimension.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bucket {
    level: usize,
    fingerprint: u64,
}

/// The age of a waiting call. Older calls have lower tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The reason why a call gets no place to wait.
#[derive(Clone, Copy)]
pub(super) enum Full {
    /// All places of the tree are taken.
    Queue,
    /// Too many calls wait at this bucket: their number is at least a quarter of the free places.
    Line(Bucket),
}

/// Whether older calls hold a call up.
#[derive(Clone, Copy)]
pub(super) enum Look {
    /// No older call holds this one up.
    MayAsk,
    /// An older call holds this one up.
    ///
    /// The value is the expiry of the call directly before this one, if it has one.
    HeldUp(Option<Expiry>),
}

/// The lines of all buckets of a tree.
pub(super) struct Lines {
    /// How many calls wait. It is written under the lock.
    waiting: AtomicU32,
    waiters: Guarded<Waiters>,
}

/// The waiting calls and their places. The lock of [`Lines`] guards them.
pub(super) struct Waiters {
    /// The waiting calls, sorted by ticket. The vector never grows beyond its capacity.
    calls: Vec<Waiter>,
    /// The places of the calls, sorted by bucket and then by ticket. So the line of a bucket is a slice.
    ///
    /// The vector never grows beyond its capacity, because a call has at most one place for each bucket of its path.
    standing: Vec<Place>,
    places: u16,
    next_ticket: u64,
}

struct Waiter {
    ticket: Ticket,
    /// The bucket whose line the call joined first.
    ///
    /// The limit on the places of one line counts the call at this bucket only.
    first: Bucket,
    expiry: Option<Expiry>,
    /// The tick at which the call's tokens are due, or a past tick if that is not known.
    due: u64,
    /// Wakes the call. It is `None` once the call was woken.
    waker: Option<Waker>,
}

/// A place of a call in the line of a bucket.
#[derive(Clone, Copy)]
struct Place {
    bucket: Bucket,
    ticket: Ticket,
    /// Whether the bucket has refused the call.
    ///
    /// If not, the call stands in the line because an older call there holds it up.
    has_refused: bool,
}

// The docs of `QuotaTreeBuilder::queue` state these sizes.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Waiter>() == 64 && size_of::<Place>() == 32);

impl Bucket {
    pub(super) fn new(level: usize, bucket: Fingerprint) -> Self {
        Self { level, fingerprint: bucket.get() }
    }

    pub(super) fn level(self) -> usize {
        self.level
    }

    pub(super) fn is_of(self, bucket: Fingerprint) -> bool {
        self.fingerprint == bucket.get()
    }
}

impl Lines {
    /// Allocates room for `places` waiting calls, each of which may stand in up to `words` lines.
    pub(super) fn new(places: u16, words: usize) -> Self {
        let count = usize::from(places);
        let standing = Vec::with_capacity(count.saturating_mul(words));
        let waiters = Waiters { calls: Vec::with_capacity(count), standing, places, next_ticket: 0 };
        Self { waiting: AtomicU32::new(0), waiters: Guarded::new(waiters) }
    }

    /// Returns how many calls wait.
    #[inline]
    pub(super) fn waiting(&self) -> u32 {
        // ORDERING: Relaxed: the number publishes nothing. In `wake`, a fence before this load orders it. A new call
        // that misses a waiter here came at about the same time, so it may be served first.
        self.waiting.load(Ordering::Relaxed)
    }

    /// Calls `look` with the waiting calls, under the lock.
    #[cold]
    pub(super) fn read<R>(&self, look: impl FnOnce(&Waiters) -> R) -> R {
        self.waiters.read(look)
    }

    /// Gives a new call a place behind older calls, or returns `None` if none of them holds it up.
    pub(super) fn arrive(
        &self,
        buckets: impl Iterator<Item = Bucket>,
        guarantee_of: impl Fn(Bucket) -> Option<Bucket>,
        expiry: Option<Expiry>,
        now: u64,
        waker: &Waker,
    ) -> Result<Option<Ticket>, Full> {
        self.add(guarantee_of, expiry, now, waker, |waiters| {
            waiters.held_up_at(Ticket::NEWEST, buckets, now).map(|bucket| (bucket, false, now))
        })
    }

    /// Gives a call a place in the line of a bucket that has refused it.
    ///
    /// The call then has to ask again, because its tokens may have come before it had the place.
    pub(super) fn join(
        &self,
        bucket: Bucket,
        guarantee_of: impl Fn(Bucket) -> Option<Bucket>,
        due: u64,
        expiry: Option<Expiry>,
        now: u64,
        waker: &Waker,
    ) -> Result<Ticket, Full> {
        self.add(guarantee_of, expiry, now, waker, |_| Some((bucket, true, due)))?.ok_or(Full::Queue)
    }

    fn add(
        &self,
        guarantee_of: impl Fn(Bucket) -> Option<Bucket>,
        expiry: Option<Expiry>,
        now: u64,
        waker: &Waker,
        line: impl FnOnce(&Waiters) -> Option<(Bucket, bool, u64)>,
    ) -> Result<Option<Ticket>, Full> {
        let mut waker = Some(waker.clone());
        let mut _dropped_outside_the_lock = None;
        let added = self.waiters.write(|waiters| {
            let Some((bucket, has_refused, due)) = line(waiters) else { return Ok(None) };
            _dropped_outside_the_lock = waiters.make_place(bucket, now)?;
            let ticket = Ticket(waiters.next_ticket);
            waiters.next_ticket += 1;
            waiters.calls.push(Waiter { ticket, first: bucket, expiry, due, waker: waker.take() });
            waiters.stand(Place { bucket, ticket, has_refused }, guarantee_of(bucket));
            self.count(waiters);
            Ok(Some(ticket))
        });
        // ORDERING: SeqCst pairs with the fence in `wake`. Either a settlement there sees this call in `waiting`, or
        // this call's next attempt sees the tokens that the settlement gave back. Otherwise the wake-up could be lost.
        // loom: tree::settlement_wakes_a_waiting_call.
        fence(Ordering::SeqCst);
        added
    }

    /// Stores `waker`, and returns whether the call may ask now.
    ///
    /// If an older call holds it up at one of its buckets, the call moves to the line of that bucket.
    pub(super) fn look(
        &self,
        ticket: Ticket,
        buckets: impl Iterator<Item = Bucket>,
        guarantee_of: impl Fn(Bucket) -> Option<Bucket>,
        now: u64,
        waker: &Waker,
    ) -> Look {
        let waker = Some(waker.clone());
        let (_dropped_outside_the_lock, held_up) = self.waiters.write(|waiters| {
            let call = waiters.call(ticket);
            let earlier = call.map(|call| core::mem::replace(&mut call.waker, waker));
            let held_up = waiters.held_up_at(ticket, buckets, now).map(|bucket| {
                let moves = waiters.stand(Place { bucket, ticket, has_refused: false }, guarantee_of(bucket));
                (bucket, moves, waiters.expiry_before(ticket, bucket, now))
            });
            (earlier, held_up)
        });
        let Some((bucket, moves, expiry)) = held_up else { return Look::MayAsk };
        if moves {
            self.leave_others(ticket, bucket, now);
        }
        Look::HeldUp(expiry)
    }

    /// Records that a bucket has refused a call, and returns whether the call already stood in its line.
    ///
    /// If it did not, it has to look and ask again, because the tokens may have come before it joined the line.
    pub(super) fn refused(
        &self,
        ticket: Ticket,
        bucket: Bucket,
        guarantee: Option<Bucket>,
        due: u64,
        now: u64,
    ) -> bool {
        let (stood, moves) = self.waiters.write(|waiters| {
            if let Some(call) = waiters.call(ticket) {
                call.due = due;
            }
            let stood = waiters.position(bucket, ticket).is_ok();
            (stood, waiters.stand(Place { bucket, ticket, has_refused: true }, guarantee))
        });
        if moves {
            self.leave_others(ticket, bucket, now);
        }
        stood
    }

    /// Removes a call that was served or has given up.
    pub(super) fn leave(&self, ticket: Ticket, now: u64) {
        self.leave_where(ticket, now, |_| true);
        let _dropped_outside_the_lock = self.waiters.write(|waiters| {
            let index = waiters.calls.binary_search_by_key(&ticket, |call| call.ticket).ok()?;
            let removed = waiters.calls.remove(index);
            self.count(waiters);
            Some(removed)
        });
    }

    /// Removes a call from the lines in which it must not stand while it waits at `bucket`.
    fn leave_others(&self, ticket: Ticket, bucket: Bucket, now: u64) {
        self.leave_where(ticket, now, |place| !place.stays_beside(bucket));
    }

    /// Removes a call from the lines for which `leaves` is true, and wakes each call that is now first there.
    fn leave_where(&self, ticket: Ticket, now: u64, leaves: impl Fn(&Place) -> bool) {
        // Each iteration removes one place, because the waker must be called outside the lock.
        while let Some(next) = self.waiters.write(|waiters| {
            let leaves = |place: &Place| place.ticket == ticket && leaves(place);
            let Place { bucket, .. } = waiters.standing.remove(waiters.standing.iter().position(leaves)?);
            Some(waiters.first_of(bucket, now).filter(|first| first.ticket > ticket).and_then(|next| next.waker.take()))
        }) {
            wake(next);
        }
    }

    /// Wakes the calls that may ask again, after tokens were given back to these buckets.
    pub(super) fn wake(&self, buckets: impl Iterator<Item = Bucket>, now: u64) {
        // ORDERING: SeqCst pairs with the fence in `add`. It orders the return of the tokens before the load in
        // `waiting`. So a call that this load misses sees the tokens when it asks.
        fence(Ordering::SeqCst);
        if self.waiting() == 0 {
            return;
        }
        for bucket in buckets {
            let mut last = None;
            while let Some((ticket, waker)) = self.waiters.write(|waiters| waiters.next_to_ask(bucket, last, now)) {
                wake(waker);
                last = Some(ticket);
            }
        }
    }

    fn count(&self, waiters: &Waiters) {
        // ORDERING: Relaxed: the fence in `add` follows the store that counts a new call, and pairs with the one in
        // `wake`. The number of places is a `u16`, so the cast keeps the value.
        self.waiting.store(waiters.calls.len() as u32, Ordering::Relaxed);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Ticket {
    /// The ticket of a call that is younger than all waiting calls.
    pub(super) const NEWEST: Self = Self(u64::MAX);
}

impl Place {
    /// Returns whether the call keeps this place while it waits at `bucket`.
    fn stays_beside(&self, bucket: Bucket) -> bool {
        self.bucket == bucket || (self.has_refused && self.bucket.level <= bucket.level)
    }
}

impl Waiter {
    /// Returns whether the call still holds up others, because its time is not over.
    fn counts(&self, now: u64) -> bool {
        self.expiry.is_none_or(|expiry| !expiry.has_passed(now))
    }
}

impl Waiters {
    /// Returns the first of these buckets in whose line a call older than `ticket` stands.
    pub(super) fn held_up_at(
        &self,
        ticket: Ticket,
        mut buckets: impl Iterator<Item = Bucket>,
        now: u64,
    ) -> Option<Bucket> {
        if self.calls.is_empty() {
            return None;
        }
        buckets.find(|&bucket| self.line(bucket, now).next().is_some_and(|first| first.ticket < ticket))
    }

    /// Returns the tick at which the first call in the line of a bucket gets its tokens, if there is one.
    pub(super) fn due_at(&self, bucket: Bucket, now: u64) -> Option<u64> {
        self.line(bucket, now).next().map(|first| first.due)
    }

    /// Returns the calls in the line of a bucket, without those whose time is over.
    fn line(&self, bucket: Bucket, now: u64) -> impl DoubleEndedIterator<Item = &Waiter> {
        self.places(bucket, now).map(|(_, call)| call)
    }

    /// Returns the calls of [`line`](Self::line), each with its place.
    fn places(&self, bucket: Bucket, now: u64) -> impl DoubleEndedIterator<Item = (&Place, &Waiter)> {
        let start = self.standing.partition_point(|place| place.bucket < bucket);
        let end = start + self.standing[start..].partition_point(|place| place.bucket == bucket);
        let places = self.standing[start..end].iter();
        let calls = places.filter_map(|place| Some((place, &self.calls[self.index(place.ticket)?])));
        calls.filter(move |(_, call)| call.counts(now))
    }

    /// Returns the first call after `last` in the line of a bucket that may ask, and takes its waker.
    ///
    /// The first call of the line may ask. The other calls that the bucket has refused may ask too, because they may be
    /// within their guarantee.
    fn next_to_ask(&mut self, bucket: Bucket, last: Option<Ticket>, now: u64) -> Option<(Ticket, Option<Waker>)> {
        let places = self.places(bucket, now).map(|(place, _)| place).enumerate();
        let mut asking =
            places.filter(|(index, place)| *index == 0 || place.has_refused).map(|(_, place)| place.ticket);
        let next = asking.find(|&ticket| last.is_none_or(|last| ticket > last))?;
        drop(asking);
        Some((next, self.call(next)?.waker.take()))
    }

    /// Returns the expiry of the call directly before this one in the line of a bucket.
    fn expiry_before(&self, ticket: Ticket, bucket: Bucket, now: u64) -> Option<Expiry> {
        self.line(bucket, now).rev().find(|before| before.ticket < ticket)?.expiry
    }

    fn first_of(&mut self, bucket: Bucket, now: u64) -> Option<&mut Waiter> {
        let first = self.line(bucket, now).next()?.ticket;
        self.call(first)
    }

    fn index(&self, ticket: Ticket) -> Option<usize> {
        self.calls.binary_search_by_key(&ticket, |call| call.ticket).ok()
    }

    fn call(&mut self, ticket: Ticket) -> Option<&mut Waiter> {
        self.index(ticket).map(|index| &mut self.calls[index])
    }

    fn position(&self, bucket: Bucket, ticket: Ticket) -> Result<usize, usize> {
        self.standing.binary_search_by_key(&(bucket, ticket), |place| (place.bucket, place.ticket))
    }

    /// Puts a call into the line of a bucket, and into the line of `guarantee` if there is one.
    ///
    /// It returns whether the call now stands in other lines that it has to leave.
    fn stand(&mut self, place: Place, guarantee: Option<Bucket>) -> bool {
        // A call whose time is over may have lost its place to another call. It then joins no line.
        if self.index(place.ticket).is_none() {
            return false;
        }
        let guarantee = guarantee.map(|bucket| Place { bucket, has_refused: true, ..place });
        for place in core::iter::once(place).chain(guarantee) {
            match self.position(place.bucket, place.ticket) {
                Ok(index) => self.standing[index].has_refused |= place.has_refused,
                Err(index) => self.standing.insert(index, place),
            }
        }
        self.standing.iter().any(|other| other.ticket == place.ticket && !other.stays_beside(place.bucket))
    }

    /// Makes room for a call that joins the line of `bucket` first, or returns why there is none.
    ///
    /// Calls whose time is over do not count. If one of them has to make room, it is returned, because its waker must
    /// be dropped outside the lock.
    fn make_place(&mut self, bucket: Bucket, now: u64) -> Result<Option<Waiter>, Full> {
        let (mut in_all, mut in_line) = (0, 0);
        for call in self.calls.iter().filter(|call| call.counts(now)) {
            in_all += 1;
            in_line += usize::from(call.first == bucket);
        }
        let places = usize::from(self.places);
        if in_all >= places {
            return Err(Full::Queue);
        }
        if in_line * PART_OF_FREE_PLACES >= places - in_all {
            return Err(Full::Line(bucket));
        }
        if self.calls.len() < places {
            return Ok(None);
        }
        let over = self.calls.iter().position(|call| !call.counts(now));
        let over = over.map(|index| self.calls.remove(index));
        if let Some(over) = &over {
            self.standing.retain(|place| place.ticket != over.ticket);
        }
        Ok(over)
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}
