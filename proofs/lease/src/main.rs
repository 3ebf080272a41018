//! Explores the lease protocol of damper-redis exhaustively, within bounds.
//!
//! `README.md` says what is modelled, what is assumed and how to run it.

// | file | idea |
// |---|---|
// | this one | the command line |
// | `scenario` | the scenarios: the processes, the choices and the bounds of each |
// | `model` | the model that stateright explores |
// | `world` | a state: processes, server, network, and the exact bucket of all admissions |
// | `action` | the steps from one state to the next |
// | `property` | what has to hold in every state |
// | `process_state` | the real state machine at the end of a history of events |
// | `engine` | runs the real state machine and the real script, each step once |
// | `recovery` | a run without faults, in which every process has to be served |
// | `witness` | what the explored states have to have shown |
// | `broken_rule` | the rules that are left out one by one |
// | `report` | explores scenarios and prints the tables |

mod action;
mod broken_rule;
mod engine;
mod model;
mod process_state;
mod property;
mod recovery;
mod report;
mod scenario;
mod witness;
mod world;

// The exact bucket, the process with its breakable rules and the script in an embedded Lua are those of `redis-tests`,
// whose tests need more of them.
#[allow(dead_code)]
#[path = "../../../redis-tests/tests/protocol/bucket.rs"]
mod bucket;
#[allow(dead_code)]
#[path = "../../../redis-tests/src/lua_server.rs"]
mod lua_server;
#[path = "../../../redis-tests/src/lua_struct.rs"]
mod lua_struct;
#[allow(dead_code)]
#[path = "../../../redis-tests/tests/protocol/process.rs"]
mod process;
#[allow(dead_code)]
#[path = "../../../redis-tests/tests/protocol/script_rules.rs"]
mod script_rules;
#[allow(dead_code)]
#[path = "../../../redis-tests/tests/protocol/trouble.rs"]
mod trouble;

use std::process::ExitCode;

const USAGE: &str = "\
usage: damper-lease-proof [--deep] [--threads N] [SCENARIO...]    explores all scenarios, or those named
       damper-lease-proof --broken [--threads N] [SCENARIO...]     shows that each broken rule is found
       damper-lease-proof --finds PROPERTY SCENARIO               expects that the property fails in the scenario";

fn main() -> ExitCode {
    let (mut is_deep, mut is_broken, mut expected, mut threads, mut names) = (false, false, None, 1, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--deep" => is_deep = true,
            "--broken" => is_broken = true,
            "--finds" => expected = arguments.next(),
            "--threads" => match arguments.next().and_then(|number| number.parse().ok()) {
                Some(number @ 1..=64) => threads = number,
                _ => return usage("the number of threads is 1 to 64"),
            },
            name if name.starts_with('-') => return usage(&format!("{name} is no option")),
            name => match scenario::named(name, is_deep) {
                Some(scenario) => names.push(scenario),
                None => return usage(&format!("{name} is no scenario, they are {}", scenario::names())),
            },
        }
    }
    let chosen = if names.is_empty() { scenario::all(is_deep) } else { names };
    let holds = match expected {
        Some(property) => report::finds(&property, &chosen, threads),
        None if is_broken => report::broken_rules(&chosen, threads),
        None => report::explore(&chosen, threads),
    };
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage(error: &str) -> ExitCode {
    eprintln!("{error}\n{USAGE}");
    ExitCode::from(2)
}
