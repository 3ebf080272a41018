//! A few callers that are greedy, broken or hostile beside all others, before one limit.
//!
//! The services of [`scenarios`](super::scenarios) have callers of one kind. These have several: some calls need a worker, others get
//! a reply that does not depend on the load. A rule is judged by what polite callers get, against the best fixed limit.
// service.rs  a service with its callers, and the figures to reach
// services.rs the services, in the groups of the report
// run.rs      a service under a limit, event by event
// report.rs   a rule beside the best fixed limit; tables

pub mod report;
pub mod run;
pub mod service;
pub mod services;
