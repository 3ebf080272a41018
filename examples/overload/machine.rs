//! The machine on which the figures were measured.

use std::fs;
use std::thread::available_parallelism;

/// The processor, the number of cores that the process may use, and the operating system.
pub(crate) fn description() -> String {
    let cores = available_parallelism().map_or(1, usize::from);
    // Only Linux has it.
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim()));
    let model = model.unwrap_or(std::env::consts::ARCH);
    format!("{cores} logical cores, {model}, {}", std::env::consts::OS)
}
