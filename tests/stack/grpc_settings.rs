//! Stacks from settings before tonic's client and around its server, over real sockets.

use crate::grpc_support::echo::echo_client::EchoClient;
use crate::grpc_support::{Upstream, channel, client, message, messages, serve};
use damper::CircuitOpen;
use damper::config::{ConfiguredClientStack, ConfiguredPacers, Reloader, Settings, Sources};
use damper::http::{StackError, StackPart};
use damper::throttle::PaceTooSlow;
use damper::tonic::Grpc;
use std::net::SocketAddr;
use std::time::Duration;
use tonic::transport::Server;
use tonic::{Code, Status};

fn settings(text: &str) -> Settings {
    Sources::new().toml("app.toml", text).load().unwrap()
}

fn client_stack(text: &str) -> ConfiguredClientStack<Grpc> {
    settings(&format!("[client.grpc]\n{text}")).client.grpc.client_stack().unwrap().protocol(Grpc::new())
}

fn upstream() -> (Upstream, SocketAddr) {
    let upstream = Upstream::default();
    let address = serve(Server::builder().add_service(upstream.echo()));
    (upstream, address)
}

fn part(status: &Status) -> StackPart {
    StackError::find_in(status).unwrap().part()
}

const QUICK: &str = "retry = { base_delay = '1ms', max_delay = '1ms', throttled_base = '1ms' }";

#[tokio::test]
async fn retries_and_breakers_of_settings_judge_by_the_status_of_grpc() {
    let (upstream, server) = upstream();
    let stack = client_stack(&format!("{QUICK}\ncircuit_breaker.failure_threshold = 2"));
    let mut client = EchoClient::new(stack.service(channel(server)));
    assert_eq!(client.unary(message("hello")).await.unwrap().into_inner(), message("hello"));
    let all = client.client_streaming(messages(&["a", "b"])).await.unwrap().into_inner();
    assert_eq!((all, upstream.hits()), (message("ab"), 2));
    // The heads of these responses are `200 OK`.
    upstream.answer(Code::Unavailable);
    for calls in 1..=2 {
        assert_eq!(client.unary(message("hello")).await.unwrap_err().code(), Code::Unavailable);
        assert_eq!(upstream.hits(), 2 + 3 * calls, "three attempts each");
    }
    let status = client.unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), part(&status), upstream.hits()), (Code::Unavailable, StackPart::Breaker, 8));
    assert!(CircuitOpen::find_in(&status).is_some());
}

#[tokio::test]
async fn all_parts_of_settings_together_pass_every_kind_of_call() {
    let (upstream, server) = upstream();
    let stack = client_stack(
        "stack = { hedge = true, throttle = true, pacing = true, ratelimit = true, concurrency = 'bulkhead_per_host' }\n\
         deadline = { timeout = '20s', attempt_timeout = '10s' }\nhedge.fixed_delay = '10s'",
    );
    let mut client = EchoClient::new(stack.boxed(channel(server)));
    assert_eq!(client.unary(message("hello")).await.unwrap().into_inner(), message("hello"));
    let all = client.client_streaming(messages(&["a", "b"])).await.unwrap().into_inner();
    assert_eq!(all, message("ab"));
    let mut streams = [
        client.server_streaming(message("a")).await.unwrap().into_inner(),
        client.bidirectional(messages(&["a", "a", "a"])).await.unwrap().into_inner(),
    ];
    for stream in &mut streams {
        for _ in 0..3 {
            assert_eq!(stream.message().await.unwrap(), Some(message("a")));
        }
        assert_eq!(stream.message().await.unwrap(), None);
    }
    assert_eq!(upstream.hits(), 4);
}

#[tokio::test]
async fn pacers_of_settings_learn_from_resource_exhausted() {
    let settings = settings(
        "server.grpc.ratelimit.quota = '1/min burst 1'\n[client.grpc]\nstack = { pacing = true, retry = false }\n\
         pacing = { quota = '1/min', strategy = 'remaining_decrease' }",
    );
    let upstream = Upstream::default();
    let limit = settings.server.grpc.server_stack().unwrap();
    let server = serve(Server::builder().layer(limit).add_service(upstream.echo()));
    let stack = settings.client.grpc.client_stack().unwrap().protocol(Grpc::new());
    let mut client = EchoClient::new(stack.service(channel(server)));
    assert_eq!(client.unary(message("hello")).await.unwrap().into_inner(), message("hello"));
    assert_eq!(client.unary(message("hello")).await.unwrap_err().code(), Code::ResourceExhausted);
    let Some(ConfiguredPacers::Second(hosts)) = stack.pacers() else { panic!("each host has a pacer") };
    let sleep = hosts.store().iter().next().unwrap().1.peek();
    assert!(sleep >= Duration::from_mins(1), "{sleep:?}");
    // The wait exceeds the deadline of 30 s.
    let status = client.unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), part(&status), upstream.hits()), (Code::DeadlineExceeded, StackPart::Pacing, 1));
    assert!(PaceTooSlow::find_in(&status).is_some());
}

#[tokio::test]
async fn a_pacing_layer_of_settings_repeats_a_rejected_stream() {
    let settings = settings(
        "server.grpc.ratelimit.quota = '20/s burst 1'\n[client.grpc.pacing]\nquota = '20/s'\nstrategy = 'remaining_decrease'",
    );
    let upstream = Upstream::default();
    let limit = settings.server.grpc.server_stack().unwrap();
    let server = serve(Server::builder().layer(limit).add_service(upstream.echo()));
    let grpc = &settings.client.grpc;
    let layer = grpc.pacing.layer(std::sync::Arc::new(grpc.retry_budget.budget())).unwrap().protocol(Grpc::new());
    let mut client = EchoClient::new(layer.layer(channel(server)));
    for _ in 0..5 {
        let all = client.client_streaming(messages(&["a", "b", "c"])).await.unwrap();
        assert_eq!(all.into_inner(), message("abc"));
    }
    assert_eq!(upstream.hits(), 5);
}

#[tokio::test]
async fn a_changed_quota_reaches_the_client_and_the_server_of_grpc() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("tonic_configured_stack.toml");
    let text = |server: &str, client: &str| {
        format!(
            "server.grpc.ratelimit.quota = '{server}'\n[client.grpc]\nstack = {{ ratelimit = true, retry = false }}\n\
             ratelimit = {{ quota = '{client}', max_wait = '0s' }}"
        )
    };
    std::fs::write(&file, text("1000/h burst 1", "1000/h burst 1")).unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let server_stack = reloader.settings().server.grpc.server_stack().unwrap();
    let client_stack = reloader.settings().client.grpc.client_stack().unwrap().protocol(Grpc::new());
    let reloader = reloader
        .bind(|settings| &settings.server.grpc, server_stack.clone())
        .bind(|settings| &settings.client.grpc, client_stack.clone());
    let upstream = Upstream::default();
    let server = serve(Server::builder().layer(server_stack).add_service(upstream.echo()));
    let mut limited = EchoClient::new(client_stack.service(channel(server)));
    limited.unary(message("hello")).await.unwrap();
    let status = limited.unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), part(&status)), (Code::ResourceExhausted, StackPart::Limit));
    let status = client(server).unary(message("hello")).await.unwrap_err();
    assert_eq!((status.code(), StackError::find_in(&status).is_some()), (Code::ResourceExhausted, false));

    std::fs::write(&file, text("1000/h burst 3", "1000/h burst 2")).unwrap();
    assert_eq!(reloader.reload().unwrap().len(), 2);
    // The client has one token more, and the server two.
    limited.unary(message("hello")).await.unwrap();
    assert_eq!(part(&limited.unary(message("hello")).await.unwrap_err()), StackPart::Limit);
    client(server).unary(message("hello")).await.unwrap();
    assert_eq!(client(server).unary(message("hello")).await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(upstream.hits(), 3);
}
