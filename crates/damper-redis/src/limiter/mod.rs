//! The limiters: one limit, or a limit for each key, and their builder.

// | file | idea |
// |---|---|
// | `builder`, `settings`, `error` | the settings of a limiter, checked; why it cannot be built |
// | `redis_limiter`, `keyed_redis_limiter`, `reservation`, `key` | the interface |
// | `fleet` | `Fleet`: the server of the limits of one name, and who decides on them |
// | `shared` | `Shared`: a check, decided by the lease, the server or the policy |
// | `subject_limit` | `SubjectLimit`: one subject with its state, its keys and its waiters; `Delivery`: a command on its way |
// | `tender` | `Tender`: the task that renews and returns leases, and sends what is pending; the end of a limiter |
// | `policies` | `WhenDown` and `AfterLoss` |
// | `local_share` | `LocalShare`: a process's share of a quota |
// | `authority`, `counters`, `status` | what can be observed |

mod authority;
mod builder;
mod counters;
mod error;
mod fleet;
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
pub(crate) use fleet::{CLOSED_WAIT, Fleet};
pub use key::RedisKey;
pub use keyed_redis_limiter::KeyedRedisLimiter;
pub(crate) use keyed_redis_limiter::LimitHandle;
pub use policies::{AfterLoss, WhenDown};
pub use redis_limiter::RedisLimiter;
pub(crate) use redis_limiter::unlimited;
pub use reservation::RedisReservation;
pub(crate) use shared::FirstLook;
pub use status::{LastError, RedisCounts, RedisEvent, RedisStatus};
