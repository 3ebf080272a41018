//! Any quota for any key, and limits of several levels and dimensions in one decision.
//!
//! # Plans
//!
//! A [`Plan`](crate::Plan) is a quota that was prepared once. A
//! [`KeyedLimiter` by plan](crate::KeyedLimiter::by_plan) stores for each key only the instant at which its bucket is
//! full, and each call brings the plan by which that is read. So every key can have a quota of its own.
//!
//! ```
//! use damper::{KeyedLimiter, ManualClock, Plan, Quota};
//!
//! let plans = [60, 600, 6_000].map(|limit| Plan::new(Quota::per_minute(limit)));
//! let users = KeyedLimiter::<str>::by_plan().clock(ManualClock::new()).build()?;
//! for (user, plan) in ["free", "pro", "team"].into_iter().zip(plans) {
//!     let plan = plan?;
//!     assert_eq!(users.check_with(user, &plan, 1)?.remaining(), plan.quota().burst_size() - 1);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | | tiers | plans |
//! |---|---|---|
//! | who knows the quota of a key | the limiter | the caller |
//! | how many | 15 | any number |
//! | a change of the quota | for all keys of the tier at once; the line is bent, and no token is early or late | from the next call on; the key keeps the time until it is full, or its tokens by [`replan`](crate::KeyedLimiter::replan) |
//! | waiting in order | [`acquire`](crate::KeyedLimiter::acquire) | none |
//!
//! Both stay, because a live change of a tier is exact for keys that make no call at that moment, and a plan is not stored.
//!
//! **Accuracy.** A plan is never late. After a time in which nothing was taken it is early by at most four beats of
//! 64 ns. Nothing drifts, also at 7 million tokens a second.
//!
//! **When plans mix on one key.** Each plan stays in its own envelope. The time that all tokens take, each at the rate of
//! its plan, is at most the time that passed and the longest refill (and four beats a call). After a change from one plan
//! to another a key gets at most `B2·(1 - W1/W2) + 1` tokens more than the greater burst and what the rates bring, with
//! `B` the burst and `W` the time of its refill: none, if both refill in the same time.
//!
//! # Trees
//!
//! A [`QuotaTree`](crate::QuotaTree) takes the costs of a call from every level (user, team, organisation) and in every
//! dimension (requests, tokens, bytes), or takes nothing. It looks at all words before it takes from the first, and a refusal
//! that its looks find writes nothing. Its page explains when a refusal is contended.
//!
//! Across machines a [`RedisTree`](crate::redis::RedisTree) does the same in one command of the server: [`across_machines`](super::across_machines)
//! says what differs.
//!
//! # Estimates that are settled
//!
//! A reservation takes an estimate. Its refund comes on top of the envelope: refunds in any stretch of time are at
//! most what was unsettled when it began. [`unsettled`](crate::keyed::QuotaTreeBuilder::unsettled) bounds that in bursts. A
//! reservation beyond the bound is allowed, and gives nothing back. Part of the rate that was really used in a simulation of
//! an hour, and the most that an adversary gained at an instant by reserving everything and using none of it:
//!
//! | bound, in bursts | estimates twice too high, calls of 1 to 5 s | ten times too high, calls of 5 to 60 s | an adversary gains at most |
//! |---|---|---|---|
//! | 0 | - | 10 % | nothing |
//! | 1 | more than 97 % | 27 % | 1 burst |
//! | 2, the default | more than 97 % | 43 % | 2 bursts |
//! | 4 | more than 97 % | 73 % | 4 bursts |
//!
//! (`cargo test -p damper-core --test core keyed::tree_settling`.) Refusing reservations beyond the bound would use less:
//! 18, 37 and 68 %. A better estimate is worth more than any bound.
//!
//! After its [time-to-live](crate::keyed::QuotaTreeBuilder::time_to_live) a reservation counts as used in full and gives
//! nothing back. One that is forgotten takes up the bound for two times-to-live at most.
//!
//! **A few callers can take up the bound of others.** It is that of a bucket, so all users of an organisation share the organisation's.
//! A user who reserves much and settles late takes it up, within what the user's own plan allows. The reservations of
//! the others are then still allowed, but what they did not use counts as used at that level. Buckets whose hashes
//! meet share a bound in the same way; there are two words for each bucket of the capacity.
