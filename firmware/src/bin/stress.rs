//! Interrupts at a high rate, in millions of checks.
//!
//! There is never a token too many and never one lost, and no call waits for ever.
//!
//! `SysTick` leaves the main loop four times as many instructions between two interrupts as it takes itself, at periods
//! that are prime, so that it comes upon every instruction of what the main loop does. Both ask the same limiter, table or
//! breaker; what they got is counted, and compared with the ticks that passed. That the program ends is one of its
//! claims: `run` gives it a minute.
#![no_std]
#![no_main]

use core::cell::Cell;
use core::time::Duration;
use cortex_m::Peripherals;
use cortex_m::peripheral::SYST;
use cortex_m_rt::{entry, exception};
use cortex_m_semihosting::hprintln;
use critical_section::Mutex;
use damper_core::keyed::KeyedSlots;
use damper_core::time::ExtendedTimer;
use damper_core::time::Seed;
use damper_core::{BreakerConfig, CircuitBreaker, CircuitBreaker32, Clock, KeyedLimiter, Quota};
use damper_core::{RateLimiter, RateLimiter32, TokenBucket};
use damper_firmware::board::{self, HERTZ, TIME, Time, Timer0};
use damper_firmware::claims::Claims;
use damper_firmware::envelope::Envelope;
use damper_firmware::words;

/// A token in 62.5 ticks, 2,500 instructions: more than a check takes anywhere.
const QUOTA: Quota = Quota::per_second(RATE).burst(BURST);
const RATE: u32 = 400_000;
const BURST: u32 = 50;
/// Ticks until a bucket is full, whatever it owes.
const REFILL: u64 = (BURST as u64 + 1) * HERTZ as u64 / RATE as u64;

static BUCKET_32: RateLimiter32<&Time> = match RateLimiter32::new(QUOTA, &TIME) {
    Ok(limiter) => limiter,
    Err(_) => panic!(),
};
static BUCKET_64: RateLimiter<TokenBucket, &Time> = RateLimiter::with_clock(QUOTA, &TIME);
static TABLE: KeyedLimiter<u16, &Time, Seed> = KeyedLimiter::in_slots(QUOTA, &SLOTS, &TIME, Seed::new(1, 2));
static SLOTS: KeyedSlots<8> = KeyedSlots::new();
static CROWDED: KeyedLimiter<u16, &Time, Seed> =
    KeyedLimiter::in_slots(Quota::per_second(CROWD.rate).burst(CROWD.burst), &CROWDED_SLOTS, &TIME, Seed::new(1, 2));
/// Slower, because an eviction takes longer than a token of the others.
const CROWD: Envelope = Envelope { rate: RATE / 80, burst: BURST, early: 1 };
static CROWDED_SLOTS: KeyedSlots<2> = KeyedSlots::new();

/// It fails whenever it is asked, so it is open but for one probe in every cooldown.
const FAILING: BreakerConfig =
    words::settings(BreakerConfig::builder().failure_threshold(1).cooldown(COOLDOWN).max_cooldown(COOLDOWN).build());
const COOLDOWN: Duration = Duration::from_micros(50);
const COOLDOWN_TICKS: u64 = COOLDOWN.as_micros() as u64 * HERTZ as u64 / 1_000_000;
static BREAKER_32: CircuitBreaker32<&Time> = match CircuitBreaker32::new(FAILING, &TIME) {
    Ok(breaker) => breaker,
    Err(_) => panic!(),
};
static BREAKER_64: CircuitBreaker<&Time> = CircuitBreaker::with_clock(FAILING, &TIME);

/// 14 bits of the timer, which wrap every 16,384 ticks, beside all 32.
static NARROW: ExtendedTimer<Timer0<14>> = ExtendedTimer::new(Timer0);

/// The work of `SysTick`, and how often it was allowed.
struct Interrupt {
    ask: Cell<fn() -> bool>,
    interrupts: Cell<u32>,
    allowed: Cell<u32>,
}

static INTERRUPT: Mutex<Interrupt> =
    Mutex::new(Interrupt { ask: Cell::new(|| false), interrupts: Cell::new(0), allowed: Cell::new(0) });

#[exception]
fn SysTick() {
    interrupt();
}

fn interrupt() {
    let ask = critical_section::with(|section| INTERRUPT.borrow(section).ask.get());
    let is_allowed = ask();
    critical_section::with(|section| {
        let interrupt = INTERRUPT.borrow(section);
        interrupt.interrupts.set(interrupt.interrupts.get() + 1);
        interrupt.allowed.set(interrupt.allowed.get() + u32::from(is_allowed));
    });
}

/// Checks of the main loop at each of the interrupt's periods, and where each may evict another.
///
/// On a Cortex-M0 they take several times as long, and no swap is interrupted, for all of them are critical sections.
const CHECKS: u32 = if cfg!(target_has_atomic = "32") { 100_000 } else { 20_000 };
const EVICTIONS: u32 = CHECKS / 20;
const PERIODS: usize = 4;

/// The interrupt, and what was found.
struct Races<'a> {
    systick: &'a mut SYST,
    claims: Claims,
}

/// The counts while main loop and interrupts asked the same.
struct Counted {
    interrupts: u32,
    allowed: u32,
    /// Ticks from before the first check to after the last.
    ///
    /// Beside them those from after the first to before the last.
    outer: u64,
    inner: u64,
}

/// Asks so often, the same as the interrupt that comes every `period` ticks.
fn race(systick: &mut SYST, period: u32, checks: u32, ask: fn() -> bool) -> Counted {
    let full_at = TIME.now() + REFILL;
    while TIME.now() < full_at {}
    critical_section::with(|section| {
        let interrupt = INTERRUPT.borrow(section);
        interrupt.interrupts.set(0);
        interrupt.allowed.set(0);
    });
    let before_first = TIME.now();
    let mut allowed = u32::from(ask());
    let after_first = TIME.now();
    board::start_interrupts(systick, period);
    for _ in 1..checks {
        allowed += u32::from(ask());
    }
    board::stop_interrupts(systick);
    // Until the first refusal: then nothing is left.
    let mut before_last = TIME.now();
    while ask() {
        allowed += 1;
        before_last = TIME.now();
    }
    let after_last = TIME.now();
    critical_section::with(|section| {
        let interrupt = INTERRUPT.borrow(section);
        Counted {
            interrupts: interrupt.interrupts.get(),
            allowed: allowed + interrupt.allowed.get(),
            outer: after_last - before_first,
            inner: before_last - after_first,
        }
    })
}

/// The most ticks that an interrupt takes, and four times as many for the main loop.
///
/// A check that lost its word to the interrupt starts over on a path that is up to twice as long, and may have to
/// finish the lost attempt first. With less time than that an interrupt that gets a token every time would always be
/// first, as it would in every compare-and-swap loop.
fn shortest_period() -> u32 {
    // The computations of the first use do not count.
    interrupt();
    let longest = (0..1_000).map(|_| {
        let before = TIME.now();
        interrupt();
        TIME.now() - before
    });
    5 * longest.max().unwrap_or_default() as u32
}

fn is_prime(number: u32) -> bool {
    (2..number).all(|divisor| number % divisor != 0)
}

impl Races<'_> {
    /// Races at four periods, and whether what was counted in each is as it should be.
    fn race(&mut self, name: &str, checks: u32, ask: fn() -> bool, is_right: fn(&Counted) -> bool) {
        let (mut interrupts, mut allowed, mut is_all_right) = (0, 0, true);
        critical_section::with(|section| INTERRUPT.borrow(section).ask.set(ask));
        for period in (shortest_period()..).filter(|ticks| is_prime(*ticks)).take(PERIODS) {
            let counted = race(self.systick, period, checks, ask);
            is_all_right &= is_right(&counted);
            interrupts += counted.interrupts;
            allowed += counted.allowed;
        }
        let checks = checks * PERIODS as u32;
        // Else it was no race.
        is_all_right &= interrupts > checks / 100;
        self.claims.claim(
            is_all_right,
            format_args!("{name}: {checks} checks and {interrupts} in interrupts, {allowed} allowed"),
        );
    }
}

/// Neither one too many nor one too few.
fn is_exact(counted: &Counted, early: u32) -> bool {
    let envelope = Envelope { rate: RATE, burst: BURST, early };
    envelope.allows(counted.allowed, counted.outer) && envelope.is_used_up_by(counted.allowed, counted.inner)
}

fn is_exact_32(counted: &Counted) -> bool {
    is_exact(counted, 3)
}

fn is_exact_64(counted: &Counted) -> bool {
    is_exact(counted, 1)
}

/// Calls in flight behind a half-open breaker, and whether there were ever two.
struct Probes {
    out: Cell<u32>,
    were_two: Cell<bool>,
}

static PROBES: Mutex<Probes> = Mutex::new(Probes { out: Cell::new(0), were_two: Cell::new(false) });

impl Probes {
    /// A call that takes a while, and fails.
    fn probe() {
        let count = |change: fn(u32) -> u32| {
            critical_section::with(|section| {
                let probes = PROBES.borrow(section);
                probes.out.set(change(probes.out.get()));
                probes.were_two.set(probes.were_two.get() || probes.out.get() > 1);
            });
        };
        count(|out| out + 1);
        cortex_m::asm::delay(200);
        count(|out| out - 1);
    }
}

fn probe_32() -> bool {
    BREAKER_32.try_acquire().map(|permit| (Probes::probe(), permit.failure())).is_ok()
}

fn probe_64() -> bool {
    BREAKER_64.try_acquire().map(|permit| (Probes::probe(), permit.failure())).is_ok()
}

/// One probe at a time, and one in each cooldown.
fn is_one_per_cooldown(counted: &Counted) -> bool {
    let were_two = critical_section::with(|section| PROBES.borrow(section).were_two.get());
    !were_two && counted.allowed > 50 && u64::from(counted.allowed) <= counted.outer / COOLDOWN_TICKS + 1
}

/// How far the narrow timer, extended, is behind the wide one.
///
/// Both count from within their own first period.
static BEHIND: Mutex<Cell<u64>> = Mutex::new(Cell::new(0));

/// Whether the narrow timer shows another time than the wide one.
fn disagrees() -> bool {
    let behind = critical_section::with(|section| BEHIND.borrow(section).get());
    let before = TIME.now();
    let narrow = NARROW.now() + behind;
    let after = TIME.now();
    narrow < before || narrow > after
}

fn never_disagrees(counted: &Counted) -> bool {
    counted.allowed == 0 && counted.outer > 4 << 14
}

/// One key among many that come, and push one another out.
fn ask_in_a_crowd() -> bool {
    static NEXT: Mutex<Cell<u16>> = Mutex::new(Cell::new(0));
    let next =
        critical_section::with(|section| NEXT.borrow(section).replace(NEXT.borrow(section).get().wrapping_add(1)));
    _ = CROWDED.check(&(1_000 + next % 500));
    CROWDED.check(&7).is_ok()
}

fn is_no_more(counted: &Counted) -> bool {
    counted.allowed > 20 && CROWD.allows(counted.allowed, counted.outer)
}

#[entry]
fn main() -> ! {
    let mut systick = Peripherals::take().expect("once").SYST;
    // The wide one wraps early on.
    board::start_timer(1_000_000);
    let (wide, narrow) = (TIME.now(), NARROW.now());
    let behind = (wide - narrow).next_multiple_of(1 << 14);
    critical_section::with(|section| BEHIND.borrow(section).set(behind));

    hprintln!("stress: main loop and interrupts ask the same");
    let mut races = Races { systick: &mut systick, claims: Claims::new() };
    races.race("clock of 14 bits, wrong", CHECKS, disagrees, never_disagrees);
    races.race("limiter, 32-bit word", CHECKS, || BUCKET_32.check().is_ok(), is_exact_32);
    races.race("limiter, 64-bit word", CHECKS, || BUCKET_64.check().is_ok(), is_exact_64);
    races.race("table, one key", CHECKS, || TABLE.check(&7).is_ok(), is_exact_64);
    races.race("table, a key in a crowd", EVICTIONS, ask_in_a_crowd, is_no_more);
    races.race("breaker, 32-bit word", CHECKS, probe_32, is_one_per_cooldown);
    races.race("breaker, 64-bit word", CHECKS, probe_64, is_one_per_cooldown);
    races.claims.exit()
}
