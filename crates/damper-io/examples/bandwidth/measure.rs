//! Measures pacing: 100 connections at 10 MB/s in total, whose clients are in another process.
//!
//! Three servers send the same bytes to 100 clients, one after the other. The first paces. The second sends chunks of the same size at the
//! same times by an interval of tokio for each connection, and limits nothing. The third sends as fast as it can.
#![expect(clippy::cast_precision_loss, reason = "figures are shown with three digits")]

use super::TOTAL;
use damper::RateLimiter;
use damper::io::{BytePacer, PacedIo};
use std::error::Error;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval, sleep};

const CONNECTIONS: usize = 100;
const WARM_UP: Duration = Duration::from_secs(2);
const SECONDS: u64 = 20;

/// The chunk that suits 10 MB/s: what 2 ms bring.
const CHUNK: usize = 20_000;

type Counts = Arc<[AtomicU64; CONNECTIONS]>;

/// How a server sends.
#[derive(Clone, Copy)]
enum Server {
    Paced,
    Intervals,
    Fast,
}

pub(crate) async fn measure() -> Result<(), Box<dyn Error>> {
    for server in [Server::Paced, Server::Intervals, Server::Fast] {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let clients = Clients::start(&listener)?;
        let counts: Counts = Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
        let pacer = BytePacer::new(Arc::new(RateLimiter::new(TOTAL)));
        let mut streams = Vec::new();
        for _ in 0..CONNECTIONS {
            streams.push(listener.accept().await?.0);
        }
        let start = CpuTime::now()?;
        let mut tasks = Vec::new();
        for (connection, stream) in streams.into_iter().enumerate() {
            let (counts, pacer) = (Arc::clone(&counts), pacer.clone());
            tasks.push(tokio::spawn(async move { send(server, stream, pacer, &counts[connection]).await }));
        }
        if matches!(server, Server::Fast) {
            for task in tasks {
                task.await?;
            }
            let (cpu, time) = CpuTime::now()?.since(start);
            println!(
                "as fast as possible: {:.1} s for the same bytes, CPU {:.0} ms",
                time.as_secs_f64(),
                cpu.as_secs_f64() * 1e3
            );
        } else {
            sleep(WARM_UP).await;
            let (before, start) = (read_counts(&counts), CpuTime::now()?);
            sleep(Duration::from_secs(SECONDS)).await;
            let (cpu, time) = CpuTime::now()?.since(start);
            report(server, &before, &read_counts(&counts), cpu, time);
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
        }
        drop(clients);
    }
    Ok(())
}

/// Sends until the client goes.
///
/// The fast server sends only the bytes that the others send in the time of the measurement.
async fn send(server: Server, stream: TcpStream, pacer: BytePacer<Arc<RateLimiter>>, count: &AtomicU64) {
    let bytes = vec![b'.'; 65_536];
    match server {
        Server::Paced => {
            let mut stream = PacedIo::new(stream).pace_writes(pacer);
            while let Ok(written) = stream.write(&bytes).await {
                count.fetch_add(written as u64, Ordering::Relaxed);
            }
        }
        Server::Intervals => {
            let mut stream = stream;
            let mut ticks = interval(Duration::from_millis(2) * CONNECTIONS as u32);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            while stream.write_all(&bytes[..CHUNK]).await.is_ok() {
                count.fetch_add(CHUNK as u64, Ordering::Relaxed);
                ticks.tick().await;
            }
        }
        Server::Fast => {
            let mut stream = stream;
            let mut left = u64::from(TOTAL.limit()) * SECONDS / CONNECTIONS as u64;
            while left > 0 {
                let Ok(written) = stream.write(&bytes[..bytes.len().min(left as usize)]).await else { return };
                left -= written as u64;
            }
        }
    }
}

fn read_counts(counts: &Counts) -> Vec<u64> {
    counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
}

fn report(server: Server, before: &[u64], after: &[u64], cpu: Duration, time: Duration) {
    let moved: Vec<u64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
    let part = f64::from(TOTAL.limit()) * time.as_secs_f64() / CONNECTIONS as f64;
    let percent = |bytes: Option<&u64>| bytes.map_or(0.0, |&bytes| (bytes as f64 / part - 1.0) * 100.0);
    let (least, most) = (percent(moved.iter().min()), percent(moved.iter().max()));
    let rate = moved.iter().sum::<u64>() as f64 / time.as_secs_f64() / 1e6;
    let name = match server {
        Server::Paced => "paced",
        Server::Intervals => "intervals of tokio, no limit",
        Server::Fast => "fast",
    };
    let of_a_core = cpu.as_secs_f64() / time.as_secs_f64() * 100.0;
    println!("{name}: {rate:.2} MB/s in total, parts {least:+.1} to {most:+.1} %, CPU {of_a_core:.2} % of a core");
}

/// The process of the clients, which is killed when this is dropped.
struct Clients(Child);

impl Clients {
    fn start(listener: &TcpListener) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(env::current_exe()?);
        Ok(Self(command.arg("read").arg(listener.local_addr()?.to_string()).spawn()?))
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The clients: they read until the server goes.
pub(crate) async fn read(address: &str) -> Result<(), Box<dyn Error>> {
    let mut tasks = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(address).await?;
        tasks.push(tokio::spawn(async move {
            let mut buf = vec![0; 65_536];
            while stream.read(&mut buf).await.is_ok_and(|read| read > 0) {}
        }));
    }
    for task in tasks {
        task.await?;
    }
    Ok(())
}

/// How long the only thread has run, at an instant.
#[derive(Clone, Copy)]
struct CpuTime {
    ran: Duration,
    at: Instant,
}

impl CpuTime {
    fn now() -> Result<Self, Box<dyn Error>> {
        let stat = fs::read_to_string("/proc/self/schedstat")?;
        let nanos = stat.split_whitespace().next().ok_or("/proc/self/schedstat is empty")?.parse()?;
        Ok(Self { ran: Duration::from_nanos(nanos), at: Instant::now() })
    }

    fn since(self, start: Self) -> (Duration, Duration) {
        (self.ran.saturating_sub(start.ran), self.at.duration_since(start.at))
    }
}
