//! The contents of shared words, as a hash.

use crate::breaker::BreakerConfig;
use crate::digest::Digest;
use crate::quota::Plan;

/// The contents of shared words: the version of the layout, the plans, the settings and the boot.
///
/// Processes that share words build it alike, in the same order. [`Header::attach`](super::Header::attach) refuses words that were created
/// for other contents.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::words::Contents;
/// use damper::{BreakerConfig, Plan, Quota};
///
/// let plan = Plan::new(Quota::per_second(100))?;
/// let contents = Contents::version(1).plan(&plan).number(200).breaker(&BreakerConfig::DEFAULT);
/// assert_ne!(contents, Contents::version(2).plan(&plan).number(200).breaker(&BreakerConfig::DEFAULT));
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct Contents {
    settings: Digest,
    boot: Digest,
}

impl Contents {
    /// Starts the contents of a layout of the program's own version.
    ///
    /// Count it up when a word gets another place or another meaning.
    pub const fn version(version: u32) -> Self {
        Self { settings: Digest::EMPTY.with(version as u64), boot: Digest::EMPTY }
    }

    /// Adds a plan, with its tag.
    pub const fn plan(self, plan: &Plan) -> Self {
        Self { settings: plan.quota().digest(self.settings).with(plan.tag().get() as u64), ..self }
    }

    /// Adds a number that all processes have to agree on.
    ///
    /// Such numbers are the limit of a bulkhead and the number of slots of a table.
    pub const fn number(self, number: u64) -> Self {
        Self { settings: self.settings.with(number), ..self }
    }

    /// Adds the settings of a breaker.
    pub const fn breaker(self, config: &BreakerConfig) -> Self {
        Self { settings: config.digest(self.settings), ..self }
    }

    /// Sets the id of the boot: on Linux the contents of `/proc/sys/kernel/random/boot_id`.
    ///
    /// A clock starts again with each boot, so words of a file that survived a reboot must not be used. Words in memory do not need it.
    pub const fn boot_id(self, id: &[u8]) -> Self {
        let (mut digest, mut index) = (Digest::EMPTY, 0);
        while index < id.len() {
            digest = digest.with(id[index] as u64);
            index += 1;
        }
        Self { boot: digest, ..self }
    }

    /// Returns the hash of the version, the plans and the settings, which is not 0.
    pub(super) const fn settings(self) -> u64 {
        not_zero(self.settings)
    }

    /// Returns the hash of the boot's id, which is not 0.
    pub(super) const fn boot(self) -> u64 {
        not_zero(self.boot)
    }
}

/// Returns a hash that is not 0.
const fn not_zero(digest: Digest) -> u64 {
    let hash = digest.get();
    if hash == 0 { 1 } else { hash }
}
