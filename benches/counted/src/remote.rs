//! Decisions by tokens that a process leased of a limit across machines.

use crate::still::{now, still};
use crate::{Call, Row, rows};
use damper::{Clock, Quota};
use damper_core::internal::ExpiringLease;
use damper_redis::internal::{Answer, Command, Grant, Level, NextStep, Plan, Reply, Status, Subject, Terms};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const ROWS: &[Row] = rows![expiring_lease, leased_subject];

/// More than is ever taken.
const PLENTY: u32 = 1 << 20;

fn expiring_lease() -> Call {
    let clock = still!();
    let lease = ExpiringLease::new(clock.frequency());
    lease.renew(0, PLENTY, 1_000_000_000, &clock);
    Box::new(move || lease.spend(1, &clock).is_some())
}

/// A check of a process that leases, up to its answer.
fn leased_subject() -> Call {
    let quota = Quota::per_second(1 << 28).burst(1 << 28);
    let terms = Terms::new(quota, 1 << 26).expect("a rate that can be counted");
    let subject = Subject::new(Arc::new(Plan::new(vec![terms], Duration::from_secs(1))), 1, still!());
    // Each check asks, until there are enough of them to lease.
    loop {
        let Answer::Ask(outgoing) = subject.check(PLENTY) else { panic!("the first checks are the server's") };
        let mut reply = Reply {
            status: Status::Done,
            now: now(),
            levels: vec![Level { version: 1, at: now(), owed: 0, frac: 0, held: 0, full_at: now() }],
            grant: None,
            counted: Vec::new(),
        };
        let Command::Lease(_, ask) = outgoing.command() else {
            let _ = subject.replied(*outgoing, &reply);
            continue;
        };
        reply.grant =
            Some(Grant { seq: ask.seq, granted: ask.want, kept: 0, length: 1_000_000, leased: ask.want.into() });
        let _ = subject.replied(*outgoing, &reply);
        assert!(matches!(subject.due(), NextStep::At(_)), "the lease is there");
        return Box::new(move || matches!(subject.check(1), Answer::Allowed(_)));
    }
}
