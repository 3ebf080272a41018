//! Calls that wait for a tree: in order at a shared bucket, and never for a key that they do not share.

use crate::models::alarms::{Flag, Timer};
use crate::models::cases::cases;
use damper::AcquireFuture;
use damper::time::Seed;
use damper::{Deadline, ManualClock, Plan, Quota, QuotaTree, TreeRefusal, TreeReservation};
use proptest::prelude::*;
use std::collections::HashSet;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

/// Ticks per second. A wait is exact to 64 ns, which is less than a tick.
const FREQUENCY: u64 = 1_000;

type Tree = QuotaTree<u64, 2, 2, Arc<ManualClock>, Seed>;
type Path = [(&'static u64, [&'static Plan; 2]); 2];
type Call = TreeReservation<Arc<Tree>>;

const KEYS: [u64; 4] = [0, 1, 2, 3];

fn plan(quota: Quota) -> Plan {
    Plan::new(quota).unwrap()
}

/// The paths of three users in two organisations.
///
/// A user is a member of both. The last user has no limit on requests.
static PATHS: LazyLock<[[Path; 2]; 3]> = LazyLock::new(|| {
    let leaked = |quota| -> &'static Plan { Box::leak(Box::new(plan(quota))) };
    let user = [leaked(Quota::per_second(4)), leaked(Quota::per_second(30).burst(40))];
    let free = [&Plan::UNLIMITED, leaked(Quota::per_second(25))];
    let organisation = [leaked(Quota::per_second(6)), leaked(Quota::per_second(50).burst(60))];
    [0, 1, 2].map(|name| {
        let plans = if name == 2 { free } else { user };
        [2, 3].map(|organisation_name| [(&KEYS[name], plans), (&KEYS[organisation_name], organisation)])
    })
});

fn tree(timer: &Timer, places: u16) -> Arc<Tree> {
    let builder = QuotaTree::<u64, 2, 2>::builder(["user", "organisation"], ["requests", "tokens"]);
    Arc::new(builder.capacities([64, 16]).queue(places).clock(Arc::clone(&timer.clock)).build().unwrap())
}

/// A bucket: its level, its key and its dimension.
type Bucket = (usize, u64, usize);

/// Returns the buckets from which a call takes.
fn buckets(path: &Path, costs: [u32; 2]) -> HashSet<Bucket> {
    let all = path.iter().enumerate().flat_map(|(level, (key, plans))| {
        (0..2)
            .filter(move |&dimension| costs[dimension] > 0 && !plans[dimension].is_unlimited())
            .map(move |dimension| (level, **key, dimension))
    });
    all.collect()
}

/// A call that waits.
struct Waiting {
    path: &'static Path,
    costs: [u32; 2],
    expiry: Option<u64>,
    /// The buckets that refused it at some time, also if it did not ask then.
    refusing: HashSet<Bucket>,
    /// Buckets in whose lines it stands for sure.
    ///
    /// They refused it when it asked, and no earlier level held it up since.
    standing: HashSet<Bucket>,
    future: Pin<Box<AcquireFuture<Arc<Tree>, Timer>>>,
    woken: Arc<Flag>,
}

impl Waiting {
    /// Returns the buckets that refuse the call now.
    fn refused_by(&self, tree: &Tree) -> HashSet<Bucket> {
        let usages = tree.peek(self.path);
        let mut own = buckets(self.path, self.costs);
        own.retain(|&(level, _, dimension)| {
            let usage = usages[level][dimension];
            usage.remaining() < self.costs[dimension] || usage.debt() > 0
        });
        own
    }

    fn is_over(&self, now: u64) -> bool {
        self.expiry.is_some_and(|expiry| expiry <= now)
    }

    /// Notes where the call stands, after a poll, if no call can hold it up but `older` ones.
    fn note(&mut self, older: &HashSet<Bucket>, tree: &Tree) {
        let own = buckets(self.path, self.costs);
        let held_up: HashSet<Bucket> = own.intersection(older).copied().collect();
        let refused = self.refused_by(tree);
        let at = if held_up.is_empty() { &refused } else { &held_up };
        let first = at.iter().map(|&(level, ..)| level).min().unwrap_or(0);
        self.standing.retain(|&(level, ..)| level <= first);
        if held_up.is_empty() && refused.len() == 1 {
            self.standing.extend(&refused);
        }
        self.refusing.extend(refused);
    }
}

/// Callers of a tree. Those that wait are in the order of their arrival.
struct Callers {
    timer: Timer,
    tree: Arc<Tree>,
    waiting: Vec<Waiting>,
    calling: Vec<Call>,
}

impl Callers {
    fn new(places: u16) -> Self {
        let timer = Timer::new(FREQUENCY);
        Self { tree: tree(&timer, places), timer, waiting: Vec::new(), calling: Vec::new() }
    }

    fn arrive(&mut self, path: &'static Path, costs: [u32; 2], longest: Option<u64>) {
        let acquire = self.tree.acquire_owned(path, costs);
        let acquire = match longest {
            Some(longest) => acquire.within(Duration::from_millis(longest)),
            None => acquire,
        };
        let expiry = longest.map(|longest| self.timer.now() + longest);
        let future = Box::pin(acquire.sleeping_by(self.timer.clone()));
        let woken = Arc::new(Flag::default());
        Waker::from(Arc::clone(&woken)).wake();
        let (refusing, standing) = (HashSet::new(), HashSet::new());
        self.waiting.push(Waiting { path, costs, expiry, refusing, standing, future, woken });
        self.poll_woken();
    }

    /// Polls the calls that were woken, until none is.
    fn poll_woken(&mut self) {
        while let Some(index) = self.waiting.iter().position(|call| call.woken.take()) {
            let call = &mut self.waiting[index];
            let waker = Waker::from(Arc::clone(&call.woken));
            let Poll::Ready(result) = call.future.as_mut().poll(&mut Context::from_waker(&waker)) else {
                let (older, call) = self.waiting.split_at_mut(index);
                let older = older.iter().flat_map(|older| buckets(older.path, older.costs)).collect();
                call[0].note(&older, &self.tree);
                continue;
            };
            let call = self.waiting.remove(index);
            match result {
                Ok(served) => {
                    self.assert_overtakes_none(&buckets(call.path, call.costs), index);
                    self.calling.push(served);
                }
                Err(TreeRefusal::Denied(denied)) if denied.denied().exceeds_burst() => {}
                Err(TreeRefusal::QueueFull) => {}
                Err(refusal) => assert!(call.expiry.is_some_and(|expiry| expiry <= self.timer.now()), "{refusal}"),
            }
        }
        self.assert_each_wait_has_a_reason();
    }

    /// Asserts that a call that takes from these buckets overtakes none of the first calls that wait.
    ///
    /// Neither one whose buckets it shares, nor one that stands in the line of a bucket.
    fn assert_overtakes_none(&self, own: &HashSet<Bucket>, first: usize) {
        let now = self.timer.now();
        for older in self.waiting[..first].iter().filter(|older| !older.is_over(now)) {
            let all = buckets(older.path, older.costs);
            assert!(!all.is_subset(own), "{own:?} overtakes {all:?}");
            assert!(older.standing.is_disjoint(own), "{own:?} overtakes at {:?}", older.standing);
        }
    }

    /// Asserts that each call waits at a bucket that refuses it, or has refused or holds up an older call.
    fn assert_each_wait_has_a_reason(&mut self) {
        let mut held_up: HashSet<Bucket> = HashSet::new();
        for call in &mut self.waiting {
            assert!(!call.is_over(self.timer.now()), "its time is over");
            let refused = call.refused_by(&self.tree);
            let mut own = buckets(call.path, call.costs);
            own.retain(|bucket| refused.contains(bucket) || held_up.contains(bucket));
            assert!(!own.is_empty(), "{:?} has its tokens and waits", call.costs);
            call.refusing.extend(refused);
            held_up.extend(own);
            held_up.extend(&call.refusing);
        }
        assert_eq!(self.tree.waiting() as usize, self.waiting.len());
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Pass(ticks) => {
                let target = self.timer.now() + ticks;
                while self.timer.now() < target {
                    self.timer.advance_towards(target);
                    self.poll_woken();
                }
            }
            Act::Arrive(user, organisation, costs, longest) => {
                self.arrive(&PATHS[user][organisation], costs, longest.map(u64::from));
            }
            Act::Reserve(user, organisation, costs) => {
                let path = &PATHS[user][organisation];
                let answer = self.tree.reserve_owned(path, costs);
                let own = buckets(path, costs);
                let has_waiters = self.waiting.iter().any(|call| buckets(call.path, call.costs).is_subset(&own));
                match answer {
                    Ok(call) => {
                        self.assert_overtakes_none(&own, self.waiting.len());
                        self.calling.push(call);
                    }
                    Err(denied) => assert!(denied.is_behind_waiters() || !has_waiters, "{denied}"),
                }
            }
            Act::Settle(which, used) if !self.calling.is_empty() => {
                let call = self.calling.swap_remove(which % self.calling.len());
                call.settle(used);
                self.poll_woken();
            }
            Act::Drop(which) if !self.calling.is_empty() => {
                drop(self.calling.swap_remove(which % self.calling.len()));
            }
            Act::Cancel(which) if !self.waiting.is_empty() => {
                drop(self.waiting.remove(which % self.waiting.len()));
                self.poll_woken();
            }
            Act::Settle(..) | Act::Drop(_) | Act::Cancel(_) => {}
        }
    }

    /// Serves all calls that wait.
    fn finish(&mut self) {
        let deadline = self.timer.now() + 1_000 * FREQUENCY;
        while !self.waiting.is_empty() {
            self.calling.clear();
            assert!(self.timer.now() < deadline, "{} calls wait for ever", self.waiting.len());
            self.timer.advance_towards(deadline);
            self.poll_woken();
        }
        assert_eq!(self.tree.waiting(), 0);
    }
}

#[derive(Clone, Debug)]
enum Act {
    Pass(u64),
    /// A user of an organisation, the costs, and the longest wait in milliseconds.
    Arrive(usize, usize, [u32; 2], Option<u16>),
    /// Asks without waiting.
    Reserve(usize, usize, [u32; 2]),
    /// Settles one of the calls in flight.
    Settle(usize, [u32; 2]),
    /// Drops one of the calls in flight.
    Drop(usize),
    /// Drops one of the calls that wait.
    Cancel(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let costs =
        || (0..4u32, prop_oneof![4 => 0..10u32, 1 => 0..45u32]).prop_map(|(requests, tokens)| [requests, tokens]);
    let longest = prop_oneof![2 => Just(None), 1 => (0..3_000u16).prop_map(Some)];
    prop_oneof![
        3 => (0..600u64).prop_map(Act::Pass),
        5 => (0..3usize, 0..2usize, costs(), longest).prop_map(|(user, organisation, costs, longest)| Act::Arrive(user, organisation, costs, longest)),
        1 => (0..3usize, 0..2usize, costs()).prop_map(|(user, organisation, costs)| Act::Reserve(user, organisation, costs)),
        2 => (any::<usize>(), costs()).prop_map(|(which, used)| Act::Settle(which, used)),
        1 => any::<usize>().prop_map(Act::Drop),
        1 => any::<usize>().prop_map(Act::Cancel),
    ]
}

proptest! {
    #![proptest_config(cases(300))]

    /// No later call takes from a bucket in whose line a call stands, and each wait has a reason.
    ///
    /// In the end all are served.
    // CLAIM: QuotaTree
    #[test]
    fn waiters_are_served_in_order_and_held_up_only_at_shared_buckets(acts in proptest::collection::vec(act(), 1..60)) {
        let mut callers = Callers::new(1_024);
        for act in &acts {
            callers.act(act);
        }
        callers.finish();
    }
}

/// One caller: it waits for a cost, again and again, or pauses in between.
struct Caller {
    user: u64,
    cost: u32,
    pause: u64,
    /// The end of a pause, or the arrival of the call that waits.
    since: u64,
    longest: u64,
    served: u32,
}

/// The results of a simulated minute of ten users of one organisation.
struct Minute {
    /// The longest wait of an innocent call, in milliseconds.
    longest: u64,
    /// The part of what the innocents want that they got.
    share: f64,
}

/// Simulates nine users who want 40 tokens a second each, and a greedy one with thirty workers.
///
/// The plan of each is 100 tokens a second. The workers take all that they can get.
fn minute(organisation: u32) -> Minute {
    const SECONDS: u32 = 60;
    let timer = Timer::new(FREQUENCY);
    let builder = QuotaTree::<u64, 2, 1>::builder(["user", "organisation"], ["tokens"]).capacities([64, 16]);
    let tree = builder.clock(Arc::clone(&timer.clock)).build().unwrap();
    let (user, organisation) = (plan(Quota::per_second(100)), plan(Quota::per_second(organisation)));
    let mut callers: Vec<Caller> = (0..39)
        .map(|name| {
            let (user, cost, pause) = if name < 30 { (0, 50, 0) } else { (name - 29, 20, FREQUENCY / 2) };
            Caller { user, cost, pause, since: name * 7, longest: 0, served: 0 }
        })
        .collect();
    let paths: Vec<_> = callers.iter().map(|caller| [(caller.user, [&user]), (u64::MAX, [&organisation])]).collect();
    let paths: Vec<_> = paths.iter().map(|[of_user, all]| [(&of_user.0, of_user.1), (&all.0, all.1)]).collect();
    let mut futures: Vec<_> = callers.iter().map(|_| None).collect();
    let woken: Vec<Arc<Flag>> = callers.iter().map(|_| Arc::default()).collect();
    for now in 0..u64::from(SECONDS) * FREQUENCY {
        loop {
            let mut is_quiet = true;
            for (index, caller) in callers.iter_mut().enumerate() {
                if futures[index].is_none() && caller.since <= now {
                    caller.since = now;
                    let acquire = tree.acquire(&paths[index], [caller.cost]);
                    futures[index] = Some(Box::pin(acquire.sleeping_by(timer.clone())));
                    Waker::from(Arc::clone(&woken[index])).wake();
                }
                let Some(future) = &mut futures[index] else { continue };
                if !woken[index].take() {
                    continue;
                }
                is_quiet = false;
                let waker = Waker::from(Arc::clone(&woken[index]));
                if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    drop(result.unwrap());
                    futures[index] = None;
                    caller.longest = caller.longest.max(now - caller.since);
                    caller.served += 1;
                    caller.since = now + caller.pause;
                }
            }
            if is_quiet {
                break;
            }
        }
        timer.advance_towards(now + 1);
    }
    let innocents = &callers[30..];
    let served: u32 = innocents.iter().map(|caller| caller.served).sum();
    Minute {
        longest: innocents.iter().map(|caller| caller.longest).max().unwrap(),
        share: f64::from(served) / (9.0 * 2.0 * f64::from(SECONDS)),
    }
}

/// A user without tokens holds up no other user of the organisation.
#[test]
fn greedy_users_hold_up_themselves() {
    let ample = minute(1_000);
    println!("ample: {} ms, {:.3}", ample.longest, ample.share);
    let scarce = minute(400);
    println!("scarce: {} ms, {:.3}", scarce.longest, scarce.share);
    assert_eq!(ample.longest, 0, "the organisation has tokens for all");
    assert!(ample.share > 0.99, "{}", ample.share);
    // The organisation has 400 of the 460 that they want.
    assert!(scarce.longest <= 1_000 && scarce.share > 0.8, "{} ms, {}", scarce.longest, scarce.share);
}

fn poll(future: &mut Pin<Box<AcquireFuture<Arc<Tree>, Timer>>>) -> Poll<Result<Call, TreeRefusal>> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn refusals_say_why_a_call_does_not_wait() {
    let timer = Timer::new(FREQUENCY);
    let tree = tree(&timer, 1);
    let path = &PATHS[0][0];
    let acquire = |costs| tree.acquire_owned(path, costs);
    let too_much = acquire([5, 0]).wait().unwrap_err();
    assert!(matches!(too_much, TreeRefusal::Denied(denied) if denied.denied().exceeds_burst()));
    drop(tree.reserve(path, [4, 0]).unwrap());
    let at_once = acquire([1, 0]).within(Duration::ZERO).wait().unwrap_err();
    assert_eq!(at_once.retry_after(), Some(Duration::from_millis(250)));
    assert_eq!(at_once.to_string(), "requests of this user (4/s burst 4): rate limit exceeded, retry in 250 ms");

    let mut first = Box::pin(acquire([2, 0]).sleeping_by(timer.clone()));
    assert!(poll(&mut first).is_pending());
    let full = acquire([1, 0]).wait().unwrap_err();
    assert_eq!((full, full.retry_after()), (TreeRefusal::QueueFull, None));
    assert_eq!(full.to_string(), "too many calls wait for the limits, queue full");
    let denied = tree.reserve(path, [1, 0]).unwrap_err();
    assert!(denied.is_behind_waiters() && denied.level_name() == "user");
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)), "until the bucket is full");
    assert!(tree.check(path, [1, 0]).unwrap_err().is_behind_waiters());
    assert!(tree.check(path, [0, 1]).is_ok(), "no call waits for these buckets");
    assert!(tree.check(&PATHS[1][0], [1, 0]).is_ok(), "another user of the same organisation");
    drop(first);
    assert_eq!(tree.waiting(), 0);
}

#[test]
fn call_behind_others_is_refused_in_its_time() {
    let timer = Timer::new(FREQUENCY);
    let tree = tree(&timer, 8);
    let path = &PATHS[0][0];
    drop(tree.reserve(path, [4, 0]).unwrap());
    let mut first = Box::pin(tree.acquire_owned(path, [4, 0]).sleeping_by(timer.clone()));
    assert!(poll(&mut first).is_pending());
    let at_once = tree.acquire_owned(path, [1, 0]).within(Duration::ZERO).wait().unwrap_err();
    assert_eq!(at_once, TreeRefusal::TimedOut);
    let too_much = tree.acquire_owned(path, [5, 0]).wait().unwrap_err();
    assert!(matches!(too_much, TreeRefusal::Denied(denied) if denied.denied().exceeds_burst()), "it does not wait");
    let deadline = Deadline::with_clock(Duration::from_millis(500), Arc::clone(&timer.clock));
    let mut second = Box::pin(tree.acquire_owned(path, [1, 0]).by(&deadline).sleeping_by(timer.clone()));
    assert!(poll(&mut second).is_pending());
    assert_eq!(tree.waiting(), 2);
    timer.clock.advance(Duration::from_millis(500));
    assert!(matches!(poll(&mut second), Poll::Ready(Err(TreeRefusal::TimedOut))));
    assert_eq!(tree.waiting(), 1);
    timer.clock.advance(Duration::from_millis(500));
    assert!(matches!(poll(&mut first), Poll::Ready(Ok(_))));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending(), "polled again");
}

/// The first call of a line is cancelled, so the next one is served.
#[test]
fn cancelled_call_keeps_others_in_place() {
    let mut callers = Callers::new(8);
    let path = &PATHS[0][0];
    callers.arrive(path, [4, 0], None);
    callers.arrive(path, [4, 0], None);
    callers.arrive(path, [1, 0], None);
    callers.act(&Act::Pass(250));
    assert_eq!((callers.calling.len(), callers.waiting.len()), (1, 2), "the small call does not overtake");
    callers.act(&Act::Cancel(0));
    assert_eq!((callers.calling.len(), callers.waiting.len()), (2, 0));
}

#[test]
fn threads_wait_for_a_settlement() {
    let builder = QuotaTree::<u64, 1, 1>::builder(["user"], ["tokens"]).capacities([16]);
    let tree = Arc::new(builder.build().unwrap());
    let plan = plan(Quota::per_hour(100));
    let call = tree.acquire(&[(&7, [&plan])], [100]).wait().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| tree.acquire(&[(&7, [&plan])], [40]).wait().map(|call| call.settle([30])));
        while tree.waiting() == 0 {
            thread::yield_now();
        }
        call.settle([20]);
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(tree.peek(&[(&7, [&plan])])[0][0].used(), 50);
}
