//! An axum server whose stack comes from a file, changes with the file, and keeps its state.

use axum::{Router, http::StatusCode, routing::get};
use damper::CircuitBreaker;
use damper::config::{ConfigError, Reloader, Sources};
use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

const SETTINGS: &str = "\
[server.http.ratelimit]
quota = \"100/day burst 3\"
key = \"client\"

[client.http.circuit_breaker]
cooldown = \"10s\"
";

fn write(file: &std::path::Path, text: &str) -> std::io::Result<()> {
    // A new file is renamed over the old one, so that no reader sees half of it.
    fs::write(file.with_extension("new"), text)?;
    fs::rename(file.with_extension("new"), file)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::temp_dir().join(format!("configured_server-{}.toml", std::process::id()));
    write(&file, SETTINGS)?;
    // Variables such as APP__SERVER__HTTP__RATELIMIT__QUOTA="5/s" override the file.
    let reloader = Reloader::new(Sources::new().file(&file).environment("APP"))?;
    let settings = reloader.settings();
    // The parts that `server.http.stack` names: a deadline and a rate limit by default.
    let server = settings.server.http.server_stack()?;
    let breaker = Arc::new(CircuitBreaker::new(settings.client.http.circuit_breaker.config()));
    let reloader = reloader
        .bind(|settings| &settings.server.http, server.clone())
        .bind(|settings| &settings.client.http.circuit_breaker, Arc::clone(&breaker));
    let reloader = Arc::new(reloader);
    let (sender, reloads) = mpsc::channel();
    let watch = reloader.watch(Duration::from_millis(20), move |result| _ = sender.send(result))?;

    let app = Router::new().route("/", get(|| async { "page" })).layer(server);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    let client = reqwest::Client::new();
    let get = async || client.get(&url).send().await.map(|response| response.status());

    for expected in [StatusCode::OK, StatusCode::OK, StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
        assert_eq!(get().await?, expected);
    }
    // Another quota: the client has used up its burst.
    write(&file, &SETTINGS.replace("100/day", "200/day"))?;
    for change in reloads.recv()?? {
        println!("{change}");
    }
    assert_eq!(get().await?, StatusCode::TOO_MANY_REQUESTS);
    // A larger burst lets it go on.
    write(&file, &SETTINGS.replace("100/day burst 3", "200/day burst 4"))?;
    assert_eq!(reloads.recv()??.len(), 1);
    assert_eq!(get().await?, StatusCode::OK);
    // An open breaker stays open, for a shorter time.
    breaker.trip();
    write(&file, &SETTINGS.replace("100/day burst 3", "200/day burst 4").replace("10s", "2s"))?;
    assert_eq!(reloads.recv()??.len(), 1);
    println!("{}, next probe in {:?}", breaker.state(), breaker.status().next_probe_in());
    // A mistake changes nothing, and neither does a change that needs a restart.
    let restart = format!("{SETTINGS}max_hosts = 64\n");
    for text in [SETTINGS.replace("\"100/day burst 3\"", "\"unlimited\""), restart] {
        write(&file, &text)?;
        println!("refused: {}", reloads.recv()?.err().ok_or("the reload is refused")?);
    }
    assert_eq!(get().await?, StatusCode::TOO_MANY_REQUESTS);
    drop(watch);

    // Without a way to fix a file, a program starts with defaults in the place of mistakes.
    let mistake: ConfigError = Sources::new().toml("app.toml", "server.http.ratelimit.burst = 0").load().unwrap_err();
    println!("{mistake}");
    fs::remove_file(&file)?;
    Ok(())
}
