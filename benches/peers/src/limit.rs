//! One decision of a rate limiter; its caller asks only whether it is allowed.

use crate::contest::{Contest, Peer, Side, callers_on_threads, calls, calls_on_threads};
use crate::floor;
use damper::{CoarseClock, CoarseTicker, LeasingBucket, Monotonic, Quota, RateLimiter, Striped};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const CONTESTS: &[Contest] = &[
    Contest {
        name: "check_allow",
        damper: check_allow,
        peer: Some(Peer { name: "governor", side: governor::check_allow, bar: Some(1.02) }),
    },
    // The same decision where time may be a millisecond old, for both.
    Contest {
        name: "check_allow_coarse",
        damper: check_allow_coarse,
        peer: Some(Peer { name: "governor", side: governor::check_allow_coarse, bar: Some(0.6) }),
    },
    // Beside the load of a clock and the swap of a word.
    Contest {
        name: "check_allow_coarse_floor",
        damper: check_allow_coarse,
        peer: Some(Peer { name: "load + CAS", side: floor::coarse_read_and_cas, bar: None }),
    },
    // The same for damper only; governor reads its default clock.
    Contest {
        name: "check_allow_coarse_default",
        damper: check_allow_coarse,
        peer: Some(Peer { name: "governor", side: governor::check_allow, bar: None }),
    },
    Contest {
        name: "check_deny",
        damper: check_deny,
        peer: Some(Peer { name: "governor", side: governor::check_deny, bar: Some(1.02) }),
    },
    // Beside others that need no task of their own.
    Contest {
        name: "check_allow_ratelimit",
        damper: check_allow,
        peer: Some(Peer { name: "ratelimit", side: ratelimit::check_allow, bar: None }),
    },
    Contest {
        name: "check_deny_ratelimit",
        damper: check_deny,
        peer: Some(Peer { name: "ratelimit", side: ratelimit::check_deny, bar: None }),
    },
    Contest {
        name: "check_allow_leaky_bucket",
        damper: check_allow,
        peer: Some(Peer { name: "leaky-bucket", side: leaky_bucket::check_allow, bar: None }),
    },
    Contest {
        name: "check_deny_leaky_bucket",
        damper: check_deny,
        peer: Some(Peer { name: "leaky-bucket", side: leaky_bucket::check_deny, bar: None }),
    },
    // Three crates of one author on one bucket.
    Contest {
        name: "check_allow_better_bucket",
        damper: check_allow,
        peer: Some(Peer { name: "better-bucket", side: better_bucket::check_allow, bar: None }),
    },
    Contest {
        name: "check_deny_better_bucket",
        damper: check_deny,
        peer: Some(Peer { name: "better-bucket", side: better_bucket::check_deny, bar: None }),
    },
    Contest {
        name: "check_allow_rate_net",
        damper: check_allow,
        peer: Some(Peer { name: "rate-net", side: rate_net::check_allow, bar: None }),
    },
    Contest {
        name: "check_allow_coarse_rate_net",
        damper: check_allow_coarse,
        peer: Some(Peer { name: "rate-net", side: rate_net::check_allow_coarse, bar: None }),
    },
    Contest {
        name: "check_allow_throttle_net",
        damper: check_allow,
        peer: Some(Peer { name: "throttle-net", side: throttle_net::check_allow, bar: None }),
    },
    // Two threads on one limiter.
    Contest {
        name: "check_allow_2t",
        damper: check_allow_2t,
        peer: Some(Peer { name: "governor", side: governor::check_allow_2t, bar: Some(0.7) }),
    },
    // Of tokens that are taken 1,024 at a time.
    Contest {
        name: "lease_1t",
        damper: lease_1t,
        peer: Some(Peer { name: "governor", side: governor::check_allow, bar: Some(0.12) }),
    },
    Contest {
        name: "lease_2t",
        damper: lease_2t,
        peer: Some(Peer { name: "governor", side: governor::check_allow_2t, bar: Some(0.03) }),
    },
    // For callers that cannot hold a lease, with as many tokens at a time.
    Contest {
        name: "striped_1t",
        damper: striped_1t,
        peer: Some(Peer { name: "governor", side: governor::check_allow, bar: Some(0.5) }),
    },
    Contest {
        name: "striped_2t",
        damper: striped_2t,
        peer: Some(Peer { name: "governor", side: governor::check_allow_2t, bar: Some(0.15) }),
    },
    // How close to what the processor needs for the same accesses.
    Contest {
        name: "check_allow_floor",
        damper: check_allow,
        peer: Some(Peer { name: "raw read + CAS", side: floor::read_and_cas, bar: Some(1.05) }),
    },
    Contest {
        name: "check_deny_floor",
        damper: check_deny,
        peer: Some(Peer { name: "raw read + load", side: floor::read_and_load, bar: Some(1.05) }),
    },
];

/// More than a benchmark can take.
const PLENTY: Quota = Quota::per_second(u32::MAX);

fn check_allow() -> Side {
    let limiter = RateLimiter::new(PLENTY);
    calls(move || black_box(&limiter).check().is_ok())
}

/// How often the threads of coarse clocks advance them.
const TICK: Duration = Duration::from_millis(1);

fn check_allow_coarse() -> Side {
    static CLOCK: CoarseClock = CoarseClock::new();
    let ticker = CoarseTicker::start(&CLOCK, TICK).expect("the system starts a thread");
    // A millisecond brings 4 million tokens, far more than can be taken in it.
    let limiter = RateLimiter::with_clock(PLENTY, &CLOCK);
    let mut side = calls(move || black_box(&limiter).check().is_ok());
    Box::new(move |n| {
        let _runs_as_long_as_the_side = &ticker;
        side(n)
    })
}

fn check_deny() -> Side {
    let limiter = RateLimiter::new(Quota::per_hour(1));
    assert!(limiter.check().is_ok());
    calls(move || black_box(&limiter).check().is_err())
}

fn check_allow_2t() -> Side {
    let limiter = RateLimiter::new(PLENTY);
    calls_on_threads(2, move || black_box(&limiter).check().is_ok())
}

/// Held by each thread.
const LEASE: u32 = 1_024;

fn leasing() -> Arc<RateLimiter<LeasingBucket>> {
    Arc::new(RateLimiter::leasing(PLENTY, 16 * LEASE).expect("less than the burst"))
}

fn lease_1t() -> Side {
    let mut lease = leasing().lease_owned(LEASE).expect("within the budget");
    calls(move || black_box(&mut lease).check().is_ok())
}

fn lease_2t() -> Side {
    let limiter = leasing();
    callers_on_threads(2, move || {
        let mut lease = limiter.lease_owned(LEASE).expect("within the budget");
        move || black_box(&mut lease).check().is_ok()
    })
}

fn striped() -> Striped {
    Striped::with_stripes(PLENTY, 16 * LEASE, 16, Monotonic).expect("less than the burst")
}

fn striped_1t() -> Side {
    let limiter = striped();
    calls(move || black_box(&limiter).check().is_ok())
}

fn striped_2t() -> Side {
    let limiter = striped();
    calls_on_threads(2, move || black_box(&limiter).check().is_ok())
}

/// governor's direct limiter, on its default clock unless a row says otherwise.
mod governor {
    use super::TICK;
    use crate::contest::{Side, calls, calls_on_threads};
    use governor::clock::QuantaUpkeepClock;
    use governor::{Quota, RateLimiter};
    use std::hint::black_box;
    use std::num::NonZeroU32;

    /// The fastest quota that governor can express: one token per nanosecond, and a burst of four seconds.
    fn plenty() -> Quota {
        let a_nanosecond_each = NonZeroU32::new(1_000_000_000).expect("not zero");
        Quota::per_second(a_nanosecond_each).allow_burst(NonZeroU32::MAX)
    }

    pub(super) fn check_allow() -> Side {
        let limiter = RateLimiter::direct(plenty());
        calls(move || black_box(&limiter).check().is_ok())
    }

    pub(super) fn check_allow_coarse() -> Side {
        // Its upkeep thread runs as long as the limiter is there.
        let clock = QuantaUpkeepClock::from_interval(TICK).expect("no other upkeep thread runs");
        let limiter = RateLimiter::direct_with_clock(plenty(), clock);
        calls(move || black_box(&limiter).check().is_ok())
    }

    pub(super) fn check_deny() -> Side {
        let limiter = RateLimiter::direct(Quota::per_hour(NonZeroU32::MIN));
        assert!(limiter.check().is_ok());
        calls(move || black_box(&limiter).check().is_err())
    }

    pub(super) fn check_allow_2t() -> Side {
        let limiter = RateLimiter::direct(plenty());
        calls_on_threads(2, move || black_box(&limiter).check().is_ok())
    }
}

/// ratelimit on std's clock, its default.
mod ratelimit {
    use crate::contest::{Side, calls};
    use ratelimit::Ratelimiter;
    use std::hint::black_box;
    use std::time::Duration;

    pub(super) fn check_allow() -> Side {
        // As fast as governor's: a token each nanosecond, and a burst of four seconds.
        let limiter = Ratelimiter::builder(1_000_000_000).max_tokens(u64::from(u32::MAX));
        let limiter = limiter.initial_available(u64::from(u32::MAX)).build().expect("a rate");
        calls(move || black_box(&limiter).try_wait().is_ok())
    }

    pub(super) fn check_deny() -> Side {
        let limiter = Ratelimiter::builder(1).period(Duration::from_hours(1)).build().expect("a rate");
        calls(move || black_box(&limiter).try_wait().is_err())
    }
}

/// leaky-bucket, without waiting, and unfair: that is what it calls fastest.
mod leaky_bucket {
    use crate::contest::{Side, calls};
    use leaky_bucket::RateLimiter;
    use std::hint::black_box;
    use std::time::Duration;

    pub(super) fn check_allow() -> Side {
        // In a bucket that has more than can be taken, for it is refilled only when it is empty.
        let plenty = usize::MAX >> 8;
        let limiter = RateLimiter::builder().initial(plenty).max(plenty).fair(false).build();
        calls(move || black_box(&limiter).try_acquire(1))
    }

    pub(super) fn check_deny() -> Side {
        let limiter = RateLimiter::builder().initial(0).max(1).interval(Duration::from_hours(1)).fair(false).build();
        calls(move || !black_box(&limiter).try_acquire(1))
    }
}

/// better-bucket on std's clock, its default.
mod better_bucket {
    use crate::contest::{Side, calls};
    use better_bucket::Bucket;
    use std::hint::black_box;
    use std::time::Duration;

    pub(super) fn check_allow() -> Side {
        let bucket = Bucket::per_second(u32::MAX);
        calls(move || black_box(&bucket).acquire(1).is_allowed())
    }

    pub(super) fn check_deny() -> Side {
        let bucket = Bucket::per_duration(1, Duration::from_hours(1));
        assert!(bucket.acquire(1).is_allowed());
        calls(move || black_box(&bucket).acquire(1).is_denied())
    }
}

/// rate-net's limiter without keys, on std's clock unless a row says otherwise.
mod rate_net {
    use super::TICK;
    use crate::contest::{Side, calls};
    use rate_net::{CoarseClock, DirectLimiter};
    use std::hint::black_box;

    pub(super) fn check_allow() -> Side {
        let limiter = DirectLimiter::per_second(u32::MAX);
        calls(move || black_box(&limiter).check().is_allow())
    }

    pub(super) fn check_allow_coarse() -> Side {
        let clock = CoarseClock::spawn(TICK).expect("the system starts a thread");
        let limiter = DirectLimiter::per_second(u32::MAX).with_clock(clock);
        calls(move || black_box(&limiter).check().is_allow())
    }
}

/// throttle-net on std's clock, its default.
mod throttle_net {
    use crate::contest::{Side, calls};
    use std::hint::black_box;
    use throttle_net::Throttle;

    pub(super) fn check_allow() -> Side {
        let throttle = Throttle::per_second(u32::MAX);
        calls(move || black_box(&throttle).try_acquire())
    }
}
