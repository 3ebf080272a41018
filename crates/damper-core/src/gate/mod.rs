//! Gates: what decides whether a call may pass, and learns from how it went.
//!
//! Limiters, breakers, throttles and concurrency limits are gates, and so is a type of yours that implements [`Gate`] and [`Ask`]. A gate
//! answers with a [`Permit`] or a [`Refusal`]. How the call went is told to the permit by a [`Verdict`], in facts: each gate reads from it
//! what it needs.
//!
//! Others change the question that a gate is asked:
//!
//! | combinator | a call |
//! |---|---|
//! | [`PerKey`] | is asked at the gate of its key |
//! | [`Costs`] | costs as many tokens as a closure says |
//! | `Waits` | may wait for its turn |
//! | `Classes` | has a class, a tenant and a deadline, for an admission |
//! | [`Exempt`] | may be exempt |
//! | [`Shadowed`](crate::shadow::Shadowed) | is decided on by a candidate too, which changes nothing |
//! | `Option` | passes where there is no gate |
//! | a pair `(A, B)` | has to pass both |
//! | [`Either`] | is asked at one of two gates, which is chosen at run time |
//! | `Shared` | is asked at a gate in an `Arc` |
//! | `AnyGate` | is asked at one of any gates, behind a pointer |

// | file | type |
// |---|---|
// | `gate` | `Gate` and `Ask`: the question; `Answer`; `Never`: the wait of a gate at which none waits |
// | `permit` | `Permit`: what a gate gives to a call that may pass |
// | `refusal` | `Refusal`: why a call may not pass; `is_refusal`: among all errors |
// | `refusals` | the refusals of damper's own gates |
// | `ending` | `Ending`: how a call ended, and the tables of HTTP's statuses and gRPC's codes |
// | `verdict` | `Verdict`: the ending, and what else is known of the call |
// | `standing` | `Standing`: how much of a quota is left |
// | `own_gates` | damper's own types as gates |
// | `keyed_gates` | damper's keyed types as stores of gates |
// | `measured` | `Measured`: the permit of a gate that measures the load |
// | `waits_with` | `WaitsWith`: the service that a waiting call keeps |
// | `wait_for` | `WaitFor`: a wait of which the permit takes another form |
// | `per_key`, `costs`, `waits`, `classes`, `exempt`, `pair`, `either`, `shared`, `any_gate` | the combinators |

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod any_gate;
#[cfg(feature = "alloc")]
mod classes;
mod costs;
mod either;
mod ending;
mod exempt;
#[expect(clippy::module_inception, reason = "the file holds the trait that the module is named after")]
mod gate;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod keyed_gates;
mod measured;
mod own_gates;
mod pair;
mod per_key;
mod permit;
pub(crate) mod refusal;
mod refusals;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod shared;
mod standing;
mod verdict;
mod wait_for;
#[cfg(feature = "alloc")]
mod waits;
mod waits_with;

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use any_gate::{AnyGate, AnyPermit, AnyRefusal};
#[cfg(feature = "alloc")]
pub use classes::{ClassOf, Classes};
pub use costs::{AskCost, Costs};
pub use either::{Either, EitherWait};
pub use ending::Ending;
pub use exempt::Exempt;
pub use gate::{Answer, AnswerOf, Ask, AtOnce, Gate, Impossible, Never};
pub use measured::Measured;
pub use pair::WaitBehind;
pub use per_key::{AskKey, AskKeyCost, GateOfKey, GateStore, KeyOf, PerKey};
pub use permit::Permit;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub(crate) use refusal::boxed_refusal;
pub(crate) use refusal::source_of_refusal;
pub use refusal::{NotSent, Refusal, RefusalKind, is_refusal};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use shared::Shared;
pub use standing::Standing;
pub use verdict::Verdict;
pub use wait_for::WaitFor;
#[cfg(feature = "alloc")]
pub use waits::{AskCostPatient, AskPatient, Patience, Patient, TimeLeft, Waits};
pub use waits_with::{Keepable, WaitsWith, keep};
