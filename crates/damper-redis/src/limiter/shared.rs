//! The state that all clones of a limiter share, and the decision of a check.

use super::fleet::{CLOSED_WAIT, Fleet};
use super::local_share::Outage;
use super::subject_limit::{Delivery, OpenCheck, SubjectLimit};
use super::{Unavailable, WhenDown, tender};
use crate::micros::MicrosClock;
use crate::script::Reply;
use crate::subject::{Answer, Outcome, Plan, Supply};
use core::pin::pin;
use core::time::Duration;
use damper_core::internal::{allowed_on, denied_on};
use damper_core::{Allowed, Denied, Quota, Usage};
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::time::timeout_at;

/// The state that all clones of a limiter share.
pub(crate) struct Shared {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) plan: Arc<Plan>,
    /// The quotas with a limit, in the order of the plan's terms.
    pub(crate) quotas: Vec<Quota>,
}

/// The first look at a check, without a round trip.
pub(crate) enum FirstLook {
    /// This process has decided it.
    Done(Result<Allowed, Denied>),
    /// The server or the policy has to decide it.
    Open(OpenCheck),
}

impl Shared {
    /// Decides on `n` tokens, if this process can.
    #[inline]
    pub(crate) fn begin(self: &Arc<Self>, limit: &Arc<SubjectLimit>, n: u32) -> FirstLook {
        match limit.subject.spend(n) {
            Some((allowed, Supply::Enough)) => FirstLook::Done(Ok(allowed)),
            Some((allowed, Supply::Low)) => {
                self.ask_ahead(limit);
                FirstLook::Done(Ok(allowed))
            }
            None => self.begin_without_lease(limit, n),
        }
    }

    /// Decides on `n` tokens that the lease does not hold, if this process can.
    #[cold]
    fn begin_without_lease(self: &Arc<Self>, limit: &Arc<SubjectLimit>, n: u32) -> FirstLook {
        match self.settle(limit, limit.subject.check_without_lease(n)) {
            Ok(decided) => FirstLook::Done(decided),
            Err(open) => FirstLook::Open(open),
        }
    }

    /// Counts and returns a decision, or returns what it still needs.
    fn settle(
        self: &Arc<Self>,
        limit: &Arc<SubjectLimit>,
        answer: Answer,
    ) -> Result<Result<Allowed, Denied>, OpenCheck> {
        match answer {
            Answer::Allowed(allowed) => Ok(Ok(allowed)),
            Answer::Low(allowed) => {
                self.ask_ahead(limit);
                Ok(Ok(allowed))
            }
            Answer::Taken(allowed) => {
                self.fleet.counters.allowed_by_server.add(1);
                Ok(Ok(allowed))
            }
            Answer::Denied(denied) => {
                self.fleet.counters.denied_locally.add(1);
                Ok(Err(denied))
            }
            Answer::Ask(dispatch) => Err(OpenCheck::Ask(Delivery::new(self, limit, dispatch))),
            Answer::Join => Err(OpenCheck::Join),
            Answer::Down => Err(OpenCheck::Down),
        }
    }

    /// Sends the request for more tokens, if it is time for one.
    #[cold]
    fn ask_ahead(self: &Arc<Self>, limit: &Arc<SubjectLimit>) {
        if let Some(dispatch) = limit.subject.ask_ahead() {
            self.send_in_background(Delivery::new(self, limit, dispatch));
        }
    }

    /// Decides on `n` tokens by the server or, after the deadline, by the policy.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        limit: &Arc<SubjectLimit>,
        n: u32,
        mut open: OpenCheck,
    ) -> Result<Allowed, Denied> {
        if Handle::try_current().is_err() {
            drop(open);
            self.fleet.server.note(&Unavailable::NoRuntime);
            self.fleet.note(limit.keys.slot(), Some(&Unavailable::NoRuntime));
            return self.decide_by_policy(limit, n);
        }
        let until = Instant::now() + self.fleet.server.deadline();
        loop {
            let answer = match open {
                OpenCheck::Down => return self.decide_by_policy(limit, n),
                OpenCheck::Ask(delivery) if delivery.is_joint() => {
                    let mut outcome = pin!(limit.outcome.notified());
                    outcome.as_mut().enable();
                    self.send_in_background(delivery);
                    if timeout_at(until.into(), outcome).await.is_err() {
                        return self.decide_by_policy(limit, n);
                    }
                    limit.subject.check(n)
                }
                OpenCheck::Ask(delivery) => match self.send(delivery, until).await {
                    Ok((Outcome::Allowed(_), _)) if self.fleet.server.is_too_late(until) => {
                        // The server has taken the tokens. They stay taken for a call that the policy allows.
                        return self.decide_by_policy(limit, n).inspect_err(|_| self.refund(limit, n));
                    }
                    Ok((Outcome::Allowed(allowed), _)) => {
                        self.fleet.counters.allowed_by_server.add(1);
                        return Ok(allowed);
                    }
                    Ok((Outcome::Denied(denied), _)) => {
                        self.fleet.counters.denied_by_server.add(1);
                        return Err(denied);
                    }
                    Ok((Outcome::Again, _)) => limit.subject.check(n),
                    Ok((Outcome::Late, _)) | Err(_) => return self.decide_by_policy(limit, n),
                },
                OpenCheck::Join => {
                    let mut outcome = pin!(limit.outcome.notified());
                    outcome.as_mut().enable();
                    // The outcome may have come before this check started to wait for it.
                    if limit.subject.join(n) && timeout_at(until.into(), outcome).await.is_err() {
                        return self.decide_by_policy(limit, n);
                    }
                    limit.subject.check(n)
                }
            };
            open = match self.settle(limit, answer) {
                Ok(decided) => return decided,
                Err(OpenCheck::Join) if Instant::now() >= until => return self.decide_by_policy(limit, n),
                Err(open) => open,
            };
        }
    }

    /// Sends a command in a task of its own, so that its outcome is noted even if the caller is cancelled.
    pub(crate) fn send_in_background(self: &Arc<Self>, delivery: Delivery) {
        // Without a runtime the command is dropped, which reports it as unsent.
        let Ok(runtime) = Handle::try_current() else { return };
        let shared = Arc::clone(self);
        let until = Instant::now() + self.fleet.server.deadline();
        runtime.spawn(async move {
            // The subject has the outcome, for the waiting checks.
            _ = shared.send(delivery, until).await;
        });
    }

    /// Sends a command, and reports its outcome to the subject.
    pub(crate) async fn send(
        self: &Arc<Self>,
        mut delivery: Delivery,
        until: Instant,
    ) -> Result<(Outcome, Reply), Unavailable> {
        let limit = Arc::clone(delivery.limit());
        self.fleet.heartbeat.ensure(&self.fleet);
        let command = delivery.send().cloned();
        let called = match &command {
            Some(command) => {
                limit.count_spent(self, command);
                // Later its tokens have expired, and the server may have forgotten the previous request.
                let ends = Instant::now() + Duration::from_micros(self.plan.validity());
                let until = if delivery.is_lease() { until.min(ends) } else { until };
                self.fleet.server.call(limit.keys.slot(), &limit.keys.of(command, limit.holder), command, until).await
            }
            None => Err(Unavailable::NotConnected),
        };
        self.fleet.note(limit.keys.slot(), called.as_ref().err());
        let sent = match called {
            Ok(reply) => {
                if let Some(grant) = reply.grant {
                    limit.count_grant(self, grant);
                }
                Ok((delivery.replied(&reply), reply))
            }
            Err(error) => {
                delivery.failed(&error);
                Err(error)
            }
        };
        tender::tend(self, &limit);
        sent
    }

    /// Decides on `n` tokens by the policy.
    #[cold]
    fn decide_by_policy(self: &Arc<Self>, limit: &Arc<SubjectLimit>, n: u32) -> Result<Allowed, Denied> {
        self.fleet.authority.decides(self.fleet.server.now());
        let decision = match self.fleet.when_down {
            _ if n == 0 => Ok(allowed_on(&MicrosClock, 0, 0)),
            WhenDown::Open => Ok(allowed_on(&MicrosClock, self.smallest_burst(), 0)),
            WhenDown::Closed => Err(denied_on(&MicrosClock, 0, Some(CLOSED_WAIT), Some(CLOSED_WAIT))),
            WhenDown::LocalShare => self.take_share(limit, n),
        };
        match decision {
            Ok(_) => self.fleet.counters.allowed_by_policy.add(1),
            Err(_) => self.fleet.counters.denied_by_policy.add(1),
        }
        decision
    }

    /// Takes `n` tokens from this process's share of each quota, or none.
    fn take_share(self: &Arc<Self>, limit: &Arc<SubjectLimit>, n: u32) -> Result<Allowed, Denied> {
        let processes = self.fleet.processes();
        if processes == 0 {
            // If each process guessed the number, each might take the whole quota.
            return Err(denied_on(&MicrosClock, 0, Some(CLOSED_WAIT), Some(CLOSED_WAIT)));
        }
        let outage = Outage {
            now: self.fleet.server.now(),
            since: limit.shares_since(self.fleet.server.shard(limit.keys.slot()).1.replied_at()),
            processes,
        };
        let terms = self.plan.terms();
        let mut shares = limit.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.iter_mut().zip(terms).for_each(|(share, terms)| share.fill(terms, outage));
        let is_allowed = shares.iter().zip(terms).all(|(share, terms)| share.has(terms, n));
        let mut charge = 0;
        if is_allowed {
            shares.iter_mut().zip(terms).for_each(|(share, terms)| share.take(terms, n));
            // All limits of the subject get the same charge, the smallest, so that none is charged more than it has refilled.
            charge = shares.iter_mut().zip(terms).map(|(share, terms)| share.charge(terms, n)).min().unwrap_or(0);
        }
        let levels = shares.iter().zip(terms).map(|(share, terms)| share.level(terms, n));
        let (mut tokens, mut wait, mut full_in) = (u32::MAX, Some(0), Some(0));
        for level in levels {
            tokens = tokens.min(level.tokens);
            // `None` stands for a time that never comes.
            wait = wait.zip(level.wait).map(|(one, other): (u64, u64)| one.max(other));
            full_in = full_in.zip(level.full_in).map(|(one, other): (u64, u64)| one.max(other));
        }
        drop(shares);
        if is_allowed {
            if charge > 0 {
                // The charge is sent when the server is back.
                _ = limit.subject.charge(charge);
                tender::tend(self, limit);
            }
            return Ok(allowed_on(&MicrosClock, tokens, full_in.unwrap_or(u64::MAX)));
        }
        // The server may allow more than a share can ever hold, so such a check is worth another try.
        let wait = if n > self.smallest_burst() { Some(0) } else { Some(wait.unwrap_or(CLOSED_WAIT).max(1)) };
        Err(denied_on(&MicrosClock, tokens, full_in, wait))
    }

    /// Returns the smallest burst of the quotas.
    fn smallest_burst(&self) -> u32 {
        self.quotas.iter().map(Quota::burst_size).min().unwrap_or(u32::MAX)
    }

    /// Asks the server for the usage of the limit.
    pub(crate) async fn usage(self: &Arc<Self>, limit: &Arc<SubjectLimit>) -> Result<Usage, Unavailable> {
        let until = Instant::now() + self.fleet.server.deadline();
        let (_, reply) = self.send(Delivery::new(self, limit, limit.subject.look()), until).await?;
        Ok(super::status::usage_of(&reply, self.plan.terms(), &self.quotas, limit.subject.holdings().tokens))
    }

    /// Fills the limit again.
    pub(crate) async fn reset(self: &Arc<Self>, limit: &Arc<SubjectLimit>) -> Result<(), Unavailable> {
        let until = Instant::now() + self.fleet.server.deadline();
        self.send(Delivery::new(self, limit, limit.subject.reset()), until).await.map(drop)
    }

    /// Gives back `n` tokens.
    pub(crate) fn refund(self: &Arc<Self>, limit: &Arc<SubjectLimit>, n: u32) {
        if super::subject_limit::is_something(&limit.subject.refund(n)) {
            tender::tend_booking(self, limit);
        }
    }

    /// Books `n` tokens that were used without being taken.
    pub(crate) fn charge(self: &Arc<Self>, limit: &Arc<SubjectLimit>, n: u32) {
        if super::subject_limit::is_something(&limit.subject.charge(n)) {
            tender::tend_booking(self, limit);
        }
    }
}
