//! The slots of a cluster.

/// The number of slots of a cluster. The hash tag of a key determines its slot.
pub(super) const SLOTS: usize = 16_384;

/// Returns the CRC16 of the cluster specification: XMODEM, polynomial 0x1021, from 0.
pub(super) const fn crc16(bytes: &[u8]) -> u16 {
    let (mut crc, mut at) = (0, 0);
    while at < bytes.len() {
        crc = extend(crc, bytes[at]);
        at += 1;
    }
    crc
}

/// Returns the CRC of a text and one more byte.
const fn extend(crc: u16, byte: u8) -> u16 {
    crc << 8 ^ TABLE[(crc >> 8) as usize ^ byte as usize]
}

/// Returns the slot of a hash tag.
pub(super) const fn slot_of(tag: &[u8]) -> usize {
    crc16(tag) as usize % SLOTS
}

/// The CRC of each byte.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// A short text for each slot of a cluster, by which a key can be stored in a given slot.
///
/// The text of a slot is the smallest decimal number whose CRC leads to the slot. The table takes 64 KiB and is built once. A single
/// server loses its memory as a whole, so [`single`](Self::single) has one text for all slots. Otherwise the first subject in each
/// slot would look like a loss.
#[derive(Clone, Debug)]
pub struct SlotTags {
    tags: Box<[u32]>,
}

impl SlotTags {
    /// Finds a text for each slot. It computes some 180,000 CRCs, in a few milliseconds.
    #[must_use]
    pub fn new() -> Self {
        let mut tags = vec![u32::MAX; SLOTS].into_boxed_slice();
        let mut vacant = SLOTS;
        for number in 0_u32.. {
            let slot = slot_of(number.to_string().as_bytes());
            if tags[slot] == u32::MAX {
                tags[slot] = number;
                vacant -= 1;
                if vacant == 0 {
                    break;
                }
            }
        }
        Self { tags }
    }

    /// Returns one text for all slots, for a server that is no cluster.
    #[must_use]
    pub fn single() -> Self {
        Self { tags: Box::new([0]) }
    }

    /// Returns the number whose decimal text has this slot, modulo the number of slots.
    #[must_use]
    pub fn tag(&self, slot: usize) -> u32 {
        self.tags[slot % self.tags.len()]
    }

    /// Returns all markers: that of each slot, or the single one.
    ///
    /// A first deployment sets them to 0, which says that the server never lost its memory.
    pub fn markers(&self) -> impl Iterator<Item = String> {
        self.tags.iter().map(|&tag| super::keys::marker(tag))
    }
}

impl Default for SlotTags {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc16_has_the_published_values() {
        // The value of the cluster specification, and of the catalogue of CRCs.
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(crc16(b""), 0);
        assert_eq!(crc16(b"A"), 0x58E5);
        // `CLUSTER KEYSLOT`, as printed in the documentation of that command and of the specification.
        assert_eq!(slot_of(b"somekey"), 11_058);
        assert_eq!(slot_of(b"hash_tag"), 2_515);
        assert_eq!(slot_of(b"foo"), 12_182);
    }

    #[test]
    fn every_slot_has_a_tag_of_its_own() {
        let tags = SlotTags::new();
        let mut longest = 0;
        for slot in 0..SLOTS {
            let text = tags.tag(slot).to_string();
            longest = longest.max(text.len());
            assert_eq!(slot_of(text.as_bytes()), slot, "{text}");
        }
        assert!(longest <= 6, "{longest} digits");
        assert_eq!(tags.markers().count(), SLOTS);
        assert_eq!(SlotTags::single().markers().collect::<Vec<_>>(), ["damper:{0}"]);
        assert_eq!(SlotTags::single().tag(7), 0);
    }
}
