//! The keys of two subjects, of any bytes.

use arbitrary::Arbitrary;
use damper_redis::internal::{Keys, SlotTags};
use std::sync::LazyLock;

static TAGS: LazyLock<SlotTags> = LazyLock::new(SlotTags::new);

/// Two limits, whose names and subjects may be the same.
#[derive(Arbitrary, Debug)]
pub struct TwoLimits<'a> {
    names: [&'a str; 2],
    subjects: [&'a [u8]; 2],
    same: [bool; 2],
    index: u8,
    holder: u64,
}

/// Checks the keys of both, and that they differ where the limits do.
pub fn redis_keys(limits: TwoLimits<'_>) {
    let TwoLimits { mut names, mut subjects, same, index, holder } = limits;
    if same[0] {
        names[1] = names[0];
    }
    if same[1] {
        subjects[1] = subjects[0];
    }
    let [first, second] = [0, 1].map(|which| Keys::new(&TAGS, names[which], subjects[which]));
    let index = usize::from(index);
    let is_same = names[0] == names[1] && subjects[0] == subjects[1];
    assert_eq!(first.limit(index) == second.limit(index), is_same);
    assert_eq!(first.holder(holder) == second.holder(holder), is_same);
    assert_ne!(first.limit(index), second.limit(index + 1));
    assert_ne!(first.limit(index), second.holder(holder));
    for (keys, (name, subject)) in [first, second].iter().zip(names.into_iter().zip(subjects)) {
        let limit = keys.limit(index);
        for key in [&limit, &keys.holder(holder), keys.marker()] {
            assert!(key.len() <= 320 && key.bytes().all(|byte| byte.is_ascii_graphic()), "{key}");
            assert_eq!(slot(key), slot(keys.marker()), "{key}");
        }
        let (tag, rest) = limit["damper:{".len()..].split_once("}:").expect("a hash tag");
        let (stored_name, stored_index) = rest.split_once(':').expect("a name");
        assert_eq!(stored_index, index.to_string());
        for (stored, text) in [(tag, subject), (stored_name, name.as_bytes())] {
            assert!(stored.contains('~') || unescaped(stored) == text, "{stored} is of {}", text.escape_ascii());
            assert!(!stored.contains('~') || text.len() > 128 / 3, "{stored} is a digest of a short text");
        }
    }
}

/// The slot of a key: of the text between the first `{` and the next `}`, which is never empty here.
fn slot(key: &str) -> u16 {
    let (_, rest) = key.split_once('{').expect("a hash tag");
    let (tag, _) = rest.split_once('}').expect("the end of a hash tag");
    assert!(!tag.is_empty());
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 })
    });
    crc % 16_384
}

fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut found) = (text.bytes(), Vec::new());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            found.push(byte);
        } else if let (Some(high), Some(low)) = (bytes.next(), bytes.next()) {
            let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
            found.push(digit(high) << 4 | digit(low));
        }
    }
    found
}
