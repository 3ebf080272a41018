//! Two harts that share words: a limit and a bulkhead.
//!
//! A critical section holds on one core only. The words here have 64 bits, which a compare-and-swap of the processor changes, so both
//! harts use them without one. Each hart makes its own limiter on the word, as each process of a host would.
#![no_std]
#![no_main]

mod board;
#[path = "../../src/envelope.rs"]
#[expect(dead_code, unreachable_pub, reason = "the module of a library, of which this program needs a part")]
mod envelope;

use board::{Serial, Time};
use core::fmt::{Display, Write};
use core::hint::spin_loop;
use core::panic::PanicInfo;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicU32, AtomicU64};
use damper_core::words::{Seat, WordBulkhead, WordLimiter};
use damper_core::{Clock, Plan, Quota};
use envelope::Envelope;

/// More tokens at once than one hart asks for, so that both get some. They are gone before the end.
const LIMIT: Envelope = Envelope { rate: 1_000, burst: 1_500_000, early: 3 };
const PLAN: Plan = match Plan::new(Quota::per_second(LIMIT.rate).burst(LIMIT.burst)) {
    Ok(plan) => plan,
    Err(_) => panic!("the quota is out of range"),
};
/// The words that both harts use.
static TOKENS: AtomicU64 = AtomicU64::new(0);
static SLOTS: AtomicU64 = AtomicU64::new(0);

/// The tokens that are taken first.
///
/// The bucket is then not full while the harts wait for one another.
const FIRST: u32 = 100_000;
const HARTS: u32 = 2;
/// How often each hart asks the limit, and enters the bulkhead.
const CHECKS: u32 = 1_000_000;
const ENTRIES: u32 = 200_000;
/// How long a hart stays in the bulkhead.
const STAY: u32 = 20;

/// The tokens that the second hart took.
static TAKEN: AtomicU32 = AtomicU32::new(0);
/// The count of entries of the bulkhead of one slot.
///
/// It is changed by a load and a store, so two harts inside at once would lose a step.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// How often a hart has come to a meeting.
static MET: AtomicU32 = AtomicU32::new(0);

/// Waits until both harts have come to this meeting.
fn meet(meeting: u32) {
    // ORDERING: AcqRel and Acquire pair with one another, so what a hart did before a meeting is visible to the other after it.
    MET.fetch_add(1, AcqRel);
    while MET.load(Acquire) < meeting * HARTS {
        spin_loop();
    }
}

/// Takes tokens, and returns how many.
fn ask() -> u32 {
    let limiter = WordLimiter::new(&TOKENS, PLAN, Time);
    (0..CHECKS).filter(|_| limiter.check().is_ok()).count() as u32
}

/// Counts in the bulkhead.
fn count_inside(seat: Seat) {
    let slots = WordBulkhead::new(&SLOTS, 1, seat);
    for _ in 0..ENTRIES {
        let permit = loop {
            match slots.enter() {
                Ok(permit) => break permit,
                Err(_) => spin_loop(),
            }
        };
        // ORDERING: Relaxed: the permit's swaps order one entry after the other.
        let before = INSIDE.load(Relaxed);
        // Time for the other hart to come between, if it could.
        for _ in 0..STAY {
            spin_loop();
        }
        INSIDE.store(before + 1, Relaxed);
        drop(permit);
    }
}

fn claim(holds: bool, what: impl Display) -> bool {
    _ = writeln!(Serial, "  {} {what}", if holds { "ok     " } else { "FAILED " });
    holds
}

fn first_hart(seat: Seat) -> ! {
    _ = writeln!(Serial, "harts: two of them ask the same words of 64 bits");
    let limiter = WordLimiter::new(&TOKENS, PLAN, Time);
    let before_first = Time.now();
    let first = limiter.take_up_to(FIRST);
    // From here on the bucket is not full, so each token that comes can be taken.
    let after_first = Time.now();
    meet(1);
    let mine = first + ask();
    meet(2);
    let before_last = Time.now();
    // ORDERING: Relaxed: the meeting orders it.
    let theirs = TAKEN.load(Relaxed);
    // The tokens that came meanwhile, until the first refusal.
    let last = limiter.take_up_to(u32::MAX);
    let (taken, outer) = (mine + theirs + last, Time.now() - before_first);
    meet(3);
    count_inside(seat);
    meet(4);
    // ORDERING: Relaxed: the meeting orders it.
    let inside = INSIDE.load(Relaxed);
    let is_exact = LIMIT.allows(taken, outer) && LIMIT.is_used_up_by(taken, before_last - after_first);
    let mut all_hold =
        claim(is_exact, format_args!("limit: {mine} and {theirs} tokens taken, {last} left, in {outer} ticks"));
    all_hold &= claim(inside == HARTS * ENTRIES, format_args!("bulkhead of one slot: {inside} entries counted"));
    all_hold &= claim(SLOTS.load(Relaxed) == 0, "bulkhead: no slot is left taken");
    board::exit(all_hold)
}

fn second_hart(seat: Seat) -> ! {
    meet(1);
    // ORDERING: Relaxed: the meeting orders it.
    TAKEN.store(ask(), Relaxed);
    meet(2);
    meet(3);
    count_inside(seat);
    meet(4);
    board::sleep()
}

/// Runs on each hart, with its number.
fn main(hart: usize) -> ! {
    match Seat::new(hart as u8) {
        Ok(seat) if hart == 0 => first_hart(seat),
        Ok(seat) => second_hart(seat),
        Err(_) => board::sleep(),
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    _ = writeln!(Serial, "{info}");
    board::exit(false)
}
