//! Replays of a log of decisions under other quotas.
//!
//! A program writes its log by `DecisionReader::write_to`. A replay gives every key of it a token bucket of its own, full at the first call,
//! and asks for the same tokens at the same times.
//!
//! Clients that are refused call less, or again: a replay cannot know that. It answers for the calls as they were.

// | file | idea |
// |---|---|
// | `decision_file` | the file, and the mistakes in it |
// | `search` | replays under one quota, and the search for the smallest |
// | `options` | the arguments of the command |
// | `report` | the output of the command |

pub mod decision_file;
pub mod options;
pub mod report;
pub mod search;
