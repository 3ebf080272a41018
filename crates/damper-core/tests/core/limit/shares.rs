//! Shares of a quota: a fleet that divides it, and limiters that keep their tokens.
#![expect(clippy::cast_precision_loss, reason = "shares are compared to a millionth")]

use crate::models::cases::cases;
use damper::quota::LiveShare;
use damper::{Clock, ManualClock, Quota, RateLimiter};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that moves by a millisecond at each reading.
#[derive(Default)]
struct Restless(AtomicU64);

impl Clock for Restless {
    fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
    fn frequency(&self) -> u64 {
        1_000
    }
}

const NOTHING: Quota = Quota::per_second(0).max_debt(0);

/// Returns the shares of all members, each a delay after the one view that all of them had.
fn divided(quota: Quota, weights: &[u32]) -> Vec<Option<Quota>> {
    let names: Vec<_> = (0..weights.len()).map(|member| format!("member-{member}")).collect();
    let share_of = |me: &String| {
        let mut share = LiveShare::new(quota, me, Duration::from_secs(1));
        share.view(names.iter().zip(weights.iter().copied()), Duration::ZERO);
        share.terms(Duration::from_secs(1)).quota
    };
    names.iter().map(share_of).collect()
}

proptest! {
    #![proptest_config(cases(300))]

    /// The rates and the bursts of all shares add up to those of the quota, and each is of its weight.
    #[test]
    fn shares_add_up_to_the_quota(
        limit in 0..2_000_000u32,
        window in 1..10_000_000u64,
        burst in 0..5_000u32,
        weights in prop::collection::vec(prop_oneof![1 => Just(0), 6 => 1..5u32, 2 => 1..1_000u32], 1..12),
    ) {
        let window = Duration::from_micros(window);
        let quota = Quota::per(limit, window).unwrap().burst(burst);
        let whole: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        let members = weights.iter().filter(|&&weight| weight > 0).count() as u64;
        let mut burst_sum = 0;
        for (share, weight) in divided(quota, &weights).into_iter().zip(weights) {
            let Some(share) = share else {
                prop_assert_eq!(weight, 0);
                continue;
            };
            // limit · weight / (window · whole), as cross products.
            let mine = u128::from(share.limit()) * window.as_nanos() * u128::from(whole);
            let due = u128::from(limit) * u128::from(weight) * share.window().as_nanos();
            prop_assert_eq!(mine, due, "{}", share);
            let spread = u64::from(burst).saturating_sub(members) as f64 * f64::from(weight) / whole as f64;
            if u64::from(burst) >= members {
                prop_assert!((f64::from(share.burst_size()) - 1.0 - spread).abs() < 1.0, "{} of {}", share, quota);
            } else {
                prop_assert_eq!(share.burst_size(), burst.min(1));
            }
            burst_sum += u64::from(share.burst_size());
        }
        let expected = if u64::from(burst) >= members { u64::from(burst) } else { u64::from(burst.min(1)) * members };
        prop_assert_eq!(burst_sum, if members == 0 { 0 } else { expected });
    }

    /// A share that does not fit a quota's numbers is slower than its part, and hardly so.
    #[test]
    fn huge_shares_are_rounded_down(limit in any::<u32>(), window in 1..=u64::MAX, weights in prop::collection::vec(any::<u32>(), 2..6)) {
        let quota = Quota::per(limit, Duration::from_nanos(window)).unwrap();
        let whole: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
        for (share, weight) in divided(quota, &weights).into_iter().zip(weights) {
            let Some(share) = share else { continue };
            let exact = f64::from(limit) / window as f64 * f64::from(weight) / whole as f64;
            let is = f64::from(share.limit()) / share.window().as_nanos() as f64;
            prop_assert!(is <= exact * (1.0 + 1e-12), "{is} of {exact}");
            // To a token in 146 years.
            prop_assert!(is >= exact * (1.0 - 1e-9) - 1.0 / (1u64 << 62) as f64, "{is} of {exact}");
        }
    }

    /// A changed share leaves the tokens as they are, as far as there is room for them.
    #[test]
    fn tokens_stay_when_a_share_changes(steps in prop::collection::vec((0..3u8, 0..40u32, 0..30_000u64), 1..60)) {
        let whole = Quota::per_second(8).burst(40).max_debt(25);
        let clock = ManualClock::with_frequency(1_000);
        let limiter = RateLimiter::with_clock(whole, &clock);
        // Thousandths of a token; below zero is debt.
        let (mut tokens, mut quota) = (40_000i64, whole);
        for (kind, n, ticks) in steps {
            clock.advance_ticks(ticks);
            let (brought, burst) = (i64::from(quota.limit()) * ticks as i64, i64::from(quota.burst_size()) * 1_000);
            tokens = burst.min(tokens + brought);
            match kind {
                0 => tokens -= i64::from(limiter.take_up_to(n)) * 1_000,
                1 => tokens -= i64::from(limiter.charge(n)) * 1_000,
                _ => {
                    let share = (n > 0).then(|| Quota::per_second(n / 5).burst(n).max_debt(n / 2));
                    limiter.set_share(share).unwrap();
                    quota = share.unwrap_or(NOTHING);
                    tokens = tokens.min(i64::from(quota.burst_size()) * 1_000);
                }
            }
            // The limiter counts in steps that are much finer than a token, and rounds down.
            let is = i64::from(limiter.peek().remaining()) - i64::from(limiter.debt());
            prop_assert!((is * 1_000 - tokens).abs() <= 1_001, "{is} tokens, expected {tokens} thousandths");
        }
    }

    /// No token appears between the parts of a change, also on a clock that moves at each reading.
    #[test]
    fn no_token_appears_beside_a_moving_clock(shares in prop::collection::vec(1..40u32, 1..30)) {
        let clock = Restless::default();
        let limiter = RateLimiter::with_clock(Quota::per_hour(1).burst(40), &clock);
        let mut allowed = limiter.drain();
        for burst in shares {
            limiter.set_share(Some(Quota::per_hour(1).burst(burst))).unwrap();
            allowed += limiter.take_up_to(40);
        }
        prop_assert_eq!(allowed, 40);
    }

    /// In force is the lowest share of the last delay, as a list of all views says.
    #[test]
    fn the_lowest_share_of_the_last_delay_is_in_force(
        steps in prop::collection::vec((0..2_500u64, prop::collection::vec(0..4u32, 3)), 1..40),
        fence in prop_oneof![Just(None), (1_500..4_000u64).prop_map(Some)],
    ) {
        const LATE: u64 = 1_000;
        let quota = Quota::per_second(120);
        let mut live = LiveShare::new(quota, "a", Duration::from_millis(LATE));
        if let Some(fence) = fence {
            live = live.fence_after(Duration::from_millis(fence));
        }
        // Each entry is a moment and what is in force from then on: tokens per 7 s and burst, or none.
        let mut history: Vec<(u64, Option<Quota>)> = vec![(0, None)];
        let (mut now, mut news) = (0u64, None);
        for (passed, weights) in steps {
            let until = now + passed;
            while now < until {
                // Several looks between two views.
                now = (now + 137).min(until);
                let fenced = fence.zip(news).map(|(fence, news): (u64, u64)| news + fence).filter(|&fenced| fenced <= now);
                let hold = LATE + fence.unwrap_or(0);
                let first = history.iter().rposition(|&(since, _)| since + hold <= now).unwrap_or(0);
                let shares = history[first..].iter().map(|&(_, share)| share);
                let lowest = shares.min_by_key(|share| share.map_or(0, |share| share.burst_size())).flatten();
                let terms = live.terms(Duration::from_millis(now));
                let (expected, is) = (if fenced.is_some() { None } else { lowest }, terms.quota);
                // Views that followed one another fast may be merged, and count a little longer.
                let near = history.iter().rposition(|&(since, _)| since + hold + hold / 8 <= now).unwrap_or(0);
                let spaced = history[near..].windows(2).all(|two| two[1].0 - two[0].0 >= hold / 32);
                if spaced {
                    prop_assert_eq!(is.map(|share| share.burst_size()), expected.map(|share| share.burst_size()));
                } else {
                    prop_assert!(is.map_or(0, |share| share.burst_size()) <= expected.map_or(0, |share| share.burst_size()));
                }
                prop_assert!(terms.ask_again_at.is_none_or(|then| then > Duration::from_millis(now)));
            }
            if let Some((fence, last)) = fence.zip(news).filter(|(fence, last)| last + fence <= now) {
                history.push((last + fence, None));
            }
            news = Some(now);
            let members = ["a", "b", "c"].into_iter().zip(weights.iter().copied());
            live.view(members, Duration::from_millis(now));
            let mut alone = LiveShare::new(quota, "a", Duration::ZERO);
            alone.view(["a", "b", "c"].into_iter().zip(weights), Duration::ZERO);
            history.push((now, alone.terms(Duration::ZERO).quota));
        }
    }
}

/// The terms change at the moments that they name, and not before.
#[test]
fn terms_say_when_to_ask_again() {
    let seconds = Duration::from_secs;
    let mut share = LiveShare::new(Quota::per_second(60), "a", seconds(2));
    assert_eq!(share.terms(seconds(0)).ask_again_at, None);
    share.view([("a", 1)], seconds(5));
    assert_eq!((share.terms(seconds(6)).quota, share.terms(seconds(6)).ask_again_at), (None, Some(seconds(7))));
    assert_eq!(share.terms(seconds(7)).quota, Some(Quota::per_second(60)));
    share.view([("a", 1), ("b", 2)], seconds(8));
    assert_eq!(share.terms(seconds(8)).quota, Some(Quota::per_second(20)), "less at once");
    share.view([("a", 1)], seconds(9));
    assert_eq!(share.terms(seconds(9)).quota, Some(Quota::per_second(20)), "more after the delay");
    assert_eq!(share.terms(seconds(9)).ask_again_at, Some(seconds(10)), "since then the whole does not count");
    assert_eq!(share.terms(seconds(10)).quota, Some(Quota::per_second(20)), "the one third counts until 11 s");
    assert_eq!(share.terms(seconds(11)).quota, Some(Quota::per_second(60)));
    assert_eq!(share.terms(seconds(10)).quota, Some(Quota::per_second(60)), "time does not go back");
    assert_eq!(share.terms(seconds(11)).ask_again_at, None);
}

/// A member without news stops, and its first share after that waits as that of a new member.
#[test]
fn member_without_news_stops() {
    let seconds = Duration::from_secs;
    let mut share = LiveShare::new(Quota::per_second(60), "a", seconds(2)).fence_after(seconds(10));
    for now in [0, 8, 16] {
        share.view([("a", 1)], seconds(now));
    }
    assert_eq!(share.terms(seconds(16)).ask_again_at, Some(seconds(26)));
    assert_eq!(share.terms(seconds(25)).quota, Some(Quota::per_second(60)));
    let terms = share.terms(seconds(26));
    assert_eq!((terms.quota, terms.ask_again_at), (None, None), "fenced");
    for now in [30, 36, 41] {
        share.view([("a", 1)], seconds(now));
        assert_eq!(share.terms(seconds(now)).quota, None, "the others have to learn of it");
    }
    assert_eq!(share.terms(seconds(42)).quota, Some(Quota::per_second(60)));
}

/// Two views of one member in which it has two names' weights, or none.
#[test]
fn members_named_twice_and_without_weight() {
    let mut share = LiveShare::new(Quota::per_second(60), "a", Duration::ZERO);
    share.view([("a", 1), ("b", 1), ("a", 1)], Duration::ZERO);
    assert_eq!(share.terms(Duration::ZERO).quota, Some(Quota::per_second(40)));
    share.view([("a", 0), ("b", 1)], Duration::ZERO);
    assert_eq!(share.terms(Duration::ZERO).quota, None);
    let mut unlimited = LiveShare::new(Quota::UNLIMITED, "a", Duration::ZERO);
    unlimited.view([("a", 1), ("b", 1)], Duration::ZERO);
    assert_eq!(unlimited.terms(Duration::ZERO).quota, Some(Quota::UNLIMITED));
}

/// Views that change at every millisecond take bounded memory, and a share comes back a delay later.
#[test]
fn fast_changes_are_merged() {
    let mut share = LiveShare::new(Quota::per_second(60), "a", Duration::from_secs(1));
    for now in 0..20_000u64 {
        share.view([("a", 1), ("b", (now % 2) as u32)], Duration::from_millis(now));
    }
    assert_eq!(share.terms(Duration::from_secs(20)).quota, Some(Quota::per_second(30)));
    share.view([("a", 1)], Duration::from_secs(20));
    assert_eq!(share.terms(Duration::from_millis(20_999)).quota, Some(Quota::per_second(30)));
    assert_eq!(share.terms(Duration::from_millis(21_040)).quota, Some(Quota::per_second(60)));
}

mod fleet {
    //! A fleet of greedy members on one clock, whose views are late, and what they take together.

    use super::*;
    use crate::models::seed::seed;

    const STEP: u64 = 20;
    const STEPS: u64 = 9_000;
    /// The others drop a member of whom they have heard nothing for so long.
    const DROPPED_AFTER: u64 = 3_000;

    /// How the members use their views.
    #[derive(Clone, Copy)]
    struct Rule {
        /// The part of the true delay that a member is told.
        told: f64,
        fence: Fence,
        keeps_tokens: bool,
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Fence {
        None,
        Ours,
        /// A member without news stops, but the others give its share away as if it knew what they know.
        NotWaitedFor,
    }

    const OURS: Rule = Rule { told: 1.0, fence: Fence::Ours, keeps_tokens: true };
    const WITHOUT_FENCE: Rule = Rule { fence: Fence::None, ..OURS };

    struct Draw(u64);

    impl Draw {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }
    }

    struct Member<'a> {
        name: String,
        weight: u32,
        share: LiveShare<String>,
        limiter: RateLimiter<damper::TokenBucket, &'a ManualClock>,
        /// Views on their way: when each arrives, and what it says.
        coming: Vec<(u64, Vec<(String, u32)>)>,
        cut_off_until: u64,
        heard_at: u64,
        fenced_at: u64,
        saves: bool,
    }

    impl<'a> Member<'a> {
        fn joining(
            name: String,
            share: LiveShare<String>,
            limiter: RateLimiter<damper::TokenBucket, &'a ManualClock>,
            now: u64,
            draw: &mut Draw,
        ) -> Self {
            let (weight, saves) = (1 + draw.below(3) as u32, draw.below(2) == 0);
            let (coming, cut_off_until, fenced_at) = (Vec::new(), 0, 0);
            Self { name, weight, share, limiter, coming, cut_off_until, heard_at: now, fenced_at, saves }
        }
    }

    /// Returns the excess in bursts, and the part of the quota that was not used.
    fn run(rule: Rule, late: u64, cuts: bool, quota: Quota, seed: u64) -> (f64, f64) {
        let mut draw = Draw(seed | 1);
        let clock = ManualClock::with_frequency(1_000);
        clock.set_ticks(1_000);
        let fence = late + 6_000;
        let rate = f64::from(quota.limit()) / quota.window().as_millis() as f64;
        let burst = f64::from(quota.burst_size());
        let (mut level, mut excess, mut used) = (burst, 0.0f64, 0.0);
        let mut members: Vec<Member<'_>> = Vec::new();
        let mut joined = 0;
        let mut listed: Vec<(String, u32)> = Vec::new();
        for step in 0..STEPS {
            let now = step * STEP;
            clock.set_ticks(1_000 + now);
            level = burst.min(level + rate * STEP as f64);
            let mut changed = false;
            // At first several join, then one event in 15 s.
            if step < 5 || draw.below(15_000 / STEP) == 0 {
                match draw.below(if cuts { 4 } else { 3 }) {
                    _ if step < 5 || (members.len() < 8 && draw.below(2) == 0) => {
                        joined += 1;
                        let name = format!("member-{joined}");
                        let told = Duration::from_millis((late as f64 * rule.told) as u64);
                        let mut share = LiveShare::new(quota, name.clone(), told);
                        if rule.fence == Fence::Ours {
                            share = share.fence_after(Duration::from_millis(fence));
                        }
                        let limiter = RateLimiter::with_clock(quota, &clock);
                        if rule.keeps_tokens {
                            limiter.set_share(None).unwrap();
                        }
                        members.push(Member::joining(name, share, limiter, now, &mut draw));
                    }
                    1 | 2 if members.len() > 3 => {
                        // It leaves, or it crashes: then the others list it until they drop it.
                        let gone = draw.below(members.len() as u64) as usize;
                        let gone = members.remove(gone);
                        if draw.below(2) == 0 {
                            listed.retain(|(name, _)| *name != gone.name);
                            changed = true;
                        }
                    }
                    3 => {
                        let cut_off = draw.below(members.len() as u64) as usize;
                        members[cut_off].cut_off_until = now + 2_000 + draw.below(30_000);
                        members[cut_off].coming.clear();
                    }
                    _ => {}
                }
            }
            for member in &mut members {
                if member.cut_off_until <= now {
                    member.heard_at = now;
                    if !listed.iter().any(|(name, _)| *name == member.name) {
                        listed.push((member.name.clone(), member.weight));
                        changed = true;
                    }
                }
            }
            let before = listed.len();
            listed.retain(|(name, _)| {
                members
                    .iter()
                    .find(|member| member.name == *name)
                    .is_some_and(|member| now < member.heard_at + DROPPED_AFTER)
            });
            changed |= listed.len() != before;
            // News of what changed, and once a second of what did not.
            if changed || step % (1_000 / STEP) == 0 {
                for member in members.iter_mut().filter(|member| member.cut_off_until <= now) {
                    // Views do not overtake one another.
                    let arrives = now + if late == 0 { 0 } else { draw.below(late) };
                    let arrives = member.coming.last().map_or(arrives, |&(last, _)| arrives.max(last));
                    member.coming.push((arrives, listed.clone()));
                }
            }
            for member in &mut members {
                while member.coming.first().is_some_and(|&(arrives, _)| arrives <= now) {
                    let (_, view) = member.coming.remove(0);
                    member.share.view(view, Duration::from_millis(now));
                    member.fenced_at = now + fence;
                }
                let is_fenced = rule.fence == Fence::NotWaitedFor && member.fenced_at <= now;
                let share = member.share.terms(Duration::from_millis(now)).quota.filter(|_| !is_fenced);
                if member.limiter.quota() != share.unwrap_or(NOTHING) {
                    if rule.keeps_tokens {
                        member.limiter.set_share(share).unwrap();
                    } else {
                        member.limiter.set_quota(share.unwrap_or(NOTHING)).unwrap();
                    }
                }
                // Half of the members take what there is at once, the others when their bucket is full.
                let is_full = member.limiter.peek().remaining() == member.limiter.quota().burst_size();
                if !member.saves || is_full {
                    let taken = f64::from(member.limiter.take_up_to(u32::MAX));
                    (level, used) = (level - taken, used + taken);
                }
            }
            excess = excess.max(-level);
        }
        // The burst of the start is used too.
        (excess / burst, 1.0 - (used - burst) / (rate * (STEPS * STEP) as f64))
    }

    const QUOTA: Quota = Quota::per_second(1_000).burst(500);

    /// Runs many fleets of a rule.
    fn fleets(rule: Rule, late: u64, cuts: bool) -> impl Iterator<Item = (f64, f64)> {
        let seed = |fleet: u64| seed().wrapping_mul(31).wrapping_add(fleet * 77_777 + 1);
        (0..).map(move |fleet| run(rule, late, cuts, QUOTA, seed(fleet)))
    }

    /// A member's limiter may be early by a tick: 8 members of at most 1,000 tokens a second in all.
    const TICK: f64 = 8.0 / 500.0;

    // CLAIM: LiveShare
    #[test]
    fn members_never_exceed_the_quota_together() {
        for (late, cuts) in [(0, false), (1_000, false), (5_000, false), (0, true), (1_000, true), (5_000, true)] {
            let rule = if cuts { OURS } else { WITHOUT_FENCE };
            let runs: Vec<_> = fleets(rule, late, cuts).take(4).collect();
            let excess = runs.iter().map(|&(excess, _)| excess).fold(0.0, f64::max);
            let unused = runs.iter().map(|&(_, unused)| unused).sum::<f64>() / 4.0;
            println!("late by {late} ms, cut off {cuts}: excess {excess:.3} bursts, unused {:.1} %", unused * 100.0);
            assert!(excess <= TICK, "late by {late} ms: {excess} bursts beyond the quota");
            assert!(cuts || unused < 0.03 + late as f64 * 0.000_03, "late by {late} ms: {unused} unused");
        }
    }

    /// Each of the rules is needed: without it some fleet of many exceeds the quota.
    #[test]
    fn each_rule_is_needed() {
        for (name, rule, late, cuts) in [
            ("with a larger share at once", Rule { told: 0.0, ..WITHOUT_FENCE }, 5_000, false),
            ("without the fence", WITHOUT_FENCE, 1_000, true),
            ("with a hold that does not wait for the fence", Rule { fence: Fence::NotWaitedFor, ..OURS }, 1_000, true),
            ("with the debt kept instead of the tokens", Rule { keeps_tokens: false, ..WITHOUT_FENCE }, 0, false),
        ] {
            let found = fleets(rule, late, cuts).take(60).position(|(excess, _)| excess > 5.0 * TICK);
            println!("{name}: a fleet exceeds the quota after {found:?} that did not");
            assert!(found.is_some(), "{name}: no fleet exceeds the quota");
        }
    }

    /// With fewer tokens than members each is served, and the excess is at most one token for each.
    // CLAIM: LiveShare
    #[test]
    fn small_quota_serves_everyone() {
        let (excess, unused) = run(WITHOUT_FENCE, 1_000, false, Quota::per_second(3), seed());
        println!("3/s: excess {excess:.3} bursts, unused {:.1} %", unused * 100.0);
        assert!(excess * 3.0 <= 8.0, "{excess} bursts");
        assert!(unused < 0.4, "{unused} unused");
    }
}
