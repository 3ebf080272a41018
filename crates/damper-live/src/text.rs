//! Texts that browsers read: events of a stream, and names in HTML.

use alloc::format;
use alloc::string::{String, ToString};
use bytes::Bytes;
use core::fmt;

/// An event of a stream. JSON has no line breaks, so it is one line of `data`.
pub(super) fn event(name: &str, json: &serde_json::Value) -> Bytes {
    format!("event: {name}\ndata: {json}\n\n").into()
}

/// A text in HTML.
pub(super) fn escaped(text: impl fmt::Display) -> String {
    let mut escaped = String::new();
    for character in text.to_string().chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_write_html_or_events() {
        assert_eq!(escaped("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
        let event = event("sample", &serde_json::json!({ "name": "a\n\nevent: b\r" }));
        assert_eq!(event, "event: sample\ndata: {\"name\":\"a\\n\\nevent: b\\r\"}\n\n");
    }
}
