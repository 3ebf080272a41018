//! Divides a quota among the members of a fleet, which find one another by files.
//!
//! Each member writes a file a few times a second and reads those of the others; a file that is old is of a member that is gone. Members
//! join, one crashes, and one is cut off. The table shows how many calls each was allowed.

use damper::quota::LiveShare;
use damper::{Quota, RateLimiter};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

const QUOTA: Quota = Quota::per_second(1_000).burst(100);
const BEAT: Duration = Duration::from_millis(50);
/// A file that was not written for so long is of a member that is gone.
const GONE_AFTER: Duration = Duration::from_millis(400);
/// A member sees within two beats what the others write.
const VIEWS_LATE_BY: Duration = Duration::from_millis(100);
const FENCE: Duration = Duration::from_millis(300);

struct Member {
    name: &'static str,
    joins: Duration,
    /// It crashes: it stops, and its file stays.
    crashes: Duration,
    /// When it can neither read nor write files.
    cut_off: [Duration; 2],
}

fn main() -> io::Result<()> {
    let folder = std::env::temp_dir().join(format!("damper-shares-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let (start, never) = (Instant::now(), Duration::MAX);
    let at = Duration::from_millis;
    let members = [
        Member { name: "anna", joins: at(0), crashes: never, cut_off: [never; 2] },
        Member { name: "ben", joins: at(1_000), crashes: at(3_000), cut_off: [never; 2] },
        Member { name: "cleo", joins: at(2_000), crashes: never, cut_off: [at(4_000), at(5_500)] },
    ];
    // When each call was allowed, and of which member.
    let calls = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for (index, member) in members.iter().enumerate() {
            let (folder, calls) = (&folder, &calls);
            scope.spawn(move || run(member, folder, start, |when| calls.lock().unwrap().push((when, index))));
        }
    });
    fs::remove_dir_all(&folder)?;
    print(&members, calls.into_inner().unwrap());
    Ok(())
}

/// Takes all that the member's share allows, and renews the share at each beat.
fn run(member: &Member, folder: &Path, start: Instant, allowed: impl Fn(Duration)) {
    thread::sleep(member.joins);
    let limiter = RateLimiter::new(QUOTA);
    let mut share = LiveShare::new(QUOTA, member.name, VIEWS_LATE_BY).fence_after(FENCE);
    let mut next_beat = Duration::ZERO;
    while start.elapsed() < Duration::from_secs(7).min(member.crashes) {
        let now = start.elapsed();
        if now >= next_beat {
            next_beat = now + BEAT;
            let [from, until] = member.cut_off;
            // A view that cannot be had is no news. Without news the member stops after a while.
            if !(from..until).contains(&now)
                && let Ok(members) = beat(folder, member.name)
            {
                share.view(members.iter().map(|name| (name, 1)), start.elapsed());
            }
            limiter.set_share(share.terms(start.elapsed()).quota).expect("a share fits the limiter of the whole quota");
        }
        if limiter.check().is_ok() {
            allowed(start.elapsed());
        } else {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Writes the member's file, and returns the names of all files that are young.
fn beat(folder: &Path, name: &str) -> io::Result<Vec<String>> {
    fs::write(folder.join(name), [])?;
    let is_young = |path: &PathBuf| {
        let written = fs::metadata(path).and_then(|file| file.modified());
        // A file from the future is of a clock that was set back.
        written.is_ok_and(|written| SystemTime::now().duration_since(written).is_ok_and(|age| age < GONE_AFTER))
    };
    let paths = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    Ok(paths
        .iter()
        .filter(|path| is_young(path))
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect())
}

fn print(members: &[Member], mut calls: Vec<(Duration, usize)>) {
    println!("allowed in each half second, of {} and a burst of {}:", QUOTA.limit() / 2, QUOTA.burst_size());
    let half = Duration::from_millis(500);
    for row in 0..14 {
        let begins = half * row;
        let of = |index: usize| {
            calls.iter().filter(|&&(when, of)| of == index && (begins..begins + half).contains(&when)).count()
        };
        let each: Vec<_> =
            members.iter().enumerate().map(|(index, member)| format!("{} {:>4}", member.name, of(index))).collect();
        let all: usize = (0..members.len()).map(of).sum();
        println!("{:>4} ms  {}  all {all:>4}", begins.as_millis(), each.join("  "));
    }
    // The line of the whole quota: how far below empty the fleet has taken it.
    calls.sort_unstable();
    let (mut tokens, mut last, mut lowest) = (f64::from(QUOTA.burst_size()), Duration::ZERO, 0.0f64);
    for (when, _) in calls {
        tokens = (tokens + when.saturating_sub(last).as_secs_f64() * f64::from(QUOTA.limit()))
            .min(f64::from(QUOTA.burst_size()))
            - 1.0;
        (last, lowest) = (when, lowest.min(tokens));
    }
    println!("the fleet was at most {:.1} tokens beyond the quota", lowest.abs());
}
