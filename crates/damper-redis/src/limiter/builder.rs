//! The builder of limiters.

use super::settings::{self, LimiterKind, Parts};
use super::{AfterLoss, KeyedRedisLimiter, RedisEvent, RedisLimiter, RedisLimiterError, WhenDown};
use crate::by_plan::{Planned, PlannedRedisLimiter, RedisTree};
use crate::server::Certificates;
use core::fmt;
use core::time::Duration;
use damper_core::Quota;
use std::sync::Arc;

/// The choice of when a limiter leases tokens, to spend them without asking the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Leasing {
    /// Leases if that saves commands.
    ///
    /// The burst must be at least what the rate brings in 100 ms, and this process must make at least 80 checks a second.
    #[default]
    WhenHot,
    /// Never leases: each check asks the server.
    Never,
}

/// Builds a [`RedisLimiter`], a [`KeyedRedisLimiter`], a [`PlannedRedisLimiter`] or a [`RedisTree`].
///
/// [`RedisLimiter::connect`] and [`RedisLimiter::cluster`] create one.
#[derive(Clone)]
#[must_use]
pub struct RedisLimiterBuilder {
    pub(crate) urls: Vec<String>,
    pub(crate) topology: Topology,
    pub(crate) name: String,
    pub(crate) quotas: Vec<Quota>,
    pub(crate) when_down: WhenDown,
    pub(crate) after_loss: AfterLoss,
    pub(crate) leasing: Leasing,
    pub(crate) lease_length: Duration,
    pub(crate) lease_share: u32,
    pub(crate) deadline: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) processes: Option<u32>,
    pub(crate) capacity: usize,
    pub(crate) unsettled: f64,
    pub(crate) time_to_live: Duration,
    pub(crate) eviction: Eviction,
    pub(crate) certificates: Option<Certificates>,
    pub(crate) listener: Option<Listener>,
}

/// A callback for events.
pub(crate) type Listener = Arc<dyn Fn(&RedisEvent) + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    Server,
    Cluster,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eviction {
    Refused,
    Accepted,
}

impl RedisLimiterBuilder {
    pub(crate) fn new(urls: Vec<String>, topology: Topology) -> Self {
        Self {
            urls,
            topology,
            name: "default".to_owned(),
            quotas: Vec::new(),
            when_down: WhenDown::default(),
            after_loss: AfterLoss::default(),
            leasing: Leasing::default(),
            lease_length: Duration::from_secs(1),
            lease_share: 4,
            deadline: Duration::from_millis(5),
            connect_timeout: Duration::from_secs(1),
            processes: None,
            capacity: 10_000,
            unsettled: 2.0,
            time_to_live: Duration::from_secs(120),
            eviction: Eviction::Refused,
            certificates: None,
            listener: None,
        }
    }

    /// Sets the limit's name in the server's keys and in logs. Default: `default`.
    ///
    /// Limiters with one name, one server and one key share a limit, in whichever processes they are. Give all of them the same
    /// quotas. 1 to 64 bytes.
    ///
    /// Give limiters of different kinds different names. A limiter with a limit for each key and one by plan, or a tree, count their
    /// processes together if they have one name. A program with both counts as two processes then, so its
    /// [local shares](WhenDown::LocalShare) are half as large as they could be.
    ///
    /// The server keeps how many tokens are missing, and each check compares that with its own process's burst. In a rolling deployment
    /// two quotas may share one name. The processes with the smaller burst are then starved while the others use more than that burst:
    /// in a trial, 42 of 48,000 checks were allowed. So deploy a quota with another burst under another name. During the deployment
    /// each of the two limits admits its quota.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the quota. There is no default.
    ///
    /// [`Quota::UNLIMITED`] allows everything, and asks no server.
    pub fn quota(mut self, quota: Quota) -> Self {
        self.quotas = vec![quota];
        self
    }

    /// Adds a quota for the same subject; at most eight in all.
    ///
    /// A check takes its tokens from all quotas or from none. One script decides on all of them. Limits of several quotas are never
    /// leased.
    pub fn also(mut self, quota: Quota) -> Self {
        self.quotas.push(quota);
        self
    }

    /// Sets the policy for the time in which the server does not answer. Default: [`WhenDown::LocalShare`].
    pub fn when_down(mut self, policy: WhenDown) -> Self {
        self.when_down = policy;
        self
    }

    /// Sets the level of missing limits after the server has lost its memory.
    ///
    /// Default: [`AfterLoss::EmptyFor`] 60 seconds.
    pub fn after_loss(mut self, after_loss: AfterLoss) -> Self {
        self.after_loss = after_loss;
        self
    }

    /// Sets when tokens are leased. Default: [`Leasing::WhenHot`].
    pub fn leasing(mut self, leasing: Leasing) -> Self {
        self.leasing = leasing;
        self
    }

    /// Sets for how long a lease is valid. Default: 1 second; 100 ms to 60 s.
    ///
    /// The tokens of a killed process return to the limit after this time. All processes that share a limit should set the same
    /// length.
    pub fn lease_length(mut self, length: Duration) -> Self {
        self.lease_length = length;
        self
    }

    /// Sets the part of the burst that all leases together may hold, as its divisor.
    ///
    /// Default: 4, a quarter of the burst. At least 1, the whole burst. After the server has lost its memory it leases less for the
    /// length of one lease, the larger the part: with 1 it leases nothing.
    pub fn lease_share(mut self, one_of: u32) -> Self {
        self.lease_share = one_of;
        self
    }

    /// Sets how long a check waits for the server at most. Default: 5 ms; 1 ms to 10 s.
    ///
    /// Later the [policy](WhenDown) decides. Timers of tokio go in steps of a millisecond.
    ///
    /// A check whose lease is dry may wait for a request in flight and then for one of its own. So the deadline should be five round
    /// trips or more. In a simulation with round trips of 2 to 4 ms, the default denied up to 1.8 % of the checks below the limit, and
    /// 20 ms denied none. In the worst simulation, in which checks came ten at once, 471 of 1,000 were denied.
    ///
    /// The wait includes delays in this process. If the check's task does not run in time, the check is late although the server has
    /// answered. On a busy machine 5 ms may be less than the time until a task runs again. If each check is a round trip there, set
    /// 20 ms or more, and watch [`decided_by_policy`](crate::RedisStatus::decided_by_policy).
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets how long an attempt to connect may take, and how long [`build`](Self::build) waits.
    ///
    /// Default: 1 second; 10 ms to 60 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how many processes share the limit, until the server has counted them.
    ///
    /// Default: unknown; at least 1. [`WhenDown::LocalShare`] divides the quota by this number. While the number is unknown, a share has
    /// no tokens, because each of four processes that start without a server could otherwise take the whole rate. If processes
    /// must work from the start without a server, set it to the largest number of processes.
    pub fn processes(mut self, processes: u32) -> Self {
        self.processes = Some(processes);
        self
    }

    /// Sets how many keys a [`KeyedRedisLimiter`] keeps in this process. Default: 10,000; at least 1.
    ///
    /// The server keeps the limits, so an evicted key loses nothing: its lease is returned and its pending charges are sent.
    pub fn capacity(mut self, keys: usize) -> Self {
        self.capacity = keys;
        self
    }

    /// Sets how many bursts of a bucket of a [tree](Self::build_tree) may be reserved and unsettled. Default: 2; 0 to 255.
    ///
    /// It bounds the refunds that come on top of the bucket's envelope. Reservations beyond it are allowed, and give nothing back. All
    /// processes that share a tree should set the same bound. The [guide](https://docs.rs/damper/latest/damper/guide/trees) compares
    /// the choices.
    pub fn unsettled(mut self, bursts: f64) -> Self {
        self.unsettled = bursts;
        self
    }

    /// Sets the time after which a reservation of a [tree](Self::build_tree) counts as used in full.
    ///
    /// Default: 2 minutes; 1 ms to 30 days. Take the longest that a call lasts. It is counted by the server's clock. All processes that
    /// share a tree should set the same time.
    pub fn time_to_live(mut self, time: Duration) -> Self {
        self.time_to_live = time;
        self
    }

    /// Accepts a server that evicts keys when its memory is full. Default: an error when it connects.
    ///
    /// The limit of an evicted key is full again, so each eviction admits up to another burst. A server whose configuration clients may
    /// not read is always accepted.
    pub fn accept_eviction(mut self) -> Self {
        self.eviction = Eviction::Accepted;
        self
    }

    /// Sets the root certificates that servers' certificates must lead to, as PEM.
    ///
    /// Default: the compiled-in roots of Mozilla, which these replace. One PEM may have several certificates, such as the file in which
    /// Linux keeps the roots of the system. All addresses must use TLS: `rediss://` or `valkeys://`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # mod damper { pub use damper_core::*; pub extern crate damper_redis as redis; }
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// use damper::Quota;
    /// use damper::redis::RedisLimiter;
    ///
    /// let fleet = RedisLimiter::connect("rediss://redis.internal:6380/")
    ///     .root_certificates(std::fs::read("ca.pem")?)
    ///     .quota(Quota::per_second(10_000))
    ///     .build()
    ///     .await?;
    /// # let _ = fleet;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.get_or_insert_default().set_roots(pem.into());
        self
    }

    /// Sets the certificate with which this program proves who it is, and its key, as PEM.
    ///
    /// Default: none. The certificate comes first in its PEM, and those that it was issued by follow, but for the root. The key has no
    /// passphrase. A server whose setting `tls-auth-clients` is `yes`, the default of Redis, asks for it.
    #[cfg(feature = "tls")]
    pub fn client_certificate(mut self, certificate_pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.get_or_insert_default().set_own(certificate_pem.into(), key_pem.into());
        self
    }

    /// Registers a callback for changes of the policy in force, losses and the number of processes.
    ///
    /// The task that noticed the change calls it, without a lock. It should return quickly.
    pub fn on_event(mut self, listener: impl Fn(&RedisEvent) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Connects, and builds a limiter of one limit.
    ///
    /// Both scripts run once without taking tokens, so that a missing permission is an error here. The
    /// [docs of the crate](crate#on-the-server) list the permissions.
    ///
    /// # Errors
    ///
    /// [`RedisLimiterError`] if an address or a setting is invalid, if the server cannot compute a quota exactly, if it evicts keys or
    /// refuses the connection or a script, or if there is no server within the [`connect_timeout`](Self::connect_timeout).
    pub async fn build(self) -> Result<RedisLimiter, RedisLimiterError> {
        let timeout = self.connect_timeout;
        let parts = self.shared(LimiterKind::OneLimit)?;
        connect_parts(&parts, timeout).await?;
        Ok(RedisLimiter::new(parts))
    }

    /// Builds a limiter of one limit without a server: the [policy](WhenDown) decides until there is a connection.
    ///
    /// The first check connects, in the background. If the server turns out to evict keys, it is not used, and
    /// [`status`](RedisLimiter::status) has the error.
    ///
    /// With the default policy, [`WhenDown::LocalShare`], checks are denied until the connection is there, because there is no share
    /// without the number of [`processes`](Self::processes). If that is set, the share starts empty. [`WhenDown::Open`] allows them.
    ///
    /// # Errors
    ///
    /// The errors of [`build`](Self::build) that need no server.
    pub fn build_lazy(self) -> Result<RedisLimiter, RedisLimiterError> {
        self.shared(LimiterKind::OneLimit).map(RedisLimiter::new)
    }

    /// Connects, and builds a limiter with a limit for each key.
    ///
    /// # Errors
    ///
    /// The errors of [`build`](Self::build), or a [`capacity`](Self::capacity) of 0.
    pub async fn build_keyed(self) -> Result<KeyedRedisLimiter, RedisLimiterError> {
        let (timeout, capacity) = (self.connect_timeout, self.capacity);
        let parts = self.shared(LimiterKind::LimitPerKey)?;
        connect_parts(&parts, timeout).await?;
        KeyedRedisLimiter::new(parts, capacity)
    }

    /// Builds a limiter with a limit for each key without a server, as [`build_lazy`](Self::build_lazy) does.
    ///
    /// With the default policy, [`WhenDown::LocalShare`], the checks of each key are denied until the connection is there. If the number
    /// of [`processes`](Self::processes) is set, they are denied until the share has tokens. [`WhenDown::Open`] allows them.
    ///
    /// # Errors
    ///
    /// The errors of [`build_keyed`](Self::build_keyed) that need no server.
    pub fn build_keyed_lazy(self) -> Result<KeyedRedisLimiter, RedisLimiterError> {
        let capacity = self.capacity;
        KeyedRedisLimiter::new(self.shared(LimiterKind::LimitPerKey)?, capacity)
    }

    /// Connects, and builds a limiter with a limit for each key whose quota comes with each call.
    ///
    /// # Errors
    ///
    /// The errors of [`build_keyed`](Self::build_keyed), or [`RedisLimiterError::QuotaWithPlans`] if a [`quota`](Self::quota) is set.
    pub async fn build_by_plan(self) -> Result<PlannedRedisLimiter, RedisLimiterError> {
        let timeout = self.connect_timeout;
        let planned = self.planned(&["key"], &["tokens"])?;
        connect_planned(&planned, timeout).await?;
        Ok(PlannedRedisLimiter::new(planned))
    }

    /// Builds a limiter by plan without a server, as [`build_keyed_lazy`](Self::build_keyed_lazy) does.
    ///
    /// # Errors
    ///
    /// The errors of [`build_by_plan`](Self::build_by_plan) that need no server.
    pub fn build_by_plan_lazy(self) -> Result<PlannedRedisLimiter, RedisLimiterError> {
        self.planned(&["key"], &["tokens"]).map(PlannedRedisLimiter::new)
    }

    /// Connects, and builds a tree of limits with these levels and dimensions. The last level is the root.
    ///
    /// The names are a part of the server's keys. Trees of one name should have the same. There are 1 to 8 of each, and no two levels
    /// and no two dimensions have the same name.
    ///
    /// # Errors
    ///
    /// The errors of [`build_by_plan`](Self::build_by_plan), [`RedisLimiterError::SameName`] if two levels or two dimensions have one
    /// name, or an [`unsettled`](Self::unsettled), a [`time_to_live`](Self::time_to_live), or a number of levels or dimensions out of
    /// its range.
    pub async fn build_tree<const LEVELS: usize, const DIMENSIONS: usize>(
        self,
        levels: [&'static str; LEVELS],
        dimensions: [&'static str; DIMENSIONS],
    ) -> Result<RedisTree<LEVELS, DIMENSIONS>, RedisLimiterError> {
        let timeout = self.connect_timeout;
        let planned = self.planned(&levels, &dimensions)?;
        connect_planned(&planned, timeout).await?;
        Ok(RedisTree::new(planned))
    }

    /// Builds a tree of limits without a server, as [`build_keyed_lazy`](Self::build_keyed_lazy) builds a limiter.
    ///
    /// # Errors
    ///
    /// The errors of [`build_tree`](Self::build_tree) that need no server.
    pub fn build_tree_lazy<const LEVELS: usize, const DIMENSIONS: usize>(
        self,
        levels: [&'static str; LEVELS],
        dimensions: [&'static str; DIMENSIONS],
    ) -> Result<RedisTree<LEVELS, DIMENSIONS>, RedisLimiterError> {
        self.planned(&levels, &dimensions).map(RedisTree::new)
    }

    /// Connects, and marks the server as one whose limits are full, as a first deployment does.
    ///
    /// Without this call, a new server looks like one that has lost its memory, and limits start as [`AfterLoss`] says. Call it once, when
    /// you set up a server. Do not call it at each start of a program, because that would hide a loss.
    ///
    /// Markers that exist stay as they are, and the first command of a limiter sets one. So call this before the first
    /// limiter is built on that server. It needs no quota and no name.
    ///
    /// # Errors
    ///
    /// [`RedisLimiterError`] if an address or the [`connect_timeout`](Self::connect_timeout) is invalid, if the server evicts keys or
    /// refuses the connection, or if there is no server within that time.
    pub async fn mark_deployed(self) -> Result<(), RedisLimiterError> {
        self.mark().await
    }
}

/// Connects, and starts the heartbeat. An unlimited quota needs no server.
async fn connect_parts(parts: &Parts, timeout: Duration) -> Result<(), RedisLimiterError> {
    let Parts::Limited(shared) = parts else { return Ok(()) };
    let (names, look) = settings::look_at(shared);
    settings::connect_fleet(&shared.fleet, &names, &look, timeout).await
}

/// Connects, and starts the heartbeat.
async fn connect_planned(planned: &Planned, timeout: Duration) -> Result<(), RedisLimiterError> {
    let (names, look) = planned.look_at_nothing();
    settings::connect_fleet(planned.fleet(), &names, &look, timeout).await
}

impl fmt::Debug for RedisLimiterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Addresses may have passwords.
        f.debug_struct("RedisLimiterBuilder")
            .field("name", &self.name)
            .field("quotas", &self.quotas)
            .field("when_down", &self.when_down)
            .finish_non_exhaustive()
    }
}
