//! Sleeps that block.

use core::fmt;
use core::future::{Ready, ready};
use core::time::Duration;
use damper_core::time::Sleep;

/// Sleeps by a function that returns when the time is over, such as `std::thread::sleep`.
///
/// With it readers and writers are those of `std::io` and of `embedded-io`, which block.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "std")] {
/// use damper_core::{Quota, RateLimiter};
/// use damper_io::{BlockingSleep, BytePacer, PacedReader};
/// use std::{fs::File, io, sync::Arc, thread};
///
/// fn back_up(file: File, remote: &mut impl io::Write) -> io::Result<u64> {
///     let limit = Arc::new(RateLimiter::new(Quota::per_second(5_000_000)));
///     let mut file = PacedReader::sleeping_by(file, BytePacer::new(limit), BlockingSleep(thread::sleep));
///     io::copy(&mut file, remote)
/// }
/// # }
/// ```
#[derive(Clone, Copy, Default)]
pub struct BlockingSleep<F>(
    /// The function, from a duration to nothing.
    pub F,
);

impl<F: Fn(Duration)> Sleep for BlockingSleep<F> {
    type Sleeping = Ready<()>;

    fn sleep(&self, duration: Duration) -> Ready<()> {
        (self.0)(duration);
        ready(())
    }
}

impl<F> fmt::Debug for BlockingSleep<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingSleep").finish_non_exhaustive()
    }
}
