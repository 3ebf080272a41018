//! The scenarios: the processes, the choices and the bounds of each.

use crate::witness::Witness;
use damper_core::Quota;
use damper_redis::internal::Terms;

/// The length of a lease, in µs.
pub const LEASE: u64 = 1_000_000;

/// The ends of leases are multiples of this time, in µs.
pub const SLOT: u64 = LEASE / 8;

/// The choices of a clock's pace: 5 % slower than the server's, and 5 % faster.
pub const SLOW: usize = 0;
pub const FAST: usize = 1;

/// The limit of all scenarios: 100 tokens a second, a burst of 60, of which 30 may be leased.
pub fn terms() -> Terms {
    Terms::new(Quota::per_second(100).burst(60), 30).expect("a rate that can be counted")
}

/// How many tokens a check asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    One,
    /// All that the process holds, or one token if it holds none.
    Held,
    /// So many that few checks need more than a lease brings.
    Large,
}

/// How long nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The shortest time between two requests, with its jitter: 25 ms.
    Pace,
    /// Until the next slot ends.
    Slot,
    /// Until the seventh slot from now ends.
    SevenSlots,
}

/// How often each kind of step may still be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounds {
    pub waits: u8,
    pub checks: u8,
    /// Steps that no check asks for: to renew a lease, to return it, to send bookings.
    pub dues: u8,
    pub refunds: u8,
    /// Requests that arrive and arrive again.
    pub repeats: u8,
    /// Callers that give a command up. The command may arrive nevertheless, and its reply too.
    pub give_ups: u8,
    pub crashes: u8,
    /// Losses of all that the server has stored.
    pub losses: u8,
    /// Losses of what the server has stored since an instant before.
    pub rollbacks: u8,
    /// Takes of all that the server has, by processes that do not lease.
    pub others: u8,
}

/// The bounds of an exploration.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// The clocks of the processes, for each initial state.
    pub paces: &'static [&'static [usize]],
    /// Whether the processes hold leases in the initial state.
    pub leases: bool,
    pub costs: &'static [Cost],
    pub spans: &'static [Span],
    pub bounds: Bounds,
    /// Whether the bounds are the larger ones.
    pub is_deep: bool,
    /// Whether demand has to be served after each state, once faults have ended.
    pub recovers: bool,
    /// The witnesses that some state has to show, or else the scenario shows too little.
    pub witnesses: &'static [Witness],
}

/// Clocks with the largest difference, and of two slow ones, which keep leases longest.
const TWO: &[&[usize]] = &[&[SLOW, FAST], &[SLOW, SLOW]];
const ONE_PACE: &[&[usize]] = &[&[SLOW, FAST]];
const THREE: &[&[usize]] = &[&[SLOW, SLOW, FAST]];
const SPANS: &[Span] = &[Span::Pace, Span::Slot, Span::SevenSlots];

const NONE: Bounds = Bounds {
    waits: 0,
    checks: 0,
    dues: 0,
    refunds: 0,
    repeats: 0,
    give_ups: 0,
    crashes: 0,
    losses: 0,
    rollbacks: 0,
    others: 0,
};

/// Returns all scenarios, with small or with large bounds.
pub fn all(is_deep: bool) -> Vec<Scenario> {
    let more = u8::from(is_deep);
    let scenario = |name, paces, bounds: Bounds, witnesses| {
        let bounds = Bounds { waits: bounds.waits + more, ..bounds };
        let costs = &[Cost::One, Cost::Held];
        Scenario { name, paces, leases: true, costs, spans: SPANS, bounds, is_deep, recovers: false, witnesses }
    };
    vec![
        scenario(
            "network",
            TWO,
            Bounds { waits: 3, checks: 1, dues: 1, give_ups: 1, ..NONE },
            &[Witness::Ended, Witness::Late, Witness::TakenBack, Witness::Stale, Witness::Unknown],
        ),
        scenario(
            "repeats",
            TWO,
            Bounds { waits: 2, checks: 1, dues: 1, refunds: 1, repeats: 1, ..NONE },
            &[Witness::Repeated, Witness::Stale],
        ),
        scenario("others", TWO, Bounds { waits: 3, checks: 2, others: 1, ..NONE }, &[Witness::Ended]),
        scenario("crashes", TWO, Bounds { waits: 3, checks: 1, dues: 1, crashes: 1, ..NONE }, &[Witness::Ended]),
        scenario("losses", TWO, Bounds { waits: 2, checks: 1, dues: 1, losses: 2, ..NONE }, &[Witness::Unknown]),
        scenario("rollbacks", TWO, Bounds { waits: 2, checks: 1, rollbacks: 1, others: 2, ..NONE }, &[]),
        Scenario {
            leases: false,
            costs: &[Cost::Large],
            ..scenario(
                "refunds",
                TWO,
                Bounds { waits: 2, checks: 2, dues: 1, refunds: 1, give_ups: 1, others: 1, ..NONE },
                &[Witness::Late],
            )
        },
        Scenario {
            costs: &[Cost::Held],
            ..scenario("three", THREE, Bounds { waits: 3, checks: 1, dues: 1, give_ups: 1, ..NONE }, &[Witness::Ended])
        },
        Scenario {
            costs: &[Cost::Large],
            recovers: true,
            ..scenario("waiting", ONE_PACE, Bounds { waits: 2, checks: 4, give_ups: 1, ..NONE }, &[Witness::JointTaken])
        },
        Scenario {
            recovers: true,
            ..scenario(
                "recovery",
                ONE_PACE,
                Bounds { waits: 1, checks: 1, dues: 1, crashes: 1, losses: 1, ..NONE },
                &[Witness::Ended],
            )
        },
    ]
}

/// Returns the scenario of this name.
pub fn named(name: &str, is_deep: bool) -> Option<Scenario> {
    all(is_deep).into_iter().find(|scenario| scenario.name == name)
}

/// Returns the names of all scenarios.
pub fn names() -> String {
    all(false).iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ")
}
