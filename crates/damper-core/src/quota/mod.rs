//! What is allowed: a limit per window and a burst, and the line of tokens that it draws through time.
//!
//! [`Quota`] is the user's side. The rest is how it is computed with: `Timeline` is pure arithmetic on positions of
//! the token line (`debt`: and on the words of buckets), `LiveQuota` pins the line to a clock at first use and bends it
//! when the quota changes.

mod alignment;
mod debt;
mod error;
mod live;
mod measure;
mod pace;
mod quota;
#[cfg(test)]
mod tests;
mod text;
mod timeline;

pub use alignment::Alignment;
pub use error::{QuotaError, SetQuotaError};
pub use quota::Quota;
pub use text::ParseQuotaError;

pub(crate) use debt::Refusal;
pub(crate) use live::LiveQuota;
pub(crate) use measure::Measure;
pub(crate) use timeline::Timeline;
