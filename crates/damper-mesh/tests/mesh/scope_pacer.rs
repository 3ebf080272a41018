//! The pacer: when calls are sent, for any order of responses, waits and cancelled calls.

use super::scope_pacer_model::{refusal, run, usage};
use damper::ManualClock;
use damper::mesh::MeshBackoff;
use damper::mesh::internal::{Next, ScopePacer, Sent, Turn};
use damper::time::Seed;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

const LONG: Duration = Duration::MAX;

fn pacer(clock: &ManualClock, jitter: u32) -> ScopePacer<&ManualClock> {
    ScopePacer::new(10, MeshBackoff::default().jitter(jitter), Seed::new(1, 2), clock)
}

/// Sends a request for `f`.
fn send(pacer: &ScopePacer<&ManualClock>) -> Sent {
    let mut turn = pacer.turn("f");
    assert_eq!(turn.ask(LONG), Next::Due);
    turn.send().expect("it is due")
}

/// Returns the wait of a call, in milliseconds. A call without one is sent.
fn asked(turn: &mut Turn<'_, &ManualClock>) -> u64 {
    match turn.ask(LONG) {
        Next::Wait(wait) => u64::try_from(wait.as_millis()).unwrap(),
        Next::Due => turn.send().map(|_| 0).expect("it is due"),
        Next::GiveUp(_) => panic!("every wait is accepted"),
    }
}

fn wait(pacer: &ScopePacer<&ManualClock>, function: &str) -> u64 {
    asked(&mut pacer.turn(function))
}

#[test]
fn calls_that_give_up_or_are_dropped_keep_no_place() {
    let clock = ManualClock::new();
    let pacer = pacer(&clock, 0);
    pacer.note(send(&pacer), "f", &usage(Some("global"), 5, 60));
    for _ in 0..4 {
        assert_eq!(pacer.turn("f").ask(Duration::from_secs(3)), Next::GiveUp(Duration::from_secs(12)));
        assert_eq!(wait(&pacer, "f"), 12_000, "dropped while it waits");
    }
    let mut turns = [(); 3].map(|()| pacer.turn("f"));
    assert_eq!(turns.each_mut().map(asked), [12_000, 24_000, 36_000]);
    let [first, _second, _third] = turns;
    drop(first);
    assert_eq!(wait(&pacer, "g"), 12_000, "a new call gets the freed place");
}

#[test]
fn waits_have_no_cap() {
    let clock = ManualClock::new();
    let pacer = pacer(&clock, 0);
    pacer.note(send(&pacer), "f", &usage(Some("global"), 5, 3_600));
    let mut turns = [(); 6].map(|()| pacer.turn("f"));
    assert_eq!(turns.each_mut().map(asked), [720_000, 1_440_000, 2_160_000, 2_880_000, 3_600_000, 3_600_000]);
}

#[test]
fn limits_without_a_scope_count_for_every_function() {
    let clock = ManualClock::new();
    let usages = pacer(&clock, 0);
    usages.note(send(&usages), "f", &usage(None, 0, 60));
    assert_eq!((wait(&usages, "f"), wait(&usages, "g")), (60_000, 60_000));
    let refusals = pacer(&clock, 0);
    refusals.note(send(&refusals), "f", &refusal(None, Some(60)));
    assert_eq!((wait(&refusals, "f"), wait(&refusals, "g")), (60_000, 60_000));
    let functions = pacer(&clock, 0);
    functions.note(send(&functions), "f", &refusal(Some("function"), Some(60)));
    assert_eq!((wait(&functions, "f"), wait(&functions, "g")), (60_000, 0));
}

#[test]
fn one_limit_never_shortens_the_wait_of_another() {
    let clock = ManualClock::new();
    for first in [usage(Some("service"), 0, 60), refusal(Some("service"), Some(60))] {
        let pacer = pacer(&clock, 0);
        let (one, other) = (send(&pacer), send(&pacer));
        pacer.note(one, "f", &first);
        pacer.note(other, "f", &refusal(Some("user"), Some(1)));
        assert_eq!(wait(&pacer, "g"), 60_000);
    }
}

#[test]
fn only_time_ends_a_pause() {
    let clock = ManualClock::new();
    let pacer = pacer(&clock, 0);
    let (old, refused, new) = (send(&pacer), send(&pacer), send(&pacer));
    pacer.note(refused, "f", &refusal(Some("global"), Some(45)));
    for (sent, answer) in [
        (old, usage(Some("global"), 50, 30)),
        (new, usage(Some("global"), 50, 30)),
        (new, refusal(Some("global"), Some(1))),
        (new, refusal(Some("global"), None)),
    ] {
        pacer.note(sent, "f", &answer);
        assert_eq!(wait(&pacer, "f"), 45_000);
    }
    clock.advance(Duration::from_secs(45));
    assert_eq!(wait(&pacer, "f"), 0);
}

#[test]
fn refusal_without_a_wait_has_no_effect() {
    let clock = ManualClock::new();
    let pacer = pacer(&clock, 0);
    let (one, other) = (send(&pacer), send(&pacer));
    pacer.note(one, "f", &usage(Some("global"), 0, 60));
    pacer.note(other, "f", &refusal(Some("global"), None));
    assert_eq!(wait(&pacer, "f"), 60_000);
    let never = damper::mesh::MeshDuration::NEVER.value();
    pacer.note(other, "f", &refusal(Some("user"), Some(never * 3_600)));
    assert!(wait(&pacer, "f") < 301_000, "no wait exceeds the longest one");
}

#[test]
fn older_response_slows_down_but_does_not_speed_up() {
    let clock = ManualClock::new();
    let pacer = pacer(&clock, 0);
    let (old, new) = (send(&pacer), send(&pacer));
    pacer.note(new, "f", &usage(Some("global"), 5, 60));
    pacer.note(old, "f", &usage(Some("global"), 50, 60));
    pacer.note(old, "f", &usage(Some("global"), 6, 60));
    assert_eq!(wait(&pacer, "f"), 12_000);
    pacer.note(old, "f", &usage(Some("global"), 4, 60));
    assert_eq!(wait(&pacer, "f"), 15_000);
    pacer.note(new, "f", &usage(Some("global"), 50, 60));
    assert_eq!(wait(&pacer, "f"), 0);
}

#[test]
fn call_that_is_due_moves_the_pace_only_once_it_is_sent() {
    let clock = ManualClock::new();
    let pacer = pacer(&clock, 0);
    pacer.note(send(&pacer), "f", &usage(Some("global"), 5, 60));
    clock.advance(Duration::from_secs(12));
    let mut unready = pacer.turn("f");
    assert_eq!(unready.ask(LONG), Next::Due);
    assert_eq!(wait(&pacer, "f"), 0, "another call is sent");
    assert_eq!(unready.send(), None, "it is not its turn any more");
    assert_eq!(asked(&mut unready), 12_000);
}

/// It came first, so a later call is not sent in its place.
#[test]
fn call_that_waited_keeps_its_place_while_it_is_due() {
    let clock = ManualClock::new();
    let pacer = pacer(&clock, 0);
    pacer.note(send(&pacer), "f", &usage(Some("global"), 5, 60));
    let mut first = pacer.turn("f");
    assert_eq!(asked(&mut first), 12_000);
    clock.advance(Duration::from_secs(12));
    assert_eq!(first.ask(LONG), Next::Due);
    let mut second = pacer.turn("f");
    assert_eq!(asked(&mut second), 12_000);
    assert!(first.send().is_some());
    assert_eq!(asked(&mut second), 12_000);
    let mut dropped = pacer.turn("f");
    clock.advance(Duration::from_secs(12));
    assert_eq!(asked(&mut second), 0);
    assert_eq!(asked(&mut dropped), 12_000);
}

/// Their places pass unused. They get the next ones when they ask.
#[test]
fn calls_that_wake_late_delay_no_other_however_late() {
    let clock = ManualClock::new();
    let pacer = pacer(&clock, 0);
    pacer.note(send(&pacer), "f", &usage(Some("global"), 9, 90));
    let mut late = [(); 3].map(|()| pacer.turn("f"));
    assert_eq!(late.each_mut().map(asked), [10_000, 20_000, 30_000]);
    let mut in_time = [(); 4].map(|()| pacer.turn("f"));
    assert_eq!(in_time.each_mut().map(asked), [40_000, 50_000, 60_000, 70_000]);
    clock.advance(Duration::from_secs(30));
    for turn in &mut in_time {
        clock.advance(Duration::from_secs(10));
        assert_eq!(asked(turn), 0, "it is sent when it is due");
    }
    clock.advance(Duration::from_secs(5));
    let [first, second, _] = &mut late;
    assert_eq!(asked(first), 5_000);
    assert_eq!(wait(&pacer, "f"), 15_000, "the call that woke late is before a new one");
    assert_eq!(asked(second), 15_000);
}

#[test]
fn pause_during_a_wait_holds_the_call() {
    let clock = ManualClock::new();
    let pacer = pacer(&clock, 0);
    let (one, other) = (send(&pacer), send(&pacer));
    pacer.note(one, "f", &usage(Some("global"), 5, 30));
    let mut turn = pacer.turn("f");
    assert_eq!(asked(&mut turn), 6_000);
    clock.advance(Duration::from_secs(2));
    pacer.note(other, "f", &refusal(Some("global"), Some(60)));
    clock.advance(Duration::from_secs(4));
    assert_eq!(asked(&mut turn), 56_000);
}

#[test]
fn calls_are_sent_in_the_order_in_which_they_came() {
    let clock = ManualClock::new();
    let pacer = pacer(&clock, 0);
    pacer.note(send(&pacer), "f", &usage(Some("global"), 6, 60));
    let mut turns = [(); 3].map(|()| pacer.turn("f"));
    assert_eq!(turns.each_mut().map(asked), [10_000, 20_000, 30_000]);
    let [first, second, third] = &mut turns;
    clock.advance(Duration::from_secs(10));
    assert_eq!(first.ask(LONG), Next::Due);
    let sent = first.send().expect("it is due");
    clock.advance(Duration::from_secs(1));
    pacer.note(sent, "f", &usage(Some("global"), 5, 60));
    clock.advance(Duration::from_secs(9));
    assert_eq!(asked(second), 3_000, "12 s after the response");
    clock.advance(Duration::from_secs(3));
    assert_eq!(asked(second), 0);
    assert_eq!(wait(&pacer, "f"), 24_000, "a new call is sent after the third");
    clock.advance(Duration::from_secs(7));
    assert_eq!(asked(third), 5_000);
}

#[test]
fn calls_of_a_paused_function_delay_no_other_function() {
    let clock = ManualClock::new();
    let pacer = pacer(&clock, 0);
    let (one, other) = (send(&pacer), send(&pacer));
    pacer.note(one, "f", &refusal(Some("function"), Some(60)));
    pacer.note(other, "f", &usage(Some("global"), 5, 100));
    let mut paused = [(); 3].map(|()| pacer.turn("f"));
    for turn in &mut paused {
        assert!(asked(turn) >= 60_000);
    }
    assert_eq!(wait(&pacer, "g"), 20_000);
}

#[test]
fn waiting_calls_leave_spread() {
    let clock = ManualClock::new();
    for answer in [refusal(None, Some(45)), usage(None, 0, 45)] {
        let pacer = pacer(&clock, 10);
        pacer.note(send(&pacer), "f", &answer);
        let mut turns = [(); 5].map(|()| pacer.turn("f"));
        let waits = turns.each_mut().map(asked);
        assert!(waits.iter().all(|wait| (45_000..=49_500).contains(wait)), "{waits:?}");
        assert_eq!(waits.into_iter().collect::<BTreeSet<_>>().len(), 5, "{waits:?}");
        let last = pacer.turn("f").ask(Duration::from_secs(45));
        assert_eq!(last, Next::Wait(Duration::from_secs(45)), "no later than the call accepts");
    }
}

#[test]
fn paused_functions_are_kept_within_bounds() {
    let clock = ManualClock::new();
    let pacer = pacer(&clock, 0);
    for number in 0..1_000 {
        pacer.note(send(&pacer), &format!("f{number}"), &refusal(Some("function"), Some(10 + number / 10)));
    }
    let held = (0..1_000).filter(|number| wait(&pacer, &format!("f{number}")) > 0).count();
    assert_eq!(held, 256);
    assert!(wait(&pacer, "f999") > 0 && wait(&pacer, "f0") == 0, "the longest pauses are kept");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn pacer_matches_its_model(steps in proptest::collection::vec(any::<(u8, u8, u16)>(), 0..60)) {
        run(&steps);
    }
}
