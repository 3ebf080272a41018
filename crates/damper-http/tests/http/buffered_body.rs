//! Request bodies that buffer the data already read, for further attempts.

use crate::breaker_support::{panic, panics};
use bytes::Bytes;
use damper::Retry;
use damper::http::{BufferedBody, ReplayableBody, RetryLayer};
use futures_util::stream::{self, Stream, StreamExt};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full, StreamBody};
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use tokio::sync::mpsc;
use tower::{Service, ServiceExt, service_fn};

const LIMIT: usize = 1024;

type Frames = mpsc::UnboundedSender<Result<Frame<Bytes>, io::Error>>;

/// A body whose frames the test sends.
fn channel() -> (Frames, impl Body<Data = Bytes, Error = io::Error> + Unpin + Send + 'static) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    (sender, StreamBody::new(stream::poll_fn(move |context| receiver.poll_recv(context))))
}

fn frames(texts: &[&'static str]) -> impl Stream<Item = Result<Frame<Bytes>, io::Error>> + Unpin + Send + use<> {
    stream::iter(texts.iter().map(|text| Ok(data(text))).collect::<Vec<_>>())
}

fn data(text: &'static str) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(text.as_bytes()))
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("end"))])
}

/// Returns the next data that is ready, or `None`.
fn poll<B: Body<Data = Bytes> + Unpin>(body: &mut B) -> Option<Result<Bytes, B::Error>> {
    poll_with(body, Waker::noop())
}

fn poll_with<B: Body<Data = Bytes> + Unpin>(body: &mut B, waker: &Waker) -> Option<Result<Bytes, B::Error>> {
    match pin!(body.frame()).as_mut().poll(&mut Context::from_waker(waker)) {
        Poll::Ready(frame) => Some(frame?.map(|frame| frame.into_data().unwrap())),
        Poll::Pending => None,
    }
}

fn next<B: Body<Data = Bytes, Error: std::fmt::Debug> + Unpin>(body: &mut B) -> Bytes {
    poll(body).unwrap().unwrap()
}

/// Counts wake-ups.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn every_attempt_reads_all_data_and_trailers() {
    let end = stream::iter([Ok(Frame::trailers(trailers()))]);
    let body = BufferedBody::new(StreamBody::new(frames(&["a", "", "b"]).chain(end)), LIMIT);
    let kept = body.try_clone().unwrap();
    for attempt in [body, kept.try_clone().unwrap(), kept] {
        assert!(!attempt.is_end_stream());
        let all = attempt.collect().await.unwrap();
        assert_eq!(all.trailers(), Some(&trailers()));
        assert_eq!(all.to_bytes(), "ab");
    }
}

#[tokio::test]
async fn attempt_continues_with_the_stream_where_the_kept_data_ends() {
    let (sender, body) = channel();
    let mut first = BufferedBody::new(body, LIMIT);
    let kept = first.try_clone().unwrap();
    sender.send(Ok(data("a"))).unwrap();
    assert_eq!(next(&mut first), "a");
    let mut second = kept.restart_if(|| true).unwrap();
    drop(first);
    assert_eq!(next(&mut second), "a");
    assert!(poll(&mut second).is_none());
    sender.send(Ok(data("b"))).unwrap();
    assert_eq!(next(&mut second), "b");
    drop(sender);
    assert_eq!(second.collect().await.unwrap().to_bytes(), "");
}

#[test]
fn data_beyond_the_limit_reaches_its_attempt_and_ends_all_others() {
    let (sender, body) = channel();
    // Each frame costs its data plus 32 bytes.
    let mut first = BufferedBody::new(body, 2 * 32 + 6);
    let kept = first.try_clone().unwrap();
    let mut behind = kept.try_clone().unwrap();
    for text in ["abc", "def"] {
        sender.send(Ok(data(text))).unwrap();
        assert_eq!(next(&mut first), text);
    }
    assert!(kept.is_replayable());
    assert_eq!(next(&mut behind), "abc");
    for text in ["g", "h"] {
        sender.send(Ok(data(text))).unwrap();
        assert_eq!(next(&mut first), text);
        assert!(!kept.is_replayable());
        assert!(kept.try_clone().is_none());
        assert!(kept.restart_if(|| panic!("a retry was withdrawn from the budget")).is_none());
    }
    assert_eq!(poll(&mut behind).unwrap().unwrap_err().to_string(), "the request's body is read by another attempt");
}

/// Counts the existing frames.
struct Counted(Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        b"data"
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn nothing_is_kept_once_no_other_attempt_can_be_made() {
    let alive = Arc::new(AtomicUsize::new(0));
    let counted = || {
        alive.fetch_add(1, Ordering::Relaxed);
        Ok(Frame::data(Bytes::from_owner(Counted(Arc::clone(&alive)))))
    };
    let (sender, body) = channel();
    let mut body = BufferedBody::new(body, LIMIT);
    let kept = body.try_clone().unwrap();
    for _ in 0..3 {
        sender.send(counted()).unwrap();
        assert_eq!(next(&mut body), "data");
    }
    assert_eq!(alive.load(Ordering::Relaxed), 3);
    drop(kept);
    sender.send(counted()).unwrap();
    assert_eq!(next(&mut body), "data");
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[test]
fn new_attempt_ends_the_one_that_it_replaces() {
    let (_sender, body) = channel();
    let mut first = BufferedBody::new(body, LIMIT);
    let kept = first.try_clone().unwrap();
    let wakes = Arc::new(Wakes::default());
    assert!(poll_with(&mut first, &Arc::clone(&wakes).into()).is_none());
    let mut second = kept.restart_if(|| true).unwrap();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "it is woken");
    poll(&mut first).unwrap().unwrap_err();
    assert!(!first.is_end_stream());
    assert!(poll(&mut second).is_none());
}

/// The response that is returned instead may still need the rest of the request.
#[test]
fn attempt_that_may_not_start_replaces_no_other() {
    let (sender, body) = channel();
    let mut first = BufferedBody::new(body, LIMIT);
    let kept = first.try_clone().unwrap();
    assert!(kept.restart_if(|| false).is_none());
    sender.send(Ok(data("a"))).unwrap();
    assert_eq!(next(&mut first), "a");
}

/// A body that takes the lock when it is dropped.
struct DropsBody<B: Body + Unpin>(#[expect(dead_code, reason = "its drop is what counts")] Option<BufferedBody<B>>);

impl<B: Body + Unpin + Send + 'static> Wake for DropsBody<B> {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn waker_is_dropped_without_the_lock() {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (_sender, body) = channel();
        let mut body = BufferedBody::new(body, LIMIT);
        let waker = Waker::from(Arc::new(DropsBody(body.try_clone())));
        assert!(poll_with(&mut body, &waker).is_none());
        drop(waker);
        assert!(poll_with(&mut body, Waker::noop()).is_none());
        done.send(()).unwrap();
    });
    is_done.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
}

#[test]
fn concurrent_attempts_are_all_woken() {
    let (sender, body) = channel();
    let mut first = BufferedBody::new(body, LIMIT);
    let mut second = first.try_clone().unwrap();
    let wakes = [Arc::new(Wakes::default()), Arc::new(Wakes::default())];
    let count = || wakes.each_ref().map(|wakes| wakes.0.load(Ordering::Relaxed));
    let registered = wakes.each_ref().map(|wakes| Waker::from(Arc::clone(wakes)));
    for _ in 0..2 {
        assert!(poll_with(&mut first, &registered[0]).is_none());
        assert!(poll_with(&mut second, &registered[1]).is_none());
    }
    sender.send(Ok(data("a"))).unwrap();
    assert_eq!(count(), [0, 1], "the stream wakes the last one that polled it");
    assert_eq!(poll_with(&mut second, &registered[1]).unwrap().unwrap(), "a");
    assert_eq!(count()[0], 1, "which wakes the others");
    assert_eq!(poll_with(&mut first, &registered[0]).unwrap().unwrap(), "a");

    assert!(poll_with(&mut first, &registered[0]).is_none());
    assert!(poll_with(&mut second, &registered[1]).is_none());
    drop(second);
    assert_eq!(count()[0], 2, "it polls the stream in place of the dropped attempt");
}

/// A stream that panicked wakes no reader any more, so the attempt has to do it.
#[test]
fn attempt_that_panics_wakes_the_others() {
    let mut polls = 0;
    let stream = stream::poll_fn(move |_| -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        polls += 1;
        if polls > 2 {
            panic();
        }
        Poll::Pending
    });
    let mut first = BufferedBody::new(StreamBody::new(stream), LIMIT);
    let mut second = first.try_clone().unwrap();
    let wakes = Arc::new(Wakes::default());
    assert!(poll(&mut first).is_none());
    assert!(poll_with(&mut second, &Waker::from(Arc::clone(&wakes))).is_none());
    assert!(panics(|| poll(&mut first)));
    drop(first);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert_eq!(poll(&mut second).unwrap().unwrap_err().to_string(), "the request's body panicked in another attempt");
}

#[test]
fn failed_stream_is_not_sent_again() {
    let (sender, body) = channel();
    let mut body = BufferedBody::new(body, LIMIT);
    let mut other = body.try_clone().unwrap();
    sender.send(Err(io::ErrorKind::BrokenPipe.into())).unwrap();
    let error = poll(&mut body).unwrap().unwrap_err();
    assert_eq!(error.downcast_ref::<io::Error>().unwrap().kind(), io::ErrorKind::BrokenPipe);
    assert!(!other.is_replayable());
    assert!(other.try_clone().is_none());
    assert_eq!(poll(&mut other).unwrap().unwrap_err().to_string(), "the request's body failed in another attempt");
}

#[test]
fn size_is_that_of_the_data_that_is_left() {
    let mut body = BufferedBody::new(Full::<Bytes>::from("abc"), LIMIT);
    let kept = body.try_clone().unwrap();
    assert_eq!(body.size_hint().exact(), Some(3));
    assert_eq!(next(&mut body), "abc");
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
    assert_eq!((kept.size_hint().exact(), kept.is_end_stream()), (Some(3), false));
    assert!(BufferedBody::new(Full::<Bytes>::default(), LIMIT).is_end_stream());
}

/// Two threads read concurrently.
#[test]
fn attempts_on_two_threads_read_the_same_data() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    for _ in 0..200 {
        let (sender, body) = channel();
        let body = BufferedBody::new(body, usize::MAX);
        let readers = [body.try_clone().unwrap(), body].map(|body| runtime.spawn(body.collect()));
        for _ in 0..50 {
            sender.send(Ok(data("data"))).unwrap();
        }
        drop(sender);
        for reader in readers {
            assert_eq!(runtime.block_on(reader).unwrap().unwrap().to_bytes().len(), 200);
        }
    }
}

type Upload = StreamBody<stream::BoxStream<'static, Result<Frame<Bytes>, io::Error>>>;

/// A server that is unavailable at first, after reading this many frames.
fn unavailable_once(
    frames: usize,
    bodies: &Arc<Mutex<Vec<Bytes>>>,
) -> impl Service<Request<BufferedBody<Upload>>, Response = Response<()>, Error = Infallible, Future: Send> + Clone + use<>
{
    let is_first = Arc::new(AtomicBool::new(true));
    let bodies = Arc::clone(bodies);
    service_fn(move |request: Request<BufferedBody<Upload>>| {
        let (bodies, is_first) = (Arc::clone(&bodies), is_first.swap(false, Ordering::Relaxed));
        async move {
            let mut body = request.into_body();
            let mut response = Response::new(());
            if is_first {
                for _ in 0..frames {
                    body.frame().await.unwrap().unwrap();
                }
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            } else {
                let body = body.collect().await.unwrap().to_bytes();
                bodies.lock().unwrap().push(body);
            }
            Ok(response)
        }
    })
}

#[tokio::test(start_paused = true)]
async fn layer_that_buffers_retries_streams() -> Result<(), Box<dyn Error>> {
    for (limit, expected) in [(LIMIT, StatusCode::OK), (40, StatusCode::SERVICE_UNAVAILABLE)] {
        let bodies = Arc::default();
        let client = RetryLayer::new(Retry::new(3)).buffering(limit).layer(unavailable_once(2, &bodies));
        let request = Request::put("/").body(StreamBody::new(frames(&["a", "b", "c"]).boxed()))?;
        assert_eq!(client.oneshot(request).await?.status(), expected);
        let bodies = bodies.lock().unwrap();
        match expected {
            StatusCode::OK => assert_eq!(*bodies, ["abc"]),
            _ => assert!(bodies.is_empty(), "more attempts than expected"),
        }
    }
    Ok(())
}
