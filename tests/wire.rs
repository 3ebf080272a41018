//! Headers: the addresses of clients, and rate limits.
#![cfg(feature = "http")]

mod wire {
    mod date_model;
    mod forgery;
    mod grpc_timeout;
    mod model;
    mod proxies;
    mod rate_limit;
    mod rate_limit_status;
    mod retry_after;
    mod trusted_proxies;
}
