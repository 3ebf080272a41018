//! The record of a run, and its figures.

/// The events of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Calls of each client, refused ones included.
    pub requests: Vec<u32>,
    /// Refused calls of each client.
    pub refused: Vec<u32>,
    /// Every sleep longer than zero, in the order of their beginnings.
    pub sleeps: Vec<Slept>,
    /// Every answer, in the order of the server's decisions.
    pub answers: Vec<Answer>,
    /// When the last client had begun.
    pub joined: f64,
    /// When the run ended.
    pub ended: f64,
}

/// A sleep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slept {
    /// When it began.
    pub at: f64,
    /// The client that slept.
    pub client: usize,
    /// How long.
    pub seconds: f64,
}

/// An answer of the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// When the server decided.
    pub at: f64,
    /// The client that asked.
    pub client: usize,
    /// Whether the server refused the call.
    pub rejected: bool,
    /// How many tokens remained.
    pub remaining: u64,
}

/// The figures that strategies are judged by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// The share of refused calls, averaged over the clients.
    pub retries: f64,
    /// The longest sleep, in seconds.
    pub longest_sleep: f64,
    /// The sample standard deviation of the clients' counts of calls since the last client joined.
    pub deviation: f64,
    /// Accepted calls.
    pub accepted: f64,
}

impl Record {
    /// Computes the figures.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let clients = self.requests.len() as f64;
        let shares = self.requests.iter().zip(&self.refused);
        let retries =
            shares.map(|(all, refused)| f64::from(*refused) / f64::from((*all).max(1))).sum::<f64>() / clients;
        let mut counts = vec![0.0; self.requests.len()];
        for answer in self.answers.iter().filter(|answer| answer.at >= self.joined) {
            counts[answer.client] += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / clients;
        let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
        Figures {
            retries,
            longest_sleep: self.sleeps.iter().map(|sleep| sleep.seconds).fold(0.0, f64::max),
            deviation: (squares / (clients - 1.0).max(1.0)).sqrt(),
            accepted: f64::from(self.requests.iter().sum::<u32>() - self.refused.iter().sum::<u32>()),
        }
    }
}
