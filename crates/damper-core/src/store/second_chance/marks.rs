//! Marks on the entries of a ring: a bit for each.
//!
//! The hand passes over 64 marked entries in one step.

use alloc::boxed::Box;

#[derive(Debug)]
pub(super) struct Marks {
    bits: Box<[u64]>,
    len: usize,
    marked: usize,
}

impl Marks {
    /// Creates marks for `len` entries, none of them marked.
    pub(super) fn new(len: usize) -> Self {
        Self { bits: (0..len.div_ceil(64)).map(|_| 0).collect(), len, marked: 0 }
    }

    /// Returns how many entries are marked.
    pub(super) fn count(&self) -> usize {
        self.marked
    }

    pub(super) fn is_marked(&self, index: usize) -> bool {
        self.bits[index / 64] >> (index % 64) & 1 != 0
    }

    pub(super) fn mark(&mut self, index: usize) {
        self.marked += usize::from(!self.is_marked(index));
        self.bits[index / 64] |= 1 << (index % 64);
    }

    pub(super) fn unmark(&mut self, index: usize) {
        self.marked -= usize::from(self.is_marked(index));
        self.bits[index / 64] &= !(1 << (index % 64));
    }

    pub(super) fn clear(&mut self) {
        self.bits.fill(0);
        self.marked = 0;
    }

    /// Returns the first marked entry from this one on, around the ring.
    pub(super) fn next_marked(&self, from: usize) -> Option<usize> {
        self.next(from, 0)
    }

    /// Returns the first unmarked entry from this one on, around the ring.
    pub(super) fn next_unmarked(&self, from: usize) -> Option<usize> {
        self.next(from, u64::MAX)
    }

    fn next(&self, from: usize, inverted: u64) -> Option<usize> {
        let (first, after) = (from / 64, u64::MAX << (from % 64));
        // The search looks at the first word twice: from the entry on, and as a whole after the lap.
        let (lap_end, lap_start) = (first..self.bits.len(), 0..=first);
        lap_end.chain(lap_start).enumerate().find_map(|(step, word_index)| {
            let word = (self.bits[word_index] ^ inverted) & if step == 0 { after } else { u64::MAX };
            let index = word_index * 64 + word.trailing_zeros() as usize;
            // The last word may have more bits than there are entries left, above those of the entries.
            (word != 0 && index < self.len).then_some(index)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Marks;
    use alloc::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn next_entry_is_found_around_the_ring(
            (len, from) in (1..300usize).prop_flat_map(|len| (Just(len), 0..len)),
            flips in prop::collection::vec(any::<prop::sample::Index>(), 0..400),
        ) {
            let mut marks = Marks::new(len);
            let mut plain = vec![false; len];
            for flip in flips {
                let index = flip.index(len);
                plain[index] = !plain[index];
                if plain[index] { marks.mark(index) } else { marks.unmark(index) }
                prop_assert_eq!(marks.is_marked(index), plain[index]);
            }
            let next = |wanted: bool| (0..len).map(|step| (from + step) % len).find(|&index| plain[index] == wanted);
            prop_assert_eq!(marks.next_marked(from), next(true));
            prop_assert_eq!(marks.next_unmarked(from), next(false));
            prop_assert_eq!(marks.count(), plain.iter().filter(|&&marked| marked).count());
            marks.clear();
            prop_assert_eq!((marks.count(), marks.next_marked(from)), (0, None));
        }
    }
}
