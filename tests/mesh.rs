//! Mesh: its documents, limits of several scopes, deadlines, the server and the client.
#![cfg(all(feature = "mesh", feature = "tokio"))]

mod mesh {
    mod client;
    mod deadlines;
    mod documents;
    mod durations;
    mod hostile;
    mod pacer;
    #[path = "../models/pacer.rs"]
    mod pacer_model;
    mod scopes;
    mod server;
    mod support;
}
