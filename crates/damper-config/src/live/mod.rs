//! Changes of settings while a program runs.

// | file | type |
// |---|---|
// | `mod` | `Reloader`: reads the sources again and applies all changes or none |
// | `reload` | `Reload`: a target of settings; the limits implement it |
// | `error` | `ReloadError`, `SettingChange` |
// | `watch` | `Watch`: a thread that reloads when a file has changed |

mod error;
mod reload;
mod watch;

pub use error::{ReloadError, SettingChange};
pub use reload::Reload;
#[cfg(all(feature = "tower", feature = "tokio"))]
pub(crate) use reload::apply_changed;
#[cfg(any(feature = "http", feature = "mesh"))]
pub(crate) use reload::set_quota;
pub use watch::Watch;

use crate::problem::{ConfigError, Problem};
use crate::section::Tree;
use crate::settings::Settings;
use crate::sources::{Contents, Sources};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Reads settings again, and applies the changes to limits, which keep their state.
///
/// All changes are applied, or none. If a value is wrong, if a file has lost all its keys, if a key needs a restart, or if a limit refuses
/// its new value, the settings stay as they are, and the error says why. A `Reloader` has no thread of its own. Call
/// [`reload`](Self::reload) from a signal handler or an endpoint, or let [`watch`](Self::watch) start a thread that reloads when the file
/// changes.
///
/// Each quota, limit and breaker changes in one step, so no request sees a part of its change. Several of them change one after the other,
/// even within one section: the tiers of a limiter, the scopes of Mesh, the breakers of hosts, the limits of keys. In a group, only the
/// sections that changed are applied.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
/// use damper::config::{Reloader, Sources};
/// use std::sync::Arc;
///
/// # let file = std::env::temp_dir().join(format!("damper-config-reload-{}.toml", std::process::id()));
/// std::fs::write(&file, "server.http.ratelimit.burst = 10")?;
/// let reloader = Reloader::new(Sources::new().file(&file))?;
/// let limiter = Arc::new(reloader.settings().server.http.ratelimit.limiter());
/// let reloader = reloader.bind(|settings| &settings.server.http.ratelimit, Arc::clone(&limiter));
///
/// std::fs::write(&file, "server.http.ratelimit.burst = 20")?;
/// let changes = reloader.reload()?;
/// assert_eq!(changes[0].to_string(), "server.http.ratelimit.burst changed from 10 to 20");
/// assert_eq!(limiter.quota().burst_size(), 20);
///
/// std::fs::write(&file, "server.http.ratelimit.burst = 0")?;
/// assert!(reloader.reload().is_err());
/// assert_eq!(limiter.quota().burst_size(), 20);
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reloader {
    sources: Sources,
    bindings: Vec<Binding>,
    /// The settings at the start, with which the limits were built.
    start: Settings,
    /// Locked only briefly, because a target may ask for the settings in force while it takes new ones.
    current: Mutex<Settings>,
    /// The contents of the files whose settings are in force.
    ///
    /// Locked for a whole reload. Two concurrent reloads would apply their settings in different orders.
    in_force: Mutex<Vec<Contents>>,
}

/// A function of the old and the new settings.
type Take = dyn Fn(&Settings, &Settings) -> Result<(), String> + Send + Sync;

/// The target that a section or a group of sections is applied to.
struct Binding {
    /// `None` if the function of the program returned no section.
    section: Option<String>,
    may_refuse: bool,
    takes: Box<dyn Fn(&SettingChange) -> bool + Send + Sync>,
    check: Box<Take>,
    apply: Box<Take>,
}

impl Binding {
    /// Returns whether a change is in the bound section or group.
    fn concerns(&self, change: &SettingChange) -> bool {
        let rest = self.section.as_deref().and_then(|section| change.section().strip_prefix(section));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || self.section.as_deref() == Some(""))
    }
}

impl Reloader {
    /// Reads the settings for the first time, and refuses any mistake.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], which lists all mistakes.
    pub fn new(sources: Sources) -> Result<Self, ConfigError> {
        let contents = sources.contents();
        let settings = sources.load_contents(&contents)?;
        Ok(Self::starting(sources, settings, contents))
    }

    /// Reads the settings for the first time, and leaves out bad values.
    ///
    /// It does so as [`Sources::normalized`] does.
    ///
    /// It also returns the mistakes: log them. A reload refuses any mistake.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
    /// use damper::config::{Reloader, Sources};
    ///
    /// let (reloader, problems) = Reloader::normalized(Sources::new().toml("app.toml", "server.http.ratelimit.burst = -5"));
    /// assert_eq!(reloader.settings().server.http.ratelimit.burst(), 100);
    /// assert_eq!(problems.len(), 1);
    /// ```
    #[must_use]
    pub fn normalized(sources: Sources) -> (Self, Vec<Problem>) {
        let contents = sources.contents();
        let (settings, problems) = sources.normalized_contents(&contents);
        (Self::starting(sources, settings, contents), problems)
    }

    fn starting(sources: Sources, settings: Settings, contents: Vec<Contents>) -> Self {
        let start = settings.clone();
        Self { sources, bindings: Vec::new(), start, current: Mutex::new(settings), in_force: Mutex::new(contents) }
    }

    /// Returns the settings in force.
    #[must_use]
    pub fn settings(&self) -> Settings {
        locked(&self.current).clone()
    }

    /// Applies changes of a section or a group to a target.
    ///
    /// The target of a section is a limit that was built from it: a limiter, a breaker, a bulkhead, or a [`Reload`] of your own. The target
    /// of a group, such as `settings.client.http`, is a stack. Several targets may have the same section.
    ///
    /// A change of a section without a target is refused, because it would take no effect.
    #[must_use]
    pub fn bind<S: 'static>(
        mut self,
        section: fn(&Settings) -> &S,
        target: impl Reload<S> + Send + Sync + 'static,
    ) -> Self {
        let target = Arc::new(target);
        let (takes, checks) = (Arc::clone(&target), Arc::clone(&target));
        let meant = section(&self.start);
        // The first section of a group has the same address as the group, but another type.
        let is_meant = |found: &dyn Any| found.downcast_ref::<S>().is_some_and(|found| ptr::eq(found, meant));
        let mut nodes = Vec::new();
        self.start.nodes("", &mut nodes);
        self.bindings.push(Binding {
            section: nodes.into_iter().find_map(|(path, found)| is_meant(found).then_some(path)),
            may_refuse: target.may_refuse(),
            takes: Box::new(move |change| takes.takes(change)),
            check: Box::new(move |start, new| checks.can_apply(section(start), section(new))),
            apply: Box::new(move |old, new| target.apply(section(old), section(new))),
        });
        self
    }

    /// Reads the sources again, applies the changes and returns them.
    ///
    /// Reloads wait for each other, so do not call it from a [`Reload`].
    ///
    /// # Errors
    ///
    /// [`ReloadError`], and the settings are as before. If a target refuses a value that its [`can_apply`](Reload::can_apply) had accepted,
    /// the earlier targets had their new values until they were set back. State lost by such a change is not restored, for example the
    /// outcomes in a breaker's window whose kind changed. So the targets that [may refuse](Reload::may_refuse) are called first.
    pub fn reload(&self) -> Result<Vec<SettingChange>, ReloadError> {
        let mut in_force = locked(&self.in_force);
        // Read the files under the lock, because another reload may have put a newer file in force meanwhile.
        let contents = self.sources.contents();
        self.put_in_force(&mut in_force, contents)
    }

    /// Reloads if the files still have these contents.
    fn reload_contents(&self, seen: &[Contents]) -> Option<Result<Vec<SettingChange>, ReloadError>> {
        let mut in_force = locked(&self.in_force);
        let contents = self.sources.contents();
        (contents == seen).then(|| self.put_in_force(&mut in_force, contents))
    }

    /// Returns whether the settings in force are those of these contents.
    fn is_in_force(&self, contents: &[Contents]) -> bool {
        *locked(&self.in_force) == contents
    }

    fn put_in_force(
        &self,
        in_force: &mut Vec<Contents>,
        contents: Vec<Contents>,
    ) -> Result<Vec<SettingChange>, ReloadError> {
        if self.bindings.iter().any(|binding| binding.section.is_none()) {
            return Err(ReloadError::NotASection);
        }
        let new = self.sources.load_contents(&contents).map_err(ReloadError::Invalid)?;
        if let Some(file) = self.sources.emptied(in_force, &contents) {
            return Err(ReloadError::Emptied { file: file.display().to_string() });
        }
        let current = self.settings();
        let changes = self.changes(&current, &new);
        let restart: Vec<_> = changes.iter().filter(|change| !self.takes(change)).cloned().collect();
        if !restart.is_empty() {
            return Err(ReloadError::NeedsRestart(restart));
        }
        let concerned = |binding: &&Binding| changes.iter().any(|change| binding.concerns(change));
        let mut bindings: Vec<_> = self.bindings.iter().filter(concerned).collect();
        // Call the targets that may refuse first, so that a refusal finds the others unchanged. The sort is stable: the rest stays in the
        // order of the calls of `bind`.
        bindings.sort_by_key(|binding| !binding.may_refuse);
        let refused =
            |binding: &Binding, why| ReloadError::Refused { section: binding.section.clone().unwrap_or_default(), why };
        for binding in &bindings {
            refuse_on_panic(|| (binding.check)(&self.start, &new)).map_err(|why| refused(binding, why))?;
        }
        for (index, binding) in bindings.iter().enumerate() {
            if let Err(why) = refuse_on_panic(|| (binding.apply)(&current, &new)) {
                for applied in bindings[..=index].iter().rev() {
                    // The target had these values just before, so it accepts them.
                    _ = refuse_on_panic(|| (applied.apply)(&new, &current));
                }
                return Err(refused(binding, why));
            }
        }
        *locked(&self.current) = new;
        *in_force = contents;
        Ok(changes)
    }

    /// Returns whether at least one target is bound to the section of a change, and all of them take it.
    fn takes(&self, change: &SettingChange) -> bool {
        let mut bound = self.bindings.iter().filter(|binding| binding.concerns(change));
        change.is_bound && bound.all(|binding| (binding.takes)(change))
    }

    fn changes(&self, old: &Settings, new: &Settings) -> Vec<SettingChange> {
        let mut changes = Vec::new();
        for ((path, old), (_, new)) in old.all_sections().into_iter().zip(new.all_sections()) {
            for key in old.keys() {
                let (old, new) = (old.written(key.name), new.written(key.name));
                if old != new {
                    let (section, old, new) = (path.clone(), old.shown(), new.shown());
                    let change = SettingChange { section, key: *key, old, new, is_bound: false };
                    let is_bound = self.bindings.iter().any(|binding| binding.concerns(&change));
                    changes.push(SettingChange { is_bound, ..change });
                }
            }
        }
        changes
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls a target; treats a panic as a refusal, so that earlier targets are rolled back.
fn refuse_on_panic(call: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(format!("it panicked: {}", text.unwrap_or("without a text")))
    })
}

impl fmt::Debug for Reloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sections: Vec<_> = self.bindings.iter().map(|binding| &binding.section).collect();
        f.debug_struct("Reloader").field("sources", &self.sources).field("bound", &sections).finish_non_exhaustive()
    }
}
