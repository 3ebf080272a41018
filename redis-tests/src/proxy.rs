//! A proxy between clients and a server that delays, stalls, loses, closes and resets.

use crate::substitution::Substitution;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// The proxy's treatment of the bytes that pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// It passes everything on at once.
    #[default]
    None,
    /// It passes everything on later by so much, each way.
    Delay(Duration),
    /// It passes nothing on, but keeps it until the fault ends: a network that lost its route.
    Stall,
    /// It passes requests on and drops the replies.
    LoseReplies,
    /// It drops requests and replies for good; connections stay open.
    Blackhole,
    /// It closes new connections at once.
    Refuse,
}

/// How open connections end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Close,
    Reset,
}

/// A proxy in a thread of its own, for any number of connections; dropping it closes them.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

#[derive(Debug)]
struct Shared {
    upstream: Mutex<SocketAddr>,
    substitution: Mutex<Option<Substitution>>,
    fault: watch::Sender<Fault>,
    /// How connections were last cut, and how often.
    cut: watch::Sender<(u64, Cut)>,
    accepted: AtomicU64,
}

impl Proxy {
    /// Listens on a free port for connections to `upstream`.
    ///
    /// # Panics
    ///
    /// If there is no free port or no thread to be had.
    #[must_use]
    pub fn new(upstream: SocketAddr) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread starts");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.set_nonblocking(true).expect("sockets can be non-blocking");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream),
            substitution: Mutex::new(None),
            fault: watch::channel(Fault::None).0,
            cut: watch::channel((0, Cut::Close)).0,
            accepted: AtomicU64::new(0),
        });
        let serving = Arc::clone(&shared);
        // Within the runtime, because this may be called within another.
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("it listens");
            accept(listener, serving).await;
        });
        Self { address, shared, runtime: Some(runtime) }
    }

    /// Returns the URL of the server as seen through the proxy.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Applies `fault` to all connections, present and future, from now on.
    pub fn set(&self, fault: Fault) {
        self.shared.fault.send_replace(fault);
    }

    /// Sends new connections to another server and closes those that are open.
    pub fn redirect(&self, upstream: SocketAddr) {
        *self.shared.upstream.lock().unwrap_or_else(PoisonError::into_inner) = upstream;
        self.close();
    }

    /// Replaces a word in the requests of new connections.
    pub fn substitute(&self, substitution: Substitution) {
        *self.shared.substitution.lock().unwrap_or_else(PoisonError::into_inner) = Some(substitution);
    }

    /// Closes all open connections.
    pub fn close(&self) {
        self.shared.cut.send_modify(|cut| *cut = (cut.0 + 1, Cut::Close));
    }

    /// Resets all open connections: their clients get an error instead of an end.
    pub fn reset(&self) {
        self.shared.cut.send_modify(|cut| *cut = (cut.0 + 1, Cut::Reset));
    }

    /// Returns how many connections there have been.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        // ORDERING: Relaxed, a counter that publishes nothing.
        self.shared.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        // ORDERING: Relaxed, a counter that publishes nothing.
        shared.accepted.fetch_add(1, Ordering::Relaxed);
        if *shared.fault.borrow() == Fault::Refuse {
            continue;
        }
        tokio::spawn(connection(client, Arc::clone(&shared)));
    }
}

async fn connection(client: TcpStream, shared: Arc<Shared>) {
    let mut cuts = shared.cut.subscribe();
    let upstream = *shared.upstream.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    _ = client.set_nodelay(true);
    _ = server.set_nodelay(true);
    let substitution = shared.substitution.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let faults = || shared.fault.subscribe();
    // Halves are cut when this future ends, so an aborted connection closes both sockets.
    let cut = tokio::select! {
        () = pump(from_client, &to_server, Way::Request, substitution, faults()) => Cut::Close,
        () = pump(from_server, &to_client, Way::Reply, None, faults()) => Cut::Close,
        _ = cuts.changed() => cuts.borrow().1,
    };
    if cut == Cut::Reset {
        for half in [to_client, to_server] {
            _ = half.as_ref().set_zero_linger();
            // A dropped half would end the stream in order first.
            half.forget();
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Request,
    Reply,
}

/// Passes bytes on until either end closes.
async fn pump(
    mut from: OwnedReadHalf,
    to: &OwnedWriteHalf,
    way: Way,
    mut substitution: Option<Substitution>,
    mut faults: watch::Receiver<Fault>,
) {
    let (sender, mut receiver) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let mut arriving = faults.clone();
    let read = async move {
        let mut buffer = vec![0; 16_384];
        loop {
            let Ok(length @ 1..) = from.read(&mut buffer).await else { return };
            let chunk = &buffer[..length];
            let bytes = substitution.as_mut().map_or_else(|| chunk.to_vec(), |word| word.pass(chunk));
            let due = match *arriving.borrow_and_update() {
                Fault::Delay(delay) => Instant::now() + delay,
                Fault::Blackhole => continue,
                Fault::LoseReplies if way == Way::Reply => continue,
                _ => Instant::now(),
            };
            if sender.send((due, bytes)).is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = receiver.recv().await {
            sleep_until(due).await;
            if faults.wait_for(|fault| *fault != Fault::Stall).await.is_err() {
                return;
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                if to.writable().await.is_err() {
                    return;
                }
                match to.try_write(rest) {
                    Ok(written) => rest = &rest[written..],
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        }
    };
    // The reader ends at the end of the stream; the writer then empties the queue.
    tokio::join!(read, write);
}
