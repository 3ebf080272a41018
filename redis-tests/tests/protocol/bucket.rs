//! The exact bucket that all admissions have to fit in.

use damper_redis::internal::Terms;

/// All that was admitted, less what dripped in since.
///
/// In parts of a token: as many as the rate's period has microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    part: u128,
    tokens: u128,
    burst: u128,
    debt: u128,
    at: u64,
    /// Tokens that a promise allows beyond the burst, and until when.
    promised: Vec<(u64, u128)>,
    /// The same at present, with what was admitted of earlier promises and has not dripped in yet.
    allowance: u128,
    pub admitted: u64,
}

impl Bucket {
    pub fn new(terms: &Terms, at: u64) -> Self {
        let part = u128::from(terms.rate.micros());
        let burst = u128::from(terms.burst) * part;
        Self {
            part,
            tokens: terms.rate.tokens().into(),
            burst,
            debt: 0,
            at,
            promised: Vec::new(),
            allowance: 0,
            admitted: 0,
        }
    }

    fn refill(&mut self, now: u64) {
        let dripped = u128::from(now - self.at) * self.tokens;
        self.debt = self.debt.saturating_sub(dripped);
        self.promised.retain(|&(end, _)| now < end);
        let promised = self.promised.iter().map(|&(_, parts)| parts).sum();
        // Tokens that a promise admitted stay in the debt until all of it has dripped in. The server never counted them.
        self.allowance = self.allowance.min(self.debt).max(promised);
        self.at = now;
    }

    /// Counts admitted tokens.
    ///
    /// # Errors
    ///
    /// How much more than the burst was admitted in some interval that ends now.
    pub fn admit(&mut self, n: u32, now: u64) -> Result<(), String> {
        self.refill(now);
        self.debt += u128::from(n) * self.part;
        self.admitted += u64::from(n);
        let most = self.burst + self.allowance;
        if self.debt > most {
            let excess = (self.debt - most) as f64 / self.part as f64;
            return Err(format!("{excess:.3} tokens more than the burst, {now} µs after the start"));
        }
        Ok(())
    }

    /// Takes back tokens that were admitted and not used.
    pub fn refund(&mut self, n: u32, now: u64) {
        self.refill(now);
        self.debt = self.debt.saturating_sub(u128::from(n) * self.part);
    }

    /// Allows what a clock that steps forward may cost.
    ///
    /// So many µs of the rate, at most a burst, and for `lease` µs what was held.
    pub fn allow_step(&mut self, micros: u64, held: u32, lease: u64, now: u64) {
        self.refill(now);
        self.debt = self.debt.saturating_sub(u128::from(micros) * self.tokens);
        self.promised.push((now + lease, u128::from(held) * self.part));
    }
}
