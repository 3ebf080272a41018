//! Streams and sinks whose items wait.

use super::virtual_time::Timers;
use crate::waiting::{MILLIS, empty, ends_at, poll_once};
use damper::{Quota, RateLimiter};
use futures_util::stream::{self, FusedStream};
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

const TEN_A_SECOND: Quota = Quota::per_second(10).burst(2).max_debt(5);

#[test]
fn items_arrive_in_order_and_on_time() {
    let timers = Timers::new(MILLIS);
    let limiter = RateLimiter::with_clock(TEN_A_SECOND, &timers.clock);
    let mut came = Vec::new();
    let end = ends_at(&timers, async {
        let mut items = limiter.pace_by(stream::iter(0..6), timers.sleep());
        while let Some(item) = items.next().await {
            came.push((item, timers.now()));
        }
    });
    assert_eq!(came, [(0, 0), (1, 0), (2, 100), (3, 200), (4, 300), (5, 400)]);
    assert_eq!((end, limiter.debt()), (400, 0), "no token is taken at the end");
}

#[test]
fn token_is_taken_once_an_item_is_ready() {
    let timers = Timers::new(MILLIS);
    let limiter = empty(TEN_A_SECOND, &timers);
    let source = stream::iter([50, 0, 0, 340, 0, 0, 0]).then(async |pause| {
        timers.sleep()(Duration::from_millis(pause)).await;
        timers.now()
    });
    let mut came = Vec::new();
    ends_at(&timers, async {
        let mut items = std::pin::pin!(limiter.pace_by(source, timers.sleep()));
        while let Some(item) = items.next().await {
            came.push((item, timers.now()));
        }
    });
    // At 640 the bucket is full again, with two tokens.
    assert_eq!(came, [(50, 100), (100, 200), (200, 300), (640, 640), (640, 640), (640, 740), (740, 840)]);
}

#[test]
fn pending_stream_takes_no_token() {
    let timers = Timers::new(MILLIS);
    let limiter = RateLimiter::with_clock(TEN_A_SECOND, &timers.clock);
    let mut never = limiter.pace_by(stream::pending::<()>(), timers.sleep());
    assert_eq!(poll_once(never.next()), None);
    let mut ended = limiter.pace_by(stream::empty::<()>(), timers.sleep());
    assert_eq!(poll_once(ended.next()), Some(None));
    assert_eq!(limiter.peek().remaining(), 2);
}

#[test]
fn waiting_item_is_kept_and_polled_once() {
    let timers = Timers::new(MILLIS);
    let limiter = empty(TEN_A_SECOND, &timers);
    let asked = Cell::new(0);
    let mut items = limiter.pace_by(stream::iter(7..9).inspect(|_| asked.set(asked.get() + 1)).fuse(), timers.sleep());
    assert_eq!(items.size_hint(), (2, Some(2)));
    for _ in 0..3 {
        assert_eq!(poll_once(items.next()), None);
    }
    assert_eq!((asked.get(), limiter.debt()), (1, 1));
    assert_eq!(items.size_hint(), (2, Some(2)), "the waiting item is still to come");
    timers.clock.set_ticks(100);
    assert_eq!(poll_once(items.next()), Some(Some(7)));
    timers.clock.set_ticks(200);
    assert_eq!(poll_once(items.next()), Some(Some(8)));
    assert!(!items.is_terminated());
    assert_eq!(poll_once(items.next()), Some(None));
    assert!(items.is_terminated() && items.get_ref().is_terminated());
    // A stream may end together with its last item.
    let mut last = limiter.pace_by(stream::once(std::future::ready(9)), timers.sleep());
    assert_eq!(poll_once(last.next()), None);
    assert!(last.get_ref().is_terminated() && !last.is_terminated());
    timers.clock.set_ticks(300);
    assert_eq!(poll_once(last.next()), Some(Some(9)));
    assert!(last.is_terminated());
}

#[test]
fn dropped_stream_gives_back_its_token() {
    let timers = Timers::new(MILLIS);
    let limiter = empty(TEN_A_SECOND, &timers);
    let mut items = limiter.pace_by(stream::iter(0..6), timers.sleep());
    assert_eq!(poll_once(items.next()), None);
    assert_eq!(limiter.debt(), 1);
    drop(items);
    assert_eq!(limiter.debt(), 0);
}

/// If others are waiting, or no token can ever arrive, the stream asks again.
#[test]
fn stream_retries_after_a_refusal() {
    let timers = Timers::new(MILLIS);
    let limiter = empty(TEN_A_SECOND.max_debt(0), &timers);
    let next_at = |limiter| {
        ends_at(&timers, async {
            let limiter: &RateLimiter<_, _> = limiter;
            assert_eq!(limiter.pace_by(stream::iter([5]), timers.sleep()).next().await, Some(5));
        })
    };
    assert_eq!(next_at(&limiter), 100);
    let closed = RateLimiter::with_clock(TEN_A_SECOND.burst(0), &timers.clock);
    let mut items = closed.pace_by(stream::iter([5]), timers.sleep());
    assert_eq!(poll_once(items.next()), None);
    closed.set_quota(TEN_A_SECOND).unwrap();
    assert_eq!(
        ends_at(&timers, async { assert_eq!(items.next().await, Some(5)) }),
        1_100,
        "a second after the refusal"
    );
}

/// A sink with limited room that fails on demand, and checks its use.
#[derive(Debug)]
struct Slot<'a> {
    timers: &'a Timers,
    room: Cell<bool>,
    fails: Cell<Option<&'static str>>,
    ready: bool,
    sent: RefCell<Vec<(u32, u64)>>,
    done: Cell<&'static str>,
}

impl<'a> Slot<'a> {
    fn new(timers: &'a Timers) -> Self {
        let sent = RefCell::default();
        Self { timers, room: Cell::new(true), fails: Cell::new(None), ready: false, sent, done: Cell::new("") }
    }

    fn poll(&self, what: &'static str) -> Poll<Result<(), &'static str>> {
        if self.fails.get() == Some(what) {
            return Poll::Ready(Err(what));
        }
        self.done.set(what);
        Poll::Ready(Ok(()))
    }
}

impl Sink<u32> for Slot<'_> {
    type Error = &'static str;

    fn poll_ready(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.ready = self.room.get();
        if self.ready { self.poll("ready") } else { Poll::Pending }
    }

    fn start_send(mut self: Pin<&mut Self>, item: u32) -> Result<(), Self::Error> {
        assert!(std::mem::take(&mut self.ready), "an item was sent before the sink was ready");
        self.sent.borrow_mut().push((item, self.timers.now()));
        if self.fails.get() == Some("send") { Err("send") } else { Ok(()) }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.poll("flushed")
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.poll("closed")
    }
}

#[test]
fn items_are_sent_in_order_and_on_time() {
    let timers = Timers::new(MILLIS);
    let limiter = RateLimiter::with_clock(TEN_A_SECOND, &timers.clock);
    let mut sink = limiter.pace_sink_by(Slot::new(&timers), timers.sleep());
    ends_at(&timers, async {
        sink.send_all(&mut stream::iter((0..5).map(Ok))).await.unwrap();
        assert_eq!(sink.get_ref().done.get(), "flushed");
        sink.feed(5).await.unwrap();
        sink.close().await.unwrap();
    });
    assert_eq!(*sink.get_ref().sent.borrow(), [(0, 0), (1, 0), (2, 100), (3, 200), (4, 300), (5, 400)]);
    assert_eq!((sink.get_ref().done.get(), limiter.debt()), ("closed", 0));
}

#[test]
fn full_sink_takes_no_token() {
    let timers = Timers::new(MILLIS);
    let limiter = RateLimiter::with_clock(TEN_A_SECOND, &timers.clock);
    let mut sink = limiter.pace_sink_by(Slot::new(&timers), timers.sleep());
    sink.get_ref().room.set(false);
    assert_eq!(poll_once(sink.feed(1)), Some(Ok(())), "the sink has room for one");
    assert_eq!(poll_once(SinkExt::<u32>::flush(&mut sink)), None);
    assert_eq!(poll_once(sink.feed(2)), None);
    assert_eq!(poll_once(SinkExt::<u32>::close(&mut sink)), None);
    assert_eq!((limiter.peek().remaining(), sink.get_ref().done.get()), (2, ""));
    sink.get_ref().room.set(true);
    assert_eq!(poll_once(SinkExt::<u32>::flush(&mut sink)), Some(Ok(())));
    assert_eq!(limiter.peek().remaining(), 1);
    assert_eq!(*sink.get_ref().sent.borrow(), [(1, 0)]);
}

#[test]
fn dropped_sink_gives_back_its_token() {
    let timers = Timers::new(MILLIS);
    let limiter = empty(TEN_A_SECOND, &timers);
    let mut sink = limiter.pace_sink_by(Slot::new(&timers), timers.sleep());
    assert_eq!(poll_once(sink.send(1)), None);
    assert_eq!(limiter.debt(), 1);
    drop(sink);
    assert_eq!(limiter.debt(), 0);
}

#[test]
fn sink_errors_are_passed_on() {
    let timers = Timers::new(MILLIS);
    let limiter = RateLimiter::with_clock(TEN_A_SECOND, &timers.clock);
    let mut sink = limiter.pace_sink_by(Slot::new(&timers), timers.sleep());
    let fails = |sink: &Slot<'_>, what| sink.fails.set(Some(what));
    fails(sink.get_ref(), "ready");
    assert_eq!(poll_once(sink.feed(1)), Some(Ok(())));
    assert_eq!(poll_once(sink.feed(2)), Some(Err("ready")));
    assert_eq!(limiter.peek().remaining(), 2, "no token was taken");
    fails(sink.get_ref(), "send");
    assert_eq!(poll_once(SinkExt::<u32>::flush(&mut sink)), Some(Err("send")));
    fails(sink.get_ref(), "flushed");
    assert_eq!(poll_once(SinkExt::<u32>::flush(&mut sink)), Some(Err("flushed")));
    fails(sink.get_ref(), "closed");
    assert_eq!(poll_once(SinkExt::<u32>::close(&mut sink)), Some(Err("closed")));
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn tokio_paces_streams_and_sinks() {
    use crate::waiting::blocking::most;
    use damper::{Clock, Monotonic};

    let before = Monotonic.now();
    let limiter = RateLimiter::new(Quota::per_second(1_000).burst(1));
    let (mut sent, mut came) = (Vec::new(), 0);
    let sink = futures_util::sink::unfold(&mut sent, async |sent, item: u32| {
        sent.push(item);
        Ok::<_, ()>(sent)
    });
    let items = limiter.pace(stream::iter(0..3)).inspect(|_| came += 1).map(Ok);
    items.forward(limiter.pace_sink(sink)).await.unwrap();
    assert_eq!(sent, [0, 1, 2]);
    assert!(came + 3 <= most(1_000, 1, before, Monotonic.now()), "one token for each item received and sent");
}
