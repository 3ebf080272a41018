//! A check that everything the settings describe can be built.

use super::{ClientLayers, ServerLayers, Settings};
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
        Ok(())
    }
}

fn built<T, E: Display>(section: &str, result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| format!("{section}: {error}"))
}

impl ServerLayers {
    fn buildable(&self) -> Result<(), String> {
        built("ratelimit", self.ratelimit.try_quota())?;
        built("ratelimit", self.ratelimit.any_limiter())?;
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
