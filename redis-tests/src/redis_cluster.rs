//! Three masters that share the slots of a cluster.

use crate::redis_server::{RedisServer, free_port};
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

const SLOTS: u16 = 16_384;

/// How long the masters may take to agree on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster of three masters without replicas; they are killed when the value is dropped.
#[derive(Debug)]
pub struct RedisCluster {
    masters: Vec<RedisServer>,
}

impl Default for RedisCluster {
    fn default() -> Self {
        Self::start()
    }
}

impl RedisCluster {
    /// Starts the masters, gives each a third of the slots, and waits until they agree.
    ///
    /// # Panics
    ///
    /// If they do not.
    #[must_use]
    pub fn start() -> Self {
        let masters = [(); 3].map(|()| RedisServer::with(&cluster_options().each_ref().map(String::as_str)));
        let ports = masters.each_ref().map(|master| master.address().port());
        Self::of(masters.into(), &ports)
    }

    /// Joins masters, which are known to each other by these ports.
    pub(crate) fn of(masters: Vec<RedisServer>, ports: &[u16]) -> Self {
        let cluster = Self { masters };
        let (first, third) = (&cluster.masters[0], SLOTS.div_ceil(3));
        for (begin, master) in (0..SLOTS).step_by(third.into()).zip(&cluster.masters) {
            let end = (begin + third).min(SLOTS) - 1;
            master.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", &begin.to_string(), &end.to_string()]);
        }
        for (master, port) in cluster.masters.iter().zip(ports).skip(1) {
            let bus = master.ask::<Vec<String>>(&["CONFIG", "GET", "cluster-port"]).remove(1);
            first.ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port.to_string(), &bus]);
        }
        for master in &cluster.masters {
            wait(|| {
                let state: String = master.ask(&["CLUSTER", "INFO"]);
                state.contains("cluster_state:ok") && state.contains("cluster_known_nodes:3")
            });
        }
        // New masters have one epoch, and raise theirs until no two are the same. A slot that moves meanwhile can fall back.
        wait(|| {
            let [first, second, third] = [0, 1, 2].map(|place| epochs(&cluster.masters[place]));
            first == second && second == third && first.values().collect::<BTreeSet<_>>().len() == 3
        });
        cluster
    }

    /// Returns the URLs of all masters.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.masters.iter().map(RedisServer::url).collect()
    }

    /// Returns the masters.
    #[must_use]
    pub fn masters(&self) -> &[RedisServer] {
        &self.masters
    }

    /// Moves the slot of `key`, and all that is in it, to the next master.
    ///
    /// # Panics
    ///
    /// If a server refuses.
    pub fn move_slot_of(&self, key: &str) {
        let slot: u16 = self.masters[0].ask(&["CLUSTER", "KEYSLOT", key]);
        let slot = slot.to_string();
        let holds = |master: &&RedisServer| master.ask::<u64>(&["CLUSTER", "COUNTKEYSINSLOT", &slot]) > 0;
        let place = self.masters.iter().position(|master| holds(&master)).expect("the key exists");
        let (from, to) = (&self.masters[place], &self.masters[(place + 1) % 3]);
        let (from_id, to_id): (String, String) = (from.ask(&["CLUSTER", "MYID"]), to.ask(&["CLUSTER", "MYID"]));
        to.ask::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
        from.ask::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
        let port = to.address().port().to_string();
        loop {
            let keys: Vec<String> = from.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
            if keys.is_empty() {
                break;
            }
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            words.extend(keys.iter().map(String::as_str));
            from.ask::<()>(&words);
        }
        for master in [to, from] {
            master.ask::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]);
        }
    }
}

/// The options of a master.
pub(crate) fn cluster_options() -> [String; 4] {
    // By default the port of the cluster's own traffic is one that the kernel gives to clients.
    ["--cluster-enabled".to_owned(), "yes".to_owned(), "--cluster-port".to_owned(), free_port().to_string()]
}

/// Returns the epoch of each master that this one knows, by identifier.
fn epochs(master: &RedisServer) -> BTreeMap<String, String> {
    let nodes: String = master.ask(&["CLUSTER", "NODES"]);
    let fields = nodes.lines().map(|node| node.split(' ').map(str::to_owned).collect::<Vec<_>>());
    fields.map(|fields| (fields[0].clone(), fields[6].clone())).collect()
}

fn wait(ready: impl Fn() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < PATIENCE, "the masters do not agree within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}
