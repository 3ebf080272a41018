//! Each rule of the script is needed: without it some schedule differs from the model.

use crate::schedule;
use damper_redis::internal::{SOURCE, SlotTags};

/// How many schedules a weakened script may pass. They are the same in each run.
const SEEDS: u64 = 1_000;

/// The length of a lease after a loss.
const SHORT: &str = "limit.p > 0 and min(lease, floor((rest - most) * limit.q / limit.p)) or lease";

/// A rule, the text of the script that keeps it, and what stands there without it.
const RULES: &[(&str, &str, &str)] = &[
    ("large products go digit by digit", "if q * (b + 1) <= EXACT then", "if true then"),
    ("a part of a token is kept", "limit.owed - whole, frac, to", "limit.owed - whole, 0, to"),
    (
        "leased tokens count as still in the bucket",
        "if limit.owed <= limit.held then\n        limit.owed, limit.frac = limit.held, 0",
        "if limit.owed <= 0 then\n        limit.owed, limit.frac = 0, 0",
    ),
    (
        "a full bucket has no part of a token",
        "limit.owed, limit.frac = limit.held, 0\n    end\nend",
        "limit.owed = limit.held\n    end\nend",
    ),
    (
        "a take is from all limits or from none",
        "if status == DONE and limit.amount > 0 then",
        "if limit.owed + limit.amount <= limit.burst and limit.amount > 0 then",
    ),
    ("a denial writes nothing", "        status = DENIED\n", "        status, limit.changed = DENIED, true\n"),
    ("a look is never denied", "if limit.amount > 0 and limit.owed", "if limit.owed"),
    ("a clock that stepped back is healed", "    if now >= limit.at then\n        if", "    do\n        if"),
    ("a small step back is no heal", "if excess < 0 or (excess == 0 and rest <= limit.frac) then", "if false then"),
    ("a heal compares parts of a token", "(excess == 0 and rest <= limit.frac)", "excess == 0"),
    ("a heal is to the deepest debt", "= now, max(limit.deepest, limit.held), 0, true", "= now, limit.held, 0, true"),
    (
        "a heal is written on a denial",
        "= now, max(limit.deepest, limit.held), 0, true",
        "= now, max(limit.deepest, limit.held), 0, limit.changed",
    ),
    (
        "a heal ends leases at most a lease from now",
        "        if limit.ends[slot] > last then\n",
        "        if false then\n",
    ),
    ("a heal forgets holders", "    limit.gen, limit.safe = limit.ver, limit.ver\n", "    limit.safe = limit.ver\n"),
    (
        "a heal accounts for what was seen",
        "    limit.gen, limit.safe = limit.ver, limit.ver\n",
        "    limit.gen = limit.ver\n",
    ),
    ("a debt is cut to the deepest one", "if limit.owed > max(limit.deepest, limit.held) then", "if false then"),
    (
        "the cut leaves what is leased",
        "if limit.owed > max(limit.deepest, limit.held) then",
        "if limit.owed > limit.deepest then",
    ),
    ("a key lives until the time that was told", "max(limit.told, full)\n", "full\n"),
    ("a rate that is no longer 0 lets the key expire", "if limit.told >= NEVER and limit.p > 0 then", "if false then"),
    ("a key lives until the bucket is full", "/ 1000) + 3)", "/ 2000) + 3)"),
    ("the bucket fills up to each end of leases", "        refill(limit, limit.ends[1])\n", ""),
    ("leases end", "while limit.ends[1] and limit.ends[1] <= time do", "while false do"),
    ("a late command has no effect", "if not_after > 0 and now > not_after then", "if false then"),
    ("the same request again has the same response", "if seq == last_seq and gen == limit.gen then", "if false then"),
    ("an earlier request is refused", "elseif seq <= last_seq then", "elseif false then"),
    ("a lost grant goes back", "            if unapplied then\n", "            if false then\n"),
    (
        "what is not reported back as unspent is spent",
        "                limit.owed = limit.owed - granted\n",
        "                limit.owed = limit.owed - granted - kept\n",
    ),
    (
        "a holder is known for a whole lease, however short its own is",
        "set(key, record, max(slot_end, lease_end(limit.at, lease)))",
        "set(key, record, slot_end)",
    ),
    ("a holder of another state is unknown", "if gen == limit.gen and (applied", "if (applied"),
    ("a holder whose last response is another is unknown", "and (applied or unapplied) and", "and"),
    ("a holder has no more than it was granted", "if unspent + back > count then", "if false then"),
    (
        "a charge that was sent again counts once",
        "limit.charge = max(0, limit.charge - charged)",
        "limit.charge = limit.charge",
    ),
    ("all holders have at most H", "most - (limit.held - limit.lost)))", "most))"),
    ("a phantom holder leaves room for others", "most - (limit.held - limit.lost)))", "most - limit.held))"),
    ("a grant is in the bucket", "min(limit.amount, limit.burst - limit.owed, most", "min(limit.amount, most"),
    ("a grant leaves the bucket", "        limit.owed = limit.owed + granted\n", ""),
    ("what is given back is in the bucket", "    limit.owed = limit.owed - back\n", ""),
    (
        "a lease ends after its length",
        "return ceil((from + length) / step) * step",
        "return floor((from + length) / step) * step",
    ),
    ("leases share slots", "return ceil((from + length) / step) * step", "return from + length"),
    ("a lost limit has a phantom holder", "local lost = max(limit.held, limit.hold)", "local lost = limit.held"),
    ("a phantom holder has what holders had", "local lost = max(limit.held, limit.hold)", "local lost = limit.hold"),
    ("after a loss less may be leased", "    return most, limit.p", "    return limit.hold, limit.p"),
    ("after a loss no more than H is leased", "min(limit.hold, floor(rest / 2))", "floor(rest / 2)"),
    ("after a loss leases are short", SHORT, "lease"),
    (
        "a short lease is no longer than others",
        SHORT,
        "limit.p > 0 and floor((rest - most) * limit.q / limit.p) or lease",
    ),
    (
        "nothing drips in within a lease of a rate of 0",
        SHORT,
        "min(lease, floor((rest - most) * limit.q / max(1, limit.p)))",
    ),
    ("a phantom holder ends", "    if limit.lost_until <= time then\n", "    if false then\n"),
    ("a heal ends a phantom holder too", "    limit.lost_until = min(limit.lost_until, last)\n", ""),
    (
        "a missing limit was empty at the marker's time",
        "elseif not stored and now - loss < after_loss then",
        "elseif false then",
    ),
    ("a missing limit has filled since", "begin_empty(limit, now, loss, loss)", "begin_empty(limit, now, loss, now)"),
    ("a limit that began empty is written", "{ lost }\n    end\n    limit.changed = true\n", "{ lost }\n    end\n"),
    ("a full limit that is missing is not written", "if not limit.stored and limit.owed == 0 then", "if false then"),
    ("a loss is marked", "        call('SET', KEYS[1], string.format('%.0f', now))\n", ""),
    ("a marker of a time to come is set back", "if not marker or not (marker <= now) then", "if not marker then"),
    ("an older state was rolled back", "seen_version > limit.ver or (", "("),
    ("a younger state has replaced the one seen", "or (seen_version < limit.gen and seen_version >= limit.safe)", ""),
    ("a state that began empty lost nothing", "and seen_version >= limit.safe)", ")"),
    ("a limit that is missing before it is full was lost", "lost = value or seen_full_at > now", "lost = value"),
    ("what was seen of a full bucket does not matter", "lost = seen_full_at > now\n            and", "lost ="),
    ("a limit that was lost begins empty", "max(limit.owed, limit.burst), 0, lost", "limit.owed, 0, lost"),
    ("a refund gives nothing beyond the burst", "if by_plan or limit.owed <= limit.burst then", "if true then"),
    (
        "a charge stops at the deepest debt",
        "min(limit.owed + limit.charge, limit.deepest)",
        "limit.owed + limit.charge",
    ),
    ("a fraction is converted to another period", "if q ~= limit.q and limit.frac > 0 then", "if false then"),
    ("there are ten slots", "if not ends[slot] and #ends == SLOTS then", "if false then"),
    (
        "an eleventh slot is joined to the next",
        "elseif ends[slot] ~= slot_end and #ends < SLOTS then",
        "elseif ends[slot] ~= slot_end then",
    ),
    (
        "holders keep a bucket from filling",
        "                full = max(full, limit.ends",
        "                full = max(0, limit.ends",
    ),
    (
        "a reset leaves what is leased",
        "limit.owed, limit.frac, limit.changed = limit.held, 0, true",
        "limit.owed, limit.frac, limit.changed = 0, 0, true",
    ),
];

/// Returns the script without a rule.
pub fn without(rule: &str) -> String {
    let (_, text, without) = RULES.iter().find(|(name, ..)| *name == rule).expect("there is such a rule");
    assert_eq!(SOURCE.matches(text).count(), 1, "{rule}: {text:?} must stand once in the script");
    SOURCE.replace(text, without)
}

/// Returns the number of the first schedule that fails.
fn noticed(script: &str, tags: &SlotTags) -> Option<u64> {
    (0..SEEDS).find(|&seed| schedule::run(script, tags, seed).is_err())
}

#[test]
fn every_rule_that_is_left_out_is_noticed() {
    let tags = SlotTags::new();
    let mut unnoticed = Vec::new();
    for (rule, ..) in RULES {
        match noticed(&without(rule), &tags) {
            Some(seed) => println!("{rule}: schedule {seed}"),
            None => unnoticed.push(rule),
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}
