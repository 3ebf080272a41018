//! TOML.

use super::{DEEPEST, SyntaxError};
use crate::value::{Element, Lines, Member, Origin, Value};
use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};

pub(super) fn parse(text: &str, origin: &Origin) -> Result<Vec<Member>, SyntaxError> {
    match DeTable::parse(text) {
        Ok(table) => Document { lines: Lines::of(text), origin }.members(table.into_inner(), DEEPEST),
        Err(error) => {
            let position = error.span().map(|span| Lines::of(text).position_of(span.start));
            Err(SyntaxError::new(origin, position, error.message().replace('\n', ", ")))
        }
    }
}

struct Document<'a> {
    lines: Lines<'a>,
    origin: &'a Origin,
}

impl Document<'_> {
    fn members(&self, table: DeTable<'_>, deepest: usize) -> Result<Vec<Member>, SyntaxError> {
        table
            .into_iter()
            .map(|(key, value)| {
                let origin = self.origin.at(Some(self.lines.position_of(key.span().start)));
                let value = self.value(value, deepest)?;
                Ok(Member { key: key.into_inner().into_owned(), value, origin })
            })
            .collect()
    }

    fn value(&self, value: Spanned<DeValue<'_>>, deepest: usize) -> Result<Value, SyntaxError> {
        let start = value.span().start;
        let Some(deeper) = deepest.checked_sub(1) else {
            return Err(SyntaxError::too_deep(self.origin, Some(self.lines.position_of(start))));
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
                let elements = values.into_iter().map(|value| {
                    let position = Some(self.lines.position_of(value.span().start));
                    Ok(Element { value: self.value(value, deeper)?, position })
                });
                Value::List(elements.collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => Value::Table(self.members(table, deeper)?),
        })
    }
}
