//! The limiters: one builder, one limit or one for each key.

// | file | idea |
// |---|---|
// | `builder`, `settings`, `error` | what a limiter is built of, checked; why it cannot be built |
// | `redis_limiter`, `keyed_redis_limiter`, `reservation`, `key` | the interface |
// | `shared` | a check: by the lease, by the server, by the policy |
// | `subject_limit` | one subject: its state, its keys, its waiters |
// | `tender` | the task that renews and returns leases, and sends what is pending |
// | `retiring` | what a limiter does when its last clone is dropped |
// | `when_down`, `local_share` | the policies, and a process's share |
// | `after_loss` | how full a lost limit is |
// | `authority`, `counters`, `status`, `usage`, `micros` | what can be observed |

mod authority;
mod builder;
mod counters;
mod error;
mod key;
mod keyed_redis_limiter;
mod local_share;
mod policies;
mod redis_limiter;
mod reservation;
mod settings;
mod shared;
mod status;
mod subject_limit;
mod tender;

pub(crate) use builder::Eviction;
pub use builder::{Leasing, RedisLimiterBuilder};
pub use error::{RedisLimiterError, Unavailable};
pub use key::RedisKey;
pub use keyed_redis_limiter::KeyedRedisLimiter;
pub(crate) use keyed_redis_limiter::LimitHandle;
pub use policies::{AfterLoss, WhenDown};
pub use redis_limiter::RedisLimiter;
pub use reservation::{KeyedRedisReservation, RedisReservation};
pub(crate) use shared::FirstLook;
pub(crate) use shared::Shared;
pub use status::{LastError, RedisCounts, RedisEvent, RedisStatus};
