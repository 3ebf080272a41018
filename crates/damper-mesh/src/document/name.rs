//! Reads names of variants, and rejects other forms that serde accepts.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, IntoDeserializer, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// Reads a type from a text. serde's derived reader of an enum accepts `{"hour": null}` too.
pub(crate) struct Name<T>(pub(crate) T);

struct NameVisitor<T>(PhantomData<T>);

impl<T: DeserializeOwned> Visitor<'_> for NameVisitor<T> {
    type Value = Name<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Name<T>, E> {
        T::deserialize(name.into_deserializer()).map(Name)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Name<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameVisitor(PhantomData))
    }
}

/// Reads a member that is the name of a variant.
pub(super) fn name<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    Name::deserialize(deserializer).map(|Name(member)| member)
}
