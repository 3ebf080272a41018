//! The traits of every public type, in a table that compiles only if they are implemented.
//!
//! Deliberately absent:
//! - Limiters, breakers and stores are not `Clone`: a clone would be a second limit or breaker. They are shared by
//!   reference or in an `Arc`. Permits, leases and reservations are not `Clone` either, because each stands for
//!   something taken once.
//! - Errors that carry an error of the system or of a user are neither `Clone` nor `PartialEq`.
//! - Seeds are not `PartialEq`, because they are secrets, and their `Debug` hides them.

use core::error::Error;
use core::fmt::{Debug, Display};
use core::future::Ready;
use core::hash::Hash;
use core::time::Duration;

fn debug<T: Debug>() {}

/// Types that threads share or send.
fn shared<T: Debug + Send + Sync + Unpin>() {}

/// Plain values: settings, results, states.
fn value<T: Debug + Copy + PartialEq + Send + Sync + Unpin + 'static>() {}

/// Values that can be keys.
fn key<T: Debug + Copy + Eq + Hash + Send + Sync + Unpin + 'static>() {}

fn displayed<T: Display>() {}

fn defaulted<T: Default>() {}

fn cloned<T: Clone>() {}

/// Errors that `?` converts into any error type.
fn error<T: Error + Send + Sync + Unpin + 'static>() {}

/// Calls each of the functions for each of the types.
macro_rules! table {
    ($($type:ty: $($is:ident)+,)+) => {
        $($($is::<$type>();)+)+
    };
}

#[test]
fn types_of_the_core_have_the_traits_users_expect() {
    use damper::breaker::*;
    use damper::deadline::*;
    use damper::keyed::*;
    use damper::limit::*;
    use damper::quota::*;
    use damper::time::*;
    use damper::{Acquire, AcquireFuture, Bulkhead, InvalidText, OutOfRange, Ramp};

    table! {
        // quota
        Quota: key displayed,
        Plan: key,
        Alignment: key defaulted,
        LiveShare<&'static str>: shared,
        ShareTerms: value,
        SetQuotaError: key error,
        SetConfigError: key error,
        ParseQuotaError: key error,
        // limit
        RateLimiter: shared,
        TokenBucket: shared,
        LeakyBucket: shared,
        LeakyQueue: shared,
        FixedWindow: shared,
        SlidingCounter: shared,
        SlidingLog: shared,
        LeasingBucket: shared,
        Striped: shared,
        LimitSet<[TokenBucket; 2]>: shared,
        LimitSet<Box<[TokenBucket]>, Monotonic, Bulkhead>: shared,
        Pausable<RateLimiter>: shared,
        Lease<&'static RateLimiter<LeasingBucket>>: shared,
        LeaseReservation<'static, &'static RateLimiter<LeasingBucket>>: shared,
        Acquire<&'static RateLimiter>: shared cloned,
        Reservation<&'static RateLimiter>: shared,
        SetReservation<&'static LimitSet<[TokenBucket; 2]>>: shared,
        Allowed: key,
        Denied: key error,
        Usage: key,
        LimitSetDenied: key error,
        LimitSetQuotaError: key error,
        // keyed
        KeyedLimiter<str>: shared,
        KeyedLimiterBuilder<str>: shared,
        KeyedReservation<'static, Monotonic>: shared,
        KeyQueue<'static, str, Monotonic, Seed>: shared cloned,
        Acquire<KeyQueue<'static, str, Monotonic, Seed>>: shared cloned,
        KeyedSlots<64, 64>: shared,
        ByPlan: shared cloned,
        QuotaTree<str, 3, 2>: shared,
        QuotaTreeBuilder<str, 3, 2>: shared,
        TreeReservation<&'static QuotaTree<str, 3, 2>>: shared,
        TreeAllowed: value,
        TreeDenied: key error,
        TreeRefusal: key error,
        ClientAddress: key displayed,
        WhenFull: key defaulted,
        TierError: key error,
        TierCensus: key defaulted,
        Crowding: key defaulted,
        OutOfRange: key error,
        InvalidText: cloned error,
        // breaker
        CircuitBreaker: shared defaulted,
        KeyedCircuitBreaker<String>: shared,
        KeyListener<String>: shared,
        Permit<&'static CircuitBreaker>: shared,
        Run<&'static CircuitBreaker, Ready<Result<(), ()>>, fn(&Result<(), ()>) -> Verdict>: debug,
        BreakerConfig: key defaulted,
        Ramp: key displayed,
        BreakerConfigBuilder: shared cloned,
        BreakerStatus: value,
        State: key displayed,
        StateChange: value,
        RecentChanges: value displayed,
        Cause: key displayed,
        Verdict: value,
        Window: key,
        CircuitOpen: value error,
        CallError<std::fmt::Error>: value error,
        // deadline
        Deadline: shared cloned,
        DeadlineExceeded: key error,
        UsualLatency: shared,
        SkewGuard: shared defaulted,
        Arrival: key,
        // time
        Monotonic: shared cloned defaulted,
        StdClock: shared cloned defaulted,
        CoarseClock: shared defaulted,
        CoarseTicker: shared,
        ManualClock: shared defaulted,
        ExtendedTimer<fn() -> u32>: debug,
        Seed: shared cloned defaulted,
        FastSeed: shared cloned defaulted,
    }
    #[cfg(feature = "tokio")]
    table! {
        TokioSleep: shared cloned defaulted,
        TokioClock: shared cloned defaulted,
        AcquireFuture<&'static RateLimiter, TokioSleep>: debug,
        AcquireFuture<KeyQueue<'static, str, Monotonic, Seed>, TokioSleep>: debug,
    }
}

#[test]
fn types_of_words_of_32_bits_have_the_traits_users_expect() {
    use damper::breaker::Permit;
    use damper::time::CoarseClock;
    use damper::word32::*;
    type OnTimer = &'static CoarseClock;

    table! {
        RateLimiter32<OnTimer>: shared,
        CircuitBreaker32<OnTimer>: shared,
        Permit<&'static CircuitBreaker32<OnTimer>>: shared,
    }
}

#[cfg(unix)]
#[test]
fn clock_of_the_host_has_the_traits_users_expect() {
    use damper::time::HostMonotonic;

    table! {
        HostMonotonic: key,
    }
}

#[test]
fn types_of_words_have_the_traits_users_expect() {
    use damper::breaker::Permit;
    use damper::time::CoarseClock;
    use damper::words::*;
    type OnTimer = &'static CoarseClock;

    table! {
        WordLimiter<'static, OnTimer>: shared cloned,
        WordBulkhead<'static>: shared cloned,
        WordPermit<'static>: shared,
        WordBreaker<'static, OnTimer>: shared,
        Permit<&'static WordBreaker<'static, OnTimer>>: shared,
        WordTable<'static, str, OnTimer>: shared,
        Seat: key,
        Contents: key,
        Header: shared cloned,
        HeaderError: value error,
    }
}

#[test]
fn types_of_shadow_mode_have_the_traits_users_expect() {
    use damper::RateLimiter;
    use damper::decision_log::*;
    use damper::shadow::*;

    table! {
        Shadowed<RateLimiter>: shared,
        ShadowReport: key defaulted,
        // decision log
        DecisionLog: shared,
        DecisionReader<'static>: shared,
        Logged<RateLimiter>: shared,
        Logged<&'static RateLimiter>: shared cloned,
        Decision: key displayed,
    }
}

#[test]
fn types_of_concurrency_limits_have_the_traits_users_expect() {
    #[cfg(feature = "compared")]
    use damper::concurrency::compared::*;
    use damper::concurrency::*;
    use damper::{Acquire, AcquireFuture};

    type QueuedSet = damper::LimitSet<[damper::TokenBucket; 2], damper::Monotonic, SetQueue<Bulkhead>>;

    #[cfg(feature = "compared")]
    table! {
        Aimd: value,
        Vegas: value,
        Gradient2: value,
    }
    table! {
        Bulkhead: shared,
        KeyedBulkhead<String>: shared,
        KeyedAdaptiveLimit<String>: shared,
        BulkheadStatus: key,
        BulkheadPermit<&'static Bulkhead>: shared,
        Acquire<&'static Bulkhead>: shared,
        BulkheadFull: key error,
        LimitSetRefusal: key error,
        SetQueue<Bulkhead>: shared,
        Acquire<&'static QueuedSet>: shared,
        Acquire<&'static damper::QuotaTree<str, 3, 2>>: shared,
        AcquireFuture<&'static QueuedSet, fn(Duration) -> Ready<()>>: shared,
        AcquireFuture<&'static damper::QuotaTree<str, 3, 2>, fn(Duration) -> Ready<()>>: shared,
        Admission: shared defaulted,
        Admission<FixedLimit>: shared,
        FixedLimit: value,
        Criticality: key displayed defaulted,
        AdmissionRequest: value defaulted,
        AdmissionPermit<&'static Admission>: shared,
        Acquire<&'static Admission>: shared,
        NotAdmitted: key error,
        RefusalCause: key,
        AdaptiveLimit: shared defaulted,
        BulkheadPermit<&'static AdaptiveLimit>: shared,
        Acquire<&'static AdaptiveLimit>: shared,
        Outcome: key,
        LimitBounds: key defaulted,
        ProbedGradient: value,
        WindowSummary: value,
        WindowPlan: value,
    }
    #[cfg(feature = "tokio")]
    table! {
        AcquireFuture<&'static Bulkhead, damper::time::TokioSleep>: debug,
        AcquireFuture<&'static Admission, damper::time::TokioSleep>: debug,
        RunToDeadline<&'static Admission, (), damper::time::TokioSleep>: debug,
        AcquireFuture<&'static AdaptiveLimit, damper::time::TokioSleep>: debug,
    }
}

#[test]
fn types_of_throttles_have_the_traits_users_expect() {
    use damper::CallError;
    #[cfg(feature = "compared")]
    use damper::throttle::compared::*;
    use damper::throttle::*;

    #[cfg(feature = "compared")]
    table! {
        ExponentialBackoff: key,
        GradualDecrease: key,
        ProportionalDecrease: key,
        CubicRate: value,
    }
    table! {
        AdaptiveThrottle: shared defaulted,
        ThrottlePermit<&'static AdaptiveThrottle>: shared,
        ThrottleStatus: key,
        KeyedThrottle<String>: shared defaulted,
        CallError<std::fmt::Error, Throttled>: value error,
        Throttled: key error,
        PaceTooSlow: key error,
        // pacing
        Pacer: shared,
        PacedRetry: key defaulted,
        PacedAttempts: shared cloned,
        Hints: key,
        Moment: key,
        NoPacing: key defaulted,
        RemainingDecrease: key,
        Level: key,
    }
}

#[test]
fn types_of_retries_have_the_traits_users_expect() {
    use damper::retry::*;
    use damper::setting::Setting;
    use damper::{BoxedError, Live};

    table! {
        Retry: shared cloned,
        RepeatedCall<&'static Retry, ()>: debug,
        Attempts: shared cloned,
        Attempt: shared cloned,
        RetryError<std::fmt::Error>: key error,
        GaveUp: key displayed,
        Failure: key,
        EveryErr: key defaulted,
        Backoff: key defaulted,
        RetrySchedule: key,
        Live<Duration>: shared,
        Setting<Duration>: shared cloned,
        BoxedError: error,
        Delays: shared cloned,
        Jitter: key defaulted,
        RetryBudget: shared defaulted,
        RetryBucket: shared,
        RetryThrottle: shared,
        RetryQuota: shared,
        Unlimited: key defaulted,
        RetryBudgetConfig: key defaulted,
        RetryBudgetConfigBuilder: shared cloned,
        Hedge: shared,
        HedgeConfig: key defaulted,
        HedgeConfigBuilder: shared cloned,
        HedgeStatus: key,
    }
}

#[cfg(feature = "logs")]
#[test]
fn types_of_limits_of_logs_have_the_traits_users_expect() {
    use damper::logs::*;

    table! {
        LogLimit: shared,
        SuppressedCount: key defaulted displayed,
    }
    #[cfg(feature = "logs-tracing")]
    table! {
        LimitedLayer<()>: shared,
        LimitedLayerBuilder: shared cloned,
        LogReports: shared,
    }
}

#[cfg(all(feature = "io", feature = "http", feature = "tokio"))]
#[test]
fn types_of_paced_io_have_the_traits_users_expect() {
    use damper::RateLimiter;
    use damper::io::*;
    use damper::time::TokioSleep;
    use std::sync::Arc;

    table! {
        BytePacer<Arc<RateLimiter>>: shared cloned,
        PacedIo<tokio::net::TcpStream, BytePacer<Arc<RateLimiter>>, TokioSleep>: shared,
        PacedBody<http_body_util::Full<bytes::Bytes>, BytePacer<Arc<RateLimiter>, 2>, TokioSleep>: shared,
    }
}

#[cfg(feature = "live")]
#[test]
fn types_of_the_live_page_have_the_traits_users_expect() {
    use damper::live::*;

    table! {
        BesideBody<()>: debug,
        LivePage: debug defaulted,
        LivePageError: cloned error,
        LiveService: shared cloned,
        LiveToken: shared cloned,
        LiveRecorder: debug cloned defaulted,
        <LiveService as tower::Layer<()>>::Service: shared cloned,
        Latencies: shared cloned,
    }
}

#[cfg(all(feature = "hyper", feature = "tower", feature = "tokio"))]
#[test]
fn types_of_http_gates_have_the_traits_users_expect() {
    use damper::Bulkhead;
    use damper::http::*;
    use damper::throttle::AdaptiveThrottle;
    use damper::time::TokioSleep;
    use std::sync::Arc;
    type Service = fn(http::Request<()>) -> Ready<Result<http::Response<()>, core::convert::Infallible>>;

    table! {
        // breakers
        CircuitBreakerLayer: shared cloned,
        MinBudget: shared cloned,
        CircuitBreak<Service>: shared cloned,
        PerHost: shared cloned,
        PerHostBuilder: shared,
        Single: shared cloned,
        SingleBuilder: shared,
        AtHead: shared cloned defaulted,
        AtBodyEnd: shared cloned defaulted,
        BodyEnd<'static>: debug,
        // concurrency limits
        RequestClasses: shared cloned defaulted,
        TargetHost: key defaulted,
        RequestDeadline: key defaulted,
        CallClass: shared cloned defaulted,
        ClassHeaders: shared cloned,
        CriticalityLayer: shared cloned,
        ClientCriticalityLayer: shared cloned,
        MarkingLayer<Arc<damper::RateLimiter>>: shared cloned,
        Explanation: shared cloned displayed,
        ExplainedPart: shared cloned displayed,
        PartOutcome: key displayed,
        Marks: shared cloned defaulted,
        Mark: shared cloned,
        ConcurrencyLayer<Arc<Bulkhead>>: shared cloned,
        ClientConcurrencyLayer<Arc<Bulkhead>>: shared cloned,
        ConcurrencyService<Service, Arc<Bulkhead>>: shared cloned,
        AdmissionGate<TokioSleep>: shared,
        Statuses: key defaulted,
        EveryStatus: key defaulted,
        ClientGate<Arc<Bulkhead>>: shared cloned,
        // throttles
        ThrottleLayer<Arc<AdaptiveThrottle>>: shared cloned,
        ThrottleService<Service, Arc<AdaptiveThrottle>>: shared cloned,
    }
}

#[cfg(all(feature = "hyper", feature = "tower", feature = "tokio"))]
#[test]
fn types_of_http_have_the_traits_users_expect() {
    use damper::http::internal::{PaceOnly, Repeating};
    use damper::http::*;
    use damper::retry::{RetryBudget, Unlimited};
    use damper::time::{Monotonic, TokioSleep};
    use damper::wire::*;
    type Service = fn(http::Request<()>) -> Ready<Result<http::Response<()>, core::convert::Infallible>>;
    type Pacing = Repeating<RetryBudget, HttpRetries, TokioSleep>;

    table! {
        // limits
        RateLimitLayer<PerClient>: shared cloned,
        Refused: key,
        RequestNotMade: error,
        RateLimit<Service, PerClient>: shared cloned,
        PerClient: shared cloned,
        ByHeader: shared cloned,
        Body<()>: shared,
        Headers: value defaulted,
        Detail: value,
        Standing: value,
        Limited: value displayed,
        Refusal: debug,
        RateLimitCapacityError: value error,
        RateLimitLayer<TreeLimit<str, 3, 2>>: shared cloned,
        TreeLimit<str, 3, 2>: shared cloned,
        BodyLines: shared cloned,
        // stacks
        ClientStack: shared cloned,
        ServerStack: shared cloned,
        StackError: error,
        StackPart: key displayed,
        HttpProtocol: key defaulted,
        AttemptTimeoutLayer<TokioSleep>: shared cloned,
        <AttemptTimeoutLayer<TokioSleep> as tower::Layer<Service>>::Service: shared cloned,
        AttemptTimedOut: key error,
        HttpClient<Service, (), ()>: shared cloned,
        BoxedClient<()>: shared cloned,
        BoxedBody: debug,
        // pacing
        PacingLayer<Hosts<damper::throttle::Pacer>, HttpProtocol, Pacing>: shared cloned,
        PacingLayer<Hosts<damper::throttle::Pacer>, HttpProtocol, PaceOnly<TokioSleep>>: shared cloned,
        PacingService<Service, Hosts<damper::throttle::Pacer>, HttpProtocol, Pacing>: shared cloned,
        Hosts<damper::throttle::Pacer>: shared cloned,
        // deadlines
        DeadlineLayer<TokioSleep>: shared cloned,
        ClientDeadlineLayer<TokioSleep>: shared cloned,
        <DeadlineLayer<TokioSleep> as tower::Layer<Service>>::Service: shared cloned,
        ReaderStalled: key error,
        TimeoutUnit: key,
        // retries
        HttpRetries: shared cloned,
        BufferedBody<http_body_util::Full<bytes::Bytes>>: shared,
        Idempotent: key defaulted,
        Hosts<RetryBudget>: shared cloned,
        // hedges
        HedgeLayer<Monotonic, Unlimited, HttpRetries, TokioSleep>: shared cloned,
        Hedging<Service, Monotonic, Unlimited, HttpRetries, TokioSleep>: shared cloned,
        // requests and responses
        Head<'static>: shared cloned,
        ResponseHead<'static>: shared cloned,
        PeerAddress: key,
        // wire
        RateLimitHeaders: shared cloned,
        RateLimitStatus: key,
        TrustedProxies: shared cloned defaulted,
    }
}

#[cfg(feature = "tonic")]
#[test]
fn types_of_grpc_have_the_traits_users_expect() {
    use damper::tonic::*;

    table! {
        AtTrailers: shared cloned defaulted,
        GrpcRetries: key defaulted,
        RateLimitInterceptor<damper::http::PerClient>: shared cloned,
        Grpc: shared cloned defaulted,
        GrpcEndings: key defaulted,
    }
}

#[test]
#[cfg(all(feature = "tokio", feature = "tower"))]
fn types_for_any_service_have_the_traits_users_expect() {
    use damper::gate::Waits;
    use damper::throttle::AdaptiveThrottle;
    use damper::time::TokioSleep;
    use damper::tower::*;
    use damper::{Bulkhead, CircuitBreaker, RateLimiter};
    type Breaker = &'static CircuitBreaker;
    type Limit = &'static RateLimiter;
    type Throttle = &'static AdaptiveThrottle;
    type Pool = &'static Bulkhead;

    table! {
        GateLayer<Plain<Breaker>>: shared cloned,
        GateService<(), Plain<Breaker>>: shared cloned,
        GateService<(), Plain<Waits<Pool, TokioSleep>>>: shared cloned,
        GateService<(), Plain<Waits<Limit, TokioSleep>>>: shared cloned,
        Plain<Throttle>: shared cloned,
        Plain<Breaker>: shared cloned,
        OkOrErr: shared cloned defaulted,
    }
}

#[test]
#[cfg(all(feature = "mesh", feature = "tokio"))]
fn types_of_mesh_have_the_traits_users_expect() {
    use damper::mesh::*;
    use damper::time::TokioSleep;

    table! {
        // documents
        Request: shared cloned,
        Call: shared cloned,
        Response: shared cloned,
        MeshError: cloned error,
        Meta: shared cloned defaulted,
        Fragment: shared cloned defaulted,
        RateLimitUsage: shared cloned,
        Warnings: shared cloned defaulted,
        RateLimited: shared cloned,
        Scope: key displayed,
        Capabilities: shared cloned,
        LimitCapability: shared cloned,
        MeshDuration: key displayed,
        TimeUnit: key,
        ReadError: cloned error,
        // scopes
        Scopes: shared,
        ScopesBuilder: shared,
        Caller<'static>: key,
        ScopesAllowed<'static>: shared cloned,
        ScopesDenied: cloned error,
        ScopesError: cloned error,
        // deadlines
        SpecifiedDeadline: shared cloned displayed,
        Iso8601: shared cloned,
        Receipt: shared cloned,
        ReceivedDeadline: shared cloned,
        DeadlineReport: shared cloned,
        // servers and clients
        MeshLayer<TokioSleep>: shared cloned,
        IncomingCall: shared,
        Client<(), TokioSleep>: shared cloned,
        ClientBuilder<(), TokioSleep>: shared,
        MeshBackoff: key defaulted,
        MeshHints: key defaulted,
        ClientError: error,
    }
}

#[cfg(feature = "config")]
#[test]
fn types_of_the_configuration_have_the_traits_users_expect() {
    use damper::config::*;

    table! {
        // settings
        Settings: shared cloned defaulted,
        ServerSettings: shared cloned defaulted,
        ClientSettings: shared cloned defaulted,
        ServerLayers: shared cloned defaulted,
        ClientLayers: shared cloned defaulted,
        RateLimitSettings: shared cloned defaulted,
        ClientRateLimitSettings: shared cloned defaulted,
        BulkheadSettings: shared cloned defaulted,
        AdaptiveLimitSettings: shared cloned defaulted,
        AdmissionSettings: shared cloned defaulted,
        ServerDeadlineSettings: shared cloned defaulted,
        ClientDeadlineSettings: shared cloned defaulted,
        CircuitBreakerSettings: shared cloned defaulted,
        RetrySettings: shared cloned defaulted,
        RetryBudgetSettings: shared cloned defaulted,
        HedgeSettings: shared cloned defaulted,
        ThrottleSettings: shared cloned defaulted,
        PacingSettings: shared cloned defaulted,
        MeshSettings: shared cloned defaulted,
        ServerStackSettings: shared cloned defaulted,
        ClientStackSettings: shared cloned defaulted,
        MeshClientSettings: shared cloned defaulted,
        ConfiguredScopes: shared cloned,
        Tiers: shared cloned defaulted,
        TreeSettings: shared cloned defaulted,
        Plans<2>: shared,
        PlansError: cloned error,
        // sources
        Sources: shared,
        Format: shared cloned,
        // mistakes
        ConfigError: error,
        Problem: shared cloned displayed,
        ProblemCause: shared cloned,
        // keys
        KeyDescription: shared,
        Kind: shared cloned,
        // reload
        Reloader: debug,
        Watch: debug,
        ReloadError: error,
        SettingChange: shared cloned,
    }
}

#[cfg(all(feature = "config", feature = "tower", feature = "tokio"))]
#[test]
fn types_of_stacks_from_settings_have_the_traits_users_expect() {
    use damper::config::*;

    table! {
        // stacks
        ConfiguredServerStack: shared cloned,
        ConfiguredClientStack: shared cloned,
        // parts of them
        ConfiguredLimit: shared cloned,
        ConfiguredLimitError: error,
        ConfiguredPacers: shared cloned,
    }
}

/// Types with parameters of a service. The tests of layers compile their uses.
const ELSEWHERE: [&str; 7] = ["ByKey", "HeldPermit", "ObservedBody", "Paced", "PerKey", "RetryLayer", "Retrying"];

#[test]
fn types_of_stores_have_the_traits_users_expect() {
    use damper::store::*;

    #[derive(Debug)]
    struct Numbers;

    impl Template<String> for Numbers {
        type Value = u32;

        fn create(&self, _: &String) -> u32 {
            0
        }
    }

    table! {
        BoundedStore<String, u32>: shared defaulted,
        Keyed<String, Numbers>: shared,
        damper::KeyedBulkhead<String>: shared,
        damper::throttle::KeyedThrottle<String>: shared defaulted,
    }
}

#[test]
fn types_of_gates_have_the_traits_users_expect() {
    use damper::gate::*;
    use damper::throttle::Pacer;
    use damper::{Admission, Bulkhead, Denied, RateLimiter};
    use std::sync::Arc;

    type Gate = Arc<Bulkhead>;
    type Turn = Never<(), Denied>;

    table! {
        Ending: key,
        Verdict: key,
        Standing: value,
        RefusalKind: key,
        NotSent: key error,
        Either<Denied, Denied>: key error,
        Answer<(), Turn, Denied>: shared,
        Forecast<Denied>: value,
        Never<(), Denied>: shared,
        PerKey<fn(&str) -> u32, Gate>: shared cloned,
        Costs<Arc<RateLimiter>, fn(&str) -> u32>: shared cloned,
        Exempt<Gate, fn(&str) -> bool>: shared cloned,
        Classes<Arc<Admission>, fn(&str) -> damper::concurrency::AdmissionRequest>: shared cloned,
        Waits<Gate, fn(Duration) -> Ready<()>>: shared cloned,
        Paces<Arc<Pacer>, fn(Duration) -> Ready<()>>: shared cloned,
        SelectedPacer<fn(&str) -> Arc<Pacer>, Arc<Pacer>>: shared cloned,
        AnyGate<str>: shared cloned,
        AnyRefusal: shared cloned error,
        Shared<Arc<Bulkhead>>: shared cloned,
    }
}

#[cfg(feature = "metrics")]
#[test]
fn types_of_metrics_have_the_traits_users_expect() {
    use damper::metrics::*;

    table! {
        Exporter: shared defaulted,
        Kind: key,
        Metric: shared cloned,
        OtelNames<Exporter>: shared,
        Readings<'static>: shared cloned,
        TransitionCounter: shared cloned,
    }
}

#[cfg(feature = "redis")]
#[test]
fn types_of_redis_have_the_traits_users_expect() {
    use damper::redis::*;

    table! {
        AfterLoss: key defaulted,
        Leasing: key defaulted,
        WhenDown: key defaulted displayed,
        RedisLimiter: shared cloned,
        KeyedRedisLimiter: shared cloned,
        PlannedRedisLimiter: shared cloned,
        RedisTree<3, 2>: shared cloned,
        RedisTreeReservation<2>: shared,
        RedisLimiterBuilder: shared cloned,
        RedisReservation: shared,
        RedisCounts: value defaulted,
        RedisStatus: shared cloned,
        RedisEvent: shared cloned displayed,
        LastError: shared cloned displayed,
        RedisLimiterError: shared cloned error,
        Unavailable: shared cloned error,
    }
}

#[cfg(all(feature = "shm", target_os = "linux"))]
#[test]
fn types_of_shm_have_the_traits_users_expect() {
    use damper::shm::*;

    table! {
        SharedWords: shared,
        Workers<'static>: shared,
        Exited: shared cloned displayed,
        SharedWordsError: error,
    }
}

/// The table has every type of the recorded public API.
#[test]
fn table_names_every_public_type() {
    let table = include_str!("public_types.rs");
    let apis = [
        include_str!("../../docs/api/damper-core.txt"),
        include_str!("../../docs/api/damper-http.txt"),
        include_str!("../../docs/api/damper-io.txt"),
        include_str!("../../docs/api/damper-live.txt"),
        include_str!("../../docs/api/damper-log.txt"),
        include_str!("../../docs/api/damper-tonic.txt"),
        include_str!("../../docs/api/damper-tower.txt"),
        include_str!("../../docs/api/damper-mesh.txt"),
        include_str!("../../docs/api/damper-config.txt"),
        include_str!("../../docs/api/damper-metrics.txt"),
        include_str!("../../docs/api/damper-redis.txt"),
        include_str!("../../docs/api/damper-shm.txt"),
    ];
    let types = apis.iter().flat_map(|api| api.lines()).filter_map(|line| {
        let line = line.strip_prefix("#[non_exhaustive] ").unwrap_or(line);
        let path = line.strip_prefix("pub struct ").or(line.strip_prefix("pub enum "))?;
        path.split(['<', '(', ' ', '{']).next()?.rsplit("::").next()
    });
    for name in types {
        let is_row = |rest: &str| rest.starts_with(':') || rest.starts_with('<');
        let has_row = table.split(&format!("        {name}")).skip(1).any(is_row);
        assert!(has_row || ELSEWHERE.contains(&name), "{name} has no row in the table");
    }
}
