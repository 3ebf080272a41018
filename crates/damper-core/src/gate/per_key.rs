//! A gate for each key.

use super::{AnswerOf, Ask, AskCost, Forecast, Gate};

/// Says the key of a call.
///
/// Every closure `|call: &Call| key` does. A type of your own can lend a key that it need not copy.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say the key of calls of the type `{Q}`",
    note = "a closure has the form `|call: &{Q}| key`"
)]
pub trait KeyOf<Q: ?Sized> {
    /// The key, or what it can be borrowed as: `str` of a `String`.
    type Key: ?Sized;

    /// Calls `then` with the key of this call.
    fn with_key<T>(&self, call: &Q, then: impl FnOnce(&Self::Key) -> T) -> T;
}

impl<Q: ?Sized, K, F: Fn(&Q) -> K> KeyOf<Q> for F {
    type Key = K;

    #[inline]
    fn with_key<T>(&self, call: &Q, then: impl FnOnce(&K) -> T) -> T {
        then(&self(call))
    }
}

/// A store of gates that can be had one by one: of breakers, throttles, bulkheads and adaptive limits.
#[cfg(feature = "alloc")]
pub trait GateStore: Gate {
    /// The gate of one key.
    type One: Gate<Permit = Self::Permit, Refusal = Self::Refusal>;
}

/// A [`GateStore`] with a gate for keys of the type `K`.
#[cfg(feature = "alloc")]
pub trait GateOfKey<K: ?Sized>: GateStore {
    /// Returns the gate of this key.
    ///
    /// # Errors
    ///
    /// The refusal, if the store has no room for another key.
    fn gate_of(&self, key: &K) -> Result<Self::One, Self::Refusal>;

    /// Returns a gate that would answer as the one of this key, for a forecast.
    ///
    /// Default: `None`, so the forecast is unknown. It does not count as a use of the key, and creates no gate in the store.
    fn peek_gate(&self, key: &K) -> Option<Self::One> {
        let _ = key;
        None
    }
}

/// Asks the gate of each call's key.
///
/// The store is a gate whose calls are keys: it implements [`Ask`] for the type of a key. Damper's keyed types do, in an `Arc`.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::gate::{Ask, PerKey};
/// use damper::{KeyedLimiter, Quota};
/// use std::sync::Arc;
///
/// struct Call { user: String }
///
/// let limits = Arc::new(KeyedLimiter::<String>::builder(Quota::per_hour(1).burst(1)).build()?);
/// let gate = PerKey::new(|call: &Call| call.user.clone(), limits);
/// assert!(gate.ask(&Call { user: "alice".into() }).is_pass());
/// assert!(!gate.ask(&Call { user: "alice".into() }).is_pass());
/// assert!(gate.ask(&Call { user: "bob".into() }).is_pass());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PerKey<F, S> {
    pub(super) key: F,
    pub(super) store: S,
}

impl<F, S> PerKey<F, S> {
    /// Creates a gate that asks the one of the key that `key` says, in this store.
    pub const fn new(key: F, store: S) -> Self {
        Self { key, store }
    }

    /// Returns the store.
    pub const fn get_ref(&self) -> &S {
        &self.store
    }
}

impl<F, S: Gate> Gate for PerKey<F, S> {
    type Permit = S::Permit;
    type Refusal = S::Refusal;
    type Wait = S::Wait;
}

impl<Q: ?Sized, F: KeyOf<Q>, S: Ask<F::Key>> Ask<Q> for PerKey<F, S> {
    #[inline]
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        self.key.with_key(call, |key| self.store.ask(key))
    }

    fn forecast(&self, call: &Q) -> Forecast<Self::Refusal> {
        self.key.with_key(call, |key| self.store.forecast(key))
    }
}

impl<Q: ?Sized, F: KeyOf<Q>, S: AskCost<F::Key>> AskCost<Q> for PerKey<F, S> {
    #[inline]
    fn ask_cost(&self, call: &Q, tokens: u32) -> AnswerOf<Self> {
        self.key.with_key(call, |key| self.store.ask_cost(key, tokens))
    }

    fn forecast_cost(&self, call: &Q, tokens: u32) -> Forecast<Self::Refusal> {
        self.key.with_key(call, |key| self.store.forecast_cost(key, tokens))
    }
}
