//! The check: workers are killed under load, and the clients count what was allowed.

mod envelope;
mod http;
mod ledger;
mod load;
mod random;

use crate::layout::{CLIENT, LOGINS, SLOTS};
use crate::limits::Shared;
use crate::supervisor::{self, COUNT};
use damper_shm::Workers;
use envelope::{Answer, Ask, Envelope};
use http::Connection;
use ledger::Ledger;
use load::{Seen, Site};
use random::Random;
use std::collections::HashSet;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

/// The least part of an ideal bucket's tokens that clients have to get, in hundredths of a percent.
const LEAST_SERVED: u64 = 9_950;
/// The longest pause between two kills, in microseconds.
const LONGEST_PAUSE: u64 = 40_000;
/// How often something is tried that a worker's start delays.
const ATTEMPTS: usize = 2_000;

pub(crate) struct Options {
    pub(crate) kills: u64,
    pub(crate) seed: u64,
    pub(crate) level: Option<PathBuf>,
    pub(crate) reclaims: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { kills: 500, seed: 1, level: None, reclaims: true }
    }
}

type Failure = Box<dyn Error + Send + Sync>;

/// Runs the check, prints what it found, and fails with a sentence that says what broke.
pub(crate) fn run(runtime: &Runtime, options: &Options) -> Result<(), Box<dyn Error>> {
    let (_reserved, address) = supervisor::reserve(runtime, SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let shared = Shared::create()?;
    let mut workers = Workers::new(shared.words());
    if options.reclaims {
        workers = workers.reclaims(shared.slots());
    }
    for _ in 0..COUNT {
        workers.spawn(supervisor::worker(address)?)?;
    }
    runtime.block_on(workers_attached(address, &workers))?;
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let is_over = Arc::new(AtomicBool::new(false));
    let site = Site { address, began: Instant::now(), is_over: Arc::clone(&is_over), ledger: Arc::clone(&ledger) };
    let (seen, killed) = thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let killed = kill(&mut workers, address, options, &ledger);
            // ORDERING: Relaxed, as where it is read.
            is_over.store(true, Ordering::Relaxed);
            killed
        });
        let seen = LocalSet::new().block_on(runtime, load::run(&site, options.seed));
        (seen, killer.join())
    });
    killed.map_err(|_| "the thread that kills workers panicked")?.map_err(|failure| -> Box<dyn Error> { failure })?;
    let took = site.began.elapsed();
    let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{} workers killed in {:.1} s, {} served a request", options.kills, took.as_secs_f64(), ledger.workers);
    clients(&seen)?;
    println!("bulkhead: {} entered, at most {} of {SLOTS} at once", ledger.entered, ledger.most);
    if ledger.most > SLOTS.into() {
        return Err(format!("{} requests were in the bulkhead at once, {SLOTS} may be", ledger.most).into());
    }
    runtime.block_on(async {
        workers_attached(address, &workers).await?;
        no_slot_is_lost(address, ledger.most).await?;
        logins_agree(address, &shared, options.level.as_deref()).await
    })?;
    println!("all holds");
    Ok(())
}

/// Kills workers at random, and starts another for each.
fn kill(
    workers: &mut Workers<'_>,
    address: SocketAddr,
    options: &Options,
    ledger: &Mutex<Ledger>,
) -> Result<(), Failure> {
    let mut random = Random(options.seed);
    for _ in 0..options.kills {
        thread::sleep(Duration::from_micros(random.below(LONGEST_PAUSE)));
        let (seat, id) = workers.running().nth(random.below(COUNT as u64) as usize).ok_or("a worker is missing")?;
        // Before the kill, from which on its slots may be free.
        ledger.lock().unwrap_or_else(PoisonError::into_inner).kills(id);
        workers.child(seat).ok_or("a worker is missing")?.kill()?;
        let exited = workers.wait()?.ok_or("no worker is left")?;
        if exited.status.signal() != Some(9) || exited.seat != seat {
            return Err(format!("a worker died that nobody killed: {exited}").into());
        }
        workers.spawn(supervisor::worker(address)?)?;
    }
    Ok(())
}

/// Checks the requests of clients.
///
/// Nothing is beyond the envelope, and clients that always asked got their rate.
fn clients(seen: &Seen) -> Result<(), Box<dyn Error>> {
    let envelope = Envelope { rate: CLIENT.limit().into(), burst: CLIENT.burst_size().into() };
    let count = |logs: &[Vec<Ask>], answer| logs.iter().flatten().filter(|ask| ask.answer == answer).count();
    let (mut allowed, mut ideal) = (0, 0);
    for (name, logs) in [("always ask", &seen.steady), ("come once", &seen.visitors)] {
        println!(
            "{} clients that {name}: {} requests allowed, {} denied, {} lost",
            logs.len(),
            count(logs, Answer::Allowed),
            count(logs, Answer::Denied),
            count(logs, Answer::Lost)
        );
        let excess = logs.iter().map(|log| envelope.excess(log)).max().unwrap_or_default();
        if excess > 0 {
            return Err(format!("a client got {excess} tokens more than its burst and rate allow").into());
        }
    }
    for log in &seen.steady {
        allowed += log.iter().filter(|ask| ask.answer == Answer::Allowed).count() as u64;
        ideal += envelope.ideal(log);
    }
    // In hundredths of a percent, rounded down.
    let served = allowed * 10_000 / ideal.max(1);
    let percent = format!("{}.{:02} %", served / 100, served % 100);
    println!("clients that always ask got {allowed} of {ideal} tokens, {percent}");
    if served < LEAST_SERVED {
        return Err(format!(
            "clients got {percent} of their rate, at least {}.{:02} % is due",
            LEAST_SERVED / 100,
            LEAST_SERVED % 100
        )
        .into());
    }
    Ok(())
}

/// Checks that each running worker answers.
async fn workers_attached(address: SocketAddr, workers: &Workers<'_>) -> Result<(), Box<dyn Error>> {
    let mut running: HashSet<u32> = workers.running().map(|(_, id)| id).collect();
    for _ in 0..ATTEMPTS {
        // The kernel chooses the worker by the client's port.
        if let Ok(mut connection) = Connection::open(Ipv4Addr::LOCALHOST, address).await
            && let Ok(head) = connection.request("GET /").await
        {
            running.remove(&head.worker);
        }
        if running.is_empty() {
            println!("the {COUNT} workers that run now answer");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err(format!("{} of {COUNT} workers that run now did not answer", running.len()).into())
}

/// Checks that all slots can be taken at once, and no more.
async fn no_slot_is_lost(address: SocketAddr, most: u32) -> Result<(), Box<dyn Error>> {
    let mut held = Vec::new();
    for _ in 0..ATTEMPTS {
        let mut connection = Connection::open(Ipv4Addr::LOCALHOST, address).await?;
        // The last clients may still be leaving.
        match connection.begin("POST /hold").await?.status {
            200 => held.push(connection),
            _ if held.len() >= SLOTS.into() => {
                println!("bulkhead: {} slots can be taken at the end", held.len());
                return Ok(());
            }
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
        if held.len() > SLOTS.into() {
            return Err(format!("{} requests were in the bulkhead at once, {SLOTS} may be", held.len()).into());
        }
    }
    Err(format!(
        "{} of {SLOTS} slots of the bulkhead can be taken at the end, the others are lost (at most {most} were taken at once)",
        held.len()
    )
    .into())
}

/// Takes logins, and checks that the C program reads the same level as Rust.
async fn logins_agree(address: SocketAddr, shared: &Shared, level: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let mut connection = Connection::open(Ipv4Addr::LOCALHOST, address).await?;
    let mut allowed = 0;
    while connection.request("POST /login").await?.status == 200 {
        allowed += 1;
        if allowed == LOGINS.burst_size() - 17 {
            break;
        }
    }
    let before = shared.logins_left();
    let Some(level) = level else { return Ok(()) };
    let output = Command::new(level)
        .arg(format!("/proc/{}/fd/{}", process::id(), shared.words().as_fd().as_raw_fd()))
        .arg(crate::layout::LOGIN_WORD.to_string())
        .args([LOGINS.limit().to_string(), LOGINS.window().as_nanos().to_string(), LOGINS.burst_size().to_string()])
        .output()?;
    let told = String::from_utf8(output.stdout)?;
    let after = shared.logins_left();
    let tokens: u32 =
        told.trim().parse().map_err(|_| format!("the C program printed {told:?}, it must print a number"))?;
    println!("{allowed} logins: {tokens} tokens left says C, {before} before and {after} after says Rust");
    if !(before..=after).contains(&tokens) {
        return Err(format!("the C program says that {tokens} tokens are left, Rust says {before} to {after}").into());
    }
    Ok(())
}
