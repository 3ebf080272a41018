//! Looking changes nothing.
//!
//! The same calls get the same decisions, whether or not the metrics are recorded between them.

use damper_core::AcquireFuture;
use damper_core::breaker::{BreakerConfig, CircuitBreaker, KeyedCircuitBreaker, Verdict, Window};
use damper_core::concurrency::{
    AdaptiveLimit, Admission, AdmissionRequest, Bulkhead, FixedLimit, KeyedBulkhead, LimitBounds, Outcome,
};
use damper_core::deadline::UsualLatency;
use damper_core::keyed::{KeyedLimiter, KeyedLimiterBuilder, WhenFull};
use damper_core::limit::{
    FixedWindow, KeyedAlgorithm, LeakyBucket, LimitSet, Limiter, Pausable, RateLimiter, SlidingCounter, SlidingLog,
    Striped, TokenBucket,
};
use damper_core::quota::Quota;
use damper_core::retry::{Budget, RetryBucket, RetryBudget, RetryBudgetConfig, RetryThrottle};
use damper_core::store::BoundedStore;
use damper_core::throttle::{AdaptiveThrottle, Hints, KeyedThrottle, Level, Pacer};
use damper_core::time::{ManualClock, Seed};
use damper_metrics::{Exporter, Source};
use std::cell::RefCell;
use std::fmt::Debug;
use std::future::pending;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

type Time = Arc<ManualClock>;

/// Makes a call, and returns the decision as a text.
type Call = Box<dyn FnMut(&mut Draws) -> String>;

/// Draws numbers: the same ones from the same seed.
struct Draws(u64);

impl Draws {
    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ (word >> 31)) % end
    }
}

/// The calls of a program, and its metrics.
struct World {
    clock: Time,
    exporter: Exporter,
    calls: Vec<Call>,
}

/// Without jitter, which also follows from the address of the breaker.
fn config() -> BreakerConfig {
    let window = Window::last_calls(10);
    let config = BreakerConfig::builder().failure_threshold(3).failure_rate(50).window(window).minimum_calls(5);
    config.cooldown(Duration::from_secs(2)).max_half_open(Duration::from_secs(3)).build().unwrap()
}

fn verdict(draws: &mut Draws) -> Verdict {
    Verdict::failure_if(draws.below(3) == 0)
}

impl World {
    fn new() -> Self {
        Self { clock: Arc::new(ManualClock::new()), exporter: Exporter::new(), calls: Vec::new() }
    }

    /// Adds a source and a call of it.
    fn add<S, T: Debug>(&mut self, name: &str, source: S, call: impl Fn(&Arc<S>, &mut Draws) -> T + 'static)
    where
        S: Source + Send + Sync + 'static,
    {
        let (source, name) = (Arc::new(source), name.to_owned());
        self.exporter = std::mem::take(&mut self.exporter).register(&name, Arc::clone(&source));
        self.calls.push(Box::new(move |draws| format!("{name}: {:?}", call(&source, draws))));
    }

    fn add_limiter(&mut self, name: &str, limiter: impl Limiter + Source + Send + Sync + 'static) {
        self.add(name, limiter, |limiter, draws| (limiter.try_acquire(draws.below(4) as u32), limiter.usage()));
    }

    fn add_limiters(&mut self) {
        let (clock, quota) = (self.clock.clone(), Quota::per_second(7).burst(5));
        self.add("bucket", RateLimiter::with_clock(quota, clock.clone()), |limiter, draws| match draws.below(4) {
            0 => (limiter.check_n(draws.below(4) as u32).is_ok(), 0),
            1 => (false, limiter.charge(draws.below(9) as u32)),
            2 => (false, limiter.refund(draws.below(3) as u32)),
            _ => (limiter.reserve(2).is_ok_and(|reservation| !reservation.cancel()), limiter.debt()),
        });
        self.add_limiter("window", RateLimiter::with_algorithm(FixedWindow::new(quota), clock.clone()));
        let counter = SlidingCounter::new(quota).unwrap();
        self.add_limiter("counter", RateLimiter::with_algorithm(counter, clock.clone()));
        self.add_limiter("log", RateLimiter::with_algorithm(SlidingLog::new(quota).unwrap(), clock.clone()));
        self.add_limiter("leaky", RateLimiter::with_algorithm(LeakyBucket::new(quota), clock.clone()));
        self.add_limiter("set", LimitSet::with_clock([quota, Quota::per_minute(60)], clock.clone()));
        self.add_limiter("striped", Striped::with_stripes(Quota::per_second(9), 4, 1, clock.clone()).unwrap());
        let pausable = Pausable::with_clock(RateLimiter::with_clock(quota, clock.clone()), clock);
        self.add("pausable", pausable, |limiter, draws| {
            if draws.below(8) == 0 {
                limiter.pause_for(Duration::from_millis(draws.below(900)));
            }
            limiter.try_acquire(1)
        });
    }

    /// Adds a limit per key, of more keys than there is room for, in two tiers.
    fn add_keyed<A: KeyedAlgorithm + 'static>(&mut self, name: &str, when_full: WhenFull)
    where
        KeyedLimiter<u64, Time, Seed, A>: Send + Sync,
    {
        let quota = Quota::per_second(3).burst(3);
        let builder = KeyedLimiterBuilder::<u64, _, _>::new(quota, self.clock.clone(), Seed::new(1, 2));
        let builder = builder.algorithm::<A>().capacity(8).when_full(when_full);
        let limits = builder.tiers([Quota::per_second(9).burst(6)], |key| (key % 2) as usize).build().unwrap();
        self.add(name, limits, |limits, draws| {
            let key = draws.below(60);
            match draws.below(10) {
                0 => (limits.set_tier(&key, draws.below(2) as usize).is_ok(), 0),
                1 => (false, limits.charge(&key, 2)),
                2 => (false, limits.refund(&key, 1)),
                _ => (limits.check_n(&key, draws.below(3) as u32).is_ok(), limits.peek(&key).remaining()),
            }
        });
    }

    fn add_breakers(&mut self) {
        self.add("breaker", CircuitBreaker::with_clock(config(), self.clock.clone()), |breaker, draws| {
            let permit = breaker.try_acquire().map(|permit| permit.record(verdict(draws)));
            (permit, breaker.state())
        });
        let hosts = KeyedCircuitBreaker::with_clock_and_hasher(config(), 4, self.clock.clone(), Seed::new(1, 2));
        self.add("hosts", hosts.unwrap(), |hosts, draws| {
            let breaker = hosts.get_or_create(&draws.below(7));
            breaker.try_acquire().map(|permit| permit.record(verdict(draws)))
        });
    }

    fn add_concurrency(&mut self) {
        let pool = Bulkhead::with_clock(3, self.clock.clone()).queue(4);
        // Permits and waiting calls stay for some turns.
        let held = RefCell::new((Vec::new(), Vec::<Pin<Box<AcquireFuture<_, _>>>>::new()));
        self.add("pool", pool, move |pool, draws| {
            let (permits, waits) = &mut *held.borrow_mut();
            let mut context = Context::from_waker(Waker::noop());
            match draws.below(4) {
                0 if !permits.is_empty() => drop(permits.swap_remove(0)),
                1 if !waits.is_empty() => drop(waits.swap_remove(0)),
                _ => {
                    let acquire = pool.acquire_owned().within(Duration::from_millis(draws.below(700)));
                    waits.push(Box::pin(acquire.sleeping_by(|_| pending::<()>())));
                }
            }
            let mut results = Vec::new();
            waits.retain_mut(|wait| match wait.as_mut().poll(&mut context) {
                Poll::Pending => true,
                Poll::Ready(result) => {
                    results.push(result.map(|permit| permits.push(permit)).map_err(|full| full.to_string()));
                    false
                }
            });
            (results, pool.status())
        });
        let bounds = LimitBounds::new(1, 20).unwrap();
        self.add("adaptive", AdaptiveLimit::with_clock(bounds, self.clock.clone()), {
            let clock = self.clock.clone();
            move |limit, draws| {
                let permit = limit.try_acquire().map_err(|full| full.to_string())?;
                clock.advance(Duration::from_micros(draws.below(3_000)));
                permit.record(if draws.below(20) == 0 { Outcome::Overloaded } else { Outcome::Success });
                Ok::<_, String>(limit.limit())
            }
        });
        let tenants = KeyedBulkhead::with_clock_and_hasher(1, 3, self.clock.clone(), Seed::new(1, 2)).unwrap();
        let held = RefCell::new(Vec::new());
        self.add("tenants", tenants, move |tenants, draws| {
            let mut held = held.borrow_mut();
            held.truncate(draws.below(4) as usize);
            let permit = tenants.try_acquire(&draws.below(6)).map_err(|full| full.to_string());
            permit.map(|permit| held.push(permit))
        });
        let gate = Admission::<FixedLimit, _>::fixed_with_clock(2, self.clock.clone()).seed(Seed::new(1, 2));
        let held = RefCell::new(Vec::new());
        self.add("gate", gate, move |gate, draws| {
            let mut held = held.borrow_mut();
            held.truncate(draws.below(3) as usize);
            let permit = gate.try_acquire_owned(AdmissionRequest::new()).map_err(|refused| refused.to_string());
            permit.map(|permit| held.push(permit))
        });
    }

    fn add_others(&mut self) {
        self.add("throttle", AdaptiveThrottle::with_clock(self.clock.clone(), 7), |throttle, draws| {
            throttle.try_acquire().map(|permit| permit.record(verdict(draws))).is_ok()
        });
        let apis = KeyedThrottle::with_clock_and_hasher(3, self.clock.clone(), Seed::new(1, 2)).unwrap();
        self.add("apis", apis, |apis, draws| {
            let throttle = apis.get_or_create(&draws.below(5));
            throttle.try_acquire().map(|permit| permit.record(verdict(draws))).is_ok()
        });
        let pacer = Pacer::with_clock(Level::new(Quota::per_second(4)), self.clock.clone(), 7);
        self.add("pacer", pacer, |pacer, draws| {
            let sleep = pacer.before_call();
            let hints = if draws.below(4) == 0 { Hints::REJECTED } else { Hints::ACCEPTED };
            (sleep, pacer.answered(&hints))
        });
        let settings = RetryBudgetConfig::builder().floor(1).reserve(3).build().unwrap();
        self.add("budget", RetryBudget::with_clock(settings, self.clock.clone()), |budget, _| {
            budget.began();
            (budget.try_withdraw(), budget.try_withdraw())
        });
        self.add("retries", RetryBucket::with_clock(settings, self.clock.clone()), |budget, _| {
            budget.began();
            (budget.try_withdraw(), budget.try_withdraw())
        });
        self.add("grpc", RetryThrottle::new(10, 0.4).unwrap(), |budget, draws| {
            if draws.below(3) == 0 {
                budget.succeeded();
            } else {
                budget.failed();
            }
            budget.try_withdraw()
        });
        self.add("latency", UsualLatency::with_clock(self.clock.clone()), |latency, draws| {
            match draws.below(5) {
                0 => latency.record_failure(),
                _ => latency.record_success(Duration::from_micros(draws.below(90_000))),
            }
            latency.p90()
        });
        self.add("store", BoundedStore::<u64, u64, _>::with_hasher(4, Seed::new(1, 2)).unwrap(), |store, draws| {
            let key = draws.below(7);
            let is_there = store.get(&key).is_some();
            (is_there, *store.get_or_insert_with(&key, || key))
        });
    }

    fn whole() -> Self {
        let mut world = Self::new();
        world.add_limiters();
        for (when_full, name) in [
            (WhenFull::SharedOverflow, "sharing"),
            (WhenFull::EvictLeastIndebted, "evicting"),
            (WhenFull::DenyNew, "denying"),
        ] {
            world.add_keyed::<TokenBucket>(&format!("{name} buckets"), when_full);
            world.add_keyed::<FixedWindow>(&format!("{name} windows"), when_full);
            world.add_keyed::<SlidingCounter>(&format!("{name} counters"), when_full);
        }
        world.add_breakers();
        world.add_concurrency();
        world.add_others();
        world
    }

    /// Makes the calls of a seed, and returns the decisions. `look` is called before each.
    fn run(mut self, seed: u64, mut look: impl FnMut(&Exporter)) -> Vec<String> {
        let mut draws = Draws(seed);
        let mut decisions = Vec::new();
        for _ in 0..1_000 {
            look(&self.exporter);
            if draws.below(3) == 0 {
                self.clock.advance(Duration::from_millis(draws.below(400)));
            }
            let call = draws.below(self.calls.len() as u64) as usize;
            decisions.push(self.calls[call](&mut draws));
        }
        decisions
    }
}

#[test]
fn decisions_are_the_same_whether_or_not_metrics_are_recorded() {
    let chosen = std::env::var("DAMPER_SEED").ok().and_then(|seed| seed.parse().ok());
    let first = chosen.unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("to repeat this test's draws: DAMPER_SEED={first}");
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        for seed in (0..6).map(|number| first.wrapping_add(number)) {
            let unseen = World::whole().run(seed, |_| {});
            let mut turns = Draws(seed ^ 1);
            let seen = World::whole().run(seed, |exporter| {
                // Sometimes before the first call, and sometimes many times between two.
                for _ in 0..turns.below(3) {
                    exporter.record();
                }
            });
            for (turn, (unseen, seen)) in unseen.iter().zip(&seen).enumerate() {
                assert_eq!(unseen, seen, "seed {seed}, turn {turn}");
            }
        }
    });
}

/// The test above would notice a source that takes something.
#[test]
fn source_that_takes_a_token_is_noticed() {
    struct Greedy(Arc<RateLimiter<TokenBucket, Time>>);

    impl Source for Greedy {
        fn read(&self, _: &damper_metrics::Readings<'_>) {
            _ = self.0.check();
        }
    }

    let world = || {
        let mut world = World::new();
        let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(2), world.clock.clone()));
        world.add("greedy", Greedy(limiter), |greedy, _| greedy.0.check().is_ok());
        world
    };
    assert_ne!(world().run(1, |_| {}), world().run(1, Exporter::record));
}
