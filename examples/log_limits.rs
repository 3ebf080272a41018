//! A flood of errors that fills no disk.
//!
//! A layer limits every call site, a macro limits one, and each count is exact.
//!
//! ```text
//! cargo run -p damper-examples --example log_limits
//! ```

use damper::logs::{LimitedLayer, LogLimit, Quota, tracing_limited};
use std::time::Duration;
use tracing::{info, warn};
use tracing_subscriber::{filter::LevelFilter, fmt, prelude::*, registry};

/// One limit for all messages about the disk, for any facade: `eprintln!` will do.
static DISK: LogLimit = LogLimit::new(Quota::per_second(10).burst(1));

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Every call site may log three lines at once and one a second, and each peer has its own three. `reports` writes what is
    // still unreported when it is dropped.
    let (layer, reports) =
        LimitedLayer::builder(Quota::per_second(1).burst(3)).per_value_of("peer").build(fmt::layer())?;
    registry().with(layer.with_filter(LevelFilter::INFO)).init();

    for attempt in 1..=1_000 {
        warn!(peer = "192.0.2.7", attempt, "connection reset"); // 3 lines
    }
    warn!(peer = "192.0.2.8", "connection reset"); // another peer, another limit
    reports.flush(); // suppressed 997 events suppressed=997 … key="peer=192.0.2.7"

    // One call site: the next line that passes has the field `suppressed`. This works without the layer.
    for sector in 0..500 {
        tracing_limited!(Quota::per_second(10).burst(1), warn!(sector, "bad sector"));
        if sector == 400 {
            std::thread::sleep(Duration::from_millis(110)); // sector 401 is logged with suppressed=400
        }
    }

    for block in 0..100 {
        if let Some(suppressed) = DISK.check() {
            eprintln!("disk full at block {block}{suppressed}");
        }
    }
    eprintln!("the disk is back{}", DISK.take_suppressed()); // the disk is back (99 suppressed)
    info!("done");
    Ok(())
}
