//! The plan of a run: eight phases of one length, each of which begins with an event.

use core::time::Duration;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    Calm,
    RedisPaused,
    RedisResumed,
    RedisKilled,
    RedisRestarted,
    ProcessesLost,
    ProcessesBack,
    Flushed,
}

impl Phase {
    pub(crate) const ALL: [Self; 8] = [
        Self::Calm,
        Self::RedisPaused,
        Self::RedisResumed,
        Self::RedisKilled,
        Self::RedisRestarted,
        Self::ProcessesLost,
        Self::ProcessesBack,
        Self::Flushed,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::RedisPaused => "Redis paused",
            Self::RedisResumed => "Redis resumed",
            Self::RedisKilled => "Redis killed",
            Self::RedisRestarted => "Redis restarted",
            Self::ProcessesLost => "processes lost",
            Self::ProcessesBack => "processes back",
            Self::Flushed => "Redis flushed",
        }
    }

    /// The event at its beginning.
    pub(crate) const fn event(self) -> &'static str {
        match self {
            Self::Calm => "all processes check four times as often as allowed",
            Self::RedisPaused => "SIGSTOP",
            Self::RedisResumed => "SIGCONT",
            Self::RedisKilled => "kill -9",
            Self::RedisRestarted => "the same port, no keys, no scripts",
            Self::ProcessesLost => "process 0: kill -9, process 1: SIGSTOP",
            Self::ProcessesBack => "process 0: started again, process 1: SIGCONT",
            Self::Flushed => "FLUSHALL and SCRIPT FLUSH",
        }
    }

    /// Whether Redis answers in it.
    pub(crate) const fn has_redis(self) -> bool {
        !matches!(self, Self::RedisPaused | Self::RedisKilled)
    }

    /// When it begins, since the start.
    pub(crate) fn start(self, length: Duration) -> Duration {
        length * self as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Phase;
    use core::time::Duration;

    #[test]
    fn phases_follow_one_another() {
        let starts: Vec<u64> = Phase::ALL.map(|phase| phase.start(Duration::from_secs(3)).as_secs()).into();
        assert_eq!(starts, [0, 3, 6, 9, 12, 15, 18, 21]);
    }
}
