//! The timeouts of gRPC on the wire.
//!
//! Every suite about timeouts that is marked `must` is run, and those in which damper matches grpc-go.

use damper::wire::{GRPC_TIMEOUT, grpc_timeout, grpc_timeout_in};
use http::{HeaderMap, HeaderValue};
use serde::Deserialize;
use std::time::Duration;

const VECTORS: &str = include_str!("../../../../damper-core/tests/core/conformance/vectors/grpc.json");

#[derive(Deserialize)]
struct All {
    suites: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Step {
    ns: i64,
    value: String,
}

fn suite(id: &str) -> serde_json::Value {
    let all: All = serde_json::from_str(VECTORS).unwrap();
    all.suites.into_iter().find(|suite| suite["id"] == id).unwrap()
}

fn steps(id: &str) -> Vec<Step> {
    serde_json::from_value(suite(id)["steps"].take()).unwrap()
}

fn decode(value: &str) -> Option<Duration> {
    let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
    grpc_timeout_in(&HeaderMap::from_iter([(GRPC_TIMEOUT, value)]))
}

fn nanos(ns: i64) -> Duration {
    Duration::from_nanos(ns.unsigned_abs())
}

#[test]
fn timeouts_are_encoded_as_grpc_go_encodes_them() {
    for Step { ns, value } in steps("timeout_encode_go") {
        assert_eq!(grpc_timeout(nanos(ns)), value.as_str(), "{ns} ns");
    }
    assert_eq!(grpc_timeout(Duration::ZERO), "0n");
}

#[test]
fn timeouts_are_decoded() {
    for id in ["timeout_decode_ok", "timeout_decode_zero"] {
        for Step { ns, value } in steps(id) {
            assert_eq!(decode(&value), Some(nanos(ns)), "{value}");
        }
    }
}

/// A `Duration` holds values that grpc-go clamps to 2^63 nanoseconds.
#[test]
fn long_timeouts_are_decoded_exactly() {
    for Step { ns, value } in steps("timeout_decode_clamp") {
        let hours: u64 = value.trim_end_matches('H').parse().unwrap();
        assert_eq!(decode(&value), Some(Duration::from_secs(hours * 3600)), "{value}");
        assert!(decode(&value).unwrap() >= nanos(ns), "{value}");
    }
}

/// Timeouts as grpc-core's peers send them.
#[test]
fn coarse_timeouts_of_other_peers_are_decoded() {
    for Step { value, .. } in steps("timeout_encode_cpp") {
        assert!(decode(&value).is_some_and(|timeout| !timeout.is_zero()), "{value}");
    }
}

#[test]
fn malformed_timeouts_are_rejected() {
    for id in ["timeout_decode_errors", "timeout_decode_strict_extra"] {
        let values: Vec<String> = serde_json::from_value(suite(id)["values"].take()).unwrap();
        assert!(values.len() > 10);
        for value in values {
            assert_eq!(decode(&value), None, "{value:?}");
        }
    }
}
