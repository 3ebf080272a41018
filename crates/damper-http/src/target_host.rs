//! The key of a request that is its target host.

use crate::Head;
use damper_core::gate::KeyOf;

/// The target host of a request with its port: a key, for a gate of each host.
///
/// The key of `https://api.example.com/` is `api.example.com:443`. The host is that of the target, or else of the header `Host`. It has one name
/// however a request spells it: in lower case, without the dot that may end it, and an IPv6 address in its canonical form,
/// `[2001:db8::1]:443`. Without a port, that of the scheme is meant.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::KeyedBulkhead;
/// use damper::gate::PerKey;
/// use damper::http::{ClientConcurrencyLayer, TargetHost};
/// use std::sync::Arc;
///
/// let hosts = Arc::new(KeyedBulkhead::<String>::new(64, 100)?.queue(16).newest_first());
/// let layer = ClientConcurrencyLayer::new(PerKey::new(TargetHost, Arc::clone(&hosts)));
/// # let _ = layer;
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TargetHost;

impl KeyOf<Head<'_>> for TargetHost {
    type Key = str;

    #[inline]
    fn with_key<T>(&self, head: &Head<'_>, then: impl FnOnce(&str) -> T) -> T {
        head.with_host(then)
    }
}
