//! How calls of HTTP end, and what is told to their permits.

// | file | idea |
// |---|---|
// | `completion` | when a call has ended, and what is known of it then |
// | `at_head`, `at_body_end`, `while_body_lasts` | the completions of HTTP |
// | `classify` | how a call ended, by its response |
// | `statuses` | what is known of a call by its response: the judges of all layers |
// | `held_call`, `held_permit` | the permit of a call, until the response begins, and until the call has ended |
// | `time_given` | whether a call that its deadline ended was given enough time |
// | `min_budget` | how much time is enough |
// | `observed_body` | a response body that reports its end |
// | `unwinding` | a permit while the code of a service or a caller runs |

mod at_body_end;
mod at_head;
mod classify;
mod completion;
mod held_call;
mod held_permit;
mod min_budget;
mod observed_body;
mod statuses;
mod time_given;
mod unwinding;
mod while_body_lasts;

pub use at_body_end::AtBodyEnd;
use at_body_end::BodyErrors;
pub use at_head::AtHead;
pub use classify::{ClassifyResponse, ResponseHead};
pub use completion::{AfterHead, Completion};
pub(crate) use held_call::{HeldCall, Pending};
pub use held_permit::HeldPermit;
use min_budget::MeasuredCall;
pub use min_budget::MinBudget;
pub use observed_body::{BodyEnd, ClassifyEnd, ObservedBody};
pub use statuses::{EveryStatus, Statuses};
use time_given::TimeGiven;
use unwinding::Unwinding;
pub(crate) use while_body_lasts::OverloadInTrailers;
pub use while_body_lasts::WhileBodyLasts;
