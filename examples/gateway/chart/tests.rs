#[path = "../../tests/svg/mod.rs"]
mod svg;

use super::{FATES, STATES, draw, fill, outline, stretches, write};
use crate::envelope::FloodMeter;
use crate::options::Options;
use crate::plan::{Phase, Plan, Shot};
use crate::run::{Epoch, Evidence};
use crate::tally::{Outcome, Tally};
use clap::Parser;
use std::collections::HashSet;
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
    let colours: HashSet<_> = colours.map(|color| (color.0, color.1, color.2)).collect();
    assert_eq!(colours.len(), FATES.len() + STATES.len());
}

/// A run of these options in which every request ended in turn.
fn picture(arguments: &[&str]) -> String {
    let options = Options::parse_from(std::iter::once("gateway").chain(arguments.iter().copied()));
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
    draw(&options, &plan, &evidence).expect("a string takes everything")
}

#[test]
fn flooding_client_and_others_are_drawn_apart() {
    let picture = picture(&[]);
    for name in ["the flooding client: requests", "the other 3 clients together: requests"] {
        assert!(picture.contains(name), "{name}");
    }
    // One bar each, besides the key of the legend.
    for (name, color, _) in FATES {
        let color = format!("fill=\"#{:02X}{:02X}{:02X}\"", color.0, color.1, color.2);
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
fn picture_goes_below_the_directory_or_into_its_target() {
    let directory = std::env::temp_dir().join(format!("damper-gateway-{}", std::process::id()));
    std::fs::create_dir(&directory).expect("is new");
    assert_eq!(write(&directory, "<svg/>"), Ok(directory.join("gateway.svg")));
    std::fs::create_dir(directory.join("target")).expect("is new");
    assert_eq!(write(&directory, "<svg/>"), Ok(directory.join("target").join("gateway.svg")));
    std::fs::remove_dir_all(&directory).expect("is ours");
    let error = write(&directory, "<svg/>").expect_err("is gone");
    assert!(error.starts_with("cannot write the chart to "), "{error}");
}
