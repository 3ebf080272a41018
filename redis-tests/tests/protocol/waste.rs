//! Rules without which tokens are wasted, or all are locked out.
//!
//! Nothing exceeds the limit without them, but less than the limit is used.

use crate::process::Broken;
use crate::trouble::Trouble;
use crate::world::{GLUTTON, PACE, Setting, World, terms};
use damper_redis::internal::{SOURCE, SlotTags};

/// Runs a story on the script as it is, and without some of its lines: how much each admits at the end.
fn with_and_without(lines: &str, instead: &str, story: impl Fn(&mut World<'_>) -> Result<(), String>) -> (u64, u64) {
    assert_eq!(SOURCE.matches(lines).count(), 1, "the script has other lines than {lines}");
    let tags = SlotTags::new();
    let admitted = |script: String| {
        let setting = Setting { script, broken: Broken::Nothing, trouble: Trouble::Processes };
        let mut world = World::new(&setting, &tags, 1);
        story(&mut world).expect("no more than the limit");
        let before = world.bucket.admitted;
        world.drain(GLUTTON, 70).expect("no more than the limit");
        world.bucket.admitted - before
    };
    (admitted(SOURCE.to_owned()), admitted(SOURCE.replace(lines, instead)))
}

#[test]
fn grants_whose_reply_is_lost_come_back() {
    let give_back = "limit.owed = limit.owed - granted\n";
    let (with, without) = with_and_without(give_back, "\n", |world| {
        for _ in 0..30 {
            world.is_silent = true;
            world.drain(0, 9)?;
            while !world.wire.is_empty() {
                world.arrive_at(0)?;
            }
            world.back.clear();
            while !world.processes[0].waiting.is_empty() {
                world.processes[0].give_up(0);
            }
            world.wait(PACE + PACE / 4);
        }
        world.is_silent = false;
        Ok(())
    });
    let most = u64::from(terms().burst);
    assert!(with > most / 3 && without < with / 2, "{with} of {most} are left, without the rule {without}");
}

#[test]
fn clock_that_stepped_back_locks_out_for_the_deepest_debt_at_most() {
    let heal = "local excess = limit.owed + whole - limit.deepest";
    let (with, without) = with_and_without(heal, "local excess = -1", |world| {
        world.drain(GLUTTON, 70)?;
        world.server.set_time(world.server.now() - 3_600_000_000);
        // After the denial that the process remembers.
        for _ in 0..9 {
            world.wait(20_000);
            world.drain(GLUTTON, 1)?;
        }
        // The time in which the deepest debt drips in.
        world.wait(terms().deepest / 100 * 1_000_000 + 1_000_000);
        Ok(())
    });
    assert!(with > 0 && without == 0, "{with} are left, without the rule {without}");
}

#[test]
fn stopped_server_takes_nothing_for_checks_that_were_given_up() {
    let late = "if not_after > 0 and now > not_after then";
    let (with, without) = with_and_without(late, "if false then", |world| {
        world.is_silent = true;
        world.drain(GLUTTON, 50)?;
        world.is_silent = false;
        for message in &mut world.wire {
            message.frame.not_after = world.server.now() + 5_000;
        }
        world.wait(100_000);
        while !world.processes[GLUTTON].waiting.is_empty() {
            world.processes[GLUTTON].give_up(0);
        }
        while !world.wire.is_empty() {
            world.arrive_at(0)?;
        }
        Ok(())
    });
    assert_eq!((with, without), (u64::from(terms().burst), u64::from(terms().burst) - 50));
}
