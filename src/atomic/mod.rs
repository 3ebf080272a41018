//! The facade over the atomics: `core`'s; where the target has no 64-bit atomics, those of `portable-atomic` under
//! `std`, and critical sections without; or `loom`'s.
//!
//! Everything that is shared between threads in this crate goes through this module, and `cfg(loom)` stands
//! nowhere else. Under loom there are two settings, chosen per thread by `with_loads_as_rmw`: the plain one, and
//! one in which every load is `fetch_or(0)` and every store a `swap`, because loom 0.7 does not visit every
//! interleaving in which a thread loads a location and then compare-exchanges it.

mod field;
mod guarded;
#[cfg(not(any(loom, target_has_atomic = "64")))]
mod halves;
#[cfg(not(loom))]
mod native;
#[cfg(feature = "std")]
mod preference;
#[cfg(not(any(loom, feature = "std", target_has_atomic = "64")))]
mod sectioned;
#[cfg(feature = "std")]
mod signal;
#[cfg(not(loom))]
pub(crate) use native::{AtomicU32, AtomicU64, AtomicUsize, Backoff, Versioned64, fence};

#[cfg(loom)]
mod model;
#[cfg(loom)]
pub(crate) use model::{AtomicU32, AtomicU64, AtomicU64 as Versioned64, AtomicUsize, Backoff, fence};
#[cfg(loom)]
pub use model::{Flaw, with_flaw, with_loads_as_rmw};

pub(crate) use core::sync::atomic::Ordering;
pub(crate) use field::{Field, signed};
pub(crate) use guarded::Guarded;
#[cfg(loom)]
use model::RawLock;
#[cfg(not(loom))]
use native::RawLock;

#[cfg(feature = "std")]
pub(crate) use preference::{prefer, preference};
#[cfg(feature = "std")]
pub(crate) use signal::Signal;

/// Declares functions that are `const`, except under loom, whose atomics have no `const` constructor.
macro_rules! const_unless_loom {
    ($($(#[$attribute:meta])* $visibility:vis const fn $name:ident $(<const $parameter:ident: $kind:ty>)? ($($arguments:tt)*) -> $returned:ty $body:block)*) => {
        $(
            #[cfg(not(loom))]
            $(#[$attribute])*
            $visibility const fn $name $(<const $parameter: $kind>)? ($($arguments)*) -> $returned $body

            #[cfg(loom)]
            $(#[$attribute])*
            $visibility fn $name $(<const $parameter: $kind>)? ($($arguments)*) -> $returned $body
        )*
    };
}
pub(crate) use const_unless_loom;

/// An array of so many values that are made alike, in a constant function of [`const_unless_loom`].
macro_rules! array_of {
    ($length:expr, $make:expr) => {{
        #[cfg(not(loom))]
        let array = [const { $make }; $length];
        #[cfg(loom)]
        let array = core::array::from_fn(|_| $make);
        array
    }};
}
pub(crate) use array_of;
