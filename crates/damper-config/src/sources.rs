//! Where settings come from, and the two ways to read them.

use crate::bind::{Bound, bind};
use crate::document::{Format, SyntaxError, environment, letters};
use crate::problem::{ConfigError, Problem, ProblemCause};
use crate::settings::Settings;
use crate::value::{Member, Origin, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

/// Files, texts and variables that settings are read from, in this order: a later source overrides an earlier one.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
/// use damper::config::Sources;
///
/// let sources = Sources::new()
///     .toml("defaults of the program", "server.http.ratelimit.burst = 20")
///     .environment("APP"); // APP__SERVER__HTTP__RATELIMIT__BURST=40
/// let settings = sources.load()?;
/// assert_eq!(settings.server.http.ratelimit.burst(), 20);
///
/// let error = Sources::new().toml("app.toml", "server.http.ratelimit.burst = 0").load().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "app.toml:1:23: server.http.ratelimit.burst is 0, it must be a whole number from 1 to 10000000",
/// );
/// # Ok::<(), damper_config::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Sources {
    sources: Vec<Source>,
}

#[derive(Clone, Debug)]
enum Source {
    File(PathBuf),
    Text { name: Arc<str>, format: Format, text: String },
    Environment { prefix: String },
    Value { key: String, value: String },
}

impl Sources {
    /// Starts without any source, which gives the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file. Its extension says the format: `toml`, `json`, `yaml` or `yml`.
    pub fn file(self, path: impl Into<PathBuf>) -> Self {
        self.with(Source::File(path.into()))
    }

    /// Adds a text of TOML; messages show the name.
    pub fn toml(self, name: &str, text: &str) -> Self {
        self.text(name, Format::Toml, text)
    }

    /// Adds a text of any format; messages show the name.
    pub fn text(self, name: &str, format: Format, text: &str) -> Self {
        self.with(Source::Text { name: name.into(), format, text: text.to_owned() })
    }

    /// Adds the environment variables that begin with the prefix and two underscores. Each dot of a key is two underscores:
    /// `APP__SERVER__HTTP__RATELIMIT__BURST`. A list has commas between its values.
    pub fn environment(self, prefix: &str) -> Self {
        self.with(Source::Environment { prefix: prefix.to_owned() })
    }

    /// Adds the value of one key, such as an option of the command line.
    pub fn value(self, key: &str, value: &str) -> Self {
        self.with(Source::Value { key: key.to_owned(), value: value.to_owned() })
    }

    fn with(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// Reads the settings, and accepts no mistake.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], which lists all mistakes.
    pub fn load(&self) -> Result<Settings, ConfigError> {
        self.load_contents(&self.contents())
    }

    /// Reads the settings, leaves out each bad value, and reports it: the value of an earlier source stays, or the default. Of
    /// values that do not fit each other, those of the last source are left out; of one source, the one that allows more. Log what it
    /// returns.
    ///
    /// Every value in force is then in its range. It may still be looser than intended: a misspelled key, or a file that cannot be read,
    /// leaves the default.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
    /// use damper::config::Sources;
    ///
    /// let (settings, problems) = Sources::new().toml("app.toml", "server.http.ratelimit.burst = -5").normalized();
    /// assert_eq!(settings.server.http.ratelimit.burst(), 100);
    /// assert!(problems[0].to_string().ends_with("; 100 is used instead"));
    /// ```
    #[must_use]
    pub fn normalized(&self) -> (Settings, Vec<Problem>) {
        let Bound { mut settings, mut problems } = self.bound_by(&self.contents());
        for problem in &mut problems {
            problem.instead = Some(match &problem.cause {
                ProblemCause::Unreadable { .. } | ProblemCause::Syntax { .. } => "the file is ignored".to_owned(),
                ProblemCause::Unknown { .. } => "it is ignored".to_owned(),
                ProblemCause::Conflict { .. } => {
                    let section = settings.section_at(&problem.key);
                    let written =
                        |key| section.as_ref().map(|section| format!("{key} {}", section.written(key).shown()));
                    let values: Vec<_> = problem.dropped.iter().filter_map(|key| written(*key)).collect();
                    format!("{} is used instead", values.join(", "))
                }
                ProblemCause::Invalid { .. } | ProblemCause::Repeated => {
                    let (section, key) = problem.key.rsplit_once('.').unwrap_or_default();
                    match settings.section_at(section) {
                        Some(section) => format!("{} is used instead", section.written(key).shown()),
                        None => "it is ignored".to_owned(),
                    }
                }
            });
        }
        (settings, problems)
    }

    /// Reads the settings strictly, of these contents of the files.
    pub(crate) fn load_contents(&self, contents: &[Contents]) -> Result<Settings, ConfigError> {
        let Bound { settings, problems } = self.bound_by(contents);
        if problems.is_empty() { Ok(settings) } else { Err(ConfigError::new(problems)) }
    }

    fn bound_by(&self, contents: &[Contents]) -> Bound<Settings> {
        let mut failures = Vec::new();
        let mut tables = Vec::new();
        let mut contents = contents.iter();
        for source in &self.sources {
            let members = match source {
                Source::File(path) => parse_file(path, contents.next()),
                Source::Text { name, format, text } => parse(*format, text, &Origin::new(name)),
                Source::Environment { prefix } => Ok(environment(prefix, variables(), is_known)),
                Source::Value { key, value } => {
                    let origin = Origin::new(&"value of the program".into());
                    Ok(vec![Member { key: key.clone(), value: Value::Untyped(value.clone()), origin }])
                }
            };
            match members {
                Ok(members) => tables.push(members),
                Err(problem) => failures.push(*problem),
            }
        }
        let mut bound = bind(tables);
        bound.problems.splice(0..0, failures);
        bound
    }

    /// Returns the first file that has no key now, and had some before.
    pub(crate) fn emptied(&self, before: &[Contents], now: &[Contents]) -> Option<&Path> {
        let files = self.sources.iter().filter_map(|source| match source {
            Source::File(path) => Some(path.as_path()),
            _ => None,
        });
        let has_keys = |path, contents| parse_file(path, Some(contents)).is_ok_and(|members| gives_keys(&members));
        let mut versions = files.zip(before.iter().zip(now));
        versions.find(|(path, (before, now))| has_keys(path, before) && !has_keys(path, now)).map(|(path, _)| path)
    }

    /// Reads the files.
    pub(crate) fn contents(&self) -> Vec<Contents> {
        let files = self.sources.iter().filter_map(|source| match source {
            Source::File(path) => Some(path),
            _ => None,
        });
        files.map(|path| fs::read(path).map_err(|error| error.to_string())).collect()
    }
}

/// The contents of a file, or the reason why it cannot be read.
pub(crate) type Contents = Result<Vec<u8>, String>;

/// Returns whether there is a value, and not only tables without any.
fn gives_keys(members: &[Member]) -> bool {
    members.iter().any(|member| match &member.value {
        Value::Table(members) => gives_keys(members),
        Value::Null => false,
        _ => true,
    })
}

/// A larger text is no file of settings. Counting lines takes time that grows with the square of the size.
const LARGEST: usize = 1 << 17;

/// Returns whether a name without its punctuation is a key.
fn is_known(name: &str) -> bool {
    Settings::keys().iter().any(|key| letters(&key.path) == name)
}

/// Returns the environment; a variable whose name is no Unicode is no setting of any key.
fn variables() -> impl Iterator<Item = (String, String)> {
    env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
}

fn parse_file(path: &Path, contents: Option<&Contents>) -> Result<Vec<Member>, Box<Problem>> {
    let origin = Origin::new(&path.display().to_string().into());
    let unreadable = |why| Box::new(Problem::new(origin.clone(), "", ProblemCause::Unreadable { why }));
    let format = Format::of_path(path).ok_or_else(|| {
        unreadable("the format is unknown, the name must end with .toml, .json, .yaml or .yml".to_owned())
    })?;
    let bytes = match contents {
        Some(Ok(bytes)) => bytes,
        Some(Err(why)) => return Err(unreadable(format!("cannot read the file: {why}"))),
        None => return Err(unreadable("cannot read the file".to_owned())),
    };
    let text = str::from_utf8(bytes).map_err(|error| unreadable(format!("the file is not UTF-8: {error}")))?;
    parse(format, text, &origin)
}

fn parse(format: Format, text: &str, origin: &Origin) -> Result<Vec<Member>, Box<Problem>> {
    if text.len() > LARGEST {
        let why = format!("{} bytes exceed the maximum {LARGEST}", text.len());
        return Err(Box::new(Problem::new(origin.clone(), "", ProblemCause::Unreadable { why })));
    }
    let problem = |SyntaxError { origin, why }| Box::new(Problem::new(origin, "", ProblemCause::Syntax { why }));
    format.parse(text, origin).map_err(problem)
}
