//! The resident memory for a million keys.

use crate::keyed;
use crate::report::{Compared, Row};
use std::fs;

pub(crate) const NAME: &str = "keyed_bytes_1m";

const KEYS: u64 = 1_000_000;

/// The most bytes that a key should take: 48 for slots and shared buckets, and a part of half a MiB.
///
/// The half MiB is for the locks and everything else that the process touches for the first time.
const MOST: f64 = 48.5;

/// Measured once: it does not vary.
pub(crate) fn measure() -> Row {
    let ours = bytes_per_key(|| keyed::filled(KEYS));
    let theirs = bytes_per_key(|| keyed::governor::filled(KEYS));
    let (ratio, bar) = (ours / theirs, Some(MOST / theirs));
    let compared = Compared { peer: "governor", peer_value: theirs, ratio, ratio_quartiles: None, bar };
    Row { name: NAME, unit: "B ", damper: ours, quartiles: None, compared: Some(compared) }
}

/// By what the resident memory grows, for each key.
fn bytes_per_key<L>(limiter: impl FnOnce() -> L) -> f64 {
    let before = resident_bytes();
    let limiter = limiter();
    let after = resident_bytes();
    drop(limiter);
    after.saturating_sub(before) as f64 / KEYS as f64
}

/// Of this process, as Linux counts it.
fn resident_bytes() -> u64 {
    const PAGE: u64 = 4_096;
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux tells the memory of a process");
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("the second number is that of resident pages") * PAGE
}
