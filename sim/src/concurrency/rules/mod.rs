//! The rules of the comparison.
//!
//! Those of other projects are small copies from their documentation and sources: the same computation with their
//! defaults, but one maximum for all.
// damper.rs      damper's
// fixed.rs       a fixed limit
// aimd.rs        Netflix, AIMD
// vegas.rs       Netflix, Vegas
// gradient2.rs   Netflix, Gradient2
// failsafe.rs    failsafe-go
// envoy.rs       Envoy
// none.rs        no limit

mod aimd;
mod damper;
mod envoy;
mod failsafe;
mod fixed;
mod gradient2;
mod none;
mod vegas;

pub use aimd::Aimd;
pub use damper::Damper;
pub use envoy::Envoy;
pub use failsafe::Failsafe;
pub use fixed::Fixed;
pub use gradient2::Gradient2;
pub use none::NoLimit;
pub use vegas::Vegas;

use super::limit::{Gate, Limit};
use ::damper::concurrency::{self, LimitBounds, ProbedGradient};

/// The initial limit of every rule.
const INITIAL: f64 = 20.0;
/// The maximum of every rule, high enough to show an unbounded rule.
const MAXIMUM: f64 = 1000.0;

/// Netflix' logarithm: a whole number, at least 1.
fn log10(limit: f64) -> f64 {
    limit.log10().floor().max(1.0)
}

/// A rule by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// damper's adaptive limit.
    Damper,
    /// failsafe-go.
    Failsafe,
    /// Netflix, Gradient2.
    Gradient2,
    /// Netflix, Vegas.
    Vegas,
    /// Envoy's gradient controller.
    Envoy,
    /// Netflix, AIMD.
    Aimd,
    /// No limit.
    None,
    /// A fixed limit of this many calls.
    Fixed(u32),
    /// damper's rule with the same name as Netflix'.
    DamperGradient2,
    /// damper's rule with the same name as Netflix'.
    DamperVegas,
    /// damper's rule with the same name as Netflix'.
    DamperAimd,
}

impl Contender {
    /// The rules in the tables.
    pub const ALL: [Self; 7] =
        [Self::Damper, Self::Failsafe, Self::Gradient2, Self::Vegas, Self::Envoy, Self::Aimd, Self::None];

    /// The rules that damper offers to users of these.
    pub const OFFERED: [Self; 4] = [Self::Damper, Self::DamperGradient2, Self::DamperVegas, Self::DamperAimd];

    /// Returns its name in tables and charts.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Damper => "damper".into(),
            Self::Failsafe => "failsafe-go".into(),
            Self::Gradient2 => "Gradient2".into(),
            Self::Vegas => "Vegas".into(),
            Self::Envoy => "Envoy".into(),
            Self::Aimd => "AIMD".into(),
            Self::None => "no limit".into(),
            Self::Fixed(limit) => format!("fixed {limit}"),
            Self::DamperGradient2 => "damper's Gradient2".into(),
            Self::DamperVegas => "damper's Vegas".into(),
            Self::DamperAimd => "damper's AIMD".into(),
        }
    }

    /// Creates a limit with the rule, on a clock of nanoseconds.
    #[must_use]
    pub fn limit(self, seed: u64) -> Box<dyn Limit> {
        self.limit_on(seed, 1e-9)
    }

    /// Creates a limit with the rule, on a clock whose ticks last `grain` seconds.
    ///
    /// Only damper's rules have a clock.
    #[must_use]
    pub fn limit_on(self, seed: u64, grain: f64) -> Box<dyn Limit> {
        let bounds = LimitBounds::DEFAULT;
        match self {
            Self::Damper => Box::new(Damper::new(ProbedGradient::new(bounds), grain)),
            Self::Failsafe => Box::new(Gate::new(Failsafe::new())),
            Self::Gradient2 => Box::new(Gate::new(Gradient2::new())),
            Self::Vegas => Box::new(Gate::new(Vegas::new(seed))),
            Self::Envoy => Box::new(Gate::new(Envoy::new(seed))),
            Self::Aimd => Box::new(Gate::new(Aimd::new())),
            Self::None => Box::new(Gate::new(NoLimit)),
            Self::Fixed(limit) => Box::new(Gate::new(Fixed(limit))),
            Self::DamperGradient2 => Box::new(Damper::new(concurrency::compared::Gradient2::new(bounds), grain)),
            Self::DamperVegas => Box::new(Damper::new(concurrency::compared::Vegas::new(bounds), grain)),
            Self::DamperAimd => Box::new(Damper::new(concurrency::compared::Aimd::new(bounds), grain)),
        }
    }
}
