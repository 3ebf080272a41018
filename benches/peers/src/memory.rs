//! The resident memory for a million keys.

use crate::keyed;
use crate::report::{Compared, Row};
use std::{fs, mem};

/// The rows, each with its peer.
pub(crate) const NAMES: [&str; 2] = ["keyed_bytes_1m", "keyed_bytes_1m_rate_net"];

const KEYS: u64 = 1_000_000;

/// The most bytes that a key should take: 48 for slots and shared buckets, and a part of half a MiB.
///
/// The half MiB is for the locks and everything else that the process touches for the first time.
const MOST: f64 = 48.5;

/// Measures the rows that are asked for, once: memory does not vary.
pub(crate) fn measure(asked_for: impl Fn(&str) -> bool) -> Vec<Row> {
    let names: Vec<_> = NAMES.into_iter().filter(|name| asked_for(name)).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let ours = bytes_per_key(|| keyed::filled(KEYS));
    let row = |name| {
        let (peer, theirs, bar) = if name == NAMES[0] {
            let theirs = bytes_per_key(|| keyed::governor::filled(KEYS));
            ("governor", theirs, Some(MOST / theirs))
        } else {
            ("rate-net", bytes_per_key(|| keyed::rate_net::filled(KEYS)), None)
        };
        let compared = Compared { peer, peer_value: theirs, ratio: ours / theirs, ratio_quartiles: None, bar };
        Row { name, unit: "B ", damper: ours, quartiles: None, compared: Some(compared) }
    };
    names.into_iter().map(row).collect()
}

/// By what the resident memory grows, for each key.
fn bytes_per_key<L>(limiter: impl FnOnce() -> L) -> f64 {
    let before = resident_bytes();
    // Never freed, or the next one would get the same memory.
    mem::forget(limiter());
    resident_bytes().saturating_sub(before) as f64 / KEYS as f64
}

/// Of this process, as Linux counts it.
fn resident_bytes() -> u64 {
    const PAGE: u64 = 4_096;
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux tells the memory of a process");
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("the second number is that of resident pages") * PAGE
}
