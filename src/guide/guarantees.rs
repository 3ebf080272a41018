//! The exact guarantees, and their limits.
//!
//! Each row holds however threads interleave, unless it says otherwise. Models of interleavings, property tests against exact
//! arithmetic and simulations check them; `docs/claims.md` names the tests. `docs/models.md` says which models run every
//! interleaving that loom has, and which run those with few preemptions: most do.
//!
//! | part | guaranteed |
//! |---|---|
//! | [`RateLimiter`](crate::RateLimiter) | in any interval W at most burst + rate · (W + one clock tick) tokens; no token comes late, but after a change of the quota |
//! | its waiters | first come, first served; a cancelled waiter delays no other |
//! | [`KeyedLimiter`](crate::KeyedLimiter) | the envelope of a `RateLimiter` for each key that has a slot; memory is fixed at construction |
//! | [`LimitSet`](crate::LimitSet) | all costs or none; no limit allows more than its envelope and its refunds, and those of reservations are bounded |
//! | [`Plan`](crate::Plan) | a key under it is never late and at most 256 ns early; plans that mix on a key obey the law of [`trees`](super::trees); a debt is converted once |
//! | [`QuotaTree`](crate::QuotaTree) | all costs or none; no bucket exceeds its plan by more than its refunds, and those are bounded; a call within a guarantee that is kept for it is served |
//! | [`redis::RedisTree`](crate::redis::RedisTree) | the guarantees of a `QuotaTree` across machines, also when processes die and commands are lost: no refund exceeds what the server counts as unsettled |
//! | [`LiveShare`](crate::quota::LiveShare) | the members of a fleet allow together at most the whole quota's burst and rate, if each learns of a change within the stated delay or has stopped by its fence; with fewer tokens than members, a burst of one each |
//! | a new quota | tokens and debts are kept; the new rate holds from the change on |
//! | [`CircuitBreaker`](crate::CircuitBreaker) | a result counts in the generation that admitted its call, and never later; at most the configured probes are in flight; while it returns, at most the share of the calls passes, and a few |
//! | [`Bulkhead`](crate::Bulkhead) | never more calls in flight than the limit; queued calls are served first come, first served |
//! | [`AdaptiveLimit`](crate::AdaptiveLimit) | the limit never exceeds its highest bound; only measurements go below the lowest one, those of the default rule too; each result is counted once |
//! | [`RetryBudget`](crate::RetryBudget) | retries stay within the ratio and the reserve, however many threads retry, but for up to two free retries of a call that no server has processed |
//! | [`Deadline`](crate::Deadline) | the next hop gets no more time than is left, but for the rounding below; a clock that steps back extends nothing beyond the original duration |
//! | [`http::CriticalityLayer`](crate::http::CriticalityLayer) | a caller that is not trusted never chooses a tenant or raises its class, and no header of either goes past the layer |
//! | [`http::MarkingLayer`](crate::http::MarkingLayer) | marks exactly the requests that its limit would have refused, refuses none, and no client can send its header |
//! | [`http::ServerStack::explain`](crate::http::ServerStack::explain) | it writes nothing, and neither does [`Ask::forecast`](crate::gate::Ask::forecast); what it says is what the same request gets next, if nothing happens in between |
//! | [`http::ClientStack::explain`](crate::http::ClientStack::explain) | it takes nothing, and names the part that refuses the next call of a single thread |
//! | [`WordLimiter`](crate::words::WordLimiter) | the envelope of its plan over all processes that use the word, killed at any step or not; a token is early by less than 0.4 µs |
//! | [`WordBulkhead`](crate::words::WordBulkhead) | never more calls in flight than the limit, over all processes; a reclaimed seat gives back exactly what its dead process held |
//! | [`WordBreaker`](crate::words::WordBreaker) | decides as a [`CircuitBreaker`](crate::CircuitBreaker); a half-open state ends, also if the process of its probe is dead: by default after 5 minutes, or the longest cooldown if that is longer |
//! | [`WordTable`](crate::words::WordTable) | the envelope of a `WordLimiter` for each key that has a slot, and never two bursts for one key, whoever is killed when, unless keys without a slot share words |
//! | [`logs::LogLimit`](crate::logs::LogLimit) | each event passes, is in the count of one event that passes, or is still counted by the limit |
//! | [`io::BytePacer`](crate::io::BytePacer) | all connections of a limit move at most its envelope and what they kept before, a chunk each at most; those that are always busy get equal parts |
//! | all | no panic on any input, no `unsafe` but in `damper-shm`; a decision takes no lock and allocates nothing, but for the exceptions below |
//!
//! # Limits of the guarantees
//!
//! - **A key without a slot** shares a bucket with other such keys, so it may be refused for what they spent. See
//!   [`full_table`](super::full_table).
//! - **`EvictLeastIndebted`** forgets a debt when it evicts a key: that key may get a part of a burst again.
//! - **A refund** gives back at most what was taken, and never moves a waiter behind another call.
//! - **A limiter that is built `up_to`** a faster quota, as those of settings are, may let a token through early, by less than
//!   [`RateLimiter::up_to`](crate::RateLimiter::up_to) says.
//! - **After a change of the quota** a token may be late by less than two ticks of the clock. A quota that is k times slower may
//!   let one through early, by less than k ticks.
//! - **A clock that steps back** delays tokens until it has caught up, by at most the deepest debt. After a step of more than
//!   [`max_step_back`](crate::Clock::max_step_back), a keyed limiter, a `RateLimiter32` and those in [`words`](crate::words) may give a
//!   burst anew.
//! - **A timeout in a header** is in whole units. gRPC's is rounded up, by less than 1 in 99,999, as grpc-go does. Others are rounded
//!   down, to at least one.
//! - **Between processes** there is no order: each process has its own limit, unless they share [`words`](crate::words) or a Redis.
//! - **A breaker's window of time** has ten buckets, so outcomes leave it in steps of a tenth.
//! - **Estimates are estimates**: an adaptive limit, a throttle and a pacer learn from a service. [`concurrency`](super::concurrency)
//!   and [`throttles`](super::throttles) show by simulation how well.
//!
//! # A bug that a model missed
//!
//! better-bucket 1.0 was "proven under loom" and admitted 36 to 527 times its quota (BB-SEC-01 in its changelog). Each call read the
//! clock once, before the loop around its swap. A thread that came late with an older reading took the negative gap for 49.7 days of
//! idle time, and refilled the bucket. The model's clock stood still, so no reading in it was ever old. damper's models let time pass
//! beside the calls: with a copy of that bucket they fail, and with a stopped clock they pass (`loom-tests/tests/bucket.rs`). The other
//! findings of its audit and of two more are attacks in `crates/damper-core/tests/core/limit/audits.rs`.
//!
//! # Locks and memory
//!
//! A limiter, a breaker, a throttle, a retry decision and a hit in a keyed table take no lock, and a thread that stops at any
//! point stops no other. These take a short lock: the first sight of a key, [`BoundedStore`](crate::BoundedStore) and all that
//! is stored in it, and a bulkhead or an admission while calls are queued. They allocate when they are built. A window of
//! outcomes with more than 48 calls (24 where slow calls count), or of time, allocates once, at its first outcome. Each further
//! attempt of a hedge allocates a box. A layer of rate limits allocates a box for a request whose response gets headers or
//! corrects its cost, and for one that a [candidate](crate::shadow) refuses. The other layers of HTTP that hold or end a permit
//! allocate a box for a call that has a [`Deadline`](crate::Deadline), or whose latency is measured.
//!
//! # Units and rounding
//!
//! Durations in settings are exact to the nanosecond, and times of tokens to a tick of the clock. `retry_after` is rounded
//! up, so a caller that waits for it is not early. HTTP's `Retry-After` has whole seconds, rounded up too.
