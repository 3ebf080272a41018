//! Single rules, each by an example.

use damper_core::Quota;
use damper_redis::internal::{
    Command, Frame, Grant, Keys, LeaseRequest, Level, Limit, NEVER, Reply, Sighting, SlotTags, Status, Take, Terms,
};
use damper_redis_tests::LuaServer;
use std::time::Duration;

const START: u64 = 1_790_000_000_000_000;
const SECOND: u64 = 1_000_000;
const EMPTY_FOR_A_MINUTE: Frame = Frame { not_after: 0, lease: SECOND, after_loss: 60 * SECOND };

/// A process and its server; the server has lost nothing.
struct Process {
    server: LuaServer,
    keys: Keys,
    terms: Terms,
    seen: Sighting,
    frame: Frame,
}

impl Process {
    fn new(quota: Quota, hold: u32) -> Self {
        let fresh = Self::on_a_new_server(quota, hold);
        fresh.server.set(fresh.keys.marker(), b"0");
        fresh
    }

    fn on_a_new_server(quota: Quota, hold: u32) -> Self {
        let keys = Keys::new(&SlotTags::new(), "cases", b"subject");
        let terms = Terms::new(quota, hold).unwrap();
        Self { server: LuaServer::new(START), keys, terms, seen: Sighting::default(), frame: EMPTY_FOR_A_MINUTE }
    }

    fn run(&mut self, holder: u64, command: &Command) -> Reply {
        let reply = self.server.execute(&self.keys, holder, command, &self.frame).unwrap();
        if let Some(level) = reply.levels.first() {
            self.seen = level.seen();
        }
        reply
    }

    fn limit(&self) -> Limit {
        Limit { terms: self.terms, seen: self.seen }
    }

    fn take(&mut self, cost: u32) -> Status {
        self.settle(Take { cost, ..Take::default() }).status
    }

    fn settle(&mut self, take: Take) -> Reply {
        self.run(0, &Command::Take(vec![(self.limit(), take)]))
    }

    fn level(&mut self) -> Level {
        self.settle(Take::default()).levels[0]
    }

    fn ask(&mut self, holder: u64, ask: LeaseRequest) -> Reply {
        self.run(holder, &Command::Lease(self.limit(), ask))
    }

    fn stored(&self) -> Vec<u8> {
        self.server.get(&self.keys.limit(0)).unwrap_or_default()
    }
}

#[test]
fn a_denial_and_a_look_write_nothing() {
    let mut process = Process::new(Quota::per_second(10), 0);
    assert_eq!(process.level().owed, 0);
    assert_eq!(process.server.writes(), 0, "a look at a limit that was never used");
    assert_eq!(process.take(10), Status::Done);
    let (stored, writes) = (process.stored(), process.server.writes());
    process.server.advance(150_000);
    assert_eq!(process.take(2), Status::Denied);
    assert_eq!(process.level().owed, 9);
    assert_eq!((process.stored(), process.server.writes()), (stored, writes));
}

#[test]
fn a_take_is_from_all_limits_or_from_none() {
    let mut process = Process::new(Quota::per_second(10), 0);
    let hourly = Terms::new(Quota::per_hour(3), 0).unwrap();
    let both = |process: &Process, cost| {
        let hourly = Limit { terms: hourly, seen: Sighting::default() };
        let take = Take { cost, ..Take::default() };
        Command::Take(vec![(process.limit(), take), (hourly, take)])
    };
    let (two, four) = (both(&process, 2), both(&process, 4));
    assert_eq!(process.run(0, &two).status, Status::Done);
    let reply = process.run(0, &two);
    assert_eq!((reply.status, reply.levels[0].owed, reply.levels[1].owed), (Status::Denied, 2, 2));
    let wait = reply.levels[1].retry_after(&hourly, 2, reply.now);
    assert_eq!(wait, Some(Duration::from_secs(1_200)));
    assert_eq!(reply.levels[1].retry_after(&hourly, 4, reply.now), None, "4 exceeds the burst");
    assert_eq!(process.run(0, &four).status, Status::Denied);
}

#[test]
fn clock_that_steps_back_costs_at_most_the_deepest_debt() {
    let mut process = Process::new(Quota::per_second(10).burst(10).max_debt(5), 0);
    assert_eq!(process.take(10), Status::Done);
    process.server.set_time(START - 7_200 * SECOND);
    assert_eq!(process.take(1), Status::Denied);
    let level = process.level();
    assert_eq!((level.owed, level.at), (15, process.server.now()), "the deepest debt, written on a denial");
    process.server.advance(599_999);
    assert_eq!(process.take(1), Status::Denied);
    process.server.advance(1);
    assert_eq!(process.take(1), Status::Done, "six tokens later");
}

#[test]
fn a_small_step_back_gives_nothing() {
    let mut process = Process::new(Quota::per_second(10), 0);
    assert_eq!(process.take(10), Status::Done);
    process.server.set_time(START - SECOND);
    let reply = process.settle(Take { cost: 1, ..Take::default() });
    assert_eq!((reply.status, reply.levels[0].owed, reply.levels[0].at), (Status::Denied, 10, START));
    let wait = reply.levels[0].retry_after(&process.terms, 1, reply.now);
    assert_eq!(wait, Some(Duration::from_millis(1_100)), "the step and a token");
}

#[test]
fn leased_tokens_count_as_still_in_the_bucket() {
    let mut process = Process::new(Quota::per_second(100), 25);
    let reply = process.ask(1, LeaseRequest { seq: 1, want: 40, ..LeaseRequest::default() });
    let grant = Grant { seq: 1, granted: 25, kept: 0, length: SECOND, leased: 25 };
    assert_eq!(reply.grant, Some(grant), "at most H");
    process.server.advance(900_000);
    assert_eq!((process.level().owed, process.level().held), (25, 25), "not filled up beyond what is leased");
    process.server.advance(300_000);
    let level = process.level();
    assert_eq!((level.owed, level.held), (5, 0), "the lease ended after 1 s, and 20 tokens dripped in since");
}

#[test]
fn a_lost_response_gives_its_grant_back() {
    let mut process = Process::new(Quota::per_second(100), 100);
    process.ask(1, LeaseRequest { seq: 1, want: 40, ..LeaseRequest::default() });
    // The holder spent 10, and books a charge. The response to this is lost.
    let lost =
        process.ask(1, LeaseRequest { seq: 2, ack: 1, unspent: 30, want: 20, charge: 3, ..LeaseRequest::default() });
    assert_eq!(lost.grant, Some(Grant { seq: 2, granted: 20, kept: 30, length: SECOND, leased: 50 }));
    assert_eq!((lost.levels[0].owed, lost.levels[0].held), (63, 50));
    // The holder spent 5 more, and sends the charge again with another.
    let ask = LeaseRequest { seq: 3, ack: 1, unspent: 25, want: 10, charge: 4, ..LeaseRequest::default() };
    let reply = process.ask(1, ask);
    assert_eq!(reply.grant, Some(Grant { seq: 3, granted: 10, kept: 25, length: SECOND, leased: 35 }));
    assert_eq!((reply.levels[0].owed, reply.levels[0].held), (54, 35), "40 - 20 + 10 tokens and 4 charged");
    let again = process.ask(1, ask);
    assert_eq!((again.grant, &again.levels), (reply.grant, &reply.levels), "the same request, the same response");
    assert_eq!(process.ask(1, LeaseRequest { seq: 2, ..ask }).status, Status::Stale);
}

#[test]
fn an_expired_holder_has_spent_everything() {
    let mut process = Process::new(Quota::per_second(100), 100);
    process.ask(1, LeaseRequest { seq: 1, want: 40, ..LeaseRequest::default() });
    process.server.advance(1_125_000);
    let reply = process.ask(1, LeaseRequest { seq: 2, ack: 1, unspent: 30, back: 10, ..LeaseRequest::default() });
    assert_eq!(reply.grant, Some(Grant { seq: 2, granted: 0, kept: 0, length: SECOND, leased: 0 }));
    assert_eq!(reply.levels[0].held, 0);
}

#[test]
fn a_flush_with_empty_gives_no_tokens() {
    let mut process = Process::new(Quota::per_second(100), 25);
    process.frame.after_loss = NEVER;
    assert_eq!(process.take(100), Status::Done);
    process.server.flush();
    process.seen = Sighting::default();
    let level = process.level();
    assert_eq!((level.owed, level.held), (100, 25), "empty, and all that may be leased may be out");
    assert_eq!(process.ask(1, LeaseRequest { seq: 1, want: 5, ..LeaseRequest::default() }).grant.unwrap().granted, 0);
    process.server.advance(10_000_000);
    assert_eq!(process.level().owed, 0);
}

#[test]
fn a_first_deployment_begins_full_with_an_old_marker() {
    let mut process = Process::on_a_new_server(Quota::per_second(10), 0);
    assert_eq!(process.take(1), Status::Denied, "without a marker the server has lost its memory now");
    assert_eq!(process.server.get(process.keys.marker()), Some(START.to_string().into_bytes()));
    let mut process = Process::new(Quota::per_second(10), 0);
    assert_eq!(process.take(10), Status::Done);
}

#[test]
fn a_minute_after_a_loss_a_missing_limit_is_full() {
    let mut process = Process::on_a_new_server(Quota::per_hour(100), 0);
    assert_eq!(process.take(1), Status::Denied);
    process.server.advance(60 * SECOND);
    let other = Keys::new(&SlotTags::new(), "another name", b"subject");
    assert_eq!(other.marker(), process.keys.marker(), "the same subject, the same slot");
    process.keys = other;
    process.seen = Sighting::default();
    assert_eq!(process.take(100), Status::Done);
}

#[test]
fn an_evicted_limit_that_was_seen_begins_empty_and_for_a_second_process_only_once() {
    let mut process = Process::new(Quota::per_second(100), 0);
    assert_eq!(process.take(90), Status::Done);
    let (mine, other) = (process.seen, process.seen);
    assert!(process.server.remove(&process.keys.limit(0)));
    process.seen = mine;
    assert_eq!(process.level().owed, 100);
    process.server.advance(500_000);
    process.seen = other;
    assert_eq!(process.level().owed, 50, "the second process that remembers the lost state does not empty it again");
}

#[test]
fn a_state_that_cannot_be_read_begins_empty() {
    // A debt of one token and half of one dripped in, then slots.
    let state = [START as f64, 1.0, 2.0, 0.0, 0.0, 1.0, 5_000.0, 10_000.0, 0.0, 0.0];
    let numbers = |count: usize| state.into_iter().chain([1.0; 30]).take(count).collect::<Vec<_>>();
    let stored = |layout: u8, numbers: &[f64]| {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
        [layout].into_iter().chain(bytes).collect::<Vec<u8>>()
    };
    let mut process = Process::new(Quota::per_second(100), 0);
    process.server.set(&process.keys.limit(0), &stored(1, &numbers(10)));
    let level = process.level();
    assert_eq!((level.owed, level.frac, level.version), (1, 5_000, 2), "such a state can be read");
    let mut garbage = vec![vec![], b"x".to_vec(), vec![1], b"1 2 3 4 5 6 7 8 9 10 11".to_vec(), vec![1; 1_000_000]];
    garbage.extend([0, 2, 255].map(|layout| stored(layout, &numbers(10))));
    garbage.extend([1, 8, 9, 11, 13, 31, 32].map(|count| stored(1, &numbers(count))));
    garbage.extend([1, 7, 8].map(|cut| stored(1, &numbers(10))[..81 - cut].to_vec()));
    for number in [-1.0, 0.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 9_007_199_254_740_992.0, 1e300] {
        garbage.extend((0..12).map(|place| {
            let mut numbers = numbers(12);
            numbers[place] = number;
            stored(1, &numbers)
        }));
    }
    let mut whole_token = numbers(10);
    whole_token[6] = 10_000.0;
    garbage.push(stored(1, &whole_token));
    for garbage in garbage {
        let mut process = Process::new(Quota::per_second(100), 0);
        process.server.set(&process.keys.limit(0), &garbage);
        let garbage = &garbage[..garbage.len().min(120)];
        assert_eq!(process.level().owed, 100, "{garbage:?}");
        process.server.advance(SECOND);
        assert_eq!(process.level().owed, 0, "{garbage:?}");
    }
}

#[test]
fn a_marker_that_cannot_be_read_is_one_of_now() {
    for garbage in ["", "x", "nan", "inf", "99999999999999999999"] {
        let mut process = Process::new(Quota::per_second(100), 0);
        process.server.set(process.keys.marker(), garbage.as_bytes());
        assert_eq!(process.level().owed, 100, "{garbage:?}");
        assert_eq!(process.server.get(process.keys.marker()), Some(START.to_string().into_bytes()), "{garbage:?}");
    }
}

#[test]
fn a_rate_of_zero_never_refills_and_never_expires() {
    let mut process = Process::new(Quota::per_second(0).burst(5), 0);
    assert_eq!(process.take(5), Status::Done);
    assert_eq!(process.server.expires(&process.keys.limit(0)), None);
    process.server.advance(NEVER - START);
    let reply = process.settle(Take { cost: 1, ..Take::default() });
    assert_eq!((reply.status, reply.levels[0].full_at), (Status::Denied, NEVER));
    assert_eq!(reply.levels[0].retry_after(&process.terms, 1, reply.now), None);
    assert_eq!(reply.levels[0].resets_in(&process.terms, reply.now), None);
    assert_eq!(process.run(0, &Command::Reset(vec![process.limit()])).status, Status::Done);
    assert_eq!(process.take(5), Status::Done);
}

#[test]
fn refunds_and_charges_are_bounded() {
    let mut process = Process::new(Quota::per_second(10).max_debt(5), 0);
    let settle =
        |process: &mut Process, charge, refund| process.settle(Take { cost: 0, charge, refund }).levels[0].owed;
    assert_eq!(settle(&mut process, 4, 0), 4);
    assert_eq!(settle(&mut process, 0, 9), 0, "full");
    assert_eq!(settle(&mut process, 3, 9), 3, "the refund comes first");
    assert_eq!(settle(&mut process, 100, 0), 15, "the deepest debt");
    assert_eq!(settle(&mut process, 0, 10), 15, "nothing while the debt exceeds the burst");
}

#[test]
fn changed_terms_hold_from_the_next_command_on() {
    let mut process = Process::new(Quota::per_second(1_000), 0);
    assert_eq!(process.take(1_000), Status::Done);
    process.terms = Terms::new(Quota::per_second(10).max_debt(0), 0).unwrap();
    assert_eq!(process.level().owed, 10, "cut to the new deepest debt");
    process.server.advance(250_000);
    let level = process.level();
    assert_eq!((level.owed, level.frac), (8, 50_000));
    process.settle(Take { cost: 1, ..Take::default() });
    process.terms = Terms::new(Quota::every(Duration::from_secs(3)).unwrap().burst(10), 0).unwrap();
    let level = process.level();
    assert_eq!((level.owed, level.frac), (9, 1_500_000), "half a token stays half a token");
}

#[test]
fn the_cost_is_independent_of_the_number_of_holders() {
    let mut process = Process::new(Quota::per_second(100_000), 50_000);
    let mut most = 0;
    for holder in 0..5_000 {
        let before = process.server.calls();
        let granted =
            process.ask(holder, LeaseRequest { seq: 1, want: 2, ..LeaseRequest::default() }).grant.unwrap().granted;
        assert_eq!(granted, 2);
        most = most.max(process.server.calls() - before);
        process.server.advance(100);
        assert!(process.stored().len() < 250, "{} bytes", process.stored().len());
    }
    assert!(most <= 6, "{most} commands to the server");
}

/// The rate times the lag is the bound only for a limit that is used up. `proofs/lease` found a full one.
#[test]
fn rollback_gives_again_what_the_lost_writes_took() {
    let mut process = Process::new(Quota::per_second(10).burst(20), 5);
    let before = (process.server.memory(), process.seen);
    assert_eq!(process.take(20), Status::Done);
    let after = process.seen;
    // A process that did not see these writes.
    process.server.restore(before.0.clone());
    process.seen = before.1;
    assert_eq!((process.take(20), process.take(1)), (Status::Done, Status::Denied), "a burst again, and no more");
    // One that did.
    process.server.restore(before.0);
    process.seen = after;
    assert_eq!(process.take(1), Status::Denied, "it knows that the server lost them");
}
