//! Refusals by damper, however they are wrapped: breakers ignore them, and retries end.

use damper::retry::{EveryErr, Failure, GaveUp};
use damper::throttle::{AdaptiveThrottle, Throttled};
use damper::{
    Admission, AdmissionRequest, Bulkhead, CallError, CircuitBreaker, Deadline, Denied, LimitSet, ManualClock, Plan,
    Quota, QuotaTree, RateLimiter, RetryError, is_refusal,
};
use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::time::Duration;

type BoxError = Box<dyn Error + Send + Sync>;

/// One refusal of each type, labelled by its origin.
fn refusals() -> Vec<(&'static str, BoxError)> {
    let clock = ManualClock::new();
    let breaker = CircuitBreaker::default();
    breaker.force_open();
    let throttle = AdaptiveThrottle::default();
    let throttled = (0..10_000).find_map(|_| match throttle.try_acquire() {
        Ok(permit) => {
            permit.rejected();
            None
        }
        Err(throttled) => Some(throttled),
    });
    let throttled = throttled.expect("it throttles");
    let open = breaker.try_acquire().unwrap_err();
    let denied = RateLimiter::with_clock(Quota::per_hour(1), &clock).check_n(2).unwrap_err();
    let no_slots = LimitSet::with_clock([Quota::per_hour(1)], &clock).with_bulkhead(Bulkhead::new(0));
    let tree = QuotaTree::<u8, 1, 1>::builder(["user"], ["calls"]).capacities([8]).build().expect("it is small");
    let plan = Plan::new(Quota::per_hour(1)).expect("it is slow");
    vec![
        ("tree", tree.check(&[(&1, [&plan])], [2]).unwrap_err().into()),
        ("wait for a tree", tree.acquire(&[(&1, [&plan])], [2]).wait().unwrap_err().into()),
        ("breaker", open.into()),
        ("limiter", denied.into()),
        ("set of limits", LimitSet::with_clock([Quota::per_hour(1)], &clock).check_n(2).unwrap_err().into()),
        ("slots of a set of limits", no_slots.reserve([1]).unwrap_err().into()),
        ("throttle", throttled.into()),
        ("bulkhead", Bulkhead::new(0).try_acquire().unwrap_err().into()),
        ("gate", Admission::fixed(0).try_acquire(AdmissionRequest::new()).unwrap_err().into()),
        ("call of a breaker", CallError::<io::Error>::Refused(open).into()),
        ("call of a throttle", CallError::<io::Error, Throttled>::Refused(throttled).into()),
        ("call of a layer", CallError::<CallError<io::Error>>::Failed(CallError::Refused(open)).into()),
        ("i/o", io::Error::other(denied).into()),
        ("retry", RetryError::new(GaveUp::NotRetryable, 1, Duration::ZERO, Some(denied)).into()),
    ]
}

#[test]
fn every_refusal_is_found_and_not_retried() {
    for (from, error) in refusals() {
        assert!(is_refusal(&*error), "{from}");
        assert_eq!(EveryErr::judge(&*error), Failure::FATAL, "{from}");
    }
}

/// The refusal of a limit is found in a chain, and says when to retry.
#[test]
fn refusal_of_a_limit_is_found_in_a_chain() {
    let found: Vec<_> =
        refusals().into_iter().filter(|(_, error)| Denied::find_in(&**error).is_some()).map(|(from, _)| from).collect();
    assert_eq!(found, ["limiter", "set of limits", "i/o", "retry"]);
    assert_eq!(Denied::find_in(&io::Error::other("down")), None);
}

#[test]
fn other_errors_are_no_refusals() {
    let exceeded = Deadline::after(Duration::ZERO).check().unwrap_err();
    assert!(!is_refusal(&exceeded), "the server may have been too slow");
    assert_eq!(EveryErr::judge(&exceeded), Failure::FATAL);
    let failed = CallError::<io::Error>::Failed(io::Error::other("down"));
    assert!(!is_refusal(&failed));
    assert_eq!(EveryErr::judge(&failed), Failure::TRANSIENT);
}

/// A refusal that the list misses would be retried, and count as a failure of the server.
#[test]
fn every_refusal_is_in_the_list_that_finds_it() {
    let source = include_str!("../../src/gate/refusals.rs");
    let list = source.split_once("    first_of! {").unwrap().1.split_once("    }").unwrap().0;
    let listed = list.lines().filter_map(|line| line.trim().strip_suffix(',')?.split(' ').next_back());
    let implemented = source.lines().filter_map(|line| line.strip_prefix("impl Refusal for ")?.strip_suffix(" {"));
    let implemented: BTreeSet<_> = implemented.chain(["AnyRefusal"]).collect();
    assert!(implemented.len() > 10, "{implemented:?}");
    assert_eq!(listed.collect::<BTreeSet<_>>(), implemented);
}
