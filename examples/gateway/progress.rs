//! What one sees while it runs, on stderr: a bar in a terminal, a line per second elsewhere.

use crate::plan::{Phase, Plan};
use crate::tally::Tally;
use crate::watch::BreakerWatch;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

const BAR_INTERVAL: Duration = Duration::from_millis(100);
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Removes the bar when the run is over, however it ends.
struct Bar(ProgressBar);

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Shows how the run goes, until it is over or the task is dropped.
pub(crate) async fn show(plan: &Plan, start: Instant, tally: &Tally, watch: &BreakerWatch) {
    if stderr().is_terminal() {
        let bar = Bar(ProgressBar::new(plan.length().as_millis() as u64));
        if let Ok(style) = ProgressStyle::with_template("{bar:10.cyan/dim} {wide_msg}") {
            bar.0.set_style(style);
        }
        each(BAR_INTERVAL, plan, start, |at| {
            bar.0.set_position(at.as_millis() as u64);
            bar.0.set_message(line(plan.phase_at(at), at, tally, watch));
        })
        .await;
    } else {
        each(LINE_INTERVAL, plan, start, |at| {
            // The phase that the second was in, not the one that begins now.
            eprintln!("{}", line(plan.phase_at(at.saturating_sub(BAR_INTERVAL)), at, tally, watch));
        })
        .await;
    }
}

async fn each(interval: Duration, plan: &Plan, start: Instant, mut show: impl FnMut(Duration)) {
    let mut at = interval;
    while at <= plan.length() {
        sleep_until(start + at).await;
        show(at);
        at += interval;
    }
}

/// The time, the phase, the state of the breaker, and what became of the requests of this phase.
fn line(phase: Phase, at: Duration, tally: &Tally, watch: &BreakerWatch) -> String {
    let (sent, counts) = tally.phase(phase);
    let state = watch.observe();
    format!(
        "{:4.1} s {:8} {state:9} {sent:5} sent: {} allowed, {} limited, {} refused, {} failed",
        at.as_secs_f64(),
        phase.name(),
        counts.allowed,
        counts.limited,
        counts.refused,
        counts.failed,
    )
}
