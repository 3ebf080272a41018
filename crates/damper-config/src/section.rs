//! Sections: tables of keys. The macro makes the struct, its defaults, its getters and the description of its keys of one list.

use crate::kind::Kind;
use crate::setting::{Why, Written};
use crate::value::Value;
use std::any::Any;

/// The description of a key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) kind: Kind,
    pub(crate) change: Change,
}

impl Key {
    /// Returns the name within its section.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns what it sets, in words.
    #[must_use]
    pub fn doc(&self) -> &'static str {
        self.doc.trim()
    }

    /// Returns the type and the range.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns when a change takes effect.
    #[must_use]
    pub fn change(&self) -> Change {
        self.change
    }
}

/// When a change of a key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// With a reload.
    Live,
    /// With the next start.
    Restart,
}

/// Keys whose values do not fit each other.
pub(crate) struct Conflict {
    pub(crate) kind: ConflictKind,
    pub(crate) keys: &'static [&'static str],
    /// Those whose values allow more: they are left out first. Empty: the keys in their order.
    pub(crate) looser: &'static [&'static str],
    pub(crate) expected: String,
}

/// Why they do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConflictKind {
    /// The first key stands instead of the others. It overrides them when a later source gives it.
    Instead,
    /// The values contradict each other.
    Values,
}

/// A table of keys.
pub(crate) trait Section {
    fn as_any(&self) -> &dyn Any;

    fn about(&self) -> &'static str;

    fn keys(&self) -> &'static [Key];

    fn set(&mut self, key: &Key, value: &Value) -> Result<(), Why>;

    fn written(&self, key: &str) -> Written;

    /// Puts the default of a key.
    fn reset(&mut self, key: &str);

    /// Returns what does not fit; `given` says which keys a source has set.
    fn conflict(&self, given: &dyn Fn(&str) -> bool) -> Option<Conflict>;
}

/// Defines a section: the struct with its getters, its defaults, and the description of its keys.
///
/// A section that has rules between its keys states them as `check`: a function of the section and of the keys that are given.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $( $(#[doc = $doc:literal])+ $key:ident: $type:ty = $default:expr, $kind:expr, $change:ident; )+
        }
        check $check:expr
    ) => {
        $(#[doc = $about])+
        // The names are those of the keys.
        #[allow(clippy::struct_field_names)]
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(pub(crate) $key: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }

        impl $name {
            $(
                $(#[doc = $doc])+
                #[must_use]
                #[allow(clippy::clone_on_copy)]
                pub fn $key(&self) -> $type {
                    self.$key.clone()
                }
            )+
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::bind::deserialize(deserializer)
            }
        }

        impl $crate::section::Section for $name {
            fn as_any(&self) -> &dyn std::any::Any {
                self
            }

            fn about(&self) -> &'static str {
                concat!($($about),+)
            }

            fn keys(&self) -> &'static [$crate::section::Key] {
                static KEYS: &[$crate::section::Key] = &[$(
                    $crate::section::Key {
                        name: stringify!($key),
                        doc: concat!($($doc),+),
                        kind: $kind,
                        change: $crate::section::Change::$change,
                    },
                )+];
                KEYS
            }

            fn set(
                &mut self,
                key: &$crate::section::Key,
                value: &$crate::value::Value,
            ) -> Result<(), $crate::setting::Why> {
                match key.name {
                    $(stringify!($key) => self.$key = $crate::setting::Setting::read(value, &key.kind)?,)+
                    _ => return Err(None),
                }
                Ok(())
            }

            fn written(&self, key: &str) -> $crate::setting::Written {
                match key {
                    $(stringify!($key) => $crate::setting::Setting::write(&self.$key),)+
                    _ => $crate::setting::Written::Unset,
                }
            }

            fn reset(&mut self, key: &str) {
                match key {
                    $(stringify!($key) => self.$key = $default,)+
                    _ => {}
                }
            }

            fn conflict(&self, given: &dyn Fn(&str) -> bool) -> Option<$crate::section::Conflict> {
                let check: fn(&Self, &dyn Fn(&str) -> bool) -> Option<$crate::section::Conflict> = $check;
                check(self, given)
            }
        }
    };
}

pub(crate) use section;

/// Defines a group of sections or groups, with the path of each.
macro_rules! group {
    ($(#[$attribute:meta])* $name:ident { $( $(#[$field_attribute:meta])* $field:ident: $type:ty, )+ }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, Default, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_attribute])* pub $field: $type,)+
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::bind::deserialize(deserializer)
            }
        }

        impl $crate::section::Tree for $name {
            fn sections<'a>(&'a self, path: &str, found: &mut Vec<(String, &'a dyn $crate::section::Section)>) {
                $($crate::section::Tree::sections(&self.$field, &$crate::section::joined(path, stringify!($field)), found);)+
            }

            fn has_table(&self, path: &str) -> bool {
                let (first, rest) = path.split_once('.').unwrap_or((path, ""));
                match first {
                    "" => true,
                    $(stringify!($field) => $crate::section::Tree::has_table(&self.$field, rest),)+
                    _ => false,
                }
            }

            fn section_mut(&mut self, path: &str) -> Option<&mut dyn $crate::section::Section> {
                let (first, rest) = path.split_once('.').unwrap_or((path, ""));
                match first {
                    $(stringify!($field) => $crate::section::Tree::section_mut(&mut self.$field, rest),)+
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use group;

/// A section, or a group of them.
pub(crate) trait Tree {
    /// Appends all sections with their paths.
    fn sections<'a>(&'a self, path: &str, found: &mut Vec<(String, &'a dyn Section)>);

    /// Returns whether the path is that of a section or group. No part of it may be empty.
    fn has_table(&self, path: &str) -> bool;

    /// Returns the section of a path. No part of it may be empty.
    fn section_mut(&mut self, path: &str) -> Option<&mut dyn Section>;
}

impl<S: Section> Tree for S {
    fn sections<'a>(&'a self, path: &str, found: &mut Vec<(String, &'a dyn Section)>) {
        found.push((path.to_owned(), self));
    }

    fn has_table(&self, path: &str) -> bool {
        path.is_empty()
    }

    fn section_mut(&mut self, path: &str) -> Option<&mut dyn Section> {
        if path.is_empty() { Some(self) } else { None }
    }
}

pub(crate) fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
