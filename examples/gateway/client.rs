//! A client: an address of its own, a few connections that stay open, and a fixed schedule.
//!
//! The schedule does not wait for answers.

use crate::headers::PHASE;
use crate::plan::Shot;
use crate::tally::{Outcome, Tally};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpSocket;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

#[derive(Debug)]
pub(crate) struct Client {
    number: usize,
    connections: Vec<Connection>,
}

/// One connection, on which one request follows another.
#[derive(Debug)]
struct Connection {
    source: Ipv4Addr,
    gateway: SocketAddr,
    sender: SendRequest<Empty<Bytes>>,
}

/// A request that is due, and the moment at which the client had it.
type Due = (Shot, Instant);

impl Client {
    /// Opens the connections, from `source`.
    pub(crate) async fn connect(
        number: usize,
        source: Ipv4Addr,
        gateway: SocketAddr,
        connections: usize,
    ) -> Result<Self, Box<dyn Error>> {
        let mut open = Vec::new();
        for _ in 0..connections {
            let connection = Connection::open(source, gateway).await;
            open.push(connection.map_err(|error| format!("cannot call {gateway} from {source}: {error}"))?);
        }
        Ok(Self { number, connections: open })
    }

    /// Sends every request at its moment after `start`, and returns when all of them have ended.
    pub(crate) async fn run(self, shots: Box<dyn Iterator<Item = Shot> + Send>, start: Instant, tally: Arc<Tally>) {
        let (due, queue) = mpsc::unbounded_channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut lanes = JoinSet::new();
        for connection in self.connections {
            lanes.spawn(lane(self.number, connection, Arc::clone(&queue), Arc::clone(&tally)));
        }
        for shot in shots {
            sleep_until(start + shot.at).await;
            tally.sent(shot);
            // Latency counts from here: a timer wakes up to a millisecond late, which is not the gateway's doing.
            if due.send((shot, Instant::now())).is_err() {
                break;
            }
        }
        drop(due);
        lanes.join_all().await;
    }
}

/// Sends what is due on one connection, one after the other.
async fn lane(
    client: usize,
    mut connection: Connection,
    queue: Arc<Mutex<mpsc::UnboundedReceiver<Due>>>,
    tally: Arc<Tally>,
) {
    loop {
        // A lane holds the lock while it waits for a request, and releases it before it sends. Idle lanes queue for the lock.
        let next = queue.lock().await.recv().await;
        let Some((shot, since)) = next else { return };
        let outcome = match connection.send(shot).await {
            Ok(StatusCode::OK) => Outcome::Allowed(since.elapsed()),
            Ok(StatusCode::TOO_MANY_REQUESTS) => Outcome::Limited,
            Ok(StatusCode::SERVICE_UNAVAILABLE) => Outcome::Refused,
            Ok(StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT) => Outcome::Failed,
            Ok(status) => Outcome::Broken(format!("unexpected answer {status}")),
            Err(error) => Outcome::Broken(error.to_string()),
        };
        tally.ended(client, shot, outcome);
    }
}

impl Connection {
    async fn open(source: Ipv4Addr, gateway: SocketAddr) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let socket = TcpSocket::new_v4()?;
        socket.set_nodelay(true)?;
        socket.bind(SocketAddr::new(source.into(), 0))?;
        let stream = socket.connect(gateway).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Its error reaches the requests on it.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { source, gateway, sender })
    }

    async fn send(&mut self, shot: Shot) -> Result<StatusCode, Box<dyn Error + Send + Sync>> {
        if self.sender.ready().await.is_err() {
            *self = Self::open(self.source, self.gateway).await?;
        }
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = "/".parse()?;
        request.headers_mut().insert(HOST, HeaderValue::from_str(&self.gateway.to_string())?);
        request.headers_mut().insert(PHASE, HeaderValue::from_static(shot.phase.name()));
        let response: Response<Incoming> = self.sender.send_request(request).await?;
        let status = response.status();
        // Read to the end, so that the connection can be used again.
        response.into_body().collect().await?;
        Ok(status)
    }
}
