//! A shard of the store with a plain list, for the rule by which it evicts.

#[derive(Debug)]
pub(crate) struct Ring {
    capacity: usize,
    hand: usize,
    pub(crate) entries: Vec<Entry>,
    pub(crate) evictions: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) key: u8,
    pub(crate) value: u32,
    uses: u32,
}

impl Ring {
    const LOOKS: usize = 64;

    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, hand: 0, entries: Vec::new(), evictions: 0 }
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
        let entry = Entry { key, value, uses: 0 };
        if self.entries.len() < self.capacity {
            self.entries.push(entry);
        } else {
            let victim = self.victim(is_kept);
            self.entries[victim] = entry;
            self.hand = (victim + 1) % self.capacity;
            self.evictions += 1;
        }
        value
    }

    fn victim(&mut self, is_kept: fn(u32) -> bool) -> usize {
        // First those that were not used, then any, then whether it is to be kept or not.
        for minds_uses in [true, false] {
            for _ in 0..if minds_uses { Self::LOOKS } else { Self::LOOKS.min(self.capacity) } {
                let entry = &mut self.entries[self.hand];
                if minds_uses && entry.uses > 0 {
                    entry.uses -= 1;
                } else if !is_kept(entry.value) {
                    return self.hand;
                }
                self.hand = (self.hand + 1) % self.capacity;
            }
        }
        self.hand
    }

    pub(crate) fn remove(&mut self, key: u8) -> Option<u32> {
        let place = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.swap_remove(place).value)
    }
}
