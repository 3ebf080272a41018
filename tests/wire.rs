//! What goes over the wire: whom a request is from, and what is told of limits.
#![cfg(feature = "http")]

mod wire {
    mod forgery;
    mod model;
    mod proxies;
    mod rate_limit;
    mod trusted_proxies;
}
