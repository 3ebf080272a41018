//! Explores scenarios and prints the tables.

use crate::broken_rule::{self, BrokenRule};
use crate::engine::Rules;
use crate::model::LeaseModel;
use crate::property::PROPERTIES;
use crate::scenario::Scenario;
use crate::witness::Witnesses;
use stateright::{Checker, HasDiscoveries, Model};

/// The result of an exploration.
struct Found {
    states: usize,
    generated: usize,
    depth: usize,
    seconds: f64,
    /// The property that failed, and the steps to the state in which it does.
    failure: Option<(&'static str, Vec<String>)>,
    /// The witnesses that no state showed.
    unseen: Vec<String>,
}

/// Explores a scenario under these rules, until a property fails.
fn run(scenario: &Scenario, rules: &Rules, threads: usize) -> Found {
    let model = LeaseModel { scenario: scenario.clone(), rules: rules.clone(), witnesses: Witnesses::default() };
    let began = processor_seconds();
    let builder = model.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures);
    if scenario.is_deep {
        // Depth first needs less memory, and finds longer counterexamples.
        found_by(&builder.spawn_dfs().join(), scenario, began)
    } else {
        found_by(&builder.spawn_bfs().join(), scenario, began)
    }
}

/// Returns what a checker found that began at this processor time.
fn found_by(checker: &impl Checker<LeaseModel>, scenario: &Scenario, began: f64) -> Found {
    let failure = PROPERTIES.iter().find_map(|&(_, name)| {
        let path = checker.discovery(name)?;
        Some((name, path.into_actions().iter().map(|action| format!("{action:?}")).collect()))
    });
    let witnesses = scenario.witnesses.iter();
    let unseen = witnesses.filter(|witness| checker.model().witnesses.count(**witness) == 0);
    Found {
        states: checker.unique_state_count(),
        generated: checker.state_count(),
        depth: checker.max_depth(),
        seconds: processor_seconds() - began,
        failure,
        unseen: unseen.map(|witness| format!("{witness:?}")).collect(),
    }
}

/// Explores scenarios of the protocol as it is, and returns whether all is well.
///
/// All properties hold, and everything was seen.
pub fn explore(scenarios: &[Scenario], threads: usize) -> bool {
    let (mut states, mut seconds) = (0, 0.0);
    println!("| scenario | processes | states | steps | depth | CPU s | result |");
    println!("|---|---|---|---|---|---|---|");
    let mut holds = true;
    for scenario in scenarios {
        let found = run(scenario, &Rules::as_built(), threads);
        let result = match &found.failure {
            Some((property, steps)) => format!("**{property} FAILS**: {}", steps.join(", ")),
            None if found.unseen.is_empty() => "all properties hold".to_owned(),
            None => format!("**NOT SEEN**: {}", found.unseen.join(", ")),
        };
        holds &= found.failure.is_none() && found.unseen.is_empty();
        (states, seconds) = (states + found.states, seconds + found.seconds);
        let Found { states, generated, depth, seconds, .. } = found;
        let (name, processes) = (scenario.name, scenario.paces[0].len());
        println!("| {name} | {processes} | {states} | {generated} | {depth} | {seconds:.1} | {result} |");
    }
    println!("\n{states} states, {seconds:.1} s of processor time");
    holds
}

/// Expects that a property fails. Returns whether it does.
pub fn finds(property: &str, scenarios: &[Scenario], threads: usize) -> bool {
    scenarios.iter().all(|scenario| {
        let found = run(scenario, &Rules::as_built(), threads);
        let is_found = found.failure.as_ref().is_some_and(|(failed, _)| *failed == property);
        match found.failure {
            Some((failed, steps)) => println!("{}: {failed} fails: {}", scenario.name, steps.join(", ")),
            None => println!("{}: NOT FOUND in {} states", scenario.name, found.states),
        }
        is_found
    })
}

/// Explores the protocol without each rule, and returns whether each time a property fails.
pub fn broken_rules(chosen: &[Scenario], threads: usize) -> bool {
    println!("| rule left out | scenario | property that fails | states | CPU s | steps |");
    println!("|---|---|---|---|---|---|");
    let mut all_found = true;
    for BrokenRule { name, rules, scenario } in broken_rule::all() {
        let Some(scenario) = chosen.iter().find(|chosen| chosen.name == scenario) else { continue };
        let Found { states, seconds, failure, .. } = run(scenario, &rules, threads);
        all_found &= failure.is_some();
        let (property, steps) = failure.unwrap_or(("**NOT FOUND**", Vec::new()));
        println!("| {name} | {} | {property} | {states} | {seconds:.1} | {} |", scenario.name, steps.join(", "));
    }
    all_found
}

/// Returns the processor time of this process so far, in seconds.
///
/// The time on the wall says little about a machine that does other work too. 0 where there is no `/proc`.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields behind the name, which ends with the last parenthesis. Two of them count hundredths of a second.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u32 = fields.skip(11).take(2).filter_map(|field| field.parse::<u32>().ok()).sum();
    f64::from(ticks) / 100.0
}
