//! A gate that not every request of a server is asked at.

use crate::Head;
use alloc::sync::Arc;
use core::fmt;
use damper_core::gate::{Answer, AnswerOf, Ask, Forecast, Gate};
use damper_core::internal::WaitFor;

/// Whether a request is exempt.
pub(super) type IsExempt = Arc<dyn Fn(&Head<'_>) -> bool + Send + Sync>;

/// The gate of a server's layer, which exempt requests pass without a permit.
pub struct Exempting<L> {
    pub(super) limit: Arc<L>,
    pub(super) is_exempt: Option<IsExempt>,
}

/// It has no refusal in advance, because the next request may be exempt.
impl<L: Gate> Gate for Exempting<L> {
    type Permit = Option<L::Permit>;
    type Refusal = L::Refusal;
    type Wait = WaitFor<L::Wait, Option<L::Permit>>;
}

impl<'a, L: Ask<Head<'a>>> Ask<Head<'a>> for Exempting<L> {
    #[inline]
    fn ask(&self, head: &Head<'a>) -> AnswerOf<Self> {
        if self.is_exempt.as_ref().is_some_and(|is_exempt| is_exempt(head)) {
            return Answer::Pass(None);
        }
        match self.limit.ask(head) {
            Answer::Pass(permit) => Answer::Pass(Some(permit)),
            Answer::Wait(wait) => Answer::Wait(WaitFor::new(wait)),
            Answer::Refuse(refusal) => Answer::Refuse(refusal),
        }
    }

    fn forecast(&self, head: &Head<'a>) -> Forecast<L::Refusal> {
        if self.is_exempt.as_ref().is_some_and(|is_exempt| is_exempt(head)) {
            return Forecast::Pass(None);
        }
        self.limit.forecast(head)
    }
}

/// Clones share the limit.
impl<L> Clone for Exempting<L> {
    fn clone(&self) -> Self {
        Self { limit: Arc::clone(&self.limit), is_exempt: self.is_exempt.clone() }
    }
}

impl<L: fmt::Debug> fmt::Debug for Exempting<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exempting").field("limit", &self.limit).finish_non_exhaustive()
    }
}
