//! Values of `RateLimit-Policy` that were formatted before.

use alloc::boxed::Box;
use damper_core::quota::Quota;
use http::HeaderValue;
use std::sync::OnceLock;

/// The most quotas whose values are kept: as many as a keyed limiter can have tiers.
const MOST: usize = 16;

/// The values of the quotas that were written, in the order of their first use.
///
/// A limit mostly has one quota. Tiers have several, and each live change makes another. Beyond the first 16 a value is
/// formatted each time, so that a quota that changes for ever takes no more memory.
///
/// A clone of a kept value counts its references on a cache line that all threads share. It still takes 50 ns where two
/// threads do nothing else; copying the bytes takes 90 ns then, and formatting 200 ns.
#[derive(Clone, Debug, Default)]
pub(super) struct Policies {
    first: OnceLock<(Quota, Option<HeaderValue>)>,
    others: OnceLock<Box<Self>>,
}

impl Policies {
    /// Returns the value of a quota, which `format` returns too.
    #[inline]
    pub(super) fn get(&self, quota: Quota, format: impl Fn(Quota) -> Option<HeaderValue>) -> Option<HeaderValue> {
        let (first, value) = self.first.get_or_init(|| (quota, format(quota)));
        if *first == quota { value.clone() } else { self.get_other(quota, format) }
    }

    #[cold]
    fn get_other(&self, quota: Quota, format: impl Fn(Quota) -> Option<HeaderValue>) -> Option<HeaderValue> {
        let mut policies = self;
        for _ in 1..MOST {
            policies = policies.others.get_or_init(Box::default);
            let (kept, value) = policies.first.get_or_init(|| (quota, format(quota)));
            if *kept == quota {
                return value.clone();
            }
        }
        format(quota)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    /// A rate of tokens as a value, and how often one was formatted.
    fn get(policies: &Policies, formatted: &Cell<u32>, rate: u32) -> HeaderValue {
        let format = |quota: Quota| {
            formatted.set(formatted.get() + 1);
            Some(quota.limit().into())
        };
        policies.get(Quota::per_second(rate), format).unwrap()
    }

    #[test]
    fn each_of_sixteen_quotas_is_formatted_once() {
        let (policies, formatted) = (Policies::default(), Cell::new(0));
        for rate in (1..=16).chain(1..=16).chain([16, 1]) {
            assert_eq!(get(&policies, &formatted, rate), HeaderValue::from(rate));
        }
        assert_eq!(formatted.get(), 16);
    }

    #[test]
    fn more_quotas_are_formatted_each_time_and_not_kept() {
        let (policies, formatted) = (Policies::default(), Cell::new(0));
        for rate in 1..=16 {
            get(&policies, &formatted, rate);
        }
        for rate in (17..=100).chain(17..=100) {
            assert_eq!(get(&policies, &formatted, rate), HeaderValue::from(rate));
        }
        assert_eq!(formatted.get(), 16 + 2 * 84);
        assert_eq!(get(&policies, &formatted, 1), HeaderValue::from(1));
        assert_eq!(formatted.get(), 16 + 2 * 84, "the first are still kept");
    }
}
