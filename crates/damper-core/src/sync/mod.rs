//! The facade over the atomics of the target or of a model checker.
//!
//! The atomics are `core`'s, or those of loom or shuttle. On targets without 64-bit atomics they are `portable-atomic`'s
//! with `std`, and critical sections without it.
//!
//! All state that threads share in this crate goes through this module, and only this module has `cfg(loom)` and
//! `cfg(shuttle)`. Under loom there are two modes, chosen per thread by `with_loads_as_rmw`. In the second one every load
//! is a `fetch_or(0)` and every store a `swap`, because loom 0.7 does not visit every interleaving in which a thread loads
//! a location and then compare-exchanges it.

// | file | idea |
// |---|---|
// | `native` | the atomics and locks of the target |
// | `sectioned` | 64-bit atomics in critical sections |
// | `model` | the atomics and locks of a model checker |
// | `field` | `Field`: the fields of a packed word |
// | `lazy_words` | `LazyWords`: words on the heap that are allocated at first use |
// | `set_once` | `SetOnce`: a value on the heap that is set once |
// | `signal` | `Signal`: a change that threads wait for |
// | `parker` | `Parker`: a thread that waits to be woken by a `Waker` |
// | `claim` | `Claim`: a right that one thread at a time holds |
// | `published` | `Published`: a record that changes while other threads read it |
// | `tally` | `Tally`: a count that is taken as a whole |
// | `affinity` | which of several places a thread uses first |

#[cfg(feature = "std")]
pub(crate) mod affinity;
mod claim;
mod field;
#[cfg(feature = "alloc")]
mod lazy_words;
#[cfg(not(any(loom, shuttle)))]
mod native;
#[cfg(feature = "std")]
mod parker;
pub(crate) mod published;
#[cfg(not(any(loom, shuttle, feature = "std", target_has_atomic = "64")))]
mod sectioned;
#[cfg(feature = "alloc")]
mod set_once;
#[cfg(feature = "std")]
mod signal;
mod tally;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr", not(any(loom, shuttle))))]
pub(crate) use native::AtomicUsize;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use native::{AtomicBool, AtomicU16, AtomicU32, Epoch, Guarded, SpinWait, Versioned64, fence};

#[cfg(not(any(loom, shuttle, target_has_atomic = "64")))]
pub(crate) use native::AtomicU64;
#[cfg(all(not(any(loom, shuttle)), target_has_atomic = "64"))]
pub use native::AtomicU64;

#[cfg(any(loom, shuttle))]
mod model;
#[cfg(any(loom, shuttle))]
pub(crate) use model::{AtomicBool, AtomicU16, AtomicU32, AtomicUsize, Epoch, Guarded, SpinWait, Versioned64, fence};
#[cfg(any(loom, shuttle))]
pub use model::{AtomicU64, Flaw, count_writes, killed_after, stopped_after, with_flaw, with_loads_as_rmw};

/// Whether the atomics are those of a model checker.
///
/// It visits every interleaving that its memory model has and the bound of a model allows, so a model can afford only a few operations.
pub(crate) const IS_MODEL: bool = cfg!(any(loom, shuttle));

pub(crate) use claim::Claim;
pub(crate) use core::sync::atomic::Ordering;
pub(crate) use field::{Field, signed};
#[cfg(feature = "alloc")]
pub(crate) use lazy_words::LazyWords;
#[cfg(feature = "std")]
pub(crate) use parker::Parker;
pub(crate) use published::Published;
#[cfg(feature = "alloc")]
pub(crate) use set_once::SetOnce;
#[cfg(feature = "std")]
pub(crate) use signal::Signal;
pub use tally::Tally;

/// Declares functions that are `const`, except under loom and shuttle.
///
/// loom's atomics have no `const` constructor, and shuttle's have destructors.
macro_rules! const_unless_loom {
    ($($(#[$attribute:meta])* $visibility:vis const fn $name:ident $(<$(const $parameter:ident: $kind:ty),+>)? ($($arguments:tt)*) -> $returned:ty $body:block)*) => {
        $(
            #[cfg(not(any(loom, shuttle)))]
            $(#[$attribute])*
            $visibility const fn $name $(<$(const $parameter: $kind),+>)? ($($arguments)*) -> $returned $body

            #[cfg(any(loom, shuttle))]
            $(#[$attribute])*
            $visibility fn $name $(<$(const $parameter: $kind),+>)? ($($arguments)*) -> $returned $body
        )*
    };
}
pub(crate) use const_unless_loom;

/// Creates an array of equal values, in a constant function of [`const_unless_loom`].
macro_rules! array_of {
    ($length:expr, $make:expr) => {{
        #[cfg(not(any(loom, shuttle)))]
        let array = [const { $make }; $length];
        #[cfg(any(loom, shuttle))]
        let array = core::array::from_fn(|_| $make);
        array
    }};
}
pub(crate) use array_of;
