//! Workers that die, and the slots that they held.

use crate::children::child;
use crate::inherit::open_memories;
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use damper_core::words::{Seat, WordBulkhead, WordLimiter};
use damper_core::{ManualClock, Plan, Quota};
use damper_shm::{SharedWords, SharedWordsError, Workers, inherited_seat};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

const WORDS: usize = 16;
/// The word of the bulkhead.
const SLOTS: usize = 1;
const LIMIT: u8 = 6;
/// The slots that a child takes.
const TAKEN: u32 = 2;
/// The word of a limit without a refill.
const TOKENS: usize = 2;

/// A limit whose clock stands still, so its burst is all that it ever has.
fn limit(words: &[AtomicU64]) -> WordLimiter<'_, ManualClock> {
    let plan = Plan::new(Quota::per_second(1).burst(100_000)).expect("it is in range");
    WordLimiter::new(&words[TOKENS], plan, ManualClock::new())
}

/// A worker: enters, says so, and stays.
pub(crate) fn holds_slots() {
    let shared = SharedWords::inherited(WORDS).expect("the words are inherited");
    let slots = WordBulkhead::new(&shared.words()[SLOTS], LIMIT, inherited_seat().expect("a seat"));
    let permits = [slots.enter().expect("a slot"), slots.enter().expect("a slot")];
    println!("entered");
    stays();
    drop(permits);
}

/// A worker that stays until it is killed or the test has ended.
pub(crate) fn stays() {
    // The test holds the other end of the pipe, also if it fails.
    _ = std::io::stdin().read(&mut [0]);
}

/// A worker: takes tokens until none is left, and says how many it took.
pub(crate) fn takes_tokens() {
    let shared = SharedWords::inherited(WORDS).expect("the words are inherited");
    let limit = limit(shared.words());
    let mut taken = 0_u32;
    while limit.check().is_ok() {
        taken += 1;
    }
    println!("took {taken}");
}

fn words() -> SharedWords {
    SharedWords::create("damper-test", WORDS).expect("memory")
}

fn worker(role: &str) -> Command {
    let mut command = child(role);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Waits for the line of a worker that begins like this, and returns it.
fn line(workers: &mut Workers<'_>, seat: Seat, begin: &str) -> String {
    let output = workers.child(seat).and_then(|child| child.stdout.take()).expect("its output is piped");
    // The test runner of the child writes lines of its own before.
    let mut lines = BufReader::new(output).lines().map(|line| line.expect("the output is text"));
    lines.find_map(|line| Some(line[line.find(begin)?..].to_owned())).expect("the worker writes it")
}

fn number(seat: Seat) -> u8 {
    seat.number()
}

#[test]
fn slots_of_the_dead_are_freed_and_only_theirs() {
    let shared = words();
    let word = &shared.words()[SLOTS];
    let mut workers = Workers::new(&shared).reclaims(word);
    let seats = [(); 3].map(|()| workers.spawn(worker("holds_slots")).expect("a worker"));
    assert_eq!(seats.map(number), [0, 1, 2], "each has the lowest vacant seat");
    for seat in seats {
        line(&mut workers, seat, "entered");
    }
    let outside = WordBulkhead::new(word, LIMIT, Seat::new(7).expect("a seat"));
    assert_eq!(outside.in_flight(), 3 * TAKEN);
    assert!(outside.enter().is_err());

    let victim = workers.child(seats[1]).expect("it runs");
    let id = victim.id();
    victim.kill().expect("it runs");
    let exited = workers.wait().expect("a child").expect("one of the workers");
    assert_eq!((exited.seat, exited.id), (seats[1], id));
    assert_eq!(exited.to_string(), format!("worker {id} in seat 1: signal: 9 (SIGKILL)"));
    assert_eq!(outside.in_flight(), 2 * TAKEN);
    assert_eq!(outside.in_flight_of(seats[1]), 0);
    assert_eq!(workers.running().map(|(seat, _)| number(seat)).collect::<Vec<_>>(), [0, 2]);

    // The next worker has the vacant seat, and the others were left alone.
    assert_eq!(workers.spawn(worker("holds_slots")).map(number).ok(), Some(1));
    line(&mut workers, seats[1], "entered");
    assert_eq!(outside.in_flight(), 3 * TAKEN);
    end_all(workers);
    assert_eq!(outside.in_flight(), 0);
}

#[test]
fn slots_of_the_dead_are_freed_in_every_bulkhead() {
    let shared = words();
    let bulkheads = [&shared.words()[SLOTS], &shared.words()[SLOTS + 2]];
    let mut workers = Workers::new(&shared).reclaims(bulkheads[0]).reclaims(bulkheads[1]);
    let seat = workers.spawn(worker("stays")).expect("a worker");
    for word in bulkheads {
        // The slot is the worker's, so this process does not free it.
        core::mem::forget(WordBulkhead::new(word, LIMIT, seat).enter().expect("a slot"));
    }
    end_all(workers);
    let outside = Seat::new(7).expect("a seat");
    assert_eq!(bulkheads.map(|word| WordBulkhead::new(word, LIMIT, outside).in_flight()), [0, 0]);
}

#[test]
fn slots_of_a_stopped_worker_stay_taken() {
    let shared = words();
    let word = &shared.words()[SLOTS];
    let mut workers = Workers::new(&shared).reclaims(word);
    let seat = workers.spawn(worker("holds_slots")).expect("a worker");
    line(&mut workers, seat, "entered");
    let pid = Pid::from_child(workers.child(seat).expect("it runs"));
    kill_process(pid, Signal::STOP).expect("it runs");
    assert_eq!(workers.wait_timeout(Duration::from_millis(20)).expect("a child"), None);
    let outside = WordBulkhead::new(word, LIMIT, Seat::new(7).expect("a seat"));
    assert_eq!(outside.in_flight(), TAKEN, "it can go on at any time");
    end_all(workers);
    assert_eq!(outside.in_flight(), 0);
}

/// A program may also wait for all of its children itself, such as an init process of a container.
#[test]
fn seat_is_vacated_if_other_code_took_the_status() {
    let shared = words();
    let word = &shared.words()[SLOTS];
    let mut workers = Workers::new(&shared).reclaims(word);
    let seat = workers.spawn(worker("holds_slots")).expect("a worker");
    line(&mut workers, seat, "entered");
    let victim = workers.child(seat).expect("it runs");
    let pid = Pid::from_child(victim);
    victim.kill().expect("it runs");
    waitpid(Some(pid), WaitOptions::empty()).expect("it was killed").expect("it has died");
    let error = workers.wait().expect_err("the status is gone");
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::CHILD.raw_os_error()));
    let outside = WordBulkhead::new(word, LIMIT, Seat::new(7).expect("a seat"));
    assert_eq!((outside.in_flight(), workers.running().count()), (0, 0));
    assert_eq!(workers.wait().expect("no child"), None);
    assert_eq!(workers.spawn(child("ends")).map(number).ok(), Some(0), "the seat is vacant");
    assert!(workers.wait().expect("a child").is_some());
}

#[test]
fn eight_workers_have_seats_and_no_ninth() {
    let shared = words();
    let mut workers = Workers::new(&shared);
    let seats: Vec<_> = (0..8).map(|_| workers.spawn(worker("stays")).map(number).expect("a worker")).collect();
    assert_eq!(seats, [0, 1, 2, 3, 4, 5, 6, 7]);
    let error = workers.spawn(worker("stays")).expect_err("no seat is left");
    assert!(matches!(error, SharedWordsError::NoVacantSeat));
    assert_eq!(error.to_string(), "all 8 seats have workers");
    assert!(error.source().is_none());
    end_all(workers);
}

#[test]
fn seat_stays_vacant_if_the_worker_does_not_start() {
    let shared = words();
    let mut workers = Workers::new(&shared);
    let error = workers.spawn(Command::new("/nonexistent")).expect_err("there is no such program");
    assert!(matches!(error, SharedWordsError::System { call: "spawn", .. }), "{error}");
    let cause = error.source().expect("the error of the system");
    assert_eq!(error.to_string(), format!("spawn failed: {cause}"));
    assert_eq!(workers.wait().expect("no child"), None, "there are no workers");
    assert_eq!(workers.spawn(child("ends")).map(number).ok(), Some(0));
    let exited = workers.wait().expect("a child").expect("the worker");
    assert!(exited.status.success());
}

/// A supervisor that runs for years has as many descriptors as in its first second.
#[test]
fn restarts_leave_no_descriptors() {
    let shared = SharedWords::create("damper-restarts", WORDS).expect("memory");
    let mut workers = Workers::new(&shared);
    for _ in 0..5 {
        assert_eq!(workers.spawn(child("ends")).map(number).ok(), Some(0));
        assert!(workers.wait().expect("a child").is_some());
    }
    assert_eq!(open_memories("damper-restarts"), 1, "the descriptor of `shared`");
}

/// A burst that several processes take is taken once.
#[test]
fn processes_share_a_limit() {
    let shared = words();
    let mut workers = Workers::new(&shared);
    let seats = [(); 4].map(|()| workers.spawn(worker("takes_tokens")).expect("a worker"));
    let taken = seats.map(|seat| line(&mut workers, seat, "took ")[5..].parse::<u32>().expect("a number"));
    assert_eq!(taken.iter().sum::<u32>(), 100_000, "{taken:?}");
    for _ in seats {
        assert!(workers.wait().expect("a child").is_some());
    }
    assert_eq!(limit(shared.words()).peek().remaining(), 0);
}

#[test]
fn process_without_a_supervisor_has_no_seat() {
    let error = inherited_seat().expect_err("this is no worker");
    assert_eq!(error.to_string(), "DAMPER_SHM_SEAT is not set, so no supervisor started this process");
}

fn end_all(mut workers: Workers<'_>) {
    let seats: Vec<_> = workers.running().map(|(seat, _)| seat).collect();
    for seat in &seats {
        workers.child(*seat).expect("it runs").kill().expect("it runs");
    }
    for _ in &seats {
        assert!(workers.wait().expect("a child").is_some());
    }
    assert_eq!(workers.wait().expect("no child"), None, "each worker ends once");
}
