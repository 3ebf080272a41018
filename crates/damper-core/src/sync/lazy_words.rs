//! Words on the heap that are made at first use.

use super::{AtomicU64, const_unless_loom};
use alloc::boxed::Box;
use once_cell::race::OnceBox;

/// A number of words, allocated at first use, so that their owner can be a `static`.
///
/// Threads that use them first at the same time each allocate; one allocation stays, and no thread waits. The owner says
/// at every use how many there are and what they begin with, so that nothing else is kept.
#[derive(Debug)]
pub(crate) struct LazyWords(OnceBox<Box<[AtomicU64]>>);

impl LazyWords {
    const_unless_loom! {
        #[cfg_attr(not(any(loom, shuttle)), expect(unused_variables, reason = "only model checkers make them here"))]
        pub(crate) const fn new(count: u32, initial: u64) -> Self {
            let words = OnceBox::new();
            // A model checker does not see the ordering within the `OnceBox`.
            #[cfg(any(loom, shuttle))]
            words.set(Box::new(allocated(count, initial))).expect("it is empty");
            Self(words)
        }
    }

    #[inline]
    pub(crate) fn get(&self, count: u32, initial: u64) -> &[AtomicU64] {
        self.0.get_or_init(|| Box::new(allocated(count, initial)))
    }

    /// The words, if they were used already.
    pub(crate) fn used(&self) -> Option<&[AtomicU64]> {
        self.0.get().map(|words| &**words)
    }
}

#[cold]
fn allocated(count: u32, initial: u64) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(initial)).collect()
}
