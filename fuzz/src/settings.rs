//! Every setting of every type, with any value.
//!
//! Nothing panics, a refusal names the setting and its value, and accepted settings work.

use crate::input::Frequency;
use arbitrary::Arbitrary;
use damper::wire::TrustedProxies;
use damper::{ClientAddress, ManualClock, Quota};
use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;

mod breakers;
mod keys;
mod limits;

/// The maximum number of calls.
const MOST_CALLS: usize = 60;

/// A configurable type, and its calls.
#[derive(Arbitrary, Debug)]
pub struct SettingsInput<'a> {
    clock: ClockInput,
    what: What<'a>,
}

#[derive(Arbitrary, Debug)]
enum What<'a> {
    Limits(limits::LimitsInput),
    Breakers(breakers::BreakersInput),
    Keys(keys::KeysInput),
    Proxies(&'a str),
    Address(IpAddr, u32),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct ClockInput {
    frequency: AnyFrequency,
    start: u64,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum AnyFrequency {
    Usual(Frequency),
    Any(u64),
}

impl ClockInput {
    fn clock(self) -> ManualClock {
        let clock = ManualClock::with_frequency(match self.frequency {
            AnyFrequency::Usual(frequency) => frequency.hertz(),
            AnyFrequency::Any(hertz) => hertz,
        });
        clock.set_ticks(self.start);
        clock
    }
}

/// Builds the type, and uses it.
pub fn settings(input: SettingsInput<'_>) {
    let clock = input.clock.clock();
    match input.what {
        What::Limits(input) => input.run(&clock),
        What::Breakers(input) => input.run(&clock),
        What::Keys(input) => input.run(&clock),
        What::Proxies(text) => match TrustedProxies::new(text.split(',')) {
            Ok(proxies) => {
                let trusted = text.split(',').find_map(|text| text.trim().parse().ok());
                let headers = http::HeaderMap::new();
                let peer = trusted.unwrap_or(IpAddr::from([192, 0, 2, 7]));
                assert_eq!(proxies.client_of(peer, &headers), peer.to_canonical());
            }
            Err(error) => {
                assert!(text.split(',').any(|text| error.to_string().contains(&format!("{text:?}"))), "{error}")
            }
        },
        What::Address(address, bits) => {
            let client = ClientAddress::with_ipv6_prefix(address, bits);
            assert_eq!(ClientAddress::with_ipv6_prefix(client.address(), bits), client);
            assert_eq!(client.to_string().parse(), Ok(client.address()));
        }
    }
}

/// How a clock moves.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Pass {
    Nothing,
    Ticks(u16),
    Any(u64),
    Back(u32),
}

impl Pass {
    fn on(self, clock: &ManualClock) {
        match self {
            Self::Nothing => {}
            Self::Ticks(ticks) => clock.advance_ticks(ticks.into()),
            Self::Any(ticks) => clock.advance_ticks(ticks),
            Self::Back(nanos) => clock.step_back(Duration::from_nanos(nanos.into())),
        }
    }
}

/// Any duration: seconds, or nanoseconds.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum AnyDuration {
    Nanos(u32),
    Seconds(u16),
    Any(Duration),
}

impl AnyDuration {
    fn duration(self) -> Duration {
        match self {
            Self::Nanos(nanos) => Duration::from_nanos(nanos.into()),
            Self::Seconds(seconds) => Duration::from_secs(seconds.into()),
            Self::Any(duration) => duration,
        }
    }
}

/// Any quota, valid or not.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum AnyQuota {
    Unlimited { burst: Option<u32> },
    Limited { limit: u32, window: AnyDuration, burst: Option<u32>, max_debt: Option<u32> },
}

impl AnyQuota {
    fn quota(self) -> Option<Quota> {
        match self {
            Self::Unlimited { burst } => Some(burst.map_or(Quota::UNLIMITED, |burst| Quota::UNLIMITED.burst(burst))),
            Self::Limited { limit, window, burst, max_debt } => {
                let nanos = window.duration().as_nanos();
                let quota = match Quota::per(limit, window.duration()) {
                    Ok(quota) => quota,
                    Err(error) => {
                        assert!(nanos == 0 || nanos > u64::MAX.into(), "{error} of {window:?}");
                        assert_eq!(error.setting(), "window");
                        names(&error, &["window"]);
                        return None;
                    }
                };
                let quota = burst.map_or(quota, |burst| quota.burst(burst));
                let quota = max_debt.map_or(quota, |tokens| quota.max_debt(tokens));
                assert_eq!((quota.limit(), quota.window().as_nanos(), quota.is_unlimited()), (limit, nanos, false));
                assert_eq!(quota.burst_size(), burst.unwrap_or(limit));
                Some(quota)
            }
        }
    }
}

/// Checks that an error names these words.
fn names(error: &impl Error, words: &[&str]) {
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "`{text}` does not name {words:?}");
}
