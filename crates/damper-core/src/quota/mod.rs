//! Quotas: a limit per window and a burst, and how they change while in use.

// | file | idea |
// |---|---|
// | `quota` | `Quota`: the limit, the window, the burst |
// | `text` | its text form |
// | `error` | why a quota was refused |
// | `alignment` | where in time a line begins |
// | `timeline` | positions at the ticks of a clock: what the lines of tokens and of windows have in common |
// | `shape` | the shifts of a line, its fixed point and its clock in one word |
// | `tempo` | the part of a timeline that an answer keeps |
// | `live` | `LiveQuota`: publishes a line, and bends it when the quota changes |

mod alignment;
mod error;
mod live;
mod quota;
mod shape;
mod tempo;
mod text;
mod timeline;

pub use alignment::Alignment;
pub use error::SetQuotaError;
pub use quota::Quota;
pub use text::ParseQuotaError;

pub(crate) use live::{LiveQuota, QuotaChange, Record, Rest};
pub(crate) use tempo::Tempo;
pub(crate) use timeline::{Line, LineStart, Timeline};
