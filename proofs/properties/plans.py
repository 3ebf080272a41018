"""Plans, and the levels of buckets by plan: `quota/plan.rs`, `limit/by_plan.rs`, `limit/planned_level.rs`."""

import z3

from proof import proved
from translator.values import INTEGERS, Number, Struct, Tuple

from .inputs import quota


def _keeps_every_debt(proof, layout, file, bits, field="FULL_AT"):
    """Claims that a layout keeps the instants of debts of up to a quarter of its circle."""
    at = proof.number("at", "u64")
    owed, passed = proof.number("owed", "u64", 0, 1 << bits - 2), proof.number("passed", "u64", 0, 1 << bits - 2)
    full_at = proof.const(field, file)
    until = Number("u64", proof.term(at) + proof.term(owed))
    level = proof.term(proof.call("Field::put", full_at, until))
    if field == "FULL_AT":
        tag, tags = proof.number("tag", "u64", 0, 255), proof.const("TAG", file)
        level = proof.term(proof.call("Field::put", tags, tag)) | level
    level, later = Number("u64", level), Number("u64", proof.term(at) + proof.term(passed))
    o, p = proof.term(owed), proof.term(passed)
    read = f"{layout}::owed_beats"
    proof.claim(proof.term(proof.call(read, level, at)) == o, "it is read back")
    proof.claim(proof.term(proof.call(read, level, later)) == z3.If(z3.UGT(o, p), o - p, 0), "and less what has passed")
    if field == "FULL_AT":
        proof.claim(proof.machine.equal(proof.call("Field::get", tags, level), tag), "the tag too")


# CLAIM: Plan
@proved("plans")
def instant_in_48_bits_keeps_every_debt(proof):
    """The beats that a bucket owes are read back from its level exactly, up to the longest debt, and later ones less what has passed."""
    _keeps_every_debt(proof, "ByPlan", "limit/by_plan.rs", 48)


# CLAIM: WordLimiter
@proved("plans")
def instant_in_56_bits_keeps_every_debt(proof):
    """The same of the word of a limiter that the program owns."""
    _keeps_every_debt(proof, "WordLevel", "words/limiter.rs", 56)


# CLAIM: WordTable
@proved("plans")
def instant_in_41_bits_keeps_every_debt(proof):
    """The same of a slot in a table of words."""
    _keeps_every_debt(proof, "SlotLevel", "words/table/slot.rs", 41, "LEVEL")


# CLAIM: Plan
@proved("plans", INTEGERS, cases=range(1, 64))
def instant_leads_back_to_its_position(proof):
    """The beat at which a position is reached leads back to that position, so nothing drifts however often a bucket is written."""
    shift = proof.case
    # A position lasts two beats or more.
    mult = proof.number("mult", "u64", 1, 1 << shift - 1)
    at, wait, units = proof.number("at", "u64", 1, 1 << 62), proof.number("wait", "u64", 1, 1 << 46), proof.number("units", "u64", 1, 1 << 45)

    def floor(beats):
        return beats * mult.value / 2**shift

    here = floor(at.value)
    # The wait is the least that suffices: `wait_is_the_least_that_suffices`, `waits_count_from_the_reading`.
    proof.assume(floor(at.value + wait.value) >= here + units.value, floor(at.value + wait.value - 1) < here + units.value)
    shape = Number("u64", 1 << 14 | 1 << 6 | shift)
    fields = {"mult": mult, "inverse": Number("u64", 1 << 63), "shape": shape, "limit": Number("u32", 1), "burst": Number("u32", 1)}
    fields |= {"max_debt": Number("u32", 0), "tag": Number("u8", 1), "debt_bits": Number("u8", 0), "has_own_max_debt": False}
    # As `units_are_the_product_rounded_down` shows.
    proof.instead("units", lambda machine, frame, args: _units(floor, args))
    beat = Number("u64", at.value + wait.value, 2, (1 << 62) + (1 << 46))
    proof.claim(proof.term(proof.call("Plan::position_from", Struct("Plan", [], fields), beat)) == here + units.value, "it leads back")


def _units(floor, args):
    return Tuple([Number("i64", floor(args[1].value), 0, (1 << 63) - 1), Number("u64", 0)])


@proved("plans")
def default_tags_are_of_1_to_255(proof):
    """The default tag of every quota is 1 to 255, and computing it does not panic."""
    given = quota(proof)
    proof.machine.loose = True
    tag = proof.call("tag_of", given)
    proof.claim(proof.domain.compare(">=", tag, Number("u8", 1)), "it is at least 1")
