//! Headers: the addresses of clients, and rate limits.

mod date_model;
mod forgery;
mod grpc_timeout;
mod grpc_vectors;
mod model;
mod proxies;
mod rate_limit;
mod rate_limit_status;
mod retry_after;
mod trusted_proxies;
