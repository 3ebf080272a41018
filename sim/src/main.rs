//! Prints the tables of a simulation. Each is a subcommand.
//!
//! `throttling [OPTION VALUE]...`, also without an argument: clients that share a server's quota, under every strategy of
//! client-side throttling; charts are written into a folder. `throttling --bars [FIRST LAST]`: the figures that damper's
//! strategies have to reach, at these seeds or at 1 to 20.
//!
//! `sizing`: how crowded a keyed limiter is by the number of its busy keys, and what it refuses then.
//! `crowd [CAPACITY]`: what becomes of clients when a keyed limiter's table is full, for all policies and for other sizes.
//!
//! `tiers [CAPACITY]`: what a flood of one tier does to the clients of another, and what tiers do that no key is in.
//!
//! `concurrency [FOLDER]`: concurrency limits; tables and charts are written into the folder. `concurrency --bars [FIRST
//! LAST]`: the figures that damper's limits have to reach, at these seeds or at three.
//!
//! `minorities [TEXT [FIRST LAST]]`: what polite callers get beside a few others, for the services whose name contains the text, at
//! these seeds or at three. `minorities --all [TEXT]`: by damper's other rules too. `minorities --bars`: the figures that the adaptive
//! limit has to reach.
//!
//! `look-first`: how often a call on several limits is refused for tokens that another one gives back.
//!
//! `refunds`: what tenants get from an overloaded server whose limit gives back what the server refused.
//!
//! `outage`: how a fleet of clients with breakers comes back to a service that has half of its capacity at first.
//!
//! `replay LOGFILE [OPTION VALUE]...`: the smallest quota that would have refused at most a share of the calls in a log of decisions.
//!
//! With `--bars` the exit code is 1 if a figure is missed.

#![allow(clippy::cast_precision_loss, reason = "counts are far below 2^52 here")]

use damper::{Quota, Ramp, WhenFull};
use damper_sim::concurrency::bars::{self, Bar};
use damper_sim::concurrency::minorities;
use damper_sim::concurrency::report::{Report, SEEDS, report};
use damper_sim::concurrency::rules::Contender;
use damper_sim::crowd::Crowd;
use damper_sim::look_first::{Cores, Order};
use damper_sim::outage::Fleet;
use damper_sim::refunds::{Refund, Served, Tenants};
use damper_sim::replay;
use damper_sim::replay::decision_file::DecisionFile;
use damper_sim::table::Table;
use damper_sim::throttling;
use damper_sim::throttling::options::{Arguments, USAGE};
use damper_sim::tier_flood::TierFlood;
use std::io::{IsTerminal as _, Write as _};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs, io};

const POLICIES: [WhenFull; 3] = [WhenFull::SharedOverflow, WhenFull::DenyNew, WhenFull::EvictLeastIndebted];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["throttling", "--bars"] => return bars_of_throttling(1..=20),
        ["throttling", "--bars", first, last] => match (first.parse::<u64>(), last.parse::<u64>()) {
            (Ok(first), Ok(last)) if first <= last => return bars_of_throttling(first..=last),
            _ => return failed(&format!("seeds {first} to {last}: must be two numbers in ascending order")),
        },
        [] => return throttling(&[]),
        ["throttling", ref options @ ..] => return throttling(options),
        ["look-first"] => look_first(),
        ["sizing"] => sizing(),
        ["crowd"] => crowd(8_192),
        ["crowd", capacity] => match capacity.parse() {
            Ok(capacity) => crowd(capacity),
            Err(error) => return failed(&format!("capacity {capacity}: {error}")),
        },
        ["tiers"] => tiers(8_192),
        ["tiers", capacity] => match capacity.parse() {
            Ok(capacity) => tiers(capacity),
            Err(error) => return failed(&format!("capacity {capacity}: {error}")),
        },
        ["concurrency"] => concurrency(&report(progress)),
        ["concurrency", "--bars"] => return bars(&SEEDS),
        ["concurrency", "--bars", first, last] => match (first.parse::<u64>(), last.parse::<u64>()) {
            (Ok(first), Ok(last)) if first <= last => return bars(&(first..=last).collect::<Vec<_>>()),
            _ => return failed(&format!("seeds {first} to {last}: must be two numbers in ascending order")),
        },
        ["concurrency", folder] => {
            let report = report(progress);
            if let Err(error) = write(&report, Path::new(folder)) {
                return failed(&format!("cannot write into {folder}: {error}"));
            }
            concurrency(&report);
        }
        ["minorities", "--bars"] => {
            return verdict("Bars beside minorities, at the worst seed", &minorities::report::all_bars());
        }
        ["minorities"] => minorities(&Contender::OFFERED[..1], "", &SEEDS),
        ["minorities", "--all"] => minorities(&Contender::OFFERED, "", &SEEDS),
        ["minorities", "--all", text] => minorities(&Contender::OFFERED, text, &SEEDS),
        ["minorities", text] => minorities(&Contender::OFFERED[..1], text, &SEEDS),
        ["minorities", text, first, last] => match (first.parse::<u64>(), last.parse::<u64>()) {
            (Ok(first), Ok(last)) if first <= last => {
                minorities(&Contender::OFFERED[..1], text, &(first..=last).collect::<Vec<_>>());
            }
            _ => return failed(&format!("seeds {first} to {last}: must be two numbers in ascending order")),
        },
        ["refunds"] => refunds(),
        ["outage"] => outage(),
        ["replay", ref arguments @ ..] => return replay(arguments),
        _ => {
            return failed(&format!(
                "usage: damper-sim sizing\n       damper-sim crowd [CAPACITY]\n       damper-sim tiers [CAPACITY]\n       damper-sim concurrency [FOLDER | --bars [FIRST LAST]]\n       damper-sim minorities [TEXT [FIRST LAST] | --all [TEXT] | --bars]\n       damper-sim refunds\n       damper-sim outage\n       \
                 damper-sim throttling --bars [FIRST LAST]\n       damper-sim {USAGE}\n       damper-sim {}",
                replay::options::USAGE
            ));
        }
    }
    ExitCode::SUCCESS
}

/// Prints the part of a run that begins.
///
/// A run takes minutes and must survive a closed stderr, at which `eprintln!` panics without a message.
fn progress(part: &str) {
    let _ = writeln!(io::stderr(), "{part} …");
}

fn outage() {
    let mut table = Table::new(
        "A fleet comes back to a service with half of its capacity: means of two seeds",
        &["ramp", "warm-up", "hostile", "goodput %", "full service after s", "openings per breaker", "work in vain %"],
    );
    let ramps = [30, 120].map(Duration::from_secs);
    let ramps = ramps.into_iter().flat_map(|length| [Some(Ramp::steps(length)), Some(Ramp::linear(length))]);
    for (warm_up, hostile) in [(60, 0), (60, 20), (180, 0)] {
        for ramp in [None].into_iter().chain(ramps.clone()) {
            let fleet = Fleet { warm_up: Duration::from_secs(warm_up), ..Fleet::two_hundred(hostile, ramp) };
            let mean = fleet.mean_of(&[1, 2]);
            table.row(vec![
                ramp.map_or_else(|| "none".to_owned(), |ramp| ramp.to_string()),
                format!("{warm_up} s"),
                hostile.to_string(),
                format!("{:.1}", 100.0 * mean.goodput),
                format!("{:.0}", mean.full_after),
                format!("{:.1}", mean.openings),
                format!("{:.0}", 100.0 * mean.wasted),
            ]);
        }
    }
    println!("{}", table.text());
}

fn failed(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(2)
}

fn bars(seeds: &[u64]) -> ExitCode {
    verdict("Bars, at the worst seed", &bars::measure(seeds, progress))
}

fn bars_of_throttling(seeds: RangeInclusive<u64>) -> ExitCode {
    verdict("Bars of client-side throttling", &throttling::bars::measure(&seeds.collect::<Vec<_>>(), progress))
}

fn verdict(title: &str, bars: &[Bar]) -> ExitCode {
    println!("{}", bars::table(title, bars).text());
    let missed = bars.iter().filter(|bar| !bar.is_met()).count();
    println!("{missed} of {} bars missed", bars.len());
    if missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn minorities(contenders: &[Contender], text: &str, seeds: &[u64]) {
    println!("{}", minorities::report::table(contenders, text, seeds).text());
}

fn throttling(arguments: &[&str]) -> ExitCode {
    let Arguments { experiment, options, seeds, charts } = match Arguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(why) => return failed(&why),
    };
    let seeds: Vec<u64> = (1..=seeds).collect();
    let report = match throttling::report::report(&experiment, &options, &seeds, progress_bar) {
        Ok(report) => report,
        Err(error) => return failed(&error.to_string()),
    };
    let folder = Path::new(&charts);
    let written = fs::create_dir_all(folder)
        .and_then(|()| fs::write(folder.join("table.md"), report.table.markdown_rows()))
        .and_then(|()| report.charts.iter().try_for_each(|(name, chart)| fs::write(folder.join(name), chart.svg())));
    if let Err(error) = written {
        return failed(&format!("cannot write into {charts}: {error}"));
    }
    println!("{}\n{} charts and the table are in {charts}", report.table.text(), report.charts.len());
    ExitCode::SUCCESS
}

fn replay(arguments: &[&str]) -> ExitCode {
    let arguments = match replay::options::Arguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(why) => return failed(&why),
    };
    let text = match fs::read_to_string(&arguments.file) {
        Ok(text) => text,
        Err(error) => return failed(&format!("cannot read {}: {error}", arguments.file)),
    };
    let file: DecisionFile = match text.parse() {
        Ok(file) => file,
        Err(error) => return failed(&format!("{}: {error}", arguments.file)),
    };
    match replay::report::report(&file, &arguments) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(why) => failed(&why),
    }
}

/// Draws how many of the strategies are done, if a person looks on.
fn progress_bar(done: usize, all: usize, next: &str) {
    const WIDTH: usize = 32;
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        let (bar, end) = ("#".repeat(WIDTH * done / all), if done == all { "\n" } else { "" });
        let _ = write!(stderr, "\r[{bar:<WIDTH$}] {done} of {all} {next:<16}{end}");
    }
}

fn concurrency(report: &Report) {
    for table in &report.tables {
        println!("{}", table.text());
    }
}

fn write(report: &Report, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let tables: Vec<String> = report.tables.iter().map(damper_sim::table::Table::markdown).collect();
    fs::write(folder.join("tables.md"), tables.join("\n"))?;
    report.guide.iter().try_for_each(|(name, table)| fs::write(folder.join(name), table.markdown_rows()))?;
    report.charts.iter().try_for_each(|(name, chart)| fs::write(folder.join(name), chart.svg()))
}

fn crowd(capacity: usize) {
    let quotas = [
        (Quota::per_hour(20), 1),
        (Quota::per_hour(20), 20),
        (Quota::per_minute(5), 1),
        (Quota::per_minute(5), 5),
        (Quota::per_second(50).burst(100), 1),
        (Quota::per_second(50).burst(100), 100),
    ];
    println!("Refused calls in percent, capacity {capacity}\n");
    let loads = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0];
    println!("{:<20} {:>5} {:>20}{}", "quota", "calls", "policy", row(loads.map(|load| format!("{} %", load * 100.0))));
    for (quota, calls) in quotas {
        for when_full in POLICIES {
            let crowd = Crowd { quota, calls, capacity, when_full, shared_buckets: None, tiers: 1, seed: 1 };
            let refills = if calls == 1 { 3 } else { 10 };
            let refused = loads.map(|load| format!("{:.3}", crowd.refused_at_load(load, refills).0));
            let (quota, policy) = (quota.to_string(), format!("{when_full:?}"));
            println!("{quota:<20} {calls:>5} {policy:>20}{}", row(refused));
        }
    }
    println!("\n{:>20} {:>13} {:>13} {:>15}", "flood, innocents", "100/s at 20/h", "200/s at 20/h", "10k/s at 30/min");
    let floods = [(Quota::per_hour(20), 100), (Quota::per_hour(20), 200), (Quota::per_minute(30), 10_000)];
    let mut rows: Vec<_> = POLICIES.map(|when_full| (format!("{when_full:?}"), when_full, None)).to_vec();
    for sixteenths in [1, 8, 16, 64, 128] {
        let buckets = (capacity * sixteenths / 16).max(1);
        rows.push((format!("{buckets} buckets"), WhenFull::SharedOverflow, Some(buckets)));
    }
    rows.push(("1 bucket".into(), WhenFull::SharedOverflow, Some(1)));
    for (name, when_full, shared_buckets) in rows {
        let [a, b, c] = floods.map(|(quota, rate)| {
            Crowd { quota, calls: 1, capacity, when_full, shared_buckets, tiers: 1, seed: 1 }.refused_in_flood(rate).0
        });
        println!("{name:>20} {a:>13.2} {b:>13.2} {c:>15.2}");
    }

    println!("\nOther splits of the memory, whole bursts of 20 at 20/h, and the floods");
    println!(
        "{:>15} {:>7} {:>7} {:>7} {:>13} {:>13} {:>15}",
        "slots, buckets", "100 %", "150 %", "200 %", "100/s", "200/s", "10k/s"
    );
    for (half_slots, buckets) in [(2, 4), (3, 3), (4, 2), (5, 1)] {
        // A limiter has two slots for each key that it is built for.
        let crowd = |quota, calls| Crowd {
            quota,
            calls,
            capacity: capacity * half_slots / 4,
            when_full: WhenFull::SharedOverflow,
            shared_buckets: Some(capacity * buckets),
            tiers: 1,
            seed: 1,
        };
        let larger = 4.0 / half_slots as f64;
        let [a, b, c] = [1.0, 1.5, 2.0].map(|load| crowd(Quota::per_hour(20), 20).refused_at_load(load * larger, 3).0);
        let [slow, fast, fastest] = floods.map(|(quota, rate)| crowd(quota, 1).refused_in_flood(rate).0);
        let split = format!("{} and {buckets}", half_slots as f64 / 2.0);
        println!("{split:>15} {a:>7.3} {b:>7.3} {c:>7.3} {slow:>13.2} {fast:>13.2} {fastest:>15.2}");
    }
}

/// Prints how crowded the shared words are, and what is refused then, by the number of busy keys.
fn sizing() {
    println!(
        "Busy keys beside the capacity: busy share of the shared words, refused calls in percent, capacity 8192\n"
    );
    println!("{:>6} {:>9} {:>16} {:>16} {:>16}", "busy", "crowding", "1 call at 20/h", "10 at 20/h", "20 at 20/h");
    for load in [0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0] {
        let crowd = |calls| Crowd {
            quota: Quota::per_hour(20),
            calls,
            capacity: 8_192,
            when_full: WhenFull::SharedOverflow,
            shared_buckets: None,
            tiers: 1,
            seed: 1,
        };
        let refused = [1, 10, 20].map(|calls| format!("{:>16.3}", crowd(calls).refused_at_load(load, 3).0));
        println!("{:>5}% {:>9.3} {}", load * 100.0, crowd(20).crowding_at_load(load), refused.join(" "));
    }
}

/// Formats the cells of a row, each in eight columns.
fn row<const CELLS: usize>(cells: [String; CELLS]) -> String {
    cells.map(|cell| format!(" {cell:>7}")).concat()
}

/// Prints what a flood of one tier does to another, and what tiers do that no key is in.
fn refunds() {
    let head = ["refund", "quota", "greedy", "jobs served", "after it", "greedy to polite", "calls for one served"];
    let mut table = Table::new("Twenty tenants beside an overloaded server, mean of three seeds", &head);
    for (quota, greedy) in [(12, 0), (12, 2), (20, 0), (20, 2)] {
        for refund in [Refund::Off, Refund::Half, Refund::Full] {
            let runs = SEEDS.map(|seed| Tenants { refund, seed, ..Tenants::twenty(greedy, quota) }.served());
            let mean = |of: fn(&Served) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
            table.row(vec![
                format!("{refund:?}"),
                format!("{quota}/s"),
                greedy.to_string(),
                format!("{:.3}", mean(|run| run.polite)),
                format!("{:.4}", mean(|run| run.polite_after)),
                format!("{:.2}", mean(|run| run.greedy_to_polite)),
                format!("{:.1}", mean(|run| run.calls_per_served)),
            ]);
        }
    }
    print!("{}", table.text());
}

fn look_first() {
    let head = ["cores", "work", "at once %", "look first %", "writes per refusal", "look first"];
    let mut table = Table::new("Spurious refusals of calls on three limits, of a hundred decisions", &head);
    for (work, cores_of) in [("none", Cores::hammering as fn(usize, Order) -> Cores), ("10 us", Cores::working)] {
        for cores in [2, 4, 8, 16, 32] {
            let [at_once, looks] =
                [Order::TakenAtOnce, Order::LookFirst].map(|order| cores_of(cores, order).run(200_000));
            table.row(vec![
                cores.to_string(),
                work.to_owned(),
                format!("{:.4}", at_once.spurious_percent()),
                format!("{:.4}", looks.spurious_percent()),
                format!("{:.2}", at_once.writes_per_refusal()),
                format!("{:.2}", looks.writes_per_refusal()),
            ]);
        }
    }
    print!("{}", table.text());
}

fn tiers(capacity: usize) {
    let crowd = |quota, calls, when_full, tiers| Crowd {
        quota,
        calls,
        capacity,
        when_full,
        shared_buckets: None,
        tiers,
        seed: 1,
    };
    println!("Refused calls in percent, capacity {capacity}\n\nTiers without keys, 20/h, one call a client");
    println!("{:>20} {:>5}{}", "policy", "tiers", row(["150 %".into(), "200 %".into()]));
    for when_full in POLICIES {
        for tiers in [1, 2, 6, 15] {
            let crowd = crowd(Quota::per_hour(20), 1, when_full, tiers);
            let refused = [1.5, 2.0].map(|load| format!("{:.3}", crowd.refused_at_load(load, 3).0));
            println!("{:>20} {tiers:>5}{}", format!("{when_full:?}"), row(refused));
        }
    }
    let slow = |calls, rate| (Quota::per_hour(20), calls, rate, Quota::per_second(100).burst(200));
    let floods = [
        slow(1, 45.5),
        slow(1, 70.0),
        slow(1, 80.0),
        slow(1, 91.0),
        slow(1, 100.0),
        slow(1, 130.0),
        slow(1, 200.0),
        slow(20, 2.3),
        slow(20, 4.55),
        slow(20, 20.0),
        slow(20, 50.0),
        (Quota::per_hour(100), 1, 500.0, Quota::per_second(50).burst(100)),
    ];
    println!("\nA flood of new free keys beside paying clients");
    println!(
        "{:<12} {:>5} {:>7} {:>20}{}",
        "free",
        "calls",
        "keys/s",
        "policy",
        row(["flood", "first", "regular", "worst"].map(String::from))
    );
    for (quota, calls, keys_per_second, paid) in floods {
        // The rates are those of a table for 8,192 keys.
        let keys_per_second = keys_per_second * capacity as f64 / 8_192.0;
        for when_full in [WhenFull::SharedOverflow, WhenFull::EvictLeastIndebted] {
            let refused = TierFlood { free: crowd(quota, calls, when_full, 1), paid, keys_per_second }.refused();
            let cells = [refused.flood, refused.first, refused.regulars, refused.worst_regular];
            println!(
                "{:<12} {calls:>5} {keys_per_second:>7.1} {:>20}{}",
                quota.to_string(),
                format!("{when_full:?}"),
                row(cells.map(|share| format!("{:.2}", share.0)))
            );
        }
    }
}
