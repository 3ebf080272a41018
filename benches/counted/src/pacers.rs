//! One call through a pacer: the sleep before it, and what its answer teaches.

use crate::still::still;
use crate::{Call, Row, rows};
use damper::throttle::compared::CubicRate;
use damper::throttle::{Hints, Level, Pacer, RemainingDecrease, Strategy};
use damper::{Clock, Quota};

pub(crate) const ROWS: &[Row] = rows![pacer_idle, pacer_call, pacer_rejected, pacer_remaining, pacer_cubic];

const QUOTA: Quota = Quota::per_hour(4_500);

fn accepted<S: Strategy + 'static, C: Clock + 'static>(pacer: Pacer<S, C>) -> Call {
    let hints = Hints::ACCEPTED.remaining(Some(3));
    Box::new(move || {
        _ = pacer.before_call();
        pacer.answered(&hints).is_none()
    })
}

/// Before the first rejection.
fn pacer_idle() -> Call {
    accepted(Pacer::with_clock(Level::new(QUOTA), still!(), 7))
}

fn pacer_call() -> Call {
    let pacer = Pacer::with_clock(Level::new(QUOTA), still!(), 7);
    pacer.answered(&Hints::REJECTED);
    accepted(pacer)
}

fn pacer_rejected() -> Call {
    let pacer = Pacer::with_clock(Level::new(QUOTA), still!(), 7);
    let hints = Hints::REJECTED.remaining(Some(0));
    Box::new(move || {
        _ = pacer.before_call();
        pacer.answered(&hints).is_some()
    })
}

fn pacer_remaining() -> Call {
    let pacer = Pacer::with_clock(RemainingDecrease::new(QUOTA), still!(), 7);
    pacer.answered(&Hints::REJECTED);
    accepted(pacer)
}

fn pacer_cubic() -> Call {
    let pacer = Pacer::with_clock(CubicRate::new(QUOTA), still!(), 7);
    pacer.answered(&Hints::REJECTED);
    accepted(pacer)
}
