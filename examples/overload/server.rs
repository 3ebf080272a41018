//! The server: a thread for its sockets, and a pool of threads that compute.

use crate::client::{CLASS, TENANT, TIMEOUT};
use crate::protection::Protection;
use crate::tally::WorkTally;
use crate::work::Work;
use bytes::Bytes;
use damper::concurrency::{Admission, Criticality, LimitBounds};
use damper::http::{ConcurrencyLayer, DeadlineLayer, TimeoutUnit};
use damper::{Deadline, DeadlineExceeded};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::header::{HeaderMap, HeaderName};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// The time that the server allows a request without a timeout.
const LONGEST: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    tally: Arc<WorkTally>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Server {
    /// Starts a server on threads of its own.
    pub(crate) fn start(protection: Protection, work: Work, workers: u16) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        // Where a request waits for a compute thread: the runtime's queue, first in, first out and without a bound.
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(workers.into()).build()?;
        let (stop, stopped) = oneshot::channel();
        let tally = Arc::new(WorkTally::default());
        let handler = Handler { work, tally: Arc::clone(&tally) };
        let thread = thread::Builder::new().name("server".to_owned()).spawn(move || {
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener)?;
                tokio::select! {
                    () = serve(listener, protection, handler) => {}
                    _ = stopped => {}
                }
                Ok(())
            })
        })?;
        Ok(Self { address, tally, stop, thread })
    }

    /// Stops the server, and returns what became of its work. Work that has not begun is dropped.
    pub(crate) fn stop(self) -> io::Result<Arc<WorkTally>> {
        // It may have ended by an error, which the thread returns.
        let _ = self.stop.send(());
        self.thread.join().map_err(|_| io::Error::other("the server panicked"))??;
        Ok(self.tally)
    }
}

async fn serve(listener: TcpListener, protection: Protection, handler: Handler) {
    let handler = service_fn(move |request| handler.clone().handle(request));
    let deadlines = DeadlineLayer::new(LONGEST).header(TIMEOUT, TimeoutUnit::Milliseconds);
    let admission = ConcurrencyLayer::admission(Admission::new(LimitBounds::DEFAULT))
        .criticality(|head| criticality(head.headers))
        .tenant(|head| head.headers.get(TENANT).cloned());
    match protection {
        Protection::Nothing => accept(listener, handler).await,
        Protection::Deadlines => accept(listener, deadlines.layer(handler)).await,
        Protection::Admission => accept(listener, deadlines.layer(admission.layer(handler))).await,
    }
}

/// Accepts connections until it is dropped.
async fn accept<S, B>(listener: TcpListener, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send> + Clone + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely: some will be closed.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Answers are small and nothing follows them.
        let _ = stream.set_nodelay(true);
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service.clone());
        // Its error is a client that gave up.
        tokio::spawn(async move { drop(connection.await) });
    }
}

#[derive(Clone, Debug)]
struct Handler {
    work: Work,
    tally: Arc<WorkTally>,
}

impl Handler {
    async fn handle(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        Ok(response(self.compute(&request).await))
    }

    async fn compute(self, request: &Request<Incoming>) -> Result<(), Failure> {
        let (deadline, expected) = (deadline(request), expected(request));
        let computed = tokio::task::spawn_blocking(move || {
            // It may have waited for a thread until after its deadline.
            deadline.check()?;
            let result = self.work.run(deadline);
            match result {
                Ok(()) => self.tally.finished(!expected.is_expired()),
                Err(_) => self.tally.ended(),
            }
            result
        });
        Ok(computed.await.map_err(|_| Failure(StatusCode::INTERNAL_SERVER_ERROR))??)
    }
}

/// The status of a request that was not served.
#[derive(Clone, Copy, Debug)]
struct Failure(StatusCode);

impl From<DeadlineExceeded> for Failure {
    fn from(_: DeadlineExceeded) -> Self {
        Self(StatusCode::GATEWAY_TIMEOUT)
    }
}

fn response(result: Result<(), Failure>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = result.map_or_else(|Failure(status)| status, |()| StatusCode::OK);
    response
}

/// The deadline that the deadline layer has set; without one the work knows none.
fn deadline(request: &Request<Incoming>) -> Deadline {
    request.extensions().get().copied().unwrap_or(Deadline::NEVER)
}

/// When the client gives up, for the tally only: a server without a deadline layer does not look.
fn expected(request: &Request<Incoming>) -> Deadline {
    header(request.headers(), &TIMEOUT)
        .map_or(Deadline::NEVER, |timeout| Deadline::after(Duration::from_millis(timeout)))
}

fn criticality(headers: &HeaderMap) -> Criticality {
    let class = header(headers, &CLASS).and_then(|class: usize| Criticality::ALL.get(class).copied());
    class.unwrap_or_default()
}

/// The number in a header.
fn header<T: FromStr>(headers: &HeaderMap, name: &HeaderName) -> Option<T> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}
