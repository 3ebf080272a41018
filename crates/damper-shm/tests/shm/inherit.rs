//! Words that children inherit.

use crate::children::child;
use core::sync::atomic::Ordering::Relaxed;
use damper_shm::{SharedWords, SharedWordsError};
use std::fs;

const WORDS: usize = 520;

/// The memory files of a name that this process has open, by its descriptors.
pub(crate) fn open_memories(name: &str) -> usize {
    let links = fs::read_dir("/proc/self/fd")
        .expect("/proc is mounted")
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter(|path| path.to_string_lossy().contains(&format!("memfd:{name} "))).count()
}

/// A child: changes the first word and the last one.
pub(crate) fn adds_ten() {
    let shared = SharedWords::inherited(WORDS).expect("the parent passed its words");
    for word in [&shared.words()[0], &shared.words()[WORDS - 1]] {
        word.fetch_add(10, Relaxed);
    }
    let error = SharedWords::inherited(WORDS + 1).expect_err("another size is refused");
    assert_eq!(error.to_string(), "the memory has 4160 bytes, it must have 4168");
}

/// A child to which nothing was passed.
pub(crate) fn has_no_words() {
    let error = SharedWords::inherited(WORDS).expect_err("nothing was passed");
    assert_eq!(error.to_string(), "DAMPER_SHM_FD is not set, so no supervisor started this process");
    assert_eq!(open_memories("damper-test"), 0, "no descriptor is inherited unless it is passed");
}

/// A child whose environment names no descriptor.
pub(crate) fn has_bad_variable() {
    let error = SharedWords::inherited(WORDS).expect_err("the variable is no number");
    assert_eq!(error.to_string(), "DAMPER_SHM_FD is \"-1\", it must be a number that the supervisor sets");
}

#[test]
fn children_share_the_words() {
    let shared = SharedWords::create("damper-test", WORDS).expect("memory");
    assert_eq!(shared.words().len(), WORDS);
    assert!(shared.words().iter().all(|word| word.load(Relaxed) == 0), "new words are 0");
    let mut command = child("adds_ten");
    shared.pass_to(&mut command).expect("a descriptor");
    // The command can be used again.
    for _ in 0..2 {
        assert!(command.status().expect("a child").success());
    }
    assert_eq!(shared.words()[0].load(Relaxed), 20);
    assert_eq!(shared.words()[WORDS - 1].load(Relaxed), 20);
    assert_eq!(shared.words()[1].load(Relaxed), 0);
}

#[test]
fn other_children_inherit_nothing() {
    let shared = SharedWords::create("damper-test", WORDS).expect("memory");
    let mut passed = child("adds_ten");
    shared.pass_to(&mut passed).expect("a descriptor");
    assert!(child("has_no_words").status().expect("a child").success());
    assert!(passed.status().expect("a child").success());
}

#[test]
fn bad_variable_is_refused() {
    assert!(child("has_bad_variable").env("DAMPER_SHM_FD", "-1").status().expect("a child").success());
}

#[test]
fn words_outlive_the_descriptor_that_made_them() {
    let shared = SharedWords::create("damper-test", 8).expect("memory");
    let file = std::os::fd::AsFd::as_fd(&shared).try_clone_to_owned().expect("a descriptor");
    shared.words()[3].store(7, Relaxed);
    drop(shared);
    let again = SharedWords::from_fd(file, 8).expect("it is sealed");
    assert_eq!(again.words()[3].load(Relaxed), 7);
}

#[test]
fn number_of_words_is_checked() {
    let error = SharedWords::create("damper-test", 0).expect_err("no words");
    assert!(matches!(error, SharedWordsError::OutOfRange(_)));
    assert_eq!(error.to_string(), "words is 0, it must be 1 to 134217728");
}
