//! How many tokens a request costs.

/// Returns how many tokens a request costs.
///
/// Every closure with this argument implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what a `{R}` costs",
    note = "a closure has the form `|request: &{R}| -> u32`"
)]
pub trait RequestCost<R> {
    /// Returns the cost of a request, in tokens.
    fn cost(&self, request: &R) -> u32;
}

impl<R, F: Fn(&R) -> u32> RequestCost<R> for F {
    #[inline]
    fn cost(&self, request: &R) -> u32 {
        self(request)
    }
}

/// Every request costs one token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OneToken;

impl<R> RequestCost<R> for OneToken {
    #[inline]
    fn cost(&self, _: &R) -> u32 {
        1
    }
}
