//! The checked settings of a builder.

use super::builder::{RedisLimiterBuilder, Topology};
use super::counters::Counters;
use super::fleet::Fleet;
use super::shared::Shared;
use super::{AfterLoss, Leasing, RedisLimiterError};
use crate::by_plan::{Planned, TreeSettings};
use crate::micros::micros_of;
use crate::script::{Command, Frame, Keys, Limit, NEVER, PARTS_PER_BURST, Sighting, SlotTags, Take, Terms};
use crate::server::{ConnectError, Heartbeat, Server, ServerSettings, Target};
use crate::subject::Plan;
use core::error::Error;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicU32, AtomicU64};
use core::time::Duration;
use damper_core::{Monotonic, OutOfRange, Quota};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;

/// The longest name, in bytes.
const LONGEST_NAME: usize = 64;

/// The most quotas of one subject.
const MOST_QUOTAS: usize = 8;

/// The most levels and the most dimensions of a tree.
const MOST_NAMES: u64 = 8;

/// The most bursts that may be unsettled.
const MOST_BURSTS: f64 = 255.0;

/// The allowed times-to-live.
const TIMES_TO_LIVE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(30 * 86_400);

/// The parts of a limiter. If all its quotas are unlimited, it has no shared state.
pub(super) enum Parts {
    Limited(Arc<Shared>),
    Unlimited { name: String, quotas: Vec<Quota> },
}

/// The kind of a limiter, by which its keys differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimiterKind {
    OneLimit,
    LimitPerKey,
}

impl LimiterKind {
    /// Returns the keys for the limiter with this name: those of its only limit, or of the empty key.
    ///
    /// A limiter with a limit for each key has no empty name, so limits of the two kinds never collide.
    pub(super) fn keys(self, tags: &SlotTags, name: &str) -> Keys {
        match self {
            Self::OneLimit => Keys::new(tags, "", name.as_bytes()),
            Self::LimitPerKey => Keys::new(tags, name, &[]),
        }
    }
}

impl RedisLimiterBuilder {
    /// Checks the settings, and builds the parts of the limiter. Nothing is connected.
    pub(super) fn shared(self, kind: LimiterKind) -> Result<Parts, RedisLimiterError> {
        self.check()?;
        let hold = |quota: &Quota| match self.leasing {
            Leasing::WhenHot => quota.burst_size() / self.lease_share,
            Leasing::Never => 0,
        };
        let (mut terms, mut limited) = (Vec::new(), Vec::new());
        for (index, quota) in self.quotas.iter().enumerate().filter(|(_, quota)| !quota.is_unlimited()) {
            let of_quota = Terms::new(*quota, hold(quota)).map_err(|source| RedisLimiterError::Quota {
                index,
                quota: *quota,
                source,
            })?;
            terms.push(of_quota);
            limited.push(*quota);
        }
        let target = self.target()?;
        if terms.is_empty() {
            return Ok(Parts::Unlimited { name: self.name, quotas: self.quotas });
        }
        // The first reading of the clock calibrates it. A check should not have to wait for that.
        Monotonic::calibrate();
        let plan = Arc::new(Plan::new(terms, self.lease_length).with_deadline(self.deadline));
        let fleet = Arc::new(self.fleet(target, plan.lease_micros(), kind));
        Ok(Parts::Limited(Arc::new(Shared { fleet, plan, quotas: limited })))
    }

    /// Checks the settings, and returns limits by plan with these levels and dimensions.
    ///
    /// Nothing is connected.
    pub(super) fn planned(
        self,
        levels: &[&'static str],
        dimensions: &[&'static str],
    ) -> Result<Planned, RedisLimiterError> {
        if !self.quotas.is_empty() {
            return Err(RedisLimiterError::QuotaWithPlans { quotas: self.quotas.len() });
        }
        self.check_all()?;
        OutOfRange::check_count("levels", levels.len() as u64, 1..=MOST_NAMES)?;
        OutOfRange::check_count("dimensions", dimensions.len() as u64, 1..=MOST_NAMES)?;
        for names in [levels, dimensions] {
            if let Some(name) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
                return Err(RedisLimiterError::SameName { name: name.1 });
            }
        }
        OutOfRange::check_ratio("unsettled", self.unsettled, 0.0..=MOST_BURSTS)
            .map_err(|error| error.note("(bursts)"))?;
        OutOfRange::check_duration("time_to_live", self.time_to_live, TIMES_TO_LIVE)?;
        let target = self.target()?;
        let settings = TreeSettings {
            levels: levels.to_vec(),
            dimensions: dimensions.to_vec(),
            // The product is below 2^22.
            most_unsettled: (self.unsettled * f64::from(PARTS_PER_BURST)) as u32,
            time_to_live: micros_of(self.time_to_live),
            capacity: self.capacity,
        };
        // Nothing is leased, so the script never uses the length of a lease.
        let fleet = Arc::new(self.fleet(target, 0, LimiterKind::LimitPerKey));
        Ok(Planned::new(fleet, settings)?)
    }

    /// Returns the server of the limits of this name. Nothing is connected.
    fn fleet(self, target: Target, lease: u64, kind: LimiterKind) -> Fleet {
        let tags = tags_of(&target);
        Fleet {
            server: self.server(target, lease),
            heartbeat: Heartbeat::new(kind.keys(&tags, &self.name)),
            name: self.name,
            tags,
            when_down: self.when_down,
            processes: AtomicU32::new(self.processes.unwrap_or(0)),
            authority: super::authority::Authority::default(),
            counters: Counters::default(),
            listener: self.listener,
            evictions: AtomicU64::new(0),
            evicted_at: AtomicU64::new(0),
            back: Notify::new(),
        }
    }

    /// Sets the markers that are missing.
    pub(super) async fn mark(self) -> Result<(), RedisLimiterError> {
        self.check_connect_timeout()?;
        let timeout = self.connect_timeout;
        let target = self.target()?;
        let tags = tags_of(&target);
        let server = self.server(target, 0);
        connect(&server, timeout, Instant::now() + timeout).await?;
        // A cluster has so many markers that they may take as long as connecting.
        let source: Arc<dyn Error + Send + Sync> =
            match tokio::time::timeout(timeout, server.mark(tags.markers())).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => Arc::new(error),
                Err(_) => Arc::new(ConnectError::TimedOut { has_tls: false }),
            };
        Err(RedisLimiterError::Unreachable { server: server.address().to_owned(), within: timeout, source })
    }

    fn server(&self, target: Target, lease: u64) -> Server {
        Server::new(ServerSettings {
            target,
            connect_timeout: self.connect_timeout,
            eviction: self.eviction,
            deadline: self.deadline,
            frame: Frame { not_after: 0, lease, after_loss: empty_for(self.after_loss) },
        })
    }

    fn target(&self) -> Result<Target, RedisLimiterError> {
        let certificates = self.certificates.as_ref();
        match (self.topology, self.urls.first()) {
            (Topology::Server, Some(url)) => Target::server(url, certificates),
            (Topology::Server, None) => Err(RedisLimiterError::NoAddress),
            (Topology::Cluster, _) => Target::cluster(&self.urls, certificates, self.connect_timeout),
        }
    }

    /// Checks the settings of limiters with quotas.
    fn check(&self) -> Result<(), RedisLimiterError> {
        self.check_all()?;
        if self.quotas.is_empty() {
            return Err(RedisLimiterError::NoQuota);
        }
        if self.quotas.len() > MOST_QUOTAS {
            return Err(RedisLimiterError::TooManyQuotas { quotas: self.quotas.len() });
        }
        Ok(())
    }

    /// Checks the settings of all limiters.
    fn check_all(&self) -> Result<(), RedisLimiterError> {
        if self.name.is_empty() || self.name.len() > LONGEST_NAME {
            return Err(RedisLimiterError::Name { name: self.name.clone() });
        }
        let millis = Duration::from_millis;
        OutOfRange::check_duration("lease_length", self.lease_length, millis(100)..=millis(60_000))?;
        OutOfRange::check_duration("deadline", self.deadline, millis(1)..=millis(10_000))?;
        self.check_connect_timeout()?;
        OutOfRange::check_count("lease_share", self.lease_share.into(), 1..=u64::MAX)?;
        OutOfRange::check_count("processes", self.processes.unwrap_or(1).into(), 1..=u64::MAX)?;
        Ok(())
    }

    fn check_connect_timeout(&self) -> Result<(), RedisLimiterError> {
        let range = Duration::from_millis(10)..=Duration::from_secs(60);
        Ok(OutOfRange::check_duration("connect_timeout", self.connect_timeout, range)?)
    }
}

/// Returns the tags of the markers: one for a server, one for each slot of a cluster.
fn tags_of(target: &Target) -> SlotTags {
    if target.is_cluster() { SlotTags::new() } else { SlotTags::single() }
}

/// Returns the time in µs for which a frame says that missing limits are empty.
fn empty_for(after_loss: AfterLoss) -> u64 {
    match after_loss {
        AfterLoss::Full => 0,
        AfterLoss::Empty => NEVER,
        AfterLoss::EmptyFor(time) => micros_of(time).min(NEVER),
    }
}

/// Connects until `until`, which is the end of the timeout, with as many attempts as fit.
///
/// It gives up at once after an error that another attempt would meet again.
async fn connect(server: &Server, timeout: Duration, until: Instant) -> Result<(), RedisLimiterError> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(RedisLimiterError::NoRuntime);
    }
    let pause = (timeout / 10).min(Duration::from_millis(50));
    loop {
        let error = match server.connect(until.saturating_duration_since(Instant::now())).await {
            Ok(()) => return Ok(()),
            Err(ConnectError::Eviction(policy)) => return Err(RedisLimiterError::Eviction { policy }),
            Err(error) => error,
        };
        let address = || server.address().to_owned();
        if error.is_of_handshake() {
            return Err(RedisLimiterError::Handshake { server: address(), source: Arc::new(error) });
        }
        if error.is_final() {
            return Err(RedisLimiterError::Refused { server: address(), source: Arc::new(error) });
        }
        if until.saturating_duration_since(Instant::now()) <= pause {
            return Err(RedisLimiterError::Unreachable { server: address(), within: timeout, source: Arc::new(error) });
        }
        tokio::time::sleep(pause).await;
    }
}

/// Returns a command that takes nothing, with the names of its keys: those of the heartbeat's subject.
pub(super) fn look_at(shared: &Shared) -> (Vec<String>, Command) {
    let limits = shared.plan.terms().iter();
    let look =
        Command::Take(limits.map(|&terms| (Limit { terms, seen: Sighting::default() }, Take::default())).collect());
    (shared.fleet.heartbeat.keys().of(&look, 0), look)
}

/// Connects, runs the scripts once, and starts the heartbeat.
///
/// The scripts detect a missing permission and learn the number of processes. `look` takes nothing of the keys with these names.
pub(super) async fn connect_fleet(
    fleet: &Arc<Fleet>,
    names: &[String],
    look: &Command,
    timeout: Duration,
) -> Result<(), RedisLimiterError> {
    let until = Instant::now() + timeout;
    connect(&fleet.server, timeout, until).await?;
    fleet.heartbeat.begin(fleet, names, look, until).await.map_err(|error| RedisLimiterError::Refused {
        server: fleet.server.address().to_owned(),
        source: Arc::new(error),
    })?;
    fleet.heartbeat.ensure(fleet);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{LimiterKind, Parts, empty_for};
    use crate::limiter::{AfterLoss, RedisLimiter, RedisLimiterBuilder, RedisLimiterError};
    use crate::script::{NEVER, SlotTags};
    use core::time::Duration;
    use damper_core::Quota;

    fn builder() -> RedisLimiterBuilder {
        RedisLimiter::connect("redis://127.0.0.1/").quota(Quota::per_second(10))
    }

    fn error(builder: RedisLimiterBuilder) -> String {
        match builder.shared(LimiterKind::OneLimit) {
            Ok(_) => "built".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn settings_out_of_range_are_named_with_what_is_allowed() {
        assert_eq!(error(builder()), "built");
        assert_eq!(error(builder().deadline(Duration::ZERO)), "deadline is 0 ns, it must be 1 ms to 10 s");
        assert_eq!(
            error(builder().lease_length(Duration::from_secs(61))),
            "lease_length is 61 s, it must be 100 ms to 1 min"
        );
        assert_eq!(
            error(builder().connect_timeout(Duration::ZERO)),
            "connect_timeout is 0 ns, it must be 10 ms to 1 min"
        );
        let short = builder().deadline(Duration::from_nanos(1_500));
        assert_eq!(error(short), "deadline is 1.5 µs, it must be 1 ms to 10 s");
        assert_eq!(error(builder().lease_share(0)), "lease_share is 0, it must be at least 1");
        assert_eq!(error(builder().processes(0)), "processes is 0, it must be at least 1");
        assert_eq!(error(builder().name("")), "name \"\" must have 1 to 64 bytes");
        assert_eq!(error(RedisLimiter::connect("redis://127.0.0.1/")), "a limiter needs a quota");
        let many = (0..8).fold(builder(), |builder, _| builder.also(Quota::per_hour(9)));
        assert_eq!(error(many), "9 quotas exceed the maximum 8");
        let urls: [&str; 0] = [];
        assert_eq!(
            error(RedisLimiter::cluster(urls).quota(Quota::per_hour(1))),
            "a cluster needs at least one address"
        );
    }

    #[test]
    fn address_with_a_password_is_shown_without_it() {
        let text = error(RedisLimiter::connect("http://me:secret@host/").quota(Quota::per_hour(1)));
        assert!(text.contains("host") && !text.contains("secret"), "{text}");
    }

    #[test]
    fn quota_beyond_the_servers_arithmetic_is_named() {
        let slow = Quota::per(1, Duration::from_secs(20 * 366 * 24 * 3600)).unwrap();
        assert!(matches!(
            builder().also(slow).shared(LimiterKind::OneLimit),
            Err(RedisLimiterError::Quota { index: 1, .. })
        ));
    }

    #[test]
    fn unlimited_quotas_need_no_server() {
        let unlimited = RedisLimiter::connect("redis://127.0.0.1/").quota(Quota::UNLIMITED);
        assert!(matches!(unlimited.shared(LimiterKind::OneLimit), Ok(Parts::Unlimited { .. })));
        assert!(matches!(builder().also(Quota::UNLIMITED).shared(LimiterKind::OneLimit), Ok(Parts::Limited(_))));
    }

    #[test]
    fn loss_is_counted_in_micros() {
        assert_eq!(empty_for(AfterLoss::Full), 0);
        assert_eq!(empty_for(AfterLoss::default()), 60_000_000);
        assert_eq!((empty_for(AfterLoss::Empty), empty_for(AfterLoss::EmptyFor(Duration::MAX))), (NEVER, NEVER));
    }

    #[test]
    fn limits_of_both_kinds_never_meet() {
        let tags = SlotTags::new();
        let one = LimiterKind::OneLimit.keys(&tags, "orders");
        let handle = crate::script::Keys::new(&tags, "orders", b"orders");
        assert_ne!(one.limit(0), handle.limit(0));
    }
}
