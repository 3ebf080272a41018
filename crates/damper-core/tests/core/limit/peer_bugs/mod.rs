//! Bugs seen in other limiters, each reproduced by a small copy that must fail its test.
//!
//! | bug | effect | test | copy |
//! |---|---|---|---|
//! | unchecked products in `check_n` | a burst of 2 admitted 16,777,217 | `product_too_large_for_its_integer` | `unchecked_product` |
//! | large bursts that wrap | 10,248,191 of 5,124,096 admitted; 975,202 of 4,294,967,295 | `burst_too_large_for_its_integer` | `wrapping_burst` |
//! | a backward clock locks out for the whole step | 3,600 s for an hour | `clock_steps_back` | `locked_out_by_a_step_back` |
//! | a rate rounded to whole nanoseconds | 333 M/s of 300 M/s | `token_lasts_a_fraction_of_nanoseconds` | `rounded_interval` |
//! | a refill that drops its remainder | half the rate at some polling periods | `polling_just_before_the_next_token` | `dropped_remainder` |
//! | two-word state with a window | racers are refused while tokens are available | `rival_intervenes_in_a_check` | `two_words` |
//! | a "set rate and period atomically" that tears | the old rate at the new period | `reader_intervenes_in_a_quota_change` | `torn_quota` |
//! | a clock reading that the loop around the swap keeps | 36 to 527 times the quota, "proven under loom" | `rival_stores_a_later_time` | `stale_reading` |
//! | up to twice the burst after idling | 17 of 10 admitted | `idle_longer_than_the_burst_lasts` | `idle_doubles_the_burst` |
//! | `per_second(n)` means one per n seconds | a hundredth of the rate at 10 | `ten_a_second_are_ten_a_second` | `one_per_n_seconds` |
//!
//! Tests of their own cover the bugs of waiting (waiters without order, a wait loop that delivers half the rate), keyed
//! limits (a flood of keys, an exhausted key evicted), circuit breakers and their windows (`circuit_breaker/peer_bugs/`), HTTP and
//! gRPC (permits in `poll_ready`, forwarded addresses, `Retry-After`, timeouts), and retries (jitter, server hints,
//! budgets: `retry/peer_bugs/`).

mod dropped_remainder;
mod idle_doubles_the_burst;
mod locked_out_by_a_step_back;
mod one_per_n_seconds;
mod rounded_interval;
mod stale_reading;
mod torn_quota;
mod two_words;
mod unchecked_product;
mod wrapping_burst;

use damper::{Clock, Quota, RateLimiter, TokenBucket};
use dropped_remainder::DroppedRemainder;
use idle_doubles_the_burst::IdleDoublesTheBurst;
use locked_out_by_a_step_back::LockedOutByAStepBack;
use one_per_n_seconds::OnePerNSeconds;
use rounded_interval::RoundedInterval;
use stale_reading::StaleReading;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use torn_quota::TornQuota;
use two_words::TwoWords;
use unchecked_product::UncheckedProduct;
use wrapping_burst::WrappingBurst;

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * SECOND;

/// A bucket that gets the time as an argument. Times are in nanoseconds.
trait Bucket {
    fn new(limit: u32, window: u64, burst: u32) -> Self;
    fn check_n(&mut self, now: u64, n: u32) -> bool;
}

/// A shared bucket with a clock of its own. It starts full at time 0.
trait Shared {
    fn new(limit: u32, window: u64, burst: u32) -> Self;
    fn pass(&self, nanos: u64);
    fn check(&self) -> bool;
}

/// A limit per window that can be changed while others read it.
trait Adjustable {
    fn new(rate: (u32, Duration)) -> Self;
    fn set(&self, rate: (u32, Duration));
    fn get(&self) -> (u32, Duration);
}

struct Damper {
    limiter: RateLimiter<TokenBucket, RivalClock>,
    now: Rc<Cell<u64>>,
}

/// A clock that the test sets, and that runs a rival after each reading.
///
/// The caller's reading is old by then. That is the only place in a decision where another thread can be simulated. loom-tests interleave any two memory
/// accesses: `bucket`, `live_quota`.
struct RivalClock(Rc<Cell<u64>>);

impl Clock for RivalClock {
    fn now(&self) -> u64 {
        let now = self.0.get();
        halfway();
        now
    }

    fn frequency(&self) -> u64 {
        SECOND
    }
}

impl Damper {
    fn of(quota: Quota) -> Self {
        let now = Rc::default();
        Self { limiter: RateLimiter::with_clock(quota, RivalClock(Rc::clone(&now))), now }
    }
}

impl Bucket for Damper {
    fn new(limit: u32, window: u64, burst: u32) -> Self {
        let quota = match window {
            SECOND => Quota::per_second(limit),
            _ => Quota::per(limit, Duration::from_nanos(window)).unwrap(),
        };
        Self::of(quota.burst(burst))
    }

    fn check_n(&mut self, now: u64, n: u32) -> bool {
        self.now.set(now);
        self.limiter.check_n(n).is_ok()
    }
}

impl Shared for Damper {
    fn new(limit: u32, window: u64, burst: u32) -> Self {
        Bucket::new(limit, window, burst)
    }

    fn pass(&self, nanos: u64) {
        self.now.set(self.now.get() + nanos);
    }

    fn check(&self) -> bool {
        self.limiter.check().is_ok()
    }
}

impl Adjustable for Damper {
    fn new((limit, window): (u32, Duration)) -> Self {
        Self::of(Quota::per(limit, window).unwrap())
    }

    fn set(&self, (limit, window): (u32, Duration)) {
        self.limiter.set_quota(Quota::per(limit, window).unwrap()).unwrap();
    }

    fn get(&self) -> (u32, Duration) {
        let quota = self.limiter.quota();
        (quota.limit(), quota.window())
    }
}

thread_local! {
    /// The code to run in the middle of an operation. It runs again if it returns `true`.
    static RIVAL: RefCell<Option<Box<dyn FnMut() -> bool>>> = const { RefCell::new(None) };
}

/// Runs the rival where another thread could run.
fn halfway() {
    // The rival is taken out while it runs, because it reaches this point itself.
    if let Some(mut rival) = RIVAL.take()
        && rival()
    {
        RIVAL.set(Some(rival));
    }
}

/// Returns how many tokens are admitted at one moment, `n` at a time, up to `most`.
fn drain(bucket: &mut impl Bucket, now: u64, n: u32, most: u32) -> u32 {
    let mut admitted = 0;
    while admitted < most && bucket.check_n(now, n) {
        admitted += n;
    }
    admitted
}

#[test]
fn product_too_large_for_its_integer() {
    /// A cost far above the burst. At 2^40 ns a token, its product wraps to the cost of one token.
    fn admits<B: Bucket>() -> bool {
        B::new(1, 1 << 40, 2).check_n(0, 16_777_217)
    }
    assert!(!admits::<Damper>());
    assert!(admits::<UncheckedProduct>(), "the copy has the bug");
}

#[test]
fn burst_too_large_for_its_integer() {
    fn admitted<B: Bucket>(burst: u32, n: u32) -> u32 {
        drain(&mut B::new(1, HOUR, burst), 0, n, u32::MAX / n * n)
    }
    assert_eq!(admitted::<Damper>(5_124_096, 1), 5_124_096);
    assert_eq!(admitted::<WrappingBurst>(5_124_096, 1), 10_248_191, "twice the burst");
    assert_eq!(admitted::<Damper>(u32::MAX, 65_537), u32::MAX, "in 65,535 calls");
    assert_eq!(admitted::<WrappingBurst>(u32::MAX, 1), 975_202, "a fraction of the burst");
}

#[test]
fn clock_steps_back() {
    /// The seconds until a call is admitted again after the clock stepped back by an hour.
    fn locked_out<B: Bucket>() -> Option<u64> {
        let mut bucket = B::new(10, SECOND, 10);
        assert_eq!(drain(&mut bucket, 2 * HOUR, 1, 100), 10);
        (0..2 * 3_600).find(|second| bucket.check_n(HOUR + second * SECOND, 1))
    }
    // Ten bursts of debt, a hundred tokens, are repaid in 10 s. The next token takes 0.1 s, and the poll of the next
    // second takes it.
    assert_eq!(locked_out::<Damper>(), Some(11), "until the deepest debt is repaid");
    assert_eq!(locked_out::<LockedOutByAStepBack>(), Some(3_600 + 1), "the whole step");
}

#[test]
fn token_lasts_a_fraction_of_nanoseconds() {
    /// The tokens admitted in a second under saturation, polled every millisecond.
    fn per_second<B: Bucket>() -> u32 {
        let mut bucket = B::new(300_000_000, SECOND, 1_000_000);
        drain(&mut bucket, 0, 10_000, u32::MAX);
        (1..=1_000).map(|milli| drain(&mut bucket, milli * 1_000_000, 10_000, u32::MAX)).sum()
    }
    assert_eq!(per_second::<Damper>(), 300_000_000);
    assert_eq!(per_second::<RoundedInterval>() / 1_000_000, 333, "three nanoseconds a token");
}

#[test]
fn polling_just_before_the_next_token() {
    /// The tokens admitted in 1,999 s at one a second, polled every 1.999 s.
    fn polled<B: Bucket>() -> u32 {
        let mut bucket = B::new(1, SECOND, 10);
        assert_eq!(drain(&mut bucket, 0, 1, 100), 10);
        (1..=1_000).map(|look| drain(&mut bucket, look * 1_999_000_000, 1, 100)).sum()
    }
    assert_eq!(polled::<Damper>(), 1_999);
    assert_eq!(polled::<DroppedRemainder>(), 1_000, "half of the tokens");
}

#[test]
fn rival_intervenes_in_a_check() {
    /// Whether each of two racing callers gets one of five tokens.
    fn both_get_one<B: Shared + 'static>() -> (bool, bool) {
        let bucket = Rc::new(B::new(5, SECOND, 5));
        while bucket.check() {}
        bucket.pass(SECOND);
        let (rival, got) = (Rc::clone(&bucket), Rc::new(Cell::new(None)));
        let sink = Rc::clone(&got);
        RIVAL.set(Some(Box::new(move || {
            sink.set(Some(rival.check()));
            false
        })));
        (bucket.check(), got.get().expect("the rival ran"))
    }
    assert_eq!(both_get_one::<Damper>(), (true, true));
    assert_eq!(both_get_one::<TwoWords>(), (true, false), "although five tokens were available");
}

#[test]
fn rival_stores_a_later_time() {
    /// The tokens admitted in a second at ten a second, to a thread whose readings a rival makes stale.
    fn admitted<B: Shared + 'static>() -> u32 {
        let bucket = Rc::new(B::new(10, SECOND, 10));
        bucket.pass(HOUR);
        while bucket.check() {}
        let mut admitted = 0;
        for _ in 0..1_000 {
            let (rival, got) = (Rc::clone(&bucket), Rc::new(Cell::new(0)));
            let sink = Rc::clone(&got);
            RIVAL.set(Some(Box::new(move || {
                rival.pass(SECOND / 1_000);
                sink.set(u32::from(rival.check()));
                false
            })));
            admitted += u32::from(bucket.check()) + got.get();
            while bucket.check() {
                admitted += 1;
            }
        }
        admitted
    }
    assert_eq!(admitted::<Damper>(), 10);
    // Ten times in this second the rival gets a token and stores a later time. Each makes a reading stale, which refills the bucket.
    assert!(admitted::<StaleReading>() >= 100, "ten times the quota");
}

#[test]
fn reader_intervenes_in_a_quota_change() {
    const SLOW: (u32, Duration) = (600, Duration::from_mins(1));
    const FAST: (u32, Duration) = (20, Duration::from_secs(1));

    /// Whether readers see only the old rate or the new one.
    fn is_whole<A: Adjustable + 'static>(old: (u32, Duration), new: (u32, Duration)) -> bool {
        let limit = Rc::new(A::new(old));
        let (reader, seen) = (Rc::clone(&limit), Rc::new(RefCell::new(Vec::new())));
        let sink = Rc::clone(&seen);
        RIVAL.set(Some(Box::new(move || {
            sink.borrow_mut().push(reader.get());
            true
        })));
        limit.set(new);
        RIVAL.take();
        assert_eq!(limit.get(), new);
        let seen = seen.borrow();
        assert!(!seen.is_empty(), "the reader ran");
        seen.iter().all(|&rate| rate == old || rate == new)
    }
    for (old, new) in [(SLOW, FAST), (FAST, SLOW)] {
        assert!(is_whole::<Damper>(old, new));
        assert!(!is_whole::<TornQuota>(old, new), "the copy has the bug");
    }
}

#[test]
fn idle_longer_than_the_burst_lasts() {
    /// The tokens admitted at once after 17 idle seconds, at one a second with a burst of ten.
    fn after_idling<B: Bucket>() -> u32 {
        let mut bucket = B::new(1, SECOND, 10);
        drain(&mut bucket, HOUR, 1, 100);
        drain(&mut bucket, HOUR + 17 * SECOND, 1, 100)
    }
    assert_eq!(after_idling::<Damper>(), 10);
    assert_eq!(after_idling::<IdleDoublesTheBurst>(), 17, "the whole refill, more than the burst");
}

#[test]
fn ten_a_second_are_ten_a_second() {
    /// The tokens admitted in ten seconds after the burst.
    fn in_ten_seconds<B: Bucket>() -> u32 {
        let mut bucket = B::new(10, SECOND, 10);
        assert_eq!(drain(&mut bucket, 0, 1, 100), 10);
        (1..=10).map(|second| drain(&mut bucket, second * SECOND, 1, 100)).sum()
    }
    assert_eq!(in_ten_seconds::<Damper>(), 100);
    assert_eq!(in_ten_seconds::<OnePerNSeconds>(), 1, "one token in ten seconds");
}
