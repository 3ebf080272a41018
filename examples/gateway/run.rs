//! One run from beginning to end, and all that was seen in it.

use crate::client::Client;
use crate::envelope::Flood;
use crate::figure::figure;
use crate::gateway::Gateway;
use crate::plan::Plan;
use crate::progress;
use crate::tally::{Tally, Totals};
use crate::upstream::{Hit, Upstream};
use crate::watch::Transition;
use damper::{Clock, Monotonic};
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The moment at which the run began, on the clock of limiter and breaker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch {
    start: u64,
    frequency: u64,
}

impl Epoch {
    pub(crate) fn now() -> Self {
        Self { start: Monotonic.now(), frequency: Monotonic.frequency() }
    }

    /// Ticks per second.
    pub(crate) fn frequency(&self) -> u64 {
        self.frequency
    }

    /// A tick as seconds since the start; 0 before it.
    pub(crate) fn seconds_at(&self, tick: u64) -> f64 {
        self.seconds(tick.saturating_sub(self.start))
    }

    /// So many ticks in seconds.
    pub(crate) fn seconds(&self, ticks: u64) -> f64 {
        figure(ticks) / figure(self.frequency)
    }
}

/// The observations of the run.
#[derive(Debug)]
pub(crate) struct Evidence {
    pub(crate) epoch: Epoch,
    /// The tick after the last request.
    pub(crate) end: u64,
    pub(crate) totals: Totals,
    pub(crate) flood: Flood,
    pub(crate) transitions: Vec<Transition>,
    pub(crate) hits: Vec<Hit>,
}

/// Runs the plan against a gateway that listens at `address`.
pub(crate) async fn run(
    plan: &Plan,
    upstream: &Arc<Upstream>,
    gateway: &Arc<Gateway>,
    address: SocketAddr,
) -> Result<Evidence, Box<dyn Error>> {
    let tally = Arc::new(Tally::new(plan)?);
    let mut clients = Vec::new();
    for (number, source) in plan.addresses().enumerate() {
        clients.push(Client::connect(number, source, address, plan.connections(number)).await?);
    }

    // In this order: what happens at a planned moment is not before it on the other clock either.
    let epoch = Epoch::now();
    let start = Instant::now();
    let mut background = JoinSet::new();
    {
        let (upstream, plan) = (Arc::clone(upstream), plan.clone());
        background.spawn(async move { upstream.follow(&plan, start).await });
    }
    {
        let watch = Arc::clone(gateway.watch());
        background.spawn(async move { watch.observe_forever().await });
    }
    let progress = {
        let (plan, tally, watch) = (plan.clone(), Arc::clone(&tally), Arc::clone(gateway.watch()));
        tokio::spawn(async move { progress::show(&plan, start, &tally, &watch).await })
    };
    let mut load = JoinSet::new();
    for (number, client) in clients.into_iter().enumerate() {
        load.spawn(client.run(plan.shots(number), start, Arc::clone(&tally)));
    }
    // The progress ends after the load, or early if the reader of stderr is gone. Then the run ends too.
    let load = async {
        load.join_all().await;
        Ok(())
    };
    tokio::try_join!(load, async { progress.await.map_err(io::Error::other)? })?;
    background.shutdown().await;

    gateway.watch().observe();
    Ok(Evidence {
        epoch,
        end: Monotonic.now(),
        totals: tally.read(),
        flood: gateway.flood().read(),
        transitions: gateway.watch().transitions(),
        hits: upstream.hits(),
    })
}
