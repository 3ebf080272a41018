//! How to wait to be admitted.

#[cfg(feature = "std")]
use super::permit::sealed::{Entry, Gated};
use super::request::Entrant;
#[cfg(feature = "std")]
use super::{AdmissionPermit, NotAdmitted};
use super::{AdmissionRef, AdmitFuture};
#[cfg(feature = "std")]
use crate::concurrency::queue::{Place, Queued};
#[cfg(feature = "std")]
use crate::sync::Parker;
use crate::time::Sleep;
#[cfg(feature = "tokio")]
use crate::time::TokioSleep;
use core::fmt;
#[cfg(feature = "std")]
use core::task::Waker;

/// How to wait to be admitted. Made by [`Admission::admit`](super::Admission::admit).
///
/// Nothing is taken before [`wait`](Self::wait) is called, or a future of it is polled. With the feature `tokio` it can be
/// awaited directly; [`sleeping_by`](Self::sleeping_by) makes a future for any other runtime.
#[must_use = "nothing waits before `wait` is called or the future is awaited"]
#[cfg(feature = "alloc")]
pub struct Admit<A> {
    pub(super) gate: A,
    pub(super) entrant: Entrant,
}

impl<A: AdmissionRef> Admit<A> {
    pub(super) fn new(gate: A, entrant: Entrant) -> Self {
        Self { gate, entrant }
    }

    /// Blocks the thread until the call is admitted or refused.
    ///
    /// The first wait of a thread allocates its waker.
    ///
    /// # Errors
    ///
    /// [`NotAdmitted`]: at once if the call is late or the queue is full of other calls; later if it becomes late, gives way or
    /// has waited for long enough.
    #[cfg(feature = "std")]
    pub fn wait(self) -> Result<AdmissionPermit<A>, NotAdmitted> {
        let began = match self.gate.enter(&self.entrant) {
            Ok(began) => began,
            Err(_) => wait_in_queue(&*self.gate, &self.entrant)?,
        };
        Ok(AdmissionPermit::new(self.gate, began, self.entrant.end))
    }

    /// Returns a future that waits to be admitted, on any runtime.
    ///
    /// It sleeps by `sleep` only if the request has a deadline or a [longest wait](super::AdmissionRequest::wait_at_most).
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn run() -> Result<(), damper::concurrency::NotAdmitted> {
    /// use damper::concurrency::{Admission, AdmissionRequest};
    ///
    /// let gate = Admission::fixed(64);
    /// let permit = gate.admit(AdmissionRequest::new()).sleeping_by(tokio::time::sleep).await?;
    /// permit.success();
    /// # Ok(())
    /// # }
    /// # run().unwrap(); }
    /// ```
    pub fn sleeping_by<S: Sleep>(self, sleep: S) -> AdmitFuture<A, S> {
        AdmitFuture::new(self, sleep)
    }
}

/// A call in the queue, which leaves it when this is dropped.
#[cfg(feature = "std")]
struct Waiting<'a, G: Gated + ?Sized> {
    gate: &'a G,
    place: Option<Place>,
}

#[cfg(feature = "std")]
impl<G: Gated + ?Sized> Drop for Waiting<'_, G> {
    fn drop(&mut self) {
        self.place.take().into_iter().for_each(|place| self.gate.leave(place));
    }
}

#[cfg(feature = "std")]
fn wait_in_queue<G: Gated + ?Sized>(gate: &G, entrant: &Entrant) -> Result<u64, NotAdmitted> {
    let parker = Parker::of_this_thread();
    // The wake-ups are counted before each check, so that none is lost between a check and the wait.
    let mut seen = parker.wake_ups();
    let Queued { place, displaced } = match gate.join(entrant, parker.waker())? {
        Entry::Entered(began) => return Ok(began),
        Entry::Queued(queued) => queued,
    };
    let mut waiting = Waiting { gate, place: Some(place) };
    displaced.into_iter().for_each(Waker::wake);
    loop {
        parker.wait(seen, gate.patience(entrant));
        seen = parker.wake_ups();
        if let Some(fate) = gate.look(place, entrant, parker.waker()) {
            waiting.place = None;
            return fate;
        }
    }
}

/// Waits in a future that sleeps by tokio's timer, if the request has a deadline or a longest wait.
///
/// # Panics
///
/// If polled outside of a tokio runtime whose timer is enabled, once the call has to wait and has one of these. Elsewhere:
/// [`sleeping_by`](Admit::sleeping_by).
#[cfg(feature = "tokio")]
impl<A: AdmissionRef> IntoFuture for Admit<A> {
    type Output = Result<AdmissionPermit<A>, NotAdmitted>;
    type IntoFuture = AdmitFuture<A, TokioSleep>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(TokioSleep)
    }
}

impl<A: AdmissionRef> fmt::Debug for Admit<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admit").field("gate", &&*self.gate).field("request", &self.entrant).finish()
    }
}
