//! Counts of each tenant's calls by outcome.

use super::traffic::Traffic;

/// The calls after the warm-up, by tenant.
#[derive(Clone, Debug)]
pub struct Tally {
    tenants: Vec<Counts>,
    /// The completions that the server had capacity for.
    possible: f64,
}

/// The calls of one tenant, or of several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Calls that arrived.
    pub offered: u32,
    /// Calls that got their response by the deadline.
    pub in_time: u32,
    /// Calls that got their response after the deadline.
    pub late: u32,
    /// Calls ended at the deadline.
    pub ended: u32,
}

impl Tally {
    /// Creates an empty tally.
    #[must_use]
    pub fn new(tenants: usize, possible: f64) -> Self {
        Self { tenants: vec![Counts::default(); tenants], possible }
    }

    /// The counts of a tenant.
    pub fn of(&mut self, tenant: usize) -> &mut Counts {
        &mut self.tenants[tenant]
    }

    /// The counts of one tenant of a group.
    #[must_use]
    pub fn tenant(&self, traffic: &Traffic, group: usize, tenant: u32) -> Counts {
        let before: u32 = traffic.groups[..group].iter().map(|group| group.tenants).sum();
        self.tenants[(before + tenant) as usize]
    }

    /// The counts of all tenants together.
    #[must_use]
    pub fn all(&self) -> Counts {
        Counts::sum(&self.tenants)
    }

    /// Returns the calls answered in time, as a share of the server's capacity.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        f64::from(self.all().in_time) / self.possible
    }

    /// Returns the counts of a group, and Jain's index of its tenants' goodput.
    ///
    /// The index is 1 if all have the same, and 1 / n if one has it all.
    #[must_use]
    pub fn group(&self, traffic: &Traffic, group: usize) -> (Counts, f64) {
        let before: u32 = traffic.groups[..group].iter().map(|group| group.tenants).sum();
        let tenants = &self.tenants[before as usize..][..traffic.groups[group].tenants as usize];
        let (sum, squares) = tenants.iter().fold((0.0, 0.0), |(sum, squares), counts| {
            let in_time = f64::from(counts.in_time);
            (sum + in_time, squares + in_time * in_time)
        });
        let jain = if squares > 0.0 { sum * sum / (tenants.len() as f64 * squares) } else { 1.0 };
        (Counts::sum(tenants), jain)
    }
}

impl Counts {
    fn sum(counts: &[Self]) -> Self {
        counts.iter().fold(Self::default(), |sum, counts| Self {
            offered: sum.offered + counts.offered,
            in_time: sum.in_time + counts.in_time,
            late: sum.late + counts.late,
            ended: sum.ended + counts.ended,
        })
    }

    /// Returns the calls answered in time, as a share of those that arrived.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        f64::from(self.in_time) / f64::from(self.offered.max(1))
    }

    /// Returns the calls answered too late, as a share of those that took the server's time.
    #[must_use]
    pub fn late(&self) -> f64 {
        f64::from(self.late) / self.worked_on()
    }

    /// Returns the calls ended at their deadline, as a share of those that took the server's time.
    #[must_use]
    pub fn ended(&self) -> f64 {
        f64::from(self.ended) / self.worked_on()
    }

    fn worked_on(&self) -> f64 {
        f64::from((self.in_time + self.late + self.ended).max(1))
    }
}
