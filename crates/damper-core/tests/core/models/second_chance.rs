//! A model of a store's shard: a plain list with the rule of eviction.

#[derive(Debug)]
pub(crate) struct SecondChanceModel {
    capacity: usize,
    hand: usize,
    /// The next marked entry to check again.
    review: usize,
    pub(crate) entries: Vec<ModelEntry>,
    pub(crate) evictions: u64,
    pub(crate) kept_evictions: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelEntry {
    pub(crate) key: u8,
    pub(crate) value: u32,
    uses: u32,
    /// Whether the predicate kept the entry when it was last checked.
    is_marked: bool,
}

impl SecondChanceModel {
    const LOOKS: usize = 64;

    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, hand: 0, review: 0, entries: Vec::new(), evictions: 0, kept_evictions: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.hand = 0;
    }

    pub(crate) fn get(&mut self, key: u8) -> Option<u32> {
        let entry = self.entries.iter_mut().find(|entry| entry.key == key)?;
        entry.uses = (entry.uses + 1).min(3);
        Some(entry.value)
    }

    pub(crate) fn get_or_insert(&mut self, key: u8, value: u32, is_kept: fn(u32) -> bool) -> u32 {
        if let Some(value) = self.get(key) {
            return value;
        }
        let entry = ModelEntry { key, value, uses: 0, is_marked: false };
        if self.entries.len() < self.capacity {
            self.entries.push(entry);
        } else {
            let victim = self.victim(is_kept);
            self.kept_evictions += u64::from(is_kept(self.entries[victim].value));
            self.entries[victim] = entry;
            self.hand = (victim + 1) % self.capacity;
            self.evictions += 1;
        }
        value
    }

    /// All places in a circle, starting at `from`.
    fn all_around(&self, from: usize) -> impl Iterator<Item = usize> + use<> {
        let places = self.entries.len();
        (0..places).map(move |step| (from + step) % places)
    }

    fn victim(&mut self, is_kept: fn(u32) -> bool) -> usize {
        // Checks up to two marked entries again, each at most once.
        for _ in 0..self.entries.iter().filter(|entry| entry.is_marked).count().min(2) {
            if let Some(place) = self.all_around(self.review).find(|&place| self.entries[place].is_marked) {
                self.entries[place].is_marked = is_kept(self.entries[place].value);
                self.review = (place + 1) % self.capacity;
            }
        }
        // Among unmarked entries, prefers unused ones.
        let mut looks = 0;
        while let Some(place) = self.all_around(self.hand).find(|&place| !self.entries[place].is_marked) {
            let entry = &mut self.entries[place];
            if looks < Self::LOOKS && entry.uses > 0 {
                entry.uses -= 1;
            } else if is_kept(entry.value) {
                entry.is_marked = true;
            } else {
                return place;
            }
            looks += 1;
            self.hand = (place + 1) % self.capacity;
        }
        // All entries are marked.
        let mut unused = None;
        for place in self.all_around(self.hand).take(Self::LOOKS) {
            let entry = &mut self.entries[place];
            if !is_kept(entry.value) {
                return place;
            }
            if unused.is_none() {
                if entry.uses == 0 {
                    unused = Some(place);
                } else {
                    entry.uses -= 1;
                }
            }
        }
        unused.unwrap_or((self.hand + Self::LOOKS.min(self.capacity)) % self.capacity)
    }

    pub(crate) fn remove(&mut self, key: u8) -> Option<u32> {
        let place = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.swap_remove(place).value)
    }
}
