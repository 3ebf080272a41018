//! Calls that wait for a tree of guarantees, beside a model in whole tokens.

use crate::models::alarms::{Flag, Timer};
use crate::models::cases::cases;
use crate::models::tick_bucket::Bucket;
use damper::AcquireFuture;
use damper::time::Seed;
use damper::{Clock, ManualClock, Plan, QuotaTree, TreeRefusal, TreeReservation};
use proptest::prelude::*;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Ticks per second. A token takes a whole number of ticks.
const FREQUENCY: u64 = 1_000;

const TEAMS: usize = 3;

/// More calls in flight would reach the bound on what is unsettled, and give back less.
const MOST_IN_FLIGHT: usize = 3;
const UNSETTLED: f64 = 4.0;

/// A clock that advances by `step` ticks whenever it is read.
#[derive(Clone, Debug)]
struct Restless {
    clock: Arc<ManualClock>,
    step: u64,
}

impl Clock for Restless {
    fn now(&self) -> u64 {
        self.clock.advance_ticks(self.step);
        self.clock.now()
    }

    fn frequency(&self) -> u64 {
        Clock::frequency(&*self.clock)
    }
}

type Tree = QuotaTree<u64, 2, 1, Restless, Seed>;
type Call = TreeReservation<Arc<Tree>>;

/// The guarantees of the teams, and what the organisation has.
#[derive(Clone, Debug)]
struct Model {
    teams: [Bucket; TEAMS],
    organisation: Bucket,
    /// The tokens that a call beyond its guarantee leaves.
    kept: i64,
}

impl Model {
    fn is_guaranteed(&self, team: usize, cost: u32) -> bool {
        self.teams[team].allows(cost)
    }

    fn allows(&self, team: usize, cost: u32) -> bool {
        let kept = if self.is_guaranteed(team, cost) { 0 } else { self.kept };
        self.organisation.level >= (i64::from(cost) + kept) * self.organisation.token
    }

    fn is_hopeless(&self, team: usize, cost: u32) -> bool {
        let most = self.organisation.burst;
        let borrows = i64::from(cost) > self.teams[team].burst;
        i64::from(cost) > if borrows { most - self.kept } else { most }
    }

    fn pass(&mut self, ticks: u64) {
        self.teams.iter_mut().chain([&mut self.organisation]).for_each(|bucket| bucket.pass(ticks as i64));
    }
}

fn model() -> impl Strategy<Value = Model> {
    let token = || prop_oneof![Just(10i64), Just(50), Just(200)];
    let team = move || (token(), 1..6i64).prop_map(|(token, burst)| Bucket::new(token, burst, 2));
    let organisation = (token(), prop_oneof![Just(4i64), Just(8)], prop_oneof![Just(0i64), Just(1), Just(2)]);
    ([team(), team()], organisation).prop_map(|([one, other], (token, burst, quarters))| Model {
        // The last team is guaranteed nothing.
        teams: [one, other, Bucket::new(1, 0, 0)],
        organisation: Bucket::new(token, burst, 2),
        kept: burst / 4 * quarters,
    })
}

/// A call that waits.
struct Waiting {
    team: usize,
    cost: u32,
    /// The earliest tick at which its time may be over.
    expiry: Option<u64>,
    /// Whether an older call of its team held it up at the last poll, so that it stands in that line alone.
    is_held_up: bool,
    future: Pin<Box<AcquireFuture<Arc<Tree>, Timer>>>,
    woken: Arc<Flag>,
}

impl Waiting {
    fn is_over(&self, now: u64) -> bool {
        self.expiry.is_some_and(|expiry| expiry <= now)
    }
}

/// A call that was served, with its team and its cost.
struct Served {
    team: usize,
    cost: u32,
    call: Call,
}

/// Callers of a tree beside its model. Those that wait are in the order of their arrival.
struct Callers {
    timer: Timer,
    tree: Arc<Tree>,
    plans: Vec<Plan>,
    /// `None` on a clock that advances while it is read, of which no model knows the time.
    model: Option<Model>,
    /// The bursts of the teams.
    guarantees: [i64; TEAMS],
    hopeless: Box<dyn Fn(usize, u32) -> bool>,
    polls_newest_first: bool,
    waiting: Vec<Waiting>,
    served: Vec<Served>,
}

impl Callers {
    fn new(model: Model, step: u64, polls_newest_first: bool) -> Self {
        let timer = Timer::new(FREQUENCY);
        let kept = f64::from(model.kept as u32) / f64::from(model.organisation.burst as u32);
        let builder = QuotaTree::<u64, 2, 1>::builder(["team", "organisation"], ["requests"]).guarantees(0, kept);
        let builder = builder.unsettled(UNSETTLED).clock(Restless { clock: Arc::clone(&timer.clock), step });
        let plan = |bucket: &Bucket| Plan::new(bucket.quota()).unwrap();
        let mut plans: Vec<_> = model.teams[..TEAMS - 1].iter().map(plan).collect();
        plans.extend([Plan::NOTHING, plan(&model.organisation)]);
        let of_start = model.clone();
        Self {
            tree: Arc::new(builder.build().unwrap()),
            timer,
            plans,
            guarantees: model.teams.map(|team| team.burst),
            hopeless: Box::new(move |team, cost| of_start.is_hopeless(team, cost)),
            model: (step == 0).then_some(model),
            polls_newest_first,
            waiting: Vec::new(),
            served: Vec::new(),
        }
    }

    /// Asserts that a call of the team that is served now overtakes none of the first calls that wait.
    ///
    /// One within its guarantee leaves that to older calls of its team. One that borrows comes after all older calls, except
    /// those in the line of a guarantee alone.
    fn assert_overtakes_none(&self, team: usize, is_borrowed: bool, first: usize) {
        let now = self.timer.now();
        for older in self.waiting[..first].iter().filter(|older| !older.is_over(now)) {
            let waits_for_guarantee = older.team == team && i64::from(older.cost) <= self.guarantees[team];
            assert!(!waits_for_guarantee, "a call overtakes one of the same team");
            let is_overtaken = is_borrowed && !older.is_held_up;
            assert!(!is_overtaken, "a call of team {team} borrows before an older one of team {}", older.team);
        }
    }

    /// Returns whether a call finds an older one of its team in the line of the guarantee.
    ///
    /// That has to wait there if the guarantee can have its cost, or if it is held up itself.
    fn is_held_up(&self, index: usize) -> bool {
        let team = self.waiting[index].team;
        let older = self.waiting[..index].iter().filter(|older| older.team == team && !older.is_over(self.timer.now()));
        older.into_iter().any(|older| older.is_held_up || i64::from(older.cost) <= self.guarantees[team])
    }

    fn begin(&mut self, team: usize, cost: u32, call: Call, first: usize) {
        let is_borrowed = call.allowed().is_borrowed();
        self.assert_overtakes_none(team, is_borrowed, first);
        if let Some(model) = &mut self.model {
            assert!(model.allows(team, cost), "beyond the envelope of the organisation");
            assert_eq!(is_borrowed, !model.is_guaranteed(team, cost));
            model.organisation.take(cost);
            if !is_borrowed {
                model.teams[team].take(cost);
            }
        }
        self.served.push(Served { team, cost, call });
        if self.served.len() > MOST_IN_FLIGHT {
            self.served.remove(0);
        }
    }

    /// Polls the calls that were woken, until none is, and compares.
    fn poll_woken(&mut self) {
        loop {
            let mut all = 0..self.waiting.len();
            let is_woken = |&index: &usize| self.waiting[index].woken.take();
            let Some(index) = (if self.polls_newest_first { all.rfind(is_woken) } else { all.find(is_woken) }) else {
                break;
            };
            let call = &mut self.waiting[index];
            let waker = Waker::from(Arc::clone(&call.woken));
            let Poll::Ready(result) = call.future.as_mut().poll(&mut Context::from_waker(&waker)) else {
                self.waiting[index].is_held_up = self.is_held_up(index);
                continue;
            };
            let Waiting { team, cost, .. } = self.waiting[index];
            match result {
                Ok(call) => {
                    // It is still among those that wait, but not among the older ones.
                    self.begin(team, cost, call, index);
                }
                Err(TreeRefusal::Denied(denied)) if denied.denied().exceeds_burst() => {
                    assert!((self.hopeless)(team, cost), "{denied}");
                }
                Err(refusal) => assert!(self.waiting[index].is_over(self.timer.now()), "{refusal}"),
            }
            self.waiting.remove(index);
        }
        self.assert_each_wait_has_a_reason();
        assert_eq!(self.tree.waiting() as usize, self.waiting.len());
    }

    /// Asserts that the oldest call of all, and the oldest of each team with its guarantee, lack tokens.
    fn assert_each_wait_has_a_reason(&self) {
        let Some(model) = &self.model else { return };
        for (index, call) in self.waiting.iter().enumerate() {
            let (team, cost) = (call.team, call.cost);
            assert!(!call.is_over(self.timer.now()), "a call waits beyond its time");
            let is_first_of_team = self.waiting[..index].iter().all(|older| older.team != team);
            let may_ask = index == 0 || is_first_of_team && model.is_guaranteed(team, cost);
            assert!(!may_ask || !model.allows(team, cost), "a call of {cost} of team {team} has its tokens and waits");
        }
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Pass(ticks) => self.pass(self.timer.now() + ticks),
            Act::Arrive(team, cost, longest) => {
                let path = [(&(team as u64), [&self.plans[team]]), (&9, [&self.plans[TEAMS]])];
                let acquire = self.tree.acquire_owned(&path, [cost]);
                let acquire = match longest {
                    Some(longest) => acquire.within(Duration::from_millis(longest.into())),
                    None => acquire,
                };
                let expiry = longest.map(|longest| self.timer.now() + u64::from(longest));
                let future = Box::pin(acquire.sleeping_by(self.timer.clone()));
                let woken = Arc::new(Flag::default());
                Waker::from(Arc::clone(&woken)).wake();
                self.waiting.push(Waiting { team, cost, expiry, is_held_up: false, future, woken });
            }
            Act::Reserve(team, cost) => {
                let path = [(&(team as u64), [&self.plans[team]]), (&9, [&self.plans[TEAMS]])];
                match self.tree.reserve_owned(&path, [cost]) {
                    Ok(call) => self.begin(team, cost, call, self.waiting.len()),
                    Err(denied) if denied.is_behind_waiters() => assert!(!self.waiting.is_empty()),
                    Err(denied) => {
                        assert!(self.model.as_ref().is_none_or(|model| !model.allows(team, cost)), "{denied}");
                    }
                }
            }
            Act::Settle(which, used) if !self.served.is_empty() => {
                let Served { team, cost, call } = self.served.swap_remove(which % self.served.len());
                let is_borrowed = call.allowed().is_borrowed();
                call.settle([used]);
                if let Some(model) = &mut self.model {
                    model.organisation.settle(cost, used);
                    if !is_borrowed {
                        model.teams[team].settle(cost, used);
                    }
                }
            }
            Act::Drop(which) if !self.served.is_empty() => {
                self.served.swap_remove(which % self.served.len());
            }
            Act::Cancel(which) if !self.waiting.is_empty() => {
                drop(self.waiting.remove(which % self.waiting.len()));
            }
            Act::Settle(..) | Act::Drop(_) | Act::Cancel(_) => {}
        }
        self.poll_woken();
    }

    fn pass(&mut self, target: u64) {
        while self.timer.now() < target {
            let before = self.timer.now();
            self.timer.advance_towards(target);
            if let Some(model) = &mut self.model {
                model.pass(self.timer.now() - before);
            }
            self.poll_woken();
        }
    }

    /// Serves all calls that wait.
    fn finish(&mut self) {
        let deadline = self.timer.now() + 1_000 * FREQUENCY;
        while !self.waiting.is_empty() {
            self.served.clear();
            assert!(self.timer.now() < deadline, "{} calls wait for ever", self.waiting.len());
            self.pass(self.timer.now() + 50);
        }
    }
}

#[derive(Clone, Debug)]
enum Act {
    Pass(u64),
    /// A team, a cost, and the longest wait in milliseconds.
    Arrive(usize, u32, Option<u16>),
    /// Asks without waiting.
    Reserve(usize, u32),
    /// Settles one of the calls in flight.
    Settle(usize, u32),
    /// Drops one of the calls in flight.
    Drop(usize),
    /// Drops one of the calls that wait.
    Cancel(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let cost = || prop_oneof![4 => 1..3u32, 2 => 1..9u32];
    let longest = prop_oneof![2 => Just(None), 1 => (0..2_000u16).prop_map(Some)];
    prop_oneof![
        3 => (0..400u64).prop_map(Act::Pass),
        6 => (0..TEAMS, cost(), longest).prop_map(|(team, cost, longest)| Act::Arrive(team, cost, longest)),
        1 => (0..TEAMS, cost()).prop_map(|(team, cost)| Act::Reserve(team, cost)),
        2 => (any::<usize>(), 0..9u32).prop_map(|(which, used)| Act::Settle(which, used)),
        1 => any::<usize>().prop_map(Act::Drop),
        1 => any::<usize>().prop_map(Act::Cancel),
    ]
}

fn compare(model: Model, step: u64, polls_newest_first: bool, acts: &[Act]) {
    let mut callers = Callers::new(model, step, polls_newest_first);
    for act in acts {
        callers.act(act);
    }
    callers.finish();
}

proptest! {
    #![proptest_config(cases(300))]

    /// A call within its guarantee waits for tokens alone, and one that borrows waits for its turn.
    ///
    /// In the end all are served.
    // CLAIM: QuotaTree
    #[test]
    fn guaranteed_and_borrowing_calls_are_served_in_their_order(model in model(), newest_first: bool, acts in prop::collection::vec(act(), 1..60)) {
        compare(model, 0, newest_first, &acts);
    }

    /// The order is the same on a clock that advances in the middle of a decision.
    #[test]
    fn order_holds_while_the_clock_advances_at_each_read(model in model(), step in 1..3u64, newest_first: bool, acts in prop::collection::vec(act(), 1..40)) {
        compare(model, step, newest_first, &acts);
    }
}

/// A settlement gives back what the call behind a borrower is guaranteed.
#[test]
fn settlement_wakes_a_guaranteed_call_behind_a_borrower() {
    let model = Model {
        teams: [Bucket::new(10, 2, 2), Bucket::new(10, 1, 2), Bucket::new(1, 0, 0)],
        organisation: Bucket::new(200, 4, 2),
        kept: 0,
    };
    let (borrower, guaranteed) = (Act::Arrive(2, 4, None), Act::Arrive(0, 2, None));
    let acts = [Act::Reserve(1, 1), Act::Reserve(2, 3), borrower, guaranteed, Act::Settle(1, 0), Act::Pass(10)];
    compare(model, 0, false, &acts);
}
