//! Keys of any subjects differ, and all of one subject are in one slot of a cluster.

use damper_redis::internal::{Command, Keys, LeaseRequest, Limit, Sighting, SlotTags, Terms};
use proptest::prelude::*;
use std::sync::LazyLock;

static TAGS: LazyLock<SlotTags> = LazyLock::new(SlotTags::new);

/// CRC16 bit by bit, as the cluster specification describes it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 })
    })
}

/// The slot of a key: of the text between the first `{` and the next `}`, if that is not empty.
fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % 16_384
}

/// A marker, three limits and a holder of the first.
fn all_keys(keys: &Keys) -> Vec<String> {
    let terms = Terms::new(damper_core::Quota::per_second(1), 1).unwrap();
    let limit = Limit { terms, seen: Sighting::default() };
    let mut all = keys.of(&Command::Reset(vec![limit; 3]), 0);
    all.extend(keys.of(&Command::Lease(limit, LeaseRequest::default()), u64::MAX).into_iter().skip(2));
    all
}

/// Bytes that a hostile client would send.
fn subject() -> impl Strategy<Value = Vec<u8>> {
    let hostile = prop::sample::select(b"{}%~:\0\r\n 05dba".to_vec());
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        prop::collection::vec(hostile.clone(), 0..12),
        prop::collection::vec(hostile, 40..300),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![".{0,40}", "[:0h{}%~a]{0,8}"]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn a_subject_and_its_marker_are_in_one_slot(name in name(), subject in subject()) {
        let keys = all_keys(&Keys::new(&TAGS, &name, &subject));
        for key in &keys {
            prop_assert_eq!(slot(key), slot(&keys[0]), "{}", key);
            prop_assert!(key.len() <= 320, "{} is too long", key);
            prop_assert!(key.bytes().all(|byte| byte.is_ascii_graphic()), "{}", key);
            prop_assert_eq!(key.matches(['{', '}']).count(), 2, "{}", key);
        }
    }

    #[test]
    fn different_subjects_and_names_have_different_keys(
        (one, other) in ((name(), subject()), (name(), subject())),
    ) {
        prop_assume!(one != other);
        let [first, second] = [one, other].map(|(name, subject)| all_keys(&Keys::new(&TAGS, &name, &subject)));
        for key in &first[1..] {
            prop_assert!(!second.contains(key), "{}", key);
        }
    }

    #[test]
    fn keys_are_parsed_back(name in "[:{}%~a0]{0,20}", subject in prop::collection::vec(any::<u8>(), 0..40)) {
        let key = Keys::new(&TAGS, &name, &subject).limit(3);
        let rest = key.strip_prefix("damper:{").unwrap();
        let (first, rest) = rest.split_once("}:").unwrap();
        let (second, index) = rest.split_once(':').unwrap();
        prop_assert_eq!(unescaped(first), subject);
        prop_assert_eq!(unescaped(second), name.into_bytes());
        prop_assert_eq!(index, "3");
    }

    #[test]
    fn a_key_is_no_marker(name in name(), subject in subject()) {
        let keys = all_keys(&Keys::new(&TAGS, &name, &subject));
        let closed = keys.iter().map(|key| key.ends_with('}'));
        prop_assert_eq!(closed.collect::<Vec<_>>(), [true, false, false, false, false]);
    }
}

/// The text that was escaped.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    let mut found = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            found.push(byte);
        } else if let (Some(high), Some(low)) = (bytes.next(), bytes.next()) {
            let digits = [high, low];
            let digits = std::str::from_utf8(&digits).unwrap();
            found.push(u8::from_str_radix(digits, 16).unwrap());
        }
    }
    found
}
