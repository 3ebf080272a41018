//! A log of decisions, to compute what another quota would have refused: [`DecisionLog`].

// | file | idea |
// |---|---|
// | here | `DecisionLog`: the bounded log and its writers |
// | `decision` | one decision, and its text form |
// | `entry` | the three words of an entry, each of which says to which decision it belongs |
// | `time_unit` | the unit of an entry's time |
// | `reader` | its readers |
// | `logged` | limiters whose decisions are logged |

mod decision;
mod entry;
mod logged;
mod reader;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod time_unit;

pub use decision::Decision;
pub use logged::Logged;
pub use reader::DecisionReader;

use crate::sync::{AtomicU64, LazyWords, Ordering, const_unless_loom};
use crate::time::{Clock, DefaultClock};
use core::fmt;
use entry::{Entry, NEVER_WRITTEN, Readout, WORDS};
use time_unit::LazyTimeUnit;

/// The most entries: 2^24, in 384 MiB.
const MOST_ENTRIES: u32 = 1 << 24;

/// The last decisions of limiters: a ring that any number of threads write without waiting.
///
/// An entry is the time, the hash of the key, the cost and the answer. A day of traffic can be replayed from them under another quota: `damper-sim replay LOGFILE --refuse-at-most 0.1%` prints the smallest quota that would have refused under 0.1 % of it.
///
/// By default a limiter writes no log. [`Logged`] wraps a limiter that does, and damper's rate limit layers for HTTP have
/// `decision_log`. Several may share a log; they should then be limiters of different keys, because an entry does not say whose it is.
///
/// # Reading
///
/// [`reader`](Self::reader) returns the entries from the oldest that is still there. Readers change nothing, and any number of them may read while
/// threads write. An entry that is overwritten before a reader comes to it is lost, and counted by the reader. So is an entry
/// whose writer has not written all of it, because it was stopped in the middle or is just writing: readers do not wait for it.
///
/// # Cost
///
/// To write an entry takes one `fetch_add`, which all writers of a log share, three plain stores, and one reading of the log's clock. For
/// a limiter that many cores use at once, mind the shared count.
///
/// The memory, 24 bytes an entry, is allocated when the first one is written.
///
/// # Memory ordering
///
/// Rely on none: an entry is not meant to publish the memory of other threads.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::decision_log::{DecisionLog, Logged};
/// use damper::{KeyedLimiter, Quota};
///
/// static LOG: DecisionLog = DecisionLog::new(65_536); // the last 65,536 decisions, in 1.5 MiB
///
/// let limits = Logged::new(KeyedLimiter::<str>::builder(Quota::per_second(50)).build()?, &LOG);
/// assert!(limits.check("alice").is_ok());
/// assert!(limits.check_n("bob", 51).is_err());
///
/// // In a task of its own, every few seconds:
/// let mut reader = LOG.reader();
/// let mut file = Vec::new();
/// reader.write_to(&mut file)?;
/// assert_eq!(String::from_utf8(file)?.lines().count(), 2);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DecisionLog<C = DefaultClock> {
    /// The number of the next decision. The first one is the number of entries, so that its lap is 1.
    head: AtomicU64,
    /// The number of entries, a power of two, less one.
    mask: u32,
    /// How many bits the mask has.
    bits: u32,
    unit: LazyTimeUnit,
    words: LazyWords,
    clock: C,
}

#[cfg(feature = "std")]
impl DecisionLog {
    const_unless_loom! {
        /// Creates a log of the last `entries` decisions, on the [default clock](DefaultClock).
        ///
        /// The number is rounded up to a power of two. More than 2^24 are 2^24, and none is one.
        #[must_use]
        pub const fn new(entries: u32) -> Self {
            Self::with_clock(entries, crate::time::Monotonic)
        }
    }
}

impl<C> DecisionLog<C> {
    const_unless_loom! {
        /// Creates a log as [`new`](DecisionLog::new) does, on a clock of your own. A reference to a clock is a clock too.
        #[must_use]
        pub const fn with_clock(entries: u32, clock: C) -> Self {
            let entries = if entries < MOST_ENTRIES { entries.next_power_of_two() } else { MOST_ENTRIES };
            Self {
                head: AtomicU64::new(entries as u64),
                mask: entries - 1,
                bits: entries.trailing_zeros(),
                unit: LazyTimeUnit::new(),
                words: LazyWords::new(entries * WORDS as u32, NEVER_WRITTEN),
                clock,
            }
        }
    }

    /// Returns how many decisions it has room for.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.mask + 1
    }

    /// Returns how many decisions were written so far, overwritten ones included.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.next_number().wrapping_sub(self.first_number())
    }

    /// Returns a reader, which begins with the oldest decision that is still there.
    #[must_use]
    pub fn reader(&self) -> DecisionReader<'_, C> {
        DecisionReader::new(self)
    }

    /// Returns a reader that leaves out the first `written` decisions.
    ///
    /// That is the number that [`written`](Self::written) returned when another reader ended.
    /// A number above that of the decisions written so far is that number.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::ManualClock;
    /// use damper::decision_log::DecisionLog;
    ///
    /// let log = DecisionLog::with_clock(8, ManualClock::new());
    /// log.record(0, 1, &Ok::<_, ()>(()));
    /// let seen = log.written();
    /// log.record(0, 2, &Ok::<_, ()>(()));
    /// assert_eq!(log.reader_after(seen).map(|decision| decision.cost).collect::<Vec<_>>(), [2]);
    /// ```
    #[must_use]
    pub fn reader_after(&self, written: u64) -> DecisionReader<'_, C> {
        DecisionReader::beginning_at(self, self.first_number().wrapping_add(written.min(self.written())))
    }

    /// The number of the first decision.
    const fn first_number(&self) -> u64 {
        self.mask as u64 + 1
    }

    /// Returns the number of the next decision.
    #[inline]
    fn next_number(&self) -> u64 {
        // ORDERING: Relaxed: a count, through which nothing is published.
        self.head.load(Ordering::Relaxed)
    }

    /// Takes the number of the next decision.
    #[inline]
    fn take_number(&self) -> u64 {
        // ORDERING: Relaxed: it only gives each decision a number of its own. loom-tests: decision_log::entry_is_read_whole.
        self.head.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the words of the decision of this number, if the log has been used.
    #[inline]
    fn words(&self, number: u64) -> Option<&[AtomicU64; WORDS]> {
        self.entry(self.words.existing()?, number)
    }

    /// Returns the words of the decision of this number. The first call makes the words of the log.
    #[cold]
    fn words_at_first_use(&self, number: u64) -> Option<&[AtomicU64; WORDS]> {
        self.entry(self.words.get(self.capacity() * WORDS as u32, NEVER_WRITTEN), number)
    }

    #[inline]
    fn entry<'a>(&self, words: &'a [AtomicU64], number: u64) -> Option<&'a [AtomicU64; WORDS]> {
        // At most 2^24.
        let place = (number & u64::from(self.mask)) as usize * WORDS;
        words.get(place..place + WORDS)?.first_chunk()
    }

    #[inline]
    const fn lap(&self, number: u64) -> u64 {
        number >> self.bits
    }
}

impl<C: Clock> DecisionLog<C> {
    /// Writes the decision on a call: the hash of its key, its cost, and its answer.
    ///
    /// For limiters of your own. An `Err` is a refusal. The lowest 48 bits of the hash are kept. The time is that of this call.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::decision_log::DecisionLog;
    /// use damper::{ManualClock, Quota, RateLimiter};
    ///
    /// let clock = ManualClock::new();
    /// let log = DecisionLog::with_clock(1_024, &clock);
    /// let limiter = RateLimiter::with_clock(Quota::per_second(2), &clock);
    /// let answer = limiter.check_n(3);
    /// log.record(7, 3, &answer);
    /// let decision = log.reader().next().unwrap();
    /// assert_eq!((decision.key, decision.cost, decision.is_allowed), (7, 3, false));
    /// ```
    #[inline]
    pub fn record<T, E>(&self, key: u64, cost: u32, answer: &Result<T, E>) {
        let (units, is_refused) = (self.unit.now(&self.clock), answer.is_err());
        let number = self.take_number();
        match self.words(number) {
            Some(words) => entry::write(words, self.lap(number), Entry { units, key, cost, is_refused }),
            None => self.write_at_first_use(number, units, key, cost, is_refused),
        }
    }

    /// Takes the parts of the entry, which fit into registers, so that the caller needs no memory for them.
    #[cold]
    #[inline(never)]
    fn write_at_first_use(&self, number: u64, units: u64, key: u64, cost: u32, is_refused: bool) {
        if let Some(words) = self.words_at_first_use(number) {
            entry::write(words, self.lap(number), Entry { units, key, cost, is_refused });
        }
    }

    /// Reads the decision of this number.
    fn read(&self, number: u64) -> Readout<Decision> {
        let Some(words) = self.words(number) else { return Readout::Unfinished };
        entry::read(words, self.lap(number)).map(|Entry { units, key, cost, is_refused }| {
            let at = self.unit.duration(units, &self.clock);
            Decision { at, key, cost, is_allowed: !is_refused }
        })
    }
}

impl<C: fmt::Debug> fmt::Debug for DecisionLog<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecisionLog")
            .field("capacity", &self.capacity())
            .field("written", &self.written())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
