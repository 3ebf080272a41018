//! Words on the heap that are made at first use.

use super::{AtomicU64, const_unless_loom};
use alloc::boxed::Box;
use once_cell::race::OnceBox;

/// A number of words, allocated at first use, so that their owner can be a `static`.
///
/// If more are needed later, others are allocated beside them, because the first ones cannot be freed: a thread may still
/// use them.
///
/// Threads that use them first at the same time each allocate; one allocation stays, and no thread waits. The owner says
/// at every use how many there are at least and what they begin with, so that nothing else is kept.
#[derive(Debug)]
pub(crate) struct LazyWords(OnceBox<Words>);

#[derive(Debug)]
struct Words {
    words: Box<[AtomicU64]>,
    /// At least twice as many, for an owner that needs more.
    more: LazyWords,
}

impl LazyWords {
    const_unless_loom! {
        #[cfg_attr(not(any(loom, shuttle)), expect(unused_variables, reason = "only model checkers make them here"))]
        pub(crate) const fn new(count: u32, initial: u64) -> Self {
            let words = OnceBox::new();
            // A model checker does not see the ordering within the `OnceBox`.
            #[cfg(any(loom, shuttle))]
            words.set(Box::new(Words::allocated(count, initial))).expect("it is empty");
            Self(words)
        }
    }

    /// At least `count` words.
    #[inline]
    pub(crate) fn get(&self, count: u32, initial: u64) -> &[AtomicU64] {
        let Words { words, more } = self.0.get_or_init(|| Box::new(Words::allocated(count, initial)));
        if words.len() >= count as usize { words } else { more.get_more(count.max(2 * words.len() as u32), initial) }
    }

    #[cold]
    fn get_more(&self, count: u32, initial: u64) -> &[AtomicU64] {
        self.get(count, initial)
    }

    /// The words, if they were used already, of an owner that always needs as many.
    #[inline]
    pub(crate) fn existing(&self) -> Option<&[AtomicU64]> {
        self.0.get().map(|words| &*words.words)
    }

    /// As [`get`](Self::get), if so many were used already.
    pub(crate) fn used(&self, count: u32) -> Option<&[AtomicU64]> {
        let Words { words, more } = self.0.get()?;
        if words.len() >= count as usize { Some(words) } else { more.used(count) }
    }
}

impl Words {
    #[cold]
    fn allocated(count: u32, initial: u64) -> Self {
        Self { words: (0..count).map(|_| AtomicU64::new(initial)).collect(), more: LazyWords(OnceBox::new()) }
    }
}
