//! The token that controls ask for.

use super::LivePageError;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use subtle::ConstantTimeEq;

/// A secret that a browser has to send: with each control, or to look.
///
/// It is compared in constant time, and its `Debug` hides it.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub extern crate damper_live as live; }
/// use damper::live::LiveToken;
///
/// let token = LiveToken::new("from a vault, 16 bytes or more")?;
/// let other = LiveToken::generate()?; // print `other.reveal()` where the operator sees it
/// assert_eq!(other.reveal().len(), 32);
/// # let _ = token;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LiveToken(String);

/// The fewest bytes of a token.
pub(super) const SHORTEST: usize = 16;

/// The most bytes of a token.
pub(super) const LONGEST: usize = 256;

/// The most bytes of the name that a browser sends with it.
const LONGEST_NAME: usize = 256;

impl LiveToken {
    /// Takes a token of 16 to 256 visible ASCII characters and spaces.
    ///
    /// # Errors
    ///
    /// [`LivePageError`] if it is shorter or longer, or has another character.
    pub fn new(token: impl Into<String>) -> Result<Self, LivePageError> {
        let token = token.into();
        if !(SHORTEST..=LONGEST).contains(&token.len()) {
            return Err(LivePageError::TokenLength { bytes: token.len() });
        }
        // Headers carry these unchanged. A space at either end is lost on the way.
        let is_kept = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        if let Some(at) = token.bytes().position(|byte| !is_kept(byte)) {
            return Err(LivePageError::TokenCharacter { at });
        }
        if token.starts_with(' ') || token.ends_with(' ') {
            return Err(LivePageError::TokenCharacter { at: if token.starts_with(' ') { 0 } else { token.len() - 1 } });
        }
        Ok(Self(token))
    }

    /// Draws a token of 128 random bits, as 32 hexadecimal digits.
    ///
    /// # Errors
    ///
    /// [`LivePageError::NoRandomness`] if the system has no source of randomness.
    pub fn generate() -> Result<Self, LivePageError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|_| LivePageError::NoRandomness)?;
        let mut token = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            // Writing to a string cannot fail.
            _ = write!(token, "{byte:02x}");
        }
        Ok(Self(token))
    }

    /// Returns the token, to be shown to an operator.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether a request carries this token as the password of `Authorization: Basic`.
    ///
    /// Browsers send it so, once they have asked their users. The case of the scheme does not matter (RFC 9110, 11.1).
    ///
    /// The time that this takes depends on the length of the header only.
    pub(super) fn is_password_in(&self, headers: &HeaderMap) -> bool {
        let Some(sent) = headers.get(AUTHORIZATION) else { return false };
        let Some((scheme, sent)) = sent.as_bytes().split_at_checked(b"Basic ".len()) else { return false };
        let decoded = decoded(sent).unwrap_or_default();
        // A name has no colon (RFC 7617, 2), and every name will do.
        let password = decoded.splitn(2, |&byte| byte == b':').nth(1).unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"Basic ") && self.0.as_bytes().ct_eq(password).into()
    }

    /// Returns whether a request carries this token, as `Authorization: Bearer TOKEN`.
    ///
    /// The case of the scheme does not matter (RFC 9110, 11.1).
    ///
    /// The time that this takes depends on the length of the header only.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let Some(sent) = headers.get(AUTHORIZATION) else { return false };
        let Some((scheme, sent)) = sent.as_bytes().split_at_checked(b"Bearer ".len()) else { return false };
        scheme.eq_ignore_ascii_case(b"Bearer ") && self.0.as_bytes().ct_eq(sent).into()
    }
}

/// Decodes base64 with its padding (RFC 4648, 4), or returns `None` for another text.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii();
    let digits = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    if !text.len().is_multiple_of(4) || text.len() > 4 * (LONGEST + LONGEST_NAME) / 3 {
        return None;
    }
    let mut bytes = Vec::with_capacity(3 * text.len() / 4);
    for part in digits.chunks(4) {
        let mut bits = 0_u32;
        for &digit in part {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        // Three bytes of four digits, two of three and one of two.
        let [_, whole @ ..] = (bits << (6 * (4 - part.len()))).to_be_bytes();
        bytes.extend_from_slice(whole.get(..part.len() - 1)?);
    }
    Some(bytes)
}

impl fmt::Debug for LiveToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveToken").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;
    use http::HeaderValue;

    fn headers(authorization: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(authorization).unwrap())])
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = LiveToken::new("0123456789abcdef").unwrap();
        assert!(token.is_in(&headers("Bearer 0123456789abcdef")));
        for other in ["0123456789abcdef", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "bearer x"] {
            assert!(!token.is_in(&headers(other)), "{other}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
    }

    #[test]
    fn password_of_any_name_is_the_token() {
        let token = LiveToken::new("0123456789abcdef").unwrap();
        let named = LiveToken::new("a:b:c:d:e:f:g:h:i").unwrap();
        // "ops:0123456789abcdef", ":0123456789abcdef", "damper:0123456789abcdef"
        for sent in ["b3BzOjAxMjM0NTY3ODlhYmNkZWY=", "OjAxMjM0NTY3ODlhYmNkZWY=", "ZGFtcGVyOjAxMjM0NTY3ODlhYmNkZWY="] {
            assert!(token.is_password_in(&headers(&format!("Basic {sent}"))), "{sent}");
            assert!(token.is_password_in(&headers(&format!("bAsIC {sent}"))), "{sent}");
            assert!(!token.is_password_in(&headers(&format!("Bearer {sent}"))), "{sent}");
            assert!(!named.is_password_in(&headers(&format!("Basic {sent}"))), "{sent}");
        }
        // "x:a:b:c:d:e:f:g:h:i"
        assert!(named.is_password_in(&headers("Basic eDphOmI6YzpkOmU6ZjpnOmg6aQ==")));
        let not_even_base64 =
            ["", "=", "====", "b3Bz", "b3BzOjAxMjM0NTY3ODlhYmNkZWY", "b3BzOjAx!jM0", "A===", "0123456789abcdef"];
        for sent in not_even_base64 {
            assert!(!token.is_password_in(&headers(&format!("Basic {sent}"))), "{sent}");
        }
        assert!(!token.is_password_in(&headers(&format!("Basic {}", "A".repeat(4_096)))));
        assert!(!token.is_password_in(&HeaderMap::new()));
    }

    /// The base64 of these has a digit beside letters and numbers.
    #[test]
    fn password_with_any_characters_is_the_token() {
        // ":0123456789>>>>>>" and ":0123456789??????"
        for (token, sent) in
            [("0123456789>>>>>>", "OjAxMjM0NTY3ODk+Pj4+Pj4="), ("0123456789??????", "OjAxMjM0NTY3ODk/Pz8/Pz8=")]
        {
            assert!(LiveToken::new(token).unwrap().is_password_in(&headers(&format!("Basic {sent}"))), "{token}");
        }
    }

    #[test]
    fn errors_of_tokens_say_what_is_allowed() {
        let message = |text: &str| LiveToken::new(text).unwrap_err().to_string();
        assert_eq!(message("0123456789abcde"), "a token of 15 bytes, 16 to 256 are allowed");
        assert!(message("0123456789\nabcdef").starts_with("the token's byte 10 is no visible character of ASCII"));
    }

    #[test]
    fn texts_that_headers_change_are_no_tokens() {
        assert_eq!(LiveToken::new("0123456789abcde").unwrap_err(), LivePageError::TokenLength { bytes: 15 });
        assert_eq!(LiveToken::new("x".repeat(257)).unwrap_err(), LivePageError::TokenLength { bytes: 257 });
        assert_eq!(LiveToken::new("0123456789\nabcdef").unwrap_err(), LivePageError::TokenCharacter { at: 10 });
        assert_eq!(LiveToken::new(" 0123456789abcdef").unwrap_err(), LivePageError::TokenCharacter { at: 0 });
        assert_eq!(LiveToken::new("0123456789abcdef ").unwrap_err(), LivePageError::TokenCharacter { at: 16 });
        assert_eq!(LiveToken::new("0123456789abcdé").unwrap_err(), LivePageError::TokenCharacter { at: 14 });
    }

    #[test]
    fn drawn_tokens_differ_and_stay_hidden() {
        let (one, other) = (LiveToken::generate().unwrap(), LiveToken::generate().unwrap());
        assert_ne!(one.reveal(), other.reveal());
        assert!(LiveToken::new(one.reveal()).is_ok());
        assert!(!format!("{one:?}").contains(one.reveal()));
    }
}
