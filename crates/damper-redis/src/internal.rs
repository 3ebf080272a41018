//! Items for the tests and fuzz targets of this crate only.
//!
//! They stand in packages of their own. It is no part of the semver promise: any of it may change or go in any release.

pub use crate::script::{
    Command, Frame, Grant, Keys, LeaseRequest, Level, Limit, NEVER, Rate, RateError, Reply, ReplyError, SOURCE,
    Sighting, SlotTags, Status, Take, Terms,
};
pub use crate::subject::{Answer, Dispatch, Holdings, NextStep, Outcome, Plan, Subject, Supply};
