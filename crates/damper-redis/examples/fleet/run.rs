//! One run from beginning to end, and all that was seen in it.

use crate::fleet::{Process, Record};
use crate::line::micros_now;
use crate::member;
use crate::options::{Member, Options};
use crate::plan::Phase;
use crate::redis_server::RedisServer;
use crate::signal::Signal;
use std::error::Error;
use std::io::{Write, stderr};
use tokio::time::{Instant, sleep_until};

/// The observations of the run.
#[derive(Debug)]
pub(crate) struct Evidence {
    /// When each phase's event was over, in µs since 1970.
    pub(crate) events: [u64; 8],
    /// When the last phase ended.
    pub(crate) end: u64,
    /// Of each process that there was.
    pub(crate) records: Vec<Record>,
}

impl Evidence {
    /// When a phase began and ended, in µs since 1970.
    pub(crate) fn span(&self, phase: Phase) -> (u64, u64) {
        let next = self.events.get(phase as usize + 1).copied();
        (self.events[phase as usize], next.unwrap_or(self.end))
    }
}

/// Runs the plan.
pub(crate) async fn run(options: &Options) -> Result<Evidence, Box<dyn Error>> {
    let mut fleet = Fleet::start(options).await?;
    let mut events = [0; 8];
    let start = Instant::now();
    for (event, phase) in events.iter_mut().zip(Phase::ALL) {
        sleep_until(start + phase.start(options.phase())).await;
        _ = writeln!(stderr(), "{:4.1} s  {}: {}", start.elapsed().as_secs_f64(), phase.name(), phase.event());
        fleet.begin(phase).await?;
        *event = micros_now();
    }
    sleep_until(start + options.phase() * 8).await;
    let end = micros_now();
    Ok(Evidence { events, end, records: fleet.finish().await? })
}

/// The server and the processes that run.
struct Fleet {
    member: Member,
    redis: RedisServer,
    processes: Vec<Process>,
    /// Of the process that was killed.
    killed: Vec<Record>,
}

impl Fleet {
    async fn start(options: &Options) -> Result<Self, Box<dyn Error>> {
        let redis = RedisServer::start(&options.redis).await?;
        let member = options.member(redis.url());
        // As the operator of a new server does, once: it has lost nothing, so its limits are full.
        member::limiter(&member).mark_deployed().await?;
        let processes = (0..options.processes).map(|_| Process::start(&member)).collect::<Result<_, _>>()?;
        Ok(Self { member, redis, processes, killed: Vec::new() })
    }

    /// Makes the event of the phase happen.
    async fn begin(&mut self, phase: Phase) -> Result<(), Box<dyn Error>> {
        match phase {
            Phase::Calm => {}
            Phase::RedisPaused => self.redis.pause()?,
            Phase::RedisResumed => self.redis.resume()?,
            Phase::RedisKilled => self.redis.kill()?,
            Phase::RedisRestarted => self.redis.restart().await?,
            Phase::ProcessesLost => {
                self.killed.push(self.processes.remove(0).kill().await?);
                self.processes[0].signal(Signal::Stop)?;
            }
            Phase::ProcessesBack => {
                self.processes[0].signal(Signal::Continue)?;
                self.processes.insert(0, Process::start(&self.member)?);
            }
            Phase::Flushed => self.redis.flush().await?,
        }
        Ok(())
    }

    async fn finish(self) -> Result<Vec<Record>, Box<dyn Error>> {
        let mut records = self.killed;
        for process in self.processes {
            records.push(process.finish().await?);
        }
        Ok(records)
    }
}
