//! `RateLimit` with members and lines chosen by the fuzzer, beside other headers.
//!
//! Some members and headers are malformed.

use arbitrary::Arbitrary;
use damper::wire::{RATE_LIMIT, RateLimitStatus};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::cmp::Reverse;
use std::ops::Range;
use std::time::Duration;

/// The members of the header, and other limits.
#[derive(Arbitrary, Debug)]
pub struct RateLimitInput {
    members: Vec<Member>,
    others: Vec<Other>,
}

/// A limit in headers of its own.
#[derive(Arbitrary, Debug)]
struct Other {
    /// An index of `NAMES`.
    names: u8,
    remaining: u16,
    /// Seconds from now.
    reset: Option<u16>,
    limit: Option<u16>,
    fault: Option<OtherFault>,
}

/// Why the requests that are left are not read.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum OtherFault {
    Absent,
    Twice,
    Negative,
    Text,
    Empty,
}

/// The beginnings and ends of names, in the order in which they are read.
const NAMES: [[&str; 2]; 9] = [
    ["ratelimit-", ""],
    ["x-ratelimit-", ""],
    ["x-rate-limit-", ""],
    ["x-ratelimit-", "-requests"],
    ["x-ratelimit-", "-tokens"],
    ["anthropic-ratelimit-requests-", ""],
    ["anthropic-ratelimit-tokens-", ""],
    ["anthropic-ratelimit-input-tokens-", ""],
    ["anthropic-ratelimit-output-tokens-", ""],
];

/// A limit as it is read: what remains, the time until the reset, and the limit.
type Status = (u64, Option<Duration>, Option<u64>);

impl Other {
    fn write(&self, headers: &mut HeaderMap) {
        let [prefix, suffix] = NAMES[usize::from(self.names) % NAMES.len()];
        let name = |part| HeaderName::try_from(format!("{prefix}{part}{suffix}")).expect("a name");
        let remaining = self.remaining.to_string();
        let values = match self.fault {
            None => vec![remaining],
            Some(OtherFault::Absent) => vec![],
            Some(OtherFault::Twice) => vec![remaining.clone(), remaining],
            Some(OtherFault::Negative) => vec![format!("-{remaining}")],
            Some(OtherFault::Text) => vec![format!("{remaining}x")],
            Some(OtherFault::Empty) => vec![String::new()],
        };
        let value = |text: String| HeaderValue::try_from(text).expect("a header can contain digits");
        values.into_iter().for_each(|text| _ = headers.append(name("remaining"), value(text)));
        for (part, number) in [("reset", self.reset), ("limit", self.limit)] {
            headers.extend(number.map(|number| (name(part), value(number.to_string()))));
        }
    }

    fn status(&self) -> Option<Status> {
        let reset = self.reset.map(|seconds| Duration::from_secs(seconds.into()));
        self.fault.is_none().then(|| (self.remaining.into(), reset, self.limit.map(u64::from)))
    }
}

/// Returns the limit that is read where `RateLimit` says nothing. `limits` has one for each of `NAMES`.
fn other_status(limits: &[Option<Status>; 9]) -> Option<Status> {
    let service = |requests: usize, tokens: Range<usize>| {
        let empty = limits[tokens].iter().flatten().filter(|(remaining, ..)| *remaining == 0);
        let empty = empty.map(|&(remaining, reset, _)| (remaining, reset, None));
        limits[requests].into_iter().chain(empty).min_by_key(|&(remaining, reset, _)| (remaining, Reverse(reset)))
    };
    let custom = limits[..3].iter().copied().flatten().next();
    custom.or_else(|| service(3, 4..5)).or_else(|| service(5, 6..9))
}

#[derive(Arbitrary, Debug)]
struct Member {
    remaining: u32,
    reset: Option<u32>,
    fault: Option<Fault>,
    begins_line: bool,
}

/// The mistake of a malformed member.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Fault {
    IsToken,
    IsInnerList,
    HasNoRemaining,
    IsNegative,
    IsDecimal,
    ResetIsText,
    HasByte(u8),
}

/// The maximum number of members that are read.
const MOST: usize = 32;

impl Member {
    /// Writes the member.
    fn bytes(&self) -> Vec<u8> {
        let Self { remaining, reset, fault, .. } = self;
        let reset = reset.map_or(String::new(), |reset| format!(";t={reset}"));
        match fault {
            None => format!(r#""name";r={remaining}{reset}"#),
            Some(Fault::IsToken) => format!("name;r={remaining}{reset}"),
            Some(Fault::IsInnerList) => format!(r#"("name");r={remaining}{reset}"#),
            Some(Fault::HasNoRemaining) => format!(r#""name"{reset}"#),
            Some(Fault::IsNegative) => format!(r#""name";r=-{}{reset}"#, u64::from(*remaining) + 1),
            Some(Fault::IsDecimal) => format!(r#""name";r={remaining}.0{reset}"#),
            Some(Fault::ResetIsText) => format!(r#""name";r={remaining};t="1""#),
            // Strings of RFC 9651 have no such bytes.
            Some(Fault::HasByte(byte)) => return [b"\"", &[byte | 0x80][..], b"\";r=1"].concat(),
        }
        .into_bytes()
    }
}

/// Compares the parsed status with the member that has the least left.
pub fn rate_limit_status(input: RateLimitInput) {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for member in &input.members {
        match lines.last_mut() {
            Some(line) if !member.begins_line => line.extend([b", ", &member.bytes()[..]].concat()),
            _ => lines.push(member.bytes()),
        }
    }
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(RATE_LIMIT, HeaderValue::from_bytes(&line).expect("a header can contain these bytes"));
    }
    let mut limits = [None; NAMES.len()];
    let mut is_written = [false; NAMES.len()];
    for other in &input.others {
        let names = usize::from(other.names) % NAMES.len();
        if !std::mem::replace(&mut is_written[names], true) {
            other.write(&mut headers);
            limits[names] = other.status();
        }
    }
    let is_malformed = input.members.len() > MOST || input.members.iter().any(|member| member.fault.is_some());
    let least = input.members.iter().map(|member| (member.remaining, Reverse(member.reset))).min();
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let least = least.filter(|_| !is_malformed);
    let least = least.map(|(remaining, Reverse(reset))| (remaining.into(), reset.map(seconds), None));
    let read = RateLimitStatus::in_headers(&headers);
    assert_eq!(
        read.map(|status| (status.remaining, status.resets_in, status.limit)),
        least.or_else(|| other_status(&limits)),
        "{headers:?}"
    );
    if let Some(pace) = read.and_then(|status| status.pace()) {
        assert!(read.is_some_and(|status| Some(pace) <= status.resets_in), "{pace:?} in {headers:?}");
    }
}
