//! What takes pages: how to choose, and what exactly is promised.
//!
//! | page | answers |
//! |---|---|
//! | [`rates`] | which rate, which burst, what a refusal says, what happens in debt, in a queue, in a change |
//!
//! The examples move a [`ManualClock`](crate::ManualClock) by hand. Leave it out, with `RateLimiter::new`, and real time passes.

pub mod rates;
