//! Cores that take from the limits of a user, a team and an organisation in one decision.
//!
//! A *spurious* refusal is due to tokens of a call that is refused too and gives them back: without these the call would have
//! been allowed. Each core is at one step of its call: it loads a word, reads the clock, or swaps a word. The words are in cache
//! lines, which a core has alone, or shares with others, or has to fetch. A line moves to one core at a time.
//!
//! Looks find a refusal while the organisation is drained: its tokens are the bottleneck. If its cache line is the bottleneck
//! instead, most calls are allowed, and large ones lose the last swap to small ones. Then looks gain nothing: with ten times
//! the rate, 32 hammering cores get 0.35 % of spurious refusals in either order.

use crate::random::Random;

/// The words of a call: those of its user, its team and its organisation.
const LEVELS: usize = 3;

/// The costs of the steps, in nanoseconds.
const LOAD: f64 = 1.0;
const SWAP: f64 = 8.0;
const FETCH: f64 = 60.0;
const CLOCK: f64 = 25.0;

/// The order of looks and takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each limit is taken from before the next one is looked at.
    TakenAtOnce,
    /// All limits are looked at before the first is taken from, as `LimitSet` does.
    LookFirst,
}

/// Cores before an organisation that gets more calls than its limit allows.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    /// The number of cores, at most 64.
    pub cores: usize,
    /// The mean time between two calls of a core, in nanoseconds.
    pub work: f64,
    /// The number of users, of whom each call has one by chance.
    pub users: usize,
    /// The number of teams.
    pub teams: usize,
    /// The tokens that the organisation gets per nanosecond.
    pub rate: f64,
    /// The part of the calls that cost a hundred tokens. The others cost one.
    pub large: f64,
    /// The order of looks and takes.
    pub order: Order,
    /// The seed of all that is drawn.
    pub seed: u64,
}

/// The decisions of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// Allowed calls.
    pub allowed: u64,
    /// Refused calls.
    pub refused: u64,
    /// Refusals that were spurious.
    pub spurious: u64,
    /// Swaps of calls that were refused in the end, including those that gave back.
    pub writes_of_refused: u64,
}

impl Decisions {
    /// Returns the spurious refusals of a hundred decisions.
    #[must_use]
    pub fn spurious_percent(&self) -> f64 {
        100.0 * self.spurious as f64 / (self.allowed + self.refused).max(1) as f64
    }

    /// Returns the shared writes of a refused call.
    #[must_use]
    pub fn writes_per_refusal(&self) -> f64 {
        self.writes_of_refused as f64 / self.refused.max(1) as f64
    }
}

/// A word in its cache line. It is the time at which the bucket is full.
#[derive(Clone, Debug)]
struct Word {
    full_at: f64,
    /// The nanoseconds of a token, and of a burst.
    token: f64,
    burst: f64,
    /// The cores that have the line, a bit each, and whether one has it alone.
    holders: u64,
    is_alone: bool,
    busy_until: f64,
}

impl Word {
    fn new(token: f64, burst: f64) -> Self {
        Self { full_at: 0.0, token, burst: burst * token, holders: 0, is_alone: false, busy_until: 0.0 }
    }

    /// Returns how many nanoseconds too early a call of this cost is.
    fn missing(&self, seen: f64, now: f64, cost: f64) -> f64 {
        seen.max(now) + cost * self.token - now - self.burst
    }

    /// Returns whether a swap of the word that was seen succeeds.
    const fn is_still(&self, seen: f64) -> bool {
        self.full_at.to_bits() == seen.to_bits()
    }

    /// Returns when `core` is done with a load or a swap that it begins at `now`.
    fn accessed(&mut self, core: usize, now: f64, is_swap: bool) -> f64 {
        let bit = 1 << core;
        let is_here = self.holders & bit != 0 && (!is_swap || self.is_alone);
        let own = if is_swap { SWAP } else { LOAD };
        if is_here {
            return now + own;
        }
        let end = self.busy_until.max(now) + FETCH;
        self.busy_until = end;
        self.holders = if is_swap { bit } else { self.holders | bit };
        self.is_alone = is_swap;
        end + own
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begin,
    Look(usize),
    Judge,
    Swap(usize),
    LookAnew(usize),
    JudgeAnew(usize),
    LookBack(usize),
    SwapBack(usize),
}

/// The call of a core.
#[derive(Clone, Debug)]
struct Call {
    number: u64,
    step: Step,
    /// When the step is done.
    at: f64,
    words: [usize; LEVELS],
    cost: f64,
    seen: [f64; LEVELS],
    read_at: [f64; LEVELS],
    /// The levels whose tokens it has.
    has: [bool; LEVELS],
    is_refused: bool,
    writes: u64,
}

/// A refusal of which it is not known yet whether it was spurious.
#[derive(Debug)]
struct Refusal {
    /// The nanoseconds that each word lacked.
    missing: [f64; LEVELS],
    /// The calls that had tokens of these words and were not decided yet.
    open: Vec<(usize, u64)>,
}

struct Run {
    words: Vec<Word>,
    calls: Vec<Call>,
    refusals: Vec<Refusal>,
    decisions: Decisions,
}

impl Cores {
    /// Returns cores that do nothing but call, before 64 users of four teams.
    #[must_use]
    pub const fn hammering(cores: usize, order: Order) -> Self {
        Self { cores, work: 0.0, users: 64, teams: 4, rate: 0.0001, large: 0.1, order, seed: 1 }
    }

    /// Returns cores with ten microseconds of other work between two calls.
    ///
    /// They call for a thousand users of ten teams. The organisation has tokens for one of eight calls.
    #[must_use]
    pub const fn working(cores: usize, order: Order) -> Self {
        let rate = cores as f64 / 80_000.0;
        Self { cores, work: 10_000.0, users: 1_000, teams: 10, rate, large: 0.1, order, seed: 1 }
    }

    /// Runs so many decisions.
    #[must_use]
    pub fn run(&self, decisions: u64) -> Decisions {
        let mut random = Random::new(self.seed);
        let token = 1.0 / self.rate;
        // A user may use half of the organisation's rate, and a team most of it: the bursts are what limits them.
        let users = (0..self.users).map(|_| Word::new(token * 2.0, 100.0));
        let teams = (0..self.teams).map(|_| Word::new(token * 1.25, 150.0));
        let words = users.chain(teams).chain([Word::new(token, 200.0)]).collect();
        let idle = Call {
            number: 0,
            step: Step::Begin,
            at: 0.0,
            words: [0; LEVELS],
            cost: 0.0,
            seen: [0.0; LEVELS],
            read_at: [0.0; LEVELS],
            has: [false; LEVELS],
            is_refused: false,
            writes: 0,
        };
        let calls = (0..self.cores).map(|_| Call { at: 100.0 * random.uniform(), ..idle.clone() }).collect();
        let mut run = Run { words, calls, refusals: Vec::new(), decisions: Decisions::default() };
        let mut number = 0;
        while run.decisions.allowed + run.decisions.refused < decisions {
            let next = run.calls.iter().enumerate().min_by(|(_, one), (_, other)| one.at.total_cmp(&other.at));
            let Some(core) = next.map(|(core, _)| core) else { break };
            if run.calls[core].step == Step::Begin {
                number += 1;
                let user = (random.uniform() * self.users as f64) as usize;
                let words = [user, self.users + user % self.teams, self.users + self.teams];
                let cost = if random.uniform() < self.large { 100.0 } else { 1.0 };
                let at = run.calls[core].at + random.exponential(self.work) + 10.0 * random.uniform();
                run.calls[core] = Call { number, at, words, cost, ..idle.clone() };
                let first = if self.order == Order::LookFirst { Step::Look(0) } else { Step::LookAnew(0) };
                run.begin(core, first);
            } else {
                run.step(core, self.order);
            }
        }
        run.decisions
    }
}

impl Run {
    /// Begins a step of a core, and computes when it is done.
    fn begin(&mut self, core: usize, step: Step) {
        let call = &mut self.calls[core];
        call.step = step;
        call.at = match step {
            Step::Begin => call.at,
            Step::Judge | Step::JudgeAnew(_) => call.at + CLOCK,
            Step::Look(level) | Step::LookAnew(level) | Step::LookBack(level) => {
                self.words[call.words[level]].accessed(core, call.at, false)
            }
            Step::Swap(level) | Step::SwapBack(level) => self.words[call.words[level]].accessed(core, call.at, true),
        };
    }

    /// Finishes the step of a core.
    fn step(&mut self, core: usize, order: Order) {
        let call = &mut self.calls[core];
        let next = match call.step {
            Step::Begin => Step::Begin,
            Step::Look(level) => {
                call.seen[level] = self.words[call.words[level]].full_at;
                if level + 1 == LEVELS { Step::Judge } else { Step::Look(level + 1) }
            }
            Step::Judge => {
                call.read_at = [call.at; LEVELS];
                let fits =
                    |level: usize| self.words[call.words[level]].missing(call.seen[level], call.at, call.cost) <= 0.0;
                if (0..LEVELS).all(fits) { Step::Swap(0) } else { self.refused(core, 0) }
            }
            Step::LookAnew(level) => {
                call.seen[level] = self.words[call.words[level]].full_at;
                Step::JudgeAnew(level)
            }
            Step::JudgeAnew(level) => {
                call.read_at[level] = call.at;
                let word = &self.words[call.words[level]];
                if word.missing(call.seen[level], call.at, call.cost) <= 0.0 {
                    Step::Swap(level)
                } else {
                    self.refused(core, level)
                }
            }
            Step::Swap(level) => {
                let word = &mut self.words[call.words[level]];
                if word.is_still(call.seen[level]) {
                    word.full_at = call.seen[level].max(call.read_at[level]) + call.cost * word.token;
                    call.has[level] = true;
                    call.writes += 1;
                    match (level + 1 == LEVELS, order) {
                        (true, _) => self.allowed(core),
                        (_, Order::LookFirst) => Step::Swap(level + 1),
                        (_, Order::TakenAtOnce) => Step::LookAnew(level + 1),
                    }
                } else {
                    Step::LookAnew(level)
                }
            }
            Step::LookBack(level) => {
                call.seen[level] = self.words[call.words[level]].full_at;
                // The clock is read here too, which takes as long as in a take.
                call.at += CLOCK;
                Step::SwapBack(level)
            }
            Step::SwapBack(level) => {
                let word = &mut self.words[call.words[level]];
                if word.is_still(call.seen[level]) {
                    let back = (call.cost * word.token - (call.at - call.read_at[level])).max(0.0);
                    word.full_at -= back.min((word.full_at - call.at).max(0.0));
                    call.has[level] = false;
                    self.decisions.writes_of_refused += 1;
                    if level == 0 { Step::Begin } else { Step::LookBack(level - 1) }
                } else {
                    Step::LookBack(level)
                }
            }
        };
        self.begin(core, next);
    }

    fn allowed(&mut self, core: usize) -> Step {
        self.decisions.allowed += 1;
        self.decided(core, false);
        self.calls[core].has = [false; LEVELS];
        Step::Begin
    }

    /// Refuses a call that has taken of the levels before `level`.
    fn refused(&mut self, core: usize, level: usize) -> Step {
        self.decisions.refused += 1;
        self.decisions.writes_of_refused += self.calls[core].writes;
        let call = &self.calls[core];
        let mut refusal = Refusal { missing: [0.0; LEVELS], open: Vec::new() };
        for of in 0..LEVELS {
            let word = &self.words[call.words[of]];
            let mut missing = word.missing(word.full_at, call.at, call.cost);
            if call.has[of] {
                missing = 0.0;
            }
            for other in self.calls.iter().filter(|other| other.number != call.number) {
                // The words of different levels are different.
                if !other.has[of] || other.words[of] != call.words[of] {
                    continue;
                }
                if other.is_refused {
                    missing -= other.cost * word.token;
                } else {
                    refusal.open.push((of, other.number));
                }
            }
            refusal.missing[of] = missing;
        }
        self.refusals.push(refusal);
        self.calls[core].is_refused = true;
        self.decided(core, true);
        if level == 0 { Step::Begin } else { Step::LookBack(level - 1) }
    }

    /// Settles the refusals that depend on this call.
    fn decided(&mut self, core: usize, is_refused: bool) {
        let call = &self.calls[core];
        let words = &self.words;
        let mut spurious = 0;
        self.refusals.retain_mut(|Refusal { missing, open }| {
            open.retain(|&(of, number)| {
                if number == call.number && is_refused {
                    missing[of] -= call.cost * words[call.words[of]].token;
                }
                number != call.number
            });
            if open.is_empty() && missing.iter().all(|missing| *missing <= 0.0) {
                spurious += 1;
            }
            !open.is_empty()
        });
        self.decisions.spurious += spurious;
    }
}
