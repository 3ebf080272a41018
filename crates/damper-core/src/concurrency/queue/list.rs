//! Doubly linked lists through one slab.

/// The end of a list, so a slab has at most 2^16 - 1 places.
const END: u16 = u16::MAX;

/// The links of a place, which is in one list at most.
#[derive(Clone, Copy, Debug)]
pub(in crate::concurrency) struct Link {
    previous: u16,
    next: u16,
}

impl Link {
    /// In no list.
    pub(in crate::concurrency) const NONE: Self = Self { previous: END, next: END };
}

/// A list of places. The links are separate, because the lists of a slab share them.
#[derive(Debug)]
pub(in crate::concurrency) struct List {
    first: u16,
    last: u16,
}

impl List {
    pub(in crate::concurrency) const EMPTY: Self = Self { first: END, last: END };

    pub(in crate::concurrency) fn first(&self) -> Option<u16> {
        (self.first != END).then_some(self.first)
    }

    pub(in crate::concurrency) fn last(&self) -> Option<u16> {
        (self.last != END).then_some(self.last)
    }

    /// Iterates over the places, from the first one.
    pub(in crate::concurrency) fn iter(&self, links: &[Link]) -> impl Iterator<Item = u16> {
        core::iter::successors(self.first(), |&place| {
            links.get(usize::from(place)).map(|link| link.next).filter(|&next| next != END)
        })
    }

    /// Appends a place that is in no list.
    pub(in crate::concurrency) fn push(&mut self, links: &mut [Link], place: u16) {
        links[usize::from(place)] = Link { previous: self.last, next: END };
        match links.get_mut(usize::from(self.last)) {
            Some(last) => last.next = place,
            None => self.first = place,
        }
        self.last = place;
    }

    /// Removes a place that is in this list.
    pub(in crate::concurrency) fn remove(&mut self, links: &mut [Link], place: u16) {
        let Link { previous, next } = core::mem::replace(&mut links[usize::from(place)], Link::NONE);
        match links.get_mut(usize::from(previous)) {
            Some(previous) => previous.next = next,
            None => self.first = next,
        }
        match links.get_mut(usize::from(next)) {
            Some(next) => next.previous = previous,
            None => self.last = previous,
        }
    }

    /// Removes the first place.
    pub(in crate::concurrency) fn pop(&mut self, links: &mut [Link]) -> Option<u16> {
        let first = self.first()?;
        self.remove(links, first);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn places(list: &List, links: &[Link]) -> Vec<u16> {
        let forward: Vec<_> = list.iter(links).collect();
        let mut backward: Vec<_> = core::iter::successors(list.last(), |&place| {
            Some(links[usize::from(place)].previous).filter(|&previous| previous != END)
        })
        .collect();
        backward.reverse();
        assert_eq!(forward, backward);
        forward
    }

    #[test]
    fn places_stay_in_order_whichever_is_removed() {
        let mut links = [Link::NONE; 5];
        let mut list = List::EMPTY;
        (0..5).for_each(|place| list.push(&mut links, place));
        list.remove(&mut links, 2);
        assert_eq!(places(&list, &links), [0, 1, 3, 4]);
        list.remove(&mut links, 0);
        list.remove(&mut links, 4);
        assert_eq!(places(&list, &links), [1, 3]);
        list.push(&mut links, 0);
        assert_eq!(places(&list, &links), [1, 3, 0]);
        assert_eq!([list.pop(&mut links), list.pop(&mut links), list.pop(&mut links)], [Some(1), Some(3), Some(0)]);
        assert_eq!((list.pop(&mut links), list.last()), (None, None));
    }
}
