//! Quotas: a limit per window and a burst, and how they change while in use.

// | file | idea |
// |---|---|
// | `quota` | `Quota`: the limit, the window, the burst |
// | `text` | its text form |
// | `error` | why a quota was refused |
// | `alignment` | where in time a line begins |
// | `timeline` | `Line`, `Timeline`: positions at the ticks of a clock; `Tempo`: the part that an answer keeps |
// | `live` | `LiveQuota`: publishes a line, and bends it when the quota changes |

mod alignment;
mod error;
mod live;
mod quota;
mod text;
mod timeline;

pub use alignment::Alignment;
pub use error::SetQuotaError;
pub use quota::Quota;
pub use text::ParseQuotaError;

pub(crate) use live::{LiveQuota, QuotaChange};
pub(crate) use timeline::{Line, LineStart, Tempo, Timeline};
