//! Damper's keyed types as stores of gates, in an `Arc` that calls share.

use super::{AnswerOf, Ask, AskKey, Gate, GateOfKey, GateStore, Never};
use crate::breaker::{CircuitBreaker, KeyedCircuitBreaker, OnStateChange};
use crate::concurrency::{AdaptiveLimit, Bulkhead, KeyedAdaptiveLimit, KeyedBulkhead, LimitRule};
use crate::keyed::KeyedLimiter;
use crate::limit::{Denied, KeyedAlgorithm};
use crate::throttle::{AdaptiveThrottle, KeyedThrottle};
use crate::time::Clock;
use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};

/// Makes a keyed type a store of gates of the type `$one`.
macro_rules! store_of_gates {
    ([$($generics:tt)*] $keyed:ty, $one:ty, |$store:ident, $key:ident| $get:expr) => {
        impl<K, $($generics)*> Gate for Arc<$keyed> {
            type Permit = <$one as Gate>::Permit;
            type Refusal = <$one as Gate>::Refusal;
            type Wait = <$one as Gate>::Wait;
        }

        impl<K, $($generics)*> GateStore for Arc<$keyed> {
            type One = $one;
        }

        impl<K, Q, $($generics)*> GateOfKey<Q> for Arc<$keyed>
        where
            K: Hash + Eq + Borrow<Q>,
            Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        {
            #[inline]
            fn gate_of(&self, $key: &Q) -> Result<$one, Self::Refusal> {
                let $store = self;
                $get
            }
        }

        impl<K, Q, $($generics)*> AskKey<Q> for Arc<$keyed>
        where
            K: Hash + Eq + Borrow<Q>,
            Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        {
            #[inline]
            fn ask_key_cost(&self, key: &Q, _: u32) -> AnswerOf<Self> {
                match self.gate_of(key) {
                    Ok(gate) => gate.ask(key),
                    Err(refusal) => Err(refusal).into(),
                }
            }
        }
    };
}

store_of_gates!([C: Clock + Clone, S: BuildHasher, L: OnStateChange] KeyedCircuitBreaker<K, C, S, L>,
    Arc<CircuitBreaker<C, L>>, |store, key| Ok(store.get_or_create(key)));
store_of_gates!([C: Clock + Clone, S: BuildHasher] KeyedThrottle<K, C, S>,
    Arc<AdaptiveThrottle<C>>, |store, key| Ok(store.get_or_create(key)));
store_of_gates!([C: Clock + Clone, S: BuildHasher] KeyedBulkhead<K, C, S>,
    Arc<Bulkhead<C>>, |store, key| store.get_or_create(key));
store_of_gates!([R: LimitRule, C: Clock + Clone, S: BuildHasher] KeyedAdaptiveLimit<K, R, C, S>,
    Arc<AdaptiveLimit<R, C>>, |store, key| store.get_or_create(key));

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> Gate for Arc<KeyedLimiter<K, C, S, A>> {
    type Permit = ();
    type Refusal = Denied;
    type Wait = Never<(), Denied>;
}

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> AskKey<K> for Arc<KeyedLimiter<K, C, S, A>> {
    #[inline]
    fn ask_key_cost(&self, key: &K, tokens: u32) -> AnswerOf<Self> {
        self.check_n(key, tokens).map(drop).into()
    }
}
