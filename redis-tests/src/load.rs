//! The limit of a worker process and the load on it, as its command line has them.

use crate::envelope::Envelope;
use damper_core::Quota;
use damper_redis::{AfterLoss, RedisLimiter, RedisLimiterBuilder, WhenDown};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Builder;

/// The policy of a limiter whose server is slow or gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Each process has its share of the rate.
    LocalShare,
    /// Everything is allowed.
    Open,
    /// Nothing is allowed.
    Closed,
}

/// The state of a limit that the server has forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// An empty bucket.
    Empty,
    /// An empty bucket for so long after the loss, then a full one.
    EmptyFor(Duration),
    /// A full bucket.
    Full,
}

/// One limit and the load of one process on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The server, or the proxy in front of it.
    pub url: String,
    /// The name of the limit.
    pub name: String,
    /// Tokens that refill in [`window`](Self::window).
    pub tokens: u32,
    /// The window of the quota.
    pub window: Duration,
    /// The burst of the quota.
    pub burst: u32,
    /// The threads that check, each in a loop.
    pub threads: usize,
    /// Checks a second and thread; 0: as many as the processor has time for.
    pub pace: u32,
    /// The policy in force without a server.
    pub policy: Policy,
    /// The state after a loss.
    pub loss: Loss,
    /// How long a check may take.
    pub deadline: Duration,
    /// The processes that share the limit, if they are told.
    pub processes: Option<u32>,
    /// The file of admissions; snapshots are beside it.
    pub log: PathBuf,
}

/// A command line that is no [`Load`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLoad(String);

impl fmt::Display for BadLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no option of a worker, or has a value that is not allowed", self.0)
    }
}

impl std::error::Error for BadLoad {}

impl Load {
    /// A limit of `tokens` a second, loaded by each process with as many checks.
    #[must_use]
    pub fn new(url: &str, tokens: u32, burst: u32) -> Self {
        Self {
            url: url.to_owned(),
            name: "load".to_owned(),
            tokens,
            window: Duration::from_secs(1),
            burst,
            threads: 2,
            pace: (tokens / 2).max(100),
            policy: Policy::Closed,
            loss: Loss::EmptyFor(Duration::from_secs(60)),
            deadline: Duration::from_millis(5),
            processes: None,
            log: PathBuf::new(),
        }
    }

    /// Returns the bound of the quota.
    #[must_use]
    pub fn envelope(&self) -> Envelope {
        Envelope::new(self.burst.into(), self.tokens.into(), self.window)
    }

    /// Begins to build the limiter.
    ///
    /// # Panics
    ///
    /// On a window of zero.
    pub fn builder(&self) -> RedisLimiterBuilder {
        let quota = Quota::per(self.tokens, self.window).expect("the window is above zero").burst(self.burst);
        let builder = RedisLimiter::connect(&self.url)
            .name(&self.name)
            .quota(quota)
            .deadline(self.deadline)
            .when_down(match self.policy {
                Policy::LocalShare => WhenDown::LocalShare,
                Policy::Open => WhenDown::Open,
                Policy::Closed => WhenDown::Closed,
            })
            .after_loss(match self.loss {
                Loss::Empty => AfterLoss::Empty,
                Loss::EmptyFor(time) => AfterLoss::EmptyFor(time),
                Loss::Full => AfterLoss::Full,
            });
        match self.processes {
            Some(processes) => builder.processes(processes),
            None => builder,
        }
    }

    /// Marks the server as one whose limits are full, as a first deployment does.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    pub fn deploy(&self) {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        runtime.block_on(self.builder().mark_deployed()).expect("the server answers");
    }

    /// Returns the file of snapshots that belongs to a file of admissions.
    #[must_use]
    pub fn snapshots(log: &Path) -> PathBuf {
        log.with_extension("snapshots")
    }

    /// Returns the command line.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let policy = match self.policy {
            Policy::LocalShare => "local",
            Policy::Open => "open",
            Policy::Closed => "closed",
        };
        let loss = match self.loss {
            Loss::Empty => "empty".to_owned(),
            Loss::EmptyFor(time) => time.as_micros().to_string(),
            Loss::Full => "full".to_owned(),
        };
        vec![
            format!("url={}", self.url),
            format!("name={}", self.name),
            format!("tokens={}", self.tokens),
            format!("window={}", self.window.as_micros()),
            format!("burst={}", self.burst),
            format!("threads={}", self.threads),
            format!("pace={}", self.pace),
            format!("policy={policy}"),
            format!("loss={loss}"),
            format!("deadline={}", self.deadline.as_micros()),
            format!("processes={}", self.processes.unwrap_or(0)),
            format!("log={}", self.log.display()),
        ]
    }

    /// Reads a command line.
    ///
    /// # Errors
    ///
    /// [`BadLoad`] names the argument that was not understood.
    pub fn of_arguments(arguments: impl Iterator<Item = String>) -> Result<Self, BadLoad> {
        let mut load = Self::new("", 1, 1);
        for argument in arguments {
            load.set(&argument).ok_or(BadLoad(argument))?;
        }
        Ok(load)
    }

    fn set(&mut self, argument: &str) -> Option<()> {
        let (name, value) = argument.split_once('=')?;
        let micros = || value.parse().ok().map(Duration::from_micros);
        match name {
            "url" => self.url = value.to_owned(),
            "name" => self.name = value.to_owned(),
            "tokens" => self.tokens = value.parse().ok()?,
            "window" => self.window = micros()?,
            "burst" => self.burst = value.parse().ok()?,
            "threads" => self.threads = value.parse().ok()?,
            "pace" => self.pace = value.parse().ok()?,
            "policy" => {
                self.policy = match value {
                    "local" => Policy::LocalShare,
                    "open" => Policy::Open,
                    "closed" => Policy::Closed,
                    _ => return None,
                }
            }
            "loss" => {
                self.loss = match value {
                    "empty" => Loss::Empty,
                    "full" => Loss::Full,
                    _ => Loss::EmptyFor(micros()?),
                }
            }
            "deadline" => self.deadline = micros()?,
            "processes" => self.processes = value.parse().ok().filter(|number| *number > 0),
            "log" => self.log = value.into(),
            _ => return None,
        }
        Some(())
    }
}
