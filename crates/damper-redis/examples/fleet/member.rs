//! One process of the fleet: a limiter as an application has it, and a loop that checks it.

use crate::line::{Admission, Line, Snapshot, Source, micros_now};
use crate::options::Member;
use core::time::Duration;
use damper_core::Quota;
use damper_redis::{AfterLoss, RedisCounts, RedisLimiter, RedisLimiterBuilder};
use std::error::Error;
use std::io::{self, Write, stdout};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep_until};

/// How often the loop checks: a whole number of checks each time.
const STEP: Duration = Duration::from_millis(2);

const SNAPSHOTS: Duration = Duration::from_millis(50);

/// Begins to build a limit that all processes share, as an application would.
pub(crate) fn limiter(options: &Member) -> RedisLimiterBuilder {
    RedisLimiter::connect(&options.url)
        .name("orders")
        .quota(Quota::per_second(options.rate).burst(options.burst))
        .when_down(options.policy.when_down())
        .after_loss(AfterLoss::Empty)
        .processes(options.processes)
}

/// Checks until stdin closes, as it does when the program that started this one ends.
pub(crate) async fn run(options: &Member) -> Result<(), Box<dyn Error>> {
    // A process that starts while Redis is away works all the same.
    let limiter = limiter(options).build_lazy()?;
    let mut stdin = tokio::io::stdin();
    let mut byte = [0];
    tokio::select! {
        _ = stdin.read(&mut byte) => Ok(()),
        ended = check(&limiter, options.rate) => Ok(ended?),
    }
}

/// Checks `pace` times a second, and writes what happens.
async fn check(limiter: &RedisLimiter, pace: u32) -> io::Result<()> {
    let start = Instant::now();
    let (mut due, mut snapshot, mut before) = (0_u64, Snapshot::default(), limiter.counts());
    let mut next_snapshot = start;
    loop {
        let wake_up = Instant::now() + STEP;
        sleep_until(wake_up).await;
        snapshot.lateness = snapshot.lateness.max(wake_up.elapsed().as_micros() as u64);
        let now = (start.elapsed().as_micros() * u128::from(pace) / 1_000_000) as u64;
        // After a pause there is nothing to catch up with.
        for _ in 0..(now - due).min(u64::from(pace / 10)) {
            let (begun, asked) = (micros_now(), Instant::now());
            let allowed = limiter.check().await.is_ok();
            snapshot.slowest = snapshot.slowest.max(asked.elapsed().as_micros() as u64);
            snapshot.checks += 1;
            if allowed {
                let after = limiter.counts();
                let source = source(&before, &after);
                before = after;
                write(Line::Admission(Admission { begun, ended: micros_now() + 1, source }))?;
            }
        }
        due = now;
        if next_snapshot.elapsed() > Duration::ZERO {
            snapshot.at = micros_now();
            snapshot.commands = limiter.counts().commands;
            snapshot.policy = limiter.status().policy.is_some().into();
            write(Line::Snapshot(snapshot))?;
            (snapshot.slowest, snapshot.lateness) = (0, 0);
            next_snapshot += SNAPSHOTS;
        }
        if next_snapshot.elapsed() > Duration::from_secs(1) {
            // It was stopped; the missing ones are not made up for.
            next_snapshot = Instant::now();
        }
    }
}

/// This loop is the only one that checks, so the count that has moved is that of the last admission.
fn source(before: &RedisCounts, after: &RedisCounts) -> Source {
    if after.allowed_by_policy > before.allowed_by_policy {
        Source::Policy
    } else if after.tokens_by_lease > before.tokens_by_lease {
        Source::Lease
    } else {
        Source::Server
    }
}

/// One write for each line: a process that is killed has written all but the last.
fn write(line: Line) -> io::Result<()> {
    let mut stdout = stdout().lock();
    stdout.write_all(line.to_string().as_bytes())?;
    stdout.flush()
}
