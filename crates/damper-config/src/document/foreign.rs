//! Values that another serde crate has read, such as `config` or `figment`.

use super::DEEPEST;
use crate::value::{Element, Member, Origin, Value};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        AnyValue { deepest: DEEPEST }.deserialize(deserializer)
    }
}

#[derive(Clone, Copy)]
struct AnyValue {
    deepest: usize,
}

impl AnyValue {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        let deepest = self.deepest.checked_sub(1).ok_or_else(|| E::custom("nested too deep"))?;
        Ok(Self { deepest })
    }
}

impl<'de> DeserializeSeed<'de> for AnyValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a setting or a table of settings")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.to_string()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Value, E> {
        Ok(Value::Number(number.to_string()))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Value, E> {
        Ok(Value::Number(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Number(format!("{number:?}")))
    }

    // The crate may have read it from an environment variable, where a number is a text too.
    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Untyped(text.to_owned()))
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let deeper = self.deeper()?;
        let mut elements = Vec::new();
        while let Some(value) = sequence.next_element_seed(deeper)? {
            elements.push(Element { value, position: None });
        }
        Ok(Value::List(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let deeper = self.deeper()?;
        let origin = Origin::new(&"settings".into());
        let mut members = Vec::new();
        while let Some(key) = map.next_key()? {
            members.push(Member { key, value: map.next_value_seed(deeper)?, origin: origin.clone() });
        }
        Ok(Value::Table(members))
    }
}
