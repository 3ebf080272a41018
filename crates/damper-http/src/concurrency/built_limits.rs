//! The limits that the layers build themselves.

use crate::TargetHost;
use alloc::string::String;
use alloc::sync::Arc;
use core::hash::Hash;
use damper_core::concurrency::{AdaptiveLimit, Bulkhead, KeyedAdaptiveLimit, KeyedBulkhead, LimitBounds};
use damper_core::gate::PerKey;

/// A bulkhead for each host.
pub type BulkheadPerHost = PerKey<TargetHost, Arc<KeyedBulkhead<String>>>;

/// An adaptive limit for each host.
pub type AdaptiveLimitPerHost = PerKey<TargetHost, Arc<KeyedAdaptiveLimit<String>>>;

/// The longest queue of a limit that a layer builds.
const LONGEST_QUEUE: u32 = 128;

/// The keys, or hosts, that have a bulkhead of a layer's own.
const KEYS: usize = 1024;

/// Builds a bulkhead with a queue of as many places as the limit has slots, but at most 128.
pub(super) fn bulkhead(limit: u32) -> Arc<Bulkhead> {
    Arc::new(Bulkhead::new(limit).queue(places(limit)))
}

/// Builds an adaptive limit with a queue of 128 places.
pub(super) fn adaptive_limit(bounds: LimitBounds) -> Arc<AdaptiveLimit> {
    Arc::new(AdaptiveLimit::new(bounds).queue(places(LONGEST_QUEUE)))
}

/// Builds bulkheads for 1024 keys, each with a queue as [`bulkhead`] has.
pub(super) fn bulkhead_per_key<K: Hash + Eq>(limit: u32) -> Arc<KeyedBulkhead<K>> {
    match KeyedBulkhead::new(limit, KEYS) {
        Ok(bulkheads) => Arc::new(bulkheads.queue(places(limit))),
        Err(error) => unreachable!("the capacity is in range: {error}"),
    }
}

/// Builds adaptive limits for 1024 keys, each with a queue as [`adaptive_limit`] has.
pub(super) fn adaptive_per_key<K: Hash + Eq>(bounds: LimitBounds) -> Arc<KeyedAdaptiveLimit<K>> {
    match KeyedAdaptiveLimit::new(bounds, KEYS) {
        Ok(limits) => Arc::new(limits.queue(places(LONGEST_QUEUE))),
        Err(error) => unreachable!("the capacity is in range: {error}"),
    }
}

fn places(limit: u32) -> u16 {
    limit.min(LONGEST_QUEUE) as u16
}
