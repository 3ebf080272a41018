#[path = "../../tests/svg/mod.rs"]
mod svg;

use super::{FATES, STATES, draw, fill, outline, stretches, ticks, write};
use crate::envelope::FloodMeter;
use crate::options::Options;
use crate::plan::{Phase, Plan, Shot};
use crate::run::{Epoch, Evidence};
use crate::tally::{Outcome, Tally};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

#[test]
fn a_line_is_drawn_where_it_leaves_zero() {
    assert_eq!(stretches(&[0, 0, 3, 4, 0, 0, 1]), [(2, 4), (6, 7)]);
    assert!(stretches(&[0, 0]).is_empty());
}

#[test]
fn a_bin_is_a_step_on_top_of_what_is_below() {
    assert_eq!(outline(10, &[2], &[3]), [(1.0, 5.0), (1.1, 5.0), (1.1, 2.0), (1.0, 2.0)]);
}

#[test]
fn every_fate_and_state_has_a_colour_of_its_own() {
    let colours = FATES.map(|(_, color, _)| color).into_iter().chain(STATES.map(fill));
    let colours: HashSet<_> = colours.collect();
    assert_eq!(colours.len(), FATES.len() + STATES.len());
}

/// A run of these options in which every request ended in turn.
fn picture(arguments: &[&str]) -> String {
    let options = Options::of(arguments).expect("are right");
    let plan = Plan::new(&options);
    let tally = Tally::new(&plan).expect("the bounds are in order");
    for (phase, outcome) in Phase::ALL.into_iter().zip([
        Outcome::Allowed(Duration::from_millis(1)),
        Outcome::Limited,
        Outcome::Refused,
        Outcome::Failed,
    ]) {
        let shot = Shot { at: plan.start_of(phase), phase };
        // The flooding client is limited and fails, and the others are allowed and refused.
        let client = usize::from(matches!(outcome, Outcome::Allowed(_) | Outcome::Refused));
        tally.ended(client, shot, outcome);
    }
    let evidence = Evidence {
        epoch: Epoch::now(),
        end: 0,
        totals: tally.read(),
        flood: FloodMeter::default().read(),
        transitions: Vec::new(),
        hits: Vec::new(),
    };
    draw(&options, &plan, &evidence)
}

#[test]
fn flooding_client_and_others_are_drawn_apart() {
    let picture = picture(&[]);
    for name in ["the flooding client: requests", "the other 3 clients together: requests"] {
        assert!(picture.contains(name), "{name}");
    }
    // One bar each, besides the key of the legend.
    for (name, color, _) in FATES {
        let color = format!("fill=\"{color}\"");
        assert_eq!(picture.matches(&color).count(), 2, "{name}");
    }
}

#[test]
fn labels_neither_overlap_nor_leave_the_picture() {
    for arguments in [
        &[][..],
        &["--clients", "200", "--rate", "2500", "--seconds", "3600"],
        &["--rate", "1", "--burst", "1", "--seconds", "4"],
    ] {
        svg::assert_readable(&picture(arguments));
    }
}

#[test]
fn axis_has_round_numbers() {
    assert_eq!(ticks(12.0, 13).collect::<Vec<_>>(), (0..=12).map(f64::from).collect::<Vec<_>>());
    assert_eq!(ticks(21.6, 5).collect::<Vec<_>>(), [0.0, 5.0, 10.0, 15.0, 20.0]);
    assert_eq!(ticks(4.5, 13).collect::<Vec<_>>(), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5]);
    assert_eq!(
        ticks(3_600.0, 13).collect::<Vec<_>>(),
        [0.0, 500.0, 1_000.0, 1_500.0, 2_000.0, 2_500.0, 3_000.0, 3_500.0]
    );
}

#[test]
fn picture_goes_into_the_folder_target() {
    let directory = std::env::temp_dir().join(format!("damper-gateway-{}", std::process::id()));
    std::fs::create_dir(&directory).expect("is new");
    for _ in ["without the folder", "with it"] {
        assert_eq!(write(&directory, "<svg/>"), Ok(directory.join("target").join("gateway.svg")));
    }
    std::fs::remove_dir_all(&directory).expect("is ours");
    let error = write(Path::new("/dev/null"), "<svg/>").expect_err("is no folder");
    assert!(error.starts_with("cannot write the chart to "), "{error}");
}
