//! The limiters as sources of damper-metrics.

use crate::by_plan::{PlannedRedisLimiter, RedisTree};
use crate::limiter::{KeyedRedisLimiter, RedisCounts, RedisLimiter, RedisStatus, WhenDown};
use damper_core::Quota;
use damper_metrics::catalogue::{
    LIMIT_BURST, LIMIT_RATE, REDIS_COMMANDS, REDIS_CONNECTIONS, REDIS_DECISIONS, REDIS_FAILURES, REDIS_GRANTS,
    REDIS_KEYS, REDIS_LEASED, REDIS_LOSSES, REDIS_POLICY, REDIS_PROCESSES, REDIS_TOKENS_BY_LEASE, REDIS_TOKENS_GRANTED,
};
use damper_metrics::{Readings, Source};

const POLICIES: [WhenDown; 3] = [WhenDown::LocalShare, WhenDown::Open, WhenDown::Closed];

/// Records the rate and the burst of each quota. If there are several, the label `part` has the index.
fn record_quotas(readings: &Readings<'_>, quotas: &[Quota]) {
    for (index, quota) in quotas.iter().enumerate() {
        let of_part;
        let readings = if quotas.len() > 1 {
            of_part = readings.with("part", index.to_string());
            &of_part
        } else {
            readings
        };
        let (rate, burst) = if quota.is_unlimited() {
            (f64::INFINITY, f64::INFINITY)
        } else {
            (f64::from(quota.limit()) / quota.window().as_secs_f64(), f64::from(quota.burst_size()))
        };
        readings.record(&LIMIT_RATE, rate);
        readings.record(&LIMIT_BURST, burst);
    }
}

/// Records who decides, and the counts.
fn record(readings: &Readings<'_>, status: &RedisStatus, counts: &RedisCounts) {
    let decisions = [
        ("server", "allowed", counts.allowed_by_server),
        ("server", "denied", counts.denied_by_server),
        ("policy", "allowed", counts.allowed_by_policy),
        ("policy", "denied", counts.denied_by_policy),
        ("process", "denied", counts.denied_locally),
    ];
    for (by, verdict, decisions) in decisions {
        readings.with("by", by).with("verdict", verdict).record_number(&REDIS_DECISIONS, decisions);
    }
    // All policies are recorded, so that one that is no longer in force is 0.
    for policy in POLICIES {
        let in_force = u64::from(status.policy == Some(policy));
        readings.with("policy", policy.name()).record_number(&REDIS_POLICY, in_force);
    }
    readings.record_number(&REDIS_COMMANDS, counts.commands);
    readings.record_number(&REDIS_FAILURES, counts.failures);
    readings.record_number(&REDIS_CONNECTIONS, counts.connections);
    readings.record_number(&REDIS_TOKENS_BY_LEASE, counts.tokens_by_lease);
    readings.record_number(&REDIS_GRANTS, counts.grants);
    readings.record_number(&REDIS_TOKENS_GRANTED, counts.tokens_granted);
    readings.record_number(&REDIS_LEASED, status.leased);
    readings.record_number(&REDIS_PROCESSES, status.processes.into());
    readings.record_number(&REDIS_LOSSES, counts.losses);
}

/// Reads the quotas, who decides, and the counts of the limiter.
impl Source for RedisLimiter {
    fn read(&self, readings: &Readings<'_>) {
        record_quotas(readings, self.quotas());
        record(readings, &self.status(), &self.counts());
    }
}

/// Reads the same for all keys together, and the number of keys that this process keeps.
impl Source for KeyedRedisLimiter {
    fn read(&self, readings: &Readings<'_>) {
        record_quotas(readings, self.quotas());
        record(readings, &self.status(), &self.counts());
        readings.record_number(&REDIS_KEYS, self.len() as u64);
    }
}

/// Reads who decides, the counts, and the number of keys that this process remembers.
impl Source for PlannedRedisLimiter {
    fn read(&self, readings: &Readings<'_>) {
        record(readings, &self.status(), &self.counts());
        readings.record_number(&REDIS_KEYS, self.len() as u64);
    }
}

/// Reads the same for all buckets together, and the number of those that this process remembers.
impl<const LEVELS: usize, const DIMENSIONS: usize> Source for RedisTree<LEVELS, DIMENSIONS> {
    fn read(&self, readings: &Readings<'_>) {
        record(readings, &self.status(), &self.counts());
        readings.record_number(&REDIS_KEYS, self.len() as u64);
    }
}
