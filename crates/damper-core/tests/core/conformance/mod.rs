//! Runs vectors of other projects' behaviour against damper. See `vectors/README.md`.
//!
//! | suites of `grpc.json` that are marked `must` | tests |
//! |---|---|
//! | `timeout_encode_go`, `timeout_decode_ok`, `timeout_decode_clamp`, `timeout_decode_errors`, `timeout_decode_strict_extra` | damper-http's `wire/grpc_vectors.rs` |
//! | `throttle_basic`, `throttle_end_to_end_go`, `pushback`, `backoff_bounds` | `grpc_retry.rs` |
//! | `deadline_propagation` | damper-tonic's `deadline.rs`; its step about a retry in `grpc_retry.rs` |

#[cfg(feature = "alloc")]
mod gobreaker;
mod grpc_retry;
mod x_time_rate;
