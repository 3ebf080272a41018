//! JSON. Each value is first a slice of the text, which gives its position.

use super::{DEEPEST, SyntaxError};
use crate::value::{Element, Lines, Member, Origin, Position, Value};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

pub(super) fn parse(text: &str, origin: &Origin) -> Result<Vec<Member>, SyntaxError> {
    let document = Document { lines: Lines::of(text), origin };
    match document.value(document.read::<&RawValue>(text)?.get(), DEEPEST)? {
        Value::Table(members) => Ok(members),
        other => Err(SyntaxError::not_a_table(origin, &other)),
    }
}

struct Document<'a> {
    lines: Lines<'a>,
    origin: &'a Origin,
}

impl<'a> Document<'a> {
    fn value(&self, part: &'a str, deepest: usize) -> Result<Value, SyntaxError> {
        let Some(deeper) = deepest.checked_sub(1) else {
            return Err(SyntaxError::too_deep(self.origin, Some(self.position(part))));
        };
        Ok(match part.as_bytes().first() {
            Some(b'{') => {
                let members = self.read::<Members<'a>>(part)?.0.into_iter().map(|(key, value)| {
                    let origin = self.origin.at(Some(self.position(value.get())));
                    Ok(Member { key, value: self.value(value.get(), deeper)?, origin })
                });
                Value::Table(members.collect::<Result<_, _>>()?)
            }
            Some(b'[') => {
                let elements = self.read::<Vec<&'a RawValue>>(part)?.into_iter().map(|value| {
                    let position = Some(self.position(value.get()));
                    Ok(Element { value: self.value(value.get(), deeper)?, position })
                });
                Value::List(elements.collect::<Result<_, _>>()?)
            }
            Some(b'"') => Value::Text(self.read(part)?),
            Some(b't') => Value::Flag(true),
            Some(b'f') => Value::Flag(false),
            Some(b'n') => Value::Null,
            _ => Value::Number(part.to_owned()),
        })
    }

    /// Returns the position of a part of the text.
    fn position(&self, part: &str) -> Position {
        self.lines.position_of(self.lines.byte_of(part))
    }

    fn read<T: Deserialize<'a>>(&self, part: &'a str) -> Result<T, SyntaxError> {
        serde_json::from_str(part).map_err(|error| {
            // The error counts its lines from the start of the slice.
            let (line, column) = self.position(part);
            let position = match error.line() {
                0 | 1 => (line, column + error.column().saturating_sub(1)),
                later => (line + later - 1, error.column()),
            };
            let why = error.to_string();
            let why = why.split(" at line ").next().unwrap_or_default();
            SyntaxError::new(self.origin, Some(position), why)
        })
    }
}

/// The members of an object in their order, so that a repeated key is detected.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}
