//! The seam between gates and their layers.

use crate::Head;

/// Counts and logs the decisions of a layer, whose gate refuses by an `N`.
pub trait Observe<N> {
    /// Records that a request has its permit.
    fn allowed(&self);

    /// Records that a request was refused.
    fn refused(&self, head: &Head<'_>, refusal: &N);
}

/// It records nothing. A gate may count its own decisions.
impl<N> Observe<N> for () {
    #[inline]
    fn allowed(&self) {}

    fn refused(&self, _: &Head<'_>, _: &N) {}
}
