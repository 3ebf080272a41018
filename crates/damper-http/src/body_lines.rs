//! The lines of a body that comes in pieces.

use alloc::vec::Vec;
use core::fmt;

/// Puts the lines of a body together, which comes in pieces, in bounded memory.
///
/// It is for [`RateLimitLayer::charge_by_body`](crate::RateLimitLayer::charge_by_body): an event stream and JSON are made of lines.
///
/// A line ends with a line feed, which is left out, as is a carriage return before it. Of a line that is too long only the
/// end is kept, where answers of language models state their usage.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::http::BodyLines;
///
/// let mut lines = BodyLines::up_to(8);
/// let mut seen = Vec::new();
/// for piece in ["on", "e\r\ntwo\nthe end of the t", "hird\n", "no end"] {
///     lines.push(piece.as_bytes(), |line| seen.push(String::from_utf8_lossy(line).into_owned()));
/// }
/// assert_eq!(seen, ["one", "two", "he third"]);
/// assert_eq!(lines.rest(), b"no end");
/// ```
#[derive(Clone)]
pub struct BodyLines {
    longest: usize,
    /// The end of the line that has not ended: at most `longest` bytes.
    rest: Vec<u8>,
}

impl BodyLines {
    /// Creates a splitter that keeps up to so many bytes of a line.
    ///
    /// A piece is never copied as a whole. Memory is allocated when a line goes on in the next piece.
    #[must_use]
    pub const fn up_to(longest: usize) -> Self {
        Self { longest, rest: Vec::new() }
    }

    /// Takes the next piece, and calls `line` for each line that ends in it.
    pub fn push(&mut self, piece: &[u8], mut line: impl FnMut(&[u8])) {
        let mut pieces = piece.split(|&byte| byte == b'\n');
        // `split` returns one part at least, and the last one has no end yet.
        let unended = pieces.next_back().unwrap_or_default();
        for ended in pieces {
            if self.rest.is_empty() {
                line(trimmed(end_of(ended, self.longest)));
            } else {
                self.keep(ended);
                line(trimmed(&self.rest));
                self.rest.clear();
            }
        }
        self.keep(unended);
    }

    /// Returns the line that has not ended, such as a document of JSON without a line feed at its end.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// Appends a part of a line, and drops what is too long from its beginning.
    fn keep(&mut self, part: &[u8]) {
        let part = end_of(part, self.longest);
        let excess = (self.rest.len() + part.len()).saturating_sub(self.longest);
        self.rest.drain(..excess);
        self.rest.extend_from_slice(part);
    }
}

/// Returns the last `longest` bytes.
fn end_of(part: &[u8], longest: usize) -> &[u8] {
    &part[part.len().saturating_sub(longest)..]
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

impl fmt::Debug for BodyLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyLines").field("longest", &self.longest).finish_non_exhaustive()
    }
}
