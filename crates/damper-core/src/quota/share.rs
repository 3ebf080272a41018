//! The share of a quota that a member of a fleet has.
//!
//! A *view* is a list of the members and their weights. The members see the same views, but not at the same moment. A
//! joining member appears in the views of some members before it appears in those of others. If each member used the
//! share of its newest view, two members could use the same tokens for a while. Three rules keep the sum of the shares
//! within the quota, provided that every view arrives within the stated delay. A simulation of fleets found each rule
//! necessary (`tests/core/limit/shares.rs`):
//!
//! - A member stops if it gets no view for a time that is called its *fence*. It may be cut off from the other members.
//! - A member uses the lowest share that it had during the last `delay + fence`. So before it uses a larger share, the
//!   other members have given up the difference or have stopped.
//! - A limiter [keeps its tokens](crate::RateLimiter::set_share) when its share grows. So the added part of the share
//!   begins without tokens.

use super::Quota;
use crate::digest::Digest;
use crate::time::random::scatter;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// The number of parts of the [`hold`](LiveShare::hold), the period during which a member's old shares still count.
///
/// A member merges the shares that begin within one part into their lowest. So its memory is bounded, however often
/// members join or leave.
const PARTS: u32 = 32;

/// Divides a quota among the members of a fleet, by weight and without a server.
///
/// Each member has a `LiveShare` of its own. A *view* is a list of the members with their weights. The program
/// discovers the members (by files, DNS, an orchestrator) and passes each new list to [`view`](Self::view). A
/// `LiveShare` does no I/O and reads no clock. The caller passes the time, by any monotonic clock and counted from any
/// moment.
///
/// Every change of the members must reach each member within the delay that was given to [`new`](Self::new). If some
/// members may be cut off from the views, set [`fence_after`](Self::fence_after). Under these conditions all members
/// together allow at most the quota's burst plus what its rate adds, also while members join, leave and crash.
///
/// In return, a larger share takes effect only after the delay plus the fence, and begins without tokens. So does the
/// first share of a member, because the other members have to learn of this member first.
///
/// The rate is divided exactly. The burst is divided in whole tokens, which add up to the quota's burst. If the burst
/// has fewer tokens than the fleet has members, each member has a burst of one, so that none starves. The fleet's burst
/// is then the number of members.
///
/// Algorithm: damper's own.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::quota::LiveShare;
/// use damper::{ManualClock, Quota, RateLimiter};
///
/// let whole = Quota::per_second(300);
/// let mut share = LiveShare::new(whole, "a", Duration::from_secs(1)).fence_after(Duration::from_secs(2));
/// let limiter = RateLimiter::with_clock(whole, ManualClock::new());
/// limiter.set_share(share.terms(Duration::ZERO).quota)?; // none yet
///
/// // In a loop, whenever there is news and whenever the terms say so:
/// let now = Duration::from_secs(10);
/// share.view([("a", 1), ("b", 2)], now);
/// let terms = share.terms(now);
/// assert_eq!((terms.quota, terms.ask_again_at), (None, Some(Duration::from_secs(12))));
///
/// for seconds in [11, 12] {
///     share.view([("a", 1), ("b", 2)], Duration::from_secs(seconds)); // no change is news too
/// }
/// let terms = share.terms(Duration::from_secs(13));
/// assert_eq!(terms.quota.expect("it is a member").to_string(), "100/s burst 100");
/// limiter.set_share(terms.quota)?;
/// # Ok::<(), damper::SetQuotaError>(())
/// ```
pub struct LiveShare<M> {
    quota: Quota,
    me: M,
    late_by: Duration,
    fence: Option<Duration>,
    /// The shares that the member had during the last [`hold`](Self::hold), from the oldest to that of the newest view.
    shares: VecDeque<Share>,
    newest_news: Option<Duration>,
    /// The latest time that a caller gave.
    now: Duration,
}

/// A member's part of the quota according to one view, or to several merged views.
///
/// The lowest part of merged views counts. `quota` is `None` if the member has no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    since: Duration,
    quota: Option<Quota>,
}

/// The quota that a [`LiveShare`] has in force, and the time at which it may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct ShareTerms {
    /// The member's quota, for [`RateLimiter::set_share`](crate::RateLimiter::set_share). `None` refuses every call.
    pub quota: Option<Quota>,
    /// The time at which the terms may change without a new view, or `None` if only a view changes them.
    pub ask_again_at: Option<Duration>,
}

impl<M: AsRef<[u8]>> LiveShare<M> {
    /// Creates the share of the member `me` in `quota`.
    ///
    /// The member has no share before the first view. `views_late_by` is the longest time from a change of the members
    /// until every member knows of the change.
    pub fn new(quota: Quota, me: M, views_late_by: Duration) -> Self {
        let shares = VecDeque::from([Share { since: Duration::ZERO, quota: None }]);
        Self { quota, me, late_by: views_late_by, fence: None, shares, newest_news: None, now: Duration::ZERO }
    }

    /// Sets the time without a view after which this member stops: it then has no share. Default: never.
    ///
    /// Set this time, the *fence*, if a member can be cut off from the views. It must be longer than the usual time
    /// between two views. Each view counts, also one that changes nothing.
    ///
    /// A member that is cut off may use its old share until its fence is over. Therefore a larger share of another
    /// member waits for the delay *and* the fence, and all members of a fleet need the same fence.
    #[must_use]
    pub fn fence_after(self, fence: Duration) -> Self {
        Self { fence: Some(fence), ..self }
    }

    /// Records the members at `now`, each with its weight.
    ///
    /// This member has no share if it is not on the list or if its weight is 0. If a member is named twice, its weights
    /// add up. If `now` is before the latest time that a caller gave, that latest time counts instead.
    pub fn view<N: AsRef<[u8]>>(&mut self, members: impl IntoIterator<Item = (N, u32)>, now: Duration) {
        let now = self.reach(now);
        if let Some(fenced) = self.fenced_at().filter(|&fenced| fenced <= now) {
            // No view arrived until the fence, so the other members may have dropped this member. They have to learn
            // that it is back. Until then it has no share.
            self.push(Share { since: fenced, quota: None });
        }
        self.newest_news = Some(now);
        let members = Members::new(members);
        let quota = members.part(self.quota, self.me.as_ref());
        if self.shares.back().is_none_or(|newest| newest.quota != quota) {
            self.push(Share { since: now, quota });
        }
    }

    /// Returns the quota in force at `now`, and the time at which it may change.
    pub fn terms(&mut self, now: Duration) -> ShareTerms {
        let now = self.reach(now);
        let fenced = self.fenced_at();
        if fenced.is_some_and(|fenced| fenced <= now) {
            return ShareTerms { quota: None, ask_again_at: None };
        }
        let quota = self.shares.iter().map(|share| share.quota).reduce(lowest).flatten();
        let ask_again_at = [self.end_of_oldest(), fenced].into_iter().flatten().min();
        ShareTerms { quota, ask_again_at }
    }

    /// Returns when the oldest share stops counting: one [`hold`](Self::hold) after the next share replaced it.
    fn end_of_oldest(&self) -> Option<Duration> {
        self.shares.get(1).map(|next| next.since.saturating_add(self.hold()))
    }

    /// Returns the *hold*: the longest time for which other members may still use an older view.
    fn hold(&self) -> Duration {
        self.late_by.saturating_add(self.fence.unwrap_or_default())
    }

    fn fenced_at(&self) -> Option<Duration> {
        self.newest_news?.checked_add(self.fence?)
    }

    /// Drops the shares that no longer count. Returns the latest time that a caller gave, `now` included.
    fn reach(&mut self, now: Duration) -> Duration {
        self.now = self.now.max(now);
        while self.end_of_oldest().is_some_and(|end| end <= self.now) {
            self.shares.pop_front();
        }
        self.now
    }

    fn push(&mut self, share: Share) {
        let part = self.hold() / PARTS;
        // If the last two shares both began less than `part` before the new share, they are merged. The merged share
        // counts for a little longer than the first of the two would have counted.
        if let [.., before, last] = self.shares.make_contiguous()
            && share.since.saturating_sub(before.since) < part
        {
            before.quota = lowest(before.quota, last.quota);
            self.shares.pop_back();
        }
        self.shares.push_back(share);
    }
}

/// Shows the whole quota and the newest share, but not the program's name for the member.
impl<M> fmt::Debug for LiveShare<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let newest = self.shares.back().and_then(|share| share.quota);
        f.debug_struct("LiveShare").field("quota", &self.quota).field("newest", &newest).finish_non_exhaustive()
    }
}

/// Returns a quota with the slower rate and the smaller burst of the two, or `None` if either is `None`.
fn lowest(one: Option<Quota>, other: Option<Quota>) -> Option<Quota> {
    let (one, other) = (one?, other?);
    if one.is_unlimited() || other.is_unlimited() {
        return Some(if one.is_unlimited() { other } else { one });
    }
    let tokens = |quota: Quota, window: Quota| u128::from(quota.limit()) * u128::from(window.window_nanos());
    let slower = if tokens(one, other) <= tokens(other, one) { one } else { other };
    let max_debt = one.own_max_debt().zip(other.own_max_debt()).map(|(one, other)| one.min(other));
    let burst = one.burst_size().min(other.burst_size());
    Some(Quota::from_parts(slower.limit(), slower.window_nanos(), burst, max_debt))
}

/// The members of a view (a list of members and weights), sorted by name. All weights are above 0.
struct Members<N> {
    members: Vec<(N, u64)>,
    /// The sum of all weights.
    whole: u64,
}

impl<N: AsRef<[u8]>> Members<N> {
    fn new(members: impl IntoIterator<Item = (N, u32)>) -> Self {
        let mut members: Vec<_> = members.into_iter().map(|(name, weight)| (name, u64::from(weight))).collect();
        members.retain(|&(_, weight)| weight > 0);
        members.sort_unstable_by(|(one, _), (other, _)| one.as_ref().cmp(other.as_ref()));
        members.dedup_by(|(next, more), (name, weight)| {
            let is_same = next.as_ref() == name.as_ref();
            *weight += if is_same { *more } else { 0 };
            is_same
        });
        let whole = members.iter().map(|(_, weight)| weight).sum();
        Self { members, whole }
    }

    /// Returns the part of `quota` that the member `me` has, or `None` if `me` is not on the list.
    fn part(&self, quota: Quota, me: &[u8]) -> Option<Quota> {
        let place = self.members.binary_search_by(|(name, _)| name.as_ref().cmp(me)).ok()?;
        if quota.is_unlimited() {
            return Some(quota);
        }
        let weight = self.members[place].1;
        let (limit, window) = rate(quota, weight, self.whole);
        let max_debt = quota.own_max_debt().map(|debt| {
            let part = u128::from(debt) * u128::from(weight);
            part.div_ceil(self.whole.into()) as u32
        });
        Some(Quota::from_parts(limit, window, self.burst(quota, place), max_debt))
    }

    /// Returns how many tokens of the burst the member at `place` has.
    ///
    /// Each member has one token. The remaining tokens are divided by weight, by the method of the largest remainders.
    fn burst(&self, quota: Quota, place: usize) -> u32 {
        let Some(rest) = u64::from(quota.burst_size()).checked_sub(self.members.len() as u64) else {
            return quota.burst_size().min(1);
        };
        let part = |weight: u64| {
            let product = u128::from(rest) * u128::from(weight);
            (product / u128::from(self.whole), product % u128::from(self.whole))
        };
        let given: u128 = self.members.iter().map(|&(_, weight)| part(weight).0).sum();
        // Equal remainders are put in an order that is the same for all members and differs from quota to quota.
        let order = |place: usize| {
            let (name, weight) = &self.members[place];
            (part(*weight).1, number(quota, name.as_ref()), place)
        };
        let mine = order(place);
        let before = (0..self.members.len()).filter(|&other| order(other) > mine).count();
        let is_among_the_largest = (before as u128) < u128::from(rest) - given;
        // The member's part of `rest` is at most `rest`, which is less than the burst. So the sum fits.
        1 + part(self.members[place].1).0 as u32 + u32::from(is_among_the_largest)
    }
}

/// Returns the part `weight / whole` of the quota's rate, as a limit and a window in nanoseconds.
///
/// The window is a multiple of the quota's window, unless the numbers then do not fit. A rate that fits no quota
/// exactly is rounded down.
fn rate(quota: Quota, weight: u64, whole: u64) -> (u32, u64) {
    let limit = u128::from(quota.limit()) * u128::from(weight);
    let divisor = greatest_common_divisor(limit, whole.into());
    let (limit, window) = (limit / divisor, u128::from(quota.window_nanos()) * (u128::from(whole) / divisor));
    if let (Ok(limit), Ok(window)) = (u32::try_from(limit), u64::try_from(window)) {
        return (limit, window);
    }
    let divisor = greatest_common_divisor(limit, window);
    let (limit, window) = (limit / divisor, window / divisor);
    let excess = |number: u128, bits: u32| (u128::BITS - number.leading_zeros()).saturating_sub(bits);
    // The window is cut to 63 bits, because rounding it up may add a bit.
    let excess = excess(limit, u32::BITS).max(excess(window, u64::BITS - 1));
    ((limit >> excess) as u32, window.div_ceil(1 << excess) as u64)
}

const fn greatest_common_divisor(mut one: u128, mut other: u128) -> u128 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Returns a number that depends only on the member and the quota.
///
/// So all processes compute the same number. It only decides which members get one token more, so it need not resist
/// attackers.
fn number(quota: Quota, name: &[u8]) -> u64 {
    let hash = name.iter().fold(Digest::EMPTY, |digest, &byte| digest.with(byte.into())).get();
    scatter(hash, quota.window_nanos() ^ u64::from(quota.limit()) << 32 ^ u64::from(quota.burst_size()))
}
