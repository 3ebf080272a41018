//! Tests of single steps of the state machine, with the model of the server's script.

use super::fleet::{MILLISECOND, MovingClock, SECOND, terms};
use super::server::Server;
use crate::script::{Command, Grant, Level, Reply, Status, Terms};
use crate::subject::{Answer, Dispatch, NextStep, Outcome, Plan, Subject};
use damper_core::Quota;
use std::sync::Arc;
use std::time::Duration;

/// A process and the server, without delay between them.
pub(super) struct Pair {
    /// The process's clock. Each reading advances it, as time passes between two readings of a real clock.
    clock: Arc<MovingClock>,
    pub(super) subject: Subject<Arc<MovingClock>>,
    pub(super) server: Server,
    pub(super) now: u64,
}

impl Pair {
    pub(super) fn new(terms: Terms) -> Self {
        let clock = Arc::new(MovingClock::default());
        let plan = Arc::new(Plan::new(vec![terms], Duration::from_secs(1)));
        let subject = Subject::new(plan, 1, Arc::clone(&clock));
        let mut pair = Self { clock, subject, server: Server::new(terms, SECOND), now: 0 };
        pair.wait(SECOND);
        pair
    }

    pub(super) fn wait(&mut self, micros: u64) {
        self.now += micros;
        self.clock.catch_up(self.now);
    }

    pub(super) fn run(&mut self, dispatch: Dispatch) -> Outcome {
        let reply = self.server.run(dispatch.command(), 0, self.now);
        self.subject.replied(dispatch, &reply)
    }

    /// Returns whether the tokens are taken, from the lease or by the server.
    pub(super) fn takes(&mut self, n: u32) -> bool {
        match self.subject.check(n) {
            Answer::Allowed(_) | Answer::Low(_) | Answer::Taken(_) => true,
            Answer::Ask(dispatch) => match self.run(*dispatch) {
                Outcome::Allowed(_) => true,
                Outcome::Again => self.takes(n),
                Outcome::Denied(_) | Outcome::Late => false,
            },
            Answer::Denied(_) | Answer::Join | Answer::Down => false,
        }
    }

    /// Makes checks until the process leases.
    pub(super) fn lease(&mut self) {
        while !self.subject.holdings().is_leasing {
            assert!(self.takes(1));
        }
    }

    pub(super) fn asked(&self, n: u32) -> Box<Dispatch> {
        match self.subject.check(n) {
            Answer::Ask(dispatch) => dispatch,
            other => panic!("{other:?}"),
        }
    }
}

/// Returns the charge and the refund that a command carries.
pub(super) fn carried(dispatch: &Dispatch) -> (u64, u64) {
    match dispatch.command() {
        Command::Take(limits) => (limits[0].1.charge, limits[0].1.refund),
        Command::Lease(_, ask) => (ask.charge, ask.refund),
        Command::Reset(_) => (0, 0),
        Command::ByPlan(_) => unreachable!("no limit of a subject is by plan"),
    }
}

#[test]
fn denial_holds_without_a_command_until_the_tokens_are_there() {
    let mut pair = Pair::new(terms(10, 5));
    assert!((0..5).all(|_| pair.takes(1)));
    assert!(!pair.takes(2));
    let Answer::Denied(denied) = pair.subject.check(2) else { panic!("the process knows") };
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(200)));
    assert!(matches!(pair.subject.check(1), Answer::Ask(_)), "fewer tokens may be there earlier");
    pair.wait(199 * MILLISECOND);
    assert!(matches!(pair.subject.check(2), Answer::Denied(_)));
    pair.wait(2 * MILLISECOND);
    assert!(pair.takes(2));
}

#[test]
fn denial_without_a_command_has_the_wait_of_its_own_cost() {
    let mut pair = Pair::new(terms(1, 50));
    assert!(pair.takes(50) && !pair.takes(1));
    let wait = |pair: &Pair, n| match pair.subject.check(n) {
        Answer::Denied(denied) => denied.retry_after().map(|wait| wait.as_secs_f64().round()),
        other => panic!("the process knows: {other:?}"),
    };
    assert_eq!((wait(&pair, 1), wait(&pair, 2), wait(&pair, 50)), (Some(1.0), Some(2.0), Some(50.0)));

    let day = Duration::from_secs(86_400);
    let yearly = Quota::per(1, 365 * day).expect("a quota").burst(2);
    let mut pair = Pair::new(Terms::new(yearly, 0).expect("a rate that can be counted"));
    assert!(pair.takes(2) && !pair.takes(1));
    assert_eq!(wait(&pair, 1).map(|seconds| (seconds / 86_400.0).round()), Some(365.0), "days");
}

#[test]
fn full_limit_does_not_lengthen_the_wait_for_another_one() {
    let slow = Terms::new(Quota::per_hour(60).burst(1_000), 0).expect("a rate that can be counted");
    let plan = Arc::new(Plan::new(vec![terms(1, 50), slow], Duration::from_secs(1)));
    let subject = Subject::new(plan, 1, Arc::new(MovingClock::default()));
    let Answer::Ask(dispatch) = subject.check(1) else { panic!("it knows nothing yet") };
    let level = |owed, full_at| Level { version: 1, at: 0, owed, frac: 0, held: 0, full_at };
    let levels = vec![level(50, 50 * SECOND), level(0, 0)];
    let reply = Reply { status: Status::Denied, now: 0, levels, grant: None, counted: Vec::new() };
    assert!(matches!(subject.replied(*dispatch, &reply), Outcome::Denied(_)));
    let Answer::Denied(denied) = subject.check(50) else { panic!("it knows") };
    let wait = denied.retry_after().expect("it comes").as_secs_f64();
    assert!((49.9..=50.0).contains(&wait), "{wait} s");
}

#[test]
fn denial_while_leasing_has_the_wait_of_its_own_cost() {
    let mut pair = Pair::new(terms(100, 400));
    pair.lease();
    while pair.takes(1) {}
    for (n, millis) in [(60, 540..=640), (300, 2_940..=3_040)] {
        let Answer::Denied(denied) = pair.subject.check(n) else { panic!("it knows") };
        let wait = denied.retry_after().expect("it comes").as_millis();
        assert!(millis.contains(&wait), "{n} tokens: {wait} ms");
    }
    // The budget for commands is used up, and the limit has tokens.
    let terms = Terms::new(Quota::per_second(1_000), 24).expect("a rate that can be counted");
    let mut pair = Pair::new(terms);
    pair.lease();
    let denied = loop {
        match pair.subject.check(25) {
            Answer::Ask(dispatch) => assert!(matches!(pair.run(*dispatch), Outcome::Allowed(_))),
            Answer::Denied(denied) => break denied,
            other => panic!("{other:?}"),
        }
    };
    assert!(denied.retry_after() <= Some(Duration::from_millis(20)), "{denied}");
    let Answer::Denied(denied) = pair.subject.check(1_000) else { panic!("it may send no command") };
    let missing = 1_000 - denied.remaining();
    let least = Duration::from_millis(missing.into());
    assert!(missing > 100 && denied.retry_after() >= Some(least), "{denied}, {missing} are missing");
}

#[test]
fn limit_that_never_refills_is_denied_without_a_wait() {
    let mut pair = Pair::new(Terms::new(Quota::per_second(0).burst(2), 0).expect("a rate that can be counted"));
    assert!(pair.takes(2));
    for _ in 0..3 {
        let denied = match pair.subject.check(1) {
            Answer::Ask(dispatch) => match pair.run(*dispatch) {
                Outcome::Denied(denied) => denied,
                other => panic!("{other:?}"),
            },
            Answer::Denied(denied) => denied,
            other => panic!("{other:?}"),
        };
        assert_eq!((denied.retry_after(), denied.exceeds_burst()), (None, false));
    }
}

#[test]
fn more_than_the_burst_is_denied_for_good() {
    let pair = Pair::new(terms(10, 5));
    let Answer::Denied(denied) = pair.subject.check(6) else { panic!("no server knows better") };
    assert!(denied.exceeds_burst() && denied.retry_after().is_none());
}

#[test]
fn busy_process_leases_and_returns_what_it_does_not_use() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    pair.lease();
    let held = pair.subject.holdings().tokens;
    assert!(held > 0 && pair.server.held() >= held);
    let commands = (0..1_000).filter(|_| {
        pair.wait(MILLISECOND);
        match pair.subject.due() {
            NextStep::Send(dispatch) => {
                let _ = pair.run(*dispatch);
                true
            }
            NextStep::At(_) | NextStep::Nothing => false,
        }
    });
    assert_eq!(commands.count(), 1, "one request gives everything back");
    assert_eq!((pair.subject.holdings().tokens, pair.server.held()), (0, 0));
    assert!(matches!(pair.subject.due(), NextStep::Nothing));
}

#[test]
fn idle_process_returns_within_200_ms() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    pair.lease();
    let mut waited = 0;
    while pair.server.held() > 0 {
        let NextStep::At(tick) = pair.subject.due() else { panic!("it waits for the time to pass") };
        let wait = tick.div_ceil(1_000) - pair.now;
        pair.wait(wait);
        waited += wait;
        if let NextStep::Send(dispatch) = pair.subject.due() {
            let _ = pair.run(*dispatch);
        }
    }
    assert!((100 * MILLISECOND..=200 * MILLISECOND).contains(&waited), "{waited} µs");
}

#[test]
fn short_lease_of_a_server_that_lost_the_limit_ends_early() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    pair.server.lease = 80_000;
    pair.lease();
    let held = pair.subject.holdings().tokens;
    assert!(held > 0 && held <= 80, "{held} are more than it spends until then");
    pair.wait(68_000);
    assert!(pair.subject.holdings().tokens > 0);
    pair.wait(2_000);
    assert_eq!(pair.subject.holdings().tokens, 0, "7/8 of the short lease");
}

#[test]
fn tokens_of_a_lost_limit_leave_room_for_leases() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    pair.server.lost = 250;
    pair.lease();
    assert!((0..50).all(|_| pair.takes(1)));
    pair.wait(25 * MILLISECOND);
    assert!(pair.takes(1));
    let held = pair.subject.holdings().tokens;
    assert!(held >= 20, "after the first request the lost tokens are known, but it holds {held}");
}

#[test]
fn tokens_end_before_the_lease_does() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    pair.lease();
    pair.wait(874 * MILLISECOND);
    assert!(pair.subject.holdings().tokens > 0);
    pair.wait(MILLISECOND);
    assert_eq!(pair.subject.holdings().tokens, 0);
    assert!(pair.server.held() > 0);
}

#[test]
fn second_check_joins_the_request_in_flight() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    let mut dispatch = pair.asked(1);
    while !dispatch.is_lease() {
        let _ = pair.run(*dispatch);
        dispatch = pair.asked(1);
    }
    assert!(matches!(pair.subject.check(1), Answer::Join));
    assert_eq!(pair.run(*dispatch), Outcome::Again);
    assert!(matches!(pair.subject.check(1), Answer::Allowed(_)));
}

#[test]
fn reply_to_a_request_that_was_given_up_is_discarded() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    let mut dispatch = pair.asked(1);
    while !dispatch.is_lease() {
        let _ = pair.run(*dispatch);
        dispatch = pair.asked(1);
    }
    let reply = pair.server.run(dispatch.command(), 0, pair.now);
    // The caller reports no outcome for the length of a lease.
    pair.wait(SECOND + MILLISECOND);
    assert!(!pair.asked(1).is_lease(), "the server decides for a while");
    pair.wait(5 * SECOND);
    let mut next = pair.asked(1);
    while !next.is_lease() {
        let _ = pair.run(*next);
        next = pair.asked(1);
    }
    assert_eq!(pair.subject.replied(*dispatch, &reply), Outcome::Again);
    assert_eq!(pair.subject.holdings().tokens, 0, "its grant may be anyone's by now");
    assert!(matches!(pair.subject.check(1), Answer::Join), "the next one is still in flight");
    assert_eq!(pair.run(*next), Outcome::Again);
    assert!(pair.subject.holdings().tokens > 0);
}

#[test]
fn lost_request_leaves_the_decision_to_the_policy_for_a_while() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    let mut dispatch = pair.asked(1);
    while !dispatch.is_lease() {
        let _ = pair.run(*dispatch);
        dispatch = pair.asked(1);
    }
    pair.subject.lost(*dispatch);
    assert!(matches!(pair.subject.check(1), Answer::Down));
    pair.wait(21 * MILLISECOND);
    assert!(pair.takes(1));
}

#[test]
fn lost_requests_do_not_make_the_next_one_ask_for_more() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    pair.lease();
    // The lease ends, so that the process holds nothing.
    pair.wait(2 * SECOND);
    let mut wanted = Vec::new();
    while wanted.len() < 6 {
        if let Answer::Ask(dispatch) = pair.subject.check(1) {
            let Command::Lease(_, ask) = dispatch.command() else { panic!("it leases: {dispatch:?}") };
            wanted.push(ask.want);
            // Another check finds the lease empty while the request is in flight.
            assert!(matches!(pair.subject.check(1), Answer::Join));
            pair.subject.lost(*dispatch);
        }
        pair.wait(MILLISECOND);
    }
    assert!(wanted.iter().max() <= wanted.first(), "{wanted:?}");
}

#[test]
fn cost_above_what_can_be_leased_is_the_servers_decision() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    pair.lease();
    pair.wait(30 * MILLISECOND);
    for _ in 0..3 {
        let dispatch = pair.asked(300);
        assert!(!dispatch.is_lease());
        assert!(matches!(pair.run(*dispatch), Outcome::Allowed(_)), "without a pause");
    }
    let dispatch = pair.asked(300);
    assert!(matches!(pair.run(*dispatch), Outcome::Denied(_)));
    assert!(matches!(pair.subject.check(300), Answer::Denied(_)), "the server has said when to ask again");
    // The reply to a request for the lease does not open the gate for this cost.
    while pair.takes(1) && pair.subject.ask_ahead().map(|dispatch| pair.run(*dispatch)).is_none() {}
    assert!(matches!(pair.subject.check(300), Answer::Denied(_)));
}

/// A late reply says that the command had no effect, so its charge goes with the next one at once.
#[test]
fn charge_is_sent_until_it_is_acknowledged() {
    let mut pair = Pair::new(terms(10, 5));
    assert!(matches!(pair.subject.charge(3), NextStep::At(_)));
    let late = Reply { status: Status::Late, now: 0, levels: Vec::new(), grant: None, counted: Vec::new() };
    let dispatch = pair.asked(1);
    assert_eq!(carried(&dispatch), (3, 0));
    assert_eq!(pair.subject.replied(*dispatch, &late), Outcome::Late);
    let dispatch = pair.asked(1);
    assert_eq!(carried(&dispatch), (3, 0));
    pair.subject.lost(*dispatch);
    // The server may have the charge, so it waits for a reply. A command without a check brings one.
    let NextStep::At(tick) = pair.subject.due() else { panic!("a charge is pending") };
    assert!(tick.div_ceil(1_000) - pair.now <= 101 * MILLISECOND);
    pair.wait(101 * MILLISECOND);
    let NextStep::Send(dispatch) = pair.subject.due() else { panic!("it is time") };
    assert_eq!(carried(&dispatch), (0, 0));
    let _ = pair.run(*dispatch);
    let NextStep::Send(dispatch) = pair.subject.due() else { panic!("the server answers") };
    assert_eq!(carried(&dispatch), (3, 0));
    let _ = pair.run(*dispatch);
    assert!(matches!(pair.subject.due(), NextStep::Nothing) && pair.subject.is_settled());
}

/// Each command may reach the server although its reply does not reach this process in time.
#[test]
fn charge_without_a_reply_is_booked_twice_at_most() {
    let endings = [Subject::lost, Subject::cancelled];
    for end in endings {
        let mut pair = Pair::new(terms(10, 5));
        let _ = pair.subject.charge(3);
        let mut booked = 0;
        for _ in 0..20 {
            pair.wait(SECOND);
            let dispatch = match pair.subject.due() {
                NextStep::Send(probe) => probe,
                NextStep::At(_) | NextStep::Nothing => pair.asked(1),
            };
            booked += carried(&dispatch).0;
            let _ = pair.server.run(dispatch.command(), 0, pair.now);
            end(&pair.subject, *dispatch);
        }
        assert_eq!(booked, 3, "without a reply it is not booked again");
        for _ in 0..5 {
            pair.wait(SECOND);
            let dispatch = pair.asked(1);
            booked += carried(&dispatch).0;
            let _ = pair.run(*dispatch);
        }
        assert_eq!(booked, 6);
    }
}

/// Spends leased tokens until a request for more is due, and returns it.
fn request_ahead(pair: &mut Pair) -> Box<Dispatch> {
    pair.wait(30 * MILLISECOND);
    loop {
        assert!(pair.takes(1));
        if let Some(dispatch) = pair.subject.ask_ahead() {
            return dispatch;
        }
    }
}

/// The server subtracts what it has booked for a lost request from the charge of the next request.
///
/// It does not subtract that from the charge of a take.
#[test]
fn charge_of_a_lost_request_goes_with_the_next_request_and_no_take() {
    let endings = [Subject::lost, Subject::cancelled];
    for end in endings {
        let mut pair = Pair::new(terms(1_000, 1_000));
        pair.lease();
        let _ = pair.subject.charge(200);
        let dispatch = request_ahead(&mut pair);
        assert!(dispatch.is_lease());
        assert_eq!(carried(&dispatch), (200, 0));
        let _ = pair.server.run(dispatch.command(), 0, pair.now);
        end(&pair.subject, *dispatch);
        pair.wait(21 * MILLISECOND);
        // No lease can hold as many tokens.
        let dispatch = pair.asked(300);
        assert_eq!(carried(&dispatch), (0, 0));
        pair.subject.undeliverable(*dispatch);
        let dispatch = request_ahead(&mut pair);
        assert_eq!(carried(&dispatch), (200, 0));
        pair.subject.undeliverable(*dispatch);
        pair.wait(21 * MILLISECOND);
        let dispatch = pair.asked(300);
        assert_eq!(carried(&dispatch), (0, 0), "one of the two requests may have arrived");
        let _ = pair.run(*dispatch);
        let dispatch = request_ahead(&mut pair);
        assert_eq!(carried(&dispatch), (200, 0));
        let _ = pair.run(*dispatch);
        assert_eq!(carried(&pair.subject.look()), (0, 0));
    }
}

/// The server forgets what it has booked for a request some time after the lease has ended.
#[test]
fn charge_of_a_lost_request_waits_for_a_reply_after_a_lease() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    pair.lease();
    let _ = pair.subject.charge(200);
    let dispatch = request_ahead(&mut pair);
    assert_eq!(carried(&dispatch), (200, 0));
    let _ = pair.server.run(dispatch.command(), 0, pair.now);
    pair.subject.lost(*dispatch);
    pair.wait(1_000 * MILLISECOND);
    let dispatch = pair.asked(1);
    assert_eq!((dispatch.is_lease(), carried(&dispatch)), (true, (0, 0)));
    let _ = pair.run(*dispatch);
    assert_eq!(carried(&pair.subject.look()), (200, 0));
}

/// No request follows, so the server would book it once more with each take.
#[test]
fn charge_of_the_request_that_ends_leasing_waits_for_a_reply_if_it_is_lost() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    pair.lease();
    let _ = pair.subject.charge(200);
    assert!(matches!(pair.subject.due(), NextStep::At(_)));
    pair.wait(200 * MILLISECOND);
    let NextStep::Send(dispatch) = pair.subject.due() else { panic!("it is idle") };
    assert!(dispatch.is_lease() && !pair.subject.holdings().is_leasing);
    assert_eq!(carried(&dispatch), (200, 0));
    let _ = pair.server.run(dispatch.command(), 0, pair.now);
    pair.subject.lost(*dispatch);
    let dispatch = pair.asked(1);
    assert_eq!(carried(&dispatch), (0, 0));
    let _ = pair.run(*dispatch);
    assert_eq!(carried(&pair.subject.look()), (200, 0));
}

#[test]
fn last_command_carries_every_charge() {
    let pair = Pair::new(terms(10, 5));
    let _ = pair.subject.charge(3);
    pair.subject.lost(*pair.asked(1));
    assert_eq!(pair.subject.retire().map(|dispatch| carried(&dispatch)), Some((3, 0)));
}

#[test]
fn refund_is_sent_once_and_without_a_check_too() {
    let mut pair = Pair::new(terms(10, 5));
    assert!((0..5).all(|_| pair.takes(1)));
    assert!(matches!(pair.subject.refund(2), NextStep::At(_)));
    pair.wait(99 * MILLISECOND);
    assert!(matches!(pair.subject.due(), NextStep::At(_)));
    pair.wait(2 * MILLISECOND);
    let NextStep::Send(dispatch) = pair.subject.due() else { panic!("it is time") };
    assert_eq!(carried(&dispatch), (0, 2));
    pair.subject.lost(*dispatch);
    assert_eq!(carried(&pair.asked(1)), (0, 0), "the server may have it");
}

#[test]
fn refund_fills_a_lease_only_as_far_as_the_server_counts() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    pair.lease();
    let held = pair.subject.holdings().tokens;
    assert!(pair.takes(2));
    assert!(matches!(pair.subject.refund(2), NextStep::Nothing));
    assert_eq!(pair.subject.holdings().tokens, held);
    // The check that started the lease took one of its tokens, so there is room for one more.
    assert!(matches!(pair.subject.refund(3), NextStep::At(_)));
    assert_eq!(pair.subject.holdings().tokens, held + 1);
    pair.wait(30 * MILLISECOND);
    while pair.takes(1) && pair.subject.ask_ahead().is_none() {}
    // A refund does not lift the lease above what the last request reported as unspent.
    let unspent = pair.subject.holdings().tokens;
    let _ = pair.subject.refund(5);
    assert_eq!(pair.subject.holdings().tokens, unspent);
}

#[test]
fn reply_grants_no_more_than_was_asked_for_whatever_it_says() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    pair.lease();
    pair.wait(30 * MILLISECOND);
    let dispatch = loop {
        assert!(pair.takes(1));
        if let Some(dispatch) = pair.subject.ask_ahead() {
            break dispatch;
        }
    };
    let Command::Lease(_, ask) = *dispatch.command() else { panic!("it leases: {dispatch:?}") };
    assert!(ask.unspent > 0 && ask.want > 0);
    let mut reply = pair.server.run(dispatch.command(), 0, pair.now);
    reply.grant = reply.grant.map(|grant| Grant { granted: ask.want + 100, kept: ask.unspent + 100, ..grant });
    assert_eq!(pair.subject.replied(*dispatch, &reply), Outcome::Again);
    assert_eq!(pair.subject.holdings().tokens, ask.unspent + ask.want);
    // Nor does a refund fill the lease above this number.
    let _ = pair.subject.refund(100);
    assert_eq!(pair.subject.holdings().tokens, ask.unspent + ask.want);
}

#[test]
fn lease_is_no_longer_than_the_limiter_set_whatever_the_reply_says() {
    let mut pair = Pair::new(terms(1_000, 1_000));
    let mut dispatch = pair.asked(1);
    while !dispatch.is_lease() {
        let _ = pair.run(*dispatch);
        dispatch = pair.asked(1);
    }
    let mut reply = pair.server.run(dispatch.command(), 0, pair.now);
    reply.grant = reply.grant.map(|grant| Grant { length: 60 * SECOND, ..grant });
    let _ = pair.subject.replied(*dispatch, &reply);
    pair.wait(870 * MILLISECOND);
    assert!(pair.subject.holdings().tokens > 0);
    pair.wait(6 * MILLISECOND);
    assert_eq!(pair.subject.holdings().tokens, 0, "7/8 of a second");
}

#[test]
fn refund_of_a_command_that_was_never_sent_goes_with_the_next_one() {
    let endings = [Subject::unsent, Subject::undeliverable];
    for end in endings {
        let mut pair = Pair::new(terms(10, 5));
        assert!((0..5).all(|_| pair.takes(1)));
        assert!(matches!(pair.subject.refund(2), NextStep::At(_)));
        let dispatch = pair.subject.look();
        assert_eq!(carried(&dispatch), (0, 2));
        end(&pair.subject, *dispatch);
        let dispatch = pair.subject.look();
        assert_eq!(carried(&dispatch), (0, 2));
        let _ = pair.run(*dispatch);
        assert_eq!(carried(&pair.subject.look()), (0, 0));
        assert!(pair.takes(2) && !pair.takes(1), "the server has them back");
    }
}
