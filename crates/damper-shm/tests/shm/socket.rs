//! Words that are sent over a Unix socket.

use crate::children::child;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;
use damper_shm::SharedWords;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

const WORDS: usize = 16;

fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().expect("sockets")
}

/// A child: receives words by its standard input, and counts up.
pub(crate) fn receives() {
    let socket: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
    let shared = SharedWords::receive(socket, WORDS).expect("words were sent");
    shared.words()[WORDS - 1].fetch_add(1, Relaxed);
}

#[test]
fn another_process_receives_the_words() {
    let (here, there) = pair();
    let shared = SharedWords::create("damper-test", WORDS).expect("memory");
    let mut receiver = child("receives").stdin(OwnedFd::from(there)).spawn().expect("a child");
    shared.send(&here).expect("the child receives");
    assert!(receiver.wait().expect("it ends").success());
    assert_eq!(shared.words()[WORDS - 1].load(Relaxed), 1);
}

#[test]
fn messages_come_one_by_one() {
    let (here, there) = pair();
    let sent = [1, 2].map(|value| {
        let shared = SharedWords::create("damper-test", WORDS).expect("memory");
        shared.words()[0].store(value, Relaxed);
        shared.send(&here).expect("it is received below");
        shared
    });
    for shared in &sent {
        let received = SharedWords::receive(&there, WORDS).expect("words were sent");
        assert_eq!(received.words()[0].load(Relaxed), shared.words()[0].load(Relaxed));
    }
}

#[test]
fn messages_with_another_number_of_descriptors_are_refused() {
    let (mut here, there) = pair();
    let receive = || SharedWords::receive(&there, WORDS).expect_err("no words were sent").to_string();
    here.write_all(b"x").expect("it is received below");
    assert_eq!(receive(), "the message has 0 descriptors, it must have 1");

    let shared = SharedWords::create("damper-test", WORDS).expect("memory");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [shared.as_fd(); 2];
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(&here, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).expect("it is received below");
    assert_eq!(receive(), "the message has 2 descriptors, it must have 1");

    drop(here);
    assert_eq!(receive(), "the message has 0 descriptors, it must have 1");
}

#[test]
fn received_words_are_checked() {
    let (here, there) = pair();
    let shared = SharedWords::create("damper-test", WORDS).expect("memory");
    shared.send(&here).expect("it is received below");
    let error = SharedWords::receive(&there, WORDS + 1).expect_err("another size");
    assert_eq!(error.to_string(), "the memory has 128 bytes, it must have 136");
}
