//! Which of several places a thread goes to first.

use core::cell::Cell;

#[cfg(any(loom, shuttle))]
use super::model::thread_local;
#[cfg(not(any(loom, shuttle)))]
use std::thread_local;

thread_local! {
    static PREFERENCE: Cell<usize> = Cell::new(by_thread());
}

/// A number of the thread's own: others have others, as far as chance has it.
pub(crate) fn preference() -> usize {
    PREFERENCE.with(Cell::get)
}

/// Makes the thread go elsewhere from here on.
pub(crate) fn prefer(place: usize) {
    PREFERENCE.with(|preference| preference.set(place));
}

#[cfg(not(any(loom, shuttle)))]
fn by_thread() -> usize {
    use core::hash::{BuildHasher, BuildHasherDefault};
    // Any part of it is as good as any other.
    BuildHasherDefault::<std::hash::DefaultHasher>::default().hash_one(std::thread::current().id()) as usize
}

/// The same for all, so that the executions of a model are alike; who meets another moves on.
#[cfg(any(loom, shuttle))]
fn by_thread() -> usize {
    0
}
