//! Replaces a word of a stream by another of the same length.

/// Replaces each occurrence of a word, wherever the stream is cut into chunks.
#[derive(Clone, Debug)]
pub struct Substitution {
    from: Vec<u8>,
    to: Vec<u8>,
    /// The end of what was read, if the word may begin in it.
    held: Vec<u8>,
}

impl Substitution {
    /// Replaces `from` by `to`.
    ///
    /// # Panics
    ///
    /// If their lengths differ, because lengths are stated in the protocol of Redis, or are zero.
    #[must_use]
    pub fn new(from: &str, to: &str) -> Self {
        assert!(from.len() == to.len() && !from.is_empty(), "{from:?} and {to:?} must have one length, above zero");
        Self { from: from.into(), to: to.into(), held: Vec::new() }
    }

    /// Returns what can be passed on once `chunk` was read.
    pub fn pass(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(chunk);
        let mut from = 0;
        while let Some(at) = bytes[from..].windows(self.from.len()).position(|window| window == self.from) {
            bytes[from + at..from + at + self.to.len()].copy_from_slice(&self.to);
            from += at + self.to.len();
        }
        let longest = bytes.len().min(self.from.len() - 1);
        let open = (1..=longest).rev().find(|length| bytes.ends_with(&self.from[..*length]));
        self.held = bytes.split_off(bytes.len() - open.unwrap_or(0));
        bytes
    }
}
