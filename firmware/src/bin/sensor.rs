//! A gateway for sensor nodes, for a third of a second.
//!
//! It shows firmware's use of damper, and checks the outcome.
//!
//! - Alarms go out by radio from the main loop and from an interrupt: one bucket for both.
//! - The bus of its own sensor fails for a while: a breaker leaves it alone.
//! - Eight nodes report, and one of them babbles: a limit for each, on a table in a `static`.
//!
//! The timer wraps in the middle of it.
#![no_std]
#![no_main]

use core::cell::RefCell;
use core::time::Duration;
use cortex_m::Peripherals;
use cortex_m_rt::{entry, exception};
use cortex_m_semihosting::hprintln;
use critical_section::Mutex;
use damper_core::keyed::KeyedSlots;
use damper_core::time::Seed;
use damper_core::{BreakerConfig, CallError, Clock, KeyedLimiter, Quota};
use damper_firmware::board::{self, MILLI, TIME, Time};
use damper_firmware::claims::Claims;
use damper_firmware::envelope::{Envelope, Log};
use damper_firmware::words::{self, Breaker, Limiter};

/// A hundred alarms a second, ten at once.
static ALARMS: Limiter = words::limiter(Quota::per_second(ALARM.rate).burst(ALARM.burst));
const ALARM: Envelope = Envelope { rate: 100, burst: 10, early: words::EARLY };

/// Three failures, and the bus is left alone for 20 ms.
static BUS: Breaker =
    words::breaker(words::settings(BreakerConfig::builder().failure_threshold(3).cooldown(COOLDOWN).build()));
const COOLDOWN: Duration = Duration::from_millis(20);

/// Fifty reports a second from each node, five at once; for sixteen nodes.
static NODES: KeyedLimiter<u16, &Time, Seed> =
    KeyedLimiter::in_slots(Quota::per_second(REPORT.rate).burst(REPORT.burst), &SLOTS, &TIME, SEED);
static SLOTS: KeyedSlots<8> = KeyedSlots::new();
const REPORT: Envelope = Envelope { rate: 50, burst: 5, early: 1 };

/// A device takes it from its source of true randomness.
///
/// A client that knows the seed can choose addresses that share a bucket.
const SEED: Seed = Seed::new(0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210);

const RUN: u64 = 300 * MILLI;
/// Until the timer wraps.
const WRAP: u32 = 150 * MILLI as u32;
/// While the bus fails.
const OUTAGE: core::ops::Range<u64> = 100 * MILLI..200 * MILLI;
/// The main loop asks for alarms for so long, and then for so long does not.
///
/// At the end of the run it does.
const BUSY: u64 = 10 * MILLI;
const NODES_REPORTING: u16 = 8;
const BABBLER: u16 = 0;

/// The messages of each sender.
struct Sent {
    log: Log<64>,
    by_interrupt: u32,
    interrupts: u32,
}

static SENT: Mutex<RefCell<Sent>> = Mutex::new(RefCell::new(Sent { log: Log::new(), by_interrupt: 0, interrupts: 0 }));

/// Every millisecond.
#[exception]
fn SysTick() {
    let is_sent = send_alarm();
    critical_section::with(|section| {
        let mut sent = SENT.borrow_ref_mut(section);
        sent.interrupts += 1;
        sent.by_interrupt += u32::from(is_sent);
    });
}

/// Sends an alarm if the limit allows it. The main loop and the interrupt both call it.
fn send_alarm() -> bool {
    let before = TIME.now();
    let is_sent = ALARMS.check().is_ok();
    let after = TIME.now();
    if is_sent {
        // Here the radio would be given the alarm.
        critical_section::with(|section| SENT.borrow_ref_mut(section).log.push(before, after));
    }
    is_sent
}

/// The sensor on its bus.
#[derive(Default)]
struct Sensor {
    read: u32,
    failed: u32,
    left_alone: u32,
}

impl Sensor {
    /// Reads it through the breaker; it does not answer during the outage.
    fn read(&mut self, now: u64) {
        match BUS.call(|| if OUTAGE.contains(&now) { Err(()) } else { Ok(21) }) {
            Ok(_celsius) => self.read += 1,
            Err(CallError::Failed(())) => self.failed += 1,
            Err(CallError::Refused(_)) => self.left_alone += 1,
        }
    }
}

/// The nodes' reports.
#[derive(Default)]
struct Reports {
    of_babbler: u32,
    of_others: u32,
    others_refused: u32,
    babbler_refused: u32,
}

impl Reports {
    fn report(&mut self, node: u16) {
        let is_taken = NODES.check(&node).is_ok();
        let count = match (node, is_taken) {
            (BABBLER, true) => &mut self.of_babbler,
            (BABBLER, false) => &mut self.babbler_refused,
            (_, true) => &mut self.of_others,
            (_, false) => &mut self.others_refused,
        };
        *count += 1;
    }
}

#[entry]
fn main() -> ! {
    let mut systick = Peripherals::take().expect("once").SYST;
    board::start_timer(WRAP);
    let started = TIME.now();
    board::start_interrupts(&mut systick, MILLI as u32);

    let (mut sensor, mut reports, mut alarms_refused) = (Sensor::default(), Reports::default(), 0_u32);
    let (mut next_reading, mut next_reports, mut after_first_round) = (0, 0, None);
    let last_round = loop {
        let now = TIME.now() - started;
        // While it is busy with something else, the interrupt has the bucket to itself.
        if now / BUSY % 2 == 0 {
            alarms_refused += u32::from(!send_alarm());
        }
        reports.report(BABBLER);
        if now >= next_reading {
            next_reading += 2 * MILLI;
            sensor.read(now);
        }
        // Each at half of what it may.
        if now >= next_reports {
            next_reports += 40 * MILLI;
            (1..NODES_REPORTING).for_each(|node| reports.report(node));
        }
        after_first_round.get_or_insert_with(|| TIME.now() - started);
        if now >= RUN {
            break now;
        }
    };
    board::stop_interrupts(&mut systick);
    let passed = TIME.now() - started;
    // At least so long was asked all the time.
    let asked = last_round - after_first_round.unwrap_or_default();

    critical_section::with(|section| {
        let sent = SENT.borrow_ref(section);
        let alarms = sent.log.len() as u32;
        hprintln!("sensor, {}: {} ms", words::NAME, passed / MILLI);
        hprintln!(
            "  alarms   {} sent, {} of them by {} interrupts, {} refused",
            alarms,
            sent.by_interrupt,
            sent.interrupts,
            alarms_refused + sent.interrupts - sent.by_interrupt
        );
        hprintln!("  bus      {} read, {} failed, {} left alone", sensor.read, sensor.failed, sensor.left_alone);
        hprintln!(
            "  reports  {} of {} nodes; of the babbler {}, {} refused",
            reports.of_others,
            NODES_REPORTING - 1,
            reports.of_babbler,
            reports.babbler_refused
        );

        let mut claims = Claims::new();
        // The first timer says the time, the interrupts are counted by the other.
        let by_interrupts = u64::from(sent.interrupts) * MILLI;
        claims.claim(passed.abs_diff(by_interrupts) <= MILLI, "the wrapped timer agrees with the interrupts");
        claims.claim(sent.log.is_within(ALARM), "no stretch of time has more alarms than the quota allows");
        claims.claim(ALARM.is_used_up_by(alarms, asked), "and none that it allows was refused");
        claims.claim(sent.by_interrupt > 0 && sent.by_interrupt < alarms, "main loop and interrupt share the bucket");
        let probes = OUTAGE.end.abs_diff(OUTAGE.start) / (COOLDOWN.as_millis() as u64 * MILLI);
        claims.claim(u64::from(sensor.failed) <= 3 + probes, "the failing bus saw three calls, and a probe in 20 ms");
        claims.claim(sensor.left_alone > 0 && sensor.read > 50, "else it was left alone, and then it was back");
        claims.claim(reports.others_refused == 0, "no node was refused because another babbles");
        claims.claim(REPORT.allows(reports.of_babbler, passed), "the babbler was held to its limit");
        claims.claim(REPORT.is_used_up_by(reports.of_babbler, asked), "and got all of it");
        claims.exit()
    })
}
