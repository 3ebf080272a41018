//! The error of a text that is not allowed.

use alloc::string::String;
use core::fmt;

/// The error of a text that is not allowed: the setting, its value, and what is allowed.
///
/// It is to texts what [`OutOfRange`](crate::OutOfRange) is to numbers.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::InvalidText;
///
/// fn check_name(name: &str) -> Result<(), InvalidText> {
///     if name.is_ascii() { Ok(()) } else { Err(InvalidText::new("the name", name, "of ASCII only")) }
/// }
///
/// let error = check_name("über").unwrap_err();
/// assert_eq!(error.to_string(), "the name is \"über\", it must be of ASCII only");
/// assert_eq!(error.value(), "über");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg(feature = "alloc")]
pub struct InvalidText {
    setting: &'static str,
    value: String,
    allowed: &'static str,
}

impl InvalidText {
    /// Creates the error of this value of a setting, which must be `allowed`.
    pub fn new(setting: &'static str, value: impl Into<String>, allowed: &'static str) -> Self {
        Self { setting, value: value.into(), allowed }
    }

    /// Returns the name of the setting.
    #[must_use]
    pub const fn setting(&self) -> &'static str {
        self.setting
    }

    /// Returns the text that was refused.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Returns the allowed texts in words.
    #[must_use]
    pub const fn allowed(&self) -> &'static str {
        self.allowed
    }
}

impl fmt::Display for InvalidText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {:?}, it must be {}", self.setting, self.value, self.allowed)
    }
}

crate::internal::debug_by_display!(InvalidText);

impl core::error::Error for InvalidText {}
