//! Facts about other projects' behaviour, as vector files, run against damper. See `vectors/README.md`.

#[cfg(feature = "alloc")]
mod gobreaker;
#[cfg(feature = "http")]
mod grpc;
mod grpc_retry;
mod x_time_rate;
