//! The sources of settings, and the two ways to read them.

use crate::bind::{Bound, SCHEMA, bind, is_foreign};
use crate::document::{Format, SyntaxError, environment, letters};
use crate::problem::{ConfigError, Problem, ProblemCause};
use crate::section::joined;
use crate::settings::Settings;
use crate::value::{Member, Origin, Value};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs, io};

/// An ordered list of files, texts and variables. A later source overrides an earlier one.
///
/// It does so key by key. A later `quota` also overrides an earlier `requests_per_second` and `burst`, and a later `window_time` an earlier
/// `window_calls`. The other way round they contradict each other, which is a mistake. Otherwise a variable with a burst would replace a
/// quota by the default rate.
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
    foreign: Vec<String>,
}

#[derive(Clone, Debug)]
enum Source {
    /// A whole file, or one of its tables.
    File {
        path: PathBuf,
        table: Option<String>,
    },
    Text {
        name: Arc<str>,
        format: Format,
        text: String,
    },
    Environment {
        prefix: String,
    },
    Value {
        name: Arc<str>,
        key: String,
        value: String,
    },
}

impl Sources {
    /// Starts without any source, which gives the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file, whose extension gives the format: `toml`, `json`, `yaml` or `yml`.
    ///
    /// All keys of the file must be damper's. For a file that also has other settings, see [`file_at`](Self::file_at) and
    /// [`foreign`](Self::foreign).
    pub fn file(self, path: impl Into<PathBuf>) -> Self {
        self.with(Source::File { path: path.into(), table: None })
    }

    /// Adds one table of a file, such as `damper` or `app.limits`.
    ///
    /// The rest of the file is not read. A file without the table is a mistake.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
    /// use damper::config::Sources;
    ///
    /// # let file = std::env::temp_dir().join(format!("damper-config-shared-{}.toml", std::process::id()));
    /// std::fs::write(&file, "[database]\nurl = \"postgres:\"\n[damper.server.http.ratelimit]\nburst = 20")?;
    /// let settings = Sources::new().file_at(&file, "damper").load()?;
    /// assert_eq!(settings.server.http.ratelimit.burst(), 20);
    /// # std::fs::remove_file(&file)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn file_at(self, path: impl Into<PathBuf>, table: &str) -> Self {
        self.with(Source::File { path: path.into(), table: Some(table.to_owned()) })
    }

    /// Excludes tables and keys that are not damper's, such as `database` or `server.http.port`.
    ///
    /// They are ignored in all sources, with everything below them. The name of a key or section of damper has no effect here.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
    /// use damper::config::Sources;
    ///
    /// let text = "database.url = \"postgres:\"\nserver.http.port = 80\nserver.http.ratelimit.burst = 20";
    /// let settings = Sources::new().toml("app.toml", text).foreign(["database", "server.http.port"]).load()?;
    /// assert_eq!(settings.server.http.ratelimit.burst(), 20);
    /// # Ok::<(), damper_config::ConfigError>(())
    /// ```
    pub fn foreign<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.foreign.extend(names.into_iter().map(Into::into));
        self
    }

    /// Adds a TOML text. Messages show `name`.
    pub fn toml(self, name: &str, text: &str) -> Self {
        self.text(name, Format::Toml, text)
    }

    /// Adds a text of any format. Messages show `name`.
    pub fn text(self, name: &str, format: Format, text: &str) -> Self {
        self.with(Source::Text { name: name.into(), format, text: text.to_owned() })
    }

    /// Adds the environment variables that begin with the prefix and two underscores.
    ///
    /// Each dot of a key is written as two underscores: `APP__SERVER__HTTP__RATELIMIT__BURST`. A list has commas between its values.
    ///
    /// For other variables that begin in the same way, see [`foreign`](Self::foreign).
    pub fn environment(self, prefix: &str) -> Self {
        self.with(Source::Environment { prefix: prefix.to_owned() })
    }

    /// Adds the value of one key, such as that of a command-line option.
    ///
    /// Messages show `name`, such as `--burst`.
    pub fn value(self, name: &str, key: &str, value: &str) -> Self {
        self.with(Source::Value { name: name.into(), key: key.to_owned(), value: value.to_owned() })
    }

    fn with(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// Reads the settings, and refuses any mistake.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], which lists all mistakes.
    pub fn load(&self) -> Result<Settings, ConfigError> {
        self.load_contents(&self.contents())
    }

    /// Reads the settings, leaves out bad values, and returns the mistakes: log them.
    ///
    /// In place of a bad value, the value of an earlier source stays in force, or the default. If values contradict each other, those of
    /// the last source are left out. If one source gave them, the one that allows more is left out.
    ///
    /// The feature `tracing` logs each mistake at `warn`, under the target `damper`.
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
        self.normalized_contents(&self.contents())
    }

    /// Reads the settings from these contents of the files, and leaves out bad values.
    pub(crate) fn normalized_contents(&self, contents: &[Contents]) -> (Settings, Vec<Problem>) {
        let Bound { mut settings, mut problems } = self.bound_by(contents);
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
        #[cfg(feature = "tracing")]
        for problem in &problems {
            tracing::warn!(target: "damper", key = problem.key(), "{problem}");
        }
        (settings, problems)
    }

    /// Reads the settings from these contents of the files, and refuses any mistake.
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
                Source::File { path, table } => parse_file(path, table.as_deref(), contents.next()),
                Source::Text { name, format, text } => parse(*format, text, &Origin::new(name)),
                Source::Environment { prefix } => Ok(environment(prefix, variables(), is_known)),
                Source::Value { name, key, value } => {
                    let origin = Origin::new(name);
                    Ok(vec![Member { key: key.clone(), value: Value::Untyped(value.clone()), origin }])
                }
            };
            match members {
                Ok(members) => tables.push(members),
                Err(problem) => failures.push(*problem),
            }
        }
        let mut bound = bind(tables, &self.foreign);
        bound.problems.splice(0..0, failures);
        bound
    }

    /// Returns the first file that had keys before and has none now.
    pub(crate) fn emptied(&self, before: &[Contents], now: &[Contents]) -> Option<&Path> {
        let has_keys = |(path, table): (&Path, Option<&str>), contents| {
            parse_file(path, table, Some(contents)).is_ok_and(|members| gives_keys("", &members, &self.foreign))
        };
        let mut versions = self.files().zip(before.iter().zip(now));
        let emptied = versions.find(|(file, (before, now))| has_keys(*file, before) && !has_keys(*file, now));
        emptied.map(|((path, _), _)| path)
    }

    /// Reads the files.
    pub(crate) fn contents(&self) -> Vec<Contents> {
        self.files().map(|(path, _)| contents_of(path)).collect()
    }

    /// Returns the files in their order, each with the table to read.
    fn files(&self) -> impl Iterator<Item = (&Path, Option<&str>)> {
        self.sources.iter().filter_map(|source| match source {
            Source::File { path, table } => Some((path.as_path(), table.as_deref())),
            _ => None,
        })
    }
}

/// The contents of a file, or the reason why it cannot be read.
pub(crate) type Contents = Result<Vec<u8>, String>;

/// Reads a file, but stops once it is too large.
fn contents_of(path: &Path) -> Contents {
    let read = || {
        // Opening a pipe would block until a process writes to it.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(LARGEST as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| error.to_string())
}

/// Returns whether a member gives a value of damper's. Empty tables do not count.
fn gives_keys(path: &str, members: &[Member], foreign: &[String]) -> bool {
    members.iter().any(|member| {
        let path = joined(path, &member.key);
        match &member.value {
            _ if path == SCHEMA || is_foreign(&path, foreign) => false,
            Value::Table(members) => gives_keys(&path, members, foreign),
            Value::Null => false,
            _ => true,
        }
    })
}

/// The largest size of a text.
const LARGEST: usize = 1 << 17;

/// Returns whether a name without its punctuation is a key.
fn is_known(name: &str) -> bool {
    Settings::keys().iter().any(|key| letters(&key.path) == name)
}

/// Returns the environment variables, except those whose names are not Unicode.
fn variables() -> impl Iterator<Item = (String, String)> {
    env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
}

fn parse_file(path: &Path, table: Option<&str>, contents: Option<&Contents>) -> Result<Vec<Member>, Box<Problem>> {
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
    let members = parse(format, text, &origin)?;
    let Some(table) = table else { return Ok(members) };
    members_at(members, table).ok_or_else(|| unreadable(format!("the file has no table {table}")))
}

/// Returns the members of a nested table. Dots separate the names, in the file or in `path`.
fn members_at(members: Vec<Member>, path: &str) -> Option<Vec<Member>> {
    let mut found = None;
    for Member { key, value, origin } in members {
        if path == key {
            match value {
                Value::Table(members) => found.get_or_insert_with(Vec::new).extend(members),
                // An empty table in YAML.
                Value::Null => _ = found.get_or_insert_with(Vec::new),
                _ => {}
            }
        } else if let Some(rest) = path.strip_prefix(&*key).and_then(|rest| rest.strip_prefix('.')) {
            if let Value::Table(members) = value
                && let Some(members) = members_at(members, rest)
            {
                found.get_or_insert_with(Vec::new).extend(members);
            }
        } else if let Some(rest) = key.strip_prefix(path).and_then(|rest| rest.strip_prefix('.')) {
            found.get_or_insert_with(Vec::new).push(Member { key: rest.to_owned(), value, origin });
        }
    }
    found
}

fn parse(format: Format, text: &str, origin: &Origin) -> Result<Vec<Member>, Box<Problem>> {
    if text.len() > LARGEST {
        let why = format!("the text is longer than the maximum of {LARGEST} bytes");
        return Err(Box::new(Problem::new(origin.clone(), "", ProblemCause::Unreadable { why })));
    }
    let problem = |SyntaxError { origin, why }| Box::new(Problem::new(origin, "", ProblemCause::Syntax { why }));
    format.parse(text, origin).map_err(problem)
}
