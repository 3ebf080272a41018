//! The quotas of tiers, by name.

use crate::kind::Kind;
use crate::setting::{Refusal, Setting, Written, quota_in, texts};
use crate::value::{Member, Value};
use damper_core::Quota;

/// The quotas of further tiers of a limiter per key, by name or in a list.
///
/// Tiers are numbered from 1, because tier 0 has the quota of the section. Named tiers are numbered in the order of their
/// names, so their numbers do not depend on the order of a file.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
/// use damper::config::Sources;
///
/// let text = "[server.http.ratelimit]\nquota = '10/minute'\n[server.http.ratelimit.tiers]\nfree = '60/minute'\npro = '600/minute'";
/// let settings = Sources::new().toml("app.toml", text).load()?.server.http.ratelimit;
/// let pro = settings.tiers().number("pro").unwrap_or(0);
/// let limits = settings.keyed_builder::<str>().tiers(settings.tiers(), |_| 0).build()?;
/// limits.set_tier("customer 7", pro)?;
/// assert!(limits.check_n("customer 7", 600).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tiers(Vec<Tier>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Tier {
    /// `None` in a list.
    name: Option<String>,
    quota: Quota,
}

impl Tiers {
    /// Returns how many tiers there are beside tier 0.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no tier beside tier 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of the tier with this name: 1 for the first.
    ///
    /// `None` if no tier has it, and for the tiers of a list.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|tier| tier.name.as_deref() == Some(name)).map(|index| index + 1)
    }

    /// Returns the quota of the tier with this name.
    #[must_use]
    pub fn quota(&self, name: &str) -> Option<Quota> {
        self.0.iter().find(|tier| tier.name.as_deref() == Some(name)).map(|tier| tier.quota)
    }

    /// Returns the names, in the order of the tiers. The tiers of a list have none.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|tier| tier.name.as_deref())
    }
}

/// Iterates over the quotas, in the order of the tiers.
impl IntoIterator for Tiers {
    type Item = Quota;
    type IntoIter = std::vec::IntoIter<Quota>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().map(|tier| tier.quota).collect::<Vec<_>>().into_iter()
    }
}

/// The longest name.
const LONGEST_NAME: usize = 64;

pub(super) fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-')
}

impl Setting for Tiers {
    fn read(value: &Value, kind: &Kind) -> Result<Self, Refusal> {
        let mut tiers = Self::default();
        tiers.update(value, kind)?;
        Ok(tiers)
    }

    /// Adds named tiers to those of earlier sources. A list replaces all, and names replace a list.
    fn update(&mut self, value: &Value, kind: &Kind) -> Result<(), Refusal> {
        let &Kind::Tiers { max } = kind else { return Err(Refusal::OTHER_KIND) };
        let Value::Table(members) = value else {
            let texts = texts(value)?;
            if let Some((_, first_too_many)) = texts.get(max) {
                return Err(Refusal::OTHER_KIND.at(*first_too_many));
            }
            let quotas = texts.into_iter().map(|(text, at)| quota_in(text, text).map_err(|refusal| refusal.at(at)));
            let tiers = quotas.map(|quota| quota.map(|quota| Tier { name: None, quota }));
            self.0 = tiers.collect::<Result<_, _>>()?;
            return Ok(());
        };
        let mut tiers: Vec<Tier> = self.0.iter().filter(|tier| tier.name.is_some()).cloned().collect();
        for Member { key: name, value, .. } in members {
            if !is_name(name) {
                let why = "the name of a tier has 1 to 64 letters, digits, _ or -";
                return Err(Refusal::because(why));
            }
            let quota = Quota::read(value, &Kind::Quota)?;
            let place = tiers.binary_search_by_key(&name.as_str(), |tier| tier.name.as_deref().unwrap_or_default());
            match place {
                Ok(index) => tiers[index].quota = quota,
                Err(_) if tiers.len() == max => {
                    return Err(Refusal::because(format!("there are {max} tiers already, which is the maximum")));
                }
                Err(index) => tiers.insert(index, Tier { name: Some(name.clone()), quota }),
            }
        }
        self.0 = tiers;
        Ok(())
    }

    fn write(&self, _: &Kind) -> Written {
        if self.names().next().is_none() {
            return Written::List(self.clone().into_iter().map(|quota| quota.to_string()).collect());
        }
        let named = self.0.iter().filter_map(|tier| Some((tier.name.clone()?, tier.quota.to_string())));
        Written::Table(named.collect())
    }
}
