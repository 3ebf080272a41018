//! The load that the live page can ask for: visitors, a flood from one client, and a crowd of many.

use bytes::Bytes;
use damper::{Backoff, Retry, RetryBudget};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// The visitors' budget: retries for a fifth of the calls, and 10 a second.
pub(crate) static RETRIES: RetryBudget = RetryBudget::DEFAULT;

/// How long visitors stay, and how long a flood lasts.
const VISIT: Duration = Duration::from_secs(90);
const FLOOD: Duration = Duration::from_secs(20);

/// The clients of a crowd, each with one request.
const CROWD: u32 = 10_000;

/// The visitors send so many requests a second together, and at most a third of a client's quota.
const VISITORS_RATE: f64 = 30.0;

/// A flood sends at most so many requests a second.
const FLOOD_RATE: f64 = 2_000.0;

/// The addresses that visitors and the flood call from. Those of the crowd begin at 127.1.0.0.
const VISITOR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 8);
const FLOODER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

/// Clients of the gateway, which come when they are asked to.
#[derive(Debug)]
pub(crate) struct Visitors {
    gateway: SocketAddr,
    /// The moments at which visitors and the flood go.
    visit: watch::Sender<Option<Instant>>,
    flood: watch::Sender<Option<Instant>>,
    /// Held while a crowd is there, so that there is one at most.
    crowd: Arc<Mutex<()>>,
}

impl Visitors {
    /// Starts clients that wait to be asked.
    pub(crate) fn start(gateway: SocketAddr, rate: u32) -> Arc<Self> {
        let (visit, flood) = (watch::Sender::new(None), watch::Sender::new(None));
        let of = |rate: f64| Duration::from_secs_f64(1.0 / rate);
        let quota = f64::from(rate);
        for lane in 0..3 {
            let every = of(VISITORS_RATE.min(quota / 3.0) / 3.0);
            tokio::spawn(come(visit.subscribe(), gateway, VISITOR, every, lane));
        }
        for lane in 0..8 {
            let every = of(FLOOD_RATE.min(4.0 * quota) / 8.0);
            tokio::spawn(come(flood.subscribe(), gateway, FLOODER, every, lane));
        }
        Arc::new(Self { gateway, visit, flood, crowd: Arc::default() })
    }

    /// Lets visitors come.
    pub(crate) fn visit(&self) {
        self.visit.send_replace(Some(Instant::now() + VISIT));
    }

    /// Lets one client send four times what it may, among visitors.
    pub(crate) fn flood(&self) {
        self.visit();
        self.flood.send_replace(Some(Instant::now() + FLOOD));
    }

    /// Lets each of many clients send a request, unless they are there already.
    pub(crate) fn crowd(&self) {
        let Ok(there) = Arc::clone(&self.crowd).try_lock_owned() else { return };
        let gateway = self.gateway;
        tokio::spawn(async move {
            for number in 0..CROWD {
                let address = Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 0).to_bits() + number);
                // A client that cannot come leaves its place to the next one.
                _ = timeout(Duration::from_secs(2), once(gateway, address)).await;
            }
            drop(there);
        });
    }

    fn is_there(of: &watch::Sender<Option<Instant>>) -> bool {
        of.borrow().is_some_and(|end| Instant::now() < end)
    }
}

/// The visitors that are there now.
impl fmt::Display for Visitors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut there = Vec::new();
        if Self::is_there(&self.visit) {
            there.push("visitors");
        }
        if Self::is_there(&self.flood) {
            there.push("a flood");
        }
        if self.crowd.try_lock().is_err() {
            there.push("a crowd");
        }
        f.write_str(if there.is_empty() { "none" } else { "" })?;
        f.write_str(&there.join(", "))
    }
}

/// Sends requests one after another, from one connection, whenever it is asked to.
async fn come(
    mut asked: watch::Receiver<Option<Instant>>,
    gateway: SocketAddr,
    from: Ipv4Addr,
    every: Duration,
    lane: u32,
) {
    // Lanes take turns.
    tokio::time::sleep(every * lane / 8).await;
    let retry = Retry::new(3).backoff(Backoff::exponential(Duration::from_millis(20))).budget(&RETRIES);
    let connection = Mutex::new(None);
    loop {
        let Ok(end) = asked.wait_for(|end| end.is_some_and(|end| Instant::now() < end)).await.map(|end| *end) else {
            return;
        };
        let mut ticks = interval(every);
        // Requests that a slow upstream has held up are not made up for.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while end.is_some_and(|end| Instant::now() < end) {
            ticks.tick().await;
            let call = async || {
                let mut connection = connection.lock().await;
                let answer = send(&mut connection, gateway, from).await;
                if answer.is_err() {
                    *connection = None;
                }
                // A visitor tries again when the upstream fails, and not when it was told to wait.
                match answer {
                    Ok(status) if status.is_server_error() => Err(io::Error::other(status.to_string())),
                    Ok(_) => Ok(()),
                    Err(error) => Err(io::Error::other(error)),
                }
            };
            if from == VISITOR {
                _ = retry.run(|_| call()).await;
            } else {
                _ = call().await;
            }
        }
    }
}

type Connection = SendRequest<Empty<Bytes>>;

async fn connect(gateway: SocketAddr, from: Ipv4Addr) -> Result<Connection, Box<dyn Error + Send + Sync>> {
    let socket = match gateway.ip() {
        IpAddr::V4(_) => {
            let socket = TcpSocket::new_v4()?;
            // Where only 127.0.0.1 is there, all of them are one client.
            if gateway.ip().is_loopback() {
                _ = socket.bind((from, 0).into());
            }
            socket
        }
        IpAddr::V6(_) => TcpSocket::new_v6()?,
    };
    let stream = socket.connect(gateway).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Its error reaches the requests on it.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

async fn send(
    connection: &mut Option<Connection>,
    gateway: SocketAddr,
    from: Ipv4Addr,
) -> Result<StatusCode, Box<dyn Error + Send + Sync>> {
    let is_open = match connection {
        Some(sender) => sender.ready().await.is_ok(),
        None => false,
    };
    if !is_open {
        *connection = None;
    }
    let sender = match connection {
        Some(sender) => sender,
        None => connection.insert(connect(gateway, from).await?),
    };
    let request = Request::get("/").header(HOST, gateway.to_string()).body(Empty::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    // Read to the end, so that the connection can be used again.
    response.into_body().collect().await?;
    Ok(status)
}

/// Sends one request on a connection of its own.
async fn once(gateway: SocketAddr, from: Ipv4Addr) -> Result<StatusCode, Box<dyn Error + Send + Sync>> {
    send(&mut None, gateway, from).await
}
