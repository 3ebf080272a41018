//! Rate limiting: [`RateLimiter`], its algorithms and its answers.

mod answer;
mod rate_limiter;
#[cfg(test)]
mod tests;
mod token_bucket;
mod usage;

pub use answer::{Allowed, Denied};
pub use rate_limiter::RateLimiter;
pub use token_bucket::TokenBucket;
pub use usage::Usage;
