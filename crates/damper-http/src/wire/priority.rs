//! `Priority`, read (RFC 9218).

use super::string_items::joined_lines;
use core::convert::Infallible;
use http::{HeaderMap, HeaderName};
use sfv::visitor::{DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ParameterVisitor};
use sfv::{BareItemFromInput, KeyRef, Parser, key_ref};

/// `Priority`, by which a client says how urgent its request is.
pub const PRIORITY: HeaderName = HeaderName::from_static("priority");

const URGENCY: &KeyRef = key_ref("u");

/// The highest number, of the least urgent requests.
const LEAST_URGENT: u8 = 7;

/// Returns the urgency in `Priority`, from 0, the most urgent, to 7; 3 is an ordinary request.
///
/// It returns `None` if there is none, if it is not such a number, or if the header is malformed. The RFC's default of 3 holds then. All
/// lines of the header are one dictionary, and of two urgencies the last counts.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_http::wire; }
/// use damper::wire::{PRIORITY, urgency_in};
/// use http::{HeaderMap, HeaderValue};
///
/// let mut headers = HeaderMap::new();
/// assert_eq!(urgency_in(&headers), None);
/// headers.insert(PRIORITY, HeaderValue::from_static("u=5, i"));
/// assert_eq!(urgency_in(&headers), Some(5));
/// ```
#[must_use]
pub fn urgency_in(headers: &HeaderMap) -> Option<u8> {
    let dictionary = joined_lines(headers, &PRIORITY)?;
    Parser::new(&dictionary).parse_dictionary_with_visitor(Urgency(None)).ok()?
}

/// The urgency in a dictionary, of which all other members are ignored.
struct Urgency(Option<u8>);

impl<'de> DictionaryVisitor<'de> for Urgency {
    type Out = Option<u8>;
    type Error = Infallible;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Infallible> {
        Ok((key == URGENCY).then_some(self))
    }

    fn finish(self) -> Result<Option<u8>, Infallible> {
        Ok(self.0)
    }
}

impl<'de> EntryVisitor<'de> for &mut Urgency {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Infallible> {
        Ok(self)
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Infallible> {
        self.0 = None;
        Ok(Ignored)
    }
}

impl<'de> ItemVisitor<'de> for &mut Urgency {
    type Out = ();
    type Error = Infallible;

    fn bare_item(self, item: BareItemFromInput<'de>) -> Result<impl ParameterVisitor<'de, Out = ()>, Infallible> {
        self.0 = match item {
            BareItemFromInput::Integer(number) => {
                u8::try_from(i64::from(number)).ok().filter(|urgency| *urgency <= LEAST_URGENT)
            }
            _ => None,
        };
        Ok(Ignored)
    }
}
