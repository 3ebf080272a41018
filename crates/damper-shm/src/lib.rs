//! Memory that processes share, for damper's limits on words that the program owns (Linux).
//!
//! [`damper`](https://docs.rs/damper) has limits whose state lies in words that the program places, in `damper::words`. Here is memory for
//! them. [`SharedWords`] creates a sealed memory file and maps it, as `&[AtomicU64]`. [`Workers`] starts processes that inherit it, gives
//! each a seat, and frees what a dead one held. A program that uses them needs no `unsafe`.
//!
//! # Example
//!
//! A supervisor and its workers have the same layout, and each worker makes the limits that it uses:
//!
//! ```no_run
//! use damper_core::time::{HostMonotonic, Seed};
//! use damper_core::words::{Contents, Header, WordBulkhead, WordLimiter};
//! use damper_core::{Plan, Quota};
//! use damper_shm::{SharedWords, Workers, inherited_seat};
//! use std::error::Error;
//! use std::process::Command;
//! use std::{env, fs};
//!
//! const WORDS: usize = 64;
//! const CALLS: u8 = 200;
//! const CLOCK: HostMonotonic = HostMonotonic::PRECISE;
//!
//! fn main() -> Result<(), Box<dyn Error>> {
//!     let plan = Plan::new(Quota::per_second(1_000).burst(50))?;
//!     let boot = fs::read("/proc/sys/kernel/random/boot_id")?;
//!     let contents = Contents::version(1).plan(&plan).number(CALLS.into()).boot_id(&boot);
//!     if env::args().nth(1).as_deref() == Some("worker") { work(plan, contents) } else { supervise(contents) }
//! }
//!
//! fn supervise(contents: Contents) -> Result<(), Box<dyn Error>> {
//!     let shared = SharedWords::create("limits", WORDS)?;
//!     Header::create(&shared.words()[..8], &contents, Seed::random(), &CLOCK)?;
//!     let mut workers = Workers::new(&shared).reclaims(&shared.words()[9]);
//!     let program = env::current_exe()?;
//!     let worker = || {
//!         let mut command = Command::new(&program);
//!         command.arg("worker");
//!         command
//!     };
//!     for _ in 0..4 {
//!         workers.spawn(worker())?;
//!     }
//!     while let Some(exited) = workers.wait()? {
//!         eprintln!("{exited}");
//!         workers.spawn(worker())?; // a service waits a little before this
//!     }
//!     Ok(())
//! }
//!
//! fn work(plan: Plan, contents: Contents) -> Result<(), Box<dyn Error>> {
//!     let shared = SharedWords::inherited(WORDS)?;
//!     let words = shared.words();
//!     Header::attach(&words[..8], &contents, &CLOCK)?; // refuses the words of another version of the program
//!     let all = WordLimiter::new(&words[8], plan, CLOCK);
//!     let calls = WordBulkhead::new(&words[9], CALLS, inherited_seat()?);
//!     all.check()?;
//!     let permit = calls.enter()?;
//!     drop(permit);
//!     Ok(())
//! }
//! ```
//!
//! The server of [`examples/prefork`](https://github.com/damper-rs/damper/tree/main/examples/prefork) does this on one port, and its check
//! kills 500 workers.
//!
//! # Failures and updates
//!
//! | event | the words | the slots of a bulkhead |
//! |---|---|---|
//! | a worker is killed | they stay valid: each change is one swap | [`Workers::wait`] frees them |
//! | a worker is stopped | the others go on | they stay taken, because it can go on at any time |
//! | the supervisor dies | workers that live on share them; the next supervisor creates others | those of later deaths stay taken |
//! | the program is updated | [`Header`](damper_core::words::Header) refuses them if plans or places differ | |
//! | the host reboots | they are gone | |
//!
//! # Memory safety
//!
//! The memory file has the seals `F_SEAL_SHRINK`, `F_SEAL_GROW` and `F_SEAL_SEAL`, so no process can change its size. An access behind the
//! end of a mapped file would be a `SIGBUS`. A descriptor that is received is mapped only if it has these seals and the expected size, and its
//! pages are allocated first. The crate's `unsafe` is in one file of two functions, `src/raw.rs`. The workspace's other crates forbid it.
//!
//! Plain files have no such seals. Their length can change, and a mapped file survives a reboot with instants of another boot, so this crate
//! does not offer them. A program that maps one all the same gives its words to the same limits, at its own risk.
//!
//! # Platforms
//!
//! Linux 5.3 or later. Elsewhere the crate is empty.
#![cfg(all(target_os = "linux", target_has_atomic = "64"))]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(clippy::std_instead_of_core)]

// | file | idea |
// |---|---|
// | `shared_words` | `SharedWords`: words that are inherited or sent |
// | `sealed` | memory files whose size is sealed |
// | `raw` | the unsafe code: the words of a mapping, a descriptor that a child inherits |
// | `workers` | `Workers`: a seat for each worker process |
// | `error` | `SharedWordsError`: what was found and what is required |

extern crate alloc;
extern crate std;

mod error;
mod raw;
mod sealed;
mod shared_words;
mod workers;

pub use error::SharedWordsError;
pub use shared_words::SharedWords;
pub use workers::{Exited, Workers, inherited_seat};
