//! Limits of requests per second.

use super::Tiers;
use crate::kind::Kind;
use crate::section::{Conflict, Instead, section};
use crate::setting::{Choice, Refusal, Setting, Written, choice, header_name};
use crate::value::Value;
use damper_core::concurrency::Criticality;
use damper_core::keyed::WhenFull;
use damper_core::limit::{Alignment, FixedWindow, LeakyBucket, Limiter, RateLimiter, SlidingCounter, SlidingLog};
use damper_core::{Monotonic, OutOfRange, Quota};
use std::iter;
use std::sync::Arc;
use std::time::Duration;

/// The key of a server's limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LimitKey {
    /// One limit for all requests.
    Global,
    /// One for each client address.
    Client,
    /// One for each path, which is the full method in gRPC.
    Path,
    /// One for each value of the header of this name, which is in lower case.
    Header(String),
}

impl Setting for LimitKey {
    fn read(value: &Value, _: &Kind) -> Result<Self, Refusal> {
        let (Value::Text(text) | Value::Untyped(text)) = value else { return Err(Refusal::OTHER_KIND) };
        match text.trim() {
            "global" => Ok(Self::Global),
            "client" => Ok(Self::Client),
            "path" => Ok(Self::Path),
            other => {
                let name = other.strip_prefix("header:").ok_or(Refusal::OTHER_KIND)?;
                header_name(name.trim()).map(Self::Header)
            }
        }
    }

    fn write(&self, _: &Kind) -> Written {
        Written::Text(match self {
            Self::Global => "global".to_owned(),
            Self::Client => "client".to_owned(),
            Self::Path => "path".to_owned(),
            Self::Header(name) => format!("header:{name}"),
        })
    }
}

/// How a limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum LimitAlgorithm {
    /// Tokens that are refilled at the rate, up to the burst.
    #[default]
    TokenBucket,
    /// A level that leaks at the rate, up to the burst.
    LeakyBucket,
    /// A count for each window.
    FixedWindow,
    /// A count for the last window, estimated from the counts of two windows.
    SlidingCounter,
    /// The times of the requests of the last window.
    SlidingLog,
}

choice! { LimitAlgorithm {
    "token_bucket" => LimitAlgorithm::TokenBucket,
    "leaky_bucket" => LimitAlgorithm::LeakyBucket,
    "fixed_window" => LimitAlgorithm::FixedWindow,
    "sliding_counter" => LimitAlgorithm::SlidingCounter,
    "sliding_log" => LimitAlgorithm::SlidingLog,
} }

/// Which responses carry the headers of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum LimitHeaders {
    /// Refusals carry `RateLimit` and `RateLimit-Policy`.
    #[default]
    OnRefusals,
    /// All responses carry `RateLimit` and `RateLimit-Policy`.
    OnAllResponses,
    /// Refusals carry these and the `X-RateLimit` headers.
    OnRefusalsWithX,
    /// All responses carry these and the `X-RateLimit` headers.
    OnAllResponsesWithX,
}

choice! { LimitHeaders {
    "on_refusals" => LimitHeaders::OnRefusals,
    "on_all_responses" => LimitHeaders::OnAllResponses,
    "on_refusals_with_x" => LimitHeaders::OnRefusalsWithX,
    "on_all_responses_with_x" => LimitHeaders::OnAllResponsesWithX,
} }

/// The header in which trusted proxies write the address of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum ProxyHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded`, of RFC 7239.
    Forwarded,
}

choice! { ProxyHeader {
    "x_forwarded_for" => ProxyHeader::XForwardedFor,
    "forwarded" => ProxyHeader::Forwarded,
} }

choice! { Alignment {
    "first_request" => Alignment::FirstRequest,
    "utc" => Alignment::WallClock,
} }

choice! { WhenFull {
    "shared_overflow" => WhenFull::SharedOverflow,
    "deny_new" => WhenFull::DenyNew,
    "evict_least_indebted" => WhenFull::EvictLeastIndebted,
} }

impl LimitAlgorithm {
    /// Returns whether the algorithm has windows that can be aligned.
    pub(crate) fn has_windows(self) -> bool {
        matches!(self, Self::FixedWindow | Self::SlidingCounter)
    }

    /// Returns whether the algorithm can have a limit per key.
    fn is_keyed(self) -> bool {
        matches!(self, Self::TokenBucket | Self::FixedWindow | Self::SlidingCounter)
    }

    /// Returns the largest limit of a window, for all requests together or for each key.
    fn largest_limit(self, is_keyed: bool) -> u32 {
        match self {
            Self::FixedWindow if is_keyed => LARGEST_FIXED_PER_KEY,
            Self::SlidingCounter if is_keyed => LARGEST_SLIDING_PER_KEY,
            Self::TokenBucket | Self::LeakyBucket | Self::FixedWindow => u32::MAX,
            Self::SlidingCounter => 10_000_000,
            // The times of these requests take eight megabytes.
            Self::SlidingLog => 1_000_000,
        }
    }
}

const RATE: Kind = Kind::Number { min: 0.001, max: Kind::MAX_RATE as f64 };
const BURST: Kind = Kind::Count { min: 1, max: Kind::MAX_RATE };
const MAX_TIERS: usize = 15;

/// The largest limit of a key's fixed window in damper-core.
pub(super) const LARGEST_FIXED_PER_KEY: u32 = u32::MAX - 1;

/// The largest limit of a key's sliding counter in damper-core, whose counts have 20 bits.
pub(super) const LARGEST_SLIDING_PER_KEY: u32 = (1 << 20) - 2;

section! {
    /// How many requests a server takes in a second. A request over the limit is refused, or marked.
    RateLimitSettings {
        /// How many requests are allowed a second. A fraction is allowed: 0.5 is one every two seconds.
        requests_per_second: f64 = 50.0, RATE, Live;
        /// How many requests may come at once.
        burst: u32 = 100, BURST, Live;
        /// Rate and burst in one, for windows other than a second.
        ///
        /// Stands instead of `requests_per_second` and `burst`.
        quota: Option<Quota> = None, Kind::Quota, Live;
        /// How the limit counts.
        ///
        /// Windows take as many as the rate says in each, without a burst. Leaky buckets and sliding logs are for the key `global`.
        algorithm: LimitAlgorithm = LimitAlgorithm::TokenBucket, LimitAlgorithm::KIND, Restart private;
        /// Where windows begin: with the first request, or at multiples of the window since the Unix epoch.
        ///
        /// With `utc`, a minute begins at a full minute and a day at midnight UTC. Only with `fixed_window` and `sliding_counter`.
        alignment: Alignment = Alignment::FirstRequest, Alignment::KIND, Restart;
        /// Which responses carry the headers of the limit.
        ///
        /// `on_refusals_with_x` and `on_all_responses_with_x` add those that begin with `X-RateLimit`.
        headers: LimitHeaders = LimitHeaders::OnRefusals, LimitHeaders::KIND, Restart private;
        /// Whether a request over the limit passes with a mark, instead of a refusal. Only in stacks.
        ///
        /// The marks are in the extensions of the request, where handlers find them.
        mark: bool = false, Kind::Flag, Restart;
        /// The header that lists the marks of a request. Unset: none. Only with `mark`.
        ///
        /// It is for servers behind this one. No client can send it. It must be another header than those of classes and tenants.
        mark_header: Option<String> = None, Kind::HeaderName, Restart;
        /// The class of a marked request, unless it has a lower one. Unset: it keeps its class. Only with `mark`.
        ///
        /// `admission` serves low classes last.
        mark_class: Option<Criticality> = None, Criticality::KIND, Restart;
        /// The key of the limit.
        key: LimitKey = LimitKey::Global, Kind::LimitKey, Restart private;
        /// For how many busy keys the table of a limit per client or header is sized.
        max_keys: u32 = 8192, Kind::Count { min: 1, max: 1 << 24 }, Restart;
        /// The fate of a new key when the table is full. Only with another key than `global`.
        ///
        /// It shares a quota with others, or is refused, or takes the slot of the key that is full soonest.
        when_full: WhenFull = WhenFull::SharedOverflow, WhenFull::KIND, Restart;
        /// How many bits of an IPv6 address are one client.
        ipv6_prefix: u32 = 64, Kind::Count { min: 1, max: 128 }, Restart;
        /// The proxies whose `proxy_header` is believed. Only with the key `client`.
        trusted_proxies: Vec<ipnet::IpNet> = Vec::new(), Kind::Networks, Restart;
        /// The header in which the trusted proxies write the address of a client. The other one is not read.
        proxy_header: ProxyHeader = ProxyHeader::XForwardedFor, ProxyHeader::KIND, Restart private;
        /// The quotas of further tiers of a limiter per key, by name: `free` in a table `tiers`.
        ///
        /// A list of quotas is accepted too. The program says which key is in which tier.
        tiers: Tiers = Tiers::default(), Kind::Tiers { max: MAX_TIERS }, Live;
    }
    instead |settings| quota_instead(settings.quota, settings.requests_per_second);
    check |settings| settings.mark_contradiction().or_else(|| settings.algorithm_contradiction());
}

section! {
    /// How many calls a client makes in a second. A call over the limit waits.
    ClientRateLimitSettings {
        /// How many calls are allowed a second. A fraction is allowed: 0.5 is one every two seconds.
        requests_per_second: f64 = 50.0, RATE, Live;
        /// How many calls may be made at once.
        burst: u32 = 100, BURST, Live;
        /// Rate and burst in one, for windows other than a second.
        ///
        /// Stands instead of `requests_per_second` and `burst`.
        quota: Option<Quota> = None, Kind::Quota, Live;
        /// How long a call waits for its turn. The layers and stacks that are built from settings apply it.
        max_wait: Duration = Duration::from_secs(1), Kind::Duration { min: Duration::ZERO, max: super::DAY }, Live;
    }
    instead |settings| quota_instead(settings.quota, settings.requests_per_second);
}

/// Returns the rule by which a quota replaces a rate and a burst.
fn quota_instead(quota: Option<Quota>, per_second: f64) -> Instead {
    let is_slower = quota.is_some_and(|quota| f64::from(quota.limit()) <= per_second * quota.window().as_secs_f64());
    Instead {
        key: "quota",
        others: &["requests_per_second", "burst"],
        conflict: Conflict {
            keys: &["quota", "requests_per_second", "burst"],
            looser: if is_slower { &["requests_per_second", "burst"] } else { &["quota"] },
            expected: "quota stands instead of requests_per_second and burst, give one or the other",
        },
    }
}

/// The quota that limiters of settings have [room](RateLimiter::up_to) for.
///
/// A reload can then set every quota of the range, whatever the first quota and the frequency of the machine's clock are. A limit
/// takes rates up to 1,024 times the fastest quota that it has room for. If it counts in windows, it takes windows down to a
/// 1,024th of that quota's. The range ends at 10,000,000 requests a second, and at a request in 100 ns: a thousand times this quota.
///
/// In return, a token or a window is counted in larger steps: in 2^18 of them on a clock of nanoseconds. A token of `1/h` may
/// come 14 ms early.
pub(crate) const ROOM: Quota = match Quota::every(Duration::from_micros(100)) {
    Ok(quota) => quota.burst(Kind::MAX_RATE),
    // The compiler computes the constant, so this would be an error of the build.
    Err(_) => panic!("the window is too short"),
};

/// Returns the quota of a rate. If no quota is exact, it is slower by less than a thousandth.
fn quota_of(per_second: f64, burst: u32) -> Result<Quota, OutOfRange> {
    let quota = if per_second.fract() == 0.0 || per_second >= 1_000.0 {
        Quota::per_second(per_second as u32)
    } else {
        let nanos = (1e9 / per_second).ceil().max(1.0) as u64;
        Quota::every(Duration::from_nanos(nanos))?
    };
    Ok(quota.burst(burst))
}

impl RateLimitSettings {
    /// Returns the key of marks that is set although no request is marked.
    fn mark_contradiction(&self) -> Option<Conflict> {
        let keys: &[_] = match (self.mark, &self.mark_header, self.mark_class) {
            (false, Some(_), _) => &["mark_header", "mark"],
            (false, None, Some(_)) => &["mark_class", "mark"],
            _ => return None,
        };
        Some(Conflict { keys, looser: &[], expected: "mark_header and mark_class need mark = true" })
    }

    fn algorithm_contradiction(&self) -> Option<Conflict> {
        if self.key != LimitKey::Global && !self.algorithm.is_keyed() {
            return Some(Conflict {
                keys: &["algorithm", "key"],
                looser: &[],
                expected: "with another key than global, algorithm must be token_bucket, fixed_window or sliding_counter",
            });
        }
        if self.alignment != Alignment::FirstRequest && !self.algorithm.has_windows() {
            return Some(Conflict {
                keys: &["alignment", "algorithm"],
                looser: &[],
                expected: "alignment is for the algorithms fixed_window and sliding_counter",
            });
        }
        let own = iter::once((self.effective_quota(), self.key != LimitKey::Global));
        // Tiers are those of a limiter per key, whatever `key` says. An algorithm that has none does not count them.
        let tiers = self.tiers.clone().into_iter().filter(|_| self.algorithm.is_keyed()).map(|quota| (quota, true));
        let mut quotas = own.chain(tiers);
        quotas.any(|(quota, is_keyed)| quota.limit() > self.algorithm.largest_limit(is_keyed)).then_some(Conflict {
            keys: &["algorithm", "key", "quota", "requests_per_second", "tiers"],
            looser: &[],
            expected: "a window must have at most 1000000 requests with a sliding_log, and 10000000 with a sliding_counter; \
                per key or tier, at most 1048574 with a sliding_counter, and 4294967294 with a fixed_window",
        })
    }

    /// Returns the quota: `quota`, or else the one of `requests_per_second` and `burst`.
    pub fn effective_quota(&self) -> Quota {
        // Never falls back: the range of rates ends at one token in 1000 s.
        self.try_quota().unwrap_or(Quota::per_second(1))
    }

    pub(crate) fn try_quota(&self) -> Result<Quota, OutOfRange> {
        self.quota.map_or_else(|| quota_of(self.requests_per_second, self.burst), Ok)
    }

    /// Builds a token bucket for all requests together.
    ///
    /// It ignores `key`, `ipv6_prefix`, `trusted_proxies` and `headers`, which only `layer` and `limit` (feature `http`) apply, the keys of
    /// marks, and the `algorithm`, which [`any_limiter`](Self::any_limiter) applies too.
    #[must_use]
    pub fn limiter(&self) -> RateLimiter {
        RateLimiter::new(self.effective_quota()).up_to(ROOM)
    }

    /// Builds a limiter for all requests together that counts by the `algorithm`.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], never with settings in their ranges.
    pub fn any_limiter(&self) -> Result<Arc<dyn Limiter + Send + Sync>, OutOfRange> {
        Ok(match self.algorithm {
            LimitAlgorithm::TokenBucket => Arc::new(self.limiter()),
            LimitAlgorithm::LeakyBucket => Arc::new(self.leaky_bucket()),
            LimitAlgorithm::FixedWindow => Arc::new(self.fixed_window()),
            LimitAlgorithm::SlidingCounter => Arc::new(self.sliding_counter()?),
            LimitAlgorithm::SlidingLog => Arc::new(self.sliding_log()?),
        })
    }

    /// Builds a leaky bucket for all requests together, whatever the `algorithm` is.
    ///
    /// It has no room for large changes. A reload may refuse a rate of more than 1,000 times the first one, and a burst that takes more
    /// than 100 days at the first rate. Such a change needs a restart.
    #[must_use]
    pub fn leaky_bucket(&self) -> RateLimiter<LeakyBucket> {
        RateLimiter::with_algorithm(LeakyBucket::new(self.effective_quota()), Monotonic)
    }

    /// Builds a fixed window for all requests together, whatever the `algorithm` is.
    ///
    /// A reload may refuse a window of less than a 1,000th of the first one. Such a change needs a restart.
    #[must_use]
    pub fn fixed_window(&self) -> RateLimiter<FixedWindow> {
        RateLimiter::with_algorithm(FixedWindow::new(self.effective_quota()).aligned_to(self.alignment), Monotonic)
    }

    /// Builds a sliding counter for all requests together, whatever the `algorithm` is.
    ///
    /// A reload may refuse a window of less than a 1,000th of the first one. It refuses a limit above 65,535 with more binary digits than
    /// the first limit. Such a change needs a restart.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], never if the algorithm is `sliding_counter`.
    pub fn sliding_counter(&self) -> Result<RateLimiter<SlidingCounter>, OutOfRange> {
        let counter = SlidingCounter::new(self.effective_quota())?.aligned_to(self.alignment);
        Ok(RateLimiter::with_algorithm(counter, Monotonic))
    }

    /// Builds a sliding log for all requests together, whatever the `algorithm` is.
    ///
    /// It allocates 8 bytes for each request of a window. So a reload refuses every other limit, and such a change needs a restart. The
    /// window can change, to no less than a 1,000th of the first one.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], never if the algorithm is `sliding_log`.
    pub fn sliding_log(&self) -> Result<RateLimiter<SlidingLog>, OutOfRange> {
        Ok(RateLimiter::with_algorithm(SlidingLog::new(self.effective_quota())?, Monotonic))
    }

    /// Creates a builder of a keyed limiter.
    ///
    /// The program chooses the keys, whatever `key` says. Use it for [tiers](damper_core::keyed::KeyedLimiterBuilder::tiers)
    /// and other settings of the program. The buckets are token buckets, whatever the `algorithm` is.
    pub fn keyed_builder<K: ?Sized>(&self) -> damper_core::keyed::KeyedLimiterBuilder<K> {
        damper_core::keyed::KeyedLimiter::builder(self.effective_quota())
            .up_to(ROOM)
            .capacity(self.max_keys as usize)
            .when_full(self.when_full)
            .aligned_to(self.alignment)
    }
}

impl ClientRateLimitSettings {
    /// Returns the quota: `quota`, or else the one of `requests_per_second` and `burst`.
    pub fn effective_quota(&self) -> Quota {
        // Never falls back: the range of rates ends at one token in 1000 s.
        self.try_quota().unwrap_or(Quota::per_second(1))
    }

    pub(crate) fn try_quota(&self) -> Result<Quota, OutOfRange> {
        self.quota.map_or_else(|| quota_of(self.requests_per_second, self.burst), Ok)
    }

    /// Builds a limiter for all calls together.
    ///
    /// It does not apply [`max_wait`](Self::max_wait): call `acquire(1).within(settings.max_wait())`. The layers and stacks of the features
    /// `http` and `tokio` do so.
    #[must_use]
    pub fn limiter(&self) -> RateLimiter {
        RateLimiter::new(self.effective_quota()).up_to(ROOM)
    }
}
