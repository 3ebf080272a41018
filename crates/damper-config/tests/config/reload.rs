//! Reloads, which keep state and apply all changes or none.
//!
//! Files are replaced in the ways of editors and Kubernetes.

use damper_config::{
    ClientLayers, RateLimitSettings, Reload, ReloadError, Reloader, RetrySettings, SettingChange, Settings, Sources,
};
use damper_core::breaker::State;
use damper_core::keyed::KeyedLimiter;
use damper_core::throttle::{AdaptiveThrottle, ThrottlePermit};
use damper_core::{
    CircuitBreaker, FixedWindow, KeyedAdaptiveLimit, KeyedAlgorithm, KeyedCircuitBreaker, Limiter, ManualClock, Quota,
    Retry, SlidingCounter, TokenBucket,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, LazyLock, Mutex};
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
        // A valid value of a key that cannot change live.
        (
            "server.http.ratelimit.burst = 6\nserver.http.bulkhead.limit = 6\nserver.http.bulkhead.max_keys = 6",
            "server.http.bulkhead.max_keys changed from 1024 to 6; this needs a restart",
        ),
        (
            "server.http.ratelimit.burst = 6\nserver.http.bulkhead.limit = 5\nserver.grpc.bulkhead.limit = 6",
            "server.grpc.bulkhead.limit changed from 64 to 6; nothing is bound to this section, so it needs a restart",
        ),
        (
            "server.http.ratelimit.burst = 6\nserver.http.bulkhead.limit = 5\nserver.http.ratelimit.tiers = ['1/s']",
            "server.http.ratelimit.tiers changed from [] to [\"1/s burst 1\"]; what is bound to this section does not take it, so it needs a restart",
        ),
        (
            "server.http.ratelimit.burst = 6\nclient.http.circuit_breaker.max_hosts = 9",
            "client.http.circuit_breaker.max_hosts changed from 1024 to 9; this needs a restart",
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

/// A target that takes settings or refuses them.
struct Retries(Arc<Mutex<(Retry, bool)>>);

impl Reload<RetrySettings> for Retries {
    fn takes(&self, _: &SettingChange) -> bool {
        true
    }

    fn apply(&self, _: &RetrySettings, new: &RetrySettings) -> Result<(), String> {
        let mut retry = self.0.lock().unwrap();
        if retry.1 {
            return Err("not now".to_owned());
        }
        retry.0 = new.retry();
        Ok(())
    }
}

#[test]
fn changes_are_rolled_back_when_a_later_target_refuses() {
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

#[test]
fn a_target_that_refuses_after_it_took_a_part_is_set_back_too() {
    /// Takes the number of attempts, and refuses then.
    struct Half(Arc<Mutex<u32>>);
    impl Reload<RetrySettings> for Half {
        fn takes(&self, _: &SettingChange) -> bool {
            true
        }

        fn apply(&self, _: &RetrySettings, new: &RetrySettings) -> Result<(), String> {
            *self.0.lock().unwrap() = new.max_attempts();
            Err("not the rest".to_owned())
        }
    }
    let file = folder("half").join("app.toml");
    fs::write(&file, "").unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let attempts = Arc::new(Mutex::new(3));
    let reloader = reloader.bind(|settings| &settings.client.http.retry, Half(Arc::clone(&attempts)));
    fs::write(&file, "client.http.retry.max_attempts = 5").unwrap();
    assert_eq!(reloader.reload().unwrap_err().to_string(), "client.http.retry: not the rest");
    assert_eq!(*attempts.lock().unwrap(), 3, "it has what was in force");
}

#[test]
fn a_file_that_was_refused_may_lose_its_keys_again() {
    let file = folder("lost").join("app.toml");
    fs::write(&file, "").unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let retries = Arc::new(Mutex::new((reloader.settings().client.http.retry.retry(), true)));
    let reloader = reloader.bind(|settings| &settings.client.http.retry, Retries(Arc::clone(&retries)));
    fs::write(&file, "client.http.retry.max_attempts = 5").unwrap();
    assert!(matches!(reloader.reload(), Err(ReloadError::Refused { .. })));
    fs::write(&file, "").unwrap();
    assert!(reloader.reload().expect("the keys were never in force").is_empty());
}

/// A round trip of the settings would empty the window, whose size changes meanwhile.
#[test]
fn a_refusal_finds_the_limits_of_damper_unchanged() {
    let file = folder("unchanged").join("app.toml");
    let text = |calls: u32, attempts: u32| {
        format!(
            "[client.http]\ncircuit_breaker.window_calls = {calls}\ncircuit_breaker.failure_rate = 50\nretry.max_attempts = {attempts}"
        )
    };
    fs::write(&file, text(100, 3)).unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let breaker = Arc::new(CircuitBreaker::new(reloader.settings().client.http.circuit_breaker.config()));
    let retries = Arc::new(Mutex::new((reloader.settings().client.http.retry.retry(), true)));
    let reloader = reloader
        .bind(|settings| &settings.client.http.circuit_breaker, Arc::clone(&breaker))
        .bind(|settings| &settings.client.http.retry, Retries(Arc::clone(&retries)));
    for _ in 0..10 {
        breaker.call(|| Ok::<_, ()>(())).unwrap();
    }
    fs::write(&file, text(200, 5)).unwrap();
    for _ in 0..2 {
        assert_eq!(reloader.reload().unwrap_err().to_string(), "client.http.retry: not now");
        assert_eq!(breaker.status().calls(), 10);
    }
}

#[test]
fn a_watch_tries_what_was_refused_more_and_more_rarely() {
    /// Reports each try, and refuses it.
    struct Refuses(std::sync::mpsc::Sender<()>);
    impl Reload<RetrySettings> for Refuses {
        fn takes(&self, _: &SettingChange) -> bool {
            true
        }

        fn apply(&self, _: &RetrySettings, new: &RetrySettings) -> Result<(), String> {
            if new.max_attempts() == 5 {
                self.0.send(()).unwrap();
            }
            Err("never".to_owned())
        }
    }
    let file = folder("rarely").join("app.toml");
    fs::write(&file, "").unwrap();
    let (sender, tries) = channel();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let reloader = reloader.bind(|settings| &settings.client.http.retry, Refuses(sender));
    let interval = Duration::from_millis(5);
    let _watch = Arc::new(reloader).watch(interval, |_| ()).unwrap();
    replace(&file, "client.http.retry.max_attempts = 5");
    let next = || tries.recv_timeout(Duration::from_mins(1)).unwrap();
    next();
    let start = std::time::Instant::now();
    (0..5).for_each(|_| next());
    // The first of these may have been made before the clock was read.
    assert!(start.elapsed() >= (2 + 4 + 8 + 16) * interval, "{:?}", start.elapsed());
}

/// A target that counts how often it gets settings.
struct Counter(Arc<Mutex<u32>>);

impl Reload<RetrySettings> for Counter {
    fn takes(&self, _: &SettingChange) -> bool {
        true
    }

    fn apply(&self, _: &RetrySettings, _: &RetrySettings) -> Result<(), String> {
        *self.0.lock().unwrap() += 1;
        Ok(())
    }
}

#[test]
fn a_quota_that_a_limiter_cannot_take_is_refused_before_anything_changes() {
    let file = folder("before").join("app.toml");
    fs::write(&file, "").unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let limiter = Arc::new(reloader.settings().server.http.ratelimit.sliding_log().unwrap());
    let count = Arc::new(Mutex::new(0));
    let reloader = reloader
        .bind(|settings| &settings.client.http.retry, Counter(Arc::clone(&count)))
        .bind(|settings| &settings.server.http.ratelimit, Arc::clone(&limiter));
    let retries = "client.http.retry.max_attempts = 5\n";
    fs::write(&file, format!("{retries}server.http.ratelimit.requests_per_second = 51")).unwrap();
    assert!(matches!(reloader.reload(), Err(ReloadError::Refused { .. })));
    assert_eq!((*count.lock().unwrap(), limiter.quota().limit()), (0, 50));
    fs::write(&file, retries).unwrap();
    assert_eq!((reloader.reload().unwrap().len(), *count.lock().unwrap()), (1, 1));
}

type Reloaded = Result<Vec<SettingChange>, ReloadError>;

/// A limiter whose file is watched, and the results that the callback gets.
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
        self.reloads.recv_timeout(Duration::from_secs(60)).expect("the change is seen")
    }

    fn next_burst(&self) -> u32 {
        self.next().unwrap();
        self.limits.quota().burst_size()
    }
}

/// Replaces a file in one step, so that a watch sees no part of the new one.
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

    // `app.toml` links to `..data/app.toml`, and `..data` to a folder with the time in its name. The link `..data` is replaced.
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
    // The schema of a JSON file is no setting.
    let json = file.with_file_name("app.json");
    fs::write(&json, r#"{ "$schema": "schema.json", "server.http.ratelimit.burst": 7 }"#).unwrap();
    let of_json = Reloader::new(Sources::new().file(&json)).unwrap();
    fs::write(&json, r#"{ "$schema": "schema.json" }"#).unwrap();
    assert!(matches!(of_json.reload(), Err(ReloadError::Emptied { .. })));
    // One of the keys may go.
    fs::write(&file, "server.http.ratelimit.quota = '2/h'").unwrap();
    assert_eq!(reloader.reload().unwrap().len(), 1);
}

#[test]
fn a_reloader_that_leaves_out_bad_values_starts_with_the_rest_of_the_file() {
    let file = folder("normalized").join("app.toml");
    fs::write(&file, "[server.http]\nratelimit.burst = -5\nbulkhead.limit = 5").unwrap();
    let (reloader, problems) = Reloader::normalized(Sources::new().file(&file));
    assert!(problems[0].to_string().ends_with("; 100 is used instead"), "{}", problems[0]);
    let pool = Arc::new(reloader.settings().server.http.bulkhead.bulkhead());
    let reloader = reloader.bind(|settings| &settings.server.http.bulkhead, Arc::clone(&pool));
    assert!(matches!(reloader.reload(), Err(ReloadError::Invalid(_))), "a reload accepts no mistake");
    fs::write(&file, "").unwrap();
    assert!(matches!(reloader.reload(), Err(ReloadError::Emptied { .. })));
    fs::write(&file, "server.http.bulkhead.limit = 6").unwrap();
    assert_eq!((reloader.reload().unwrap().len(), pool.limit()), (1, 6));
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
    /// Reports that it has begun, and waits.
    struct Slow(Mutex<(std::sync::mpsc::Sender<()>, Receiver<()>)>);
    impl Reload<RetrySettings> for Slow {
        fn takes(&self, _: &SettingChange) -> bool {
            true
        }

        fn apply(&self, _: &RetrySettings, _: &RetrySettings) -> Result<(), String> {
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
        // Leaves the second reload time to read too early, if it does.
        std::thread::sleep(Duration::from_millis(100));
        fs::write(&file, attempts(3)).unwrap();
        proceed.send(()).unwrap();
        proceed.send(()).unwrap();
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (1, 1));
    });
    assert_eq!(reloader.settings().client.http.retry.max_attempts(), 3);
}

#[test]
fn target_can_read_the_settings_in_force() {
    use std::sync::{OnceLock, Weak};

    /// Remembers the settings in force while it gets new ones.
    struct Asks(Arc<OnceLock<Weak<Reloader>>>, std::sync::mpsc::Sender<u32>);
    impl Reload<RetrySettings> for Asks {
        fn takes(&self, _: &SettingChange) -> bool {
            true
        }

        fn apply(&self, _: &RetrySettings, _: &RetrySettings) -> Result<(), String> {
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
        fn takes(&self, _: &SettingChange) -> bool {
            true
        }

        fn apply(&self, _: &RetrySettings, _: &RetrySettings) -> Result<(), String> {
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
    // Leaves the watch time to apply the first contents.
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

#[test]
fn breakers_take_other_thresholds_and_cooldowns_and_stay_open() {
    let file = folder("breakers").join("app.toml");
    let text = |threshold: u32, cooldown: &str| {
        format!("[client.http.circuit_breaker]\nfailure_threshold = {threshold}\ncooldown = '{cooldown}'")
    };
    fs::write(&file, text(1, "1h")).unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let config = reloader.settings().client.http.circuit_breaker.config();
    let breaker = Arc::new(CircuitBreaker::new(config));
    let hosts = Arc::new(KeyedCircuitBreaker::<String>::new(config, 16).unwrap());
    let reloader = reloader
        .bind(|settings| &settings.client.http.circuit_breaker, Arc::clone(&breaker))
        .bind(|settings| &settings.client.http.circuit_breaker, Arc::clone(&hosts));
    _ = breaker.call(|| Err::<(), _>(()));
    _ = hosts.call("down", || Err::<(), _>(()));

    fs::write(&file, text(3, "1m")).unwrap();
    assert_eq!(reloader.reload().unwrap().len(), 2);
    let down = hosts.get_or_create("down");
    for open in [&*breaker, &*down] {
        assert_eq!(open.state(), State::Open);
        // The cooldown that runs is not cut. The next one is as long as the new settings say.
        assert!(open.status().next_probe_in() > Some(Duration::from_mins(30)), "{:?}", open.status());
        open.reset();
        open.trip();
        assert!(open.status().next_probe_in() <= Some(Duration::from_mins(1)), "{:?}", open.status());
    }
    let new = hosts.get_or_create("new");
    for calls in 1..=3 {
        assert_eq!(new.state(), State::Closed, "{calls}");
        _ = new.call(|| Err::<(), _>(()));
    }
    assert_eq!(new.state(), State::Open);
}

#[test]
fn limits_of_calls_in_flight_take_other_limits_and_keep_their_permits() {
    let file = folder("in_flight").join("app.toml");
    let text = |limit: u32, max: u32| {
        format!(
            "[server.http]\nbulkhead.limit = {limit}\nadaptive_limit.max_limit = {max}\nadmission = {{ max_limit = {max}, queue = 0 }}"
        )
    };
    fs::write(&file, text(1, 1)).unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let settings = reloader.settings();
    let http = &settings.server.http;
    let pools = Arc::new(http.bulkhead.per_key::<String>().unwrap());
    let adaptive = Arc::new(http.adaptive_limit.limit());
    let hosts = Arc::new(KeyedAdaptiveLimit::<String>::new(http.adaptive_limit.bounds(), 16).unwrap());
    let gate = Arc::new(http.admission.adaptive());
    let reloader = reloader
        .bind(|settings| &settings.server.http.bulkhead, Arc::clone(&pools))
        .bind(|settings| &settings.server.http.adaptive_limit, Arc::clone(&adaptive))
        .bind(|settings| &settings.server.http.adaptive_limit, Arc::clone(&hosts))
        .bind(|settings| &settings.server.http.admission, Arc::clone(&gate));
    let slot = pools.try_acquire("a").unwrap();
    assert!(pools.try_acquire("a").is_err());
    fs::write(&file, text(2, 7)).unwrap();
    assert_eq!(reloader.reload().unwrap().len(), 3);
    let second = pools.try_acquire("a").unwrap();
    assert!(pools.try_acquire("a").is_err(), "the first slot counts");
    drop((slot, second));
    for limit in [&*adaptive, &*hosts.get_or_create("a").unwrap()] {
        // The limit grows from its value; only the highest allowed limit has changed.
        assert!((1..=7).contains(&limit.limit()), "{}", limit.limit());
    }
    fs::write(
        &file,
        text(2, 7).replace("max_limit = 7", "max_limit = 9, min_limit = 6").replace(
            "adaptive_limit.max_limit = 9, min_limit = 6",
            "adaptive_limit = { max_limit = 9, min_limit = 6 }",
        ),
    )
    .unwrap();
    assert_eq!(reloader.reload().unwrap().len(), 4);
    for limit in [adaptive.limit(), hosts.get_or_create("a").unwrap().limit(), gate.limit()] {
        assert!((6..=9).contains(&limit), "{limit}");
    }
    // A fixed limit means nothing to an adaptive gate.
    fs::write(&file, "server.http.admission.fixed_limit = 3").unwrap();
    let error = reloader.reload().unwrap_err().to_string();
    assert!(
        error.contains("fixed_limit changed from 64 to 3; what is bound to this section does not take it"),
        "{error}"
    );
}

#[test]
fn a_gate_of_a_server_takes_another_queue_with_its_limit() {
    let file = folder("queues").join("app.toml");
    fs::write(&file, "").unwrap();
    let sources = || Reloader::new(Sources::new().file(&file)).unwrap();
    let admission = sources().settings().server.http.admission;
    let (fixed, adaptive) = (Arc::new(admission.fixed()), Arc::new(admission.adaptive()));
    let with_fixed = sources().bind(|settings| &settings.server.http.admission, Arc::clone(&fixed));
    let with_adaptive = sources().bind(|settings| &settings.server.http.admission, Arc::clone(&adaptive));
    fs::write(&file, "server.http.admission = { fixed_limit = 3, queue = 5 }").unwrap();
    assert_eq!(with_fixed.reload().unwrap().len(), 2);
    assert_eq!((fixed.limit(), fixed.places()), (3, 5));
    fs::write(&file, "server.http.admission = { min_limit = 2, max_limit = 3, queue = 5 }").unwrap();
    assert_eq!(with_adaptive.reload().unwrap().len(), 3);
    assert_eq!((adaptive.limit(), adaptive.places()), (3, 5));
}

#[test]
fn a_throttle_takes_another_multiplier_and_another_share() {
    let file = folder("throttle").join("app.toml");
    fs::write(&file, "").unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let throttle = Arc::new(AdaptiveThrottle::with_clock(ManualClock::new(), 1));
    let reloader = reloader.bind(|settings| &settings.client.http.throttle, Arc::clone(&throttle));
    for _ in 0..1_000 {
        _ = throttle.try_acquire().map(ThrottlePermit::rejected);
    }
    let most = throttle.status().share_refused();
    fs::write(&file, "client.http.throttle = { multiplier = 3, max_refused = '20%' }").unwrap();
    assert_eq!(reloader.reload().unwrap().len(), 2);
    let least = throttle.status().share_refused();
    assert!(most > 0.8 && (0.19..=0.2).contains(&least), "{most}, then {least}");
}

#[test]
fn a_function_that_returns_no_section_is_reported_by_each_reload() {
    fn elsewhere(_: &Settings) -> &RetrySettings {
        static SETTINGS: LazyLock<Settings> = LazyLock::new(Settings::default);
        &SETTINGS.client.http.retry
    }
    let reloader = Reloader::new(Sources::new()).unwrap().bind(elsewhere, Counter(Arc::default()));
    let error = reloader.reload().unwrap_err();
    assert!(matches!(error, ReloadError::NotASection), "{error}");
}

#[test]
fn a_group_takes_the_changes_of_its_sections_and_no_others() {
    /// Takes every change, and counts.
    struct Group(Arc<Mutex<u32>>);
    impl Reload<ClientLayers> for Group {
        fn takes(&self, change: &SettingChange) -> bool {
            change.is_in("retry")
        }

        fn apply(&self, _: &ClientLayers, new: &ClientLayers) -> Result<(), String> {
            *self.0.lock().unwrap() = new.retry.max_attempts();
            Ok(())
        }
    }
    let file = folder("group").join("app.toml");
    fs::write(&file, "").unwrap();
    let attempts = Arc::default();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let reloader = reloader.bind(|settings| &settings.client.http, Group(Arc::clone(&attempts)));
    fs::write(&file, "client.http.retry.max_attempts = 5").unwrap();
    assert_eq!((reloader.reload().unwrap().len(), *attempts.lock().unwrap()), (1, 5));
    for (other, why) in [
        ("client.http.pacing.max_attempts = 3", "; this needs a restart"),
        ("client.http.ratelimit.burst = 3", "; what is bound to this section does not take it"),
        ("client.grpc.ratelimit.burst = 3", "; nothing is bound to this section"),
    ] {
        fs::write(&file, format!("client.http.retry.max_attempts = 6\n{other}")).unwrap();
        let error = reloader.reload().expect_err(other).to_string();
        assert!(error.contains(why) && *attempts.lock().unwrap() == 5, "{error}");
    }
}

#[test]
fn limiters_of_each_algorithm_take_another_quota() {
    let file = folder("algorithms").join("app.toml");
    let text = |quota: &str| format!("server.http.ratelimit.quota = '{quota}'");
    fs::write(&file, text("2/h burst 2")).unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let settings = reloader.settings().server.http.ratelimit;
    let bucket = Arc::new(settings.leaky_bucket());
    let window = Arc::new(settings.fixed_window());
    let counter = Arc::new(settings.sliding_counter().unwrap());
    let log = Arc::new(settings.sliding_log().unwrap());
    let reloader = reloader
        .bind(|settings| &settings.server.http.ratelimit, Arc::clone(&bucket))
        .bind(|settings| &settings.server.http.ratelimit, Arc::clone(&window))
        .bind(|settings| &settings.server.http.ratelimit, Arc::clone(&counter));
    let limiters = || -> [&dyn Limiter; 3] { [&bucket, &window, &counter] };
    for limiter in limiters() {
        limiter.try_acquire(2).unwrap();
    }
    fs::write(&file, text("3/h burst 3")).unwrap();
    assert_eq!(reloader.reload().unwrap().len(), 1);
    for limiter in limiters() {
        assert_eq!(limiter.usage().limit(), 3);
        assert!(limiter.try_acquire(3).is_err(), "what was taken stays taken");
    }

    // A log has room for as many times as it was built for, so the others keep their quotas too.
    let reloader = reloader.bind(|settings| &settings.server.http.ratelimit, Arc::clone(&log));
    fs::write(&file, text("4/h burst 4")).unwrap();
    let error = reloader.reload().unwrap_err().to_string();
    assert!(error.starts_with("server.http.ratelimit: "), "{error}");
    for limiter in limiters() {
        assert_eq!(limiter.usage().limit(), 3);
    }
}

fn ratelimit(quota: &str) -> RateLimitSettings {
    let text = format!("server.http.ratelimit = {{ quota = '{quota}', max_keys = 1 }}");
    Sources::new().toml("app", &text).load().unwrap().server.http.ratelimit
}

fn quota(text: &str) -> Quota {
    ratelimit(text).effective_quota()
}

const FREQUENCIES: [u64; 4] = [24_000_000, 1_000_000_000, 2_450_000_000, 3_000_000_000];

/// Neither the first quota nor the frequency of the machine's clock bounds what a reload can set.
#[test]
fn limits_take_every_quota_of_the_range() {
    fn take<A: KeyedAlgorithm>(start: &str, quotas: &[&str]) {
        for hertz in FREQUENCIES {
            let builder = ratelimit(start).keyed_builder::<str>().algorithm::<A>();
            let limits = builder.clock(ManualClock::with_frequency(hertz)).build().unwrap();
            for text in quotas {
                assert_eq!(limits.set_quota(quota(text)), Ok(()), "{start} to {text} at {hertz} Hz");
            }
        }
    }
    let ends = ["1/100ns burst 1", "1000/100us burst 10000000", "1000000/100ms", "1/h burst 10000000", "1/1000w"];
    let fastest = ["10000000/s", "4294967294/430s burst 10000000"];
    for start in ["50/s", "1/h", "1/1000w", "1/100ns burst 10000000"] {
        take::<TokenBucket>(start, &[&ends[..], &fastest].concat());
        take::<FixedWindow>(start, &[&ends[..], &fastest].concat());
        take::<SlidingCounter>(start, &ends);
        let limiter = ratelimit(start).limiter();
        for text in ends.into_iter().chain(fastest) {
            assert_eq!(limiter.set_quota(quota(text)), Ok(()), "{start} to {text}");
        }
    }
}

/// The room for fast quotas makes the steps of slow ones larger.
#[test]
fn token_of_a_slow_limit_comes_in_its_time() {
    for hertz in FREQUENCIES {
        let clock = ManualClock::with_frequency(hertz);
        let limits = ratelimit("1/h").keyed_builder::<str>().clock(&clock).build().unwrap();
        clock.advance(Duration::from_millis(12_345_678));
        for _ in 0..3 {
            limits.check("a").unwrap();
            let wait = limits.check("a").unwrap_err().retry_after().unwrap();
            // A tick brings at most this part of a token at 10,000/s.
            let early = Duration::from_hours(1) * 10_000 / u32::try_from(hertz).unwrap();
            let hour = Duration::from_hours(1);
            assert!((hour.saturating_sub(early)..=hour).contains(&wait), "{wait:?} at {hertz} Hz");
            clock.advance(wait.saturating_sub(Duration::from_nanos(100)));
            assert!(limits.check("a").is_err(), "the wait is exact at {hertz} Hz");
            clock.advance(Duration::from_nanos(200));
        }
    }
}

/// The documents of the crate and the reference have the list of the changes that are refused.
#[test]
fn limits_of_all_requests_refuse_only_the_changes_that_are_listed() {
    let set = |algorithm: &str, start: &str, new: &str| {
        let (start, quota) = (ratelimit(start), quota(new));
        match algorithm {
            "leaky_bucket" => start.leaky_bucket().set_quota(quota).is_ok(),
            "fixed_window" => start.fixed_window().set_quota(quota).is_ok(),
            "sliding_counter" => start.sliding_counter().unwrap().set_quota(quota).is_ok(),
            _ => start.sliding_log().unwrap().set_quota(quota).is_ok(),
        }
    };
    for (algorithm, start, new, is_taken) in [
        ("leaky_bucket", "50/s", "50000/s burst 10000000", true),
        ("leaky_bucket", "50/s", "1/1000w burst 10000000", true),
        ("leaky_bucket", "1/day", "1000/day burst 100", true),
        ("leaky_bucket", "1/30d", "1/30d burst 3", true),
        ("leaky_bucket", "1/s", "10000/s", false),
        ("leaky_bucket", "1/1000w", "1/1000w burst 1000", false),
        ("fixed_window", "1/s", "10000/ms", true),
        ("fixed_window", "1/ms", "4294967295/1000w burst 1", true),
        ("fixed_window", "1/s", "1/100us", false),
        ("sliding_counter", "50/s", "65/ms", true),
        ("sliding_counter", "50/s", "65535/1000w", true),
        ("sliding_counter", "50/s", "70000/h", false),
        ("sliding_counter", "70000/min", "131071/min", true),
        ("sliding_counter", "70000/min", "140000/min", false),
        ("sliding_counter", "50/s", "1/100us", false),
        ("sliding_log", "50/s", "50/1000w", true),
        ("sliding_log", "50/s", "50/ms", true),
        ("sliding_log", "50/s", "51/s", false),
        ("sliding_log", "50/s", "49/s", false),
        ("sliding_log", "50/s", "50/100us", false),
    ] {
        assert_eq!(set(algorithm, start, new), is_taken, "{algorithm}: {start} to {new}");
    }
}

#[test]
fn limiter_of_the_algorithm_that_is_set_counts_by_it() {
    for (algorithm, taken_at_once) in
        [("token_bucket", 5), ("leaky_bucket", 5), ("fixed_window", 2), ("sliding_counter", 2), ("sliding_log", 2)]
    {
        let text = format!("server.http.ratelimit = {{ quota = '2/h burst 5', algorithm = '{algorithm}' }}");
        let settings = Sources::new().toml("app", &text).load().unwrap();
        let limiter = settings.server.http.ratelimit.any_limiter().unwrap();
        let taken = (0..9).filter(|_| limiter.try_acquire(1).is_ok()).count();
        assert_eq!(taken, taken_at_once, "{algorithm}");
    }
}

#[test]
fn hedge_takes_other_settings() {
    let file = folder("hedge").join("app.toml");
    fs::write(&file, "client.http.hedge.min_delay = '5ms'").unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let hedge = Arc::new(reloader.settings().client.http.hedge.hedge());
    let reloader = reloader.bind(|settings| &settings.client.http.hedge, Arc::clone(&hedge));
    fs::write(&file, "client.http.hedge = { min_delay = '7ms', max_extra = '20%' }").unwrap();
    let changes = reloader.reload().unwrap();
    assert_eq!((hedge.config().min_delay(), hedge.config().max_extra()), (Duration::from_millis(7), 0.2));

    // A program can log each change in its own form.
    let delay = changes.iter().find(|change| change.key() == "min_delay").unwrap();
    assert_eq!((delay.section(), delay.old(), delay.new_value()), ("client.http.hedge", "\"5ms\"", "\"7ms\""));
    assert!(delay.is_live());
}

#[cfg(feature = "http")]
#[test]
fn breakers_of_layers_take_other_settings() {
    use damper_http::Single;

    let file = folder("breaker-layers").join("app.toml");
    fs::write(&file, "client.http.circuit_breaker.failure_threshold = 9").unwrap();
    let reloader = Reloader::new(Sources::new().file(&file)).unwrap();
    let settings = reloader.settings().client.http.circuit_breaker;
    let single = Single::builder(settings.config()).build();
    let hosts = settings.breakers().unwrap();
    let reloader = reloader
        .bind(|settings| &settings.client.http.circuit_breaker, single.clone())
        .bind(|settings| &settings.client.http.circuit_breaker, hosts.clone());
    fs::write(&file, "client.http.circuit_breaker.failure_threshold = 1").unwrap();
    assert_eq!(reloader.reload().unwrap().len(), 1);
    _ = single.breaker().call(|| Err::<(), _>(()));
    _ = hosts.breakers().call("api.example", || Err::<(), _>(()));
    assert_eq!(single.breaker().state(), State::Open);
    assert_eq!(hosts.breakers().get_or_create("api.example").state(), State::Open);
}
