//! Puts the members of sources into settings, and collects the mistakes.

use crate::document::letters;
use crate::kind::Kind;
use crate::problem::{ConfigError, Problem, ProblemCause};
use crate::section::{Conflict, Instead, Key, Section, Tree, joined};
use crate::setting::{Refusal, Written};
use crate::value::{Member, Origin, Value, cut, shortened_path};
use serde::de::{Deserialize, Deserializer, Error};
use std::collections::{BTreeMap, BTreeSet};

/// Longer unknown names are not compared with the known ones.
const LONGEST_COMPARED: usize = 100;

/// A reason is cut after this many characters, because it may repeat a part of the value.
const LONGEST_WHY: usize = 200;

/// The settings of all sources, with their mistakes. Bad values are left out.
pub(crate) struct Bound<T> {
    pub(crate) settings: T,
    pub(crate) problems: Vec<Problem>,
}

/// Binds the members of each source; later sources override earlier ones.
///
/// Unknown members of the paths in `foreign` belong to another part of the program.
pub(crate) fn bind<T: Tree + Default>(sources: Vec<Vec<Member>>, foreign: &[String]) -> Bound<T> {
    let mut binder = Binder {
        settings: T::default(),
        foreign,
        known: None,
        accepted: Vec::new(),
        in_force: BTreeMap::new(),
        source: 0,
        problems: Vec::new(),
    };
    for source in sources {
        let before = binder.problems.len();
        binder.table("", source, &mut BTreeSet::new());
        // The TOML parser sorts tables by name, so restore the order of the text.
        binder.problems[before..].sort_by_key(|problem| problem.origin.position());
        binder.source += 1;
    }
    binder.resolve_conflicts();
    let Binder { settings, problems, .. } = binder;
    Bound { settings, problems }
}

/// Reads settings that another crate has parsed.
pub(crate) fn deserialize<'de, T: Tree + Default, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Table(members) => {
            let Bound { settings, problems } = bind(vec![members], &[]);
            if problems.is_empty() { Ok(settings) } else { Err(D::Error::custom(ConfigError::new(problems))) }
        }
        other => Err(D::Error::custom(format_args!("expected a table of settings, found {other}"))),
    }
}

/// The names of all sections and keys, in the order of the reference.
struct KnownNames(Vec<KnownName>);

struct KnownName {
    name: String,
    letters: String,
}

impl KnownNames {
    fn of(tree: &impl Tree) -> Self {
        let mut sections = Vec::new();
        tree.sections("", &mut sections);
        let mut names = Vec::new();
        for (path, section) in sections {
            let ends = path.match_indices('.').map(|(end, _)| end).chain([path.len()]);
            names.extend(ends.map(|end| path[..end].to_owned()));
            names.extend(section.keys().iter().map(|key| joined(&path, key.name)));
        }
        Self(names.into_iter().map(|name| KnownName { letters: letters(&name), name }).collect())
    }

    /// Returns the known name that an unknown one probably stands for.
    fn nearest(&self, unknown: &str) -> Option<String> {
        if unknown.len() > LONGEST_COMPARED {
            return None;
        }
        // `rateLimit` and `rate_limit` are more than two changes away from each other.
        let unknown_letters = letters(unknown);
        let last = unknown.rsplit('.').next().unwrap_or_default();
        let farthest = (last.chars().count() / 3).max(2);
        let same = || self.0.iter().find(|known| known.letters == unknown_letters);
        // `retries` is three changes away from `retry`.
        let unknown_stem = singular(&unknown_letters);
        let other_number = || self.0.iter().find(|known| singular(&known.letters) == unknown_stem);
        let near = || {
            (self.0.iter())
                .filter(|known| known.name.len().abs_diff(unknown.len()) <= farthest)
                .map(|known| (strsim::osa_distance(&known.name, unknown), known))
                .filter(|(distance, _)| *distance <= farthest)
                .min_by_key(|(distance, _)| *distance)
                .map(|(_, known)| known)
        };
        // Otherwise its section may be wrong or missing. The user means a section rather than a key of the same name.
        let last = singular(last);
        let has_name = |known: &&KnownName| known.name.rsplit('.').next().is_some_and(|name| singular(name) == last);
        let elsewhere = || self.0.iter().filter(has_name).min_by_key(|known| known.name.matches('.').count());
        same().or_else(other_number).or_else(near).or_else(elsewhere).map(|known| known.name.clone())
    }
}

/// Returns a name without the ending of its plural, so that `retries` and `retry` compare equal.
fn singular(name: &str) -> String {
    match (name.strip_suffix("ies"), name.strip_suffix('s')) {
        (Some(stem), _) => format!("{stem}y"),
        (None, stem) => stem.unwrap_or(name).to_owned(),
    }
}

/// Returns whether the path is one of these, or below one.
pub(crate) fn is_foreign(path: &str, foreign: &[String]) -> bool {
    foreign.iter().any(|name| path.strip_prefix(&**name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// Writes the values of a conflict, each with its place.
///
/// A default is written only if it contradicts the single value that was given. Beside two values that contradict each other, it would
/// confuse.
fn values_in_conflict(
    section: &dyn Section,
    conflict: &Conflict,
    accepted: &[Accepted],
    path: &str,
    in_force: &InForce,
) -> String {
    let shows_defaults = conflict.keys.iter().filter(|key| in_force.contains_key(*key)).count() == 1;
    let written = |key: &&'static str| {
        let value = section.written(key);
        let given = accepted.iter().rfind(|given| given.section == path && given.key.name == *key);
        match given.filter(|_| in_force.contains_key(key)) {
            Some(Accepted { origin, .. }) => Some(format!("{key} is {} ({origin})", value.shown())),
            None if value == Written::Unset || !shows_defaults => None,
            None => Some(format!("{key} is {} by default", value.shown())),
        }
    };
    conflict.keys.iter().filter_map(written).collect::<Vec<_>>().join(", ")
}

/// Returns whether no part of a path is empty.
fn is_path(path: &str) -> bool {
    !path.split('.').any(str::is_empty)
}

/// Returns the path of the section of a key, and its name.
fn parts(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

/// A value that its key accepts.
struct Accepted {
    section: String,
    key: &'static Key,
    value: Value,
    origin: Origin,
    source: usize,
}

type InForce = BTreeMap<&'static str, usize>;

/// Puts a value into a section.
///
/// If its key replaces other keys, the values of earlier sources for those keys are dropped.
fn put(
    section: &mut dyn Section,
    in_force: &mut InForce,
    key: &'static Key,
    value: &Value,
    source: usize,
) -> Result<(), Refusal> {
    section.set(key, value)?;
    if let Some(Instead { key: first, others, .. }) = section.instead()
        && first == key.name
    {
        for other in others {
            if in_force.get(other).is_some_and(|given| *given < source) {
                section.reset(other);
                in_force.remove(other);
            }
        }
    }
    in_force.insert(key.name, source);
    Ok(())
}

struct Binder<'a, T> {
    settings: T,
    foreign: &'a [String],
    /// Created at the first unknown name.
    known: Option<KnownNames>,
    /// The members that the sources gave, in their order, without bad values.
    accepted: Vec<Accepted>,
    /// The keys that are given, by section, each with the number of its last source.
    in_force: BTreeMap<String, InForce>,
    source: usize,
    problems: Vec<Problem>,
}

/// A value as a message shows it.
struct Given {
    path: String,
    value: Value,
    expected: String,
}

/// The key by which a JSON file names its schema.
pub(crate) const SCHEMA: &str = "$schema";

impl<T: Tree> Binder<'_, T> {
    fn table(&mut self, path: &str, members: Vec<Member>, seen: &mut BTreeSet<String>) {
        for Member { key, value, origin } in members {
            let path = joined(path, &key);
            if let Some(key) = self.key(&path) {
                if key.kind.has_names() && matches!(value, Value::Table(_) | Value::Null) {
                    self.names(key, &path, "", value, &origin, seen);
                } else if seen.insert(path.clone()) {
                    let given = Given { path: path.clone(), value: value.clone(), expected: key.kind.to_string() };
                    self.set(key, &path, value, origin, given);
                } else {
                    self.problems.push(Problem::new(origin, path, ProblemCause::Repeated));
                }
            } else if is_path(&path) && self.settings.has_table(&path) {
                match value {
                    Value::Table(members) => self.table(&path, members, seen),
                    // An empty section of YAML.
                    Value::Null => {}
                    other => self.invalid(origin, path, &other, "a table of settings".to_owned(), None),
                }
            } else if let Some((key, section_and_key, name)) = self.key_above(&path) {
                self.names(key, section_and_key, name, value, &origin, seen);
            } else if !is_foreign(&path, self.foreign) && path != SCHEMA {
                let nearest = self.known.get_or_insert_with(|| KnownNames::of(&self.settings)).nearest(&path);
                self.problems.push(Problem::new(origin, shortened_path(&path), ProblemCause::Unknown { nearest }));
            }
        }
    }

    /// Returns the key of named values that a path lies below, its path, and the rest.
    fn key_above<'p>(&mut self, path: &'p str) -> Option<(&'static Key, &'p str, &'p str)> {
        let ends = path.match_indices('.').map(|(end, _)| end);
        let above = |end: usize| {
            let key = self.key(&path[..end]).filter(|key| key.kind.has_names())?;
            Some((key, &path[..end], &path[end + 1..]))
        };
        { ends }.find_map(above)
    }

    /// Reads quotas by name.
    ///
    /// That is a quota or a table with the key `quota` for each tier, and a table of quotas by dimension for each plan.
    /// `path` is that of the key, and `name` the part below it, which is empty at the key itself.
    fn names(
        &mut self,
        key: &'static Key,
        path: &str,
        name: &str,
        value: Value,
        origin: &Origin,
        seen: &mut BTreeSet<String>,
    ) {
        let full = if name.is_empty() { path.to_owned() } else { joined(path, name) };
        let is_plan = matches!(key.kind, Kind::Plans { .. });
        match value {
            // A plan that limits nothing would count as unknown. A tier without a quota would be left out, which would renumber
            // the others.
            Value::Table(members) if !members.is_empty() || name.is_empty() => {
                for Member { key: next, value, origin } in members {
                    self.names(key, path, &joined(name, &next), value, &origin, seen);
                }
            }
            // An empty table of YAML.
            Value::Null if name.is_empty() => {}
            value => {
                let name = if is_plan { name } else { name.strip_suffix(".quota").unwrap_or(name) };
                let dots = name.matches('.').count();
                if dots < usize::from(is_plan) {
                    let expected = "a table of quotas such as \"100/s burst 200\" by dimension";
                    self.invalid(origin.clone(), shortened_path(&full), &value, expected.to_owned(), None);
                } else if dots > usize::from(is_plan) {
                    let first = name.split('.').next().unwrap_or_default();
                    let rest = if is_plan { name.split('.').nth(1).unwrap_or_default() } else { "quota" };
                    let nearest = Some(shortened_path(&format!("{path}.{first}.{rest}")));
                    let cause = ProblemCause::Unknown { nearest };
                    self.problems.push(Problem::new(origin.clone(), shortened_path(&full), cause));
                } else if seen.insert(joined(path, name)) {
                    let named = Member { key: name.to_owned(), value: value.clone(), origin: origin.clone() };
                    let is_empty = matches!(value, Value::Table(_));
                    let expected = format!("{}{}", Kind::Quota, if is_empty { "; an empty table is none" } else { "" });
                    let given = Given { path: shortened_path(&full), value, expected };
                    self.set(key, path, Value::Table(vec![named]), origin.clone(), given);
                } else {
                    self.problems.push(Problem::new(origin.clone(), shortened_path(&full), ProblemCause::Repeated));
                }
            }
        }
    }

    fn key(&mut self, path: &str) -> Option<&'static Key> {
        let (section, name) = parts(path);
        if !is_path(path) {
            return None;
        }
        self.settings.section_mut(section)?.keys().iter().find(|key| key.name == name)
    }

    /// Sets a key. `given` is what a message shows.
    fn set(&mut self, key: &'static Key, path: &str, value: Value, origin: Origin, given: Given) {
        let (table, _) = parts(path);
        let Some(section) = self.settings.section_mut(table) else { return };
        let in_force = self.in_force.entry(table.to_owned()).or_default();
        match put(section, in_force, key, &value, self.source) {
            Ok(()) => {
                let section = table.to_owned();
                self.accepted.push(Accepted { section, key, value, origin, source: self.source });
            }
            Err(Refusal { why, position }) => {
                let origin = if position.is_some() { origin.at(position) } else { origin };
                self.invalid(origin, given.path, &given.value, given.expected, why);
            }
        }
    }

    fn invalid(&mut self, origin: Origin, path: String, value: &Value, expected: String, why: Option<String>) {
        let cause =
            ProblemCause::Invalid { value: value.to_string(), expected, why: why.map(|why| cut(&why, LONGEST_WHY)) };
        self.problems.push(Problem::new(origin, path, cause));
    }

    /// Reports keys that contradict each other, and drops values until the rest is consistent.
    ///
    /// The values of the last source are dropped first. The values of earlier sources, or the defaults, are then in force again.
    fn resolve_conflicts(&mut self) {
        for (path, in_force) in &mut self.in_force {
            if !self.settings.is_checked(path) {
                continue;
            }
            let Some(section) = self.settings.section_mut(path) else { continue };
            let first_problem = self.problems.len();
            while let Some(conflict) = section.conflict(&|key| in_force.contains_key(key)) {
                let last = conflict.keys.iter().filter_map(|key| in_force.get(key)).max().copied();
                let mut keys = conflict.looser.iter().chain(conflict.keys);
                let Some(dropped) = keys.find(|key| in_force.get(*key).copied() == last) else { break };
                let is_dropped = |accepted: &Accepted| {
                    accepted.section == *path && accepted.key.name == *dropped && Some(accepted.source) == last
                };
                let Some(index) = self.accepted.iter().rposition(is_dropped) else { break };
                let values = values_in_conflict(section, &conflict, &self.accepted, path, in_force);
                let Accepted { origin, .. } = self.accepted.remove(index);
                let is_same = |problem: &&mut Problem| matches!(&problem.cause, ProblemCause::Conflict { expected, .. } if expected == conflict.expected);
                if let Some(problem) = self.problems[first_problem..].iter_mut().find(is_same) {
                    problem.dropped.push(dropped);
                } else {
                    let cause = ProblemCause::Conflict { values, expected: conflict.expected.to_owned() };
                    let problem = Problem::new(origin, path.clone(), cause);
                    self.problems.push(Problem { dropped: vec![dropped], ..problem });
                }
                for key in section.keys() {
                    section.reset(key.name);
                }
                in_force.clear();
                for Accepted { key, value, source, .. } in self.accepted.iter().filter(|given| given.section == *path) {
                    // The section accepted this value before.
                    _ = put(section, in_force, key, value, *source);
                }
            }
        }
    }
}
