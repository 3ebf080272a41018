//! Reloads of a server of hyper while clients call it over real sockets.

use bytes::Bytes;
use damper_config::{ConfiguredServerStack, ReloadError, Reloader, SettingChange, Sources};
use damper_http::{BoxedClient, Headers, RateLimitLayer, StackPart};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tower::ServiceExt;

/// Two quotas with the same burst, and the policies that headers report for them.
///
/// Limit and window both differ, so a mixture would report another policy.
const QUOTAS: [(&str, &str); 2] =
    [("1/day burst 20", r#""default";q=20;w=1728000"#), ("3/360000s burst 20", r#""default";q=20;w=2400000"#)];
const CLIENTS: usize = 4;
const RELOADS: usize = 60;
const HOUR: Duration = Duration::from_secs(3600);

async fn connect(address: SocketAddr) -> SendRequest<Empty<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Sends a request of a client; returns the status and the policy in force.
async fn call(sender: &mut SendRequest<Empty<Bytes>>, client: &str) -> (StatusCode, String) {
    sender.ready().await.unwrap();
    let request = Request::get("/").header("host", "test").header("x-client", client).body(Empty::new()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let policy = response.headers()["ratelimit-policy"].to_str().unwrap().to_owned();
    let status = response.status();
    // The connection is free when the body has ended.
    http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
    (status, policy)
}

async fn serve(listener: TcpListener, layer: RateLimitLayer<damper_config::ConfiguredLimit>) {
    while let Ok((stream, peer)) = listener.accept().await {
        let hello = service_fn(|_| async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) });
        let service = layer.for_peer(peer).layer(hello);
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exhausted_client_stays_exhausted_and_no_request_sees_a_mixture_of_settings() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("under_load.toml");
    let write = |quota: &str| {
        fs::write(&file, format!("server.http.ratelimit = {{ quota = '{quota}', key = 'header:x-client' }}")).unwrap();
    };
    write(QUOTAS[0].0);
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let limit = reloader.settings().server.http.ratelimit.limit().unwrap();
    let layer = RateLimitLayer::new(limit.clone()).headers(Headers::OnAllResponses);
    let reloader = reloader.bind(|settings| &settings.server.http.ratelimit, limit.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, layer));

    let mut exhausted = connect(address).await;
    for _ in 0..20 {
        assert_eq!(call(&mut exhausted, "exhausted").await.0, StatusCode::OK);
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let is_over = Arc::clone(&is_over);
            tokio::spawn(async move {
                let mut sender = connect(address).await;
                let mut calls = 0;
                while !is_over.load(Ordering::Relaxed) {
                    // Each name makes as many calls as its burst allows, and one more, which is refused.
                    let (status, policy) = call(&mut sender, &format!("{client}-{}", calls / 21)).await;
                    let expected = if calls % 21 < 20 { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
                    assert_eq!(status, expected, "call {calls}");
                    assert!(QUOTAS.iter().any(|(_, known)| *known == policy), "{policy}");
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    for reload in 1..=RELOADS {
        let (quota, policy) = QUOTAS[reload % 2];
        write(quota);
        assert_eq!(reloader.reload().unwrap().len(), 1);
        assert_eq!(limit.quota().to_string(), quota);
        let answer = call(&mut exhausted, "exhausted").await;
        assert_eq!(answer, (StatusCode::TOO_MANY_REQUESTS, policy.to_owned()), "after {reload} reloads");
        // A mistake under load changes nothing.
        write("unlimited");
        assert!(reloader.reload().is_err());
        assert_eq!(limit.quota().to_string(), quota);
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.await.unwrap() > 0);
    }
}

/// A server whose stack comes from settings, with the counts of its handler.
struct Server {
    stack: ConfiguredServerStack,
    /// The number of requests to `/fail`.
    failures: AtomicU32,
    /// The number of requests to `/hold`, and the signal that ends them.
    held: AtomicU32,
    released: Notify,
}

impl Server {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
        let mut response = Response::new(Empty::new());
        match request.uri().path() {
            "/fail" => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            }
            "/hold" => {
                let released = self.released.notified();
                self.held.fetch_add(1, Ordering::Relaxed);
                released.await;
            }
            _ => {}
        }
        Ok(response)
    }

    async fn serve(self: Arc<Self>, listener: TcpListener) {
        while let Ok((stream, peer)) = listener.accept().await {
            let server = Arc::clone(&self);
            let handler = service_fn(move |request| {
                let server = Arc::clone(&server);
                async move { server.answer(request).await }
            });
            let service = self.stack.for_peer(peer).service(handler);
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    }
}

/// The way by which changed settings reach the running stack.
enum By {
    Reload,
    Watch { reloads: Receiver<Result<Vec<SettingChange>, ReloadError>>, _watch: damper_config::Watch },
}

/// A reloader and its file.
struct Live {
    file: PathBuf,
    reloader: Arc<Reloader>,
    by: By,
}

impl Live {
    /// Writes settings, and returns the result of their reload.
    fn put(&self, text: &str) -> Result<usize, String> {
        // By renaming, so that a watch sees no half-written file.
        let new = self.file.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &self.file).unwrap();
        let result = match &self.by {
            By::Reload => self.reloader.reload(),
            By::Watch { reloads, .. } => reloads.recv_timeout(Duration::from_secs(60)).expect("the change is seen"),
        };
        result.map(|changes| changes.len()).map_err(|error| error.to_string())
    }
}

fn settings(limit: &str, cooldown: &str, slots: u32) -> String {
    format!(
        "[server.http]\nstack.concurrency = 'bulkhead'\nbulkhead.limit = {slots}\nratelimit = {{ quota = '{limit}', key = 'header:x-client' }}\n\
         [client.http]\nstack.retry = false\ncircuit_breaker = {{ failure_threshold = 3, cooldown = '{cooldown}' }}\n"
    )
}

async fn get(client: &BoxedClient<Empty<Bytes>>, url: &str, name: &str) -> Result<StatusCode, StackPart> {
    let request = Request::get(url).header("x-client", name).body(Empty::new()).unwrap();
    client.clone().oneshot(request).await.map(|response| response.status()).map_err(|error| error.part())
}

/// How long the breaker of this URL refuses calls, if it does.
async fn open_for(client: &BoxedClient<Empty<Bytes>>, url: &str) -> Option<Duration> {
    let request = Request::get(url).body(Empty::new()).unwrap();
    let error = client.clone().oneshot(request).await.err().filter(|error| error.part() == StackPart::Breaker)?;
    error.retry_after()
}

async fn all_state_is_kept(watched: bool) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("under_load_{watched}.toml"));
    fs::write(&file, settings("1/day burst 20", "1h", 50)).unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let stack = reloader.settings().server.http.server_stack().unwrap();
    let client_stack = reloader.settings().client.http.client_stack().unwrap();
    let reloader = reloader
        .bind(|settings| &settings.server.http, stack.clone())
        .bind(|settings| &settings.client.http, client_stack.clone());
    let reloader = Arc::new(reloader);
    let by = if watched {
        let (sender, reloads) = channel();
        let watch = reloader.watch(Duration::from_millis(5), move |result| _ = sender.send(result)).unwrap();
        By::Watch { reloads, _watch: watch }
    } else {
        By::Reload
    };
    let live = Live { file, reloader, by };

    let (failures, held) = (AtomicU32::new(0), AtomicU32::new(0));
    let server = Arc::new(Server { stack, failures, held, released: Notify::new() });
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(Arc::clone(&server).serve(listener));
    let client = client_stack.boxed(Client::builder(TokioExecutor::new()).build_http());
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    // Another address of the same server, which has a breaker of its own.
    let good_url = format!("http://127.0.0.2:{port}/");

    for _ in 0..20 {
        assert_eq!(get(&client, &good_url, "exhausted").await, Ok(StatusCode::OK));
    }
    for _ in 0..3 {
        let long_call = (client.clone(), good_url.clone() + "hold");
        tokio::spawn(async move { get(&long_call.0, &long_call.1, "holder").await });
    }
    while server.held.load(Ordering::Relaxed) < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..3 {
        assert_eq!(get(&client, &url("/fail"), "failing").await, Ok(StatusCode::INTERNAL_SERVER_ERROR));
    }

    let is_over = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (is_over, client, url) = (Arc::clone(&is_over), client.clone(), good_url.clone());
            tokio::spawn(async move {
                let mut calls = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let status = get(&client, &url, &format!("{number}-{}", calls / 21)).await;
                    let expected = if calls % 21 < 20 { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
                    assert_eq!(status, Ok(expected), "call {calls}");
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    for round in 0..20 {
        let (limit, cooldown, slots) =
            if round % 2 == 0 { ("3/360000s burst 20", "2h", 40) } else { ("1/day burst 20", "1s", 50) };
        assert_eq!(live.put(&settings(limit, cooldown, slots)), Ok(3));
        assert_eq!(get(&client, &good_url, "exhausted").await, Ok(StatusCode::TOO_MANY_REQUESTS), "round {round}");
        // The cooldown runs on under settings of a longer one and of a shorter one.
        let wait = open_for(&client, &url("/fail")).await.expect("the breaker is open");
        assert!(wait <= HOUR && wait > Duration::from_secs(50 * 60), "{wait:?} in round {round}");
        // A mistake in the same file changes nothing.
        assert!(live.put(&settings(limit, "0s", slots)).unwrap_err().contains("cooldown is \"0s\""));
        // A part that was not there at the start needs a restart.
        let other = settings(limit, cooldown, slots) + "ratelimit.burst = 5\n";
        assert!(live.put(&other).unwrap_err().contains("client.http.ratelimit.burst changed from 100 to 5"));
        assert_eq!(server.held.load(Ordering::Relaxed), 3);
    }
    is_over.store(true, Ordering::Relaxed);
    for client in load {
        assert!(client.await.unwrap() > 0);
    }
    assert_eq!(server.failures.load(Ordering::Relaxed), 3, "the breaker stayed open");

    // The three calls in flight have kept their slots: a limit of three has none for another.
    live.put(&settings("2/day burst 20", "1h", 3)).unwrap();
    assert_eq!(get(&client, &good_url, "new").await, Ok(StatusCode::SERVICE_UNAVAILABLE));
    server.released.notify_waiters();
    let mut status = Err(StackPart::Transport);
    for _ in 0..1_000 {
        status = get(&client, &good_url, "patient").await;
        if status != Ok(StatusCode::SERVICE_UNAVAILABLE) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(status, Ok(StatusCode::OK), "their slots are free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_breakers_and_slots_keep_their_state_over_reloads() {
    all_state_is_kept(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_breakers_and_slots_keep_their_state_over_changes_of_a_watched_file() {
    all_state_is_kept(true).await;
}
