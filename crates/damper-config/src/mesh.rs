//! The limits of Mesh, built from settings.

use crate::live::{Reload, set_quota};
#[cfg(feature = "tokio")]
use crate::settings::MeshClientSettings;
use crate::settings::{MeshAlgorithm, MeshSettings, ROOM};
use damper_core::Clock;
use damper_core::Quota;
use damper_core::keyed::KeyedLimiter;
use damper_core::limit::{FixedWindow, KeyedAlgorithm, SlidingCounter};
#[cfg(feature = "tokio")]
use damper_core::retry::{Retry, RetryBudget};
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use damper_core::time::{DefaultClock, Seed};
#[cfg(feature = "tokio")]
use damper_mesh::MeshBackoff;
use damper_mesh::{Scope, Scopes, ScopesBuilder, ScopesError, Warnings};
use std::sync::Arc;

#[cfg(feature = "mesh")]
impl MeshSettings {
    /// Creates a builder with the scopes that are set, their warnings and their alignment.
    ///
    /// It makes token buckets, whatever the `algorithm` is. The program may choose another one.
    pub fn scopes_builder(&self) -> ScopesBuilder {
        let mut builder = Scopes::builder()
            .up_to(ROOM)
            .capacity(self.max_keys() as usize)
            .aligned_to(self.alignment())
            .warnings(self.warnings());
        if let Some(quota) = self.global() {
            builder = builder.global(quota);
        }
        if let Some(quota) = self.service() {
            builder = builder.service(quota);
        }
        if let Some(quota) = self.user() {
            builder = builder.user(quota);
        }
        self.functions().into_iter().fold(builder, |builder, (function, quota)| builder.function(function, quota))
    }

    /// Returns the thresholds of warnings, without those of 0%.
    #[must_use]
    pub fn warnings(&self) -> Warnings {
        let [approaching, exhausted] = [self.warn_approaching(), self.warn_nearly_exhausted()];
        let thresholds = [(approaching, "Approaching rate limit"), (exhausted, "Rate limit nearly exhausted")];
        let thresholds = thresholds.into_iter().filter(|(percent, _)| *percent > 0);
        thresholds.fold(Warnings::none(), |warnings, (percent, text)| warnings.at(percent, text))
    }

    /// Builds token buckets of the scopes that are set, whatever the `algorithm` is.
    ///
    /// They are for `MeshLayer::new` and for [`Reloader::bind`](crate::Reloader::bind). A token bucket is full at the start:
    /// `100/min` admits up to 199 requests in the first minute. Pass [`max_request`](Self::max_request) to the layer.
    ///
    /// # Errors
    ///
    /// [`ScopesError`], never with settings in their ranges.
    pub fn scopes(&self) -> Result<Scopes, ScopesError> {
        self.scopes_builder().build()
    }

    /// Builds the limits of the scopes that are set, which count by the `algorithm`.
    ///
    /// # Errors
    ///
    /// [`ScopesError`], never with settings in their ranges.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; pub extern crate damper_mesh as mesh; }
    /// use damper::config::{ConfiguredScopes, MeshSettings, Sources};
    /// use damper::mesh::{MeshLayer, Scopes};
    /// use damper::{Clock, KeyedAlgorithm};
    /// use std::sync::Arc;
    ///
    /// /// Serves a connection, by any algorithm.
    /// fn serve<C: Clock, A: KeyedAlgorithm>(settings: &MeshSettings, scopes: Arc<Scopes<C, A>>) {
    ///     # #[cfg(feature = "tokio")] {
    ///     let layer = MeshLayer::new("orders-api", scopes).max_request(settings.max_request() as usize);
    ///     # let _ = layer;
    ///     # }
    ///     # #[cfg(not(feature = "tokio"))] let _ = (settings, scopes);
    /// }
    ///
    /// let text = "[server.mesh]\nglobal = '100/min'\nalgorithm = 'fixed_window'";
    /// let mesh = Sources::new().toml("app.toml", text).load()?.server.mesh;
    /// match mesh.configured_scopes()? {
    ///     ConfiguredScopes::TokenBucket(scopes) => serve(&mesh, scopes),
    ///     ConfiguredScopes::FixedWindow(scopes) => serve(&mesh, scopes),
    ///     ConfiguredScopes::SlidingCounter(scopes) => serve(&mesh, scopes),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn configured_scopes(&self) -> Result<ConfiguredScopes, ScopesError> {
        let builder = self.scopes_builder();
        Ok(match self.algorithm {
            MeshAlgorithm::TokenBucket => ConfiguredScopes::TokenBucket(Arc::new(builder.build()?)),
            MeshAlgorithm::FixedWindow => ConfiguredScopes::FixedWindow(Arc::new(builder.algorithm().build()?)),
            MeshAlgorithm::SlidingCounter => ConfiguredScopes::SlidingCounter(Arc::new(builder.algorithm().build()?)),
        })
    }
}

/// The limits of a Mesh service, which count by the algorithm of the settings.
///
/// Clones share their state. [Bind](crate::Reloader::bind) a clone to the section that it was built from.
#[derive(Clone, Debug)]
#[cfg(feature = "mesh")]
pub enum ConfiguredScopes {
    /// Tokens that are refilled at the rate.
    TokenBucket(Arc<Scopes>),
    /// A count for each window.
    FixedWindow(Arc<Scopes<DefaultClock, FixedWindow>>),
    /// A count for the last window.
    SlidingCounter(Arc<Scopes<DefaultClock, SlidingCounter>>),
}

#[cfg(feature = "mesh")]
impl Reload<MeshSettings> for ConfiguredScopes {
    fn can_apply(&self, start: &MeshSettings, new: &MeshSettings) -> Result<(), String> {
        match self {
            Self::TokenBucket(scopes) => scopes.can_apply(start, new),
            Self::FixedWindow(scopes) => scopes.can_apply(start, new),
            Self::SlidingCounter(scopes) => scopes.can_apply(start, new),
        }
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, old: &MeshSettings, new: &MeshSettings) -> Result<(), String> {
        match self {
            Self::TokenBucket(scopes) => scopes.apply(old, new),
            Self::FixedWindow(scopes) => scopes.apply(old, new),
            Self::SlidingCounter(scopes) => scopes.apply(old, new),
        }
    }
}

/// The limits, whichever algorithm they have.
#[cfg(all(feature = "mesh", feature = "metrics"))]
impl damper_metrics::Source for ConfiguredScopes {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        match self {
            Self::TokenBucket(scopes) => scopes.read(readings),
            Self::FixedWindow(scopes) => scopes.read(readings),
            Self::SlidingCounter(scopes) => scopes.read(readings),
        }
    }
}

#[cfg(all(feature = "mesh", feature = "tokio"))]
impl MeshClientSettings {
    /// Sets up a client of the service at `uri`, which sends through `http` and sleeps by tokio's timer.
    ///
    /// Its name in metrics and logs is that of the [section](Self::name): `client.mesh`. For several clients of one section, set others by `named`.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; pub extern crate damper_mesh as mesh; }
    /// use damper::config::Sources;
    ///
    /// let text = "client.mesh = { pace_below = '20%', max_wait = '30s', timeout = '2s' }";
    /// let settings = Sources::new().toml("app.toml", text).load()?.client.mesh;
    /// # let http = ();
    /// // let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build_http();
    /// let client = settings.builder(http, "http://inventory.example.com/mesh".parse()?).build();
    /// # let _ = client;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder<S>(&self, http: S, uri: http::Uri) -> damper_mesh::ClientBuilder<S, TokioSleep> {
        let retry = Retry::new(self.max_attempts()).budget(RetryBudget::DEFAULT);
        let backoff = MeshBackoff::default().max_wait(self.max_wait()).jitter(self.jitter());
        let mut builder = damper_mesh::ClientBuilder::sleeping_by(http, uri, TokioSleep)
            .retry(retry)
            .backoff(backoff)
            .pace_below(self.pace_below())
            .max_response(self.max_response() as usize)
            .named(self.name());
        if let Some(wait) = self.max_pacing_wait() {
            builder = builder.max_pacing_wait(wait);
        }
        if let Some(timeout) = self.timeout() {
            builder = builder.timeout(timeout);
        }
        builder
    }
}

/// Changes the quotas of scopes and functions.
///
/// A scope or a function that gains or loses its quota needs a restart.
#[cfg(feature = "mesh")]
impl<C: Clock + Clone, A: KeyedAlgorithm> Reload<MeshSettings> for Arc<Scopes<C, A>> {
    fn can_apply(&self, start: &MeshSettings, new: &MeshSettings) -> Result<(), String> {
        for (before, after, name) in [
            (start.global(), new.global(), "global"),
            (start.service(), new.service(), "service"),
            (start.user(), new.user(), "user"),
        ] {
            check::<A>(before, after, name)?;
        }
        let (before, after) = (start.functions(), new.functions());
        let mut names = before.keys().chain(after.keys());
        names.try_for_each(|name| check::<A>(before.get(name).copied(), after.get(name).copied(), name))
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, old: &MeshSettings, new: &MeshSettings) -> Result<(), String> {
        for (scope, before, after) in [
            (Scope::Global, old.global(), new.global()),
            (Scope::Service, old.service(), new.service()),
            (Scope::User, old.user(), new.user()),
        ] {
            put_in_force(self.limiter(scope), before, after)?;
        }
        let before = old.functions();
        for (function, after) in new.functions() {
            put_in_force(self.function_limiter(&function), before.get(&function).copied(), Some(after))?;
        }
        Ok(())
    }
}

fn check<A: KeyedAlgorithm>(before: Option<Quota>, after: Option<Quota>, name: &str) -> Result<(), String> {
    match (before, after) {
        (None, None) => Ok(()),
        (Some(before), Some(after)) => {
            let probe = KeyedLimiter::<str>::builder(before).up_to(ROOM).algorithm::<A>().capacity(1).build();
            let probe = probe.map_err(|error| error.to_string())?;
            probe.set_quota(after).map_err(|error| format!("{name}: {error}"))
        }
        (None, Some(_)) => Err(format!("{name} had no quota, so this needs a restart")),
        (Some(_), None) => Err(format!("{name} has no quota any more, so this needs a restart")),
    }
}

/// Changes a quota, if it differs.
fn put_in_force<C: Clock, A: KeyedAlgorithm>(
    limiter: Option<&KeyedLimiter<str, C, Seed, A>>,
    before: Option<Quota>,
    after: Option<Quota>,
) -> Result<(), String> {
    match (limiter, after) {
        (Some(limiter), Some(quota)) if before != after => set_quota(|| limiter.set_quota(quota)),
        _ => Ok(()),
    }
}
