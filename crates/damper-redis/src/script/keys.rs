//! The keys under which a subject is stored.

use super::slots::slot_of;
use super::{Command, SlotTags};
use core::fmt::Write as _;
use sha1_smol::Sha1;

/// The longest escaped subject or name that is stored as it is.
const LONGEST: usize = 128;

/// The length of the prefix of a longer one that is stored before its digest.
const PREFIX: usize = 64;

/// The length of the digest of a long subject, in bytes.
const DIGEST: usize = 20;

/// Calls a function with the bytes under which a process keeps a subject.
///
/// A subject of 128 bytes or less is kept as it is. Of a longer one a prefix and the SHA-1 are kept, 129 bytes in all. So clients cannot
/// make a process keep longer subjects, and a shortened subject never equals one that was kept as it is.
pub(crate) fn with_kept<R>(subject: &[u8], use_bytes: impl FnOnce(&[u8]) -> R) -> R {
    if subject.len() <= LONGEST {
        return use_bytes(subject);
    }
    let mut kept = [0; LONGEST + 1];
    let (prefix, digest) = kept.split_at_mut(LONGEST + 1 - DIGEST);
    prefix.copy_from_slice(&subject[..prefix.len()]);
    digest.copy_from_slice(&Sha1::from(subject).digest().bytes());
    use_bytes(&kept)
}

/// The keys of one subject, all in one slot of a cluster.
///
/// The marker is in that slot too, unless there is one for the whole server: [`SlotTags::single`].
///
/// | key | what it is |
/// |---|---|
/// | `damper:{SUBJECT}:NAME:INDEX` | the state of a limit |
/// | `damper:{SUBJECT}:NAME:INDEX:h:HOLDER` | a holder of its lease |
/// | `damper:{SUBJECT}:NAME:processes` | the processes that share the limit |
/// | `damper:{TAG}` | the marker of the slot, or of the server |
///
/// A subject may be any bytes. Printable ASCII is stored as it is, except for `{`, `}`, `%` and `~`, and in names `:`. Other bytes are
/// escaped as `%` and two hexadecimal digits, an empty text is `%`. If the escaped text is longer than 128 bytes, its first 64 are
/// stored, then `~` and the SHA-1 of the original text. So two subjects have the same keys only if their SHA-1 is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    marker: String,
    /// The key of a limit, without its index.
    stem: String,
    slot: usize,
}

impl Keys {
    /// Returns the keys of `subject` under the limit's `name`.
    #[must_use]
    pub fn new(tags: &SlotTags, name: &str, subject: &[u8]) -> Self {
        let mut stem = String::with_capacity("damper:{}::".len() + subject.len().min(LONGEST) + name.len());
        stem.push_str("damper:{");
        let from = stem.len();
        push_escaped(&mut stem, subject, b"");
        let slot = slot_of(&stem.as_bytes()[from..]);
        stem.push_str("}:");
        push_escaped(&mut stem, name.as_bytes(), b":");
        stem.push(':');
        // A process keeps many of these strings.
        stem.shrink_to_fit();
        Self { marker: marker(tags.tag(slot)), stem, slot }
    }

    /// Returns the marker of the subject's slot.
    #[must_use]
    pub fn marker(&self) -> &str {
        &self.marker
    }

    /// Returns the slot of all keys of the subject.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Returns the key of the limit at `index` in the subject's set.
    #[must_use]
    pub fn limit(&self, index: usize) -> String {
        format!("{}{index}", self.stem)
    }

    /// Returns the key of a holder of the subject's only limit.
    #[must_use]
    pub fn holder(&self, holder: u64) -> String {
        format!("{}0:h:{holder:016x}", self.stem)
    }

    /// Returns the key of the set of processes that share the limit.
    #[must_use]
    pub fn processes(&self) -> String {
        format!("{}processes", self.stem)
    }

    /// Returns the `KEYS` of the script for this command: the marker, the limits, and for a lease the holder.
    #[must_use]
    pub fn of(&self, command: &Command, holder: u64) -> Vec<String> {
        let mut keys = Vec::with_capacity(2 + command.limits());
        keys.push(self.marker.clone());
        keys.extend((0..command.limits()).map(|index| self.limit(index)));
        if let Command::Lease(..) = command {
            keys.push(self.holder(holder));
        }
        keys
    }
}

/// The keys of the buckets of one path, all in one slot of a cluster: that of the path's root.
///
/// | key | what it is |
/// |---|---|
/// | `damper:{ROOT}:NAME:LEVEL.DIMENSION:KEY` | a bucket of the key in the tree `NAME`; the root's own have no `KEY` |
/// | `damper:{TAG}` | the marker of the slot, or of the server |
///
/// The texts are escaped as those of [`Keys`], in the names of levels and dimensions `.` too. A name of a bucket has a `.` before its
/// `:`, so it is no name of `Keys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathKeys {
    stem: String,
    slot: usize,
    /// The marker, and then the buckets.
    names: Vec<String>,
}

impl PathKeys {
    /// Returns the keys of a path without buckets, under the tree's `name`.
    #[must_use]
    pub fn new(tags: &SlotTags, name: &str, root: &[u8]) -> Self {
        let Keys { marker, stem, slot } = Keys::new(tags, name, root);
        Self { stem, slot, names: vec![marker] }
    }

    /// Adds the bucket of a key in a level and a dimension.
    pub fn push(&mut self, level: &str, dimension: &str, key: &[u8]) {
        let mut name = self.stem.clone();
        push_escaped(&mut name, level.as_bytes(), b":.");
        name.push('.');
        push_escaped(&mut name, dimension.as_bytes(), b":.");
        name.push(':');
        if !key.is_empty() {
            push_escaped(&mut name, key, b"");
        }
        self.names.push(name);
    }

    /// Leaves out the buckets for whose index `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let mut place = 0;
        self.names.retain(|_| {
            place += 1;
            // The first is the marker.
            place == 1 || keep(place - 2)
        });
    }

    /// Returns the slot of all keys.
    #[must_use]
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Returns the `KEYS` of the script: the marker and the buckets.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// Returns the marker with this tag.
pub(super) fn marker(tag: u32) -> String {
    format!("damper:{{{tag}}}")
}

/// Appends `text` so that nothing in it ends the hash tag or the part of the key.
fn push_escaped(key: &mut String, text: &[u8], also: &[u8]) {
    let from = key.len();
    if text.is_empty() {
        key.push('%');
    }
    for &byte in text {
        match byte {
            b'{' | b'}' | b'%' | b'~' => push_hex(key, byte),
            b'!'..=b'~' if !also.contains(&byte) => key.push(char::from(byte)),
            _ => push_hex(key, byte),
        }
        if key.len() - from > LONGEST {
            // The text is ASCII, and writing to a `String` does not fail.
            key.truncate(from + PREFIX);
            let _ = write!(key, "~{}", Sha1::from(text).digest());
            return;
        }
    }
}

fn push_hex(key: &mut String, byte: u8) {
    // Writing to a `String` does not fail.
    let _ = write!(key, "%{byte:02x}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{LeaseRequest, Limit, Sighting, Terms};
    use damper_core::Quota;

    fn keys(name: &str, subject: &[u8]) -> Keys {
        Keys::new(&SlotTags::new(), name, subject)
    }

    fn escaped(subject: &[u8]) -> String {
        let mut text = String::new();
        push_escaped(&mut text, subject, b"");
        text
    }

    #[test]
    fn keys_are_readable() {
        let keys = keys("orders", b"tenant-42");
        assert_eq!(keys.limit(0), "damper:{tenant-42}:orders:0");
        assert_eq!(keys.holder(0xAB), "damper:{tenant-42}:orders:0:h:00000000000000ab");
        assert_eq!(keys.marker(), "damper:{20419}");
    }

    #[test]
    fn a_lease_has_the_key_of_its_holder() {
        let limit = Limit { terms: Terms::new(Quota::per_second(1), 1).unwrap(), seen: Sighting::default() };
        let keys = keys("a", b"b");
        assert_eq!(keys.of(&Command::Reset(vec![limit; 2]), 7), [keys.marker(), "damper:{b}:a:0", "damper:{b}:a:1"]);
        let lease = Command::Lease(limit, LeaseRequest::default());
        assert_eq!(keys.of(&lease, 7), [keys.marker(), "damper:{b}:a:0", "damper:{b}:a:0:h:0000000000000007"]);
    }

    #[test]
    fn buckets_of_a_path_are_in_the_slot_of_its_root() {
        let tags = SlotTags::new();
        let mut keys = PathKeys::new(&tags, "ai", b"acme");
        keys.push("user", "tokens", b"alice");
        keys.push("a.b:c", "d", b"}:");
        keys.push("organisation", "tokens", b"");
        let of_root = Keys::new(&tags, "ai", b"acme");
        assert_eq!(
            keys.names(),
            [
                of_root.marker(),
                "damper:{acme}:ai:user.tokens:alice",
                "damper:{acme}:ai:a%2eb%3ac.d:%7d:",
                "damper:{acme}:ai:organisation.tokens:"
            ]
        );
        assert_eq!(keys.slot(), of_root.slot());
    }

    #[test]
    fn hostile_bytes_end_no_part() {
        assert_eq!(escaped(b""), "%");
        assert_eq!(escaped(b"%"), "%25");
        assert_eq!(escaped(b"}:x"), "%7d:x");
        assert_eq!(escaped("{é~\r\n}".as_bytes()), "%7b%c3%a9%7e%0d%0a%7d");
        assert_eq!(keys("a:b", b"c").limit(0), "damper:{c}:a%3ab:0");
        assert_ne!(keys("a:0:h", b"c").limit(0), keys("a", b"c").limit(0));
    }

    #[test]
    fn kept_subjects_are_short_and_differ() {
        let kept = |subject: &[u8]| with_kept(subject, <[u8]>::to_vec);
        let longest = [b'a'; LONGEST];
        assert_eq!(kept(&longest), longest);
        let shortened = kept(&[b'a'; LONGEST + 1]);
        assert_eq!((shortened.len(), &shortened[..4]), (LONGEST + 1, &b"aaaa"[..]));
        assert_ne!(shortened, kept(&[b'a'; LONGEST + 2]));
        assert_eq!(kept(&vec![b'a'; 100_000]), kept(&vec![b'a'; 100_000]));
        assert_ne!(kept(&shortened), shortened, "one that a client makes up");
    }

    #[test]
    fn long_subjects_are_a_prefix_and_a_digest() {
        let longest = [b'a'; LONGEST];
        assert_eq!(escaped(&longest).len(), LONGEST);
        let longer = escaped(&[b'a'; LONGEST + 1]);
        assert_eq!(longer, format!("{}~d96debf1bdcbc896e6c134ea76e8141f40d78536", "a".repeat(PREFIX)));
        for length in [43, 44, 1_000, 1_000_000] {
            assert!(escaped(&vec![0xFF; length]).len() <= LONGEST, "{length} bytes");
        }
    }
}
