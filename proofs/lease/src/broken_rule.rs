//! The rules that are left out one by one, and where that has to be found.

use crate::engine::Rules;
use crate::process::Broken;
use crate::script_rules;

/// A protocol without one of its rules.
pub struct BrokenRule {
    pub name: String,
    pub rules: Rules,
    /// The scenario in which a property has to fail.
    pub scenario: &'static str,
}

/// Returns the protocol without each rule of the holder, and without each rule of the script.
pub fn all() -> Vec<BrokenRule> {
    let of_holder = [
        (Broken::SevenEighths, "network"),
        (Broken::SinceTheRequest, "network"),
        (Broken::ClockAtEachSpend, "network"),
        (Broken::LateRepliesDiscarded, "network"),
        (Broken::Acknowledged, "network"),
        (Broken::FencedUnspent, "network"),
        (Broken::Kept, "network"),
        (Broken::BackTakenOut, "network"),
        (Broken::RefundOnce, "refunds"),
    ];
    let of_holder = of_holder.into_iter().map(|(broken, scenario)| {
        let rules = Rules { broken, ..Rules::as_built() };
        BrokenRule { name: format!("holder: {broken:?}"), rules, scenario }
    });
    let of_script = script_rules::RULES.iter().map(|rule| {
        let rules = Rules { script: rule.script_without().into(), ..Rules::as_built() };
        let scenario = match rule.name {
            "the same request is booked once" => "repeats",
            "a grant fits in the bucket" => "others",
            "a take fits in the bucket" => "refunds",
            "a limit that was lost is empty" | "what may be leased may be out" => "losses",
            _ => "network",
        };
        BrokenRule { name: format!("script: {}", rule.name), rules, scenario }
    });
    of_holder.chain(of_script).collect()
}
