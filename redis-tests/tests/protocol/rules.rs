//! Each rule left out, and that it is noticed.

use crate::process::Broken;
use crate::script_rules::RULES;
use crate::trouble::Trouble;
use crate::world::{PLOTS, Setting, run, tell};
use damper_redis::internal::{SOURCE, SlotTags};

/// The steps of a schedule.
const STEPS: usize = 250;

fn setting(broken: Broken, trouble: Trouble) -> Setting {
    Setting { script: SOURCE.to_owned(), broken, trouble }
}

/// Runs schedules until one fails; `None` if none of so many does.
///
/// Each time a schedule by chance, then one of each story.
fn first_failure(setting: &Setting, schedules: u64) -> Option<(u64, String)> {
    let tags = SlotTags::new();
    let one = |seed| {
        run(setting, &tags, seed, STEPS)?;
        (0..PLOTS).try_for_each(|plot| tell(setting, &tags, seed, plot))
    };
    (0..schedules).find_map(|seed| one(seed).err().map(|error| (seed, error)))
}

fn holds(trouble: Trouble) {
    let tags = SlotTags::new();
    let setting = setting(Broken::Nothing, trouble);
    let mut admitted = 0;
    for seed in 0..600 {
        admitted += run(&setting, &tags, seed, STEPS).unwrap_or_else(|error| panic!("{error}"));
        (0..PLOTS).for_each(|plot| tell(&setting, &tags, seed, plot).unwrap_or_else(|error| panic!("{error}")));
    }
    assert!(admitted > 500_000, "the schedules admit too little to show anything: {admitted}");
}

#[test]
fn nothing_exceeds_the_burst_through_pauses_and_crashes() {
    holds(Trouble::Processes);
}

#[test]
fn nothing_exceeds_the_burst_when_the_server_loses_its_memory() {
    holds(Trouble::Loss);
}

#[test]
fn steps_of_the_servers_clock_give_no_more_than_promised() {
    holds(Trouble::Steps);
}

/// A rule that is left out fails some schedule, in the first of these troubles that notices it.
fn is_noticed(name: &str, script: &str, broken: Broken, troubles: &[Trouble]) -> bool {
    let found = troubles
        .iter()
        .find_map(|&trouble| first_failure(&Setting { script: script.to_owned(), broken, trouble }, 3_000));
    match &found {
        Some((seed, error)) => println!("{name}: after {seed} schedules: {error}"),
        None => println!("{name}: NOT NOTICED"),
    }
    found.is_some()
}

#[test]
fn each_rule_of_the_holder_is_needed() {
    let rules = [
        Broken::SevenEighths,
        Broken::SinceTheRequest,
        Broken::ClockAtEachSpend,
        Broken::LateRepliesDiscarded,
        Broken::Acknowledged,
        Broken::FencedUnspent,
        Broken::Kept,
        Broken::BackTakenOut,
        Broken::RefundOnce,
    ];
    let noticed =
        rules.map(|broken| is_noticed(&format!("{broken:?}"), SOURCE, broken, &[Trouble::Processes, Trouble::Loss]));
    assert!(noticed.into_iter().all(|noticed| noticed), "a rule of the holder can be left out");
}

#[test]
fn each_rule_of_the_script_is_needed() {
    let noticed =
        RULES.iter().map(|rule| is_noticed(rule.name, &rule.script_without(), Broken::Nothing, &[rule.trouble]));
    assert!(noticed.collect::<Vec<_>>().into_iter().all(|noticed| noticed), "a rule of the script can be left out");
}
