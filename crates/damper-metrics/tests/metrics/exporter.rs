//! The exporter, by the text that Prometheus would scrape.

use damper_core::breaker::{BreakerConfig, CircuitBreaker, KeyedCircuitBreaker, Verdict, Window};
use damper_core::concurrency::{
    AdaptiveLimit, Admission, AdmissionRequest, Bulkhead, Criticality, KeyedAdaptiveLimit, KeyedBulkhead, LimitBounds,
    Outcome,
};
use damper_core::deadline::UsualLatency;
use damper_core::keyed::{KeyedLimiterBuilder, QuotaTree};
use damper_core::limit::{ByPlan, FixedWindow, LimitSet, Limiter, Pausable, RateLimiter, Striped};
use damper_core::quota::{Plan, Quota};
use damper_core::retry::{
    Budget, Hedge, HedgeConfig, RetryBucket, RetryBudget, RetryBudgetConfig, RetryThrottle, Unlimited,
};
use damper_core::shadow::Shadowed;
use damper_core::store::BoundedStore;
use damper_core::throttle::{AdaptiveThrottle, Hints, KeyedThrottle, Level, Pacer, ThrottlePermit};
use damper_core::time::{ManualClock, Seed};
use damper_core::word32::{CircuitBreaker32, RateLimiter32};
use damper_metrics::catalogue::{self, ALL};
use damper_metrics::{Exporter, Kind, Metric, TransitionCounter};
use metrics_exporter_prometheus::PrometheusBuilder;
use prometheus_parse::{Scrape, Value};
use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

type Time = Arc<ManualClock>;

/// A scrape of what `work` and the exporter recorded.
fn scraped(work: impl FnOnce() -> Exporter) -> Scrape {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || work().record());
    parsed(&recorder.handle().render())
}

fn parsed(text: &str) -> Scrape {
    Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).unwrap()
}

/// The value of the sample with these labels, given as `name=value` and separated by spaces.
fn value(scrape: &Scrape, metric: &Metric, labels: &str) -> Option<f64> {
    let mut wanted: Vec<_> = labels.split(' ').collect();
    wanted.sort_unstable();
    let mut samples = scrape.samples.iter().filter(|sample| {
        let mut labels: Vec<_> = sample.labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
        labels.sort_unstable();
        sample.metric == metric.name() && labels == wanted
    });
    match samples.next()?.value {
        Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => Some(value),
        _ => None,
    }
}

/// Asserts the values of metrics, each with its labels.
macro_rules! assert_values {
    ($scrape:expr, $($metric:ident $labels:literal $expected:expr;)+) => {$(
        assert_eq!(
            value(&$scrape, &catalogue::$metric, $labels), Some(f64::from($expected)),
            "{} {}", catalogue::$metric.name(), $labels
        );
    )+};
}

fn time() -> Time {
    Arc::new(ManualClock::new())
}

#[test]
fn limiters_say_what_is_left_and_what_was_taken_in_advance() {
    let clock = time();
    let scrape = scraped(|| {
        let logins = Arc::new(RateLimiter::with_clock(Quota::per_minute(30).burst(5), clock.clone()));
        logins.check_n(5).unwrap();
        _ = logins.reserve(3).unwrap(); // not cancelled, so the tokens stay taken
        let windows = RateLimiter::with_algorithm(FixedWindow::new(Quota::per_hour(7_200).burst(1)), clock.clone());
        windows.check_n(200).unwrap();
        let set = LimitSet::with_clock([Quota::per_second(10), Quota::per_hour(3_600)], clock.clone());
        set.try_acquire(2).unwrap();
        let paused = Pausable::with_clock(RateLimiter::with_clock(Quota::per_second(1), clock.clone()), clock.clone());
        paused.pause_for(Duration::from_millis(1_500));
        let chosen: Arc<dyn Limiter + Send + Sync> = Arc::new(RateLimiter::with_clock(Quota::UNLIMITED, clock.clone()));
        Exporter::new()
            .register("logins", logins)
            .register("windows", windows)
            .register("set", set)
            .register("paused", paused)
            .register("chosen", chosen)
            .register("striped", Striped::with_stripes(Quota::per_second(9), 4, 1, clock.clone()).unwrap())
    });
    assert_values! { scrape,
        LIMIT_RATE "limit=logins" 0.5;
        LIMIT_BURST "limit=logins" 5;
        LIMIT_REMAINING "limit=logins" 0;
        LIMIT_DEBT "limit=logins" 3;
        LIMIT_RATE "limit=windows" 2;
        LIMIT_BURST "limit=windows" 7_200;
        LIMIT_REMAINING "limit=windows" 7_000;
        LIMIT_REMAINING "limit=set part=0" 8;
        LIMIT_REMAINING "limit=set part=1" 3_598;
        LIMIT_RATE "limit=set part=1" 1;
        LIMIT_PAUSE "limit=paused" 1.5;
        LIMIT_REMAINING "limit=paused" 0;
        LIMIT_RATE "limit=chosen" f64::INFINITY;
        LIMIT_RATE "limit=striped" 9;
    }
}

#[test]
fn keys_are_counted_by_their_tiers_whose_names_are_given() {
    let limits = KeyedLimiterBuilder::<u32, _, _>::new(Quota::per_minute(6).burst(2), time(), Seed::new(1, 2));
    let limits =
        limits.capacity(100).tiers([Quota::per_second(5).burst(4), Quota::per_second(50)], |key| *key as usize);
    let limits = Arc::new(limits.build().unwrap());
    limits.check_n(&0, 2).unwrap();
    // All from 2 on are of the last tier.
    for key in 1..10 {
        limits.check_n(&key, 4).unwrap();
    }
    let scrape = scraped(|| {
        Exporter::new()
            .register("named", Arc::clone(&limits))
            .tiers(["free", "pro"])
            .register("numbered", Arc::clone(&limits))
    });
    assert_values! { scrape,
        LIMIT_KEYS "limit=named tier=free" 1;
        LIMIT_KEYS_EXHAUSTED "limit=named tier=free" 1;
        LIMIT_RATE "limit=named tier=free" 0.1;
        LIMIT_BURST "limit=named tier=free" 2;
        LIMIT_KEYS "limit=named tier=pro" 1;
        LIMIT_KEYS_EXHAUSTED "limit=named tier=pro" 1;
        LIMIT_RATE "limit=named tier=pro" 5;
        // A tier without a name has its number.
        LIMIT_KEYS "limit=named tier=2" 8;
        LIMIT_KEYS_OWING "limit=named tier=2" 8;
        LIMIT_KEYS_EXHAUSTED "limit=named tier=2" 0;
        LIMIT_KEYS "limit=numbered tier=0" 1;
        LIMIT_KEYS_CAPACITY "limit=named" 100;
        LIMIT_EVICTIONS "limit=named" 0;
    }
}

#[test]
fn limiter_by_plan_counts_its_keys_without_tiers() {
    let (slow, fast) = (Quota::per_hour(1).burst(10), Quota::per_second(1_000));
    let (slow, fast) = (Plan::new(slow).unwrap(), Plan::new(fast).unwrap());
    let clock = time();
    let users = KeyedLimiterBuilder::<u32, _, _, ByPlan>::by_plan(clock.clone(), Seed::new(1, 2)).capacity(100);
    let users = Arc::new(users.build().unwrap());
    users.check_with(&0, &slow, 3).unwrap();
    users.check_with(&1, &slow, 1).unwrap();
    users.check_with(&2, &fast, 5).unwrap();
    clock.advance(Duration::from_secs(1));
    let scrape = scraped(|| Exporter::new().register("users", Arc::clone(&users)));
    assert_values! { scrape,
        LIMIT_KEYS "limit=users" 3;
        LIMIT_KEYS_OWING "limit=users" 2;
        LIMIT_KEYS_CAPACITY "limit=users" 100;
        LIMIT_OVERFLOWS "limit=users" 0;
    }
    // Only a call knows the quota and what is left of it.
    for unknown in [catalogue::LIMIT_RATE, catalogue::LIMIT_BURST, catalogue::LIMIT_KEYS_EXHAUSTED] {
        assert!(!scrape.samples.iter().any(|sample| sample.metric == unknown.name()), "{}", unknown.name());
    }
}

#[test]
fn breakers_are_in_one_state_each_and_changes_are_counted() {
    let window = Window::last_calls(10);
    let config = BreakerConfig::builder().failure_threshold(3).failure_rate(50).window(window).minimum_calls(10);
    let config = config.build().unwrap();
    let scrape = scraped(|| {
        let payments = CircuitBreaker::with_clock(config, time()).with_listener(TransitionCounter::new("payments"));
        let hosts = KeyedCircuitBreaker::<u32, _>::with_clock(config, 10, time()).unwrap();
        for verdict in [Verdict::Success, Verdict::Failure, Verdict::Failure] {
            payments.try_acquire().unwrap().record(verdict);
            hosts.get_or_create(&1).try_acquire().unwrap().record(verdict);
        }
        hosts.get_or_create(&2).trip();
        hosts.get_or_create(&3).force_open();
        payments.trip();
        payments.reset();
        payments.try_acquire().unwrap().failure();
        Exporter::new().register("payments", payments).register("hosts", hosts)
    });
    assert_values! { scrape,
        BREAKER_STATE "breaker=payments state=closed" 1;
        BREAKER_STATE "breaker=payments state=open" 0;
        BREAKER_CONSECUTIVE_FAILURES "breaker=payments" 1;
        BREAKER_WINDOW_CALLS "breaker=payments" 1;
        BREAKER_TRANSITIONS "breaker=payments from=closed to=open" 1;
        BREAKER_TRANSITIONS "breaker=payments from=open to=closed" 1;
        BREAKER_STATE "breaker=hosts state=closed" 1;
        BREAKER_STATE "breaker=hosts state=open" 1;
        BREAKER_STATE "breaker=hosts state=forced_open" 1;
        BREAKER_STATE "breaker=hosts state=half_open" 0;
        BREAKER_STATE "breaker=hosts state=returning" 0;
        BREAKER_CONSECUTIVE_FAILURES "breaker=hosts" 2;
        BREAKER_WINDOW_CALLS "breaker=hosts" 3;
        BREAKER_WINDOW_FAILURES "breaker=hosts" 2;
        BREAKER_KEYS "breaker=hosts" 3;
        BREAKER_KEYS_CAPACITY "breaker=hosts" 10;
        BREAKER_EVICTIONS "breaker=hosts" 0;
    }
}

#[test]
fn concurrency_limits_say_who_is_in_flight_and_who_waits() {
    let scrape = scraped(|| {
        let pool = Arc::new(Bulkhead::with_clock(1, time()).queue(5));
        let held = pool.try_acquire_owned().unwrap();
        {
            // One call gives up, the other waits.
            let mut context = Context::from_waker(Waker::noop());
            let sleep = |_| std::future::pending::<()>();
            let given_up = pin!(pool.acquire_owned().sleeping_by(sleep)).poll(&mut context).is_pending();
            assert!(given_up);
            let mut waiting = Box::pin(pool.acquire_owned().sleeping_by(sleep));
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            std::mem::forget(waiting);
        }
        std::mem::forget(held);
        let tenants = KeyedBulkhead::<u32, _>::with_clock(2, 8, time()).unwrap();
        for tenant in [1, 1, 2] {
            std::mem::forget(tenants.try_acquire(&tenant).unwrap());
        }
        let gate = Arc::new(Admission::fixed_with_clock(1, time()));
        std::mem::forget(gate.try_acquire_owned(AdmissionRequest::new()).unwrap());
        let request = AdmissionRequest::new().criticality(Criticality::Sheddable);
        let mut waiting = Box::pin(gate.acquire_owned(request).sleeping_by(|_| std::future::pending::<()>()));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        std::mem::forget(waiting);
        Exporter::new().register("pool", pool).register("tenants", tenants).register("gate", gate)
    });
    assert_values! { scrape,
        CONCURRENCY_LIMIT "limit=pool" 1;
        CONCURRENCY_IN_FLIGHT "limit=pool" 1;
        CONCURRENCY_QUEUED "limit=pool" 1;
        CONCURRENCY_WAITS "limit=pool" 2;
        CONCURRENCY_KEYS "limit=tenants" 2;
        CONCURRENCY_KEYS_FULL "limit=tenants" 1;
        CONCURRENCY_IN_FLIGHT "limit=tenants" 3;
        CONCURRENCY_QUEUED "limit=tenants" 0;
        CONCURRENCY_KEYS_CAPACITY "limit=tenants" 8;
        CONCURRENCY_QUEUED "limit=gate class=0" 0;
        CONCURRENCY_QUEUED "limit=gate class=3" 1;
        CONCURRENCY_WAITS "limit=gate" 1;
    }
}

#[test]
fn budgets_say_how_many_retries_are_left() {
    let scrape = scraped(|| {
        let config = RetryBudgetConfig::builder().ratio(0.5).floor(1).reserve(3).build().unwrap();
        let (budget, bucket) = (RetryBudget::with_clock(config, time()), RetryBucket::with_clock(config, time()));
        for _ in 0..5 {
            budget.began();
            bucket.began();
        }
        assert!(budget.try_withdraw() && bucket.try_withdraw());
        let grpc = RetryThrottle::new(10, 0.1).unwrap();
        grpc.failed();
        let exporter = Exporter::new().register("budget", budget).register("bucket", bucket).register("grpc", grpc);
        exporter.register("unlimited", Unlimited)
    });
    assert_values! { scrape,
        // Half a retry of each of five calls, of which one is withdrawn, and the reserve.
        RETRY_BUDGET_LEFT "budget=budget" 4;
        RETRY_BUDGET_LEFT "budget=bucket" 2;
        RETRY_BUDGET_LEFT "budget=grpc" 4;
        RETRY_BUDGET_LEFT "budget=unlimited" f64::INFINITY;
    }
}

/// Makes a call whose attempts fail at once.
fn fail(hedge: &Hedge<Time, impl Budget>) {
    let call = hedge.run(|_| std::future::ready(Err::<(), _>(std::fmt::Error)));
    let call = pin!(call.sleeping_by(|_| std::future::pending::<()>()));
    assert!(call.poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

#[test]
fn hedges_say_what_they_did_and_what_they_did_not_do() {
    let scrape = scraped(|| {
        let hedge = Hedge::with_clock(HedgeConfig::DEFAULT, time());
        let used_up = RetryThrottle::new(1, 0.1).unwrap();
        used_up.failed();
        let without_budget = Hedge::with_clock(HedgeConfig::DEFAULT, time()).budget(used_up);
        for _ in 0..12 {
            fail(&hedge);
        }
        fail(&without_budget);
        Exporter::new().register("search", hedge).register("pages", without_budget)
    });
    assert_values! { scrape,
        HEDGE_REQUESTS "hedge=search" 10;
        HEDGE_NOT_MADE "hedge=search reason=allowance" 2;
        HEDGE_NOT_MADE "hedge=search reason=budget" 0;
        HEDGE_REQUESTS "hedge=pages" 0;
        HEDGE_NOT_MADE "hedge=pages reason=budget" 1;
    }
}

/// A gauge keeps its last value, so a dashboard would show a delay that is not in force any more.
#[test]
fn delay_of_a_hedge_that_is_not_known_any_more_is_nan() {
    let (clock, recorder) = (time(), PrometheusBuilder::new().build_recorder());
    let hedge = Arc::new(Hedge::with_clock(HedgeConfig::DEFAULT, clock.clone()));
    let exporter = Exporter::new().register("search", Arc::clone(&hedge));
    let values = || {
        metrics::with_local_recorder(&recorder, || exporter.record());
        let scrape = parsed(&recorder.handle().render());
        [&catalogue::HEDGE_DELAY, &catalogue::HEDGE_MEDIAN_LATENCY]
            .map(|metric| value(&scrape, metric, "hedge=search").unwrap())
    };
    for _ in 0..200 {
        let call = hedge.run(|_| std::future::ready(Ok::<_, std::fmt::Error>(())));
        let call = pin!(call.sleeping_by(|_| std::future::pending::<()>()));
        assert!(call.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
    clock.advance(Duration::from_secs(1));
    assert!(values().iter().all(|seconds| *seconds > 0.0));
    clock.advance(Duration::from_secs(3_600));
    assert!(values().iter().all(|seconds| seconds.is_nan()));
}

#[test]
fn throttles_pacers_latencies_and_stores_are_read() {
    let scrape = scraped(|| {
        let throttle = AdaptiveThrottle::with_clock(time(), 1);
        let apis = KeyedThrottle::<u32, _>::with_clock(4, time()).unwrap();
        for _ in 0..12 {
            _ = throttle.try_acquire().map(ThrottlePermit::rejected);
            _ = apis.get_or_create(&1).try_acquire().map(ThrottlePermit::accepted);
        }
        let pacer = Pacer::with_clock(Level::new(Quota::per_second(1)), time(), 1);
        _ = pacer.answered(&Hints::REJECTED.retry_after(Some(Duration::from_secs(3))));
        let latency = UsualLatency::with_clock(time()).starting_with(Duration::from_millis(250));
        let store = BoundedStore::<u32, u32>::new(1).unwrap();
        store.get_or_insert_with(&1, || 1);
        store.get_or_insert_with(&2, || 2);
        Exporter::new()
            .register("search", throttle)
            .register("apis", apis)
            .register("search", pacer)
            .register("upstream", latency)
            .register("sessions", store)
    });
    assert_values! { scrape,
        THROTTLE_RECENT_CALLS "throttle=search" 12;
        THROTTLE_RECENT_ACCEPTED "throttle=search" 0;
        THROTTLE_RECENT_ACCEPTED "throttle=apis" 12;
        THROTTLE_REFUSED_RATIO "throttle=apis" 0;
        THROTTLE_KEYS "throttle=apis" 1;
        LATENCY_P90 "latency=upstream" 0.25;
        STORE_ENTRIES "store=sessions" 1;
        STORE_EVICTIONS "store=sessions" 1;
    }
    assert!(value(&scrape, &catalogue::THROTTLE_REFUSED_RATIO, "throttle=search").unwrap() > 0.0);
    assert!(value(&scrape, &catalogue::PACING_NEXT_SLEEP, "pacing=search").unwrap() >= 3.0);
}

/// A scrape after two recordings has the counts of one.
#[test]
fn counters_that_are_recorded_twice_have_counted_once() {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        let store = BoundedStore::<u32, u32>::new(1).unwrap();
        (0..4).for_each(|key| _ = store.get_or_insert_with(&key, || key));
        let exporter = Exporter::new().register("sessions", store);
        exporter.record();
        exporter.record();
    });
    assert_values! { parsed(&recorder.handle().render()),
        STORE_EVICTIONS "store=sessions" 3;
    }
}

#[test]
fn refusals_in_shadow_are_of_both_or_of_one() {
    let scrape = scraped(|| {
        let limiter = |burst| RateLimiter::with_clock(Quota::per_hour(1).burst(burst), time());
        let (stricter, looser) =
            (Shadowed::new(limiter(3), limiter(1)), Shadowed::new(Arc::new(limiter(1)), limiter(3)));
        for _ in 0..7 {
            _ = stricter.check();
            _ = looser.try_acquire(1);
        }
        Exporter::new().register("stricter", stricter).register("looser", looser)
    });
    assert_values! { scrape,
        SHADOW_REFUSALS "shadow=stricter by=both" 4;
        SHADOW_REFUSALS "shadow=stricter by=candidate" 2;
        SHADOW_REFUSALS "shadow=stricter by=in_force" 0;
        SHADOW_REFUSALS "shadow=looser by=both" 4;
        SHADOW_REFUSALS "shadow=looser by=candidate" 0;
        SHADOW_REFUSALS "shadow=looser by=in_force" 2;
    }
}

#[test]
fn windows_of_keys_have_their_limit_as_their_most() {
    let scrape = scraped(|| {
        let quota = Quota::per_hour(7_200).burst(1);
        let limits = KeyedLimiterBuilder::<u32, _, _>::new(quota, time(), Seed::new(1, 2)).capacity(10);
        Exporter::new().register("windows", limits.algorithm::<FixedWindow>().build().unwrap())
    });
    assert_values! { scrape,
        LIMIT_RATE "limit=windows tier=0" 2;
        LIMIT_BURST "limit=windows tier=0" 7_200;
    }
}

#[test]
fn levels_of_a_tree_say_how_crowded_their_shared_words_are() {
    let builder = QuotaTree::<u32, 2, 1>::builder(["user", "team"], ["requests"]).capacities([8, 64]);
    let tree = Arc::new(builder.clock(time()).hasher(Seed::new(1, 2)).build().unwrap());
    let plan = [Plan::new(Quota::per_hour(20)).unwrap()];
    for user in 0..200 {
        _ = tree.check(&[(&user, plan.each_ref()), (&(user % 4), plan.each_ref())], [1]);
    }
    let crowding = tree.crowding();
    let count = |count: u64| u32::try_from(count).unwrap();
    assert!(0 < crowding[0].busy() && crowding[0].busy() < crowding[0].looked(), "{crowding:?}");
    assert_values! { scraped(|| Exporter::new().register("api", Arc::clone(&tree))),
        LIMIT_SHARED_WORDS_SEEN "limit=api level=user" count(crowding[0].looked());
        LIMIT_SHARED_WORDS_BUSY "limit=api level=user" count(crowding[0].busy());
        LIMIT_SHARED_WORDS_SEEN "limit=api level=team" count(crowding[1].looked());
        LIMIT_SHARED_WORDS_BUSY "limit=api level=team" count(crowding[1].busy());
        LIMIT_KEYS_CAPACITY "limit=api level=team" 64;
    }
}

/// Hosts whose failures, refusals and calls differ, in both orders.
#[test]
fn several_of_a_kind_are_the_worst_or_the_sum_in_any_order() {
    for order in [[1_u32, 3, 2], [2, 3, 1], [3, 1, 2]] {
        let scrape = scraped(|| {
            let hosts = KeyedCircuitBreaker::<u32, _>::with_clock(BreakerConfig::default(), 10, time()).unwrap();
            let apis = KeyedThrottle::<u32, _>::with_clock(10, time()).unwrap();
            for host in order {
                for _ in 0..host {
                    hosts.get_or_create(&host).try_acquire().unwrap().failure();
                }
                for _ in 0..20 {
                    let throttle = apis.get_or_create(&host);
                    _ = throttle.try_acquire().map(if host == 3 {
                        ThrottlePermit::rejected
                    } else {
                        ThrottlePermit::accepted
                    });
                }
            }
            Exporter::new().register("hosts", hosts).register("apis", apis)
        });
        assert_values! { scrape,
            BREAKER_CONSECUTIVE_FAILURES "breaker=hosts" 3;
            BREAKER_STATE "breaker=hosts state=closed" 3;
            THROTTLE_RECENT_CALLS "throttle=apis" 60;
            THROTTLE_RECENT_ACCEPTED "throttle=apis" 40;
        }
        assert!(value(&scrape, &catalogue::THROTTLE_REFUSED_RATIO, "throttle=apis").unwrap() > 0.0, "{order:?}");
    }
}

#[test]
fn limit_that_was_lowered_below_its_calls_is_full() {
    let scrape = scraped(|| {
        let tenants = KeyedBulkhead::<u32, _>::with_clock(4, 8, time()).unwrap();
        for tenant in [1, 1, 1, 2] {
            std::mem::forget(tenants.try_acquire(&tenant).unwrap());
        }
        tenants.set_limit(2);
        Exporter::new().register("tenants", tenants)
    });
    assert_values! { scrape,
        CONCURRENCY_KEYS "limit=tenants" 2;
        CONCURRENCY_KEYS_FULL "limit=tenants" 1;
        CONCURRENCY_IN_FLIGHT "limit=tenants" 4;
    }
}

/// Every level of the catalogue is read from some primitive. Layers count the rest, as requests come.
///
/// Those of limits on Redis are read by a crate above this one, whose own tests look for them.
#[test]
fn every_level_has_a_source_and_every_sample_is_in_the_catalogue() {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        let clock = time();
        let limiter = RateLimiter::with_clock(Quota::per_second(1), clock.clone());
        let keyed = KeyedLimiterBuilder::<u32, _, _>::new(Quota::per_second(1), clock.clone(), Seed::new(1, 2));
        let adaptive = AdaptiveLimit::with_clock(LimitBounds::DEFAULT, clock.clone());
        let gate = Admission::with_clock(LimitBounds::DEFAULT, clock.clone());
        for _ in 0..2_000 {
            let permits = (adaptive.try_acquire().unwrap(), gate.try_acquire(AdmissionRequest::new()).unwrap());
            clock.advance(Duration::from_millis(2));
            permits.0.record(Outcome::Success);
            permits.1.success();
        }
        let hedge = Hedge::with_clock(HedgeConfig::DEFAULT, clock.clone());
        for _ in 0..200 {
            let call = hedge.run(|_| std::future::ready(Ok::<_, std::fmt::Error>(())));
            let call = pin!(call.sleeping_by(|_| std::future::pending::<()>()));
            assert!(call.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
        // The percentile of the calls before is used for a quarter of a second.
        clock.advance(Duration::from_secs(1));
        let breaker = CircuitBreaker::with_clock(BreakerConfig::default(), clock.clone());
        let breaker = breaker.with_listener(TransitionCounter::new("one"));
        breaker.trip();
        let hosts = KeyedCircuitBreaker::<u32, _>::with_clock(BreakerConfig::default(), 2, clock.clone());
        Exporter::new()
            .register("one", Pausable::with_clock(limiter, clock.clone()))
            .register("tiny", RateLimiter32::new(Quota::per_second(1), TIMER).unwrap())
            .register("keyed", keyed.build().unwrap())
            .register("one", breaker)
            .register("tiny", CircuitBreaker32::new(BreakerConfig::default(), TIMER).unwrap())
            .register("hosts", hosts.unwrap())
            .register("adaptive", adaptive)
            .register("gate", gate)
            .register("keys", KeyedAdaptiveLimit::<u32>::new(LimitBounds::DEFAULT, 4).unwrap())
            .register("keys", KeyedThrottle::<u32>::default())
            .register("pacer", Pacer::new(Quota::per_second(1)))
            .register("budget", RetryBudget::default())
            .register("hedge", hedge)
            .register("latency", UsualLatency::new().starting_with(Duration::from_secs(1)))
            .register("store", BoundedStore::<u32, u32>::default())
            .record();
    });
    let text = recorder.handle().render();
    let scrape = parsed(&text);
    let mut read = HashSet::new();
    for sample in &scrape.samples {
        let metric = ALL.iter().find(|metric| metric.name() == sample.metric);
        let metric = metric.unwrap_or_else(|| panic!("{} is not in the catalogue", sample.metric));
        for (label, _) in sample.labels.iter() {
            assert!(metric.labels().contains(&label.as_str()), "{} has no label {label}", metric.name());
        }
        assert!(sample.labels.get(metric.labels()[0]).is_some());
        let help = format!("# HELP {} {}", metric.name(), metric.help());
        assert!(text.lines().any(|line| line == help), "{help}");
        assert!(text.contains(&format!("# TYPE {} {}\n", metric.name(), metric.kind().name())));
        read.insert(metric.name());
    }
    let levels =
        ALL.iter().filter(|metric| metric.kind() == Kind::Gauge && !metric.name().starts_with("damper_redis_"));
    for level in levels {
        assert!(read.contains(level.name()), "{} has a source", level.name());
    }
}

/// A clock of 32 bits that stands still.
const TIMER: Still = Still;

#[derive(Clone, Copy, Debug)]
struct Still;

impl damper_core::Clock for Still {
    fn now(&self) -> u64 {
        0
    }

    fn frequency(&self) -> u64 {
        1_000
    }
}

impl damper_core::time::FixedFrequency for Still {
    const HERTZ: u64 = 1_000;
}

#[test]
fn exporter_without_sources_records_nothing() {
    let exporter = || Exporter::new().tiers(["nobody's"]);
    assert!(scraped(exporter).samples.is_empty());
}
