//! The debts of keys without a slot: in which shared word a key spends, and what it owes already.
//!
//! [`table`](super#terms) defines the terms.
//!
//! There are many words, because a newcomer inherits what its word owes. With a single word, when one key in a thousand
//! found no slot, nine of ten innocent clients were seen to be refused. Each newcomer started with the word's debt, so
//! its slot stayed busy longer, and more keys found no slot.
//!
//! The words stand in lines of memory, which [`lines`](super::lines) draws. A key's hash chooses its line and its
//! *tag*, which names the key in a word. The tag chooses the key's *home*: one word of the line. A word is *busy* while
//! it owes something. A word is *at home* if it stands at the home of its tag. A word from which several keys spent has
//! the tag 0, and always counts as at home. Each tier also has a *fixed word* beside each group of four lines.
//!
//! # The debt of a key in a tier
//!
//! 1. A busy word of the key's tag and tier covers all that the key owes in this tier.
//! 2. Without such a word, the debt is the greater of two. One is that of the word at the key's home, if several keys
//!    of its tier spent from it. The other is that of the tier's fixed word, if several keys spent from it or it has
//!    the key's tag.
//! 3. Busy words of the key's tag in other tiers count too, by the time that they take to be repaid.
//!
//! A newcomer that gets a slot starts from that debt. The words in the line stay, and their debts run out with time.
//!
//! # Where a key without a slot spends
//!
//! It spends in the first of these words that exists:
//!
//! | word | starts from | tag afterwards |
//! |---|---|---|
//! | the busy word of its tag and tier | what the key owes | its own |
//! | the busy word of several keys of its tier at its home | what the key owes | several |
//! | an idle word, the one at its home first | what the key owes | its own |
//! | the word at its home, if this word is of its tier and at home | the greater of both debts | several |
//! | the fixed word of its tier, if the word at its home is at home | the greater of both debts | its own, or several |
//! | the word at its home, which is *displaced* | what the key owes | its own |
//!
//! A displaced word goes to its own home. If a word stands there that is not at home, it is displaced in turn, and so
//! on. Each step brings a word home, so there are at most as many steps as words, in one cache line. The last displaced
//! word finds a word that is at home. If both are of one tier, they become one word of several keys, which owes the
//! greater of both debts. Otherwise the fixed word of the displaced word's tier takes the debt. A refusal writes
//! nothing.
//!
//! So the debt of a key is always found: under its own tag anywhere in the line, under several keys at its home, or
//! in the fixed word of its tier.
//!
//! **Roll-backs.** The receipt of taken tokens names the word and the *generation* of the lock. The generation is
//! incremented when a word is displaced, and when a spend copies a debt that stays in another word too. A receipt of an
//! older generation gives nothing back, because its tokens may be owed in several words by now. Lowering one of these
//! could forget debts of other keys or of other calls.
//!
//! **Tiers.** A flood of keys in one tier neither pushes out the debts of another tier nor inherits them, because a
//! word of another tier counts only if it has the key's own tag. All tiers share all lines, so a tier that no key is in
//! takes nothing but its fixed words.

use super::lines::{MOST_WAYS, SEVERAL, Share, SharedLine, SharedLines, SharedWord};
use super::locks::Counts;
use super::tier_quotas::Tiers;
use crate::limit::{Debt, PerKey};
use crate::quota::Line;
#[cfg(feature = "std")]
use crate::sync::Signal;
use crate::sync::{Guarded, SpinWait};
use crate::time::Clock;

/// The debt of a key without a slot, seen with the lock held.
#[derive(Clone, Copy)]
pub(super) struct SharedDebt {
    /// The bucket's word from which a newcomer that gets a slot starts.
    pub(super) of_key: u64,
    /// The bucket's word from which a call of a key without a slot starts.
    pub(super) start: u64,
    /// The bucket's word for the debt that the key shares with others, in words of several keys.
    ///
    /// It is idle if the key's own word covers that debt. The fixed word counts as a word of several keys.
    of_several: u64,
    tier: usize,
    place: Place,
    /// The tag that the word will have after the key has spent from it.
    tag_after: u64,
    /// Whether a spend begins a new generation of the lock.
    ///
    /// It does if another word owes a part of this debt too, or if a word is displaced.
    is_copied: bool,
}

/// The word in which a key without a slot spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// This word of its line.
    Way(u8),
    /// This word of its line. The debt that is there now moves to the home of its own tag.
    Displaced(u8),
    /// The fixed word of its tier.
    Fixed,
}

/// The shared word from which tokens were taken, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedOrigin {
    tier: u8,
    place: Place,
    /// The generation of the lock before the take.
    generation: u32,
    /// How often the words had been cleared before the take.
    pub(super) clears: u32,
}

/// The debts in a line of shared words that are of other tiers than the key's.
///
/// They are computed before the clock is read for the key's own tier.
#[derive(Clone, Copy)]
pub(super) struct Elsewhere {
    /// The longest debt under the key's own tag.
    of_key: Debt,
    /// Which words of other tiers are busy: a bit for each word of the line.
    busy: u8,
}

impl Elsewhere {
    pub(super) const NOTHING: Self = Self { of_key: Debt::NOTHING, busy: 0 };
}

/// The line of a tier's quota, and a reading of the clock on it.
struct Reading<'a, L, C> {
    line: &'a L,
    at: u64,
    clock: &'a C,
}

impl<L, C: Clock> Reading<'_, L, C> {
    /// Decodes the level of a shared word of this tier to the word of a bucket.
    fn full<A: PerKey<Line = L>>(&self, word: SharedWord) -> u64 {
        if word.is_used { A::word(self.line, word.level, self.at, self.clock) } else { A::idle(self.line, self.at) }
    }

    fn owes<A: PerKey<Line = L>>(&self, full: u64) -> bool {
        A::weight(self.line, full, self.at, self.clock) > 0
    }
}

impl SharedLines {
    /// Returns the lock of a key's line, which is also held while a key of this line is first seen.
    #[inline]
    pub(super) fn lock(&self, share: Share) -> &Guarded<Counts> {
        self.locks.of(Self::group(share))
    }

    /// Returns the signal that is raised when tokens of a key in this line may come earlier.
    #[cfg(feature = "std")]
    #[inline]
    pub(super) fn changes(&self, share: Share) -> &Signal {
        self.locks.changes(Self::group(share))
    }

    /// Raises the signals of all lines, which [`changes`](Self::changes) returns.
    #[cfg(feature = "std")]
    pub(super) fn raise_all(&self) {
        self.locks.raise_all();
    }

    /// Returns how many calls of `retier` and `clear_tier` there were for keys under this line's lock.
    #[cfg(feature = "alloc")]
    pub(super) fn retiers(&self, share: Share) -> u32 {
        self.locks.retiers(Self::group(share))
    }

    /// Adds one to [`retiers`](Self::retiers).
    #[cfg(feature = "alloc")]
    pub(super) fn count_retier(&self, share: Share) {
        self.locks.count_retier(Self::group(share));
    }

    /// Adds up one of the counts over all locks.
    pub(super) fn sum(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.locks.sum(of)
    }

    /// Returns whether a key may owe something, judged by the result of [`glance`](SharedLine::glance).
    #[inline]
    pub(super) fn may_owe(may_have_word: bool, home: Option<SharedWord>, counts: &Counts) -> bool {
        may_have_word || home.is_some_and(|home| home.tag == SEVERAL) || counts.has_fixed
    }

    /// Returns the debt in a word of another tier.
    #[inline(never)]
    fn owed_in_tier<A: PerKey>(word: SharedWord, tiers: &Tiers, clock: &impl Clock) -> Debt {
        // If no call has used the tier yet, nothing is owed in it. This look does not start the tier's line.
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

    /// Returns the debts of other tiers in a key's line.
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

    /// Returns what a key without a slot may owe, and the word in which it would spend.
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
        // The search starts at the key's home. It finds the key's own word, and the first idle word.
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

    /// Returns whether a word with this tag, which stands at `way`, is at home.
    const fn is_at_home(line: SharedLine<'_>, tag: u64, way: usize) -> bool {
        tag == SEVERAL || line.home(tag) == way
    }

    /// Stores the bucket's word after a call of a key without a slot, and returns where.
    ///
    /// It is called with the line's lock held.
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

    /// Puts a displaced word at its home, and each word that this displaces at its own home.
    fn bring_home<A: PerKey>(
        &self,
        share: Share,
        mut displaced: SharedWord,
        tiers: &Tiers,
        counts: &mut Counts,
        clock: &impl Clock,
    ) {
        let line = self.line(share);
        // Each step brings one word home, so the loop ends before its bound.
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

    /// Returns the greater debt of two words of one tier, as a level.
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

    /// Books tokens by `charge` for a key without a slot, whose lock is held, and returns how many.
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
        if booked > 0 {
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
        // In another generation the tokens may be owed in several words. After a clear they are no longer owed, and
        // what the word owes may be another key's.
        if counts.generation != generation || counts.clears != clears {
            return None;
        }
        let (word, tag) = match place {
            Place::Way(way) | Place::Displaced(way) => (self.line(share).word(way.into()), share.tag),
            Place::Fixed => (self.fixed_word(share, tier, tiers), Self::fixed_tag(share.tag)),
        };
        (word.is_used && word.tier == tier && (word.tag == tag || word.tag == SEVERAL)).then_some(word)
    }

    /// Changes the word that a receipt names; `None` if the word cannot be changed any more.
    ///
    /// It is called with the line's lock held. `change` gets the tier's line, the bucket's word and the present
    /// position. It returns the new word.
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

    /// Returns what a key owes together with others: in a word of several keys and in a tier's fixed word.
    ///
    /// It is called with the line's lock held, for a key that has a slot and moves to this tier. When the key got its
    /// slot, it took along the debts under its own tag. It left these, because it was not in this tier then.
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

    /// Returns whether a word of any tier owes something. `line` and `at` are those of the tier `tier`.
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

    /// Forgets what is owed in all words.
    pub(super) fn clear_all(&self, tiers: &Tiers) {
        for group in 0..self.groups() {
            self.locks.of(group).write(|counts| {
                counts.clears = counts.clears.wrapping_add(1);
                counts.has_fixed = false;
                self.clear(group, tiers);
            });
        }
    }
}
