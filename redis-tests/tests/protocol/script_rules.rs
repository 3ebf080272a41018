//! The rules of the script without which tokens are admitted twice.

use crate::trouble::Trouble;
use damper_redis::internal::SOURCE;

/// A rule of the script.
#[derive(Debug)]
pub struct ScriptRule {
    pub name: &'static str,
    /// Text of the script, and what stands there without the rule.
    replacements: &'static [(&'static str, &'static str)],
    /// The trouble that notices.
    pub trouble: Trouble,
}

impl ScriptRule {
    /// Returns the script without this rule.
    ///
    /// # Panics
    ///
    /// If the script does not have the replaced text exactly once.
    pub fn script_without(&self) -> String {
        self.replacements.iter().fold(SOURCE.to_owned(), |script, (text, instead)| {
            assert_eq!(script.matches(text).count(), 1, "{}: the script has other lines", self.name);
            script.replace(text, instead)
        })
    }
}

const fn rule(name: &'static str, replacements: &'static [(&'static str, &'static str)]) -> ScriptRule {
    ScriptRule { name, replacements, trouble: Trouble::Processes }
}

const fn rule_after_loss(name: &'static str, replacements: &'static [(&'static str, &'static str)]) -> ScriptRule {
    ScriptRule { name, replacements, trouble: Trouble::Loss }
}

/// All of these rules.
pub const RULES: &[ScriptRule] = &[
    rule(
        "leased tokens count as still in the bucket",
        &[(
            "limit.owed <= limit.held then\n        limit.owed, limit.frac = limit.held, 0",
            "limit.owed <= 0 then\n        limit.owed, limit.frac = 0, 0",
        )],
    ),
    rule(
        "a take fits in the bucket",
        &[("if limit.amount > 0 and limit.owed + limit.amount > limit.burst then", "if false then")],
    ),
    rule("a grant fits in the bucket", &[("limit.burst - limit.owed, ", "")]),
    rule("a lease ends a whole lease later", &[("(from + length) / step", "(from + length / 2) / step")]),
    rule(
        "up to each end the bucket fills under the ceiling until then",
        &[("        refill(limit, limit.ends[1])\n", "")],
    ),
    rule("older requests are refused", &[("elseif seq <= last_seq then", "elseif seq < 0 then")]),
    rule(
        "the same request is booked once",
        &[
            ("if seq == last_seq and gen == limit.gen then", "if seq < 0 then"),
            ("elseif seq <= last_seq then", "elseif seq < last_seq then"),
        ],
    ),
    rule("an unknown holder has nothing", &[("if unspent + back > count then", "if unspent + back < 0 then")]),
    rule_after_loss(
        "a limit that was lost is empty",
        &[("elseif not stored and now - loss < after_loss then", "elseif false then")],
    ),
    rule_after_loss("what may be leased may be out", &[("lost = max(limit.held, limit.hold)", "lost = limit.held")]),
];
