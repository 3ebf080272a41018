//! Each rule left out, and that it is noticed.

use crate::process::Broken;
use crate::world::{PLOTS, Setting, Trouble, run, tell};
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

/// A rule of the script: its name, what leaves it out, and the trouble that notices.
type Rule = (&'static str, &'static [(&'static str, &'static str)], Trouble);

const RULES: &[Rule] = &[
    (
        "leased tokens count as still in the bucket",
        &[(
            "limit.owed <= limit.held then\n        limit.owed, limit.frac = limit.held, 0",
            "limit.owed <= 0 then\n        limit.owed, limit.frac = 0, 0",
        )],
        Trouble::Processes,
    ),
    ("a grant fits in the bucket", &[("limit.burst - limit.owed, ", "")], Trouble::Processes),
    (
        "a lease ends a whole lease later",
        &[("(from + length) / step", "(from + length / 2) / step")],
        Trouble::Processes,
    ),
    (
        "up to each end the bucket fills under the ceiling until then",
        &[("        refill(limit, limit.ends[1])\n", "")],
        Trouble::Processes,
    ),
    ("older requests are refused", &[("elseif seq <= last_seq then", "elseif seq < 0 then")], Trouble::Processes),
    (
        "the same request is booked once",
        &[
            ("if seq == last_seq and gen == limit.gen then", "if seq < 0 then"),
            ("elseif seq <= last_seq then", "elseif seq < last_seq then"),
        ],
        Trouble::Processes,
    ),
    (
        "an unknown holder has nothing",
        &[("if unspent + back > count then", "if unspent + back < 0 then")],
        Trouble::Processes,
    ),
    (
        "a limit that was lost is empty",
        &[("elseif not stored and now - loss < after_loss then", "elseif false then")],
        Trouble::Loss,
    ),
    ("what may be leased may be out", &[("lost = max(limit.held, limit.hold)", "lost = limit.held")], Trouble::Loss),
];

#[test]
fn each_rule_of_the_script_is_needed() {
    let noticed = RULES.iter().map(|&(name, lines, trouble)| {
        let script = lines.iter().fold(SOURCE.to_owned(), |script, (lines, instead)| {
            assert_eq!(script.matches(lines).count(), 1, "{name}: the script has other lines");
            script.replace(lines, instead)
        });
        is_noticed(name, &script, Broken::Nothing, &[trouble])
    });
    assert!(noticed.collect::<Vec<_>>().into_iter().all(|noticed| noticed), "a rule of the script can be left out");
}
