//! Limits of several scopes in one decision.

// | file | idea |
// |---|---|
// | `scopes` | the limits, and the decision |
// | `builder` | how they are built |
// | `caller` | the caller of a request |
// | `answer` | what a decision returns |

mod answer;
mod builder;
mod caller;
mod scopes;

pub use answer::{ScopesAllowed, ScopesDenied};
pub use builder::{ScopesBuilder, ScopesError};
pub use caller::Caller;
pub use scopes::Scopes;
