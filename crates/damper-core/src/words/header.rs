//! The header of words that processes share.
//!
//! The first word says whose header it is, and is written last:
//!
//! ```text
//!  63   16 15     0
//! | MAGIC | VERSION |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | MAGIC | 48 | "damper" |
//! | VERSION | 16 | the version of damper's own layouts |
//!
//! The others are the hash of the plans, the settings and the version of the program's layout (1), the hash of the boot's id (2), the seed of
//! the hash of keys (3 and 4), the reading of the clock at the creation, plus 1 (5), and the ticks of the clock in a second, plus 1 (6). The
//! last is spare.
//!
//! A word of 0 is not written yet, and no field is 0. So a header is created by compare-and-swaps from 0. If two processes create it at once,
//! or one is killed on the way and another goes on, each word keeps its first value, and all of them read the same header.

use super::{AtomicU64, Contents, HeaderError};
use crate::out_of_range::OutOfRange;
use crate::sync::{Field, Ordering};
use crate::time::{Clock, Seed};

/// The first word of a header.
const VERSION: Field = Field::lowest(16);
const MAGIC: Field = VERSION.then(48);
const _: () = assert!(MAGIC.end() == u64::BITS, "fields must tile the word");

/// "damper", as bytes in the order of memory on a little-endian machine.
const DAMPER: u64 = u64::from_le_bytes(*b"damper\0\0");

/// The version of the layouts of `words`. It changes with any of them.
const LAYOUT_VERSION: u64 = 1;

const FIRST: u64 = MAGIC.put(DAMPER) | VERSION.put(LAYOUT_VERSION);

/// The header of words that processes share: what they hold, and the seed of their hash.
///
/// One process [creates](Self::create) it, usually the supervisor before it starts others, and the others [attach](Self::attach).
/// The words have to be 0 before. A header never changes.
///
/// # Memory ordering
///
/// The first word is written last, so a process that attaches sees the whole header, and everything that was done before it was created.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::time::Seed;
/// use damper::words::{AtomicU64, Contents, Header};
/// use damper::{ManualClock, Plan, Quota};
///
/// let words = [const { AtomicU64::new(0) }; 16]; // in the mapping that the processes share
/// let clock = ManualClock::new();
/// let contents = |plan: &Plan| Contents::version(1).plan(plan);
///
/// let plan = Plan::new(Quota::per_second(100))?;
/// Header::create(&words[..8], &contents(&plan), Seed::new(1, 2), &clock)?;
///
/// // A worker of the same program attaches, and one of another release is refused.
/// assert!(Header::attach(&words[..8], &contents(&plan), &clock).is_ok());
/// let other = Plan::new(Quota::per_second(200))?;
/// let refused = Header::attach(&words[..8], &contents(&other), &clock).unwrap_err();
/// assert!(refused.to_string().starts_with("the plans or settings of the words differ, found 0x"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Header {
    seed: Seed,
    created_at: u64,
}

impl Header {
    /// The number of words of a header.
    pub const WORDS: usize = 8;

    /// Creates the header, unless it exists, and attaches to it.
    ///
    /// The seed is drawn by the caller, because a client that knows it can choose keys that crowd one another out. The first process decides.
    ///
    /// # Errors
    ///
    /// [`HeaderError`] if there are fewer than 8 words, or if the header exists and differs.
    pub fn create(
        words: &[AtomicU64],
        contents: &Contents,
        seed: Seed,
        clock: &impl Clock,
    ) -> Result<Self, HeaderError> {
        let header = header_of(words)?;
        // ORDERING: Relaxed here and in the swaps of `write_once`, because the first word publishes the others.
        if header[0].load(Ordering::Relaxed) == 0 {
            let [first, second] = seed.numbers();
            let fields = [contents.settings(), contents.boot(), first | 1, second | 1, plus_one(clock.now())];
            for (word, field) in header[1..].iter().zip(fields.into_iter().chain([plus_one(clock.frequency())])) {
                write_once(word, field, Ordering::Relaxed);
            }
            // ORDERING: Release pairs with the Acquire in `attach`. A word that another process wrote was read by the failed swap, so it is
            // published too. loom-tests: words::header_is_whole_or_absent.
            write_once(&header[0], FIRST, Ordering::Release);
        }
        Self::attach(words, contents, clock)
    }

    /// Attaches to a header that was created.
    ///
    /// # Errors
    ///
    /// [`HeaderError`] if there are fewer than 8 words, if the header was not created yet, if it was created for another layout, other plans or
    /// settings, another boot or another clock, or if the clock reads a time before the header was created.
    pub fn attach(words: &[AtomicU64], contents: &Contents, clock: &impl Clock) -> Result<Self, HeaderError> {
        let header = header_of(words)?;
        // ORDERING: Acquire pairs with the Release in `create`. loom-tests: words::header_is_whole_or_absent.
        let first = header[0].load(Ordering::Acquire);
        if first == 0 {
            return Err(HeaderError::NotCreated);
        }
        // ORDERING: Relaxed, after the Acquire above.
        let field = |index: usize| header[index].load(Ordering::Relaxed);
        same(MAGIC.get(first), DAMPER, |found, expected| HeaderError::NoHeader { found, expected })?;
        same(VERSION.get(first), LAYOUT_VERSION, |found, expected| HeaderError::LayoutVersion { found, expected })?;
        same(field(1), contents.settings(), |found, expected| HeaderError::Contents { found, expected })?;
        same(field(2), contents.boot(), |found, expected| HeaderError::Boot { found, expected })?;
        let as_ticks = |stored: u64| stored.wrapping_sub(1);
        let frequency = as_ticks(plus_one(clock.frequency()));
        same(as_ticks(field(6)), frequency, |found, expected| HeaderError::Frequency { found, expected })?;
        let (created_at, now) = (as_ticks(field(5)), clock.now());
        if now.saturating_add(clock.max_step_back()) < created_at {
            return Err(HeaderError::BeforeCreation { created_at, now });
        }
        Ok(Self { seed: Seed::new(field(3), field(4)), created_at })
    }

    /// Returns the seed of the hash of keys, which all processes share.
    #[must_use]
    pub const fn seed(&self) -> Seed {
        self.seed
    }

    /// Returns the reading of the clock at which the header was created, in ticks.
    #[must_use]
    pub const fn created_at(&self) -> u64 {
        self.created_at
    }
}

/// Returns the words of the header.
fn header_of(words: &[AtomicU64]) -> Result<&[AtomicU64; Header::WORDS], HeaderError> {
    words.first_chunk().ok_or_else(|| {
        let least = Header::WORDS as u64;
        match OutOfRange::check_count("words", words.len() as u64, least..=u64::MAX) {
            Err(error) => HeaderError::TooShort(error),
            Ok(()) => HeaderError::NotCreated,
        }
    })
}

/// Checks that a number in the header is the expected one.
fn same(found: u64, expected: u64, error: impl FnOnce(u64, u64) -> HeaderError) -> Result<(), HeaderError> {
    if found == expected { Ok(()) } else { Err(error(found, expected)) }
}

/// Writes a word that is 0.
fn write_once(word: &AtomicU64, field: u64, order: Ordering) {
    // On failure another process wrote the word. ORDERING: as the caller says; Relaxed on failure, which coherence makes enough.
    _ = word.compare_exchange(0, field, order, Ordering::Relaxed);
}

/// Returns a number of ticks plus 1, which is not 0.
const fn plus_one(ticks: u64) -> u64 {
    if ticks == u64::MAX { ticks } else { ticks + 1 }
}
