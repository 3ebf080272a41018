//! The server behind the limit.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How a server shares its capacity among calls.
#[derive(Clone, Copy, Debug)]
pub enum Discipline {
    /// As many calls run as there are workers. The others wait in FIFO order.
    Workers,
    /// All calls run and share the cores. A call uses at most one core.
    Sharing,
    /// All calls run and share a resource, such as a lock or a disk, that slows down under load.
    ///
    /// Each call beyond its size costs `loss`.
    Knee {
        /// With n calls beyond the size, throughput is the peak divided by 1 + loss · n.
        loss: f64,
    },
}

/// The power of a server, which changes in a drop, a pause or a slow release.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// The number of workers or cores, or the calls at the knee.
    pub size: f64,
    /// The work per second on each of them. 0 stops the server.
    pub speed: f64,
}

/// A server: calls with an amount of work each, in seconds at speed 1.
///
/// All running calls progress at the same rate, so they share one clock of *work*: a call that starts at w with x
/// seconds of work ends when the clock reads w + x.
#[derive(Debug)]
pub struct Server {
    discipline: Discipline,
    power: Power,
    now: f64,
    work_clock: f64,
    /// The reading of the work clock at which each running call ends. Positive floats sort like their bits.
    running: BinaryHeap<Reverse<(u64, usize)>>,
    waiting: VecDeque<(usize, f64)>,
}

impl Server {
    /// Creates an idle server.
    #[must_use]
    pub fn new(discipline: Discipline, power: Power) -> Self {
        let (running, waiting) = (BinaryHeap::new(), VecDeque::new());
        Self { discipline, power, now: 0.0, work_clock: 0.0, running, waiting }
    }

    /// Returns the work per second on each running call.
    fn rate(&self) -> f64 {
        let (calls, Power { size, speed }) = (self.running.len() as f64, self.power);
        speed
            * match self.discipline {
                Discipline::Workers => 1.0,
                Discipline::Sharing => (size / calls).min(1.0),
                Discipline::Knee { loss } => (size / (calls * (1.0 + loss * (calls - size).max(0.0)))).min(1.0),
            }
    }

    fn advance(&mut self, now: f64) {
        if !self.running.is_empty() {
            self.work_clock += (now - self.now) * self.rate();
        }
        self.now = now;
    }

    fn run(&mut self, call: usize, work: f64) {
        self.running.push(Reverse(((self.work_clock + work).to_bits(), call)));
    }

    fn run_waiting(&mut self) {
        while (self.running.len() as f64) < self.power.size {
            let Some((call, work)) = self.waiting.pop_front() else { return };
            self.run(call, work);
        }
    }

    /// Adds a call.
    pub fn start(&mut self, now: f64, call: usize, work: f64) {
        self.advance(now);
        if matches!(self.discipline, Discipline::Workers) && self.running.len() as f64 >= self.power.size {
            self.waiting.push_back((call, work));
        } else {
            self.run(call, work);
        }
    }

    /// Returns when the next call ends if nothing else happens before, or infinity if none does.
    #[must_use]
    pub fn next_end(&self) -> f64 {
        match self.running.peek() {
            Some(Reverse((bits, _))) if self.power.speed > 0.0 => {
                self.now + (f64::from_bits(*bits) - self.work_clock).max(0.0) / self.rate()
            }
            _ => f64::INFINITY,
        }
    }

    /// Ends the next call, and returns it.
    pub fn end(&mut self, now: f64) -> Option<usize> {
        self.advance(now);
        let Reverse((bits, call)) = self.running.pop()?;
        // Removes the rounding error of its work.
        self.work_clock = self.work_clock.max(f64::from_bits(bits));
        self.run_waiting();
        Some(call)
    }

    /// Removes a call before its end, because its client gave up or its deadline passed.
    ///
    /// The cost is linear in the number of calls.
    pub fn remove(&mut self, now: f64, call: usize) {
        self.advance(now);
        self.waiting.retain(|(waiting, _)| *waiting != call);
        self.running.retain(|Reverse((_, running))| *running != call);
        self.run_waiting();
    }

    /// Changes the power. A removed worker finishes its call first.
    pub fn change(&mut self, now: f64, power: Power) {
        self.advance(now);
        self.power = power;
        self.run_waiting();
    }
}
