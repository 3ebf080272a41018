//! Limits behind references, `Arc`s and `Box`es, and limits that may be absent.

use super::{Detail, KeyedLimit, Limit, LimitDecision, Limited, Refusal};
use crate::Head;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use damper_core::gate::Forecast;

/// Implements both traits for a pointer to `L`.
macro_rules! limits_behind {
    ($($pointer:ty),*) => {$(
        impl<L: Limit + ?Sized> Limit for $pointer {
            type Future = L::Future;

            #[inline]
            fn decide(&self, head: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<L::Future> {
                (**self).decide(head, cost, detail)
            }

            fn forecast(&self, head: &Head<'_>, cost: u32) -> Forecast<Refusal> {
                (**self).forecast(head, cost)
            }

            fn key(&self, head: &Head<'_>) -> Option<String> {
                (**self).key(head)
            }

            fn plan(&self, head: &Head<'_>, limited: &Limited) -> Option<String> {
                (**self).plan(head, limited)
            }
        }

        impl<K: ?Sized, L: KeyedLimit<K> + ?Sized> KeyedLimit<K> for $pointer {
            type Future = L::Future;

            #[inline]
            fn decide(&self, key: &K, cost: u32, detail: Detail) -> LimitDecision<L::Future> {
                (**self).decide(key, cost, detail)
            }

            fn forecast(&self, key: &K, cost: u32) -> Forecast<Refusal> {
                (**self).forecast(key, cost)
            }
        }
    )*};
}

limits_behind!(&L, Arc<L>, Box<L>);

/// A limit, or none, which lets every request pass.
impl<L: Limit> Limit for Option<L> {
    type Future = L::Future;

    #[inline]
    fn decide(&self, head: &Head<'_>, cost: u32, detail: Detail) -> LimitDecision<L::Future> {
        self.as_ref().map_or(LimitDecision::Pass(None), |limit| limit.decide(head, cost, detail))
    }

    fn forecast(&self, head: &Head<'_>, cost: u32) -> Forecast<Refusal> {
        self.as_ref().map_or(Forecast::Pass(None), |limit| limit.forecast(head, cost))
    }

    fn key(&self, head: &Head<'_>) -> Option<String> {
        self.as_ref()?.key(head)
    }

    fn plan(&self, head: &Head<'_>, limited: &Limited) -> Option<String> {
        self.as_ref()?.plan(head, limited)
    }
}
