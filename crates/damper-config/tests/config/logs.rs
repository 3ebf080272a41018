//! The log lines of settings.

use damper_config::{Reloader, Sources};
use std::io::Write;
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn logged(work: impl FnOnce()) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    crate::subscribers::register_two();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, work);
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn values_that_normalized_leaves_out_are_logged_at_warn() {
    let sources = Sources::new().toml("app.toml", "server.http.ratelimit.burst = -5\nserver.http.ratelimit.brust = 9");
    let expected = " WARN damper: app.toml:1:23: server.http.ratelimit.burst is -5, it must be a whole number from 1 to 10000000; \
        100 is used instead key=\"server.http.ratelimit.burst\"\n \
        WARN damper: app.toml:2:23: server.http.ratelimit.brust is no known key, did you mean server.http.ratelimit.burst?; \
        it is ignored key=\"server.http.ratelimit.brust\"\n";
    assert_eq!(logged(|| drop(sources.normalized())), expected);
    assert_eq!(logged(|| drop(Reloader::normalized(sources.clone()))), expected);
    assert_eq!(logged(|| drop(Sources::new().normalized())), "");
    assert_eq!(logged(|| drop(sources.load())), "", "the caller gets the mistakes as an error");
}
