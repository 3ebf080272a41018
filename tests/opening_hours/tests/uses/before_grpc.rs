//! Before servers and clients of gRPC, over real sockets.

use crate::grpc::echo::echo_client::EchoClient;
use crate::grpc::{Upstream, channel, client, message, messages, serve};
use crate::{HOUR, MIDNIGHT, TimeOfDay, closed_in};
use damper::gate::Refusal;
use damper::http::{ClientGate, ConcurrencyLayer};
use damper::is_refusal;
use damper::tonic::AtTrailers;
use damper::tower::GateLayer;
use tonic::transport::Server;
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tower::Layer;

/// Checks the status of a call at midnight.
pub(crate) fn assert_closed(status: &Status) {
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "closed, opens at 8:00"));
    let wait = status.get_details_retry_info().and_then(|info| info.retry_delay);
    assert_eq!(wait, Some(8 * HOUR));
}

#[tokio::test]
async fn server_is_unavailable_until_the_hour_of_opening() {
    let (time, upstream) = (TimeOfDay::default(), Upstream::default());
    let layer = ConcurrencyLayer::new(time.gate());
    // Around all services, and around one.
    let all = serve(Server::builder().layer(layer.clone()).add_service(upstream.echo()));
    let one = serve(Server::builder().add_service(layer.layer(upstream.echo())));
    for (server, calls) in [(all, 2), (one, 4)] {
        time.set(MIDNIGHT);
        let mut client = client(server);
        assert_closed(&client.unary(message("hello")).await.unwrap_err());
        assert_closed(&client.client_streaming(messages(&["a", "b"])).await.unwrap_err());
        assert_closed(&client.server_streaming(message("hello")).await.unwrap_err());
        assert_closed(&client.bidirectional(messages(&["a", "b"])).await.unwrap_err());
        assert_eq!(upstream.hits(), calls - 2);
        time.set(8 * HOUR);
        assert_eq!(client.unary(message("hello")).await.unwrap().into_inner(), message("hello"));
        assert_eq!(client.client_streaming(messages(&["a", "b"])).await.unwrap().into_inner(), message("ab"));
        assert_eq!(upstream.hits(), calls);
    }
}

#[tokio::test]
async fn client_sends_nothing_while_the_gate_is_closed() {
    let (time, upstream) = (TimeOfDay::default(), Upstream::default());
    let server = serve(Server::builder().add_service(upstream.echo()));
    let gate = ClientGate::new(time.gate()).completion(AtTrailers::new());
    let mut client = EchoClient::new(GateLayer::at(gate).layer(channel(server)));
    let status = client.unary(message("hello")).await.unwrap_err();
    assert_closed(&status);
    assert_eq!(closed_in(&status).unwrap().retry_after(), Some(8 * HOUR));
    assert!(is_refusal(&status));
    assert_eq!(upstream.hits(), 0);
    time.set(8 * HOUR);
    assert_eq!(client.unary(message("hello")).await.unwrap().into_inner(), message("hello"));
    assert_eq!(upstream.hits(), 1);
}
