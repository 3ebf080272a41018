//! Charges and refunds that the server does not know yet.

/// Tokens used without being taken, and taken without being used, until a command carries them.
///
/// A charge is pending until a reply acknowledges it, so it may be counted twice. A refund is sent once, so it may be lost.
/// Either way the limit is exceeded by nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    charge: u64,
    refund: u64,
}

impl Pending {
    pub(super) fn is_empty(self) -> bool {
        self.charge == 0 && self.refund == 0
    }

    pub(super) fn add_charge(&mut self, tokens: u64) {
        self.charge = self.charge.saturating_add(tokens);
    }

    pub(super) fn add_refund(&mut self, tokens: u64) {
        self.refund = self.refund.saturating_add(tokens);
    }

    /// Takes out what the next command carries: the charge and the refund, each less the other.
    pub(super) fn send(&mut self) -> (u64, u64) {
        let both = self.charge.min(self.refund);
        let sent = (self.charge - both, self.refund - both);
        *self = Self::default();
        sent
    }
}
