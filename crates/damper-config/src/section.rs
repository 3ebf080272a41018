//! Sections, which are tables of keys.
//!
//! The macro generates the struct, its defaults, its getters and the descriptions of its keys from one list.

use crate::kind::Kind;
use crate::setting::{Refusal, Written};
use crate::value::Value;
use std::any::Any;

/// A key of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) kind: Kind,
    pub(crate) change: Change,
}

impl Key {
    /// Returns the description of its effect.
    pub(crate) fn doc(&self) -> &'static str {
        self.doc.trim()
    }
}

/// When a change of a key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// With a reload.
    Live,
    /// With the next start.
    Restart,
}

/// Keys whose values contradict each other.
pub(crate) struct Conflict {
    pub(crate) keys: &'static [&'static str],
    /// The keys whose values allow more, which are left out first.
    ///
    /// If it is empty, the keys are left out in their order.
    pub(crate) looser: &'static [&'static str],
    pub(crate) expected: &'static str,
}

/// A key that replaces others.
///
/// It overrides them when a later source gives it. A source may give it or the others, not both.
pub(crate) struct Instead {
    pub(crate) key: &'static str,
    pub(crate) others: &'static [&'static str],
    /// The conflict when one source gives both.
    pub(crate) conflict: Conflict,
}

/// A table of keys.
pub(crate) trait Section {
    fn about(&self) -> &'static str;

    fn keys(&self) -> &'static [Key];

    /// Sets where it stands among all settings.
    fn set_path(&mut self, path: &str);

    fn set(&mut self, key: &Key, value: &Value) -> Result<(), Refusal>;

    fn written(&self, key: &str) -> Written;

    /// Sets a key to its default.
    fn reset(&mut self, key: &str);

    /// Returns the key that replaces others, if the section has one.
    fn instead(&self) -> Option<Instead>;

    /// Returns the values that contradict each other.
    fn contradiction(&self) -> Option<Conflict>;

    /// Returns the keys that contradict each other. `given` says which keys are set.
    fn conflict(&self, given: &dyn Fn(&str) -> bool) -> Option<Conflict> {
        let instead =
            self.instead().filter(|Instead { key, others, .. }| given(key) && others.iter().any(|key| given(key)));
        instead.map(|instead| instead.conflict).or_else(|| self.contradiction())
    }
}

/// Defines a section: the struct with its getters, its defaults, and the description of its keys.
///
/// A key whose type is of this crate is `private`: it has no getter, and `Settings::value` reads it.
///
/// A section with a key that replaces others states it as `instead`, and rules between values as `check`. Both are functions of the
/// section.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $( $(#[doc = $doc:literal])+ $key:ident: $type:ty = $default:expr, $kind:expr, $change:ident $($private:ident)?; )+
        }
        $(instead $instead:expr;)?
        $(check $check:expr;)?
    ) => {
        $(#[doc = $about])+
        // A field has the name of its key, which may end as the section does.
        #[allow(clippy::struct_field_names)]
        #[derive(Clone, Debug)]
        pub struct $name {
            $(pub(crate) $key: $type,)+
            /// Where it stands among all settings, such as `client.http.pacing`.
            pub(crate) path: String,
        }

        /// Sections are equal if their settings are, wherever they stand.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                $(self.$key == other.$key)&&+
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)+ path: String::new() }
            }
        }

        impl $name {
            /// Returns the name of what is built from this section alone, in metrics and logs.
            ///
            /// It is the full name of the section, such as `client.http.pacing`, and `default` for a section that is not part of a group.
            #[must_use]
            pub fn name(&self) -> &str {
                if self.path.is_empty() { "default" } else { &self.path }
            }

            $($crate::section::getter! {
                {
                    $(#[doc = $doc])+
                    #[must_use]
                    #[allow(clippy::clone_on_copy, clippy::double_must_use)]
                    pub fn $key(&self) -> $type {
                        self.$key.clone()
                    }
                }
                $($private)?
            })+
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::bind::deserialize(deserializer)
            }
        }

        impl $crate::section::Section for $name {
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

            fn set_path(&mut self, path: &str) {
                path.clone_into(&mut self.path);
            }

            fn set(
                &mut self,
                key: &$crate::section::Key,
                value: &$crate::value::Value,
            ) -> Result<(), $crate::setting::Refusal> {
                match key.name {
                    $(stringify!($key) => $crate::setting::Setting::update(&mut self.$key, value, &key.kind)?,)+
                    _ => return Err($crate::setting::Refusal::OTHER_KIND),
                }
                Ok(())
            }

            fn written(&self, key: &str) -> $crate::setting::Written {
                match key {
                    $(stringify!($key) => $crate::setting::Setting::write(&self.$key, &$kind),)+
                    _ => $crate::setting::Written::Unset,
                }
            }

            fn reset(&mut self, key: &str) {
                match key {
                    $(stringify!($key) => self.$key = $default,)+
                    _ => {}
                }
            }

            fn instead(&self) -> Option<$crate::section::Instead> {
                $(
                    let instead: fn(&Self) -> $crate::section::Instead = $instead;
                    return Some(instead(self));
                )?
                #[allow(unreachable_code)]
                None
            }

            fn contradiction(&self) -> Option<$crate::section::Conflict> {
                $(
                    let check: fn(&Self) -> Option<$crate::section::Conflict> = $check;
                    return check(self);
                )?
                #[allow(unreachable_code)]
                None
            }
        }
    };
}

pub(crate) use section;

/// Defines a getter, unless its key is private.
macro_rules! getter {
    ({ $($getter:tt)* }) => { $($getter)* };
    ({ $($getter:tt)* } private) => {};
}

pub(crate) use getter;

/// Defines a group of sections or groups, with the path of each.
///
/// A group names the sections whose `check` does not always apply as `unchecked`: a function of the group and a section's name.
macro_rules! group {
    (
        $(#[$attribute:meta])*
        $name:ident { $( $(#[$field_attribute:meta])* $field:ident: $type:ty, )+ }
        $(unchecked $unchecked:expr;)?
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_attribute])* pub $field: $type,)+
            /// Where it stands among all settings, such as `server.http`.
            path: String,
        }

        /// Groups are equal if their settings are, wherever they stand.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                $(self.$field == other.$field)&&+
            }
        }

        /// The defaults of all keys.
        impl Default for $name {
            fn default() -> Self {
                let mut group = Self { $($field: <$type>::default(),)+ path: String::new() };
                $crate::section::Tree::set_path(&mut group, "");
                group
            }
        }

        impl $name {
            /// Returns the name of what is built from this group in metrics and logs.
            ///
            /// It is the full name of the group, such as `server.http`, and `default` for a group that is not part of others.
            #[must_use]
            pub fn name(&self) -> &str {
                if self.path.is_empty() { "default" } else { &self.path }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::bind::deserialize(deserializer)
            }
        }

        impl $crate::section::Tree for $name {
            fn set_path(&mut self, path: &str) {
                path.clone_into(&mut self.path);
                $($crate::section::Tree::set_path(&mut self.$field, &$crate::section::joined(path, stringify!($field)));)+
            }

            fn nodes<'a>(&'a self, path: &str, found: &mut Vec<(String, &'a dyn std::any::Any)>) {
                found.push((path.to_owned(), self));
                $($crate::section::Tree::nodes(&self.$field, &$crate::section::joined(path, stringify!($field)), found);)+
            }

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

            fn is_checked(&self, path: &str) -> bool {
                let (first, rest) = path.split_once('.').unwrap_or((path, ""));
                $(
                    let is_unchecked: fn(&Self, &str) -> bool = $unchecked;
                    if is_unchecked(self, first) {
                        return false;
                    }
                )?
                match first {
                    $(stringify!($field) => $crate::section::Tree::is_checked(&self.$field, rest),)+
                    _ => true,
                }
            }
        }
    };
}

pub(crate) use group;

/// A section, or a group of them.
pub(crate) trait Tree: Any {
    /// Sets where it stands among all settings.
    fn set_path(&mut self, path: &str);

    /// Appends this node and all nodes below it, with their paths.
    fn nodes<'a>(&'a self, path: &str, found: &mut Vec<(String, &'a dyn Any)>);

    /// Appends all sections with their paths.
    fn sections<'a>(&'a self, path: &str, found: &mut Vec<(String, &'a dyn Section)>);

    /// Returns whether the path is that of a section or group. No part of it may be empty.
    fn has_table(&self, path: &str) -> bool;

    /// Returns the section of a path. No part of it may be empty.
    fn section_mut(&mut self, path: &str) -> Option<&mut dyn Section>;

    /// Returns whether the `check` of the section of a path applies.
    fn is_checked(&self, path: &str) -> bool;
}

impl<S: Section + Any> Tree for S {
    fn set_path(&mut self, path: &str) {
        Section::set_path(self, path);
    }

    fn nodes<'a>(&'a self, path: &str, found: &mut Vec<(String, &'a dyn Any)>) {
        found.push((path.to_owned(), self));
    }

    fn sections<'a>(&'a self, path: &str, found: &mut Vec<(String, &'a dyn Section)>) {
        found.push((path.to_owned(), self));
    }

    fn has_table(&self, path: &str) -> bool {
        path.is_empty()
    }

    fn section_mut(&mut self, path: &str) -> Option<&mut dyn Section> {
        if path.is_empty() { Some(self) } else { None }
    }

    fn is_checked(&self, _: &str) -> bool {
        true
    }
}

pub(crate) fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
