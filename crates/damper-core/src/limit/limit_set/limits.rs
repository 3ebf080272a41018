//! The limits of a set, in an array or in a slice of a length that is known at run time.

use crate::limit::algorithm::sealed::Sealed;
use crate::limit::{Algorithm, Usage};
use crate::quota::Quota;
use crate::time::Clock;
#[cfg(feature = "alloc")]
use alloc::{boxed::Box, vec::Vec};
use core::fmt;

/// The largest number of limits in a set whose number of limits is known only at run time.
#[cfg(feature = "alloc")]
pub(super) const MOST: usize = 16;

/// The limits of a [`LimitSet`](super::LimitSet): an array, or a boxed slice.
///
/// | limits | costs | quotas | usages |
/// |---|---|---|---|
/// | `[A; N]` | `[u32; N]` | `[Quota; N]` | `[Usage; N]` |
/// | `Box<[A]>`, at most 16 | `&[u32]` | `&[Quota]` | `Vec<Usage>` |
///
/// Other crates cannot implement the trait. It is public because the methods of a set name its types.
pub trait Limits: Sealed {
    /// The algorithm of all limits.
    type Algorithm: Algorithm;

    /// A number of tokens for each limit.
    type Costs<'a>: AsRef<[u32]> + Copy;

    /// A quota for each limit.
    type Quotas<'a>: AsRef<[Quota]> + Copy;

    /// The usage of each limit.
    type Usages;

    /// A value for each limit, in an array that may be longer than the number of limits.
    #[doc(hidden)]
    type PerLimit<T: Copy>: AsRef<[T]> + AsMut<[T]> + Copy;

    /// A value for each limit, stored in the set beside the limits.
    #[doc(hidden)]
    type Each<T: fmt::Debug>: AsRef<[T]> + fmt::Debug;

    #[doc(hidden)]
    fn filled<T: Copy>(value: T) -> Self::PerLimit<T>;

    #[doc(hidden)]
    fn each<T: fmt::Debug>(&self, make: impl Fn() -> T) -> Self::Each<T>;

    #[doc(hidden)]
    fn as_slice(&self) -> &[Self::Algorithm];

    #[doc(hidden)]
    fn usages(&self, clock: &impl Clock) -> Self::Usages;
}

impl<const N: usize, A: Algorithm> Sealed for [A; N] {}

impl<const N: usize, A: Algorithm> Limits for [A; N] {
    type Algorithm = A;
    type Costs<'a> = [u32; N];
    type Quotas<'a> = [Quota; N];
    type Usages = [Usage; N];
    type PerLimit<T: Copy> = [T; N];
    type Each<T: fmt::Debug> = [T; N];

    #[inline]
    fn filled<T: Copy>(value: T) -> [T; N] {
        [value; N]
    }

    fn each<T: fmt::Debug>(&self, make: impl Fn() -> T) -> [T; N] {
        core::array::from_fn(|_| make())
    }

    #[inline]
    fn as_slice(&self) -> &[A] {
        self
    }

    fn usages(&self, clock: &impl Clock) -> [Usage; N] {
        self.each_ref().map(|limit| limit.usage(clock))
    }
}

#[cfg(feature = "alloc")]
impl<A: Algorithm> Sealed for Box<[A]> {}

#[cfg(feature = "alloc")]
impl<A: Algorithm> Limits for Box<[A]> {
    type Algorithm = A;
    type Costs<'a> = &'a [u32];
    type Quotas<'a> = &'a [Quota];
    type Usages = Vec<Usage>;
    type PerLimit<T: Copy> = [T; MOST];
    type Each<T: fmt::Debug> = Box<[T]>;

    #[inline]
    fn filled<T: Copy>(value: T) -> [T; MOST] {
        [value; MOST]
    }

    fn each<T: fmt::Debug>(&self, make: impl Fn() -> T) -> Box<[T]> {
        self.iter().map(|_| make()).collect()
    }

    #[inline]
    fn as_slice(&self) -> &[A] {
        self
    }

    fn usages(&self, clock: &impl Clock) -> Vec<Usage> {
        self.iter().map(|limit| limit.usage(clock)).collect()
    }
}
