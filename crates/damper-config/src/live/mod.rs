//! Changes of settings while a program runs.

// | file | type |
// |---|---|
// | `mod` | `Reloader`: reads the sources again and applies what has changed, all of it or nothing |
// | `reload` | `Reload`: what settings are applied to; limits are |
// | `error` | `ReloadError`, `SettingChange` |
// | `watch` | `Watch`: a thread that reloads when a file has changed |

mod error;
mod reload;
mod watch;

pub use error::{ReloadError, SettingChange};
pub use reload::Reload;
#[cfg(feature = "http")]
pub(crate) use reload::{check_quota, set_quota};
pub use watch::Watch;

use crate::problem::ConfigError;
use crate::section::{Key, Section};
use crate::settings::Settings;
use crate::sources::{Contents, Sources};
use std::any::TypeId;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reads settings again, and applies what has changed to the limits that it was given. They keep their state.
///
/// All changes are applied, or none. If a value is wrong, if a file has lost all its keys, if a key needs a restart, or if a limit
/// refuses its new value, the settings stay as they are, and the error says why. It has no thread of its own: call [`reload`](Self::reload) from a signal handler or an
/// endpoint, or have it called when the file changes, by [`watch`](Self::watch).
///
/// Each limit changes in one step, and no request sees a part of a change. Several limits change one after the other.
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
    /// The settings of the start: those that the limits were built with.
    start: Settings,
    /// Locked for a moment only: what takes settings may ask for those in force.
    current: Mutex<Settings>,
    /// The contents of the files whose settings are in force. Locked for a whole reload: two at once would apply their
    /// settings in different orders.
    in_force: Mutex<Vec<Contents>>,
}

type Apply = dyn Fn(&Settings) -> Result<(), String> + Send + Sync;
type Check = dyn Fn(&Settings, &Settings) -> Result<(), String> + Send + Sync;

/// The target that a section is applied to.
struct Binding {
    section: String,
    takes: Box<dyn Fn(&Key) -> bool + Send + Sync>,
    check: Box<Check>,
    apply: Box<Apply>,
}

impl Reloader {
    /// Reads the settings a first time, and accepts no mistake.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], which lists all mistakes.
    pub fn new(sources: Sources) -> Result<Self, ConfigError> {
        let contents = sources.contents();
        let settings = sources.load_contents(&contents)?;
        Ok(Self::starting(sources, settings, contents))
    }

    /// Starts with settings that were read before, such as [normalized](Sources::normalized) ones.
    #[must_use]
    pub fn starting_with(sources: Sources, settings: Settings) -> Self {
        let contents = sources.contents();
        Self::starting(sources, settings, contents)
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

    /// Applies changes of a section to a limit, which was built from it: a limiter, a bulkhead, or a [`Reload`] of your own. Several
    /// limits may have the same section.
    ///
    /// A change of a section without a limit is refused, because it would take no effect.
    #[must_use]
    pub fn bind<S: 'static>(
        mut self,
        section: fn(&Settings) -> &S,
        target: impl Reload<S> + Send + Sync + 'static,
    ) -> Self {
        let target = std::sync::Arc::new(target);
        let (takes, checks) = (std::sync::Arc::clone(&target), std::sync::Arc::clone(&target));
        let is_meant = |found: &dyn Section| {
            let is_same_type = found.as_any().type_id() == TypeId::of::<S>();
            is_same_type && ptr::addr_eq(ptr::from_ref(found), ptr::from_ref(section(&self.start)))
        };
        let path = self.start.all_sections().into_iter().find_map(|(path, found)| is_meant(found).then_some(path));
        self.bindings.push(Binding {
            // A function that returns no section of the settings names none.
            section: path.unwrap_or_default(),
            takes: Box::new(move |key| takes.takes(key)),
            check: Box::new(move |start, new| checks.can_apply(section(start), section(new))),
            apply: Box::new(move |new| target.apply(section(new))),
        });
        self
    }

    /// Reads the sources again, and applies what has changed. Returns the changes, none if nothing has changed.
    ///
    /// Reloads wait for each other, so do not call it in a [`Reload`].
    ///
    /// # Errors
    ///
    /// [`ReloadError`], and nothing has changed.
    pub fn reload(&self) -> Result<Vec<SettingChange>, ReloadError> {
        let mut in_force = locked(&self.in_force);
        // Read no earlier: another reload may have put a newer file in force meanwhile.
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
        let new = self.sources.load_contents(&contents).map_err(ReloadError::Invalid)?;
        if let Some(file) = self.sources.emptied(in_force, &contents) {
            return Err(ReloadError::Emptied { file: file.display().to_string() });
        }
        let current = self.settings();
        let changes = changes(&current, &new);
        let restart: Vec<_> = changes.iter().filter(|change| !self.takes(change)).cloned().collect();
        if !restart.is_empty() {
            return Err(ReloadError::NeedsRestart(restart));
        }
        let concerned = |binding: &&Binding| changes.iter().any(|change| change.section() == binding.section);
        let bindings: Vec<_> = self.bindings.iter().filter(concerned).collect();
        let refused = |binding: &Binding, why| ReloadError::Refused { section: binding.section.clone(), why };
        for binding in &bindings {
            told(|| (binding.check)(&self.start, &new)).map_err(|why| refused(binding, why))?;
        }
        for (index, binding) in bindings.iter().enumerate() {
            if let Err(why) = told(|| (binding.apply)(&new)) {
                for applied in bindings[..=index].iter().rev() {
                    // These were in force a moment ago, so they are taken.
                    _ = told(|| (applied.apply)(&current));
                }
                return Err(refused(binding, why));
            }
        }
        *locked(&self.current) = new;
        *in_force = contents;
        Ok(changes)
    }

    /// Returns whether everything that is bound to the section of a change takes it, and something is.
    fn takes(&self, change: &SettingChange) -> bool {
        let mut bound = self.bindings.iter().filter(|binding| binding.section == change.section()).peekable();
        bound.peek().is_some() && bound.all(|binding| (binding.takes)(&change.key))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls what takes settings; a panic is a refusal, so that what was applied before it is taken back.
fn told(call: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(format!("it panicked: {}", text.unwrap_or("without a text")))
    })
}

fn changes(old: &Settings, new: &Settings) -> Vec<SettingChange> {
    let mut changes = Vec::new();
    for ((path, old), (_, new)) in old.all_sections().into_iter().zip(new.all_sections()) {
        for key in old.keys() {
            let (old, new) = (old.written(key.name), new.written(key.name));
            if old != new {
                changes.push(SettingChange { section: path.clone(), key: *key, old: old.shown(), new: new.shown() });
            }
        }
    }
    changes
}

impl fmt::Debug for Reloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sections: Vec<_> = self.bindings.iter().map(|binding| &binding.section).collect();
        f.debug_struct("Reloader").field("sources", &self.sources).field("bound", &sections).finish_non_exhaustive()
    }
}
