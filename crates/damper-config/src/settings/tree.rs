//! Limits of a quota tree, and its plans by name.

use super::tiers::is_name;
use crate::kind::Kind;
use crate::plans::{Plans, PlansError};
use crate::section::{Conflict, section};
use crate::setting::{Refusal, Setting, Written};
use crate::value::{Member, Value};
use damper_core::keyed::{QuotaTree, QuotaTreeBuilder};
use damper_core::{Plan, Quota};
use std::collections::BTreeMap;
use std::time::Duration;

/// The name of the plan that unknown names have.
const DEFAULT_PLAN: &str = "default";

/// The most plans of a document. A database that has more fills `Plans` itself.
const MAX_PLANS: usize = 256;

/// The longest time-to-live of a reservation.
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// The quotas of plans: by the name of the plan, and then by the name of the dimension.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlanQuotas(BTreeMap<String, BTreeMap<String, (Quota, Plan)>>);

impl Setting for PlanQuotas {
    fn read(value: &Value, kind: &Kind) -> Result<Self, Refusal> {
        let mut plans = Self::default();
        plans.update(value, kind)?;
        Ok(plans)
    }

    /// Adds quotas to those of earlier sources.
    fn update(&mut self, value: &Value, kind: &Kind) -> Result<(), Refusal> {
        let (&Kind::Plans { max }, Value::Table(members)) = (kind, value) else { return Err(Refusal::OTHER_KIND) };
        for Member { key, value, .. } in members {
            let names = key.split_once('.').filter(|(plan, dimension)| is_name(plan) && is_name(dimension));
            let (plan, dimension) = names.ok_or_else(|| {
                Refusal::because("the name of a plan and of a dimension has 1 to 64 letters, digits, _ or -")
            })?;
            let quota = Quota::read(value, &Kind::Quota)?;
            let prepared = Plan::new(quota).map_err(|error| Refusal::because(error.to_string()))?;
            if !self.0.contains_key(plan) && self.0.len() == max {
                return Err(Refusal::because(format!("there are {max} plans already, which is the maximum")));
            }
            self.0.entry(plan.to_owned()).or_default().insert(dimension.to_owned(), (quota, prepared));
        }
        Ok(())
    }

    fn write(&self, _: &Kind) -> Written {
        let quotas = self.0.iter().flat_map(|(plan, quotas)| {
            quotas.iter().map(move |(dimension, (quota, _))| (format!("{plan}.{dimension}"), quota.to_string()))
        });
        Written::Table(quotas.collect())
    }
}

section! {
    /// The limits of a quota tree and its plans. The program names the levels and the dimensions.
    TreeSettings {
        /// How many keys of each level have buckets of their own.
        max_keys: u32 = 8192, Kind::Count { min: 1, max: 1 << 24 }, Restart;
        /// How many bursts of a bucket may be reserved and unsettled. Refunds add at most that.
        unsettled: f64 = 2.0, Kind::Number { min: 0.0, max: 255.0 }, Restart;
        /// After which time a reservation counts as used in full. Take the longest that a call lasts.
        time_to_live: Duration = Duration::from_secs(120), Kind::Duration { min: Duration::from_millis(1), max: MONTH }, Restart;
        /// The quotas of plans, by the name of the plan and of the dimension: `plans.pro.requests`.
        ///
        /// A dimension without a quota is unlimited, and a plan limits one dimension at least. Unknown names have the plan `default`, without which there are no plans. A reload
        /// replaces all plans at once.
        plans: PlanQuotas = PlanQuotas::default(), Kind::Plans { max: MAX_PLANS }, Live private;
    }
    check |settings| settings.missing_default();
}

impl TreeSettings {
    fn missing_default(&self) -> Option<Conflict> {
        let is_missing = !self.plans.0.is_empty() && !self.plans.0.contains_key(DEFAULT_PLAN);
        is_missing.then_some(Conflict {
            keys: &["plans"],
            looser: &[],
            expected: "plans must have one with the name default, which unknown names have",
        })
    }

    /// Starts a tree of these settings, with the levels and the dimensions of the program.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
    /// use damper::config::{Reloader, Sources};
    /// use std::sync::Arc;
    ///
    /// let text = "[server.tree.plans]\ndefault.requests = '60/min'\npro = { requests = '600/min', tokens = '90000/min' }";
    /// let reloader = Reloader::new(Sources::new().toml("app.toml", text))?;
    /// let settings = reloader.settings().server.tree;
    /// let tree = settings.builder::<str, 2, 2>(["user", "organisation"], ["requests", "tokens"]).build()?;
    /// let plans = Arc::new(settings.named_plans(["requests", "tokens"])?);
    /// let reloader = reloader.bind(|settings| &settings.server.tree, Arc::clone(&plans));
    ///
    /// let [user, organisation] = ["basic", "pro"].map(|name| plans.get(name));
    /// tree.check(&[("alice", user.each_ref()), ("acme", organisation.each_ref())], [1, 2_000])?;
    /// # let _ = reloader;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize>(
        &self,
        levels: [&'static str; LEVELS],
        dimensions: [&'static str; DIMENSIONS],
    ) -> QuotaTreeBuilder<K, LEVELS, DIMENSIONS> {
        QuotaTree::builder(levels, dimensions)
            .capacities([self.max_keys as usize; LEVELS])
            .unsettled(self.unsettled)
            .time_to_live(self.time_to_live)
    }

    /// Prepares the plans, for a tree of these dimensions.
    ///
    /// Bind them to the section for live changes, as the example of [`builder`](Self::builder) does. Without plans, every name
    /// is unlimited.
    ///
    /// # Errors
    ///
    /// [`PlansError`] if a plan has a quota for another dimension.
    pub fn named_plans<const DIMENSIONS: usize>(
        &self,
        dimensions: [&'static str; DIMENSIONS],
    ) -> Result<Plans<DIMENSIONS>, PlansError> {
        let plans = Plans::new(dimensions, [Plan::UNLIMITED; DIMENSIONS]);
        self.check_dimensions(&dimensions)?;
        self.fill(&plans);
        Ok(plans)
    }

    /// Checks that no plan has a quota for another dimension.
    pub(crate) fn check_dimensions(&self, dimensions: &[&'static str]) -> Result<(), PlansError> {
        for (plan, quotas) in &self.plans.0 {
            if let Some(other) = quotas.keys().find(|name| !dimensions.contains(&name.as_str())) {
                return Err(PlansError::new(plan, other, dimensions));
            }
        }
        Ok(())
    }

    /// Replaces plans by those of these settings.
    pub(crate) fn fill<const DIMENSIONS: usize>(&self, plans: &Plans<DIMENSIONS>) {
        let of = |quotas: &BTreeMap<String, (Quota, Plan)>| {
            plans.dimensions().map(|name| quotas.get(name).map_or(Plan::UNLIMITED, |(_, plan)| *plan))
        };
        let default = self.plans.0.get(DEFAULT_PLAN).map_or([Plan::UNLIMITED; DIMENSIONS], of);
        plans.replace(default, self.plans.0.iter().map(|(name, quotas)| (name.clone(), of(quotas))));
    }
}
