//! What is allowed: a limit per window and a burst, and the line of tokens that it draws through time.
//!
//! [`Quota`] is the user's side. The rest is how it is computed with: `Timeline` is pure arithmetic on positions of
//! the token line, `Anchored` pins the line to a clock at first use.

mod anchored;
mod error;
mod quota;
#[cfg(test)]
mod tests;
mod timeline;

pub use error::QuotaError;
pub use quota::Quota;

pub(crate) use anchored::Anchored;
pub(crate) use timeline::{Refusal, Timeline};
