//! The targets without a fuzzer, with a stable Rust, on their corpora and on random input.
//!
//! The input is the same every time. The environment variable `DAMPER_SEED` chooses another series of inputs; 1 unless
//! set.

use damper_fuzz::{TARGETS, Target};
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

/// For each target, in the test of chance.
const INPUTS: u64 = 100_000;

const LARGEST_INPUT: u64 = 2_048;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Runs an input, and says which it was if that unwinds.
fn run((name, target): Target, bytes: &[u8], input: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(bytes))) {
        eprintln!("{name}: {input}: {bytes:?}");
        resume_unwind(panic);
    }
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names_in(&folder("fuzz_targets")), targets);
    assert_eq!(names_in(&folder("corpus")), targets);
}

#[test]
fn the_corpora_pass() {
    for target in TARGETS {
        let corpus = folder("corpus").join(target.0);
        let files = names_in(&corpus);
        for file in &files {
            run(target, &fs::read(corpus.join(file)).unwrap(), file);
        }
        println!("{}: {} files", target.0, files.len());
        assert!((1..=60).contains(&files.len()), "{}: the corpus is minimized, and there is one", target.0);
    }
}

#[test]
fn chance_finds_nothing() {
    let seed = std::env::var("DAMPER_SEED").unwrap_or_else(|_| "1".to_owned());
    let series: u64 =
        seed.parse().unwrap_or_else(|_| panic!("DAMPER_SEED is {seed:?}, it must be a number below 2^64"));
    let first = series.wrapping_sub(1).wrapping_mul(INPUTS);
    for target in TARGETS {
        for number in (0..INPUTS).map(|number| first.wrapping_add(number)) {
            run(target, &by_chance(number), &format!("input {number} by chance"));
        }
        println!("{}: {INPUTS} inputs", target.0);
    }
}

/// Bytes of any number, some of them mostly zeros or small: as are steps of an input that are alike.
fn by_chance(seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let (length, kind) = (random.next() % LARGEST_INPUT, random.next() % 4);
    let byte = |random: &mut Random| {
        let [byte, chance, ..] = random.next().to_le_bytes();
        match kind {
            0 => byte % 8,
            1 if chance < 128 => 0,
            _ => byte,
        }
    };
    (0..length).map(|_| byte(&mut random)).collect()
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }
}
