//! A check that everything the settings describe can be built.

use super::{ClientLayers, LimitAlgorithm, RateLimitSettings, ServerLayers, Settings};
use damper_core::OutOfRange;
use damper_core::limit::{FixedWindow, KeyedAlgorithm, SlidingCounter, TokenBucket};
use std::fmt::Display;

impl Settings {
    /// Builds everything that the builders can build, and reports a failure.
    ///
    /// It is for tests, because a builder uses a default in place of a value that its range should have excluded.
    ///
    /// # Errors
    ///
    /// The section, and the reason why it cannot be built.
    #[doc(hidden)]
    pub fn buildable(&self) -> Result<(), String> {
        for (protocol, layers) in [("http", &self.server.http), ("grpc", &self.server.grpc)] {
            layers.buildable().map_err(|why| format!("server.{protocol}.{why}"))?;
        }
        for (protocol, layers) in [("http", &self.client.http), ("grpc", &self.client.grpc)] {
            layers.buildable().map_err(|why| format!("client.{protocol}.{why}"))?;
        }
        #[cfg(feature = "mesh")]
        built("server.mesh", super::MeshSettings { max_keys: 1, ..self.server.mesh.clone() }.configured_scopes())?;
        Ok(())
    }
}

fn built<T, E: Display>(section: &str, result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| format!("{section}: {error}"))
}

impl RateLimitSettings {
    /// Builds a limiter per key of each tier.
    ///
    /// The quota of the section is not among them, because with the key `global` it may be too large for a limiter per key.
    fn try_tiers(&self) -> Result<(), OutOfRange> {
        match self.algorithm {
            LimitAlgorithm::FixedWindow => self.try_tiers_by::<FixedWindow>(),
            LimitAlgorithm::SlidingCounter => self.try_tiers_by::<SlidingCounter>(),
            _ => self.try_tiers_by::<TokenBucket>(),
        }
    }

    fn try_tiers_by<A: KeyedAlgorithm>(&self) -> Result<(), OutOfRange> {
        self.tiers.clone().into_iter().try_for_each(|quota| {
            let tier = Self { quota: Some(quota), ..self.clone() };
            tier.keyed_builder::<str>().algorithm::<A>().build().map(drop)
        })
    }
}

impl ServerLayers {
    fn buildable(&self) -> Result<(), String> {
        built("ratelimit", self.ratelimit.try_quota())?;
        // Whether it can be built does not depend on the number of keys.
        let ratelimit = RateLimitSettings { max_keys: 1, ..self.ratelimit.clone() };
        built("ratelimit", ratelimit.any_limiter())?;
        built("ratelimit.tiers", ratelimit.try_tiers())?;
        #[cfg(feature = "http")]
        built("ratelimit", ratelimit.limit())?;
        built("adaptive_limit", self.adaptive_limit.try_bounds())?;
        built("admission", self.admission.try_bounds())
    }
}

impl ClientLayers {
    fn buildable(&self) -> Result<(), String> {
        built("circuit_breaker", self.circuit_breaker.try_config())?;
        built("retry", self.retry.try_backoff())?;
        built("retry_budget", self.retry_budget.try_config())?;
        built("hedge", self.hedge.try_config())?;
        built("throttle", self.throttle.try_throttle())?;
        built("pacing", self.pacing.try_strategy())?;
        built("ratelimit", self.ratelimit.try_quota())?;
        built("adaptive_limit", self.adaptive_limit.try_bounds())
    }
}
