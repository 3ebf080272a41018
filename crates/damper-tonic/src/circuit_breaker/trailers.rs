//! What comes after the last message.

use super::code::verdict_in;
use core::fmt;
use damper_core::breaker::Verdict;
use damper_http::{BodyEnd, Ending};
use tonic::Code;

/// The verdict falls by the status among the trailers; without one, it is a failure.
#[derive(Clone, Copy)]
pub struct Trailers<V> {
    classify: V,
}

impl<V> Trailers<V> {
    pub(super) fn new(classify: V) -> Self {
        Self { classify }
    }
}

impl<V: Fn(Code) -> Verdict> Ending for Trailers<V> {
    fn verdict(self, end: BodyEnd<'_>) -> Verdict {
        match end {
            BodyEnd::Trailers(trailers) => verdict_in(trailers, &self.classify).unwrap_or(Verdict::Failure),
            BodyEnd::Plain | BodyEnd::Error => Verdict::Failure,
        }
    }
}

impl<V> fmt::Debug for Trailers<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trailers").finish_non_exhaustive()
    }
}
