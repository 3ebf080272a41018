//! The bound on what a limit admits, held against a log over every interval.

use crate::admission::Admission;
use std::fmt;
use std::time::Duration;

/// The bound `burst + rate · (t + allowance)` for any interval of length t.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    burst: u64,
    tokens: u64,
    /// The time in which `tokens` refill, in µs.
    window: u64,
}

/// The interval that comes closest to the bound, or exceeds it by most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// Where the interval begins, in µs since 1970.
    pub from: u64,
    /// Where it ends.
    pub until: u64,
    /// The tokens admitted in it.
    pub admitted: u64,
    /// The smallest burst with which the bound would hold over every interval.
    pub burst_needed: u64,
}

impl Envelope {
    /// A limit of `tokens` per `window` with `burst`.
    ///
    /// # Panics
    ///
    /// On a window of less than a microsecond.
    #[must_use]
    pub fn new(burst: u64, tokens: u64, window: Duration) -> Self {
        let window = window.as_micros() as u64;
        assert!(window > 0, "a window of {window} µs refills no finite number of tokens");
        Self { burst, tokens, window }
    }

    /// Returns the tokens that `time` refills, rounded up.
    #[must_use]
    pub fn refilled(&self, time: Duration) -> u64 {
        (u128::from(self.tokens) * time.as_micros()).div_ceil(u128::from(self.window)) as u64
    }

    /// Returns the tokens by which the worst interval exceeds burst + rate · (t + 1 µs).
    ///
    /// The microsecond is the tick of the server's clock.
    #[must_use]
    pub fn excess(&self, admissions: &[Admission]) -> u64 {
        self.peak(admissions).map_or(0, |peak| peak.burst_needed.saturating_sub(self.burst))
    }

    /// Finds the worst of all intervals, exactly, in n log n; `None` without admissions.
    ///
    /// An interval `[a, b]` counts the admissions that it contains whole: begun at a or later, ended by b.
    #[must_use]
    pub fn peak(&self, admissions: &[Admission]) -> Option<Peak> {
        let mut ends: Vec<u64> = admissions.iter().map(|admission| admission.ended).collect();
        ends.sort_unstable();
        ends.dedup();
        let mut latest_first = admissions.to_vec();
        latest_first.sort_unstable_by_key(|admission| std::cmp::Reverse(admission.begun));
        let mut sums = PrefixSums::new(&ends, self.tokens);
        let mut worst: Option<(i128, u64, u64)> = None;
        for (number, admission) in latest_first.iter().enumerate() {
            let end = ends.partition_point(|end| *end < admission.ended);
            sums.add(end, i128::from(admission.tokens) * i128::from(self.window));
            if latest_first.get(number + 1).is_some_and(|next| next.begun == admission.begun) {
                continue;
            }
            let from = admission.begun;
            let first = ends.partition_point(|end| *end < from);
            // The prefix sums begin at the end before `first`; the interval begins at `from`.
            let before = if first == 0 { ends[0] } else { ends[first - 1] };
            let shift = i128::from(self.tokens) * (i128::from(from) - i128::from(before));
            let (best, at) = sums.best_from(first);
            let above = best + shift;
            if worst.is_none_or(|(most, ..)| above > most) {
                worst = Some((above, from, ends[at]));
            }
        }
        worst.map(|(above, from, until)| {
            let inside = admissions.iter().filter(|one| one.begun >= from && one.ended <= until);
            let tick = i128::from(self.tokens);
            let needed = (above - tick).max(0);
            let window = i128::from(self.window);
            Peak {
                from,
                until,
                admitted: inside.map(|one| u64::from(one.tokens)).sum(),
                burst_needed: ((needed + window - 1) / window) as u64,
            }
        })
    }

    /// Returns the share of the refill between two instants that was used.
    ///
    /// Admissions count where they ended.
    #[must_use]
    pub fn used(&self, admissions: &[Admission], from: u64, until: u64) -> f64 {
        let used: u64 =
            admissions.iter().filter(|one| (from..until).contains(&one.ended)).map(|one| u64::from(one.tokens)).sum();
        let refilled = (until - from) as f64 * self.tokens as f64 / self.window as f64;
        used as f64 / refilled
    }
}

impl fmt::Display for Peak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = (self.until - self.from) as f64 / 1e6;
        write!(f, "{} admitted in {seconds:.6} s, for which a burst of {} is needed", self.admitted, self.burst_needed)
    }
}

/// Values at positions, of which the largest prefix sum of any suffix can be asked; a tree.
struct PrefixSums {
    leaves: usize,
    /// Of each node the sum of its leaves, the largest of their prefix sums and where that ends.
    nodes: Vec<Node>,
}

#[derive(Clone, Copy)]
struct Node {
    sum: i128,
    best: i128,
    at: usize,
}

impl Node {
    /// Nothing: its best is below any other, far enough from the smallest number that sums do not overflow.
    const EMPTY: Self = Self { sum: 0, best: i128::MIN / 4, at: 0 };

    fn then(self, right: Self) -> Self {
        let beyond = self.sum + right.best;
        let (best, at) = if beyond > self.best { (beyond, right.at) } else { (self.best, self.at) };
        Self { sum: self.sum + right.sum, best, at }
    }
}

impl PrefixSums {
    /// Starts with what refills between one end and the next, as a negative number.
    fn new(ends: &[u64], rate: u64) -> Self {
        let leaves = ends.len().next_power_of_two();
        let mut nodes = vec![Node::EMPTY; 2 * leaves];
        for (at, end) in ends.iter().enumerate() {
            let gap = if at == 0 { 0 } else { end - ends[at - 1] };
            let refill = -i128::from(gap) * i128::from(rate);
            nodes[leaves + at] = Node { sum: refill, best: refill, at };
        }
        for parent in (1..leaves).rev() {
            nodes[parent] = nodes[2 * parent].then(nodes[2 * parent + 1]);
        }
        Self { leaves, nodes }
    }

    fn add(&mut self, at: usize, value: i128) {
        let mut node = self.leaves + at;
        self.nodes[node].sum += value;
        self.nodes[node].best += value;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node].then(self.nodes[2 * node + 1]);
        }
    }

    /// The largest sum of values from `first` on, and where it ends.
    fn best_from(&self, first: usize) -> (i128, usize) {
        let mut node = self.leaves + first;
        let mut total = self.nodes[node];
        while node > 1 {
            if node.is_multiple_of(2) {
                total = total.then(self.nodes[node + 1]);
            }
            node /= 2;
        }
        (total.best, total.at)
    }
}
