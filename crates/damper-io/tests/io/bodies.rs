//! Bodies of HTTP on tokio's paused time.

use bytes::{Buf, Bytes};
use damper::io::{BytePacer, PacedBody};
use damper::time::{TokioClock, TokioSleep};
use damper::{Quota, RateLimiter, TokenBucket};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full, StreamBody};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;

type Limit = Arc<RateLimiter<TokenBucket, TokioClock>>;

/// 1,000 bytes in a second, in chunks of 20.
fn limit() -> Limit {
    Arc::new(RateLimiter::with_clock(Quota::per_second(1_000).burst(20), TokioClock::new()))
}

fn paced<B: Body>(body: B, limit: &Limit) -> PacedBody<B, BytePacer<Limit>, TokioSleep> {
    PacedBody::new(body, BytePacer::new(Arc::clone(limit)))
}

#[tokio::test(start_paused = true)]
async fn large_frame_comes_in_chunks_and_the_size_stays_exact() {
    let (limit, start) = (limit(), Instant::now());
    let mut body = paced(Full::new(Bytes::from(vec![7; 70])), &limit);
    let (mut left, mut frames) = (70, Vec::new());
    loop {
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(left), left == 0));
        let Some(frame) = body.frame().await else { break };
        let data = frame.unwrap().into_data().unwrap();
        left -= data.len() as u64;
        frames.push(data.len());
    }
    assert_eq!((frames, start.elapsed()), (vec![20, 20, 20, 10], Duration::from_millis(50)));
}

#[tokio::test(start_paused = true)]
async fn trailers_errors_and_empty_frames_pass_in_order() {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let frames = [
        Ok(Frame::data(Bytes::new())),
        Ok(Frame::data(Bytes::from_static(&[7; 30]))),
        Ok(Frame::trailers(trailers.clone())),
        Err("broken"),
    ];
    let limit = limit();
    let mut body = paced(StreamBody::new(futures_util::stream::iter(frames)), &limit);
    let mut sizes = Vec::new();
    for _ in 0..3 {
        sizes.push(body.frame().await.unwrap().unwrap().into_data().unwrap().len());
    }
    assert_eq!(sizes, [0, 20, 10]);
    assert_eq!(body.frame().await.unwrap().unwrap().into_trailers().unwrap(), trailers);
    assert_eq!(body.frame().await.unwrap().unwrap_err(), "broken");
    assert!(body.frame().await.is_none());
    assert_eq!(limit.peek().used(), 20 /* refilled by 10 since */);
}

/// Data of two parts, which is no `Bytes`, in a body that gives no size and is not ready now and then.
struct Parted(VecDeque<bytes::buf::Chain<Bytes, Bytes>>, bool);

impl Body for Parted {
    type Data = bytes::buf::Chain<Bytes, Bytes>;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.1 = !self.1;
        if self.1 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.0.pop_front().map(|data| Ok(Frame::data(data))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[tokio::test(start_paused = true)]
async fn other_data_than_bytes_arrives_whole() {
    let parted = |n: u8| Bytes::from(vec![n; 15]).chain(Bytes::from(vec![n + 1; 15]));
    let limit = limit();
    let body = paced(Parted([parted(1), parted(3)].into(), false), &limit);
    let bytes = body.collect().await.unwrap().to_bytes();
    assert_eq!(bytes, [[1; 15], [2; 15], [3; 15], [4; 15]].concat());
    assert!(limit.debt() == 0, "nothing is kept");
}

/// While others wait, a chunk may be larger than a frame.
///
/// A body that has nothing to send must not keep the rest.
#[tokio::test(start_paused = true)]
async fn body_that_is_not_ready_gives_back() {
    use futures_util::stream::{StreamExt, iter, pending};
    let limit = limit();
    let frames = [10, 1].map(|bytes| Ok::<_, &str>(Frame::data(Bytes::from(vec![7; bytes]))));
    let mut body = paced(StreamBody::new(iter(frames).chain(pending())), &limit);
    body.frame().await.unwrap().unwrap();
    let mut other = BytePacer::new(Arc::clone(&limit));
    assert_eq!(other.ask(10), Ok(10));
    other.report(10, 10);
    assert!(other.ask(5).is_err(), "it waits");
    body.frame().await.unwrap().unwrap();
    let kept = limit.peek().remaining();
    assert!(Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(limit.peek().remaining() - kept, 11, "of a chunk of 12, a 16th of the room in the line");
}

#[tokio::test(start_paused = true)]
async fn size_hint_counts_the_data_that_waits() {
    let mut body = paced(
        StreamBody::new(futures_util::stream::iter([Ok::<_, &str>(Frame::data(Bytes::from(vec![7; 70])))])),
        &limit(),
    );
    body.frame().await.unwrap().unwrap();
    assert_eq!((body.size_hint().lower(), body.size_hint().upper()), (50, None));
}
