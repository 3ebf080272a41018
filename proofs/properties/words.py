"""Packed words: `sync/field.rs`, the slots of the keyed table, those of a bulkhead."""

import z3

from proof import proved
from translator.values import Number, Struct, both, implies


def fields(proof):
    """Two fields of a word, one right above the other, at any place."""
    low, one, other = (proof.number(name, "u32") for name in ("below", "bits", "more"))
    a, b, c = low.value, one.value, other.value
    for part in (a, b, c):
        proof.assume(z3.ULE(part, 64))
    proof.assume(a + b + c == 64, b != 0, c != 0)
    lower = Struct("Field", [], {"offset": low, "bits": one})
    return lower, proof.call("Field::then", lower, other)


@proved("words")
def field_gives_back_what_was_put(proof):
    """A field reads the lowest bits of what was put into it, of whatever word, and puts nothing into its neighbour."""
    lower, upper = fields(proof)
    value, other = proof.number("value", "u64"), proof.number("other", "u64")
    word = proof.term(proof.call("Field::put", lower, value)) | proof.term(proof.call("Field::put", upper, other))
    word = Number("u64", word)
    for field, put in ((lower, value), (upper, other)):
        most = proof.term(proof.call("Field::max", field))
        proof.claim(proof.term(proof.call("Field::get", field, word)) == proof.term(put) & most, "it is read back")
        proof.claim(proof.term(proof.call("Field::mask", field)) == proof.term(proof.call("Field::put", field, Number("u64", 2**64 - 1))), "its mask")
    proof.fails_as("    let field = Field::at({below}, {bits});\n    assert_eq!(field.get(field.put({value})), {value} & field.max());\n")


@proved("words", cases=[bits for bits in range(1, 65)])
def wrapping_numbers_are_compared_by_their_distance(proof):
    """`ahead` is the signed distance of two numbers of a field that lie less than half a circle apart, however they wrap."""
    bits = proof.case
    field = Struct("Field", [], {"offset": Number("u32", 0), "bits": Number("u32", bits)})
    other, distance = proof.number("other", "u64"), proof.number("distance", "i64", -(1 << bits - 1), (1 << bits - 1) - 1)
    one = proof.machine.wrapping(None, "+", other, proof.machine.cast(None, distance, "u64", None), None)
    cut = [proof.call("Field::get", field, number) for number in (one, other)]
    for pair in (cut, [one, other]):
        proof.claim(proof.machine.equal(proof.call("Field::ahead", field, *pair), distance), "it is the distance")
    proof.fails_as(f"    let field = Field::lowest({bits});\n" + "    assert_eq!(field.ahead({other}_u64.wrapping_add_signed({distance}), {other}), {distance});\n")


@proved("words")
def slot_changes_only_the_field_that_it_names(proof):
    """A slot's word of another level or tier keeps the other fields; a claimed one has the next version and no tier."""
    word = Struct("SlotWord", [], {"0": proof.number("word", "u64")})
    level, tier = proof.number("level", "u64"), proof.number("tier", "usize", 0, 15)
    get = lambda its: tuple(proof.term(number) for number in parts(proof, its))  # noqa: E731
    (tier0, version0, level0) = get(word)
    (tier1, version1, level1) = get(proof.call("SlotWord::at_level", word, level))
    proof.claim(both(tier1 == tier0, version1 == version0, level1 == proof.term(level) & (2**56 - 1)), "at_level")
    (tier2, version2, level2) = get(proof.call("SlotWord::in_tier", word, tier))
    proof.claim(both(tier2 == proof.term(tier), version2 == version0, level2 == level0), "in_tier")
    claimed = proof.call("SlotWord::claimed", word)
    (tier3, version3, level3) = get(claimed)
    proof.claim(both(version3 == (version0 + 1) & 15, level3 == 0, proof.call("SlotWord::is_claimed", claimed)), "claimed")
    proof.claim(proof.call("SlotWord::has_owner_of", word, claimed) is False or z3.Not(proof.call("SlotWord::has_owner_of", word, claimed)), "another owner")


def parts(proof, word):
    constants = [proof.const(name, "keyed/table/slots.rs") for name in ("TIER", "VERSION", "LEVEL")]
    return [proof.call("Field::get", field, word.fields["0"]) for field in constants]


# CLAIM: Bulkhead
@proved("words")
def slots_change_only_the_count_that_they_name(proof):
    """Entering, leaving, joining, dequeuing and limiting change one field of a bulkhead's word, by one, and never carry into another."""
    word = Struct("Occupancy", [], {"0": proof.number("word", "u64")})

    def counts(its):
        return [proof.wide(proof.call(f"Occupancy::{name}", its)) for name in ("limit", "in_flight", "queued")]

    limit, calls, queued = counts(word)
    most = 2**24 - 1
    steps = {
        "entered": (z3.ULT(calls, limit), [limit, calls + 1, queued]),
        "left": (calls != 0, [limit, calls - 1, queued]),
        "joined": (z3.ULT(queued, 2**16 - 1), [limit, calls, queued + 1]),
        "dequeued": (queued != 0, [limit, calls, queued - 1]),
    }
    for name, (allowed, wanted) in steps.items():
        # The documented condition of the step is that of its panics, too.
        before = len(proof.machine.obligations)
        found = counts(proof.call(f"Occupancy::{name}", word))
        for obligation in proof.machine.obligations[before:]:
            obligation.condition = implies(allowed, obligation.condition)
        proof.claim(implies(allowed, both(*(a == b for a, b in zip(found, wanted)))), name)
    new = proof.number("limit", "u32")
    found = counts(proof.call("Occupancy::limited_to", word, new))
    given = proof.wide(new)
    proof.claim(both(found[0] == z3.If(z3.ULT(given, most), given, most), found[1] == calls, found[2] == queued), "limited_to")
