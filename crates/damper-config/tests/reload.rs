//! Reloads: what is applied keeps its state, all of it or nothing; files that are replaced as editors and Kubernetes do.

use damper_config::{Key, Reload, ReloadError, Reloader, RetrySettings, SettingChange, Sources};
use damper_core::Retry;
use damper_core::keyed::KeyedLimiter;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn told(changes: &[SettingChange]) -> Vec<String> {
    changes.iter().map(ToString::to_string).collect()
}

#[test]
fn an_exhausted_client_stays_exhausted_and_a_held_permit_stays_held() {
    let file = folder("exhausted").join("app.toml");
    fs::write(&file, "[server.http]\nratelimit.quota = '2/h burst 4'\nratelimit.tiers = ['3/h']\nbulkhead.limit = 1\nadmission.fixed_limit = 3").unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let settings = reloader.settings();
    let http = &settings.server.http;
    let limits =
        http.ratelimit.keyed_builder::<str>().tiers(http.ratelimit.tiers(), |key: &str| key.len() % 2).build().unwrap();
    let (limits, pool, gate) = (Arc::new(limits), Arc::new(http.bulkhead.bulkhead()), Arc::new(http.admission.fixed()));
    let reloader = reloader
        .bind(|settings| &settings.server.http.ratelimit, Arc::clone(&limits))
        .bind(|settings| &settings.server.http.bulkhead, Arc::clone(&pool))
        .bind(|settings| &settings.server.http.admission, Arc::clone(&gate));

    limits.check_n("even", 4).unwrap();
    limits.check_n("odd", 3).unwrap();
    let permit = pool.try_acquire().unwrap();
    assert!(reloader.reload().unwrap().is_empty(), "nothing has changed");

    fs::write(&file, "[server.http]\nratelimit.quota = '3/h burst 4'\nratelimit.tiers = ['6/h burst 3']\nbulkhead.limit = 2\nadmission.fixed_limit = 8").unwrap();
    let expected = [
        "server.http.ratelimit.quota changed from \"2/h burst 4\" to \"3/h burst 4\"",
        "server.http.ratelimit.tiers changed from [\"3/h burst 3\"] to [\"6/h burst 3\"]",
        "server.http.bulkhead.limit changed from 1 to 2",
        "server.http.admission.fixed_limit changed from 3 to 8",
    ];
    assert_eq!(told(&reloader.reload().unwrap()), expected);
    assert_eq!((limits.quota().limit(), limits.tier_quota(1).unwrap().limit(), gate.limit()), (3, 6, 8));
    // The clients have used up their bursts.
    assert!(limits.check("even").is_err() && limits.check("odd").is_err());
    assert!(limits.check_n("other", 3).is_ok());
    let second = pool.try_acquire().unwrap();
    assert!(pool.try_acquire().is_err(), "the first permit counts");
    drop((permit, second));
}

#[test]
fn a_file_with_a_mistake_changes_nothing() {
    let file = folder("mistake").join("app.toml");
    fs::write(&file, "server.http.ratelimit.burst = 5\nserver.http.bulkhead.limit = 5").unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let limiter = Arc::new(reloader.settings().server.http.ratelimit.limiter());
    let pool = Arc::new(reloader.settings().server.http.bulkhead.bulkhead());
    let reloader = reloader
        .bind(|settings| &settings.server.http.ratelimit, Arc::clone(&limiter))
        .bind(|settings| &settings.server.http.bulkhead, Arc::clone(&pool));
    let before = reloader.settings();
    for (text, expected) in [
        (
            "server.http.ratelimit.burst = 6\nserver.http.bulkhead.limit = 0",
            "server.http.bulkhead.limit is 0, it must be a whole number from 1",
        ),
        ("server.http.ratelimit.burst = 6\nserver.http.bulkhead.limit = ", ":2:"),
        // Right, but of other keys than those that can change live.
        (
            "server.http.ratelimit.burst = 6\nserver.http.bulkhead.limit = 6\nserver.http.bulkhead.queue = 6",
            "server.http.bulkhead.queue changed from 0 to 6; this needs a restart",
        ),
        (
            "server.http.ratelimit.burst = 6\nserver.http.bulkhead.limit = 5\nserver.grpc.bulkhead.limit = 6",
            "server.grpc.bulkhead.limit changed from 64 to 6; no limit is bound to this section, so it needs a restart",
        ),
        (
            "server.http.ratelimit.burst = 6\nserver.http.bulkhead.limit = 5\nserver.http.ratelimit.tiers = ['1/s']",
            "server.http.ratelimit.tiers changed from [] to [\"1/s burst 1\"]",
        ),
        (
            "server.http.ratelimit.burst = 6\nclient.http.circuit_breaker.cooldown = '1s'",
            "client.http.circuit_breaker.cooldown changed from \"30s\" to \"1s\"; this needs a restart",
        ),
        // More than two thousand times faster than what the limiter was built with.
        (
            "server.http.ratelimit.requests_per_second = 9000000\nserver.http.bulkhead.limit = 6",
            "server.http.ratelimit: ",
        ),
    ] {
        fs::write(&file, text).unwrap();
        let error = reloader.reload().expect_err(text).to_string();
        assert!(error.contains(expected), "{text}\n{error}");
        assert_eq!((limiter.quota().burst_size(), pool.limit(), &reloader.settings()), (5, 5, &before), "{text}");
    }
    fs::remove_file(&file).unwrap();
    let error = reloader.reload().unwrap_err();
    assert!(matches!(error, ReloadError::Invalid(_)));
    assert!(std::error::Error::source(&error).is_none(), "a chain says it once");
    assert_eq!(reloader.settings(), before);
}

/// Takes settings, or refuses them.
struct Retries(Arc<Mutex<(Retry, bool)>>);

impl Reload<RetrySettings> for Retries {
    fn takes(&self, _: &Key) -> bool {
        true
    }

    fn apply(&self, new: &RetrySettings) -> Result<(), String> {
        let mut retry = self.0.lock().unwrap();
        if retry.1 {
            return Err("not now".to_owned());
        }
        retry.0 = new.retry();
        Ok(())
    }
}

#[test]
fn what_was_applied_is_taken_back_when_another_refuses_after_all() {
    let file = folder("refused").join("app.toml");
    fs::write(&file, "").unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let limiter = Arc::new(reloader.settings().server.http.ratelimit.limiter());
    let retries = Arc::new(Mutex::new((reloader.settings().client.http.retry.retry(), true)));
    let reloader = reloader
        .bind(|settings| &settings.server.http.ratelimit, Arc::clone(&limiter))
        .bind(|settings| &settings.client.http.retry, Retries(Arc::clone(&retries)));
    fs::write(&file, "server.http.ratelimit.burst = 7\nclient.http.retry.max_attempts = 5").unwrap();
    assert_eq!(reloader.reload().unwrap_err().to_string(), "client.http.retry: not now");
    assert_eq!((limiter.quota().burst_size(), retries.lock().unwrap().0.max_attempts()), (100, 3));

    retries.lock().unwrap().1 = false;
    assert_eq!(reloader.reload().unwrap().len(), 2);
    assert_eq!((limiter.quota().burst_size(), retries.lock().unwrap().0.max_attempts()), (7, 5));
}

/// Counts how often it gets settings.
struct Counter(Arc<Mutex<u32>>);

impl Reload<RetrySettings> for Counter {
    fn takes(&self, _: &Key) -> bool {
        true
    }

    fn apply(&self, _: &RetrySettings) -> Result<(), String> {
        *self.0.lock().unwrap() += 1;
        Ok(())
    }
}

#[test]
fn a_quota_that_a_limiter_cannot_take_is_refused_before_anything_changes() {
    let file = folder("before").join("app.toml");
    fs::write(&file, "").unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let limiter = Arc::new(reloader.settings().server.http.ratelimit.limiter());
    let count = Arc::new(Mutex::new(0));
    let reloader = reloader
        .bind(|settings| &settings.client.http.retry, Counter(Arc::clone(&count)))
        .bind(|settings| &settings.server.http.ratelimit, Arc::clone(&limiter));
    let retries = "client.http.retry.max_attempts = 5\n";
    fs::write(&file, format!("{retries}server.http.ratelimit.requests_per_second = 9000000")).unwrap();
    assert!(matches!(reloader.reload(), Err(ReloadError::Refused { .. })));
    assert_eq!((*count.lock().unwrap(), limiter.quota().limit()), (0, 50));
    fs::write(&file, retries).unwrap();
    assert_eq!((reloader.reload().unwrap().len(), *count.lock().unwrap()), (1, 1));
}

type Reloaded = Result<Vec<SettingChange>, ReloadError>;

/// A limiter whose file is watched, and what the callback gets.
struct Watched {
    limits: Arc<KeyedLimiter<u32>>,
    reloads: Receiver<Reloaded>,
    _watch: damper_config::Watch,
}

impl Watched {
    fn start(file: &Path) -> Self {
        let reloader = Reloader::new(Sources::new().file(file)).unwrap();
        let limits = Arc::new(reloader.settings().server.http.ratelimit.keyed_builder().build().unwrap());
        let reloader = reloader.bind(|settings| &settings.server.http.ratelimit, Arc::clone(&limits));
        let (sender, reloads) = channel();
        let watch = Arc::new(reloader).watch(Duration::from_millis(5), move |result| _ = sender.send(result)).unwrap();
        Self { limits, reloads, _watch: watch }
    }

    /// Waits for the next reload; a minute is for slow machines.
    fn next(&self) -> Reloaded {
        self.reloads.recv_timeout(Duration::from_mins(1)).expect("the change is seen")
    }

    fn next_burst(&self) -> u32 {
        self.next().unwrap();
        self.limits.quota().burst_size()
    }
}

/// Exchanges a file in one step: a watch sees no part of the new one.
fn replace(file: &Path, text: &str) {
    let other = file.with_extension("new");
    fs::write(&other, text).unwrap();
    fs::rename(other, file).unwrap();
}

fn burst(burst: u32) -> String {
    format!("server.http.ratelimit.burst = {burst}\n")
}

#[test]
fn a_watch_follows_a_file_that_is_written_renamed_over_removed_and_broken() {
    let folder = folder("watch");
    let file = folder.join("app.toml");
    fs::write(&file, burst(1)).unwrap();
    let watched = Watched::start(&file);
    replace(&file, &burst(2));
    assert_eq!(watched.next_burst(), 2);
    // As editors do.
    fs::write(folder.join(".app.toml.swp"), burst(3)).unwrap();
    fs::rename(folder.join(".app.toml.swp"), &file).unwrap();
    assert_eq!(watched.next_burst(), 3);
    // The same length and the same time of modification as before.
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    fs::write(folder.join("other"), burst(4)).unwrap();
    fs::File::open(folder.join("other")).unwrap().set_modified(time).unwrap();
    fs::rename(folder.join("other"), &file).unwrap();
    assert_eq!(watched.next_burst(), 4);
    fs::remove_file(&file).unwrap();
    assert!(watched.next().is_err());
    replace(&file, "server.http.ratelimit.burst = zero");
    assert!(watched.next().unwrap_err().to_string().contains("app.toml:1:"));
    assert_eq!(watched.limits.quota().burst_size(), 4);
    replace(&file, &burst(5));
    assert_eq!(watched.next_burst(), 5);
}

#[cfg(unix)]
#[test]
fn a_watch_follows_the_symbolic_links_of_kubernetes() {
    use std::os::unix::fs::symlink;

    // app.toml -> ..data/app.toml, and ..data -> a folder with the time in its name, which is exchanged.
    let folder = folder("kubernetes");
    let version = |name: &str, value: u32| {
        fs::create_dir(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("app.toml"), burst(value)).unwrap();
        symlink(name, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    version("..2026_01", 1);
    symlink("..data/app.toml", folder.join("app.toml")).unwrap();
    let watched = Watched::start(&folder.join("app.toml"));
    for value in 2..5 {
        version(&format!("..2026_0{value}"), value);
        fs::remove_dir_all(folder.join(format!("..2026_0{}", value - 1))).unwrap();
        assert_eq!(watched.next_burst(), value);
    }
}

#[test]
fn a_file_without_a_key_does_not_take_the_place_of_one_with_keys() {
    let file = folder("emptied").join("app.toml");
    fs::write(&file, "server.http.ratelimit.quota = '1/h'").unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let limiter = Arc::new(reloader.settings().server.http.ratelimit.limiter());
    let reloader = reloader.bind(|settings| &settings.server.http.ratelimit, Arc::clone(&limiter));
    for text in ["", "# nothing\n", "[server.http.ratelimit]\n"] {
        fs::write(&file, text).unwrap();
        let error = reloader.reload().expect_err(text).to_string();
        assert!(error.ends_with("app.toml: the file has no key, and had some before"), "{error}");
        assert_eq!(limiter.quota().to_string(), "1/h burst 1", "{text}");
    }
    // One of the keys may go.
    fs::write(&file, "server.http.ratelimit.quota = '2/h'").unwrap();
    assert_eq!(reloader.reload().unwrap().len(), 1);
}

#[test]
fn a_watch_refuses_a_file_that_is_truncated_and_left_so() {
    let file = folder("truncated").join("app.toml");
    fs::write(&file, burst(1)).unwrap();
    let watched = Watched::start(&file);
    fs::write(&file, "").unwrap();
    assert!(watched.next().unwrap_err().to_string().contains("the file has no key"));
    assert_eq!(watched.limits.quota().burst_size(), 1);
}

#[test]
fn a_reload_that_waits_for_another_reads_the_files_after_it() {
    /// Says that it has begun, and waits.
    struct Slow(Mutex<(std::sync::mpsc::Sender<()>, Receiver<()>)>);
    impl Reload<RetrySettings> for Slow {
        fn takes(&self, _: &Key) -> bool {
            true
        }

        fn apply(&self, _: &RetrySettings) -> Result<(), String> {
            let channels = self.0.lock().unwrap();
            channels.0.send(()).unwrap();
            channels.1.recv_timeout(Duration::from_mins(1)).map_err(|error| error.to_string())
        }
    }

    let file = folder("order").join("app.toml");
    let attempts = |count: u32| format!("client.http.retry.max_attempts = {count}");
    fs::write(&file, attempts(1)).unwrap();
    let (begun, has_begun) = channel();
    let (proceed, proceeds) = channel();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let reloader = reloader.bind(|settings| &settings.client.http.retry, Slow(Mutex::new((begun, proceeds))));
    fs::write(&file, attempts(2)).unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| reloader.reload().unwrap().len());
        has_begun.recv().unwrap();
        let second = scope.spawn(|| reloader.reload().unwrap().len());
        // Time for the second to read too early, if it does.
        std::thread::sleep(Duration::from_millis(100));
        fs::write(&file, attempts(3)).unwrap();
        proceed.send(()).unwrap();
        proceed.send(()).unwrap();
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (1, 1));
    });
    assert_eq!(reloader.settings().client.http.retry.max_attempts(), 3);
}

#[test]
fn what_takes_settings_can_ask_for_those_in_force() {
    use std::sync::{OnceLock, Weak};

    /// Remembers the settings in force while it gets new ones.
    struct Asks(Arc<OnceLock<Weak<Reloader>>>, std::sync::mpsc::Sender<u32>);
    impl Reload<RetrySettings> for Asks {
        fn takes(&self, _: &Key) -> bool {
            true
        }

        fn apply(&self, _: &RetrySettings) -> Result<(), String> {
            let reloader = self.0.get().and_then(Weak::upgrade).ok_or("not started")?;
            self.1.send(reloader.settings().client.http.retry.max_attempts()).map_err(|error| error.to_string())
        }
    }
    let file = folder("asks").join("app.toml");
    fs::write(&file, "client.http.retry.max_attempts = 4").unwrap();
    let (sender, asked) = channel();
    let place = Arc::new(OnceLock::new());
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let reloader = Arc::new(reloader.bind(|settings| &settings.client.http.retry, Asks(Arc::clone(&place), sender)));
    place.set(Arc::downgrade(&reloader)).unwrap();
    fs::write(&file, "client.http.retry.max_attempts = 5").unwrap();
    std::thread::spawn(move || reloader.reload().unwrap());
    assert_eq!(asked.recv_timeout(Duration::from_secs(20)), Ok(4), "it waits for itself");
}

#[test]
fn a_watch_tries_again_after_a_refusal_and_tells_it_once() {
    let file = folder("again").join("app.toml");
    fs::write(&file, "client.http.retry.max_attempts = 3").unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let retries = Arc::new(Mutex::new((reloader.settings().client.http.retry.retry(), true)));
    let reloader = reloader.bind(|settings| &settings.client.http.retry, Retries(Arc::clone(&retries)));
    let (sender, reloads) = channel();
    let told = move |result: Reloaded| _ = sender.send(result);
    let _watch = Arc::new(reloader).watch(Duration::from_millis(5), told).unwrap();
    replace(&file, "client.http.retry.max_attempts = 5");
    assert!(matches!(reloads.recv_timeout(Duration::from_mins(1)).unwrap(), Err(ReloadError::Refused { .. })));
    retries.lock().unwrap().1 = false;
    assert!(reloads.recv_timeout(Duration::from_secs(20)).expect("it is tried again").is_ok());
    assert_eq!(retries.lock().unwrap().0.max_attempts(), 5);
}

#[test]
fn a_panic_of_what_takes_settings_is_a_refusal() {
    struct Panics;
    impl Reload<RetrySettings> for Panics {
        fn takes(&self, _: &Key) -> bool {
            true
        }

        fn apply(&self, _: &RetrySettings) -> Result<(), String> {
            panic!("out of order")
        }
    }
    let file = folder("panics").join("app.toml");
    fs::write(&file, burst(1)).unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let limiter = Arc::new(reloader.settings().server.http.ratelimit.limiter());
    let reloader = reloader
        .bind(|settings| &settings.server.http.ratelimit, Arc::clone(&limiter))
        .bind(|settings| &settings.client.http.retry, Panics);
    fs::write(&file, format!("{}client.http.retry.max_attempts = 5", burst(2))).unwrap();
    assert_eq!(reloader.reload().unwrap_err().to_string(), "client.http.retry: it panicked: out of order");
    assert_eq!((limiter.quota().burst_size(), reloader.settings().server.http.ratelimit.burst()), (1, 1));
}

#[test]
fn a_watch_whose_callback_panics_does_not_run() {
    let file = folder("callback").join("app.toml");
    fs::write(&file, burst(1)).unwrap();
    let reloader = Arc::new(Reloader::new(Sources::new().file(&file)).unwrap());
    let (sender, called) = channel::<()>();
    let watch = reloader.watch(Duration::from_millis(5), move |_| panic!("{sender:?} is out of order")).unwrap();
    assert!(watch.is_running());
    replace(&file, "");
    // The sender ends with the thread's closure, and the thread a moment later.
    assert!(called.recv_timeout(Duration::from_mins(1)).is_err());
    while watch.is_running() {
        std::thread::yield_now();
    }
}

#[test]
fn a_watch_puts_back_what_a_reload_has_read_in_between() {
    let file = folder("between").join("app.toml");
    fs::write(&file, burst(1)).unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let limiter = Arc::new(reloader.settings().server.http.ratelimit.limiter());
    let reloader = Arc::new(reloader.bind(|settings| &settings.server.http.ratelimit, Arc::clone(&limiter)));
    let _watch = reloader.watch(Duration::from_millis(100), |_| ()).unwrap();
    // Time for the watch to apply the first contents.
    std::thread::sleep(Duration::from_millis(350));
    replace(&file, &burst(2));
    reloader.reload().unwrap();
    replace(&file, &burst(1));
    let start = std::time::Instant::now();
    while limiter.quota().burst_size() != 1 {
        assert!(start.elapsed() < Duration::from_secs(20), "the file says 1");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_watch_ends_when_it_is_dropped() {
    let file = folder("dropped").join("app.toml");
    fs::write(&file, burst(1)).unwrap();
    let Watched { limits, reloads, _watch: watch } = Watched::start(&file);
    drop(watch);
    fs::write(&file, burst(2)).unwrap();
    // The thread owned the sender.
    assert!(reloads.recv().is_err());
    assert_eq!(limits.quota().burst_size(), 1);
}
