//! `RateLimit` with members and lines chosen by the fuzzer.
//!
//! Some members are malformed.

use arbitrary::Arbitrary;
use damper::wire::{RATE_LIMIT, RateLimitStatus};
use http::{HeaderMap, HeaderValue};
use std::cmp::Reverse;
use std::time::Duration;

/// The members of the header.
#[derive(Arbitrary, Debug)]
pub struct RateLimitInput {
    members: Vec<Member>,
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
    let is_malformed = input.members.len() > MOST || input.members.iter().any(|member| member.fault.is_some());
    let least = input.members.iter().map(|member| (member.remaining, Reverse(member.reset))).min();
    let expected = least.filter(|_| !is_malformed);
    let read = RateLimitStatus::in_headers(&headers);
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    assert_eq!(
        read.map(|status| (status.remaining, status.resets_in)),
        expected.map(|(remaining, Reverse(reset))| (remaining.into(), reset.map(seconds))),
        "{headers:?}"
    );
    if let Some(pace) = read.and_then(|status| status.pace()) {
        assert!(read.is_some_and(|status| Some(pace) <= status.resets_in), "{pace:?} in {headers:?}");
    }
}
