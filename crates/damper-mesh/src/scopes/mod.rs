//! Limits of several scopes in one decision.

// | file | idea |
// |---|---|
// | `scopes` | the limits, and their decision |
// | `builder` | builds the limits |
// | `caller` | the caller of a request |
// | `answer` | the result of a decision |

mod answer;
mod builder;
mod caller;
mod scopes;

pub use answer::{ScopesAllowed, ScopesDenied};
pub use builder::{ScopesBuilder, ScopesError};
pub use caller::Caller;
pub use scopes::Scopes;
