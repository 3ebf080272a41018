//! Two classes of calls on a small pool of workers, at about three times its capacity.
//!
//! Users are served, and a batch gets the rest.

use damper::Deadline;
use damper::concurrency::{Admission, AdmissionRequest, Criticality, FixedLimit};
use std::thread;
use std::time::{Duration, Instant};

/// The number of workers behind the gate, and the time that a job takes.
const SLOTS: u32 = 4;
const JOB: Duration = Duration::from_millis(10);
/// Threads that call again and again.
///
/// Users want about half of the slots, the batch wants more than all.
const USERS: usize = 4;
const BATCH: usize = 10;
const RUN: Duration = Duration::from_millis(600);

/// Makes calls of a class, with a pause after each, and returns how many came and were answered.
fn calls(gate: &Admission<FixedLimit>, criticality: Criticality, pause: Duration, until: Instant) -> (u32, u32) {
    let (mut came, mut answered) = (0, 0);
    while Instant::now() < until {
        let deadline = Deadline::after(10 * JOB);
        let request = AdmissionRequest::new().criticality(criticality).by(&deadline);
        came += 1;
        match gate.acquire(request).wait() {
            Ok(permit) => {
                thread::sleep(JOB);
                permit.success();
                answered += 1;
            }
            Err(refused) => thread::sleep(refused.retry_after().unwrap_or(JOB)),
        }
        thread::sleep(pause);
    }
    (came, answered)
}

fn main() {
    let gate = Admission::fixed(SLOTS);
    let until = Instant::now() + RUN;
    let totals = thread::scope(|scope| {
        let calling = |criticality, pause| {
            scope.spawn({
                let gate = &gate;
                move || calls(gate, criticality, pause, until)
            })
        };
        let users: Vec<_> = (0..USERS).map(|_| calling(Criticality::CriticalPlus, JOB)).collect();
        let batch: Vec<_> = (0..BATCH).map(|_| calling(Criticality::Sheddable, Duration::ZERO)).collect();
        [users, batch].map(|threads| {
            let counts = threads.into_iter().map(|thread| thread.join().expect("no caller panics"));
            counts.fold((0, 0), |(came, answered), (more, of_them)| (came + more, answered + of_them))
        })
    });
    for (class, (came, answered)) in ["users", "batch"].into_iter().zip(totals) {
        println!("{class}: {answered} of {came} calls answered");
    }
    let [(came, answered), _] = totals;
    assert!(answered * 10 >= came * 9, "the users' calls are served");
    assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
}
