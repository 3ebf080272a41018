//! The verdict at the end of a stream.

use super::verdict::verdict_in;
use core::fmt;
use damper_core::breaker::Verdict;
use damper_http::{BodyEnd, ClassifyEnd};
use tonic::Code;

/// Returns the verdict on the status in the trailers, or a failure if there is none.
#[derive(Clone, Copy)]
pub struct Trailers<V> {
    classify: V,
}

impl<V> Trailers<V> {
    pub(super) fn new(classify: V) -> Self {
        Self { classify }
    }
}

impl<V: Fn(Code) -> Verdict> ClassifyEnd for Trailers<V> {
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
