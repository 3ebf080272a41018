//! Limits of requests per second.

use crate::kind::Kind;
use crate::section::{Conflict, ConflictKind, section};
use crate::setting::{Setting, Why, Written};
use crate::value::Value;
use damper_core::Quota;
use damper_core::limit::RateLimiter;
use std::time::Duration;

/// The key of a server's limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitKey {
    /// One limit for all requests.
    Global,
    /// One for each client address.
    Client,
    /// One for each value of the header of this name, which is in lower case.
    Header(String),
}

/// The characters of a header's name, in lower case.
fn is_header_name(name: &str) -> bool {
    let is_token = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&c);
    (1..=256).contains(&name.len()) && name.bytes().all(is_token)
}

impl Setting for LimitKey {
    fn read(value: &Value, _: &Kind) -> Result<Self, Why> {
        let (Value::Text(text) | Value::Untyped(text)) = value else { return Err(None) };
        match text.trim() {
            "global" => Ok(Self::Global),
            "client" => Ok(Self::Client),
            other => {
                let name = other.strip_prefix("header:").ok_or(None)?.trim().to_ascii_lowercase();
                let is_name = is_header_name(&name);
                is_name.then_some(Self::Header(name)).ok_or_else(|| Some("this is no name of a header".to_owned()))
            }
        }
    }

    fn write(&self) -> Written {
        Written::Text(match self {
            Self::Global => "global".to_owned(),
            Self::Client => "client".to_owned(),
            Self::Header(name) => format!("header:{name}"),
        })
    }
}

const RATE: Kind = Kind::Number { min: 0.001, max: Kind::MAX_RATE as f64 };
const BURST: Kind = Kind::Count { min: 1, max: Kind::MAX_RATE };
const MAX_TIERS: usize = 15;

section! {
    /// How many requests a server takes in a second. A request over the limit is refused.
    RateLimitSettings {
        /// How many requests are allowed a second. A fraction is allowed: 0.5 is one every two seconds.
        requests_per_second: f64 = 50.0, RATE, Live;
        /// How many requests may come at once.
        burst: u32 = 100, BURST, Live;
        /// Rate and burst in one, for windows other than a second. Stands instead of `requests_per_second` and `burst`.
        quota: Option<Quota> = None, Kind::Quota, Live;
        /// The key of the limit.
        key: LimitKey = LimitKey::Global, Kind::LimitKey, Restart;
        /// For how many busy keys the table of a limit per client or header is sized.
        max_keys: u32 = 8192, Kind::Count { min: 1, max: 1 << 24 }, Restart;
        /// How many bits of an IPv6 address are one client.
        ipv6_prefix: u32 = 64, Kind::Count { min: 1, max: 128 }, Restart;
        /// The proxies whose `X-Forwarded-For` is believed. Only with the key `client`.
        trusted_proxies: Vec<ipnet::IpNet> = Vec::new(), Kind::Networks, Restart;
        /// The quotas of further tiers of a limiter per key. The program says which key is in which tier.
        tiers: Vec<Quota> = Vec::new(), Kind::Quotas { max: MAX_TIERS }, Live;
    }
    check |settings, given| quota_conflict(settings.quota, settings.requests_per_second, given)
}

section! {
    /// How many calls a client makes in a second. A call over the limit waits.
    ClientRateLimitSettings {
        /// How many calls are allowed a second. A fraction is allowed: 0.5 is one every two seconds.
        requests_per_second: f64 = 50.0, RATE, Live;
        /// How many calls may be made at once.
        burst: u32 = 100, BURST, Live;
        /// Rate and burst in one, for windows other than a second. Stands instead of `requests_per_second` and `burst`.
        quota: Option<Quota> = None, Kind::Quota, Live;
        /// How long a call waits for its turn. For the program to apply.
        max_wait: Duration = Duration::from_secs(1), Kind::Duration { min: Duration::ZERO, max: super::DAY }, Restart;
    }
    check |settings, given| quota_conflict(settings.quota, settings.requests_per_second, given)
}

fn quota_conflict(quota: Option<Quota>, per_second: f64, given: &dyn Fn(&str) -> bool) -> Option<Conflict> {
    let is_slower = quota.is_some_and(|quota| f64::from(quota.limit()) <= per_second * quota.window().as_secs_f64());
    (given("quota") && (given("requests_per_second") || given("burst"))).then(|| Conflict {
        kind: ConflictKind::Instead,
        keys: &["quota", "requests_per_second", "burst"],
        looser: if is_slower { &["requests_per_second", "burst"] } else { &["quota"] },
        expected: "quota stands instead of requests_per_second and burst, give one or the other".to_owned(),
    })
}

/// Returns the quota of a rate. Where no quota is exact, it is slower by less than a thousandth.
fn quota_of(per_second: f64, burst: u32) -> Quota {
    let quota = if per_second.fract() == 0.0 || per_second >= 1_000.0 {
        Quota::per_second(per_second as u32)
    } else {
        let nanos = (1e9 / per_second).ceil().max(1.0) as u64;
        // The range of rates ends at one token in 1000 s.
        Quota::every(Duration::from_nanos(nanos)).unwrap_or(Quota::per_second(1))
    };
    quota.burst(burst)
}

impl RateLimitSettings {
    /// Returns the quota: `quota`, or what `requests_per_second` and `burst` make.
    pub fn effective_quota(&self) -> Quota {
        self.quota.unwrap_or_else(|| quota_of(self.requests_per_second, self.burst))
    }

    /// Builds a limiter for all requests together, whatever [`key`](Self::key) says: only `layer` and `limit` (feature `http`) apply
    /// `key`, `ipv6_prefix` and `trusted_proxies`.
    #[must_use]
    pub fn limiter(&self) -> RateLimiter {
        RateLimiter::new(self.effective_quota())
    }

    /// Starts a limiter per key. The program says what the key is, whatever [`key`](Self::key) says; for [tiers](damper_core::keyed::KeyedLimiterBuilder::tiers) and other settings of the program.
    pub fn keyed_builder<K: ?Sized>(&self) -> damper_core::keyed::KeyedLimiterBuilder<K> {
        damper_core::keyed::KeyedLimiter::builder(self.effective_quota()).capacity(self.max_keys as usize)
    }
}

impl ClientRateLimitSettings {
    /// Returns the quota: `quota`, or what `requests_per_second` and `burst` make.
    pub fn effective_quota(&self) -> Quota {
        self.quota.unwrap_or_else(|| quota_of(self.requests_per_second, self.burst))
    }

    /// Builds a limiter for all calls together. It does not know [`max_wait`](Self::max_wait): pass that to the call that waits.
    #[must_use]
    pub fn limiter(&self) -> RateLimiter {
        RateLimiter::new(self.effective_quota())
    }
}
