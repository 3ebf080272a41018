//! Lists of structured fields (RFC 9651) whose members are strings with parameters.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;
use http::{HeaderMap, HeaderName};
use sfv::visitor::{EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ListVisitor, ParameterVisitor};
use sfv::{BareItemFromInput, KeyRef, Parser, StringRef};

/// The most members that a list can have.
///
/// No server has so many limits, and a longer list would take its reader long.
const MOST: usize = 32;

/// A string with parameters.
pub(super) struct StringItem<'de> {
    pub(super) string: Cow<'de, StringRef>,
    parameters: Vec<(&'de KeyRef, BareItemFromInput<'de>)>,
}

impl StringItem<'_> {
    /// Returns the value of a parameter. Of several with the same key the last counts.
    pub(super) fn get(&self, key: &KeyRef) -> Option<&BareItemFromInput<'_>> {
        self.parameters.iter().rev().find_map(|(other, value)| (*other == key).then_some(value))
    }

    /// Returns the number that is the value of a parameter; `None` if there is no such parameter.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the value is no integer, or a negative one.
    pub(super) fn number(&self, key: &KeyRef) -> Result<Option<u64>, Malformed> {
        match self.get(key) {
            None => Ok(None),
            Some(BareItemFromInput::Integer(integer)) => {
                u64::try_from(i64::from(*integer)).map(Some).map_err(|_| Malformed)
            }
            Some(_) => Err(Malformed),
        }
    }
}

/// Reads the members of a list.
///
/// `None` if the header is absent or malformed, or `read` finds that a member is.
pub(super) fn read_all<T>(
    headers: &HeaderMap,
    name: &HeaderName,
    read: impl Fn(&StringItem<'_>) -> Result<T, Malformed>,
) -> Option<Vec<T>> {
    let list = joined_lines(headers, name)?;
    let items = Parser::new(&list).parse_list_with_visitor(StringItems(Vec::new())).ok()?;
    items.iter().map(read).collect::<Result<_, _>>().ok()
}

/// Returns the value of a header, of which several lines are one list or one dictionary.
///
/// `None` if the header is absent. Only several lines are copied.
pub(super) fn joined_lines<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Cow<'a, [u8]>> {
    let mut lines = headers.get_all(name).iter().map(http::HeaderValue::as_bytes);
    let mut joined = Cow::Borrowed(lines.next()?);
    for line in lines {
        let joined = joined.to_mut();
        joined.extend(b", ");
        joined.extend(line);
    }
    Some(joined)
}

struct StringItems<'de>(Vec<StringItem<'de>>);

/// The parameters of an item that is read, and where it belongs.
struct ParametersOf<'a, 'de> {
    item: StringItem<'de>,
    items: &'a mut StringItems<'de>,
}

/// A member is not what the header has to have.
#[derive(Debug)]
pub(super) struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed member")
    }
}

impl core::error::Error for Malformed {}

impl<'de> ListVisitor<'de> for StringItems<'de> {
    type Out = Vec<StringItem<'de>>;
    type Error = Malformed;

    fn entry(&mut self) -> Result<impl EntryVisitor<'de>, Malformed> {
        if self.0.len() < MOST { Ok(self) } else { Err(Malformed) }
    }

    fn finish(self) -> Result<Self::Out, Malformed> {
        Ok(self.0)
    }
}

impl<'de> EntryVisitor<'de> for &mut StringItems<'de> {
    type Error = Malformed;

    fn item(self) -> Result<impl ItemVisitor<'de>, Malformed> {
        Ok(self)
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Malformed> {
        Err::<Ignored, _>(Malformed)
    }
}

impl<'de> ItemVisitor<'de> for &mut StringItems<'de> {
    type Out = ();
    type Error = Malformed;

    fn bare_item(self, bare_item: BareItemFromInput<'de>) -> Result<impl ParameterVisitor<'de, Out = ()>, Malformed> {
        let BareItemFromInput::String(string) = bare_item else { return Err(Malformed) };
        Ok(ParametersOf { item: StringItem { string, parameters: Vec::new() }, items: self })
    }
}

impl<'de> ParameterVisitor<'de> for ParametersOf<'_, 'de> {
    type Out = ();
    type Error = Malformed;

    fn parameter(&mut self, key: &'de KeyRef, value: BareItemFromInput<'de>) -> Result<(), Malformed> {
        self.item.parameters.push((key, value));
        Ok(())
    }

    fn finish(self) -> Result<(), Malformed> {
        self.items.0.push(self.item);
        Ok(())
    }
}
