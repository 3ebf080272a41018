//! The limits of the server, on the shared words.

use crate::layout::{FIRST_CLIENT, LOGIN_WORD, Plans, SLOT_WORD, SLOTS, WORDS};
use damper_core::limit::Denied;
use damper_core::time::{HostMonotonic, Seed};
use damper_core::words::{AtomicU64, Header, Seat, WordBulkhead, WordLimiter, WordPermit, WordTable};
use damper_shm::SharedWords;
use std::error::Error;
use std::net::IpAddr;

/// The clock of all limits, which reads the same in all processes.
const CLOCK: HostMonotonic = HostMonotonic::PRECISE;

/// A slot of the bulkhead.
pub(crate) type Permit = WordPermit<'static>;

/// The limits as a worker uses them.
pub(crate) struct Limits {
    clients: WordTable<'static, IpAddr, HostMonotonic>,
    slots: WordBulkhead<'static>,
    logins: WordLimiter<'static, HostMonotonic>,
}

impl Limits {
    /// Checks that the words are those of this version of the program, and attaches the limits to them.
    pub(crate) fn attach(words: &'static [AtomicU64], seat: Seat) -> Result<Self, Box<dyn Error>> {
        let plans = Plans::new()?;
        let header = Header::attach(&words[..Header::WORDS], &plans.contents()?, &CLOCK)?;
        Ok(Self {
            clients: WordTable::new(&words[FIRST_CLIENT..], plans.client, CLOCK, header.seed())?,
            slots: WordBulkhead::new(&words[SLOT_WORD], SLOTS, seat),
            logins: WordLimiter::new(&words[LOGIN_WORD], plans.logins, CLOCK),
        })
    }

    /// Takes a token of a client.
    pub(crate) fn client(&self, client: IpAddr) -> Result<(), Denied> {
        self.clients.check(&client).map(|_| ())
    }

    /// Takes a slot of the bulkhead.
    pub(crate) fn enter(&self) -> Option<Permit> {
        self.slots.enter().ok()
    }

    /// Takes a token of the limit of logins.
    pub(crate) fn login(&self) -> Result<(), Denied> {
        self.logins.check().map(|_| ())
    }
}

/// The words as the supervisor has them.
pub(crate) struct Shared {
    words: SharedWords,
    plans: Plans,
}

impl Shared {
    /// Creates the words and writes their header.
    pub(crate) fn create() -> Result<Self, Box<dyn Error>> {
        let (words, plans) = (SharedWords::create("prefork", WORDS)?, Plans::new()?);
        Header::create(&words.words()[..Header::WORDS], &plans.contents()?, Seed::random(), &CLOCK)?;
        Ok(Self { words, plans })
    }

    pub(crate) fn words(&self) -> &SharedWords {
        &self.words
    }

    /// Returns the word of the bulkhead, in which slots of dead workers are freed.
    pub(crate) fn slots(&self) -> &AtomicU64 {
        &self.words.words()[SLOT_WORD]
    }

    /// Returns how many logins are left.
    pub(crate) fn logins_left(&self) -> u32 {
        WordLimiter::new(&self.words.words()[LOGIN_WORD], self.plans.logins, CLOCK).peek().remaining()
    }
}
