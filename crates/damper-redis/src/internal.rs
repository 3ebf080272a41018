//! Items for the tests and fuzz targets of this crate, which are packages of their own.
//!
//! Nothing here has a semver promise: any item may change or disappear in any release.

pub use crate::script::{
    Command, Frame, Grant, Keys, LeaseRequest, Level, Limit, NEVER, PARTS_PER_BURST, PathKeys, PlannedTake,
    PlannedTakes, Rate, Reply, ReplyError, SOURCE, Sighting, SlotTags, Status, Take, Terms,
};
pub use crate::subject::{Answer, Dispatch, Holdings, NextStep, Outcome, Plan, Subject, Supply};
