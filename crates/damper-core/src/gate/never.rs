//! The wait of a gate at which no call waits.

use core::convert::Infallible;
use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};

/// A wait of which there is no value, as that of a gate at which no call waits.
pub trait Impossible {
    /// Returns anything, because it is never called.
    fn never<T>(self) -> T;
}

/// The wait of a gate at which no call waits: there is no such value.
pub struct Never<P, R> {
    pub(super) never: Infallible,
    output: PhantomData<fn() -> (P, R)>,
}

impl<P, R> Impossible for Never<P, R> {
    #[inline]
    fn never<T>(self) -> T {
        match self.never {}
    }
}

impl<P, R> Future for Never<P, R> {
    type Output = Result<P, R>;

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.never {}
    }
}

impl<P, R> fmt::Debug for Never<P, R> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.never {}
    }
}
