//! The nonces of provisional words.
//!
//! ```text
//!  40      20 19     0
//! |  BLOCK   |  COUNT  |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | COUNT | 20 | counts the words of a process |
//! | BLOCK | 21 | the number of a process, from a counter in the table |

use super::slot::NONCE_BITS;
use crate::sync::{AtomicU64, Field, Ordering};

/// A nonce.
const COUNT: Field = Field::lowest(20);
const BLOCK: Field = COUNT.then(21);
const _: () = assert!(BLOCK.end() == NONCE_BITS, "fields must tile the nonce");

/// The numbers of provisional words, which no other process and no other thread has.
///
/// A process takes a number from the table's counter, and another one when it has counted to the end. So nonces repeat only after 2 million
/// processes or 10^12 first sights.
#[derive(Debug)]
pub(crate) struct Nonces<'a> {
    blocks: &'a AtomicU64,
    /// The next nonce; one with a COUNT of 0 takes a block first.
    next: AtomicU64,
}

impl<'a> Nonces<'a> {
    /// Creates the nonces of a process, on the counter of a table.
    pub(crate) fn new(blocks: &'a AtomicU64) -> Self {
        Self { blocks, next: AtomicU64::new(0) }
    }

    /// Returns a nonce.
    pub(crate) fn draw(&self) -> u64 {
        loop {
            // ORDERING: Relaxed throughout: each swap of either counter gives its number to one thread, and publishes nothing.
            // loom-tests: every_plain_interleaving::no_nonce_is_drawn_twice, words::newcomers_get_one_slot.
            let next = self.next.load(Ordering::Relaxed);
            let nonce = match COUNT.get(next) {
                0 => BLOCK.put(self.blocks.fetch_add(1, Ordering::Relaxed)),
                _ => next,
            };
            if self.next.compare_exchange_weak(next, nonce + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return nonce;
            }
        }
    }
}
