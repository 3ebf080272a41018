//! Limits of prefixes that are wider than a client's own, in one decision with its own.

use super::keyed_limit::{limited, quota_of};
use super::{Detail, LimitAnswer, Refusal, Standing};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::BuildHasher;
use core::net::{IpAddr, Ipv4Addr};
use core::ops::Deref;
use damper_core::decision_log::{DecisionLog, Logged};
use damper_core::gate::Forecast;
use damper_core::internal::{log_decision, refusal, revoke, take_revocably};
use damper_core::keyed::{ClientAddress, KeyedLimiter};
use damper_core::limit::{Allowed, Denied, KeyedAlgorithm};
use damper_core::quota::Quota;
use damper_core::time::Clock;

/// By which bits addresses of one family are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    V4(u32),
    V6(u32),
}

impl Prefix {
    pub(super) fn bits(self) -> u32 {
        match self {
            Self::V4(bits) => bits.min(u32::BITS),
            Self::V6(bits) => bits.min(u128::BITS),
        }
    }

    /// The group of an address, which is the whole address of a client; `None` for one of the other family.
    fn group(self, address: IpAddr) -> Option<ClientAddress> {
        match (self, address) {
            (Self::V4(_), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(u32::BITS - self.bits()).unwrap_or(0);
                Some(IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask)).into())
            }
            (Self::V6(bits), IpAddr::V6(_)) => Some(ClientAddress::with_ipv6_prefix(address, bits)),
            (Self::V4(_), IpAddr::V6(_)) | (Self::V6(_), IpAddr::V4(_)) => None,
        }
    }
}

/// `ipv6/48`.
impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self {
            Self::V4(_) => "ipv4",
            Self::V6(_) => "ipv6",
        };
        write!(f, "{family}/{}", self.bits())
    }
}

/// A limit for each prefix of one length.
#[derive(Clone, Debug)]
struct PrefixLimit<T> {
    prefix: Prefix,
    limits: T,
}

/// A limiter to which tokens can be given back, as the decision of several limits needs.
pub(super) type Local<C, S, A> = Arc<KeyedLimiter<ClientAddress, C, S, A>>;

/// A limiter to which tokens can be given back, of which the decisions may be logged.
pub(super) trait LocalLimit {
    type Clock: Clock;
    type Hasher: BuildHasher;
    type Algorithm: KeyedAlgorithm;

    fn limiter(&self) -> &KeyedLimiter<ClientAddress, Self::Clock, Self::Hasher, Self::Algorithm>;

    /// Logs the answer of all limits to a request of a client, if decisions are logged.
    fn record<T, E>(&self, client: &ClientAddress, cost: u32, answer: &Result<T, E>);
}

impl<C: Clock, S: BuildHasher, A: KeyedAlgorithm> LocalLimit for Local<C, S, A> {
    type Clock = C;
    type Hasher = S;
    type Algorithm = A;

    fn limiter(&self) -> &KeyedLimiter<ClientAddress, C, S, A> {
        self
    }

    fn record<T, E>(&self, _: &ClientAddress, _: u32, _: &Result<T, E>) {}
}

impl<C, S, A, D, G> LocalLimit for Logged<Local<C, S, A>, G>
where
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
    D: Clock,
    G: Deref<Target = DecisionLog<D>>,
{
    type Clock = C;
    type Hasher = S;
    type Algorithm = A;

    fn limiter(&self) -> &KeyedLimiter<ClientAddress, C, S, A> {
        self.limiter()
    }

    fn record<T, E>(&self, client: &ClientAddress, cost: u32, answer: &Result<T, E>) {
        log_decision(self.limiter(), client, cost, answer, self.log());
    }
}

/// Takes the cost of the client's own limit and of those of the prefixes, or of none.
type DecideTogether<T> = fn(&T, ClientAddress, IpAddr, &[PrefixLimit<T>], u32, Detail) -> LimitAnswer;

/// Says what they would answer, and takes nothing.
type ForecastTogether<T> = fn(&T, ClientAddress, IpAddr, &[PrefixLimit<T>], u32) -> Forecast<Refusal>;

/// The limits of the prefixes that a client is in.
#[derive(Clone, Debug)]
pub(super) struct PrefixLimits<T> {
    /// The longest prefix first.
    limits: Vec<PrefixLimit<T>>,
    /// [`decide`] for the local limiter that `T` is. A function pointer, so that no other `T` has to have one.
    decide: DecideTogether<T>,
    forecast: ForecastTogether<T>,
}

impl<T: LocalLimit> PrefixLimits<T> {
    pub(super) fn new() -> Self {
        Self { limits: Vec::new(), decide, forecast }
    }
}

impl<T> PrefixLimits<T> {
    pub(super) fn add(&mut self, prefix: Prefix, limits: T) {
        let place = self.limits.partition_point(|other| other.prefix.bits() >= prefix.bits());
        self.limits.insert(place, PrefixLimit { prefix, limits });
    }

    /// Takes the cost of a client's `own` limit and of those of all prefixes that it is in, or of none.
    #[inline]
    pub(super) fn decide(
        &self,
        own: &T,
        client: ClientAddress,
        address: IpAddr,
        cost: u32,
        detail: Detail,
    ) -> LimitAnswer {
        (self.decide)(own, client, address, &self.limits, cost, detail)
    }

    /// Returns what [`decide`](Self::decide) would answer now, and takes nothing.
    pub(super) fn forecast(&self, own: &T, client: ClientAddress, address: IpAddr, cost: u32) -> Forecast<Refusal> {
        (self.forecast)(own, client, address, &self.limits, cost)
    }

    /// Calls this for the limit of each prefix that an address is in, with the group.
    pub(super) fn for_each_limit(&self, address: IpAddr, call: impl Fn(&T, ClientAddress)) {
        let address = canonical(address);
        for PrefixLimit { prefix, limits } in &self.limits {
            if let Some(group) = prefix.group(address) {
                call(limits, group);
            }
        }
    }
}

impl<T> PrefixLimits<T> {
    /// Returns the same prefixes with other limits.
    pub(super) fn map<U: LocalLimit>(&self, limits: impl Fn(&T, Prefix) -> U) -> PrefixLimits<U> {
        let of =
            |limit: &PrefixLimit<T>| PrefixLimit { prefix: limit.prefix, limits: limits(&limit.limits, limit.prefix) };
        PrefixLimits { limits: self.limits.iter().map(of).collect(), decide, forecast }
    }
}

#[cfg(feature = "metrics")]
impl<T: damper_metrics::Source> PrefixLimits<T> {
    /// Reads the limits, each with its prefix as a label.
    pub(super) fn read(&self, readings: &damper_metrics::Readings<'_>) {
        for PrefixLimit { prefix, limits } in &self.limits {
            limits.read(&readings.with("prefix", alloc::format!("{prefix}")));
        }
    }
}

/// The decision of one of the limits on a key.
struct PrefixDecision<'a, T, C, S, A> {
    answer: T,
    limits: &'a KeyedLimiter<ClientAddress, C, S, A>,
    key: ClientAddress,
    /// The prefix whose limit decided; `None` for the client's own.
    prefix: Option<Prefix>,
}

/// The decision of all limits together.
type CombinedDecision<'a, C, S, A> = Result<PrefixDecision<'a, Allowed, C, S, A>, PrefixDecision<'a, Denied, C, S, A>>;

impl<T, C: Clock, S: BuildHasher, A: KeyedAlgorithm> PrefixDecision<'_, T, C, S, A> {
    fn quota(&self) -> Quota {
        quota_of(self.limits, &self.key)
    }
}

/// Returns an address in the family that the client is of, whatever form it came in.
fn canonical(address: IpAddr) -> IpAddr {
    ClientAddress::with_ipv6_prefix(address, u128::BITS).address()
}

/// Takes the cost of a client's limit and of those of all prefixes that it is in, or of none.
///
/// The prefixes are in their order, the narrowest first.
fn decide<T: LocalLimit>(
    own: &T,
    client: ClientAddress,
    address: IpAddr,
    prefixes: &[PrefixLimit<T>],
    cost: u32,
    detail: Detail,
) -> LimitAnswer {
    let answer = take_all(own.limiter(), client, None, canonical(address), prefixes, cost);
    own.record(&client, cost, &answer);
    match answer {
        Ok(decision) => {
            Ok(detail
                .then(|| Standing::new(decision.quota(), decision.answer.remaining(), decision.answer.resets_in())))
        }
        Err(PrefixDecision { answer, limits, key, prefix }) => {
            Err(limited(limits, &key, answer).of_prefix(prefix).into())
        }
    }
}

/// Returns what [`decide`] would answer now.
///
/// That is the refusal with the longest wait, or the standing of the limit with the fewest tokens.
fn forecast<T: LocalLimit>(
    own: &T,
    client: ClientAddress,
    address: IpAddr,
    prefixes: &[PrefixLimit<T>],
    cost: u32,
) -> Forecast<Refusal> {
    let address = canonical(address);
    let refused = |limits, key, prefix| {
        Some(PrefixDecision::<_, T::Clock, T::Hasher, T::Algorithm> {
            answer: refusal(limits, &key, cost)?,
            limits,
            key,
            prefix,
        })
    };
    let (mut first, mut rest) = (refused(own.limiter(), client, None), prefixes);
    while first.is_none()
        && let [PrefixLimit { prefix, limits }, wider @ ..] = rest
    {
        first = prefix.group(address).and_then(|group| refused(limits.limiter(), group, Some(*prefix)));
        rest = wider;
    }
    if let Some(first) = first {
        let PrefixDecision { answer, limits, key, prefix } = longest_refusal::<T>(first, address, rest, cost);
        return Forecast::Refuse(limited(limits, &key, answer).of_prefix(prefix).into());
    }
    let groups = prefixes.iter().filter_map(|limit| Some((limit.limits.limiter(), limit.prefix.group(address)?)));
    let standings = core::iter::once((own.limiter(), client)).chain(groups).map(|(limits, key)| {
        let usage = limits.peek(&key);
        Standing::new(quota_of(limits, &key), usage.remaining(), usage.resets_in())
    });
    Forecast::Pass(standings.min_by_key(|standing| standing.remaining))
}

/// Takes the cost of a limit, and then of those of the prefixes.
///
/// Returns the decision of the limit that has the fewest tokens left, or of those that refuse the one with the longest
/// wait.
///
/// It calls itself for each prefix, of which there are few, so that the stack keeps their receipts.
fn take_all<'a, T: LocalLimit>(
    limits: &'a KeyedLimiter<ClientAddress, T::Clock, T::Hasher, T::Algorithm>,
    key: ClientAddress,
    prefix: Option<Prefix>,
    address: IpAddr,
    prefixes: &'a [PrefixLimit<T>],
    cost: u32,
) -> CombinedDecision<'a, T::Clock, T::Hasher, T::Algorithm> {
    let (allowed, receipt) = match take_revocably(limits, &key, cost) {
        Ok(taken) => taken,
        Err(denied) => {
            return Err(longest_refusal(
                PrefixDecision { answer: denied, limits, key, prefix },
                address,
                prefixes,
                cost,
            ));
        }
    };
    let own = PrefixDecision { answer: allowed, limits, key, prefix };
    let mut rest = prefixes;
    while let [PrefixLimit { prefix, limits: of_prefix }, wider @ ..] = rest {
        rest = wider;
        let Some(group) = prefix.group(address) else { continue };
        return match take_all(of_prefix.limiter(), group, Some(*prefix), address, wider, cost) {
            Ok(decision) if decision.answer.remaining() < own.answer.remaining() => Ok(decision),
            Ok(_) => Ok(own),
            Err(refused) => {
                revoke(limits, &key, cost, receipt);
                Err(refused)
            }
        };
    }
    Ok(own)
}

/// Returns the refusal with the longest wait, of the first one and those of these prefixes' limits.
///
/// Takes no token. The limits before the first one allowed the request.
#[cold]
fn longest_refusal<'a, T: LocalLimit>(
    first: PrefixDecision<'a, Denied, T::Clock, T::Hasher, T::Algorithm>,
    address: IpAddr,
    prefixes: &'a [PrefixLimit<T>],
    cost: u32,
) -> PrefixDecision<'a, Denied, T::Clock, T::Hasher, T::Algorithm> {
    let refusals = prefixes.iter().filter_map(|PrefixLimit { prefix, limits }| {
        let (key, limits) = (prefix.group(address)?, limits.limiter());
        Some(PrefixDecision { answer: refusal(limits, &key, cost)?, limits, key, prefix: Some(*prefix) })
    });
    refusals.fold(first, |longest, other| {
        let is_longer = match (longest.answer.retry_after(), other.answer.retry_after()) {
            (Some(wait), Some(longer)) => longer > wait,
            // No wait helps there.
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_longer { other } else { longest }
    })
}
