//! Items for the tests and fuzz targets of this crate only.
//!
//! They stand in packages of their own. It is no part of the semver promise: any of it may change or go in any release.

pub use crate::script::{
    Ask, Command, Frame, Grant, Keys, Level, Limit, NEVER, Rate, Reply, ReplyError, SOURCE, Seen, SlotTags, Status,
    Take, Terms,
};
pub use crate::subject::{Answer, Due, Holding, Left, Outcome, Outgoing, Plan, Subject};
