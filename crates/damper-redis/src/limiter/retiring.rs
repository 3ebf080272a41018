//! The end of a limiter: its last clone is dropped.

use super::shared::Shared;
use super::subject_limit::{InFlight, SubjectLimit};
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Handle;

/// Returns the leases of these limits to the server, and says that this process leaves.
///
/// Pending charges and refunds go along. In a task of its own. Without a runtime it does nothing: leases end by themselves, and pending charges are lost.
pub(crate) fn retire(shared: &Arc<Shared>, limits: Vec<Arc<SubjectLimit>>) {
    let Ok(runtime) = Handle::try_current() else { return };
    if !shared.server.is_connected() {
        return;
    }
    let shared = Arc::clone(shared);
    runtime.spawn(async move {
        for limit in limits {
            if let Some(outgoing) = limit.subject.retire() {
                let until = Instant::now() + shared.server.deadline();
                // A lease that cannot be returned ends by itself.
                _ = shared.send(InFlight::new(&shared, &limit, outgoing), until).await;
            }
        }
        shared.heartbeat.leave(&shared).await;
    });
}
