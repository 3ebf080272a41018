//! The guarantees of every limiter, through the trait `Limiter`.

use crate::models::timer::Timer;
use damper::{
    Denied, FixedWindow, LeakyBucket, LeasingBucket, LimitSet, Limiter, Pausable, Quota, RateLimiter, RateLimiter32,
    SlidingCounter, SlidingLog, Striped, TokenBucket,
};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

type Millis = Timer<1_000>;

/// A limiter, and the tokens that it allows in an interval.
struct Subject<'a> {
    name: &'static str,
    envelope: Envelope,
    limiter: Box<dyn Limiter + Send + Sync + 'a>,
}

#[derive(Clone, Copy, Debug)]
enum Envelope {
    /// A burst plus what the rate refills.
    Bucket,
    /// The limit in each window of a second that the interval touches.
    Windows,
}

impl Envelope {
    fn most(self, limit: u32, millis: u64) -> u64 {
        match self {
            Self::Bucket => u64::from(limit) * (1_000 + millis + 1) / 1_000,
            Self::Windows => u64::from(limit) * (millis / 1_000 + 2),
        }
    }
}

/// Every limiter, with a rate of `limit` tokens a second and a burst of the same size.
fn limiters<'a>(limit: u32, clock: &'a Millis, other: &'a RateLimiter<TokenBucket, &'a Millis>) -> Vec<Subject<'a>> {
    fn subject<'a>(name: &'static str, envelope: Envelope, limiter: impl Limiter + Send + Sync + 'a) -> Subject<'a> {
        Subject { name, envelope, limiter: Box::new(limiter) }
    }
    use Envelope::{Bucket, Windows};
    let quota = Quota::per_second(limit);
    // Leases and stripes hold the rest.
    let with_budget = quota.burst(limit + 4);
    let (leasing, counter) = (LeasingBucket::new(with_budget, 4).unwrap(), SlidingCounter::new(quota).unwrap());
    let set = [quota, Quota::per_minute(60 * limit)];
    let windows = [quota, Quota::per_minute(90)].map(FixedWindow::new);
    vec![
        subject("token bucket", Bucket, RateLimiter::with_clock(quota, clock)),
        subject("leaky bucket", Bucket, RateLimiter::with_algorithm(LeakyBucket::new(quota), clock)),
        subject("leasing bucket", Bucket, RateLimiter::with_algorithm(leasing, clock)),
        subject("fixed window", Windows, RateLimiter::with_algorithm(FixedWindow::new(quota), clock)),
        subject("sliding counter", Windows, RateLimiter::with_algorithm(counter, clock)),
        subject("sliding log", Windows, RateLimiter::with_algorithm(SlidingLog::new(quota).unwrap(), clock)),
        subject("set of buckets", Bucket, LimitSet::with_clock(set, clock)),
        subject("set of windows", Windows, LimitSet::with_algorithms(windows, clock)),
        subject("32 bits", Bucket, RateLimiter32::new(quota, clock).unwrap()),
        subject(
            "pausable",
            Bucket,
            paused_before(Pausable::with_clock(RateLimiter::with_clock(quota, clock), clock), clock),
        ),
        subject("reference", Bucket, other),
        subject("arc", Bucket, Arc::new(RateLimiter::with_clock(quota, clock))),
        subject("box", Bucket, Box::new(RateLimiter::with_clock(quota, clock))),
    ]
}

/// Pauses a limiter, and returns at the end of the pause.
fn paused_before<'a, L>(limiter: Pausable<L, &'a Millis>, clock: &'a Millis) -> Pausable<L, &'a Millis> {
    limiter.pause_for(Duration::from_millis(10));
    clock.advance(10);
    limiter
}

/// Stripes hold tokens taken from the bucket, which refills meanwhile.
///
/// The quota's burst covers both.
fn striped(limit: u32, clock: &Millis) -> Striped<&Millis> {
    Striped::with_stripes(Quota::per_second(limit).burst(limit + 4), 4, 2, clock).unwrap()
}

fn histories() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let pause = prop_oneof![3 => Just(0), 3 => 1..400_u64, 1 => 400..5_000_u64];
    let cost = prop_oneof![4 => Just(1_u32), 4 => 0..8_u32, 1 => any::<u32>()];
    proptest::collection::vec((pause, cost), 1..80)
}

/// How many tokens were allowed, and when.
#[derive(Default)]
struct Log(Vec<(u64, u64)>);

impl Log {
    fn stays_in(&self, most: impl Fn(u64) -> u64) -> bool {
        self.0.iter().enumerate().all(|(first, &(from, _))| {
            let mut allowed = 0;
            self.0[first..].iter().all(|&(at, n)| {
                allowed += n;
                allowed <= most(at - from)
            })
        })
    }
}

proptest! {
    /// A call takes all of its `n` tokens or none, consistent with the usage before and after.
    ///
    /// It never exceeds the envelope, and succeeds after the wait in the refusal.
    // CLAIM: RateLimiter
    #[test]
    fn limiters_take_all_or_nothing_within_their_envelope(limit in 1..20_u32, history in histories()) {
        let clock = Millis::at(5_000);
        let other = RateLimiter::with_clock(Quota::per_second(limit), &clock);
        for Subject { name, envelope, limiter } in limiters(limit, &clock, &other) {
            let (mut log, mut now) = (Log::default(), 0);
            for &(pause, n) in &history {
                clock.advance(pause);
                now += pause;
                let before = limiter.usage().remaining();
                match limiter.try_acquire(n) {
                    Ok(()) => {
                        prop_assert!(n <= before, "{name}: {n} of {before}");
                        prop_assert_eq!(limiter.usage().remaining(), before - n, "{}", name);
                        log.0.push((now, n.into()));
                    }
                    Err(denied) => {
                        prop_assert!(n > before, "{name}: {n} of {before} refused");
                        prop_assert_eq!(limiter.usage().remaining(), before, "{}", name);
                        // A set returns the refusal of the limit with the longest wait, which may have more tokens
                        // left.
                        prop_assert!((before..n).contains(&denied.remaining()), "{name}: {denied:?}");
                        prop_assert_eq!(denied.exceeds_burst(), n > limit, "{}", name);
                        if let Some(wait) = denied.retry_after() {
                            let millis = u64::try_from(wait.as_millis()).unwrap();
                            clock.advance(millis);
                            now += millis;
                            prop_assert!(limiter.try_acquire(n).is_ok(), "{name}: {n} after {wait:?}");
                            log.0.push((now, n.into()));
                        }
                    }
                }
            }
            prop_assert!(log.stays_in(|millis| envelope.most(limit, millis)), "{name}: {:?}", log.0);
        }
    }

    /// One call for `n` tokens leaves as many as `n` calls for one.
    #[test]
    fn n_tokens_are_n_times_one(limit in 1..20_u32, history in histories()) {
        let clock = Millis::at(0);
        let other = RateLimiter::with_clock(Quota::per_second(limit), &clock);
        let another = RateLimiter::with_clock(Quota::per_second(limit), &clock);
        let pairs = limiters(limit, &clock, &other).into_iter().zip(limiters(limit, &clock, &another));
        for (at_once, one_by_one) in pairs {
            // The windows of both begin now.
            for limiter in [&at_once.limiter, &one_by_one.limiter] {
                prop_assert!(limiter.try_acquire(0).is_ok());
            }
            for &(pause, n) in &history {
                clock.advance(pause);
                if at_once.limiter.try_acquire(n).is_ok() {
                    for _ in 0..n {
                        prop_assert!(one_by_one.limiter.try_acquire(1).is_ok(), "{}", at_once.name);
                    }
                }
                prop_assert_eq!(at_once.limiter.usage(), one_by_one.limiter.usage(), "{}", at_once.name);
            }
        }
    }

    /// Stripes keep tokens that other calls left, so the bucket's guarantees hold for all of them together.
    #[test]
    fn stripes_take_all_or_nothing_within_the_envelope(limit in 1..20_u32, history in histories()) {
        let clock = Millis::at(0);
        let limiter: &dyn Limiter = &striped(limit, &clock);
        let (mut log, mut now) = (Log::default(), 0);
        for &(pause, n) in &history {
            clock.advance(pause);
            now += pause;
            if limiter.try_acquire(n).is_ok() {
                log.0.push((now, n.into()));
            } else {
                prop_assert!(n > limiter.usage().remaining());
            }
        }
        prop_assert!(log.stays_in(|millis| u64::from(limit) * (1_000 + millis + 1) / 1_000 + 4), "{:?}", log.0);
    }
}

#[test]
fn no_tokens_are_always_allowed() {
    let clock = Millis::at(0);
    let other = RateLimiter::with_clock(Quota::per_second(3), &clock);
    for Subject { name, limiter, .. } in limiters(3, &clock, &other) {
        limiter.try_acquire(3).unwrap();
        assert!(limiter.try_acquire(0).is_ok() && limiter.try_acquire(1).is_err(), "{name}");
    }
}

/// Four threads together request three times as many tokens as there are.
#[test]
fn threads_share_exactly_one_burst() {
    const LIMIT: u32 = 64;
    let clock = Millis::at(0);
    let other = RateLimiter::with_clock(Quota::per_second(LIMIT), &clock);
    for Subject { name, limiter, .. } in limiters(LIMIT, &clock, &other) {
        let limiter = &limiter;
        let allowed: u32 = std::thread::scope(|scope| {
            let threads = [(); 4]
                .map(|()| scope.spawn(|| (0..48).map(|_| u32::from(limiter.try_acquire(1).is_ok())).sum::<u32>()));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(allowed, LIMIT, "{name}");
    }
}

#[test]
fn set_refuses_with_its_longest_wait_and_reports_the_least() {
    let clock = Millis::at(0);
    let both = LimitSet::with_clock([Quota::per_second(10), Quota::per_minute(15)], &clock);
    let limiter: &dyn Limiter = &both;
    limiter.try_acquire(10).unwrap();
    assert_eq!((limiter.usage().limit(), limiter.usage().remaining()), (10, 0));
    assert_eq!(limiter.try_acquire(6).unwrap_err().retry_after(), Some(Duration::from_secs(4)));
    clock.advance(1_000);
    assert_eq!((limiter.usage().limit(), limiter.usage().remaining()), (15, 5));
    assert_eq!(limiter.usage().quota(), Quota::per_minute(15));
    let none: &dyn Limiter = &LimitSet::with_clock([], &clock);
    assert!(none.try_acquire(u32::MAX).is_ok());
    assert_eq!((none.usage().used(), none.usage().quota()), (0, Quota::UNLIMITED));
}

/// `check` means the same whether the trait is imported or not.
///
/// That also holds where a pointer is itself a limiter.
#[test]
fn trait_does_not_shadow_own_methods() {
    let clock = Millis::at(0);
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(10), &clock));
    assert_eq!((limiter.check().unwrap().remaining(), limiter.peek().used()), (9, 1));
    let set = Arc::new(LimitSet::with_clock([Quota::per_second(10)], &clock));
    assert_eq!((set.check_n(11).unwrap_err().index(), set.peek().len()), (0, 1));
}

#[test]
fn custom_refusals_name_their_wait() {
    for (wait, named) in [
        (Duration::ZERO, Some(Duration::from_nanos(1))),
        (Duration::from_nanos(1), Some(Duration::from_nanos(1))),
        (Duration::from_secs(86_400), Some(Duration::from_secs(86_400))),
        (Duration::from_nanos(u64::MAX - 1), Some(Duration::from_nanos(u64::MAX - 1))),
        (Duration::from_secs(1 << 40), None),
        (Duration::MAX, None),
    ] {
        let denied = Denied::after(wait);
        assert_eq!((denied.retry_after(), denied.resets_in()), (named, named));
        assert_eq!((denied.remaining(), denied.exceeds_burst()), (0, false));
    }
}
