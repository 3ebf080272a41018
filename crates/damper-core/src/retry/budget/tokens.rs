//! A count of tokens that outcomes change, and time does not.

use crate::sync::{AtomicU32, Ordering, const_unless_loom};

/// Tokens in one word, at most `most` of them.
#[derive(Debug)]
pub(super) struct Tokens {
    tokens: AtomicU32,
    most: u32,
}

impl Tokens {
    const_unless_loom! {
        /// Creates as many as there can be.
        pub(super) const fn full(most: u32) -> Self {
            Self { tokens: AtomicU32::new(most), most }
        }
    }

    pub(super) const fn most(&self) -> u32 {
        self.most
    }

    #[inline]
    pub(super) fn left(&self) -> u32 {
        // ORDERING: Relaxed, here and below, as the word is the whole state.
        // loom-tests: retry_budget::throttle_counts_every_outcome, retry_budget::quota_spends_each_token_once.
        self.tokens.load(Ordering::Relaxed)
    }

    /// Adds tokens, as far as there is room for them.
    #[inline]
    pub(super) fn add(&self, n: u32) {
        self.update(|tokens| Some(tokens.saturating_add(n).min(self.most)));
    }

    /// Takes tokens, or the rest of them.
    #[inline]
    pub(super) fn take_up_to(&self, n: u32) {
        self.update(|tokens| Some(tokens.saturating_sub(n)));
    }

    /// Takes all of these tokens or none, and returns whether it took them.
    #[inline]
    pub(super) fn take(&self, n: u32) -> bool {
        self.update(|tokens| tokens.checked_sub(n))
    }

    /// Changes the number of tokens, and returns whether `change` gave one. The same number is not written.
    #[inline]
    fn update(&self, change: impl Fn(u32) -> Option<u32>) -> bool {
        let mut tokens = self.left();
        loop {
            let Some(changed) = change(tokens) else { return false };
            if changed == tokens {
                return true;
            }
            match self.tokens.compare_exchange_weak(tokens, changed, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(present) => tokens = present,
            }
        }
    }
}
