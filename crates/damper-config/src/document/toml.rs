//! TOML.

use super::{DEEPEST, SyntaxError};
use crate::value::{Member, Origin, Value, position_of};
use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};

pub(super) fn parse(text: &str, origin: &Origin) -> Result<Vec<Member>, SyntaxError> {
    match DeTable::parse(text) {
        Ok(table) => Document { text, origin }.members(table.into_inner(), DEEPEST),
        Err(error) => {
            let position = error.span().map(|span| position_of(text, span.start));
            Err(SyntaxError::new(origin, position, error.message().replace('\n', ", ")))
        }
    }
}

struct Document<'a> {
    text: &'a str,
    origin: &'a Origin,
}

impl Document<'_> {
    fn members(&self, table: DeTable<'_>, deepest: usize) -> Result<Vec<Member>, SyntaxError> {
        table
            .into_iter()
            .map(|(key, value)| {
                let origin = self.origin.at(Some(position_of(self.text, key.span().start)));
                let value = self.value(value, deepest)?;
                Ok(Member { key: key.into_inner().into_owned(), value, origin })
            })
            .collect()
    }

    fn value(&self, value: Spanned<DeValue<'_>>, deepest: usize) -> Result<Value, SyntaxError> {
        let start = value.span().start;
        let Some(deeper) = deepest.checked_sub(1) else {
            return Err(SyntaxError::too_deep(self.origin, Some(position_of(self.text, start))));
        };
        Ok(match value.into_inner() {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(number) => Value::Number(
                i128::from_str_radix(number.as_str(), number.radix()).map_or(number.to_string(), |n| n.to_string()),
            ),
            DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
            DeValue::Boolean(flag) => Value::Flag(flag),
            DeValue::Datetime(date) => Value::Other(date.to_string()),
            DeValue::Array(values) => {
                let values = values.into_iter().map(|value| self.value(value, deeper));
                Value::List(values.collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => Value::Table(self.members(table, deeper)?),
        })
    }
}
