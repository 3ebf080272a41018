//! Limits whose quota comes with each call, as a plan: for each key, and in trees.
//!
//! The server decides each call, in one command for all buckets of it. No bucket is leased. This process remembers of a bucket only
//! what a later command can use: its last sighting, until when calls cannot be allowed, and charges that wait for the next command.

// | file | idea |
// |---|---|
// | `bucket` | `Bucket`: the memory of one bucket in this process |
// | `share` | `ShareTerms`: a plan divided by the number of processes, for the time without a server |
// | `path` | `Path`: the limited buckets of one call, with their keys and their terms |
// | `planned` | `Planned`: a call, decided by the server or the policy; settling a reservation |
// | `redis_tree`, `planned_redis_limiter`, `redis_tree_reservation` | the interface |

mod bucket;
mod path;
mod planned;
mod planned_redis_limiter;
mod redis_tree;
mod redis_tree_reservation;
mod share;

pub(crate) use planned::{Planned, TreeSettings};
pub use planned_redis_limiter::PlannedRedisLimiter;
pub use redis_tree::RedisTree;
pub use redis_tree_reservation::RedisTreeReservation;
