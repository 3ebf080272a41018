//! A gate of one's own, which is closed at night, beside damper's gates.

use damper::gate::{Answer, Ask, Gate, Never, PerKey, Permit, Refusal, RefusalKind, Verdict, is_refusal};
use damper::{CallError, Clock, KeyedLimiter, ManualClock, Quota};
use std::sync::Arc;
use std::time::Duration;

/// Lets calls pass from 6:00 to 22:00.
#[derive(Clone)]
struct OpeningHours<C>(C);

#[derive(Clone, Debug)]
struct Closed(Duration);

impl<C: Clock> Gate for OpeningHours<C> {
    type Permit = (); // it learns nothing from calls, and holds nothing while they last
    type Refusal = Closed;
    type Wait = Never<(), Closed>; // no call waits
}

impl<C: Clock, Q: ?Sized> Ask<Q> for OpeningHours<C> {
    fn ask(&self, _call: &Q) -> Answer<(), Self::Wait, Closed> {
        match self.0.now() / self.0.frequency() / 3_600 % 24 {
            6..22 => Answer::Pass(()),
            hour => Answer::Refuse(Closed(Duration::from_secs((30 - hour) % 24 * 3_600))),
        }
    }
}

impl Refusal for Closed {
    fn kind(&self) -> RefusalKind {
        RefusalKind::Unavailable // 503, or gRPC's UNAVAILABLE
    }

    fn retry_after(&self) -> Option<Duration> {
        Some(self.0)
    }
}

impl std::error::Error for Closed {}

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("closed at night")
    }
}

struct Call {
    user: &'static str,
}

fn main() -> Result<(), damper::OutOfRange> {
    let clock = Arc::new(ManualClock::new());
    let limits = KeyedLimiter::<&'static str>::builder(Quota::per_hour(2)).clock(Arc::clone(&clock)).build()?;
    // Both have to let a call pass. The first is asked first.
    let gate = (OpeningHours(Arc::clone(&clock)), PerKey::new(|call: &Call| call.user, Arc::new(limits)));

    let (mut served, mut closed, mut over_limit) = (0, 0, 0);
    for _hour in 0..24 {
        for user in ["alice", "alice", "alice", "bob"] {
            match gate.ask(&Call { user }) {
                Answer::Pass(permit) => {
                    let result: Result<(), std::io::Error> = Ok(()); // the call is made here
                    permit.end(&Verdict::of_result(&result));
                    served += 1;
                }
                Answer::Refuse(refusal) if refusal.kind() == RefusalKind::OverLimit => over_limit += 1,
                Answer::Refuse(refusal) => {
                    // Gates around this one know that the call was not made.
                    assert!(is_refusal(&CallError::<std::io::Error, _>::Refused(refusal)));
                    closed += 1;
                }
                Answer::Wait(_) => {} // at these gates no call waits
            }
        }
        clock.advance(Duration::from_secs(3600));
    }
    println!("in a day: {served} calls served, {over_limit} over their limit, {closed} at night");
    assert_eq!((served, over_limit, closed), (48, 16, 32));
    Ok(())
}
