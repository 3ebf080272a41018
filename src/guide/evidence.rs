//! The evidence for the guarantees: proofs, searches, tests, and assumptions.
//!
//! This page is for an engineer who does not trust us. Each row has the command that repeats it, from the root of the repository. All of
//! them install what they need on a Debian machine.
//!
//! # Claims and commands
//!
//! | claim | shown by | strength | command |
//! |---|---|---|---|
//! | a take leaves at most a burst of debt; refunds, roll-backs and heals mint nothing; a wait is the least that suffices; a changed quota gives nothing twice; packed words are read back; no operation overflows | an SMT solver, on formulas that a program derives from the source | **proved** for all inputs in the ranges that the page of proofs states | `proofs/run` |
//! | concurrent calls keep the same guarantees | loom, which runs a few operations of two or three threads in every order | **exhaustive** to that size. Each packed word has a model of its smallest race without a bound; larger models have a bound on preemptions: `docs/models.md` says which | `RUSTFLAGS="--cfg loom" cargo test --release --manifest-path loom-tests/Cargo.toml` |
//! | every order of four steps of three threads keeps the envelope of a token bucket | a search of all histories | **exhaustive** to that size, without weak memory | `cargo test -p damper-core --lib token_bucket` |
//! | longer histories do, too | shuttle | **random** | `tools/deep shuttle` |
//! | decisions, waits and refunds equal those of exact rationals, for a year of simulated time too | property tests and fuzz targets, each against a slow model | **random** | `cargo test -p damper-core` and `cargo test --manifest-path fuzz/Cargo.toml` |
//! | one limit across machines keeps its envelope while processes, networks, clocks and Redis fail | the real state machine against the real script in a simulated fleet, and processes that are killed | **random** | `tools/deep faults` |
//! | few callers cannot starve many, and overload keeps its goodput | simulations, and programs over sockets | **measured** at stated seeds | `tools/deep bars sockets` |
//! | no data race in tests that start threads | the thread sanitizer, after it found a race that was planted | **tested** | `tools/deep tsan` |
//!
//! `docs/claims.md` leads from each [guarantee](super::guarantees) to its tests and models.
//!
//! # Checks of the checks
//!
//! A check that cannot fail shows nothing.
//!
//! - `proofs/run --mutations` breaks the arithmetic in 33 ways. Each time a proof has to fail.
//! - `loom-tests/weaken` weakens one ordering or one check at a time. The models that `docs/weakenings.md` names have to fail.
//! - `tools/deep mutants` changes the code at random places. `docs/evidence.md` lists each change that no test noticed, with the reason.
//! - `tools/deep tsan` plants a data race, and `redis-tests/` leaves out each rule of the protocol.
//!
//! # Assumptions
//!
//! - **Proofs**: the translation from Rust to formulas (Python, which nobody has verified), z3, and the compiler. A
//!   property about products assumes what another property shows. `proofs/README.md` says where, and which functions have no proof.
//! - **Models**: the memory model of loom, which is smaller than Rust's. loom lets no load return a store that has not been executed yet.
//!   It treats sequentially consistent accesses as acquire and release. It also leaves out interleavings in which a thread loads a word and then
//!   swaps it, so each model runs again with each load as a read-modify-write. For some words this second run has a bound on preemptions.
//! - **Everything**: clocks step back by no more than they say, and atomics work as the processor's manual says.
//!
//! # Parts that are only tested
//!
//! Adaptive limits, throttles and pacers learn from a service, so there is nothing to prove: simulations show how well they do. Layers of
//! HTTP, gRPC and Mesh, configuration and metrics have tests of their behaviour, and fuzz targets for what they parse. The protocol across
//! machines has no exhaustive model.
//!
//! # Bugs that each check found here
//!
//! | check | found | commit |
//! |---|---|---|
//! | a look for attacks | a guaranteed call starved behind a borrower; estimates of 0 were never settled; a guarantee could be used again and again | `0daaba57`, `9a21eac4` |
//! | random histories (shuttle) | a burst of 2 on a burst of 1: a key that came back after a clear got the tokens of a forgotten call | `c01a79f1` |
//! | a clock that moves at every reading | a joint take was known by its time and never matched its reply, so the policy decided while the server was healthy | `c53cbf47` |
//! | ten minutes of each fuzz target | no bug of the crate, but two wrong bounds of the models that it is compared with | `docs/evidence.md` |
//! | the thread sanitizer | nothing in damper | `docs/evidence.md` |
//! | proofs | no defect in the arithmetic | `proofs/README.md` |
//!
//! [`guarantees`](super::guarantees) tells of a published bucket that was "proven under loom", and of the bug that its model missed.
