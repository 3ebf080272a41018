//! The output of the command.

use super::decision_file::DecisionFile;
use super::options::Arguments;
use super::search::Replay;
use crate::table::Table;
use std::collections::BTreeSet;

/// Returns what the file has, and the quotas around the smallest one.
///
/// # Errors
///
/// A message: no quota of the family refuses so few calls.
pub fn report(file: &DecisionFile, arguments: &Arguments) -> Result<String, String> {
    let (replay, family) = (Replay::new(file), arguments.family);
    let refused = file.decisions.iter().filter(|decision| !decision.is_allowed).count();
    let calls = replay.calls();
    let summary = format!(
        "{calls} calls of {} keys in {:.1} h: {refused} were refused ({}), {} are lost",
        replay.keys(),
        replay.span().as_secs_f64() / 3_600.0,
        percentage(refused, calls),
        file.lost,
    );
    let Some(smallest) = replay.smallest(family, arguments.at_most) else {
        let most = arguments.at_most.of(calls);
        return Err(format!("{summary}\n\nno quota with this burst refuses at most {most} of the calls"));
    };
    let mut table = Table::new("What other quotas would have refused", &["quota", "calls", "share"]);
    let limit = smallest.limit;
    let around = [limit / 2, limit - 1, limit, limit.saturating_add(1), limit.saturating_mul(2)];
    for other in around.into_iter().filter(|other| *other > 0).collect::<BTreeSet<u32>>() {
        let (quota, refused) = (family.quota(other), replay.refused(family.quota(other)));
        table.row(vec![quota.to_string(), refused.to_string(), percentage(refused, calls)]);
    }
    let quota = family.quota(limit);
    let note =
        if replay.costs_differ() { "\ncosts differ, so that a still smaller quota might do as well\n" } else { "" };
    Ok(format!(
        "{summary}\n\nsmallest quota: {quota}, which refuses {} calls ({})\n{note}\n{}",
        smallest.refused,
        percentage(smallest.refused, calls),
        table.text()
    ))
}

fn percentage(part: usize, all: usize) -> String {
    if all == 0 { "0 %".into() } else { format!("{:.3} %", 100.0 * part as f64 / all as f64) }
}
