//! The limits of Mesh, built from settings.

use crate::live::{Reload, set_quota};
use crate::settings::MeshSettings;
use damper_core::Clock;
use damper_core::Quota;
use damper_core::keyed::KeyedLimiter;
use damper_core::limit::KeyedAlgorithm;
use damper_core::time::Seed;
use damper_mesh::{Scope, Scopes, ScopesBuilder, ScopesError};
use std::sync::Arc;

#[cfg(feature = "mesh")]
impl MeshSettings {
    /// Creates a builder with the scopes that are set. The program may add warnings or another algorithm.
    pub fn scopes_builder(&self) -> ScopesBuilder {
        let mut builder = Scopes::builder().capacity(self.max_keys() as usize);
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

    /// Builds the limits of the scopes that are set.
    ///
    /// They are for `MeshLayer::new` and for [`Reloader::bind`](crate::Reloader::bind).
    ///
    /// # Errors
    ///
    /// [`ScopesError`], never with settings in their ranges.
    pub fn scopes(&self) -> Result<Scopes, ScopesError> {
        self.scopes_builder().build()
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
            check(before, after, name)?;
        }
        let (before, after) = (start.functions(), new.functions());
        let mut names = before.keys().chain(after.keys());
        names.try_for_each(|name| check(before.get(name).copied(), after.get(name).copied(), name))
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

fn check(before: Option<Quota>, after: Option<Quota>, name: &str) -> Result<(), String> {
    match (before, after) {
        (None, None) => Ok(()),
        (Some(before), Some(after)) => {
            let probe = KeyedLimiter::<str>::builder(before).capacity(1).build().map_err(|error| error.to_string())?;
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
