//! Limits of any quota.

use super::{AnyDuration, AnyQuota, MOST_CALLS, Pass, names};
use crate::models::timer::Timer;
use arbitrary::Arbitrary;
use damper::limit::Algorithm;
use damper::{
    Alignment, Denied, FixedWindow, LeakyBucket, LeakyQueue, LeasingBucket, LimitSet, LimitSetQuotaError, ManualClock,
    OutOfRange, Quota, RateLimiter, RateLimiter32, SlidingCounter, SlidingLog, Striped, TokenBucket,
};
use std::time::Duration;

/// The largest limit of a log. Larger ones would use too much memory.
const LARGEST_LOG: u32 = 1 << 10;

#[derive(Arbitrary, Debug)]
pub(super) struct LimitsInput {
    quota: AnyQuota,
    which: Which,
    calls: Vec<(Pass, Call)>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Which {
    Bucket(u32),
    Fixed(AlignmentInput),
    Counter(AlignmentInput),
    Log,
    Leaky,
    Queue,
    LimitSet(AnyQuota),
    Leasing(u32, u32),
    Striped(u32, u8),
    Small,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) enum AlignmentInput {
    FirstRequest,
    ClockOrigin,
    OriginAt(AnyDuration),
    WallClock,
}

impl From<AlignmentInput> for Alignment {
    fn from(alignment: AlignmentInput) -> Self {
        match alignment {
            AlignmentInput::FirstRequest => Self::FirstRequest,
            AlignmentInput::ClockOrigin => Self::ClockOrigin,
            AlignmentInput::OriginAt(origin) => Self::OriginAt(origin.duration()),
            AlignmentInput::WallClock => Self::WallClock,
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Call {
    Check(u32),
    SetQuota(AnyQuota),
    TakeUpTo(u32),
    CheckOversized(u32),
    Charge(u32),
    Refund(u32),
    Reserve(u32, Option<AnyDuration>, bool),
}

impl LimitsInput {
    pub(super) fn run(&self, clock: &ManualClock) {
        let Some(quota) = self.quota.quota() else { return };
        assert!(!quota.to_string().is_empty());
        match self.which {
            Which::Bucket(tokens) => {
                self.bucket(RateLimiter::with_algorithm(TokenBucket::with_level(quota, tokens), clock), clock)
            }
            Which::Fixed(alignment) => {
                self.limiter(
                    &RateLimiter::with_algorithm(FixedWindow::new(quota).aligned_to(alignment.into()), clock),
                    clock,
                );
            }
            Which::Counter(alignment) => match SlidingCounter::new(quota) {
                Ok(counter) => {
                    self.limiter(&RateLimiter::with_algorithm(counter.aligned_to(alignment.into()), clock), clock)
                }
                Err(error) => {
                    assert!(quota.limit() > (1 << 24) - 1 && !quota.is_unlimited());
                    names(&error, &["limit", "16777215"]);
                }
            },
            Which::Log => self.log(quota, clock),
            Which::Leaky => self.limiter(&RateLimiter::with_algorithm(LeakyBucket::new(quota), clock), clock),
            Which::Queue => self.queue(&LeakyQueue::with_clock(quota, clock), clock),
            Which::LimitSet(other) => self.layered(quota, other, clock),
            Which::Leasing(budget, size) => self.leasing(quota, budget, size, clock),
            Which::Striped(budget, stripes) => self.striped(quota, budget, stripes.into(), clock),
            Which::Small => self.small(quota),
        }
    }

    fn calls<'a>(&'a self, clock: &'a ManualClock) -> impl Iterator<Item = Call> + 'a {
        self.calls.iter().take(MOST_CALLS).map(|&(pass, call)| {
            pass.on(clock);
            call
        })
    }

    /// The operations of all limiters. Other calls check a single token.
    fn limiter<A: Algorithm>(&self, limiter: &RateLimiter<A, &ManualClock>, clock: &ManualClock) {
        for call in self.calls(clock) {
            one_call(limiter, call);
        }
    }

    fn bucket(&self, limiter: RateLimiter<TokenBucket, &ManualClock>, clock: &ManualClock) {
        for call in self.calls(clock) {
            match call {
                Call::TakeUpTo(n) => assert!(limiter.take_up_to(n) <= n),
                Call::CheckOversized(n) => names_a_wait(limiter.check_oversized(n).map(|_| ())),
                Call::Charge(n) => {
                    assert!(limiter.charge(n) <= n);
                    assert!(limiter.debt() == 0 || limiter.peek().remaining() == 0);
                }
                Call::Refund(n) => assert!(limiter.refund(n) <= n),
                Call::Reserve(n, longest, is_cancelled) => {
                    let reserved = match longest {
                        Some(longest) => limiter.reserve_within(n, longest.duration()),
                        None => limiter.reserve(n),
                    };
                    if let Ok(reservation) = &reserved
                        && let Some(longest) = longest
                    {
                        assert!(reservation.ready_in().is_some() || longest.duration() > Duration::from_secs(1 << 34));
                    }
                    match reserved {
                        Ok(reservation) if is_cancelled => _ = reservation.cancel(),
                        Ok(_) => {}
                        Err(denied) => names_a_wait(Err(denied)),
                    }
                }
                call => one_call(&limiter, call),
            }
        }
    }

    fn log(&self, quota: Quota, clock: &ManualClock) {
        if quota.limit() > LARGEST_LOG && quota.limit() <= 1 << 24 {
            return;
        }
        match SlidingLog::new(quota) {
            Ok(log) => self.limiter(&RateLimiter::with_algorithm(log, clock), clock),
            Err(error) => {
                assert!(quota.limit() > 1 << 24 || quota.is_unlimited());
                names(&error, &["limit", "16777216"]);
            }
        }
    }

    fn queue(&self, queue: &LeakyQueue<&ManualClock>, clock: &ManualClock) {
        for call in self.calls(clock) {
            match call {
                Call::SetQuota(other) => {
                    let (before, Some(other)) = (queue.quota(), other.quota()) else { continue };
                    let answer = queue.set_quota(other);
                    assert_eq!(queue.quota(), if answer.is_ok() { other } else { before }, "{answer:?}");
                }
                Call::Check(n) => names_a_wait(queue.enter_n(n).map(|_| ())),
                _ => names_a_wait(queue.enter().map(|_| ())),
            }
            _ = queue.level();
        }
    }

    fn layered(&self, quota: Quota, other: AnyQuota, clock: &ManualClock) {
        let layers = LimitSet::with_clock([quota, other.quota().unwrap_or(quota)], clock);
        for call in self.calls(clock) {
            match call {
                Call::SetQuota(other) => {
                    let Some(other) = other.quota() else { continue };
                    let missing = LimitSetQuotaError::NoSuchLimit { index: 2, limits: 2 };
                    assert_eq!(layers.set_quota(2, other), Err(missing));
                    let result = layers.set_quota(1, other);
                    assert!(!matches!(result, Err(LimitSetQuotaError::NoSuchLimit { .. })));
                }
                Call::Check(n) => {
                    let before = layers.peek();
                    if let Err(denied) = layers.check_n(n) {
                        assert!(denied.index() < 2 && denied.to_string().starts_with("limit "));
                        names_a_wait(Err(denied.denied()));
                        let after = layers.peek();
                        assert!(before[1] == after[1] || denied.index() > 0, "{before:?} {after:?}");
                    }
                }
                _ => _ = layers.check(),
            }
        }
    }

    fn leasing(&self, quota: Quota, budget: u32, size: u32, clock: &ManualClock) {
        let leasing = match LeasingBucket::new(quota, budget) {
            Ok(leasing) => RateLimiter::with_algorithm(leasing, clock),
            Err(error) => return self.budget(error, quota, budget),
        };
        assert!(budget > 0 && budget < quota.burst_size());
        let mut lease = match leasing.lease(size) {
            Ok(lease) => lease,
            Err(error) => {
                assert!(size == 0 || size > budget);
                return names(&error, &["size", &size.to_string()]);
            }
        };
        for call in self.calls(clock) {
            match call {
                Call::Charge(n) | Call::TakeUpTo(n) => names_a_wait(lease.check_n(n)),
                Call::Refund(_) => lease.give_back(),
                call => one_call(&leasing, call),
            }
            assert!(lease.held() <= size);
        }
    }

    fn striped(&self, quota: Quota, budget: u32, stripes: usize, clock: &ManualClock) {
        let striped = match Striped::with_stripes(quota, budget, stripes, clock) {
            Ok(striped) => striped,
            Err(error) if error.setting() == "stripes" => {
                assert!(!(1..=64.min(budget as usize)).contains(&stripes), "{error}");
                return names(&error, &[&stripes.to_string()]);
            }
            Err(error) => return self.budget(error, quota, budget),
        };
        for call in self.calls(clock) {
            match call {
                Call::SetQuota(other) => {
                    let (before, Some(other)) = (striped.quota(), other.quota()) else { continue };
                    let answer = striped.set_quota(other);
                    assert_eq!(striped.quota(), if answer.is_ok() { other } else { before }, "{answer:?}");
                }
                Call::Check(n) => names_a_wait(striped.check_n(n)),
                _ => names_a_wait(striped.check()),
            }
            let usage = striped.peek();
            assert!(usage.remaining() <= usage.limit());
        }
    }

    fn budget(&self, error: OutOfRange, quota: Quota, budget: u32) {
        assert!(budget == 0 || budget >= quota.burst_size(), "{error}");
        names(&error, &["budget", &budget.to_string()]);
    }

    fn small(&self, quota: Quota) {
        let timer = Timer::<1_000_000>::at(0);
        let limiter = match RateLimiter32::new(quota, &timer) {
            Ok(limiter) => limiter,
            Err(error) => {
                assert!(quota.burst_size() >= 1 << 28);
                return names(&error, &["burst", &quota.burst_size().to_string()]);
            }
        };
        for &(pass, call) in self.calls.iter().take(MOST_CALLS) {
            if let Pass::Any(ticks) = pass {
                timer.advance(ticks);
            }
            if let Call::Check(n) = call {
                names_a_wait(limiter.check_n(n).map(|_| ()));
            }
            let usage = limiter.peek();
            assert_eq!(usage.used() + usage.remaining(), usage.limit());
        }
    }
}

fn one_call<A: Algorithm>(limiter: &RateLimiter<A, &ManualClock>, call: Call) {
    match call {
        Call::SetQuota(other) => {
            let (before, Some(other)) = (limiter.quota(), other.quota()) else { return };
            let answer = limiter.set_quota(other);
            assert_eq!(limiter.quota(), if answer.is_ok() { other } else { before }, "{answer:?}");
        }
        Call::Check(n) => names_a_wait(limiter.check_n(n).map(|allowed| assert!(!format!("{allowed:?}").is_empty()))),
        _ => names_a_wait(limiter.check().map(|_| ())),
    }
    let usage = limiter.peek();
    assert_eq!(usage.used() + usage.remaining(), usage.limit());
    _ = (usage.window(), usage.resets_in());
}

/// A refusal names a wait, or states that none helps.
fn names_a_wait(answer: Result<(), Denied>) {
    if let Err(denied) = answer {
        assert!(denied.to_string().starts_with("rate limit exceeded"), "{denied}");
        assert!(!denied.exceeds_burst() || denied.retry_after().is_none());
        assert_ne!(denied.retry_after(), Some(Duration::ZERO));
    }
}
