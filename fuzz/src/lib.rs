//! The bodies of the fuzz targets.
//!
//! Each target runs the fuzzer's input through damper and through a slow, simple model that the property tests share,
//! or checks what the documentation guarantees.
//!
//! | target | subject | compared with |
//! |---|---|---|
//! | `limiter` | the token bucket | an exact bucket |
//! | `limiter32` | the 32-bit token bucket | an exact bucket |
//! | `windows` | fixed window, sliding counter, sliding log | a list of the tokens taken |
//! | `leaky` | leaky bucket, leaky queue | the token bucket, a queue in whole numbers |
//! | `breaker` | the breaker | a plain model |
//! | `breaker32` | the 32-bit breaker | a plain model |
//! | `keyed` | a table that is large enough, with all operations | a map of slow buckets |
//! | `crowded` | a table that is too small, by each policy and algorithm | the envelope of each key, or of all slots |
//! | `store` | the store | a ring, a map |
//! | `config` | settings: texts in three formats, values of keys | strict and normalized reading, written settings, ranges |
//! | `decisions` | logs of decisions, well-formed and not, and the quotas found for them | a slow reader, the next smaller quota |
//! | `forwarding` | the client of a request | lists of bits, and the true client |
//! | `grpc_timeout` | `grpc-timeout`, written and read | durations, and the grammar |
//! | `mesh` | Mesh documents with altered members, deadlines, the client's pacer | the written document, whole milliseconds, a slow pacer |
//! | `rate_limit_status` | members of `RateLimit`, well-formed and not | the member with the least left |
//! | `redis_keys` | keys of damper-redis, of any bytes | parsing them back, the slot bit by bit |
//! | `redis_reply` | replies of the script, well-formed and not, and waits | a slow reader, products of 128 bits |
//! | `retry` | calls with retries, hints, deadlines and a budget | the rules, and bounds of the random waits |
//! | `retry_after` | seconds and dates of `Retry-After` | a calendar that counts days |
//! | `settings` | every setting of every type | the documented ranges |
//!
//! ```text
//! fuzz/run --minutes 1                                        (all targets)
//! cargo +nightly fuzz run limiter                             (one target, until it finds a failure)
//! cargo run --manifest-path fuzz/Cargo.toml --bin limiter -- FILE     (replays a failure with stable Rust)
//! cargo test --manifest-path fuzz/Cargo.toml                  (the corpora, and a few seconds of random inputs)
//! ```

use arbitrary::{Arbitrary, Unstructured};
use std::fmt::Debug;

mod breaker;
mod breaker32;
mod config;
mod crowded;
mod decisions;
mod forwarding;
mod grpc_timeout;
mod input;
mod keyed;
mod leaky;
mod limiter;
mod limiter32;
mod mesh;
mod models;
mod rate_limit_status;
mod redis_keys;
mod redis_reply;
mod retry;
mod retry_after;
mod settings;
mod store;
mod windows;

pub use breaker::breaker;
pub use breaker32::breaker32;
pub use config::config;
pub use crowded::crowded;
pub use decisions::decisions;
pub use forwarding::forwarding;
pub use grpc_timeout::grpc_timeout;
pub use keyed::keyed;
pub use leaky::leaky;
pub use limiter::limiter;
pub use limiter32::limiter32;
pub use mesh::mesh;
pub use rate_limit_status::rate_limit_status;
pub use redis_keys::redis_keys;
pub use redis_reply::redis_reply;
pub use retry::retry;
pub use retry_after::retry_after;
pub use settings::settings;
pub use store::store;
pub use windows::windows;

/// A target: its name, and a function of an input's bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 20] = [
    ("breaker", |bytes| run(bytes, breaker)),
    ("breaker32", |bytes| run(bytes, breaker32)),
    ("config", |bytes| run(bytes, config)),
    ("crowded", |bytes| run(bytes, crowded)),
    ("decisions", |bytes| run(bytes, decisions)),
    ("forwarding", forwarding),
    ("grpc_timeout", grpc_timeout),
    ("keyed", |bytes| run(bytes, keyed)),
    ("leaky", |bytes| run(bytes, leaky)),
    ("limiter", |bytes| run(bytes, limiter)),
    ("limiter32", |bytes| run(bytes, limiter32)),
    ("mesh", |bytes| run(bytes, mesh)),
    ("rate_limit_status", |bytes| run(bytes, rate_limit_status)),
    ("redis_keys", |bytes| run(bytes, redis_keys)),
    ("redis_reply", |bytes| run(bytes, redis_reply)),
    ("retry", |bytes| run(bytes, retry)),
    ("retry_after", retry_after),
    ("settings", |bytes| run(bytes, settings)),
    ("store", |bytes| run(bytes, store)),
    ("windows", |bytes| run(bytes, windows)),
];

/// Runs a target on the input that the bytes encode, like libFuzzer's macro.
///
/// Too few bytes encode no input.
fn run<'a, T: Arbitrary<'a> + Debug>(bytes: &'a [u8], target: fn(T)) {
    let input = || T::arbitrary_take_rest(Unstructured::new(bytes));
    if let Ok(found) = input() {
        let shown = ShownIfUnwinding(|| eprintln!("{:#?}", input()));
        target(found);
        drop(shown);
    }
}

struct ShownIfUnwinding<F: Fn()>(F);

impl<F: Fn()> Drop for ShownIfUnwinding<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

/// Returns the target with this name.
///
/// # Panics
///
/// If there is none.
pub fn target_named(name: &str) -> fn(&[u8]) {
    TARGETS.into_iter().find_map(|(other, target)| (other == name).then_some(target)).expect("there is such a target")
}

/// Runs the files named as arguments through a target.
///
/// # Panics
///
/// If a file cannot be read, or if the target finds a failure.
pub fn replay(name: &str) {
    let target = target_named(name);
    for path in std::env::args_os().skip(1) {
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        target(&bytes);
        println!("{}: ok", path.display());
    }
}

/// Defines a target's program, for libFuzzer or else to replay files.
#[macro_export]
macro_rules! target {
    ($name:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $crate::target_named(stringify!($name))(bytes));

        #[cfg(not(fuzzing))]
        fn main() {
            $crate::replay(stringify!($name));
        }
    };
}
