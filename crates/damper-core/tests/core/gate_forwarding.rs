//! Combinators of gates pass on all that a gate is asked and hears, and all that it says.

use damper::concurrency::AdmissionRequest;
use damper::gate::{
    Answer, AnyGate, Ask, AskCost, Classes, Costs, Either, Ending, Exempt, Forecast, Gate, Never, PerKey, Permit,
    Refusal, RefusalKind, Shared, Standing, Verdict, Waits,
};
use damper::shadow::Shadowed;
use damper::{Bulkhead, Quota};
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A gate that writes down what it is asked and what it hears.
///
/// It refuses every call while it is closed. None of its answers is the default of its trait.
#[derive(Clone, Default)]
struct Recorder(Arc<Record>);

#[derive(Default)]
struct Record {
    events: Mutex<Vec<String>>,
    is_closed: AtomicBool,
}

impl Recorder {
    fn write(&self, event: impl Into<String>) {
        self.0.events.lock().unwrap().push(event.into());
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed.load(Ordering::Relaxed)
    }

    fn answer(&self, question: &str) -> Answer<Self, Never<Self, Busy>, Busy> {
        self.write(question);
        if self.is_closed() { Answer::Refuse(Busy) } else { Answer::Pass(self.clone()) }
    }

    fn outlook(&self, question: &str) -> Forecast<Busy> {
        self.write(question);
        if self.is_closed() { Forecast::Refuse(Busy) } else { Forecast::Pass(Some(standing(3))) }
    }
}

fn standing(remaining: u32) -> Standing {
    Standing::new(Quota::per_second(7), remaining, Some(Duration::from_secs(2)))
}

impl Gate for Recorder {
    type Permit = Self;
    type Refusal = Busy;
    type Wait = Never<Self, Busy>;

    fn refusal(&self) -> Option<Busy> {
        self.is_closed().then_some(Busy)
    }

    fn refused_unasked(&self, refusal: &Busy) {
        self.write(format!("refused unasked: {refusal}"));
    }
}

impl<Q: ?Sized> Ask<Q> for Recorder {
    fn ask(&self, _: &Q) -> Answer<Self, Self::Wait, Busy> {
        self.answer("asked")
    }

    fn forecast(&self, _: &Q) -> Forecast<Busy> {
        self.outlook("asked for a forecast")
    }
}

/// Each call costs the one token that it costs without `Costs`.
impl<Q: ?Sized> AskCost<Q> for Recorder {
    fn ask_cost(&self, call: &Q, tokens: u32) -> Answer<Self, Self::Wait, Busy> {
        assert_eq!(tokens, 1);
        self.ask(call)
    }

    fn forecast_cost(&self, call: &Q, tokens: u32) -> Forecast<Busy> {
        assert_eq!(tokens, 1);
        self.forecast(call)
    }
}

impl Permit for Recorder {
    fn answered(&mut self, verdict: &Verdict) {
        self.write(format!("answered {:?}, cost {:?}", verdict.ending, verdict.cost));
    }

    fn first_data(&mut self) {
        self.write("first data");
    }

    fn end(self, verdict: &Verdict) {
        self.write(format!("ended {:?}, cost {:?}", verdict.ending, verdict.cost));
    }

    fn panicked(self) {
        self.write("panicked");
    }

    fn usual_latency(&self) -> Option<Duration> {
        Some(Duration::from_millis(9))
    }

    fn was_asked(&self) -> bool {
        false
    }
}

/// A refusal without a default in it.
#[derive(Clone, Debug)]
struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("busy")
    }
}

impl Error for Busy {}

impl Refusal for Busy {
    fn kind(&self) -> RefusalKind {
        RefusalKind::Failed
    }

    fn retry_after(&self) -> Option<Duration> {
        Some(Duration::from_secs(6))
    }

    fn standing(&self) -> Option<Standing> {
        Some(standing(0))
    }

    fn label(&self) -> &'static str {
        "busy_recorder"
    }
}

/// Asks a gate around the recorder all that can be asked.
///
/// Returns what the caller saw and what the recorder heard.
fn story<G: Ask<u8>>(recorder: &Recorder, gate: &G) -> Vec<String> {
    let seen = |event: String| recorder.write(format!("seen: {event}"));
    let pass = || gate.ask(&5).at_once().expect("no call waits").unwrap_or_else(|refusal| panic!("{refusal}"));
    recorder.0.is_closed.store(false, Ordering::Relaxed);

    seen(forecast(gate));
    let mut permit = pass();
    seen(format!("{:?} {}", permit.usual_latency(), permit.was_asked()));
    permit.answered(&Verdict::of(Ending::Declined).with_cost(8));
    permit.first_data();
    permit.end(&Verdict::of(Ending::TimedOut).with_cost(12));
    pass().panicked();

    recorder.0.is_closed.store(true, Ordering::Relaxed);
    seen(forecast(gate));
    let refusal = gate.ask(&5).at_once().expect("no call waits").err().expect("it is closed");
    seen(description(&refusal));
    std::mem::take(&mut *recorder.0.events.lock().unwrap())
}

/// Refuses a call that the gate is not asked about, and returns what the recorder heard.
fn story_without_a_question<G: Gate>(recorder: &Recorder, gate: &G) -> Vec<String> {
    recorder.0.is_closed.store(false, Ordering::Relaxed);
    assert!(gate.refusal().is_none(), "some call passes");
    recorder.0.is_closed.store(true, Ordering::Relaxed);
    let refusal = gate.refusal().expect("it is closed for all");
    recorder.write(format!("seen: {}", description(&refusal)));
    gate.refused_unasked(&refusal);
    std::mem::take(&mut *recorder.0.events.lock().unwrap())
}

fn description(refusal: &impl Refusal) -> String {
    let (kind, wait, standing) = (refusal.kind(), refusal.retry_after(), refusal.standing());
    format!("{refusal}, {}, {kind:?}, {wait:?}, {standing:?}", refusal.label())
}

fn forecast<G: Ask<u8>>(gate: &G) -> String {
    format!("{:?}", gate.forecast(&5).map(|refusal| description(&refusal)))
}

type Absent = Option<Recorder>;

/// Compares the story of each combinator, and of some more, with that of the recorder alone.
///
/// The other gate of a pair is absent.
macro_rules! each_combinator_tells {
    ($story:ident, $recorder:ident, $plain:ident $(, $more:expr)*) => {
        each_combinator_tells!(@ $story, $recorder, $plain,
            Some($recorder.clone()),
            Shared::new($recorder.clone()),
            AnyGate::<u8>::new($recorder.clone()),
            Either::<_, Absent>::First($recorder.clone()),
            Either::<Absent, _>::Second($recorder.clone()),
            ($recorder.clone(), Absent::None),
            (Absent::None, $recorder.clone()),
            Costs::new($recorder.clone(), |_: &u8| 1),
            Classes::new($recorder.clone(), |_: &u8| AdmissionRequest::new()),
            Shadowed::new($recorder.clone(), Absent::None)
            $(, $more)*
        );
    };
    (@ $story:ident, $recorder:ident, $plain:ident, $($gate:expr),*) => {
        $(assert_eq!($story(&$recorder, &$gate), $plain, stringify!($gate));)*
    };
}

#[test]
fn combinators_pass_on_all_of_a_call() {
    let recorder = Recorder::default();
    let plain = story(&recorder, &recorder);
    assert_eq!(plain.len(), 13, "{plain:#?}");
    each_combinator_tells!(
        story,
        recorder,
        plain,
        Exempt::new(recorder.clone(), |_: &u8| false),
        PerKey::new(|call: &u8| *call, recorder.clone())
    );
}

#[test]
fn combinators_pass_on_a_refusal_without_a_question() {
    let recorder = Recorder::default();
    let plain = story_without_a_question(&recorder, &recorder);
    assert_eq!(plain.last().unwrap(), "refused unasked: busy");
    each_combinator_tells!(story_without_a_question, recorder, plain);
}

/// Each gate of a pair hears what it would hear alone.
#[test]
fn both_gates_of_a_pair_learn_from_a_call() {
    let (outer, inner) = (Recorder::default(), Recorder::default());
    let pair = (outer.clone(), inner.clone());
    let plain = story(&inner, &inner);
    let heard = |story: Vec<String>| story.into_iter().filter(|event| !event.starts_with("seen")).collect::<Vec<_>>();
    assert_eq!(heard(story(&inner, &pair)), heard(plain.clone()));
    let outer = heard(std::mem::take(&mut *outer.0.events.lock().unwrap()));
    let last = outer.last().expect("it was asked");
    assert_eq!(last, "ended NotSent, cost None", "the inner gate refused the last call");
    let (until_panic, _) = outer.split_at(outer.len() - 3);
    assert_eq!(until_panic, &heard(plain)[..until_panic.len()]);
}

/// A pair of which no gate is asked is not asked: metrics do not count its calls as allowed.
#[test]
fn pair_of_absent_gates_was_not_asked() {
    let was_asked = |pair: (Absent, Option<Arc<Bulkhead>>)| {
        pair.ask(&5u8).at_once().expect("no call waits").is_ok_and(|permit| permit.was_asked())
    };
    assert!(!was_asked((None, None)));
    assert!(was_asked((None, Some(Arc::new(Bulkhead::new(1))))));
}

/// A gate that has no forecasts of its own.
#[derive(Clone, Copy)]
struct Silent;

impl Gate for Silent {
    type Permit = ();
    type Refusal = Busy;
    type Wait = Never<(), Busy>;
}

impl<Q: ?Sized> Ask<Q> for Silent {
    fn ask(&self, _: &Q) -> Answer<(), Self::Wait, Busy> {
        Answer::Refuse(Busy)
    }
}

impl<Q: ?Sized> AskCost<Q> for Silent {
    fn ask_cost(&self, call: &Q, _: u32) -> Answer<(), Self::Wait, Busy> {
        self.ask(call)
    }
}

/// Nothing is said of a call to a gate without forecasts, least of all that it passes.
#[test]
fn forecast_of_a_gate_without_forecasts_is_unknown() {
    for forecast in [
        forecast(&Silent),
        forecast(&AnyGate::<u8>::new(Silent)),
        forecast(&Either::<Silent, Absent>::First(Silent)),
        forecast(&(Recorder::default(), Silent)),
        forecast(&(Silent, Recorder::default())),
        forecast(&Costs::new(Silent, |_: &u8| 1)),
        forecast(&PerKey::new(|call: &u8| *call, Silent)),
    ] {
        assert_eq!(forecast, "Unknown");
    }
}

/// A wait behind a pointer ends as the wait itself does.
#[tokio::test(start_paused = true)]
async fn calls_wait_at_a_gate_behind_a_pointer() {
    let pool = Arc::new(Bulkhead::new(1).queue(2));
    let gate = AnyGate::<u8>::new(Waits::new(Arc::clone(&pool), Duration::from_millis(100), tokio::time::sleep));
    let Answer::Pass(held) = gate.ask(&5) else { panic!("a slot is free") };
    assert_eq!(forecast(&gate), "Wait");
    let Answer::Wait(late) = gate.ask(&5) else { panic!("the slot is taken") };
    let Err(refusal) = late.await else { panic!("no slot became free in 100 ms") };
    assert_eq!(refusal.label(), "timed_out");

    let Answer::Wait(waiting) = gate.ask(&5) else { panic!("the slot is taken") };
    drop(held);
    let permit = waiting.await.expect("the slot became free");
    assert_eq!(pool.in_flight(), 1);
    permit.end(&Verdict::of(Ending::Success));
    assert_eq!(pool.in_flight(), 0);
}
