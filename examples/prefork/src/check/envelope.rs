//! The log of a client's requests beside the promise of its limit.

/// A quota: tokens a second, and tokens at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    pub(crate) rate: u64,
    pub(crate) burst: u64,
}

/// A request of a client, between two readings of the client's clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Allowed,
    Denied,
    /// The worker was killed before its response came. Whether it took a token is unknown.
    Lost,
}

/// The nanoseconds by which a plan may be early after an idle time: four of the table's units.
const EARLY: u64 = 4 * 256;

const SECOND: u64 = 1_000_000_000;

impl Envelope {
    /// Returns by how many tokens the worst interval exceeds `burst + rate * t`.
    ///
    /// A request was decided between its two readings. An interval from the sending of one request to the receipt of another
    /// therefore has all decisions of the requests that lie in it.
    pub(crate) fn excess(&self, asks: &[Ask]) -> u64 {
        let mut allowed: Vec<Ask> = asks.iter().filter(|ask| ask.answer == Answer::Allowed).copied().collect();
        allowed.sort_unstable_by_key(|ask| ask.received);
        let mut most = 0;
        for first in &allowed {
            let mut tokens = 0;
            for ask in allowed.iter().filter(|ask| ask.sent >= first.sent) {
                tokens += 1;
                let time = ask.received - first.sent + EARLY;
                let promised = self.burst * SECOND + self.rate * time;
                most = most.max((tokens * SECOND).saturating_sub(promised));
            }
        }
        most.div_ceil(SECOND)
    }

    /// Returns how many of the requests an ideal bucket would allow, which loses no token with a worker.
    ///
    /// It decides each request when the response came. A client that always asks never lets the bucket be full, and then the moment
    /// does not matter: tokens that a lost request did not take are there for a later one.
    pub(crate) fn ideal(&self, asks: &[Ask]) -> u64 {
        let mut asks = asks.to_vec();
        asks.sort_unstable_by_key(|ask| ask.received);
        let full = self.burst * SECOND;
        let (mut level, mut before, mut allowed) = (full, 0, 0);
        for ask in asks {
            level = full.min(level + self.rate * (ask.received - before));
            before = ask.received;
            if level >= SECOND {
                level -= SECOND;
                allowed += 1;
            }
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Ask, Envelope, SECOND};

    const ENVELOPE: Envelope = Envelope { rate: 1_000, burst: 5 };

    fn allowed(sent: u64, received: u64) -> Ask {
        Ask { sent, received, answer: Answer::Allowed }
    }

    #[test]
    fn greedy_client_is_within() {
        let mut asks: Vec<Ask> = (0..5).map(|at| allowed(at, at + 10)).collect();
        asks.extend((1..100).map(|token| allowed(token * SECOND / 1_000, token * SECOND / 1_000 + 20)));
        assert_eq!(ENVELOPE.excess(&asks), 0);
        assert_eq!(ENVELOPE.ideal(&asks), asks.len() as u64);
    }

    #[test]
    fn token_too_many_is_noticed() {
        let mut asks: Vec<Ask> = (0..6).map(|at| allowed(at, at + 10)).collect();
        assert_eq!(ENVELOPE.excess(&asks), 1);
        // Late in the log too, and a long request does not hide it.
        asks.truncate(5);
        asks.push(allowed(1, 10 * SECOND));
        asks.extend((0..6).map(|at| allowed(5 * SECOND + at, 5 * SECOND + at + 10)));
        assert_eq!(ENVELOPE.excess(&asks), 1);
    }

    #[test]
    fn ideal_bucket_counts_lost_requests() {
        let mut asks: Vec<Ask> = (0..8).map(|at| allowed(at, at)).collect();
        asks[3].answer = Answer::Lost;
        assert_eq!(ENVELOPE.ideal(&asks), 5);
        // A second without a response fills the bucket, and no more.
        asks.extend((0..8).map(|at| allowed(SECOND + at, SECOND + at)));
        assert_eq!(ENVELOPE.ideal(&asks), 10);
        // Two milliseconds bring two tokens.
        asks.extend((0..8).map(|at| allowed(SECOND, SECOND + 2_000_000 + at)));
        assert_eq!(ENVELOPE.ideal(&asks), 12);
    }
}
