//! Reads objects, and rejects other forms that serde accepts.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// Reads a type from an object only.
///
/// serde's derived reader of a struct accepts an array of the members in order too.
pub(crate) struct Object<T>(pub(crate) T);

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members)).map(Object)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

/// Reads a member that is an object.
pub(super) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(member)| member)
}

/// Reads a member that is an object or null.
pub(super) fn object_or_null<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let member = Option::<Object<T>>::deserialize(deserializer)?;
    Ok(member.map(|Object(member)| member))
}

/// Reads a member that is an object, null or absent.
pub(super) fn object_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    object_or_null(deserializer).map(Option::unwrap_or_default)
}

/// Reads a member that is an array of objects.
pub(super) fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let members = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(members.into_iter().map(|Object(member)| member).collect())
}

/// Reads a member that is an array of objects, null or absent.
pub(super) fn objects_or_default<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let members = Option::<Vec<Object<T>>>::deserialize(deserializer)?;
    Ok(members.into_iter().flatten().map(|Object(member)| member).collect())
}

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
