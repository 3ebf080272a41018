//! The slow models, which the property tests share.

#[path = "../../crates/damper-core/tests/core/models/backoff.rs"]
pub(crate) mod backoff;
#[allow(dead_code, reason = "no ramp is drawn, so that the corpora keep their meaning")]
#[path = "../../crates/damper-core/tests/core/models/breaker.rs"]
pub(crate) mod breaker;
#[path = "../../crates/damper-core/tests/core/models/bucket.rs"]
#[expect(dead_code, reason = "the property tests ask the model for more")]
pub(crate) mod bucket;
#[path = "../../crates/damper-core/tests/core/models/keys.rs"]
pub(crate) mod keys;
#[path = "../../crates/damper-core/tests/core/models/log.rs"]
pub(crate) mod log;
#[path = "../../crates/damper-core/tests/core/models/queue.rs"]
pub(crate) mod queue;
#[path = "../../crates/damper-mesh/tests/mesh/scope_pacer_model.rs"]
pub(crate) mod scope_pacer;
#[path = "../../crates/damper-core/tests/core/models/second_chance.rs"]
pub(crate) mod second_chance;
#[path = "../../crates/damper-core/tests/core/models/timer.rs"]
pub(crate) mod timer;
#[path = "../../crates/damper-core/tests/core/models/windows.rs"]
pub(crate) mod windows;
#[path = "../../crates/damper-core/tests/core/models/word32_breaker.rs"]
pub(crate) mod word32_breaker;
