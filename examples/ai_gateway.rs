//! A gateway before a language model: limits of users, teams and an organisation, in two dimensions.
//!
//! A call reserves an estimate, and settles what the events of its streamed answer say. A client that disconnects pays for what
//! it got. The plans are in a file, which changes while clients call. The sockets are real. Time passes only where calls are refused.

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::{Router, http::HeaderMap, http::StatusCode, response::Response, routing::get};
use damper::config::{Plans, Reloader, Sources};
use damper::http::{BodyLines, RateLimitLayer};
use damper::{Clock, ManualClock, QuotaTree};
use futures_util::stream::{self, StreamExt};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use std::{collections::BTreeMap, convert::Infallible, error::Error, fs, net::SocketAddr, sync::Arc, time::Duration};

const SETTINGS: &str = "\
[server.tree]
unsettled = 2
[server.tree.plans]
default = { requests = '600/min', tokens = '60000/min burst 3000' } # a user
team = { tokens = '72000/min burst 3000' }
organisation = { requests = '3000/min', tokens = '90000/min burst 3000' }
";
const MINUTE: Duration = Duration::from_secs(60);
type Tree = QuotaTree<str, 3, 2, Arc<ManualClock>>;
type ToModel = (Client<HttpConnector, Body>, SocketAddr);
type AnyError = Box<dyn Error + Send + Sync>;

/// The keys of a user's path, each with the name of its plan.
fn steps(user: &str) -> Option<[(&str, &'static str); 3]> {
    let team = if ["ann", "bob"].contains(&user) { "red" } else { "blue" };
    (user.len() == 3).then_some([(user, "user"), (team, "team"), ("acme", "organisation")])
}

fn number_in(headers: &HeaderMap, name: &str) -> Option<u32> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// Reads the usage so far in a line, as the gateway and the clients do.
fn usage(line: &str) -> Option<u32> {
    line.strip_prefix("data: {\"usage\": ")?.strip_suffix('}')?.parse().ok()
}

/// Streams four events with a growing usage, and falls silent earlier if the call says so.
async fn model(call: Request) -> Response {
    let [tokens, events] = ["x-tokens", "x-events"].map(|name| number_in(call.headers(), name).unwrap_or(4));
    let event = move |number| format!("data: {{\"usage\": {}}}\n\n", tokens * number / 4);
    let events = stream::iter(1..=events).map(event).chain(stream::pending().take(usize::from(events < 4)));
    Response::new(Body::from_stream(events.map(|event| Ok::<_, Infallible>(Bytes::from(event)))))
}

async fn proxy(State((client, model)): State<ToModel>, mut call: Request) -> Result<Response, StatusCode> {
    *call.uri_mut() = format!("http://{model}/").parse().map_err(|_| StatusCode::BAD_REQUEST)?;
    client.request(call).await.map(|response| response.map(Body::new)).map_err(|_| StatusCode::BAD_GATEWAY)
}

fn gateway(tree: &Arc<Tree>, plans: &Arc<Plans<2>>, model: SocketAddr) -> Router {
    let plans = Arc::clone(plans);
    let limit = RateLimitLayer::tree(Arc::clone(tree), move |head| {
        let steps = steps(head.headers.get("x-user")?.to_str().ok()?)?;
        Some(steps.map(|(key, plan)| (key.into(), plans.get(plan))))
    });
    // An estimate twice too high, then nothing, then what each event says.
    let limit = limit.costs(|head| [1, 2 * number_in(head.headers, "x-tokens").unwrap_or(1_000)]);
    let limit = limit.charge_by_response(|_, _| [1, 0]).charge_by_body(|_, _| {
        let mut lines = BodyLines::up_to(1_024);
        let usage = |line: &[u8]| str::from_utf8(line).ok().and_then(usage);
        move |piece, used| lines.push(piece, |line| used[1] = usage(line).unwrap_or(used[1]))
    });
    let client = Client::builder(TokioExecutor::new()).build_http();
    Router::new().route("/", get(proxy)).with_state((client, model)).layer(limit)
}

async fn serve(router: Router) -> Result<SocketAddr, AnyError> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

/// Calls without a pause until `end`, and returns the tokens that the answers say.
async fn work(url: String, user: &'static str, clock: Arc<ManualClock>, end: u64) -> Result<u64, AnyError> {
    let (client, mut got) = (reqwest::Client::new(), 0);
    for call in (0..).take_while(|_| clock.now() < end) {
        let call = client.get(&url).header("x-user", user).header("x-tokens", 60 + call % 5 * 20).send().await?;
        if call.status() == StatusCode::TOO_MANY_REQUESTS {
            clock.advance(Duration::from_millis(50));
        }
        got += call.text().await?.lines().filter_map(usage).last().unwrap_or(0);
    }
    Ok(got.into())
}

/// Lets eight workers call for a minute, checks what each level got, and returns what all got.
async fn minute(url: &str, clock: &Arc<ManualClock>, plans: &Plans<2>) -> Result<u64, AnyError> {
    clock.advance(MINUTE); // all buckets are full
    let (begin, end) = (clock.now(), clock.now() + MINUTE.as_nanos() as u64);
    let users = ["ann", "bob", "cyd", "dan"].repeat(2);
    let spawn = |user| tokio::spawn(work(url.to_owned(), user, Arc::clone(clock), end));
    let (workers, mut got): (Vec<_>, _) = (users.iter().copied().map(spawn).collect(), BTreeMap::<_, u64>::new());
    for (user, worker) in users.into_iter().zip(workers) {
        let tokens = worker.await??;
        steps(user).into_iter().flatten().for_each(|(key, plan)| *got.entry((plan, key)).or_default() += tokens);
    }
    for (&(plan, key), &tokens) in &got {
        let quota = plans.get(plan)[1].quota();
        let seconds = (clock.now() - begin).div_ceil(1_000_000_000);
        let allowed = u64::from(quota.burst_size()) + u64::from(quota.limit()) * seconds / 60;
        println!("{plan:>12} {key:<4} {tokens:>6} of {allowed} tokens");
        assert!(tokens <= allowed + 2 * u64::from(quota.burst_size()), "the plan, and the cap on what is unsettled");
        assert!(plan != "organisation" || tokens * 100 >= allowed * 95, "high estimates leave hardly anything unused");
    }
    Ok(got[&("organisation", "acme")])
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let file = std::env::temp_dir().join(format!("ai_gateway-{}.toml", std::process::id()));
    fs::write(&file, SETTINGS)?;
    let (reloader, clock) = (Reloader::new(Sources::new().file(&file))?, Arc::new(ManualClock::new()));
    let (settings, dimensions) = (reloader.settings().server.tree, ["requests", "tokens"]);
    let plans = Arc::new(settings.named_plans(dimensions)?);
    let reloader = reloader.bind(|settings| &settings.server.tree, Arc::clone(&plans));
    let tree = settings.builder(["user", "team", "organisation"], dimensions).clock(Arc::clone(&clock)).build()?;
    let (tree, model) = (Arc::new(tree), serve(Router::new().route("/", get(model))).await?);
    let url = format!("http://{}/", serve(gateway(&tree, &plans, model)).await?);
    let before = minute(&url, &clock, &plans).await?;
    fs::write(&file, SETTINGS.replace("90000/min", "45000/min"))?;
    println!("{}", reloader.reload()?[0]);
    let after = minute(&url, &clock, &plans).await?;
    assert!(after * 100 < before * 60, "half the quota is in force at once");
    // Of 400 tokens the model has sent a quarter when the client goes away. The estimate was 800.
    clock.advance(MINUTE);
    let call = reqwest::Client::new().get(&url).header("x-user", "ann").header("x-tokens", 400).header("x-events", 1);
    let mut answer = call.send().await?;
    let event = answer.chunk().await?.ok_or("an event")?;
    let paths = steps("ann").ok_or("a path")?.map(|(key, plan)| (key, plans.get(plan)));
    let used = || tree.peek(&paths.each_ref().map(|(key, of)| (*key, of.each_ref()))).map(|level| level[1].used());
    assert_eq!(used(), [800; 3]);
    drop(answer);
    while used() != [100; 3] {
        tokio::time::sleep(Duration::from_millis(1)).await; // until the gateway notices
    }
    println!("a client that left after {event:?} pays for 100 tokens");
    Ok(fs::remove_file(&file)?)
}
