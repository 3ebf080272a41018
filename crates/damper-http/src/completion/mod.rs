//! The end of calls, and their verdicts.
//!
//! A layer that holds something until a call has *ended*, not only until its response begins, needs three parts:
//!
//! | part | is |
//! |---|---|
//! | [`CallObserver`] | the value that the layer holds, which is notified of the verdict on the call |
//! | [`Completion`] | when the call has ended, and with which verdict: [`AtHead`], [`AtBodyEnd`], or that of a protocol |
//! | [`CallGuard`], [`ObservedCall`] | the call itself, which connects the two |

// | file | idea |
// |---|---|
// | `completion` | the end of a call and its verdict |
// | `at_head`, `at_body_end` | the two completions of HTTP |
// | `classify` | verdicts on responses |
// | `classify_response` | how a call ended, by its response |
// | `statuses` | what is known of a call by its response: the judge of all layers |
// | `call_observer` | observers of the end of a call |
// | `deadline_observer` | whether the caller or the server is at fault when a deadline passes |
// | `min_budget` | the time that a call must be given |
// | `call_guard` | a call that is about to be made |
// | `observed_call` | a call whose end is reported |
// | `refusable_call` | a call that a layer let pass or refused |
// | `observed_body` | a response body that reports its end |
// | `panic_guard` | reports a panic |

mod at_body_end;
mod at_head;
mod call_guard;
mod call_observer;
mod classify;
mod classify_response;
mod completion;
mod deadline_observer;
mod min_budget;
mod observed_body;
mod observed_call;
mod panic_guard;
mod refusable_call;
mod statuses;

pub use at_body_end::{AtBodyEnd, BodyErrors};
pub use at_head::AtHead;
pub use call_guard::CallGuard;
pub use call_observer::CallObserver;
pub use classify::{Classify, ResponseHead, ServerErrors};
pub use classify_response::ClassifyResponse;
pub use completion::Completion;
pub use deadline_observer::DeadlineObserver;
pub use min_budget::MinBudget;
pub use observed_body::{BodyEnd, ClassifyEnd, ObservedBody};
pub use observed_call::ObservedCall;
use panic_guard::PanicGuard;
pub(crate) use refusable_call::RefusableCall;
pub use statuses::Statuses;
pub(crate) use statuses::grpc_ending;
