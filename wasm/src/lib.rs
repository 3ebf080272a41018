//! A limiter and a breaker in a WebAssembly module: a plugin of an edge proxy, or a part of a page.
//!
//! WebAssembly has no clock of its own. The host lends one, as it lends everything else.
//!
//! The two places with `unsafe` name functions to and from the host, which Rust cannot check. No memory is shared.
#![no_std]

use core::time::Duration;
use damper::{BreakerConfig, CallError, CircuitBreaker, Clock, Quota, RateLimiter, TokenBucket};

// SAFETY: the host provides these functions with these types, or the module does not start: WebAssembly compares them. They take
// no pointers, so any call is safe.
#[link(wasm_import_module = "host")]
unsafe extern "C" {
    /// `performance.now()` of the host: milliseconds that never step back, with fractions.
    safe fn performance_now() -> f64;

    /// Calls the upstream server, and returns the status of its response.
    safe fn fetch() -> u32;
}

/// The host's time, in microseconds.
#[derive(Clone, Copy, Debug)]
struct HostClock;

impl Clock for HostClock {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time since the page was loaded")]
    fn now(&self) -> u64 {
        (performance_now() * 1_000.0) as u64
    }

    fn frequency(&self) -> u64 {
        1_000_000
    }
}

/// Ten calls a second, five at once.
static CALLS: RateLimiter<TokenBucket, HostClock> = RateLimiter::with_clock(Quota::per_second(10).burst(5), HostClock);

/// After three consecutive failures the upstream server is left alone for a second.
static UPSTREAM: CircuitBreaker<HostClock> = CircuitBreaker::with_clock(UPSTREAM_CONFIG, HostClock);
const UPSTREAM_CONFIG: BreakerConfig =
    match BreakerConfig::builder().failure_threshold(3).cooldown(Duration::from_secs(1)).build() {
        Ok(config) => config,
        Err(_) => panic!("a setting is out of range"),
    };

/// Makes one call, and returns the status for the client.
///
/// 429 if there are too many calls, and 503 while the upstream server is left alone.
// SAFETY: the module has no other function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn call() -> u32 {
    if CALLS.check().is_err() {
        return 429;
    }
    let response = UPSTREAM.call(|| match fetch() {
        status @ 500.. => Err(status),
        status => Ok(status),
    });
    match response {
        Ok(status) | Err(CallError::Failed(status)) => status,
        Err(CallError::Refused(_)) => 503,
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
