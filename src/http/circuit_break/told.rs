//! Who is told of the changes of a breaker that a layer made.

use crate::breaker::{OnStateChange, StateChange};
use alloc::sync::Arc;
use core::fmt;

/// A function that is told of changes, and of which host's breaker.
pub(super) type Hook = Arc<dyn Fn(StateChange, &str) + Send + Sync>;

/// Tells of the changes of a breaker, with the host that it stands before.
pub struct Told {
    host: Arc<str>,
    hook: Option<Hook>,
}

impl Told {
    pub(super) fn new(host: &str, hook: Option<Hook>) -> Self {
        Self { host: host.into(), hook }
    }
}

impl OnStateChange for Told {
    fn on_state_change(&self, change: StateChange) {
        if let Some(hook) = &self.hook {
            hook(change, &self.host);
        }
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").field("host", &self.host).finish_non_exhaustive()
    }
}
