//! Words on the heap that are allocated at first use.

use super::{AtomicU64, const_unless_loom};
use alloc::boxed::Box;
use once_cell::race::OnceBox;

/// Words that are allocated at first use, so that their owner can be a `static`.
///
/// If an owner needs more words later, others are allocated beside them. The first ones cannot be freed, because a thread
/// may still use them.
///
/// Threads that race to be the first user each allocate. One allocation stays, and no thread waits. The owner passes the
/// number and the initial value of the words at every use, so they are not stored.
#[derive(Debug)]
pub(crate) struct LazyWords(OnceBox<Words>);

#[derive(Debug)]
struct Words {
    words: Box<[AtomicU64]>,
    /// At least twice as many words, for an owner that needs more.
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

    /// Returns at least `count` words.
    #[inline]
    pub(crate) fn get(&self, count: u32, initial: u64) -> &[AtomicU64] {
        let Words { words, more } = self.0.get_or_init(|| Box::new(Words::allocated(count, initial)));
        if words.len() >= count as usize { words } else { more.get_more(count.max(2 * words.len() as u32), initial) }
    }

    #[cold]
    fn get_more(&self, count: u32, initial: u64) -> &[AtomicU64] {
        self.get(count, initial)
    }

    /// Returns the words if they are allocated; for an owner that always needs the same number.
    #[inline]
    pub(crate) fn existing(&self) -> Option<&[AtomicU64]> {
        self.0.get().map(|words| &*words.words)
    }

    /// Returns at least `count` words if so many are allocated.
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
