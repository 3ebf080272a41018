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
//! | waiting in order | [`acquire`](crate::KeyedLimiter::acquire) | [`acquire`](crate::QuotaTree::acquire) of a tree, of one level too |
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
//! A call that should wait rather than be refused uses [`acquire`](crate::QuotaTree::acquire).
//! [Waiting](super::waiting) describes the order.
//!
//! # Guarantees and borrowing
//!
//! A limit for each team divides an organisation's quota: what one team does not use is lost to the others. Without it the
//! first come are served, and a team that polls takes what there is. A level of
//! [guarantees](crate::keyed::QuotaTreeBuilder::guarantees) does neither. Its plans limit nothing. A call within its guarantee
//! takes of the organisation down to the last token. Any other call borrows, and has to leave there what is kept. The
//! organisation still has one word, so its envelope is exact whatever happens. A level of guarantees costs a call one more word.
//!
//! **How much to keep:** the sum of the guarantees' bursts and the cost of one call for each thread. (With the bursts alone, a
//! call that is stopped between the two words until its guarantee is refilled can find the organisation drained. Of all
//! interleavings of a small model that happened in 156 of 59,164 states.) The rates of the guarantees may add up to the
//! organisation's. Sold to more than that, they are first come, first served among themselves.
//!
//! **Keys that nobody configured** can share a plan: divide the organisation's rate by the number of active keys, with
//! a burst of a few calls. In a simulated day one user asked for three times an organisation's rate, and the others for a half
//! of it on average, nine tenths at noon:
//!
//! | users | served of the others, first come (the worst of them) | with guarantees (the worst of them) |
//! |---|---|---|
//! | 3 | 17 % (17 %) | 89 % (88 %): at noon two ask for more than two thirds |
//! | 30 | 17 % (15 %) | 97 % (95 %) |
//! | 300 | 17 % (8 %) | 97 % (86 %) |
//!
//! (`cargo test -p damper-core --test core keyed::tree_day`.) All of the rate was used in each. Seven pollers beside a team with
//! a guarantee of 100 a second: all of its calls are served; first come, first served, less than 0.2 %.
//!
//! # Estimates that are settled
//!
//! A reservation takes an estimate. Its refund comes on top of the envelope: refunds in any stretch of time are at
//! most what was unsettled when it began. [`unsettled`](crate::keyed::QuotaTreeBuilder::unsettled) bounds that in bursts. A
//! reservation beyond the bound is allowed, and gives nothing back. A [`LimitSet`](crate::LimitSet) has the same bound, by
//! [`LimitSet::unsettled`](crate::LimitSet::unsettled). Part of the rate that was really used in a simulation of
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
//!
//! # Over HTTP
//!
//! [`RateLimitLayer::tree`](crate::http::RateLimitLayer::tree) limits requests by a path that a function reads of the request's head.
//! It estimates the [costs](crate::http::RateLimitLayer::costs) of a request from the head too, and settles them from the response:
//!
//! | the true costs are | use |
//! |---|---|
//! | in the head of the response | [`charge_by_response`](crate::http::RateLimitLayer::charge_by_response) |
//! | in its body: JSON, or a stream of events | [`charge_by_body`](crate::http::RateLimitLayer::charge_by_body), with [`BodyLines`](crate::http::BodyLines) |
//!
//! A client that disconnects in the middle of a stream pays for what was counted until then. The count begins at the estimate. If
//! `charge_by_response` sets the count to 0, each event must say what was used so far: a client that leaves before the first one pays nothing.
//! A request whose service fails, and one that is given up before its response, pays its estimate.
//!
//! ```
//! # #[cfg(feature = "http")] {
//! use damper::http::{BodyLines, RateLimitLayer};
//! use damper::{Plan, Quota, QuotaTree};
//! use std::sync::Arc;
//!
//! const TOKENS: &str = "data: {\"total_tokens\": ";
//!
//! let tree = Arc::new(QuotaTree::<str, 2, 2>::builder(["user", "organisation"], ["requests", "tokens"]).build()?);
//! let [of_user, of_all] = [[60, 90_000], [600, 900_000]].map(|level| level.map(|limit| Plan::new(Quota::per_minute(limit))));
//! let ([requests, tokens], [all_requests, all_tokens]) = (of_user, of_all);
//! let plans = [[requests?, tokens?], [all_requests?, all_tokens?]];
//! let layer = RateLimitLayer::tree(tree, move |head| {
//!     // Authentication has verified the user. A key that is put together is owned, any other one borrowed.
//!     let user = head.headers.get("x-user")?.to_str().ok()?;
//!     Some([(format!("acme/{user}").into(), plans[0]), ("acme".into(), plans[1])])
//! });
//! let layer = layer.costs(|_| [1, 4_000]).charge_by_body(|_, _| {
//!     let mut lines = BodyLines::up_to(4_096);
//!     move |piece, used| {
//!         lines.push(piece, |line| {
//!             let rest = line.strip_prefix(TOKENS.as_bytes()).and_then(|rest| rest.strip_suffix(b"}"));
//!             let tokens = rest.and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
//!             used[1] = tokens.unwrap_or(used[1]);
//!         });
//!     }
//! });
//! # let _ = layer;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Headers report the limit of which the smallest part is left. A refusal names its level and its dimension in its text, in
//! [`Limited`](crate::http::Limited) and in the labels of the metric `damper_limit_refused_total`, which has the name of the
//! plan too if [`plan_names`](crate::http::RateLimitLayer::plan_names) is set. Keys appear in none of them.
//!
//! The metrics of a layer, or of a tree that is registered with an [`Exporter`](crate::metrics::Exporter), say how many keys
//! each level has and was built for, and warn before a table is too small ([`full_table`](super::full_table)).
//!
//! `cargo run -p damper-examples --example ai_gateway` is a gateway to a language model, over real sockets.
//!
//! # Plans by name
//!
//! [`config::Plans`](crate::config::Plans) has plans by name, such as `free` and `pro`. They come from a file
//! ([`TreeSettings`](crate::config::TreeSettings), which a reload replaces) or from a database, and are replaced all at once. Unknown names have
//! the default plan.
//!
//! ```toml
//! [server.tree]
//! max_keys = 100000
//! unsettled = 2
//! time_to_live = "2m"
//!
//! [server.tree.plans]
//! default = { requests = "60/min", tokens = "10000/min" }
//! pro = { requests = "600/min", tokens = "90000/min burst 20000" }
//! ```
//!
//! A key whose plan has changed keeps the time until its bucket is full. Someone who exhausted a plan of 60 an hour, and buys
//! one of 600, waits up to an hour for the first full burst. [`replan`](crate::QuotaTree::replan) keeps the tokens instead: call it once,
//! where the customer's plan is changed.
