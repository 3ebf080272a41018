//! Mesh: its documents, limits of several scopes, deadlines, the server and the client.
#![cfg(all(feature = "mesh", feature = "tokio"))]

mod mesh {
    mod client;
    mod deadlines;
    mod documents;
    mod durations;
    mod guide;
    mod hops;
    mod hostile;
    mod pacing;
    mod scope_pacer;
    #[path = "../models/scope_pacer.rs"]
    mod scope_pacer_model;
    mod scopes;
    mod server;
    mod support;
}
