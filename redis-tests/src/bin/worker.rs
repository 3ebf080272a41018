//! A process that shares a limit with others, and checks it in loops until its stdin closes.

use damper_redis::RedisLimiter;
use damper_redis_tests::{Admission, Load, Log, Snapshot, micros_now};
use std::error::Error;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, sleep_until};

/// The checks of a loop between two looks at the clock, where it goes as fast as it can.
const BATCH: u32 = 64;

/// How often a paced loop checks: a whole number of checks each time.
const STEP: Duration = Duration::from_millis(2);

const SNAPSHOTS: Duration = Duration::from_millis(50);

/// The figures that the limiter does not keep.
#[derive(Debug, Default)]
struct Figures {
    ended: AtomicBool,
    checks: AtomicU64,
    allowed: AtomicU64,
    slowest: AtomicU64,
    lateness: AtomicU64,
}

fn main() -> ExitCode {
    match Load::of_arguments(std::env::args().skip(1)).map_err(Into::into).and_then(|load| run(&load)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(load: &Load) -> Result<(), Box<dyn Error + Send + Sync>> {
    let figures = Arc::new(Figures::default());
    {
        let figures = Arc::clone(&figures);
        std::thread::spawn(move || {
            _ = std::io::stdin().read(&mut [0]);
            // ORDERING: Relaxed, a flag that publishes nothing.
            figures.ended.store(true, Ordering::Relaxed);
        });
    }
    let log = Arc::new(Log::append(&load.log)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(load.threads).enable_all().build()?;
    runtime.block_on(async {
        let limiter = load.builder().build_lazy()?;
        let mut tasks = JoinSet::new();
        for _ in 0..load.threads {
            tasks.spawn(check_in_a_loop(limiter.clone(), load.pace, Arc::clone(&log), Arc::clone(&figures)));
        }
        tasks.spawn(measure_lateness(Arc::clone(&figures)));
        tasks.spawn(report(limiter, load.clone(), figures));
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(())
    })
}

type Ended = std::io::Result<()>;

async fn check_in_a_loop(limiter: RedisLimiter, pace: u32, log: Arc<Log>, figures: Arc<Figures>) -> Ended {
    let start = Instant::now();
    let mut due: u64 = 0;
    // ORDERING: Relaxed throughout, counts and a flag that publish nothing.
    while !figures.ended.load(Ordering::Relaxed) {
        let batch = if pace == 0 {
            BATCH
        } else {
            sleep(STEP).await;
            // A loop that was stopped catches up with a tenth of a second at most.
            let now = (start.elapsed().as_micros() * u128::from(pace) / 1_000_000) as u64;
            let batch = (now - due).min(u64::from(pace / 10));
            due = now;
            batch as u32
        };
        for _ in 0..batch {
            let begun = micros_now();
            let asked = Instant::now();
            let allowed = limiter.check().await.is_ok();
            figures.slowest.fetch_max(asked.elapsed().as_micros() as u64, Ordering::Relaxed);
            if allowed {
                log.write(Admission { begun, ended: micros_now() + 1, tokens: 1 })?;
                figures.allowed.fetch_add(1, Ordering::Relaxed);
            }
            figures.checks.fetch_add(1, Ordering::Relaxed);
        }
        yield_now().await;
    }
    Ok(())
}

/// Sleeps as long as a check may take, and sees how long that was.
async fn measure_lateness(figures: Arc<Figures>) -> Ended {
    // ORDERING: Relaxed throughout, a figure and a flag that publish nothing.
    while !figures.ended.load(Ordering::Relaxed) {
        let due = Instant::now() + Duration::from_millis(5);
        sleep_until(due.into()).await;
        figures.lateness.fetch_max(due.elapsed().as_micros() as u64, Ordering::Relaxed);
    }
    Ok(())
}

async fn report(limiter: RedisLimiter, load: Load, figures: Arc<Figures>) -> Ended {
    let mut file = OpenOptions::new().create(true).append(true).open(Load::snapshots(&load.log))?;
    loop {
        // ORDERING: Relaxed throughout, figures that publish nothing.
        let ended = figures.ended.load(Ordering::Relaxed);
        let (counts, status) = (limiter.counts(), limiter.status());
        let snapshot = Snapshot {
            at: micros_now(),
            checks: figures.checks.load(Ordering::Relaxed),
            allowed: figures.allowed.load(Ordering::Relaxed),
            slowest: figures.slowest.swap(0, Ordering::Relaxed),
            lateness: figures.lateness.swap(0, Ordering::Relaxed),
            commands: counts.commands,
            by_lease: counts.tokens_by_lease,
            by_server: counts.allowed_by_server + counts.denied_by_server,
            by_policy: counts.allowed_by_policy + counts.denied_by_policy,
            losses: counts.losses,
            processes: status.processes.into(),
            policy_in_force: status.policy.is_some(),
        };
        file.write_all(snapshot.line().as_bytes())?;
        if ended {
            return Ok(());
        }
        sleep(SNAPSHOTS).await;
    }
}
