//! YAML: one document, without aliases, which could make a small file large.

use super::{DEEPEST, SyntaxError};
use crate::value::{Element, Member, Origin, Position, Value};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

pub(super) fn parse(text: &str, origin: &Origin) -> Result<Vec<Member>, SyntaxError> {
    let mut document = Document { events: Parser::new_from_str(text), origin };
    let mut members = Vec::new();
    let mut documents = 0;
    loop {
        let (event, position) = document.next()?;
        match event {
            Event::StreamEnd => return Ok(members),
            Event::DocumentStart(_) => documents += 1,
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            _ if documents > 1 => {
                return Err(SyntaxError::new(origin, Some(position), "expected one document, found another"));
            }
            event => match document.value(event, position, DEEPEST)? {
                Value::Table(found) => members = found,
                // A file of comments only.
                Value::Null => {}
                other => return Err(SyntaxError::not_a_table(origin, &other)),
            },
        }
    }
}

struct Document<'a> {
    events: Parser<'a, StrInput<'a>>,
    origin: &'a Origin,
}

impl<'a> Document<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Position), SyntaxError> {
        match self.events.next() {
            Some(Ok((event, span))) => Ok((event, position(&span))),
            Some(Err(error)) => {
                let position = (error.marker().line(), error.marker().col() + 1);
                Err(SyntaxError::new(self.origin, Some(position), error.info()))
            }
            None => Ok((Event::StreamEnd, (0, 0))),
        }
    }

    fn value(&mut self, event: Event<'a>, at: Position, deepest: usize) -> Result<Value, SyntaxError> {
        let Some(deeper) = deepest.checked_sub(1) else {
            return Err(SyntaxError::too_deep(self.origin, Some(at)));
        };
        Ok(match event {
            Event::Scalar(text, ScalarStyle::Plain, _, None) => match &*text {
                "" | "~" | "null" | "Null" | "NULL" => Value::Null,
                "true" | "True" | "TRUE" => Value::Flag(true),
                "false" | "False" | "FALSE" => Value::Flag(false),
                _ => Value::Untyped(text.into_owned()),
            },
            Event::Scalar(text, ..) => Value::Text(text.into_owned()),
            Event::SequenceStart(..) => {
                let mut elements = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break Value::List(elements),
                        (event, at) => {
                            elements.push(Element { value: self.value(event, at, deeper)?, position: Some(at) });
                        }
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut members = Vec::new();
                loop {
                    let (key, at) = match self.next()? {
                        (Event::MappingEnd, _) => break Value::Table(members),
                        (Event::Scalar(key, ..), at) => (key.into_owned(), at),
                        (_, at) => {
                            return Err(SyntaxError::new(self.origin, Some(at), "expected a key that is a text"));
                        }
                    };
                    let (event, value_at) = self.next()?;
                    let value = self.value(event, value_at, deeper)?;
                    members.push(Member { key, value, origin: self.origin.at(Some(at)) });
                }
            }
            Event::Alias(_) => return Err(SyntaxError::new(self.origin, Some(at), "aliases are not supported")),
            _ => return Err(SyntaxError::new(self.origin, Some(at), "expected a value")),
        })
    }
}

fn position(span: &Span) -> Position {
    (span.start.line(), span.start.col() + 1)
}
