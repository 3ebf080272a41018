//! The slow models, which the property tests share.

#[path = "../../tests/models/backoff.rs"]
pub(crate) mod backoff;
#[path = "../../tests/models/breaker.rs"]
pub(crate) mod breaker;
#[path = "../../tests/models/bucket.rs"]
#[expect(dead_code, reason = "the property tests ask the model for more")]
pub(crate) mod bucket;
#[path = "../../tests/models/keys.rs"]
pub(crate) mod keys;
#[path = "../../tests/models/log.rs"]
pub(crate) mod log;
#[path = "../../tests/models/queue.rs"]
pub(crate) mod queue;
#[path = "../../tests/models/scope_pacer.rs"]
pub(crate) mod scope_pacer;
#[path = "../../tests/models/second_chance.rs"]
pub(crate) mod second_chance;
#[path = "../../tests/models/timer.rs"]
pub(crate) mod timer;
#[path = "../../tests/models/windows.rs"]
pub(crate) mod windows;
#[path = "../../tests/models/word32_breaker.rs"]
pub(crate) mod word32_breaker;
