//! The progress of a run, on stderr: one line that is rewritten in a terminal, else a line per second.

use crate::plan::{Phase, Plan};
use crate::tally::Tally;
use crate::watch::BreakerWatch;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How often the line of a terminal is rewritten.
const TICK: Duration = Duration::from_millis(100);
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Goes back to the start of the terminal's line and clears it.
const CLEAR: &str = "\r\x1b[2K";

/// Clears the line when the run is over, however it ends.
struct Line;

impl Drop for Line {
    fn drop(&mut self) {
        // A terminal that is gone shows no line.
        _ = write!(stderr(), "{CLEAR}");
    }
}

/// Shows how the run goes, until it is over or the task is dropped.
///
/// # Errors
///
/// When the reader of stderr is gone. Other errors of stderr do not end a run.
pub(crate) async fn show(plan: &Plan, start: Instant, tally: &Tally, watch: &BreakerWatch) -> io::Result<()> {
    if stderr().is_terminal() {
        let _line = Line;
        each(TICK, plan, start, |at| accept(write!(stderr(), "{CLEAR}{}", line(plan.phase_at(at), at, tally, watch))))
            .await
    } else {
        each(LINE_INTERVAL, plan, start, |at| {
            // The phase that the second was in, not the one that begins now.
            print(&mut stderr(), &line(plan.phase_at(at.saturating_sub(TICK)), at, tally, watch))
        })
        .await
    }
}

fn print(output: &mut impl Write, line: &str) -> io::Result<()> {
    accept(writeln!(output, "{line}"))
}

/// Passes on only the error of a reader that is gone.
fn accept(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

async fn each(
    interval: Duration,
    plan: &Plan,
    start: Instant,
    mut show: impl FnMut(Duration) -> io::Result<()>,
) -> io::Result<()> {
    let mut at = interval;
    while at <= plan.length() {
        sleep_until(start + at).await;
        show(at)?;
        at += interval;
    }
    Ok(())
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

#[cfg(test)]
pub(crate) mod tests {
    use super::print;
    use std::io::{self, ErrorKind, Write};

    /// A pipe whose reader is gone.
    pub(crate) struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn closed_pipe_ends_the_progress_without_a_panic() {
        assert_eq!(print(&mut Closed, "1.0 s calm").map_err(|error| error.kind()), Err(ErrorKind::BrokenPipe));
        assert!(print(&mut Vec::new(), "1.0 s calm").is_ok());
    }
}
