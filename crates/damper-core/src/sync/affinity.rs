//! The preference of a thread for one of several places, such as the stripes of a limiter.
//!
//! Preferences differ, so that threads rarely use the same place.

use core::cell::Cell;

#[cfg(any(loom, shuttle))]
use super::model::thread_local;
#[cfg(not(any(loom, shuttle)))]
use std::thread_local;

thread_local! {
    static PREFERENCE: Cell<usize> = Cell::new(by_thread());
}

/// Returns the place among `places` that this thread prefers. There must be at least one place.
#[inline]
pub(crate) fn preferred_of(places: usize) -> usize {
    PREFERENCE.with(Cell::get) % places
}

/// Makes this thread prefer the place after `place`, and returns that place.
///
/// A thread calls it after it met another thread at `place`.
#[inline]
pub(crate) fn move_on(place: usize, places: usize) -> usize {
    let next = (place + 1) % places;
    PREFERENCE.with(|preference| preference.set(next));
    next
}

/// Returns a number that very likely differs between threads.
#[cfg(not(any(loom, shuttle)))]
fn by_thread() -> usize {
    use core::hash::{BuildHasher, BuildHasherDefault};
    // All bits of the hash are equally good.
    BuildHasherDefault::<std::hash::DefaultHasher>::default().hash_one(std::thread::current().id()) as usize
}

/// Returns the same number for all threads, so that every execution of a model takes the same steps.
#[cfg(any(loom, shuttle))]
fn by_thread() -> usize {
    0
}
