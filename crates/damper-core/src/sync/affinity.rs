//! The place that a thread prefers, of several such as the stripes of a limiter.
//!
//! Preferences differ, so that threads rarely meet.

use core::cell::Cell;

#[cfg(any(loom, shuttle))]
use super::model::thread_local;
#[cfg(not(any(loom, shuttle)))]
use std::thread_local;

thread_local! {
    static PREFERENCE: Cell<usize> = Cell::new(by_thread());
}

/// Returns the place, of so many, that this thread prefers. There must be at least one.
#[inline]
pub(crate) fn preferred_of(places: usize) -> usize {
    PREFERENCE.with(Cell::get) % places
}

/// Makes this thread prefer the place after `place`, of so many, and returns that one.
///
/// It is for a thread that has met another there.
#[inline]
pub(crate) fn move_on(place: usize, places: usize) -> usize {
    let next = (place + 1) % places;
    PREFERENCE.with(|preference| preference.set(next));
    next
}

/// Differs from thread to thread, most likely.
#[cfg(not(any(loom, shuttle)))]
fn by_thread() -> usize {
    use core::hash::{BuildHasher, BuildHasherDefault};
    // Any part of it is as good as any other.
    BuildHasherDefault::<std::hash::DefaultHasher>::default().hash_one(std::thread::current().id()) as usize
}

/// The same for all threads, so that every execution of a model makes the same steps.
#[cfg(any(loom, shuttle))]
fn by_thread() -> usize {
    0
}
