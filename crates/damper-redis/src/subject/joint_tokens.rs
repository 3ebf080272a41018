//! Tokens that the server took for all waiting checks together.

/// Tokens of joint takes that no waiting check has taken yet.
///
/// A *joint take* is one command by which the server takes tokens for all waiting checks. The server counts these
/// tokens as used, not as leased. They expire a short time after the command was made. Then the subject gives back
/// those that no check has taken.
#[derive(Debug, Default)]
pub(super) struct JointTokens {
    tokens: u32,
    /// When the tokens expire, in µs of the subject's clock.
    until: u64,
}

impl JointTokens {
    /// Adds `tokens`. They and those that are still there expire at the time `until`.
    pub(super) fn put(&mut self, tokens: u32, until: u64) {
        (self.tokens, self.until) = (self.tokens.saturating_add(tokens), until);
    }

    /// Takes `n` tokens and returns true if that many are left and have not expired.
    pub(super) fn take(&mut self, n: u32, now: u64) -> bool {
        let is_there = n <= self.tokens && now < self.until;
        if is_there {
            self.tokens -= n;
        }
        is_there
    }

    /// Removes the tokens if they have expired, and returns how many it removed.
    pub(super) fn ended(&mut self, now: u64) -> u32 {
        if now < self.until { 0 } else { core::mem::take(&mut self.tokens) }
    }

    /// Returns the time at which the tokens expire, or `None` if there are none.
    pub(super) fn until(&self) -> Option<u64> {
        (self.tokens > 0).then_some(self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::JointTokens;

    #[test]
    fn tokens_are_taken_until_they_end() {
        let mut tokens = JointTokens::default();
        assert_eq!((tokens.until(), tokens.take(1, 0)), (None, false));
        tokens.put(5, 10);
        assert!(tokens.take(2, 9) && !tokens.take(4, 9) && !tokens.take(1, 10));
        assert_eq!((tokens.until(), tokens.ended(9), tokens.ended(10)), (Some(10), 0, 3));
        assert_eq!((tokens.until(), tokens.ended(10)), (None, 0));
    }
}
