//! A limit that another task keeps, asked over a channel.
//!
//! So a store that several servers share looks to a server. The limit stands behind client addresses, a header and a
//! closure, in three hyper servers, over real sockets.

use bytes::Bytes;
use damper::http::{
    ByHeader, ByKey, Detail, KeyedLimit, Limit, LimitAnswer, LimitDecision, Limited, PerClient, RateLimitLayer,
    Refusal, Standing,
};
use damper::{Allowed, Denied, KeyedLimiter, Quota};
use http_body_util::{Empty, Full};
use hyper::header::{HeaderName, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Request, Response, client, server};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::error::Error;
use std::fmt::Debug;
use std::pin::Pin;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

const QUOTA: Quota = Quota::per_minute(1).burst(2);

/// A question: a key, a cost, and where the answer goes.
type Question = (String, u32, oneshot::Sender<Result<Allowed, Denied>>);

/// The limit as a server sees it.
#[derive(Clone)]
struct AskChannel(mpsc::Sender<Question>);

impl AskChannel {
    async fn ask(self, key: String, cost: u32, detail: Detail) -> Result<LimitAnswer, Box<dyn Error + Send + Sync>> {
        let (sender, answer) = oneshot::channel();
        self.0.send((key, cost, sender)).await?;
        Ok(match answer.await? {
            Ok(allowed) => Ok(detail.then(|| Standing::new(QUOTA, allowed.remaining(), allowed.resets_in()))),
            Err(denied) => Err(Limited::by(denied, QUOTA).into()),
        })
    }
}

impl<K: Debug + ?Sized> KeyedLimit<K> for AskChannel {
    type Future = Pin<Box<dyn Future<Output = LimitAnswer> + Send>>;

    fn decide(&self, key: &K, cost: u32, detail: Detail) -> LimitDecision<Self::Future> {
        let asked = self.clone().ask(format!("{key:?}"), cost, detail);
        // `unwrap_or(Ok(None))` would let requests pass while the task cannot be asked.
        LimitDecision::Wait(Box::pin(async { asked.await.unwrap_or_else(|error| Err(Refusal::failed(error))) }))
    }
}

/// The task that keeps the limit. It decides on one key after the other.
async fn keep(limits: KeyedLimiter<str>, mut questions: mpsc::Receiver<Question>) {
    while let Some((key, cost, asker)) = questions.recv().await {
        // An asker that has gone away has taken its token all the same.
        let _ = asker.send(limits.check_n(&key, cost));
    }
}

/// Sends four requests to a server behind this limit, as alice three times and then as bob.
async fn statuses<L>(limit: L) -> Result<[u16; 4], Box<dyn Error>>
where
    L: Limit<Future: Send> + Clone + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let layer = RateLimitLayer::new(limit).on_error(|_, error| println!("{error}: {:?}", error.source()));
    let server = tokio::spawn(async move {
        let (stream, peer) = listener.accept().await?;
        let hello = async |_| Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello\n"))));
        let service = layer.for_peer(peer).layer(service_fn(hello));
        server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?;
        Ok::<_, Box<dyn Error + Send + Sync>>(())
    });

    let (mut sender, connection) =
        client::conn::http1::handshake(TokioIo::new(TcpStream::connect(address).await?)).await?;
    tokio::spawn(connection);
    let mut statuses = [0; 4];
    for (status, user) in statuses.iter_mut().zip(["alice", "alice", "alice", "bob"]) {
        sender.ready().await?;
        let request = Request::get("/").header("host", "example.com").header("x-user", user);
        let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
        println!("{user}: {}, Retry-After: {:?}", response.status(), response.headers().get(RETRY_AFTER));
        *status = response.status().as_u16();
    }
    drop(sender);
    server.await?.map_err(|error| error.to_string())?;
    Ok(statuses)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (sender, questions) = mpsc::channel(100);
    let keeper = tokio::spawn(keep(KeyedLimiter::builder(QUOTA).build()?, questions));
    let limit = AskChannel(sender);
    let user = HeaderName::from_static("x-user");

    assert_eq!(statuses(PerClient::new(limit.clone())).await?, [200, 200, 429, 429], "one address");
    assert_eq!(statuses(ByHeader::new(user, limit.clone())).await?, [200, 200, 429, 200], "each user");
    let path = ByKey::new(|head| head.uri.path().to_owned(), limit.clone());
    assert_eq!(statuses(path).await?, [200, 200, 429, 429], "one path");

    keeper.abort();
    assert_eq!(statuses(PerClient::new(limit)).await?, [500; 4], "the limit cannot be asked");
    Ok(())
}
