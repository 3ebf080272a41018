//! Stripes: tokens that are taken many at a time and spent where few other threads write.
//!
//! A *stripe* is a word that holds tokens. Next to one bucket, there is a stripe for each processor. A thread spends
//! from its preferred stripe. If that stripe has too few tokens, the thread refills it from the bucket. It turns to the
//! other stripes only if the bucket has too few tokens as well.
//!
//! This is the word of a stripe. The sum of its fields is at most `share` tokens:
//!
//! ```text
//!  63  32 31     0
//! | OUT  | TOKENS |
//! ```
//!
//! | field | bits | unit | |
//! |---|---|---|---|
//! | TOKENS | 32 | tokens | available to every thread |
//! | OUT | 32 | tokens | room reserved for tokens in transit: those being fetched from the bucket, and those taken out that may be put back |
//!
//! A thread reserves the room before it fetches tokens. So the stripes together never hold more than the budget, their
//! part of the burst, wherever a thread is stopped. A thread that is stopped for ever strands the tokens it is moving.

use super::lease::{beside, set_aside, with_budget};
use super::{Algorithm, Denied, Limiter, TokenBucket, Usage};
use crate::OutOfRange;
use crate::gate::Forecast;
use crate::quota::{Quota, SetQuotaError};
use crate::sync::{AtomicU64, Field, Ordering, affinity};
use crate::time::{Clock, DefaultClock, Monotonic};
use alloc::boxed::Box;
use crossbeam_utils::CachePadded;
use std::thread;

/// A stripe.
const TOKENS: Field = Field::lowest(32);
const OUT: Field = TOKENS.then(32);
const _: () = assert!(OUT.end() == u64::BITS, "fields must tile the word");

const MOST_STRIPES: usize = 64;

/// A token bucket for many threads that cannot hold a [`Lease`](super::Lease).
///
/// It distributes tokens to *stripes*, which are words in cache lines of their own. So most checks read no clock and
/// write only to a cache line that no other core uses.
///
/// The stripes hold up to `budget` tokens of the burst, and the bucket holds the rest. A cost above what the bucket can
/// hold is always refused, as one that exceeds the burst. The bucket and the stripes together allow no more than the
/// quota.
///
/// A check is refused only if the bucket and all stripes together have too few tokens. It reads the stripes and the
/// bucket one after another, so it does not see tokens that another thread is moving between them at that moment.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::{Quota, Striped};
///
/// // A million a second; of the burst 4,096 are for the stripes.
/// let limiter = Striped::new(Quota::per_second(1_000_000), 4_096)?;
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| assert!((0..1_000).all(|_| limiter.check().is_ok())));
///     }
/// });
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Debug)]
#[cfg(feature = "std")]
pub struct Striped<C = DefaultClock> {
    bucket: TokenBucket,
    stripes: Box<[CachePadded<AtomicU64>]>,
    /// The most tokens that a stripe may hold.
    share: u32,
    clock: C,
}

impl Striped {
    /// Creates a limiter with a stripe for each processor, on the [default clock](DefaultClock).
    ///
    /// The stripes share `budget` tokens of the burst.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the budget is less than a token for each stripe, or not less than the burst.
    pub fn new(quota: Quota, budget: u32) -> Result<Self, OutOfRange> {
        Self::with_clock(quota, budget, Monotonic)
    }
}

impl<C: Clock> Striped<C> {
    /// Creates a limiter like [`new`](Striped::new), on a clock of your own.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if the budget is less than a token for each stripe, or not less than the burst.
    pub fn with_clock(quota: Quota, budget: u32, clock: C) -> Result<Self, OutOfRange> {
        let processors = thread::available_parallelism().map_or(1, core::num::NonZero::get);
        Self::with_stripes(quota, budget, processors.min(MOST_STRIPES), clock)
    }

    /// Creates a limiter with a given number of stripes, which share the budget equally.
    ///
    /// The remainder of this division stays in the bucket.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if `stripes` is 0, more than 64 or more than the budget, or if the budget is not less than the burst.
    pub fn with_stripes(quota: Quota, budget: u32, stripes: usize, clock: C) -> Result<Self, OutOfRange> {
        let _whole = set_aside(quota, budget)?;
        OutOfRange::check_count("stripes", stripes as u64, 1..=u64::from(budget).min(MOST_STRIPES as u64))
            .map_err(|error| error.note("(each with a token of the budget)"))?;
        let share = budget / stripes as u32;
        Ok(Self {
            bucket: TokenBucket::new(set_aside(quota, share * stripes as u32)?),
            stripes: (0..stripes).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            share,
            clock,
        })
    }

    /// Takes one token if one is available.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry.
    #[inline]
    pub fn check(&self) -> Result<(), Denied> {
        self.check_n(1)
    }

    /// Takes `n` tokens if the bucket and the stripes together have them, else none.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when the bucket will have the tokens that the stripes lack. If `n` exceeds what the
    /// bucket can hold, it says that no wait helps.
    #[inline]
    pub fn check_n(&self, n: u32) -> Result<(), Denied> {
        // The fast path tries the preferred stripe once.
        let place = affinity::preferred_of(self.stripes.len());
        let stripe = Stripe(&self.stripes[place]);
        let word = stripe.load();
        if u64::from(n) <= TOKENS.get(word) && stripe.replace(word, word - u64::from(n)) {
            return Ok(());
        }
        self.check_slow(place, n)
    }

    #[cold]
    fn check_slow(&self, mut place: usize, n: u32) -> Result<(), Denied> {
        loop {
            let stripe = Stripe(&self.stripes[place]);
            let word = stripe.load();
            // A stripe holds and lends at most its share, so both numbers fit a `u32`.
            let (tokens, out) = (TOKENS.get(word) as u32, OUT.get(word) as u32);
            if n > tokens
                && let Err(denied) = self.bucket.has(n, &self.clock)
            {
                // Nothing is written until it is clear that the bucket and the stripes have enough tokens.
                if denied.exceeds_burst() {
                    return Err(denied);
                }
                self.bucket.has(n.saturating_sub(self.held()), &self.clock)?;
                return self.gather(place, n);
            }
            let room = self.share - tokens - out;
            let claimed = if n > tokens { word + OUT.put(room.into()) } else { word - u64::from(n) };
            if !stripe.replace(word, claimed) {
                // Another thread uses this stripe too, so this thread moves on to the next stripe.
                place = affinity::move_on(place, self.stripes.len());
                continue;
            }
            if n <= tokens {
                return Ok(());
            }
            let taken = self.bucket.take_between(n, n.saturating_add(room), &self.clock);
            stripe.settle(taken.map_or(0, |(taken, _)| taken - n), room);
            if taken.is_ok() {
                return Ok(());
            }
        }
    }

    /// Takes `n` tokens or none: from the stripes first, and what they lack from the bucket.
    fn gather(&self, first: usize, n: u32) -> Result<(), Denied> {
        let mut gathered = [0; MOST_STRIPES];
        let mut missing = n;
        for place in (first..self.stripes.len()).chain(0..first) {
            gathered[place] = Stripe(&self.stripes[place]).borrow(missing);
            missing -= gathered[place];
        }
        let answer = self.bucket.take(missing, &self.clock).map(|_| ());
        for (stripe, &borrowed) in self.stripes.iter().zip(&gathered) {
            if borrowed > 0 {
                Stripe(stripe).settle(if answer.is_ok() { 0 } else { borrowed }, borrowed);
            }
        }
        answer
    }

    /// Returns how much of the bucket's capacity is used, and takes nothing.
    ///
    /// Tokens in the stripes count as available.
    pub fn peek(&self) -> Usage {
        let usage = self.bucket.usage(&self.clock);
        usage.with_more(self.held())
    }

    /// Returns the quota in force.
    pub fn quota(&self) -> Quota {
        with_budget(&self.bucket, self.budget())
    }

    /// Puts another quota in force. The stripes keep their tokens.
    ///
    /// It works like [`RateLimiter::set_quota`](super::RateLimiter::set_quota).
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`] if another thread is changing the quota, or if `quota` does not fit. The old quota then stays.
    pub fn set_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
        self.bucket.set_quota(beside(quota, self.budget())?, &self.clock)
    }

    /// Returns the tokens in all stripes, read one after another.
    fn held(&self) -> u32 {
        // Other threads use the stripes meanwhile, so this many tokens may never have been there at one moment.
        self.stripes.iter().fold(0, |held: u32, stripe| held.saturating_add(TOKENS.get(Stripe(stripe).load()) as u32))
    }

    fn budget(&self) -> u32 {
        // The share is a `u32` divided by the number of stripes, so the product fits.
        self.share * self.stripes.len() as u32
    }
}

impl<C: Clock> Limiter for Striped<C> {
    #[inline]
    fn try_acquire(&self, n: u32) -> Result<(), Denied> {
        self.check_n(n)
    }

    fn usage(&self) -> Usage {
        self.peek()
    }

    /// Returns what a call of this thread would get now.
    ///
    /// Each thread asks one stripe first.
    fn forecast(&self, n: u32) -> Forecast<Denied> {
        let stripe = Stripe(&self.stripes[affinity::preferred_of(self.stripes.len())]);
        if u64::from(n) <= TOKENS.get(stripe.load()) {
            return Forecast::Pass(None);
        }
        let refusal = |n| self.bucket.has(n, &self.clock).err();
        let without_stripes = refusal(n);
        if without_stripes.is_some_and(|denied| !denied.exceeds_burst()) {
            return refusal(n.saturating_sub(self.held())).into();
        }
        without_stripes.into()
    }
}

/// A single stripe.
///
/// ORDERING: Relaxed throughout. The word is the whole state of a stripe and publishes nothing else. A thread reserves
/// room in its stripe, and then takes tokens from the bucket by a Release swap (`OneWord::replace`). That swap pairs
/// with the Acquire fence in `LiveQuota::is_current`: a thread that reads the swapped word of the bucket also sees the
/// reserved room.
struct Stripe<'a>(&'a AtomicU64);

impl Stripe<'_> {
    #[inline]
    fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn replace(&self, old: u64, new: u64) -> bool {
        self.0.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Takes up to `n` tokens and reserves their room, so that they can be put back.
    ///
    /// The caller puts them back if the bucket turns out to have too few tokens for the rest.
    fn borrow(&self, n: u32) -> u32 {
        // loom-tests: leases::tokens_put_back_find_their_room.
        loop {
            let word = self.load();
            let borrowed = TOKENS.get(word).min(n.into());
            if borrowed == 0 || self.replace(word, word - TOKENS.put(borrowed) + OUT.put(borrowed)) {
                // `borrowed` is at most `n`, so the conversion is exact.
                return borrowed as u32;
            }
        }
    }

    /// Adds `tokens` to the stripe and frees the reserved room of `out` tokens. `out` is at least `tokens`.
    fn settle(&self, tokens: u32, out: u32) {
        loop {
            let word = self.load();
            if self.replace(word, word + TOKENS.put(tokens.into()) - OUT.put(out.into())) {
                return;
            }
        }
    }
}
