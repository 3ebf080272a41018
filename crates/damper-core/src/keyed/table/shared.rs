//! The debts of keys without a slot: what such a key owes already, and in which shared word it spends.
//!
//! [`table`](super#terms) defines the terms.
//!
//! A newcomer inherits the debt of its shared word, even if other keys took those tokens. So there are many shared
//! words. With a single word, nine of ten innocent clients were seen to be refused when one key in a thousand found no
//! slot. Each newcomer then inherited the debt of that one word. So its slot stayed busy longer, and even more keys
//! found no slot.
//!
//! # Words and tags
//!
//! [`lines`](super::lines) draws the memory: shared words stand in *lines* of up to seven. The hash of a key chooses
//! two things:
//!
//! - One line. All shared words of the key are in this line.
//! - A *tag*, which names the key in a word. The tag chooses one word of the line, the *home* of the tag.
//!
//! If several keys spent from a word, its tag is 0.
//!
//! - A word is *busy* while it owes something, and *idle* otherwise.
//! - A word is *at home* if it stands at the home of its tag. A word of several keys always counts as at home.
//! - Each group of four lines also has one *fixed word* for each tier, if there are several tiers.
//!
//! # The debt of a key in a tier
//!
//! 1. If there is a busy word with the key's tag and tier, it covers all that the key owes in this tier.
//! 2. Otherwise the debt is the greater of two:
//!    - the debt of the word at the key's home, if this is a word of several keys in the key's tier
//!    - the debt of the tier's fixed word, if this is a word of several keys or has the key's tag
//! 3. Busy words with the key's tag in other tiers count too. Their debt counts as the time until it is repaid.
//!
//! A newcomer that gets a slot starts from that debt. The words in the line stay, and their debts run out with time.
//!
//! # Where a key without a slot spends
//!
//! It spends in the first of these words that exists. Here *the greater* stands for the greater of two debts: the key's
//! and the word's. A tag of 0 afterwards means that several keys owe in the word.
//!
//! | word | starts from | tag afterwards |
//! |---|---|---|
//! | the busy word with its tag and tier | what the key owes | its own |
//! | the busy word at its home, if several keys of its tier share this word | what the key owes | 0 |
//! | an idle word, the one at its home first | what the key owes | its own |
//! | the word at its home, if this word is of its tier and at home | the greater | 0 |
//! | the fixed word of its tier, if the word at its home is at home | the greater | its own, or 0 |
//! | the word at its home, which is *displaced* | what the key owes | its own |
//!
//! A displaced word moves to its own home. If the word there is not at home, that word is displaced in turn, and so on.
//! Each step brings one word home, so there are at most as many steps as words in the line. All these words are in one
//! cache line.
//!
//! The last displaced word finds a word at its home that is at home itself. If both are of one tier, they become one
//! word of several keys, which owes the greater of both debts. Otherwise the fixed word of the displaced word's tier
//! takes the debt.
//!
//! So every debt of a key can be found. It is in a word with the key's tag anywhere in the line, in a word of several
//! keys at the key's home, or in the fixed word of the tier. A refusal writes nothing.
//!
//! **Roll-backs.** The receipt of taken tokens names the word and the *generation* of the lock. Two events increment
//! the generation: a word is displaced, or a spend copies a debt that also stays in another word. A receipt of an older
//! generation gives nothing back, because several words may owe its tokens by now. Lowering one of them could forget
//! debts of other keys or of other calls.
//!
//! **Tiers.** A key inherits the debt of a word of another tier only if the word has the key's own tag. So a flood of
//! keys in one tier does not pass its debts to keys of other tiers. Nor does it push out their debts, because a
//! displaced debt moves to another word. All tiers share all lines, so a tier without keys takes no memory but its
//! fixed words.

use super::lines::{MOST_WAYS, SEVERAL, Share, SharedLine, SharedLines, SharedWord};
use super::locks::Counts;
use super::tier_quotas::Tiers;
use crate::limit::{Debt, PerKey};
use crate::quota::Line;
#[cfg(feature = "std")]
use crate::sync::Signal;
use crate::sync::{Guarded, SpinWait};
use crate::time::Clock;

/// The debt of a key without a slot, and the word in which it would spend, as read with the lock held.
#[derive(Clone, Copy)]
pub(super) struct SharedDebt {
    /// The key's debt, as a bucket's word. If the key gets a slot, the slot starts from this word.
    pub(super) of_key: u64,
    /// The bucket's word that a call starts from if the key gets no slot.
    ///
    /// It may owe more than `of_key`, because other keys may owe in the same shared word.
    pub(super) start: u64,
    /// The debt in words that the key shares with other keys, as a bucket's word.
    ///
    /// It owes nothing if a word of the key alone covers that debt. The fixed word of the tier counts as shared.
    of_several: u64,
    tier: usize,
    place: Place,
    /// The tag that the word will have after the key has spent from it.
    tag_after: u64,
    /// Whether a spend begins a new generation of the lock, so that older receipts give nothing back.
    ///
    /// It does if a part of this debt also stays in another word, or if the spend displaces a word.
    is_copied: bool,
}

/// The word in which a key without a slot spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The word with this number in the key's line.
    Way(u8),
    /// The word with this number in the key's line, whose present debt moves elsewhere.
    ///
    /// That debt moves to the home of its own tag.
    Displaced(u8),
    /// The *fixed word* of the key's tier: a word outside the lines that only this tier uses.
    Fixed,
}

/// The shared word from which a call took tokens.
///
/// The counts show whether the word can still be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedOrigin {
    tier: u8,
    place: Place,
    /// The lock's `Counts::generation` before the take: how often its words had copied or moved debts.
    generation: u32,
    /// The lock's `Counts::clears` before the take: how often its words had been cleared.
    pub(super) clears: u32,
}

/// The debts of other tiers than the key's, in the key's line of shared words.
///
/// They are computed before the clock is read for the key's own tier.
#[derive(Clone, Copy)]
pub(super) struct Elsewhere {
    /// The longest debt in words with the key's own tag.
    of_key: Debt,
    /// Which words of other tiers owe something. Bit `n` stands for word `n` of the line.
    busy: u8,
}

impl Elsewhere {
    pub(super) const NOTHING: Self = Self { of_key: Debt::NOTHING, busy: 0 };
}

/// The line of a tier's quota, and the present position on it.
struct Reading<'a, L, C> {
    line: &'a L,
    at: u64,
    clock: &'a C,
}

impl<L, C: Clock> Reading<'_, L, C> {
    /// Returns the bucket's word that a shared word of this tier stores as its level.
    fn full<A: PerKey<Line = L>>(&self, word: SharedWord) -> u64 {
        if word.is_used { A::word(self.line, word.level, self.at, self.clock) } else { A::idle(self.line, self.at) }
    }

    fn owes<A: PerKey<Line = L>>(&self, full: u64) -> bool {
        A::weight(self.line, full, self.at, self.clock) > 0
    }
}

impl SharedLines {
    /// Returns the lock of a key's line. It is also held while a key of this line gets a slot.
    #[inline]
    pub(super) fn lock(&self, share: Share) -> &Guarded<Counts> {
        self.locks.of(Self::group(share))
    }

    /// Returns the signal that is raised when tokens may come earlier for a key of this line.
    #[cfg(feature = "std")]
    #[inline]
    pub(super) fn changes(&self, share: Share) -> &Signal {
        self.locks.changes(Self::group(share))
    }

    /// Raises the signals of all lines. [`changes`](Self::changes) returns the signal of one.
    #[cfg(feature = "std")]
    pub(super) fn raise_all(&self) {
        self.locks.raise_all();
    }

    /// Returns the number of `retier` and `clear_tier` calls for the keys under this line's lock; wraps.
    #[cfg(feature = "alloc")]
    pub(super) fn retiers(&self, share: Share) -> u32 {
        self.locks.retiers(Self::group(share))
    }

    /// Adds one to the count that [`retiers`](Self::retiers) returns.
    #[cfg(feature = "alloc")]
    pub(super) fn count_retier(&self, share: Share) {
        self.locks.count_retier(Self::group(share));
    }

    /// Adds up one of the counts over all locks. The sum wraps.
    pub(super) fn sum(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.locks.sum(of)
    }

    /// Returns whether a key may owe something in shared words. If it is `false`, the key owes nothing there.
    ///
    /// `may_have_word` and `home` are the result of [`glance`](SharedLine::glance) for the key's tag.
    #[inline]
    pub(super) fn may_owe(may_have_word: bool, home: Option<SharedWord>, counts: &Counts) -> bool {
        may_have_word || home.is_some_and(|home| home.tag == SEVERAL) || counts.has_fixed
    }

    /// Returns the debt in a word of another tier.
    #[inline(never)]
    fn owed_in_tier<A: PerKey>(word: SharedWord, tiers: &Tiers, clock: &impl Clock) -> Debt {
        // If no call has used the tier yet, nothing is owed in it. `unsettled_line` does not start the tier's line.
        if !word.is_used || tiers.at(word.tier).1.quota.unsettled_line::<A::Line>(clock).is_some() {
            return Debt::NOTHING;
        }
        let spin_wait = SpinWait::new();
        loop {
            let (quota, (epoch, mut line)) = tiers.read::<A::Line>(word.tier, clock);
            let at = line.reading(clock.now());
            if quota.is_current(epoch) {
                return A::owed(&line, A::word(&line, word.level, at, clock), at, clock);
            }
            spin_wait.spin();
        }
    }

    /// Returns what the words of a key's line owe in other tiers than the key's.
    #[inline]
    pub(super) fn elsewhere<A: PerKey>(
        &self,
        share: Share,
        tier: usize,
        tiers: &Tiers,
        clock: &impl Clock,
    ) -> Elsewhere {
        if tiers.is_one() { Elsewhere::NOTHING } else { self.elsewhere_in_line::<A>(share, tier, tiers, clock) }
    }

    #[inline(never)]
    fn elsewhere_in_line<A: PerKey>(&self, share: Share, tier: usize, tiers: &Tiers, clock: &impl Clock) -> Elsewhere {
        let (line, mut elsewhere) = (self.line(share), Elsewhere::NOTHING);
        for way in 0..line.ways() {
            let word = line.word(way);
            if word.tier != tier {
                let owed = Self::owed_in_tier::<A>(word, tiers, clock);
                elsewhere.busy |= u8::from(owed > Debt::NOTHING) << way;
                if word.tag == share.tag {
                    elsewhere.of_key = elsewhere.of_key.max(owed);
                }
            }
        }
        elsewhere
    }

    /// Returns what a key without a slot may owe, and the shared word in which it would spend.
    ///
    /// `line` and `at` are the line of the key's tier and the present position on it.
    pub(super) fn debt<A: PerKey>(
        &self,
        share: Share,
        tier: usize,
        tiers: &Tiers,
        (line, at): (&A::Line, u64),
        elsewhere: Elsewhere,
        clock: &impl Clock,
    ) -> SharedDebt {
        let now = Reading { line, at, clock };
        let idle = A::idle(line, at);
        let shared = self.line(share);
        let ways = shared.ways();
        let home = shared.home(share.tag);
        // The search starts at the key's home. It finds the busy word with the key's tag, and the first idle word.
        let (mut own, mut vacant) = (None, None);
        for way in (home..ways).chain(0..home) {
            let word = shared.word(way);
            if word.tier != tier && word.is_used {
                if vacant.is_none() && elsewhere.busy >> way & 1 == 0 {
                    vacant = Some(way);
                }
                continue;
            }
            let full = now.full::<A>(word);
            if !now.owes::<A>(full) {
                vacant = vacant.or(Some(way));
            } else if word.tag == share.tag {
                own = Some((way, full));
            }
        }
        let at_home = shared.word(home);
        let full_at_home = if at_home.tier == tier { now.full::<A>(at_home) } else { idle };
        let full_of_several = if at_home.tag == SEVERAL { full_at_home } else { idle };
        let fixed = self.fixed_word(share, tier, tiers);
        let full_fixed = now.full::<A>(fixed);
        let fixed_tag = Self::fixed_tag(share.tag);
        let fixed_of_key = if fixed.tag == fixed_tag || fixed.tag == SEVERAL { full_fixed } else { idle };

        let greater = |one, other| A::greater(line, one, other, at, clock);
        let with_elsewhere = |full| {
            let is_longer = elsewhere.of_key > Debt::NOTHING && elsewhere.of_key > A::owed(line, full, at, clock);
            if is_longer { greater(full, A::owing(line, at, elsewhere.of_key)) } else { full }
        };
        let owes_elsewhere = elsewhere.of_key > Debt::NOTHING;
        if let Some((way, full)) = own {
            let of_key = with_elsewhere(full);
            let (place, tag_after) = (Place::Way(way as u8), share.tag);
            return SharedDebt {
                of_key,
                start: of_key,
                of_several: idle,
                tier,
                place,
                tag_after,
                is_copied: owes_elsewhere,
            };
        }
        let of_several = greater(full_of_several, fixed_of_key);
        let of_key = with_elsewhere(of_several);
        let owes_in_fixed = owes_elsewhere || now.owes::<A>(fixed_of_key);
        if now.owes::<A>(full_of_several) {
            let (place, tag_after) = (Place::Way(home as u8), SEVERAL);
            return SharedDebt { of_key, start: of_key, of_several, tier, place, tag_after, is_copied: owes_in_fixed };
        }
        if let Some(way) = vacant {
            let (place, tag_after) = (Place::Way(way as u8), share.tag);
            return SharedDebt { of_key, start: of_key, of_several, tier, place, tag_after, is_copied: owes_in_fixed };
        }
        if !Self::is_at_home(shared, at_home.tag, home) {
            let (place, tag_after) = (Place::Displaced(home as u8), share.tag);
            return SharedDebt { of_key, start: of_key, of_several, tier, place, tag_after, is_copied: true };
        }
        if at_home.tier == tier {
            let (place, start) = (Place::Way(home as u8), greater(of_key, full_at_home));
            return SharedDebt { of_key, start, of_several, tier, place, tag_after: SEVERAL, is_copied: owes_in_fixed };
        }
        let has_others = now.owes::<A>(full_fixed) && fixed.tag != fixed_tag;
        SharedDebt {
            of_key,
            start: greater(of_key, full_fixed),
            of_several,
            tier,
            place: Place::Fixed,
            tag_after: if has_others { SEVERAL } else { fixed_tag },
            is_copied: owes_elsewhere,
        }
    }

    /// Returns whether a word with this tag is at home if it is word `way` of the line.
    ///
    /// It is at home if the tag chooses this place. A word of several keys is at home anywhere.
    const fn is_at_home(line: SharedLine<'_>, tag: u64, way: usize) -> bool {
        tag == SEVERAL || line.home(tag) == way
    }

    /// Stores `after`, the bucket's word after a call of a key without a slot, and returns the place.
    ///
    /// The caller holds the line's lock.
    pub(super) fn spend<A: PerKey>(
        &self,
        share: Share,
        tiers: &Tiers,
        debt: &SharedDebt,
        after: u64,
        counts: &mut Counts,
        clock: &impl Clock,
    ) -> SharedOrigin {
        let &SharedDebt { tier, place, tag_after, .. } = debt;
        // The number fits, because there are at most 15 tiers.
        let origin = SharedOrigin { tier: tier as u8, place, generation: counts.generation, clears: counts.clears };
        if debt.is_copied {
            counts.generation = counts.generation.wrapping_add(1);
        }
        let word = SharedWord { tag: tag_after, tier, level: after, is_used: true };
        match place {
            Place::Way(way) => self.line(share).put(way.into(), word),
            Place::Displaced(way) => {
                let displaced = self.line(share).word(way.into());
                self.line(share).put(way.into(), word);
                self.bring_home::<A>(share, displaced, tiers, counts, clock);
            }
            Place::Fixed => self.spend_fixed(share, tiers, word, counts),
        }
        origin
    }

    fn spend_fixed(&self, share: Share, tiers: &Tiers, word: SharedWord, counts: &mut Counts) {
        counts.has_fixed = true;
        self.put_fixed(share, tiers, word);
    }

    /// Moves a displaced word to its home, and then each word that such a move displaces.
    ///
    /// The last of these words finds a word at its home that is at home itself. Then its debt is merged into that word,
    /// or into the fixed word of its tier.
    fn bring_home<A: PerKey>(
        &self,
        share: Share,
        mut displaced: SharedWord,
        tiers: &Tiers,
        counts: &mut Counts,
        clock: &impl Clock,
    ) {
        let line = self.line(share);
        // Each step but the last brings one word home, so the loop returns before it reaches its bound.
        for _ in 0..=MOST_WAYS {
            let home = line.home(displaced.tag);
            let there = line.word(home);
            if !Self::is_at_home(line, there.tag, home) {
                line.put(home, displaced);
                displaced = there;
            } else if there.tier == displaced.tier {
                let level = Self::greater_level::<A>(displaced, there, tiers, clock);
                return line.put(home, SharedWord { tag: SEVERAL, level, ..there });
            } else {
                let tag = Self::fixed_tag(displaced.tag);
                let fixed = self.fixed_word(share, displaced.tier, tiers);
                let level = Self::greater_level::<A>(displaced, fixed, tiers, clock);
                let is_of_key = !fixed.is_used || fixed.tag == tag;
                let tag = if is_of_key { tag } else { SEVERAL };
                return self.spend_fixed(share, tiers, SharedWord { tag, level, ..displaced }, counts);
            }
        }
    }

    /// Returns the greater debt of two shared words of one tier, as a level to store.
    fn greater_level<A: PerKey>(one: SharedWord, other: SharedWord, tiers: &Tiers, clock: &impl Clock) -> u64 {
        let spin_wait = SpinWait::new();
        loop {
            let (quota, (epoch, mut line)) = tiers.read::<A::Line>(one.tier, clock);
            let at = line.reading(clock.now());
            if quota.is_current(epoch) {
                let now = Reading { line: &line, at, clock };
                return A::greater(&line, now.full::<A>(one), now.full::<A>(other), at, clock);
            }
            spin_wait.spin();
        }
    }

    /// Calls `decide` with what a key without a slot owes. The caller holds the line's lock.
    ///
    /// `decide` gets the line of the tier's quota, the present position and the debt.
    pub(super) fn visit<A: PerKey, T>(
        &self,
        share: Share,
        tier: usize,
        tiers: &Tiers,
        clock: &impl Clock,
        decide: impl Fn(&A::Line, u64, &SharedDebt) -> T,
    ) -> T {
        let spin_wait = SpinWait::new();
        loop {
            let elsewhere = self.elsewhere::<A>(share, tier, tiers, clock);
            let (quota, (epoch, mut line)) = tiers.read::<A::Line>(tier, clock);
            let at = line.reading(clock.now());
            if quota.is_current(epoch) {
                let debt = self.debt::<A>(share, tier, tiers, (&line, at), elsewhere, clock);
                return decide(&line, at, &debt);
            }
            spin_wait.spin();
        }
    }

    /// Books tokens for a key without a slot, and returns how many. The caller holds the key's lock.
    ///
    /// `charge` gets the line of the tier's quota, the bucket's word and the present position. It returns how many
    /// tokens it books, and the new word.
    pub(super) fn charge<A: PerKey>(
        &self,
        share: Share,
        tier: usize,
        tiers: &Tiers,
        charge: impl Fn(&A::Line, u64, u64) -> (u32, u64),
        counts: &mut Counts,
        clock: &impl Clock,
    ) -> u32 {
        let (booked, after, debt) = self.visit::<A, _>(share, tier, tiers, clock, |line, at, debt| {
            let (booked, after) = charge(line, debt.start, at);
            (booked, after, *debt)
        });
        // Without a limit tokens are booked, but no word changes.
        if after != debt.start {
            self.spend::<A>(share, tiers, &debt, after, counts, clock);
        }
        booked
    }

    /// Returns the word that a receipt names, if it can still be changed.
    fn word_of(
        &self,
        share: Share,
        tiers: &Tiers,
        SharedOrigin { tier, place, generation, clears }: SharedOrigin,
        counts: &Counts,
    ) -> Option<SharedWord> {
        let tier = usize::from(tier);
        // In another generation, several words may owe the tokens. After a clear, no word owes them, and the debt in
        // this word may be another key's.
        if counts.generation != generation || counts.clears != clears {
            return None;
        }
        let (word, tag) = match place {
            Place::Way(way) | Place::Displaced(way) => (self.line(share).word(way.into()), share.tag),
            Place::Fixed => (self.fixed_word(share, tier, tiers), Self::fixed_tag(share.tag)),
        };
        (word.is_used && word.tier == tier && (word.tag == tag || word.tag == SEVERAL)).then_some(word)
    }

    /// Changes the word that a receipt names. The caller holds the line's lock.
    ///
    /// `change` gets the line of the tier's quota, the bucket's word and the present position. It returns the new word.
    /// The method returns `None` if the word cannot be changed any more, or if `change` returns `None`.
    pub(super) fn revise<A: PerKey>(
        &self,
        share: Share,
        tiers: &Tiers,
        origin: SharedOrigin,
        counts: &Counts,
        clock: &impl Clock,
        change: impl Fn(&A::Line, u64, u64) -> Option<u64>,
    ) -> Option<()> {
        let word = self.word_of(share, tiers, origin, counts)?;
        let spin_wait = SpinWait::new();
        let after = loop {
            let (quota, (epoch, mut line)) = tiers.read::<A::Line>(word.tier, clock);
            let at = line.reading(clock.now());
            if quota.is_current(epoch) {
                break change(&line, A::word(&line, word.level, at, clock), at)?;
            }
            spin_wait.spin();
        };
        let word = SharedWord { level: after, ..word };
        match origin.place {
            Place::Way(way) | Place::Displaced(way) => self.line(share).put(way.into(), word),
            Place::Fixed => self.put_fixed(share, tiers, word),
        }
        Some(())
    }

    /// Returns the debt that a key shares with other keys of a tier.
    ///
    /// It is in a word of several keys, or in the tier's fixed word.
    ///
    /// It is called for a key that has a slot and moves to this tier. The caller holds the line's lock. When the key
    /// got its slot, the slot took over the debts under the key's own tag. It did not take over these shared debts,
    /// because the key was not in this tier then.
    pub(super) fn owed_with_others<A: PerKey>(
        &self,
        share: Share,
        tier: usize,
        tiers: &Tiers,
        counts: &Counts,
        clock: &impl Clock,
    ) -> Debt {
        let (may_have_word, home) = self.line(share).glance(share.tag);
        if !Self::may_owe(may_have_word, home, counts) {
            return Debt::NOTHING;
        }
        self.visit::<A, _>(share, tier, tiers, clock, |line, at, debt| A::owed(line, debt.of_several, at, clock))
    }

    /// Returns whether a shared word of any tier owes something.
    ///
    /// `line` and `at` are the line of the tier with the number `tier`, and the present position on it. They save a
    /// second reading of the clock if the word is of that tier.
    #[inline]
    pub(super) fn is_busy<A: PerKey>(
        word: SharedWord,
        tier: usize,
        tiers: &Tiers,
        (line, at): (&A::Line, u64),
        clock: &impl Clock,
    ) -> bool {
        if word.tier == tier {
            A::owes(line, word.level, at, clock)
        } else {
            Self::owed_in_tier::<A>(word, tiers, clock) > Debt::NOTHING
        }
    }

    /// Clears all shared words, so that no debt is left in them.
    pub(super) fn clear_all(&self, tiers: &Tiers) {
        // All groups of a lock are cleared while it is held. If it were released in between, tokens could be spent in a
        // group that is cleared already, and `has_fixed` would be lost.
        let locks = self.locks.len();
        for first in 0..locks.min(self.groups()) {
            self.locks.of(first).write(|counts| {
                counts.clears = counts.clears.wrapping_add(1);
                counts.has_fixed = false;
                (first..self.groups()).step_by(locks).for_each(|group| self.clear(group, tiers));
            });
        }
    }
}
