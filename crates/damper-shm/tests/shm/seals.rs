//! Descriptors that are refused, because an access to their memory could fail.

use core::sync::atomic::Ordering::Relaxed;
use damper_shm::{SharedWords, SharedWordsError};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

const BYTES: u64 = 512;
const WORDS: usize = 64;

fn memory(seals: SealFlags) -> OwnedFd {
    let file = memfd_create("damper-test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memory");
    ftruncate(&file, BYTES).expect("a size");
    fcntl_add_seals(&file, seals).expect("seals");
    file
}

fn refusal(file: OwnedFd) -> String {
    SharedWords::from_fd(file, WORDS).expect_err("the descriptor is refused").to_string()
}

#[test]
fn created_words_cannot_be_resized() {
    let shared = SharedWords::create("damper-test", WORDS).expect("memory");
    assert_eq!(ftruncate(shared.as_fd(), 8), Err(Errno::PERM));
    assert_eq!(ftruncate(shared.as_fd(), 8 * BYTES), Err(Errno::PERM));
    assert_eq!(fcntl_add_seals(shared.as_fd(), SealFlags::FUTURE_WRITE), Err(Errno::PERM));
}

#[test]
fn descriptors_that_can_shrink_are_refused() {
    let lacks = "the size of the memory could change, the descriptor lacks the seals ";
    assert_eq!(refusal(memory(SealFlags::GROW | SealFlags::SEAL)), format!("{lacks}F_SEAL_SHRINK"));
    assert_eq!(refusal(memory(SealFlags::SHRINK)), format!("{lacks}F_SEAL_SEAL, F_SEAL_GROW"));
    let all = format!("{lacks}F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW");
    assert_eq!(refusal(memory(SealFlags::empty())), all);
    // Only memory files have seals.
    assert_eq!(refusal(File::open("/dev/null").expect("it exists").into()), all);
    let binary = File::open(std::env::current_exe().expect("a path")).expect("it can be read");
    assert_eq!(refusal(binary.into()), all);
}

#[test]
fn descriptors_that_cannot_be_written_are_refused() {
    let sealed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let error = refusal(memory(sealed | SealFlags::FUTURE_WRITE));
    assert_eq!(error, "the descriptor cannot be written, it has the seals F_SEAL_FUTURE_WRITE");
    // The file can be written, this descriptor cannot.
    let file = memory(sealed);
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let error = SharedWords::from_fd(File::open(path).expect("it can be read").into(), WORDS).expect_err("read-only");
    assert!(matches!(error, SharedWordsError::System { .. }), "{error}");
}

#[test]
fn size_is_checked() {
    let sealed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    assert!(SharedWords::from_fd(memory(sealed), WORDS).is_ok());
    for words in [WORDS - 1, WORDS + 1] {
        let error = SharedWords::from_fd(memory(sealed), words).expect_err("another size");
        assert_eq!(error.to_string(), format!("the memory has 512 bytes, it must have {}", words * 8));
    }
}

/// A page that another process frees reads as zeros: limits are lost, and no access fails.
#[test]
fn freed_page_reads_as_zeros() {
    use rustix::fs::{FallocateFlags, fallocate};
    let shared = SharedWords::create("damper-test", WORDS).expect("memory");
    shared.words()[1].store(5, Relaxed);
    let punched = fallocate(shared.as_fd(), FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, BYTES);
    assert_eq!(punched, Ok(()));
    assert_eq!(shared.words()[1].load(Relaxed), 0);
}
