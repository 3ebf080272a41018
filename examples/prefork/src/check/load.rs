//! The clients: some that always ask, some that come once, and some that hold the bulkhead's slots.

use super::envelope::{Answer, Ask};
use super::http::Connection;
use super::ledger::Ledger;
use super::random::Random;
use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The server, and the state that all clients share.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) began: Instant,
    /// Set when no more workers are killed.
    pub(crate) is_over: Arc<AtomicBool>,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
}

/// The requests of a client, in no order.
type Log = Rc<RefCell<Vec<Ask>>>;

/// Clients that always ask.
const STEADY: u8 = 4;
/// The connections of each of them.
const CONNECTIONS: usize = 2;
/// The pause after a refusal or a lost connection: a third of the time that a token takes to come.
const PAUSE: Duration = Duration::from_millis(3);
/// How many requests are lost at the end before a client gives up.
const PATIENCE: u32 = 1_000;
/// The requests of a client that comes once: more than its burst.
const VISIT: usize = 70;
/// Clients that hold slots.
const HOLDERS: usize = 16;

impl Site {
    fn nanos(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn is_over(&self) -> bool {
        // ORDERING: Relaxed: a late look makes some more requests.
        self.is_over.load(Ordering::Relaxed)
    }

    fn ledger<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        change(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The requests of all clients.
#[derive(Default)]
pub(crate) struct Seen {
    /// The requests of each client that always asked.
    pub(crate) steady: Vec<Vec<Ask>>,
    /// The requests of each client that came once.
    pub(crate) visitors: Vec<Vec<Ask>>,
}

/// Runs all clients until no more workers are killed.
///
/// Those that always ask go on until they are refused once more.
pub(crate) async fn run(site: &Site, seed: u64) -> Seen {
    let steady: Vec<Log> = (0..STEADY).map(|_| Log::default()).collect();
    let mut tasks = JoinSet::new();
    for (number, log) in (2..).zip(&steady) {
        for _ in 0..CONNECTIONS {
            let (site, log) = (site.clone(), Rc::clone(log));
            tasks.spawn_local(async move {
                let mut asker = Asker::new(site, Ipv4Addr::new(127, 0, 0, number), log);
                let mut patience = PATIENCE;
                while patience > 0 {
                    match asker.ask().await {
                        Answer::Allowed => continue,
                        // No token that was earned is left, and one that a lost request did not take was taken later.
                        Answer::Denied if asker.site.is_over() => break,
                        Answer::Lost if asker.site.is_over() => patience -= 1,
                        Answer::Denied | Answer::Lost => {}
                    }
                    sleep(PAUSE).await;
                }
            });
        }
    }
    for number in 0..HOLDERS {
        let (site, random) = (site.clone(), Random(seed + number as u64));
        tasks.spawn_local(hold(site, random));
    }
    let visitors: Rc<RefCell<Vec<Log>>> = Rc::default();
    tasks.spawn_local(visits(site.clone(), Rc::clone(&visitors)));
    while tasks.join_next().await.is_some() {}
    let visitors = visitors.take();
    Seen {
        steady: steady.iter().map(|log| log.take()).collect(),
        visitors: visitors.iter().map(|log| log.take()).collect(),
    }
}

/// A connection of a client, which is opened again when its worker dies.
struct Asker {
    site: Site,
    from: Ipv4Addr,
    log: Log,
    connection: Option<Connection>,
}

impl Asker {
    fn new(site: Site, from: Ipv4Addr, log: Log) -> Self {
        Self { site, from, log, connection: None }
    }

    /// Makes a request and notes it.
    async fn ask(&mut self) -> Answer {
        let sent = self.site.nanos();
        let answer = self.answer().await;
        self.log.borrow_mut().push(Ask { sent, received: self.site.nanos(), answer });
        answer
    }

    async fn answer(&mut self) -> Answer {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => match Connection::open(self.from, self.site.address).await {
                Ok(connection) => connection,
                Err(_) => return Answer::Lost,
            },
        };
        let Ok(head) = connection.request("GET /").await else { return Answer::Lost };
        self.connection = Some(connection);
        if head.status == 200 { Answer::Allowed } else { Answer::Denied }
    }
}

/// Lets clients come once each, one after the other, from addresses of their own.
///
/// The connections of a client race for the first sight of its key.
async fn visits(site: Site, visitors: Rc<RefCell<Vec<Log>>>) {
    let mut number = 0_u16;
    while !site.is_over() {
        let [high, low] = number.to_be_bytes();
        number += 1;
        let log = Log::default();
        visitors.borrow_mut().push(Rc::clone(&log));
        let mut askers = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let mut asker = Asker::new(site.clone(), Ipv4Addr::new(127, 1, high, low), Rc::clone(&log));
            askers.spawn_local(async move {
                for _ in 0..VISIT / CONNECTIONS {
                    asker.ask().await;
                }
            });
        }
        while askers.join_next().await.is_some() {}
        sleep(Duration::from_millis(20)).await;
    }
}

/// Enters the bulkhead, stays for some milliseconds, and leaves.
async fn hold(site: Site, mut random: Random) {
    let mut kept = None;
    while !site.is_over() {
        let opened = match kept.take() {
            Some(connection) => Ok(connection),
            None => Connection::open(Ipv4Addr::LOCALHOST, site.address).await,
        };
        let Ok(mut connection) = opened else {
            sleep(PAUSE).await;
            continue;
        };
        match connection.begin("POST /hold").await {
            Ok(head) if head.status == 200 => {
                site.ledger(|ledger| ledger.enters(head.worker));
                sleep(Duration::from_millis(1 + random.below(4))).await;
                site.ledger(|ledger| ledger.leaves(head.worker));
                if connection.end().await.is_ok() {
                    kept = Some(connection);
                }
            }
            // The body of a refused request is not sent, so its connection cannot be used again.
            _ => sleep(PAUSE).await,
        }
    }
}
