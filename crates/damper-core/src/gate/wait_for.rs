//! The wait of a gate that gives the permit of another one in its own form.

use super::Impossible;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use pin_project_lite::pin_project;

pin_project! {
    /// The wait `W`, of which the permit becomes a `P`.
    ///
    /// It is the wait of a gate of yours that has another one in it, and gives its permit in a form of its own.
    #[derive(Debug)]
    pub struct WaitFor<W, P> {
        #[pin]
        pub(super) wait: W,
        permit: PhantomData<fn() -> P>,
    }
}

impl<W, P> WaitFor<W, P> {
    /// Creates a wait of this form.
    #[inline]
    pub const fn new(wait: W) -> Self {
        Self { wait, permit: PhantomData }
    }
}

#[diagnostic::do_not_recommend]
impl<W: Impossible, P> Impossible for WaitFor<W, P> {
    #[inline]
    fn never<T>(self) -> T {
        self.wait.never()
    }
}

impl<W: Future<Output = Result<A, R>>, A, P: From<A>, R> Future for WaitFor<W, P> {
    type Output = Result<P, R>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().wait.poll(context).map_ok(P::from)
    }
}
