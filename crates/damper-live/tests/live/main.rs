//! damper-live through its public API.

mod page;
