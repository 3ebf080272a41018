//! The first message of a stream makes it a successful probe.
//!
//! Its end counts later, as that of a call in the closed state. So a healthy stream of many hours blocks no other call.

use crate::breaker_support::{Asked, BoxError, COOLDOWN, Clocked, Script, Step, clocked, let_probe, polled, request};
use bytes::Bytes;
use damper::breaker::State;
use damper::http::CircuitBreakerLayer;
use damper::{BreakerConfig, CircuitBreaker, CircuitOpen, ManualClock};
use http::Response;
use http_body::Body;
use std::error::Error;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::Service;
use tower::util::BoxCloneService;

type Stream = Pin<Box<dyn Body<Data = Bytes, Error = BoxError>>>;

/// The response to a call: a stream, or the breaker's refusal.
type Call = dyn FnMut(&Script) -> Result<Stream, CircuitOpen>;

/// The layers of HTTP and gRPC, and how a stream ends successfully in each.
fn both(breaker: &Clocked) -> Vec<(&'static str, Box<Call>)> {
    fn calls<S, B>(service: impl Fn(Server) -> S + 'static) -> Box<Call>
    where
        S: Service<Asked, Response = Response<B>, Error: Error + 'static>,
        B: Body<Data = Bytes, Error = BoxError> + 'static,
    {
        Box::new(move |script| {
            let script = script.clone();
            let server = tower::service_fn(move |_: Asked| {
                let answer = Response::builder().header("content-type", "application/grpc").body(script.clone());
                ready(Ok::<_, std::io::Error>(answer.unwrap()))
            });
            match polled(service(Server::new(server)).call(request())) {
                Ok(answer) => Ok(Box::pin(answer.into_body())),
                Err(error) => Err(*CircuitOpen::find_in(&error).expect("refused by the breaker")),
            }
        })
    }
    let http = CircuitBreakerLayer::new(Arc::clone(breaker)).when_body_ends();
    vec![
        ("http", calls(move |server| http.layer(server))),
        ("grpc", {
            let grpc = CircuitBreakerLayer::new(Arc::clone(breaker)).completion(damper::tonic::AtTrailers::new());
            calls(move |server| grpc.layer(server))
        }),
    ]
}

type Server = BoxCloneService<Asked, Response<Script>, std::io::Error>;

const MESSAGE: Step = Step::Data(b"\0\0\0\0\0");

/// The end of a stream, successful or not.
fn end(is_well: bool) -> Step {
    if is_well { Step::Trailers(http::HeaderMap::from_iter([status("0")])) } else { Step::Fail }
}

fn status(code: &'static str) -> (http::HeaderName, http::HeaderValue) {
    (http::HeaderName::from_static("grpc-status"), http::HeaderValue::from_static(code))
}

/// Reads the next frame of a stream, and returns whether there is one and whether it is an error.
fn next(stream: &mut Stream) -> Poll<Option<bool>> {
    let frame = stream.as_mut().poll_frame(&mut Context::from_waker(Waker::noop()));
    frame.map(|frame| frame.map(|frame| frame.is_ok()))
}

const THERE: Poll<Option<bool>> = Poll::Ready(Some(true));
const FAILED: Poll<Option<bool>> = Poll::Ready(Some(false));

/// Makes a call that is answered at once, and returns whether the breaker admitted it.
fn passes(call: &mut Call) -> bool {
    let script = Script::of([MESSAGE, end(true)]);
    let Ok(mut stream) = call(&script) else { return false };
    assert_eq!((next(&mut stream), next(&mut stream)), (THERE, THERE));
    true
}

/// A watch opened as the probe lasts for ten hours, with a message every ten minutes.
///
/// Beside it there is a call every minute.
#[test]
fn long_stream_as_the_only_probe_lets_others_pass() {
    for protocol in 0..both(&clocked(1).1).len() {
        let (clock, breaker) = clocked(5);
        let (name, mut call) = both(&breaker).swap_remove(protocol);
        let_probe(&clock, &breaker);
        let script = Script::default();
        let mut watch = call(&script).unwrap();
        assert!(next(&mut watch).is_pending());
        assert!(!passes(&mut *call), "{name}: the probe has no result yet");
        let mut passed = 0;
        for minute in 0..600 {
            if minute % 10 == 0 {
                script.push(MESSAGE);
                assert_eq!(next(&mut watch), THERE);
            }
            passed += u32::from(passes(&mut *call));
            clock.advance(Duration::from_mins(1));
        }
        assert_eq!((passed, breaker.state()), (600, State::Closed), "{name}");
    }
}

#[test]
fn end_of_the_closing_stream_counts_as_a_call() {
    for protocol in 0..both(&clocked(1).1).len() {
        for (threshold, is_well, state, failures) in [
            (1, true, State::Closed, 0),
            (1, false, State::Open, 0),
            (3, true, State::Closed, 0),
            (3, false, State::Closed, 2),
        ] {
            let (clock, breaker) = clocked(threshold);
            let (name, mut call) = both(&breaker).swap_remove(protocol);
            let_probe(&clock, &breaker);
            let script = Script::of([MESSAGE]);
            let mut stream = call(&script).unwrap();
            assert_eq!(next(&mut stream), THERE);
            assert_eq!(breaker.state(), State::Closed, "{name}");
            if threshold > 1 {
                breaker.try_acquire().unwrap().failure();
            }
            script.push(MESSAGE);
            assert_eq!(next(&mut stream), THERE);
            assert_eq!(
                breaker.status().consecutive_failures(),
                u32::from(threshold > 1),
                "{name}: a message records no verdict"
            );
            script.push(end(is_well));
            assert_eq!(next(&mut stream), if is_well { THERE } else { FAILED });
            let end = (breaker.state(), breaker.status().consecutive_failures());
            assert_eq!(end, (state, failures), "{name}, {threshold}, {is_well}");
        }
    }
}

/// The first message ends a probe, not the head.
///
/// A stream that fails before its first message is a failed probe. A stream that is dropped before it records no
/// verdict.
#[test]
fn stream_without_a_message_is_classified_by_its_end() {
    for protocol in 0..both(&clocked(1).1).len() {
        let (clock, breaker) = clocked(5);
        let (name, mut call) = both(&breaker).swap_remove(protocol);
        for (steps, state) in [
            (vec![end(false)], State::Open),
            (vec![Step::Data(b""), end(false)], State::Open),
            (vec![], State::HalfOpen),
        ] {
            let_probe(&clock, &breaker);
            let script = Script::of(steps);
            let mut stream = call(&script).unwrap();
            while next(&mut stream) == THERE {}
            drop(stream);
            assert_eq!(breaker.state(), state, "{name}");
        }
        assert!(passes(&mut *call));
        assert_eq!(breaker.state(), State::Closed, "{name}");
    }
}

/// If the breaker trips again after the first message, the stream's later results are discarded.
#[test]
fn stream_of_an_earlier_generation_records_no_verdict() {
    for protocol in 0..both(&clocked(1).1).len() {
        // The stream closed the breaker, and other calls tripped it again.
        let (clock, breaker) = clocked(1);
        let (name, mut call) = both(&breaker).swap_remove(protocol);
        let_probe(&clock, &breaker);
        let script = Script::of([MESSAGE]);
        let mut stream = call(&script).unwrap();
        assert_eq!(next(&mut stream), THERE);
        let_probe(&clock, &breaker);
        assert_eq!(breaker.state(), State::HalfOpen);
        script.push(end(false));
        assert_eq!(next(&mut stream), FAILED);
        assert_eq!(breaker.state(), State::HalfOpen, "{name}");

        // The stream is dropped. A dropped probe would count as a failure here.
        let clock = Arc::new(ManualClock::new());
        let config = BreakerConfig::builder().failure_threshold(1).abandoned_probes_fail().build().unwrap();
        let breaker = Arc::new(CircuitBreaker::with_clock(config, Arc::clone(&clock)));
        let (name, mut call) = both(&breaker).swap_remove(protocol);
        let_probe(&clock, &breaker);
        let script = Script::of([MESSAGE]);
        let mut stream = call(&script).unwrap();
        assert_eq!(next(&mut stream), THERE);
        drop(stream);
        assert_eq!(breaker.state(), State::Closed, "{name}");
    }
}

/// If more probes are needed, a stream frees its place at its first message.
///
/// It then records no verdict: neither in the half-open breaker, nor after other probes closed it, nor after a reset.
#[test]
fn stream_is_one_probe_of_several() {
    for protocol in 0..both(&clocked(1).1).len() {
        for by_reset in [false, true] {
            let clock = Arc::new(ManualClock::new());
            let config = BreakerConfig::builder().failure_threshold(1).successes_to_close(3).build().unwrap();
            let breaker = Arc::new(CircuitBreaker::with_clock(config, Arc::clone(&clock)));
            let (name, mut call) = both(&breaker).swap_remove(protocol);
            let_probe(&clock, &breaker);
            let scripts = [Script::of([MESSAGE]), Script::of([MESSAGE])];
            let mut streams = scripts.each_ref().map(|script| {
                let mut stream = call(script).unwrap();
                assert!(call(script).is_err(), "one probe at a time");
                assert_eq!(next(&mut stream), THERE);
                stream
            });
            let status = breaker.status();
            assert_eq!((status.probes_in_flight(), status.probes_succeeded()), (0, 2), "{name}");
            scripts[0].push(end(false));
            assert_eq!(next(&mut streams[0]), FAILED);
            assert_eq!(breaker.status(), status, "{name}");
            if by_reset {
                breaker.reset();
            } else {
                assert!(passes(&mut *call));
            }
            assert_eq!(breaker.state(), State::Closed, "{name}");
            scripts[1].push(end(false));
            assert_eq!(next(&mut streams[1]), FAILED);
            assert_eq!(breaker.state(), State::Closed, "{name}");
        }
    }
}

/// A stream without a first message is a probe for `max_half_open` at most.
#[test]
fn silent_stream_blocks_others_for_max_half_open() {
    for protocol in 0..both(&clocked(1).1).len() {
        let clock = Arc::new(ManualClock::new());
        let config = BreakerConfig::builder().failure_threshold(1).max_half_open(COOLDOWN).build().unwrap();
        let breaker = Arc::new(CircuitBreaker::with_clock(config, Arc::clone(&clock)));
        let (name, mut call) = both(&breaker).swap_remove(protocol);
        let_probe(&clock, &breaker);
        let script = Script::default();
        let mut silent = call(&script).unwrap();
        for _ in 0..2 {
            assert!(!passes(&mut *call), "{name}");
            clock.advance(COOLDOWN + COOLDOWN / 10);
        }
        assert!(passes(&mut *call), "{name}: another probe");
        assert_eq!(breaker.state(), State::Closed);
        script.push(MESSAGE);
        script.push(end(false));
        assert_eq!((next(&mut silent), next(&mut silent)), (THERE, FAILED));
        assert_eq!(breaker.state(), State::Closed, "{name}: the stream began in an earlier state");
    }
}
