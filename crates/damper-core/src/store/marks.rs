//! Marks on the places of a ring: a bit for each, so that a hand passes over 64 marked places in one step.

use alloc::boxed::Box;

#[derive(Debug)]
pub(super) struct Marks {
    bits: Box<[u64]>,
    places: usize,
    marked: usize,
}

impl Marks {
    /// For so many places, none of them marked.
    pub(super) fn new(places: usize) -> Self {
        Self { bits: (0..places.div_ceil(64)).map(|_| 0).collect(), places, marked: 0 }
    }

    /// How many places are marked.
    pub(super) fn count(&self) -> usize {
        self.marked
    }

    pub(super) fn is_marked(&self, place: usize) -> bool {
        self.bits[place / 64] >> (place % 64) & 1 != 0
    }

    pub(super) fn mark(&mut self, place: usize) {
        self.marked += usize::from(!self.is_marked(place));
        self.bits[place / 64] |= 1 << (place % 64);
    }

    pub(super) fn unmark(&mut self, place: usize) {
        self.marked -= usize::from(self.is_marked(place));
        self.bits[place / 64] &= !(1 << (place % 64));
    }

    pub(super) fn clear(&mut self) {
        self.bits.fill(0);
        self.marked = 0;
    }

    /// The first marked place from this one on, all around.
    pub(super) fn next_marked(&self, from: usize) -> Option<usize> {
        self.next(from, 0)
    }

    /// The first place from this one on, all around, that is not marked.
    pub(super) fn next_unmarked(&self, from: usize) -> Option<usize> {
        self.next(from, u64::MAX)
    }

    fn next(&self, from: usize, inverted: u64) -> Option<usize> {
        let (first, after) = (from / 64, u64::MAX << (from % 64));
        // The first word is looked at twice: from the place on, and after the lap as a whole.
        let (lap_end, lap_start) = (first..self.bits.len(), 0..=first);
        lap_end.chain(lap_start).enumerate().find_map(|(step, index)| {
            let word = (self.bits[index] ^ inverted) & if step == 0 { after } else { u64::MAX };
            let place = index * 64 + word.trailing_zeros() as usize;
            // In the last word there may be bits of no place; they come after those of places.
            (word != 0 && place < self.places).then_some(place)
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
        fn the_next_one_is_found_all_around(
            (places, from) in (1..300usize).prop_flat_map(|places| (Just(places), 0..places)),
            flips in prop::collection::vec(any::<prop::sample::Index>(), 0..400),
        ) {
            let mut marks = Marks::new(places);
            let mut plain = vec![false; places];
            for flip in flips {
                let place = flip.index(places);
                plain[place] = !plain[place];
                if plain[place] { marks.mark(place) } else { marks.unmark(place) }
                prop_assert_eq!(marks.is_marked(place), plain[place]);
            }
            let next = |wanted: bool| (0..places).map(|step| (from + step) % places).find(|&place| plain[place] == wanted);
            prop_assert_eq!(marks.next_marked(from), next(true));
            prop_assert_eq!(marks.next_unmarked(from), next(false));
            prop_assert_eq!(marks.count(), plain.iter().filter(|&&marked| marked).count());
            marks.clear();
            prop_assert_eq!((marks.count(), marks.next_marked(from)), (0, None));
        }
    }
}
