//! Which words of the shared memory are which limit.

use damper_core::quota::Quota;
use damper_core::words::{Contents, Header};
use damper_core::{OutOfRange, Plan};
use std::fs;
use std::io;

/// The limit of each client.
pub(crate) const CLIENT: Quota = Quota::per_second(100).burst(50);
/// The limit of all logins.
pub(crate) const LOGINS: Quota = Quota::per_hour(60).burst(40);
/// How many requests may hold a slot at once.
pub(crate) const SLOTS: u8 = 8;

/// The word of the limit of logins.
pub(crate) const LOGIN_WORD: usize = Header::WORDS;
/// The word of the bulkhead.
pub(crate) const SLOT_WORD: usize = LOGIN_WORD + 1;
/// The first word of the table of clients.
pub(crate) const FIRST_CLIENT: usize = 64;
/// The words of the table: 8, and one for each key.
pub(crate) const CLIENTS: usize = 8 + 4096;
/// All words.
pub(crate) const WORDS: usize = FIRST_CLIENT + CLIENTS;

/// The plans of the limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plans {
    pub(crate) client: Plan,
    pub(crate) logins: Plan,
}

impl Plans {
    pub(crate) fn new() -> Result<Self, OutOfRange> {
        Ok(Self { client: Plan::new(CLIENT)?, logins: Plan::new(LOGINS)? })
    }

    /// Returns the contents of the words.
    ///
    /// A program with other plans or places refuses words with these contents, and so does another boot.
    pub(crate) fn contents(&self) -> io::Result<Contents> {
        let boot = fs::read("/proc/sys/kernel/random/boot_id")?;
        let places = [LOGIN_WORD, SLOT_WORD, FIRST_CLIENT, CLIENTS, SLOTS.into()];
        let contents = Contents::version(1).plan(&self.client).plan(&self.logins).boot_id(&boot);
        Ok(places.into_iter().fold(contents, |contents, place| contents.number(place as u64)))
    }
}
