//! Limits that processes share, on words in memory that the program maps.
//!
//! Servers that fork their workers have a limit per process, or one in a store that every call asks over the network. The types of
//! [`words`](crate::words) are a third way: the state of a limit is one or a few atomic words, the *program* places them, and every process
//! makes its own value around them.
//!
//! ```
//! use damper::time::Seed;
//! use damper::words::{AtomicU64, Contents, Header, Seat, WordBulkhead, WordLimiter, WordTable};
//! use damper::{ManualClock, Plan, Quota};
//!
//! # let clock = ManualClock::new(); // HostMonotonic::PRECISE in processes
//! let words = [const { AtomicU64::new(0) }; 64 + 8 + 1_024]; // a mapping of shared memory, 0 at first
//! let (all, each) = (Plan::new(Quota::per_second(1_000))?, Plan::new(Quota::per_second(10))?);
//! let contents = Contents::version(1).plan(&all).plan(&each).number(200);
//!
//! // The supervisor, once:
//! Header::create(&words[..8], &contents, Seed::random(), &clock)?;
//!
//! // Each worker:
//! let header = Header::attach(&words[..8], &contents, &clock)?;
//! let everyone = WordLimiter::new(&words[8], all, &clock);
//! let calls = WordBulkhead::new(&words[9], 200, Seat::new(0)?);
//! let clients = WordTable::<str, _>::new(&words[64..], each, &clock, header.seed())?;
//!
//! clients.check("198.51.100.7")?;
//! everyone.check()?;
//! let _permit = calls.enter()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Shared and own state
//!
//! | in the words | a process's own |
//! |---|---|
//! | the time at which each bucket is full | the plan, with the rate and the burst |
//! | the calls in flight of each seat | the limit of the bulkhead, the permits |
//! | the slots of keys, by a part of their hash, and the buckets that keys without one share | the keys, and how they are hashed except for the seed |
//! | the hash of plans and settings, the seed, the time of creation | the clock, the number under which a process marks its provisional words |
//!
//! Keys without a slot share buckets only with [`sharing`](crate::words::WordTable::sharing). Without it they are refused, so a flood of
//! new keys keeps other new keys out.
//!
//! A process can change its own state for itself only. So there are no live quotas, no tiers, no queues and no wake-ups on shared words:
//! a caller that has to wait sleeps for [`retry_after`](crate::Denied::retry_after) and asks again.
//!
//! # Kills, stops, updates and reboots
//!
//! | event | limiter, table | bulkhead | header |
//! |---|---|---|---|
//! | **a kill** at any step | valid. At most the tokens of the call in progress were taken for nothing, and refill. A slot that was about to be taken is taken over by the next newcomer | the slots of the dead stay taken until the supervisor calls [`reclaim`](crate::words::WordBulkhead::reclaim), after `waitpid` and before it starts the next process in the seat | another process completes it |
//! | **a stop** (SIGSTOP, a debugger, a swapped page) | nobody waits for the process. When it continues, its swap fails if the word has changed | its slots stay taken: it may be in the middle of a call. Do not reclaim them: when it continues, its calls would exceed the limit | – |
//! | **an update** with other plans or another layout | – | – | [`attach`](crate::words::Header::attach) refuses with the part that differs. Create new words for the new program, or keep the contents and roll out: see below |
//! | **a reboot** | memory is gone, and a file is refused | – | `attach` refuses another boot's id, and a clock that reads a time before the creation |
//!
//! **Rolling out another plan** on the same words is possible if the contents leave the plan out. For a [`WordLimiter`](crate::words::WordLimiter) each
//! plan stays in its own envelope, and callers get at most `B2·(1 - W1/W2) + 1` tokens more in all, with `B2` the new burst and `W` the time of a refill. A
//! [`WordTable`](crate::words::WordTable) does not allow it: a debt that is deeper than a process's plan allows reads as one from before the circle of
//! its instants.
//!
//! # The clock
//!
//! All processes read the same clock. `HostMonotonic` (feature `rustix`) is the host's: nanoseconds since the boot, equal in all processes of one
//! time namespace. It stands still while the machine sleeps. The default clock [`Monotonic`](crate::Monotonic) is calibrated by each process, and
//! the same moment differs by 12 ms between processes after 80 minutes, and by 21 s after 100 days.
//! [`StdClock`](crate::StdClock) starts at 0 in each process.
//!
//! # Memory
//!
//! The words must stay mapped for as long as a process has values on them, and be shared and writable. Memory that another process can truncate, as a plain file,
//! ends in SIGBUS. A sealed memfd cannot be truncated: `damper::shm` (feature `shm`, Linux) creates one,
//! and starts workers with seats that inherit it. A process that writes into the mapping by mistake can break every limit in it: share it only with your own
//! workers.
