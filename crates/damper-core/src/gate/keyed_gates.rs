//! Stores of gates, in an `Arc` that calls share.

use super::{AnswerOf, Ask, AskCost, Forecast, Gate, GateOfKey, GateStore, Never};
use crate::concurrency::{BulkheadFull, KeyedAdaptiveLimit, KeyedBulkhead, LimitRule};
use crate::keyed::KeyedLimiter;
use crate::limit::{Denied, KeyedAlgorithm};
use crate::store::{Evictable, Keyed, Template};
use crate::time::Clock;
use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};

/// A store of breakers, throttles, bulkheads, adaptive limits, or limiters of a [`Template`] of your own.
///
/// It is asked about a key, and asks the gate of that key. For other gates of yours, implement [`Ask`] for a store of your own.
impl<K, T: Template<K>, S> Gate for Arc<Keyed<K, T, S>>
where
    Arc<T::Value>: Gate,
{
    type Permit = <Arc<T::Value> as Gate>::Permit;
    type Refusal = <Arc<T::Value> as Gate>::Refusal;
    type Wait = <Arc<T::Value> as Gate>::Wait;
}

impl<K, T: Template<K>, S> GateStore for Arc<Keyed<K, T, S>>
where
    Arc<T::Value>: Gate,
{
    type One = Arc<T::Value>;
}

impl<K, Q, T, S> GateOfKey<Q> for Arc<Keyed<K, T, S>>
where
    K: Hash + Eq + Borrow<Q>,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    T: Template<K> + Evictable,
    S: BuildHasher,
    Arc<T::Value>: Gate,
{
    #[inline]
    fn gate_of(&self, key: &Q) -> Result<Self::One, Self::Refusal> {
        Ok(self.get_or_create(key))
    }

    fn peek_gate(&self, key: &Q) -> Option<Self::One> {
        self.peek(key).or_else(|| Some(self.apart(key)))
    }
}

/// Makes a keyed limit of calls in flight a store of gates.
///
/// A key gets none while all others are in use.
macro_rules! limits_of_keys {
    ([$($generics:tt)*] $keyed:ty) => {
        impl<K, Q, $($generics)*> GateOfKey<Q> for Arc<$keyed>
        where
            K: Hash + Eq + Borrow<Q>,
            Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        {
            #[inline]
            fn gate_of(&self, key: &Q) -> Result<Self::One, BulkheadFull> {
                self.get_or_create(key)
            }

            /// It is unknown whether a key without a limit gets one once the store is full.
            fn peek_gate(&self, key: &Q) -> Option<Self::One> {
                self.peek(key).or_else(|| self.has_room(key).then(|| self.apart(key)))
            }
        }
    };
}

limits_of_keys!([C: Clock + Clone, S: BuildHasher] KeyedBulkhead<K, C, S>);
limits_of_keys!([R: LimitRule, C: Clock + Clone, S: BuildHasher] KeyedAdaptiveLimit<K, R, C, S>);

impl<K, Q: ?Sized, T: Template<K>, S> Ask<Q> for Arc<Keyed<K, T, S>>
where
    Self: GateOfKey<
            Q,
            One = Arc<T::Value>,
            Permit = <Arc<T::Value> as Gate>::Permit,
            Refusal = <Arc<T::Value> as Gate>::Refusal,
            Wait = <Arc<T::Value> as Gate>::Wait,
        >,
    Arc<T::Value>: Ask<Q>,
{
    #[inline]
    fn ask(&self, key: &Q) -> AnswerOf<Self> {
        match self.gate_of(key) {
            Ok(gate) => gate.ask(key),
            Err(refusal) => Err(refusal).into(),
        }
    }

    /// For a key without a gate, one is created and dropped.
    fn forecast(&self, key: &Q) -> Forecast<Self::Refusal> {
        self.peek_gate(key).map_or(Forecast::Unknown, |gate| gate.forecast(key))
    }
}

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> Gate for Arc<KeyedLimiter<K, C, S, A>> {
    type Permit = ();
    type Refusal = Denied;
    type Wait = Never<(), Denied>;
}

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> Ask<K> for Arc<KeyedLimiter<K, C, S, A>> {
    #[inline]
    fn ask(&self, key: &K) -> AnswerOf<Self> {
        self.check(key).map(drop).into()
    }

    fn forecast(&self, key: &K) -> Forecast<Denied> {
        KeyedLimiter::refusal(self, key, 1).into()
    }
}

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm> AskCost<K> for Arc<KeyedLimiter<K, C, S, A>> {
    #[inline]
    fn ask_cost(&self, key: &K, tokens: u32) -> AnswerOf<Self> {
        self.check_n(key, tokens).map(drop).into()
    }

    fn forecast_cost(&self, key: &K, tokens: u32) -> Forecast<Denied> {
        KeyedLimiter::refusal(self, key, tokens).into()
    }
}
