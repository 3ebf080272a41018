//! The rows: which minority, beside which polite callers, behind which layer.

use std::time::Duration;

/// The layer that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// An adaptive limit before the server's handler.
    ServerAdaptive,
    /// An adaptive admission before the server's handler.
    ServerAdmission,
    /// An adaptive limit around the client.
    ClientAdaptive,
    /// A breaker around the client.
    ClientBreaker,
    /// A fixed limit that fits the pool, before the server's handler.
    Fixed,
}

/// The work of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// A worker of the pool is busy for this time.
    Pool(Duration),
    /// The handler takes this time beside the pool, and responds with this status.
    Beside(u16, Duration),
}

/// When a stream sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Always,
    /// In every second turn of this length; `true` starts with it.
    Turns(Duration, bool),
    /// So many calls at once, one time.
    Once(u32),
}

/// Calls of one kind, at random times that do not wait for one another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) is_polite: bool,
    /// Calls a second while it sends.
    pub(crate) rate: f64,
    pub(crate) work: Work,
    pub(crate) when: When,
    /// The deadlines that calls carry, in turn; `None` leaves it to the server.
    pub(crate) deadlines: [Option<Duration>; 2],
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) guard: Guard,
    pub(crate) workers: u32,
    pub(crate) streams: Vec<Stream>,
    /// The least share of what a fixed limit serves.
    pub(crate) bar: f64,
}

/// The bar of most rows.
const BAR: f64 = 0.85;

/// The bar of cheap calls in turns of a second.
///
/// An early cut may not have been made up for at the end of a run: eight runs had 0.74 to 1.00. Half of the runs
/// had 0.17 to 0.30 before slow calls soon after a new baseline counted as another mix.
const BAR_OF_TURNS: f64 = 0.5;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn polite(rate: f64, work: Work) -> Stream {
    Stream { is_polite: true, rate, work, when: When::Always, deadlines: [None; 2] }
}

fn others(rate: f64, work: Work) -> Stream {
    Stream { is_polite: false, ..polite(rate, work) }
}

/// Returns all rows.
pub(crate) fn rows() -> Vec<Row> {
    let calls_of_20_ms = Work::Pool(ms(20));
    let row =
        |name, guard, workers, streams: &[Stream]| Row { name, guard, workers, streams: streams.to_vec(), bar: BAR };
    let refused = [polite(600.0, calls_of_20_ms), others(150.0, Work::Beside(503, Duration::ZERO))];
    let turns = |work, is_first| Stream { when: When::Turns(ms(2_000), is_first), ..polite(0.0, work) };
    vec![
        row(
            "15 % of a client's calls get 429 in 1 ms",
            Guard::ClientAdaptive,
            20,
            &[polite(1_500.0, calls_of_20_ms), others(265.0, Work::Beside(429, ms(1)))],
        ),
        row("150/s to a path that answers 503, limit", Guard::ServerAdaptive, 20, &refused),
        row("150/s to a path that answers 503, admission", Guard::ServerAdmission, 20, &refused),
        Row {
            bar: BAR_OF_TURNS,
            ..row(
                "500/s cheap calls, one second on and one off",
                Guard::ServerAdaptive,
                20,
                &[
                    polite(500.0, calls_of_20_ms),
                    Stream { when: When::Turns(ms(1_000), true), ..others(500.0, Work::Beside(200, Duration::ZERO)) },
                ],
            )
        },
        row(
            "calls of 5 and 200 ms in turns of 2 s",
            Guard::ServerAdaptive,
            10,
            &[
                Stream { rate: 1_800.0, ..turns(Work::Pool(ms(5)), true) },
                Stream { rate: 45.0, ..turns(Work::Pool(ms(200)), false) },
            ],
        ),
        row(
            "100/s with deadlines of 1 ms",
            Guard::ServerAdaptive,
            20,
            &[polite(500.0, calls_of_20_ms), Stream { deadlines: [Some(ms(1)); 2], ..others(100.0, calls_of_20_ms) }],
        ),
        row(
            "100/s with deadlines of 30 and 60 ms on a path of 300 ms",
            Guard::ServerAdaptive,
            20,
            &[
                polite(500.0, calls_of_20_ms),
                Stream { deadlines: [Some(ms(30)), Some(ms(60))], ..others(100.0, Work::Beside(200, ms(300))) },
            ],
        ),
        row(
            "ten calls with a deadline of 1 ms, once",
            Guard::ClientBreaker,
            20,
            &[
                polite(100.0, calls_of_20_ms),
                Stream { when: When::Once(10), deadlines: [Some(ms(1)); 2], ..others(0.0, calls_of_20_ms) },
            ],
        ),
    ]
}
