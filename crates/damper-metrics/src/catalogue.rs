//! The metrics of all crates of damper, each described in one place.
//!
//! Names follow the conventions of Prometheus: base units, and `_total` for counters. The first label is the name of a limit, a breaker
//! or another source, as the program gave it. The values of the other labels are fixed words, numbers of tiers, lengths of prefixes, names
//! of a tree's levels, dimensions and plans, and the names of functions to which the program gave a limit. No client or server can choose a label, so the number of series is bounded.
//!
//! The file [`reference.md`](https://github.com/damper-rs/damper/blob/main/crates/damper-metrics/reference.md) has the list as a table.

use crate::metric::{Kind, Metric};
use metrics::Unit;

/// Declares the metrics, with [`ALL`] of them.
macro_rules! catalogue {
    ($($constant:ident: $kind:ident $name:literal [$($label:literal),+] $unit:ident $help:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "`: ", $help)]
            pub const $constant: Metric = Metric::new($name, Kind::$kind, Unit::$unit, &[$($label),+], $help);
        )*

        /// All metrics, in the order of the reference.
        pub const ALL: &[Metric] = &[$($constant),*];
    };
}

catalogue! {
    LIMIT_ALLOWED: Counter "damper_limit_allowed_total" ["limit"] Count "Requests that a layer's limit let pass.";
    LIMIT_REFUSED: Counter "damper_limit_refused_total" ["limit", "tier", "prefix", "part", "level", "dimension", "plan", "scope"] Count "Requests that a layer's limit refused.";
    LIMIT_ERRORS: Counter "damper_limit_errors_total" ["limit", "cause"] Count "Requests that a layer's limit could not decide on.";
    LIMIT_RATE: Gauge "damper_limit_tokens_per_second" ["limit", "tier", "prefix", "part", "scope", "function"] CountPerSecond "Tokens that the quota in force refills in a second.";
    LIMIT_BURST: Gauge "damper_limit_burst_tokens" ["limit", "tier", "prefix", "part", "scope", "function"] Count "Tokens that can be taken at once from a full limit.";
    LIMIT_REMAINING: Gauge "damper_limit_remaining_tokens" ["limit", "part", "scope", "function"] Count "Tokens that can be taken now.";
    LIMIT_DEBT: Gauge "damper_limit_debt_tokens" ["limit", "part", "scope", "function"] Count "Tokens that waiters and charges have taken in advance.";
    LIMIT_PAUSE: Gauge "damper_limit_pause_seconds" ["limit"] Seconds "Time until a paused limiter goes on.";
    LIMIT_KEYS: Gauge "damper_limit_keys" ["limit", "tier", "prefix", "level", "scope"] Count "Keys that have a slot in the table.";
    LIMIT_KEYS_OWING: Gauge "damper_limit_keys_owing" ["limit", "tier", "prefix", "scope"] Count "Keys with tokens that are taken and not yet refilled.";
    LIMIT_KEYS_EXHAUSTED: Gauge "damper_limit_keys_exhausted" ["limit", "tier", "prefix", "scope"] Count "Keys that have no token left.";
    LIMIT_KEYS_CAPACITY: Gauge "damper_limit_keys_capacity" ["limit", "prefix", "level", "scope"] Count "Keys that the table was built for.";
    LIMIT_EVICTIONS: Counter "damper_limit_evictions_total" ["limit", "prefix", "level", "scope"] Count "Keys that lost their slot while they owed something.";
    LIMIT_OVERFLOWS: Counter "damper_limit_overflows_total" ["limit", "prefix", "level", "scope"] Count "Calls decided by a word that keys without a slot share.";
    LIMIT_SHARED_WORDS_SEEN: Counter "damper_limit_shared_words_seen_total" ["limit", "prefix", "level", "scope"] Count "Words for keys without a slot that newcomers saw.";
    LIMIT_SHARED_WORDS_BUSY: Counter "damper_limit_shared_words_busy_total" ["limit", "prefix", "level", "scope"] Count "Those that owed something. Their share warns at 0.4 that the table becomes too small.";
    LIMIT_REFUSED_NEWCOMERS: Counter "damper_limit_refused_newcomers_total" ["limit", "prefix", "level", "scope"] Count "Calls refused to keys without a slot.";

    REDIS_DECISIONS: Counter "damper_redis_decisions_total" ["limit", "by", "verdict"] Count "Checks of a limit across machines that the server, the policy or this process decided, but for those that leased tokens allowed.";
    REDIS_POLICY: Gauge "damper_redis_policy_in_force" ["limit", "policy"] Count "1 while this policy decides because the server does not answer, otherwise 0.";
    REDIS_COMMANDS: Counter "damper_redis_commands_total" ["limit"] Count "Commands that were sent to decide, to lease or to give back.";
    REDIS_FAILURES: Counter "damper_redis_failures_total" ["limit"] Count "Commands without an answer in time, or with an error.";
    REDIS_CONNECTIONS: Counter "damper_redis_connections_total" ["limit"] Count "Connections that were made.";
    REDIS_TOKENS_BY_LEASE: Counter "damper_redis_lease_tokens_total" ["limit"] Count "Tokens that left leases of this process: admitted, or expired.";
    REDIS_GRANTS: Counter "damper_redis_grants_total" ["limit"] Count "Grants of leases that were not empty.";
    REDIS_TOKENS_GRANTED: Counter "damper_redis_granted_tokens_total" ["limit"] Count "Tokens that were granted to leases of this process.";
    REDIS_LEASED: Gauge "damper_redis_leased_tokens" ["limit"] Count "Leased tokens that this process can spend now.";
    REDIS_PROCESSES: Gauge "damper_redis_processes" ["limit"] Count "Processes that share the limit, as this one was last told.";
    REDIS_KEYS: Gauge "damper_redis_keys" ["limit"] Count "Keys that this process keeps.";
    REDIS_LOSSES: Counter "damper_redis_losses_total" ["limit"] Count "Losses of the server's memory that this process noticed.";

    BREAKER_ALLOWED: Counter "damper_breaker_allowed_total" ["breaker"] Count "Calls that a layer's breakers let pass.";
    BREAKER_REFUSED: Counter "damper_breaker_refused_total" ["breaker"] Count "Calls that a layer's breakers refused.";
    BREAKER_PROBES: Counter "damper_breaker_probes_total" ["breaker"] Count "Calls that passed as probes.";
    BREAKER_TRANSITIONS: Counter "damper_breaker_transitions_total" ["breaker", "from", "to"] Count "State changes of breakers.";
    BREAKER_STATE: Gauge "damper_breaker_state" ["breaker", "state"] Count "Breakers in this state.";
    BREAKER_CONSECUTIVE_FAILURES: Gauge "damper_breaker_consecutive_failures" ["breaker"] Count "Failures since the last success; of several breakers the most.";
    BREAKER_WINDOW_CALLS: Gauge "damper_breaker_window_calls" ["breaker"] Count "Calls in the window of outcomes; of several breakers the sum.";
    BREAKER_WINDOW_FAILURES: Gauge "damper_breaker_window_failures" ["breaker"] Count "Failures in the window of outcomes; of several breakers the sum.";
    BREAKER_WINDOW_SLOW_CALLS: Gauge "damper_breaker_window_slow_calls" ["breaker"] Count "Slow calls in the window of outcomes; of several breakers the sum.";
    BREAKER_PROBES_IN_FLIGHT: Gauge "damper_breaker_probes_in_flight" ["breaker"] Count "Probes in flight.";
    BREAKER_KEYS: Gauge "damper_breaker_keys" ["breaker"] Count "Keys that have a breaker.";
    BREAKER_KEYS_CAPACITY: Gauge "damper_breaker_keys_capacity" ["breaker"] Count "Keys that can have a breaker.";
    BREAKER_EVICTIONS: Counter "damper_breaker_evictions_total" ["breaker"] Count "Keys whose breakers made room for others.";
    BREAKER_KEPT_EVICTIONS: Counter "damper_breaker_kept_evictions_total" ["breaker"] Count "Evicted breakers that were open, or worth keeping for another reason.";

    CONCURRENCY_ALLOWED: Counter "damper_concurrency_allowed_total" ["limit", "side"] Count "Calls that a layer's concurrency limit let pass.";
    CONCURRENCY_REFUSED: Counter "damper_concurrency_refused_total" ["limit", "side", "cause"] Count "Calls that a layer's concurrency limit refused.";
    CONCURRENCY_LIMIT: Gauge "damper_concurrency_limit" ["limit", "side"] Count "Calls that may be in flight.";
    CONCURRENCY_IN_FLIGHT: Gauge "damper_concurrency_in_flight" ["limit", "side"] Count "Calls that hold a permit; of several limits the sum.";
    CONCURRENCY_QUEUED: Gauge "damper_concurrency_queued" ["limit", "side", "class"] Count "Calls that wait for a permit; of several limits the sum.";
    CONCURRENCY_WAITS: Counter "damper_concurrency_waits_total" ["limit", "side"] Count "Calls that have joined the queue.";
    CONCURRENCY_BASELINE: Gauge "damper_concurrency_baseline_seconds" ["limit", "side"] Seconds "Latency of an unloaded service, as an adaptive limit has learned it.";
    CONCURRENCY_SERVICE_TIME: Gauge "damper_concurrency_service_seconds" ["limit", "side"] Seconds "Median of recent service times.";
    CONCURRENCY_KEYS: Gauge "damper_concurrency_keys" ["limit", "side"] Count "Keys that have a concurrency limit.";
    CONCURRENCY_KEYS_FULL: Gauge "damper_concurrency_keys_full" ["limit", "side"] Count "Keys whose concurrency limit has no permit left.";
    CONCURRENCY_KEYS_CAPACITY: Gauge "damper_concurrency_keys_capacity" ["limit", "side"] Count "Keys that can have a concurrency limit.";
    CONCURRENCY_EVICTIONS: Counter "damper_concurrency_evictions_total" ["limit", "side"] Count "Keys whose idle limits made room for others.";

    THROTTLE_ALLOWED: Counter "damper_throttle_allowed_total" ["throttle"] Count "Calls that a layer's throttles let pass.";
    THROTTLE_REFUSED: Counter "damper_throttle_refused_total" ["throttle"] Count "Calls that a layer's throttles refused.";
    THROTTLE_REFUSED_RATIO: Gauge "damper_throttle_refused_ratio" ["throttle"] Count "Share of the calls that a throttle refuses now, from 0 to 0.99; of several throttles the highest.";
    THROTTLE_RECENT_CALLS: Gauge "damper_throttle_recent_calls" ["throttle"] Count "Calls of the last 30 seconds; of several throttles the sum.";
    THROTTLE_RECENT_ACCEPTED: Gauge "damper_throttle_recent_accepted" ["throttle"] Count "Calls of the last 30 seconds that the service accepted; of several throttles the sum.";
    THROTTLE_KEYS: Gauge "damper_throttle_keys" ["throttle"] Count "Keys that have a throttle.";
    THROTTLE_KEYS_CAPACITY: Gauge "damper_throttle_keys_capacity" ["throttle"] Count "Keys that can have a throttle.";
    THROTTLE_EVICTIONS: Counter "damper_throttle_evictions_total" ["throttle"] Count "Keys whose throttles made room for others.";

    PACING_CALLS: Counter "damper_pacing_calls_total" ["pacing"] Count "Paced calls.";
    PACING_REFUSED: Counter "damper_pacing_refused_total" ["pacing"] Count "Calls that were not made, because their deadline did not leave the sleep.";
    PACING_REJECTED: Counter "damper_pacing_rejected_total" ["pacing"] Count "Attempts that the server's limit rejected.";
    PACING_SLEEP: Histogram "damper_pacing_sleep_seconds" ["pacing"] Seconds "Sleeps before calls.";
    PACING_NEXT_SLEEP: Gauge "damper_pacing_next_sleep_seconds" ["pacing"] Seconds "The least that a call would sleep now.";

    HEDGE_REQUESTS: Counter "damper_hedge_requests_total" ["hedge"] Count "Extra requests beside a slow or after a failed one.";
    HEDGE_NOT_MADE: Counter "damper_hedge_not_made_total" ["hedge", "reason"] Count "Extra requests that were due, and that the allowance of the hedge or its budget refused.";
    HEDGE_DELAY: Gauge "damper_hedge_delay_seconds" ["hedge"] Seconds "Delay before another attempt; NaN while too few recent calls were seen.";
    HEDGE_MEDIAN_LATENCY: Gauge "damper_hedge_median_latency_seconds" ["hedge"] Seconds "Median latency of first attempts; NaN while too few were seen, or with a fixed delay. A delay of many times as much says that more calls are slow than are hedged.";

    RETRY_REQUESTS: Counter "damper_retry_requests_total" ["retry"] Count "Requests that were sent again after a failed attempt.";
    RETRY_NOT_MADE: Counter "damper_retry_not_made_total" ["retry", "reason"] Count "Failures that could be retried, and were not: no attempts were left, or the budget, the deadline or the pacing did not allow it.";
    RETRY_BUDGET_LEFT: Gauge "damper_retry_budget_retries_left" ["budget"] Count "Retries that the budget would allow now.";

    DEADLINE_EXCEEDED: Counter "damper_deadline_exceeded_total" ["deadline", "side", "stage"] Count "Calls that ended by their deadline.";
    DEADLINE_SKEWED: Counter "damper_deadline_skewed_total" ["deadline"] Count "Requests that were served though their deadline had passed on arrival, because clocks differ.";
    LATENCY_P90: Gauge "damper_latency_p90_seconds" ["latency"] Seconds "Latency that nine of ten successful calls stay below.";

    SHADOW_REFUSALS: Counter "damper_shadow_refusals_total" ["shadow", "by", "side"] Count "Calls refused by a candidate, by what is in force beside it, or by both.";

    STORE_ENTRIES: Gauge "damper_store_entries" ["store"] Count "Entries of a store.";
    STORE_CAPACITY: Gauge "damper_store_capacity" ["store"] Count "Entries that a store has room for.";
    STORE_EVICTIONS: Counter "damper_store_evictions_total" ["store"] Count "Entries that made room for others.";
    STORE_KEPT_EVICTIONS: Counter "damper_store_kept_evictions_total" ["store"] Count "Evicted entries that the store was to keep.";
}

/// Gives the units and the help texts of all metrics to the installed recorder.
///
/// [`Exporter::record`](crate::Exporter::record) does so at its first call. A program without an exporter calls this after it has
/// installed the recorder.
pub fn describe() {
    ALL.iter().for_each(Metric::describe);
}
