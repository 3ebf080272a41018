//! Subscribers of tests that read logs, in a binary with tests that have none.

use std::sync::LazyLock;
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;

/// Registers two subscribers that stay until the process ends. Tests that read logs call it first.
///
/// tracing caches for each callsite whether a subscriber wants it. If the process has one subscriber, it asks that of the thread that comes
/// to the callsite first, and this thread may run a test without one. If there are more, it asks all of them.
pub(crate) fn register_two() {
    static KEPT: LazyLock<[Dispatch; 2]> = LazyLock::new(|| [(); 2].map(|()| Dispatch::new(NoSubscriber::new())));
    LazyLock::force(&KEPT);
}
