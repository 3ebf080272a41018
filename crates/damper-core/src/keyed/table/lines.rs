//! The memory in which keys without a slot spend: *lines* of eight words, which keys of all tiers share.
//!
//! In this file a line is a piece of memory. (Elsewhere `Line` is the line of a quota, which turns readings of the
//! clock into positions.)
//!
//! ```text
//! line     0        1 to 7
//!         | HEADER | words |
//!
//! HEADER  63  62                                   0
//!         | - | HIGH of word 7 | ... | HIGH of word 1 |      9 bits each
//!
//! word    63                           8 7     4 3   0
//!         | LEVEL                       | TIER  | LOW |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | LEVEL | 56 | the state of the bucket, as the algorithm stores it in a slot |
//! | TIER | 4 | the tier whose quota applies to the level |
//! | HIGH, LOW | 9 and 4 | the upper and lower bits of the tag |
//!
//! **The tag** names the key that took all the tokens that the word owes. It has some bits of the key's hash. A tag of
//! 0 means that several keys took the tokens.
//!
//! A word of 0 was never used. A line is as long as a line of the processor's cache. If there is memory for fewer than
//! eight words, there is a single, shorter line. A line of only one word has no header, and its tags have four bits.
//!
//! **The home** of a tag is the word of the line with the number `tag % words`. The header does not count as a word
//! here. [`shared`](super::shared) explains the use of the home.
//!
//! **A group** is four lines. If keys can be in several tiers, each group also has one *fixed word* for each tier. A
//! debt goes to the fixed word of its tier if no word of the key's line can take it. A tier without keys costs no
//! memory but its fixed words. A fixed word is `[LEVEL 56 | TAG 8]`. A tier that was added later has its fixed words in
//! separate memory.
//!
//! All words of a group are under one lock, and are read and written only while it is held. The same lock is held while
//! a key of this group gets a slot.

use super::fingerprint::Fingerprint;
use super::locks::Locks;
use super::tier_quotas::Tiers;
use crate::limit::LEVEL_BITS;
use crate::sync::{AtomicU64, Field, Ordering, const_unless_loom};
#[cfg(feature = "alloc")]
use alloc::boxed::Box;

/// The number of shared words in which keys can spend, for each key of the capacity.
pub(in crate::keyed) const BUCKETS_PER_KEY: usize = 2;

/// The number of words in a line, its header included.
const LINE: usize = 8;

/// Returns how many words of memory hold this many buckets, in whole lines with their headers.
#[cfg(feature = "alloc")]
pub(in crate::keyed) const fn with_headers(buckets: usize) -> usize {
    buckets.div_ceil(MOST_WAYS) * LINE
}

/// The number of lines in a group.
const LINES_IN_GROUP: usize = 4;

/// The most words of a line in which keys can spend: all words except the header.
pub(super) const MOST_WAYS: usize = LINE - 1;

/// A word of keys without a slot in the keyed table.
const LOW: Field = Field::lowest(4);
const TIER: Field = LOW.then(4);
const LEVEL: Field = TIER.then(LEVEL_BITS);
const _: () = assert!(LEVEL.end() == u64::BITS, "fields must tile the word");

const HIGH_BITS: u32 = 9;
const _: () = assert!(HIGH_BITS * MOST_WAYS as u32 <= u64::BITS, "a header has the tags of all words");

/// The lowest bit of each field of a header. `EACH_HIGHEST` has the highest bit of each field.
const EACH: u64 = 0x0040_2010_0804_0201;
const EACH_HIGHEST: u64 = EACH << (HIGH_BITS - 1);

/// The tag of a word from which several keys took tokens.
pub(super) const SEVERAL: u64 = 0;

/// The largest tag that a line can store.
const MOST_TAG: u64 = (1 << (HIGH_BITS + LOW.bits())) - 1;

/// A fixed word of the keyed table, below its LEVEL.
///
/// The field is the short form of a key's tag. It takes the place of TIER and LOW, which the other words have below
/// their LEVEL.
const FIXED_TAG: Field = Field::lowest(8);

/// Returns `word` for storing, or a word that owes one unit more if `word` is 0.
///
/// A stored 0 marks an unused word.
const fn marked_as_used(word: u64) -> u64 {
    if word == 0 { LEVEL.put(1) } else { word }
}

/// The lines of shared words, the fixed words of the tiers, and the locks of both.
pub(super) struct SharedLines {
    memory: Memory,
    pub(super) locks: Locks,
    /// The largest tag. Tests make it small, so that keys have equal tags.
    #[cfg(test)]
    pub(super) most_tag: u64,
}

enum Memory {
    /// Lines that the caller lends, for keys of one tier.
    Lent(&'static [AtomicU64]),
    #[cfg(feature = "alloc")]
    Allocated {
        lines: Box<[AtomicU64]>,
        /// The fixed words of a group side by side: one for each tier that the limiter was built with.
        fixed: Box<[AtomicU64]>,
        /// The number of tiers that the limiter was built with; 0 if all keys are in one tier.
        built_tiers: usize,
    },
}

/// The line of shared words in which a key would spend, and the tag that names the key there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// The number of the line.
    line: usize,
    /// The tag of the key, never `SEVERAL`.
    pub(super) tag: u64,
}

/// A decoded shared word.
///
/// In memory, a part of the tag is in the word, and the rest in the header of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedWord {
    pub(super) tag: u64,
    pub(super) tier: usize,
    pub(super) level: u64,
    /// Whether a key has spent from the word since it was created or cleared.
    pub(super) is_used: bool,
}

/// A line of shared words, used while its lock is held.
#[derive(Clone, Copy)]
pub(super) struct SharedLine<'a> {
    /// The header, unless the line is a single word.
    header: Option<&'a AtomicU64>,
    words: &'a [AtomicU64],
}

impl SharedLines {
    const_unless_loom! {
        /// Creates lines in memory that the caller lends, for keys of one tier.
        pub(super) const fn lent(words: &'static [AtomicU64]) -> Self {
            Self {
                memory: Memory::Lent(words),
                locks: Locks::one(),
                #[cfg(test)]
                most_tag: MOST_TAG,
            }
        }
    }

    /// Creates lines and fixed words, which together take about `words` words.
    ///
    /// There is at least one line, of at least one word. Each group of four lines has `tiers` fixed words. `tiers` is 0
    /// if all keys are in one tier.
    #[cfg(feature = "alloc")]
    pub(super) fn new(words: usize, tiers: usize) -> Self {
        let in_group = LINE * LINES_IN_GROUP;
        // There are fewer than 2^30 words, so the product fits.
        let in_lines = (words as u64 * in_group as u64 / (in_group + tiers) as u64).max(1) as usize;
        let in_lines = if in_lines < LINE { in_lines } else { in_lines / LINE * LINE };
        let zeroes = |words| (0..words).map(|_| AtomicU64::new(0)).collect();
        let memory = Memory::Allocated {
            lines: zeroes(in_lines),
            fixed: zeroes(in_lines.div_ceil(in_group) * tiers),
            built_tiers: tiers,
        };
        Self {
            memory,
            locks: Locks::many(),
            #[cfg(test)]
            most_tag: MOST_TAG,
        }
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        match &self.memory {
            Memory::Lent(words) => words,
            #[cfg(feature = "alloc")]
            Memory::Allocated { lines, .. } => lines,
        }
    }

    #[inline]
    fn lines(&self) -> usize {
        (self.words().len() / LINE).max(1)
    }

    pub(super) fn groups(&self) -> usize {
        self.lines().div_ceil(LINES_IN_GROUP)
    }

    #[inline]
    fn most_tag(&self) -> u64 {
        #[cfg(test)]
        let most = self.most_tag;
        #[cfg(not(test))]
        let most = MOST_TAG;
        if self.words().len() == 1 { most.min(LOW.max()) } else { most }
    }

    /// Returns the line that a key would spend in, and its tag.
    #[inline]
    pub(super) fn share_of(&self, key: Fingerprint) -> Share {
        Share { line: key.shared_line(self.lines()), tag: key.tag(self.most_tag()) }
    }

    /// Returns the number of the group of four lines that a key's line belongs to.
    ///
    /// All lines of a group have the same lock.
    #[inline]
    pub(super) const fn group(share: Share) -> usize {
        share.line / LINES_IN_GROUP
    }

    #[inline]
    pub(super) fn line(&self, share: Share) -> SharedLine<'_> {
        let words = self.words();
        let line = if words.len() < LINE { words } else { &words[share.line * LINE..][..LINE] };
        match line {
            [header, words @ ..] if !words.is_empty() => SharedLine { header: Some(header), words },
            words => SharedLine { header: None, words },
        }
    }

    /// Returns the fixed word of a tier in a group; `None` if all keys are in one tier.
    #[cfg_attr(not(feature = "alloc"), expect(unused_variables, reason = "there is one tier only"))]
    fn fixed<'a>(&'a self, group: usize, tier: usize, tiers: &'a Tiers) -> Option<&'a AtomicU64> {
        match &self.memory {
            Memory::Lent(_) => None,
            #[cfg(feature = "alloc")]
            Memory::Allocated { built_tiers: 0, .. } => None,
            #[cfg(feature = "alloc")]
            Memory::Allocated { fixed, built_tiers, .. } if tier < *built_tiers => {
                fixed.get(group * built_tiers + tier)
            }
            #[cfg(feature = "alloc")]
            Memory::Allocated { .. } => tiers.added_words(tier).get(group),
        }
    }

    /// Returns the fixed word of a tier. Its tag has the short form that [`fixed_tag`](Self::fixed_tag) returns.
    pub(super) fn fixed_word(&self, share: Share, tier: usize, tiers: &Tiers) -> SharedWord {
        // ORDERING: Relaxed: the group's lock orders all accesses of the word.
        let word = self.fixed(Self::group(share), tier, tiers).map_or(0, |word| word.load(Ordering::Relaxed));
        SharedWord { tag: FIXED_TAG.get(word), tier, level: LEVEL.get(word), is_used: word != 0 }
    }

    /// Returns the short form of a key's tag, which fits the eight bits in a fixed word.
    pub(super) const fn fixed_tag(tag: u64) -> u64 {
        if tag == SEVERAL { SEVERAL } else { 1 + tag % FIXED_TAG.max() }
    }

    pub(super) fn put_fixed(&self, share: Share, tiers: &Tiers, word: SharedWord) {
        if let Some(fixed) = self.fixed(Self::group(share), word.tier, tiers) {
            let stored = LEVEL.put(word.level) | FIXED_TAG.put(word.tag);
            // ORDERING: Relaxed: the group's lock orders all accesses of the word.
            fixed.store(marked_as_used(stored), Ordering::Relaxed);
        }
    }

    /// Marks all words of a group as unused. The caller holds the group's lock.
    pub(super) fn clear(&self, group: usize, tiers: &Tiers) {
        let words = self.words();
        let first = group * LINES_IN_GROUP * LINE;
        let end = words.len().min(first + LINES_IN_GROUP * LINE);
        let fixed = (0..tiers.len()).filter_map(|tier| self.fixed(group, tier, tiers));
        // ORDERING: Relaxed: the group's lock orders all accesses of these words.
        words[first..end].iter().chain(fixed).for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

impl SharedLine<'_> {
    /// Returns the number of words in the line, without the header.
    #[inline]
    pub(super) const fn ways(self) -> usize {
        self.words.len()
    }

    /// Returns the number of the word that is the *home* of a tag.
    ///
    /// The search for the words of a key with this tag starts there.
    #[inline]
    pub(super) const fn home(self, tag: u64) -> usize {
        // A tag has 13 bits, so the cast loses no bits.
        tag as usize % self.words.len()
    }

    #[inline]
    fn header(self) -> u64 {
        // ORDERING: Relaxed: the line's lock orders all accesses of the header.
        self.header.map_or(0, |header| header.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn word(self, way: usize) -> SharedWord {
        self.word_under(self.header(), way)
    }

    #[inline]
    fn word_under(self, header: u64, way: usize) -> SharedWord {
        // ORDERING: Relaxed: the line's lock orders all accesses of the word.
        // loom-tests: keyed::shared_debt_survives_a_stale_quota.
        let word = self.words[way].load(Ordering::Relaxed);
        let tag = high(way).get(header) << LOW.bits() | LOW.get(word);
        SharedWord { tag, tier: TIER.get(word) as usize, level: LEVEL.get(word), is_used: word != 0 }
    }

    pub(super) fn put(self, way: usize, word: SharedWord) {
        let stored = LEVEL.put(word.level) | TIER.put(word.tier as u64) | LOW.put(word.tag);
        // ORDERING: Relaxed: the line's lock orders all accesses of the word.
        self.words[way].store(marked_as_used(stored), Ordering::Relaxed);
        if let Some(header) = self.header {
            let high = high(way);
            let tags = self.header() & !high.put(high.max()) | high.put(word.tag >> LOW.bits());
            // ORDERING: Relaxed: the line's lock orders all accesses of the header.
            header.store(tags, Ordering::Relaxed);
        }
    }

    /// Returns whether a word of this line may have the given tag, and the word at the tag's [`home`](Self::home).
    ///
    /// The boolean is a fast test, because it compares the header only. (A line without a header has one word, and that
    /// word is compared.) If it is `false`, no word has this tag. If it is `true`, a word may have this tag. The word
    /// at the home is `None` if it was never used.
    #[inline]
    pub(super) fn glance(self, tag: u64) -> (bool, Option<SharedWord>) {
        let header = self.header();
        let home = Some(self.word_under(header, self.home(tag))).filter(|home| home.is_used);
        let differs = header ^ EACH.wrapping_mul(tag >> LOW.bits());
        // A field of `differs` is 0 if the tag of that word has the same upper bits. The subtraction sets the highest
        // bit of each field that is 0. Its borrow may also set the highest bit of the field above, but only if some
        // field is 0. So `has_equal` is exact for the upper bits. The lower bits of the tags are not compared.
        let has_equal = differs.wrapping_sub(EACH) & !differs & EACH_HIGHEST != 0;
        (if self.header.is_some() { has_equal } else { home.is_some_and(|home| home.tag == tag) }, home)
    }
}

/// Returns the field of the header that stores the upper bits of the tag of word `way`.
const fn high(way: usize) -> Field {
    Field::at(way as u32 * HIGH_BITS, HIGH_BITS)
}
