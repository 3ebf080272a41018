//! damper's hot paths, for `benches/instructions` to count the instructions of.
//!
//! ```text
//! counted                    prints the names of the rows
//! counted ROW WITH WITHOUT   makes so many calls of a row, and so many of what it is counted less
//! ```
//!
//! A run of twice as many calls of the one as of the other, less a run of the opposite, is what a call of the row takes
//! more than one of the other; all else is the same in both, the start of the program too. A row is a function that
//! returns its call, which has to answer true each time. It is counted less an empty call, or less the row that is
//! named: a layer less the bare service.
//!
//! Nothing here is left to chance or to time: clocks stand still, hashers have fixed keys, and there is one thread.

mod adaptive;
mod breakers;
mod bulkheads;
mod gates;
mod keys;
mod layers;
mod limits;
mod logs;
mod pacers;
mod remote;
mod retries;
mod shadows;
mod still;
mod throttles;
mod words;

use std::hint::black_box;
use std::process::ExitCode;

/// Is made many times. A box, so that it is not inlined into the loop around it.
type Call = Box<dyn FnMut() -> bool>;

#[derive(Clone, Copy, Debug)]
struct Row {
    name: &'static str,
    call: fn() -> Call,
    less: fn() -> Call,
}

/// Rows by the names of their functions.
macro_rules! rows {
    ($($name:ident $(- $less:ident)?),* $(,)?) => {
        &[$(crate::Row { name: stringify!($name), call: $name, less: rows!(@less $($less)?) }),*]
    };
    (@less) => { crate::nothing };
    (@less $less:ident) => { $less };
}
use rows;

fn nothing() -> Call {
    Box::new(|| true)
}

fn all() -> impl Iterator<Item = &'static Row> {
    [
        limits::ROWS,
        keys::ROWS,
        breakers::ROWS,
        retries::ROWS,
        bulkheads::ROWS,
        adaptive::ROWS,
        throttles::ROWS,
        pacers::ROWS,
        gates::ROWS,
        shadows::ROWS,
        remote::ROWS,
        layers::ROWS,
        logs::ROWS,
        words::ROWS,
    ]
    .into_iter()
    .flatten()
}

/// Repeats a call that does not return true at first until it does, before the counting starts.
fn prepared(mut call: Call) -> Call {
    assert!((0..1_000_000).any(|_| call()), "a call becomes of the kind that is counted");
    call
}

/// Repeats a call, at each of these depths of the stack in turn.
///
/// A copy of more than 256 bytes takes more instructions at some addresses than at others, in steps of a cache line or two. Where the stack
/// begins depends on the environment and on the path of the program, and each change of the code moves what is on it. A count over all
/// offsets depends on none of these.
#[inline(never)]
fn repeat(mut call: Call, times: u32) {
    const DEPTHS: [fn(&mut Call) -> bool; 8] = [
        deeper_by::<0>,
        deeper_by::<16>,
        deeper_by::<32>,
        deeper_by::<48>,
        deeper_by::<64>,
        deeper_by::<80>,
        deeper_by::<96>,
        deeper_by::<112>,
    ];
    for deeper in DEPTHS.iter().cycle().take(times as usize) {
        assert!(deeper(&mut call), "every call is of the kind that is counted");
    }
}

/// Makes a call below so many bytes of the stack.
#[inline(never)]
fn deeper_by<const BYTES: usize>(call: &mut Call) -> bool {
    let above = black_box([0u8; BYTES]);
    let passed = call();
    // Keeps the bytes until then, and the call from being the last thing that the function does.
    black_box(&above);
    passed
}

fn main() -> ExitCode {
    still::set();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments {
        [] => all().for_each(|row| println!("{}", row.name)),
        [name, with, without] => {
            let (Some(row), Ok(with), Ok(without)) =
                (all().find(|row| row.name == name), with.parse(), without.parse())
            else {
                return usage();
            };
            repeat((row.call)(), with);
            repeat((row.less)(), without);
        }
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: counted [ROW WITH WITHOUT]");
    ExitCode::from(2)
}
