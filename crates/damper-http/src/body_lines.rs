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
    /// The end of the line that has not ended: at most `longest` bytes, and one for a carriage return.
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
                line(self.end_of_line(ended));
            } else {
                self.keep(ended);
                line(self.end_of_line(&self.rest));
                self.rest.clear();
            }
        }
        self.keep(unended);
    }

    /// Returns the line that has not ended, such as a document of JSON without a line feed at its end.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        end_of(&self.rest, self.longest)
    }

    /// Returns what is kept of a line: a carriage return at its end is no part of it.
    fn end_of_line<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        end_of(line.strip_suffix(b"\r").unwrap_or(line), self.longest)
    }

    /// Appends a part of a line, and drops what is too long from its beginning.
    fn keep(&mut self, part: &[u8]) {
        let most = self.longest.saturating_add(1);
        let part = end_of(part, most);
        let excess = (self.rest.len() + part.len()).saturating_sub(most);
        self.rest.drain(..excess);
        self.rest.extend_from_slice(part);
    }
}

/// Returns the last `longest` bytes.
fn end_of(part: &[u8], longest: usize) -> &[u8] {
    &part[part.len().saturating_sub(longest)..]
}

impl fmt::Debug for BodyLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyLines").field("longest", &self.longest).finish_non_exhaustive()
    }
}
