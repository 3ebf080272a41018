//! A table that is large enough, against a map of slow buckets.

use crate::input::MOST_STEPS;
use crate::models::keys::{self, Answer, CLOCK_TICKS, Keys, Settings};
use arbitrary::Arbitrary;
use damper::{Allowed, Denied, KeyedLimiter, ManualClock, WhenFull};
use std::hash::{BuildHasherDefault, Hasher};

/// So few keys that each certainly has a slot, and room in its line of shared words.
const KEYS: u64 = 13;

/// Hashes a `u64` to itself.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64 here")
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// A limiter, and the operations on its keys and quotas.
#[derive(Arbitrary, Debug)]
pub struct KeyedInput {
    tiers: [SettingsInput; keys::TIERS],
    /// How many of the tiers the limiter is built without.
    later: u8,
    shares: bool,
    /// An operation on a key, after this many milliseconds.
    steps: Vec<(u8, Pass, Step)>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct SettingsInput {
    rate_log2: u8,
    burst: u8,
    max_debt: u8,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Pass {
    Nothing,
    Short(u8),
    Long(u16),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Check(u8),
    CheckAny(u32),
    Charge(u8),
    Refund(u8),
    Reset,
    SetTier(u8),
    ClearTier,
    Retier,
    AddTier(SettingsInput),
    SetQuotas([(u8, SettingsInput); 2]),
    Clear,
}

impl SettingsInput {
    fn settings(self) -> Settings {
        Settings {
            rate_log2: u32::from(self.rate_log2 % 7),
            burst: u32::from(self.burst % 20) + 1,
            max_debt: u32::from(self.max_debt % 30),
        }
    }
}

/// Compares the limiter with the map.
pub fn keyed(input: KeyedInput) {
    let built = keys::TIERS - usize::from(input.later) % keys::TIERS;
    let tiers = Vec::from(&input.tiers.map(SettingsInput::settings)[..built]);
    let clock = ManualClock::with_frequency(keys::FREQUENCY);
    let limits = KeyedLimiter::<u64>::builder(tiers[0].quota())
        .tiers(tiers[1..].iter().map(|tier| tier.quota()), |key| Keys::own_tier(*key))
        .capacity(1_000)
        .when_full(if input.shares { WhenFull::SharedOverflow } else { WhenFull::DenyNew })
        .clock(&clock)
        .hasher(BuildHasherDefault::<Identity>::default())
        .build()
        .expect("the capacity is in its range");
    let mut model = Keys::new(tiers, input.shares);
    for (key, pass, step) in input.steps.into_iter().take(MOST_STEPS) {
        let key = u64::from(key) % KEYS + 1;
        let millis = match pass {
            Pass::Nothing => 0,
            Pass::Short(millis) => millis.into(),
            Pass::Long(millis) => millis,
        };
        clock.advance_ticks(u64::from(millis) * CLOCK_TICKS);
        model.pass(millis.into());
        if matches!(step, Step::Charge(_)) && model.mixes_tiers(key) {
            limits.clear();
            model.clear();
        }
        if matches!(step, Step::SetTier(_) | Step::ClearTier | Step::Retier) && model.was_moved(key) {
            limits.reset(&key);
            model.reset(key);
        }
        match step {
            Step::Check(n) => check(limits.check_n(&key, n.into()), model.check(key, n.into())),
            Step::CheckAny(n) => check(limits.check_n(&key, n), model.check(key, n)),
            Step::Charge(n) => assert_eq!(limits.charge(&key, n.into()), model.charge(key, n.into())),
            Step::Refund(n) => assert_eq!(limits.refund(&key, n.into()), model.refund(key, n.into())),
            Step::Reset => {
                limits.reset(&key);
                model.reset(key);
            }
            Step::SetTier(tier) => {
                let tier = usize::from(tier) % model.tiers();
                assert_eq!(limits.set_tier(&key, tier), Ok(()));
                model.give_tier(key, Some(tier));
            }
            Step::ClearTier => {
                limits.clear_tier(&key);
                model.give_tier(key, None);
            }
            Step::Retier => {
                limits.retier(&key);
                model.retier(key);
            }
            Step::AddTier(settings) if model.tiers() < keys::TIERS => {
                assert_eq!(limits.add_tier(settings.settings().quota()), Ok(model.tiers()));
                model.add_tier(settings.settings());
            }
            Step::AddTier(_) => {}
            Step::SetQuotas(quotas) => {
                let quotas = quotas.map(|(tier, settings)| (usize::from(tier % 4), settings.settings()));
                let result = limits.set_tier_quotas(quotas.map(|(tier, settings)| (tier, settings.quota())));
                assert_eq!(result.is_ok(), model.set_quotas(&quotas));
            }
            Step::Clear => {
                limits.clear();
                model.clear();
            }
        }
        let usage = limits.peek(&key);
        assert_eq!((usage.limit(), i64::from(usage.remaining())), model.peek(key));
        let counts = (limits.len(), limits.overflows(), limits.evictions());
        assert_eq!(counts, (model.len(), 0, 0));
    }
}

fn check(found: Result<Allowed, Denied>, expected: Answer) {
    let answer = match (found, expected) {
        (Ok(allowed), _) => Answer::Allowed { remaining: allowed.remaining().into() },
        (Err(denied), _) if denied.exceeds_burst() => Answer::ExceedsBurst { remaining: denied.remaining().into() },
        (Err(denied), Answer::Denied { wait: (least, more), .. }) => {
            let wait = denied.retry_after().expect("all quotas refill").as_nanos();
            assert!((least..=least + more).contains(&wait), "{wait} ns where {least} were expected");
            Answer::Denied { remaining: denied.remaining().into(), wait: (least, more) }
        }
        (Err(denied), expected) => panic!("{denied:?} where {expected:?} was expected"),
    };
    assert_eq!(answer, expected);
}
