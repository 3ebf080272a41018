//! Processes and the script together, in random schedules.
//!
//! Messages are lost, late, duplicated and reordered. Processes pause and crash. Clocks run apart. The server forgets, or its clock steps.
//!
//! The processes are the state machine that damper-redis has, the server is its script in an embedded Lua. All
//! admissions have to fit in an exact bucket. Then each rule is left out, and some schedule has to notice.

// | file | idea |
// |---|---|
// | `bucket` | the exact bucket that all admissions have to fit in |
// | `world` | a schedule: the processes, the network, the server, and what happens by chance |
// | `stories` | stories of leases that are kept too long |
// | `process` | one process, and the rules that it can be made to break |
// | `script_rules` | the rules of the script, and the script without each |
// | `trouble` | the kinds of trouble |
// | `rules` | each rule left out, and that it is noticed |
// | `waste` | rules without which nothing is exceeded, and less is used |

#[path = "protocol/bucket.rs"]
mod bucket;
#[path = "protocol/process.rs"]
mod process;
#[path = "protocol/rules.rs"]
mod rules;
#[path = "protocol/script_rules.rs"]
mod script_rules;
#[path = "protocol/trouble.rs"]
mod trouble;
#[path = "protocol/waste.rs"]
mod waste;
#[path = "protocol/world.rs"]
mod world;
