"""Levels of the keyed table, which are positions modulo 2^56: `limit/per_key.rs`."""

from proof import proved
from translator.values import INTEGERS, Number, both, either, implies

from .inputs import EACH, clock, token_line


@proved("levels", cases=[None])
def level_keeps_every_debt_of_a_quarter_circle(proof):
    """A debt of up to a quarter of the circle is read back from a level exactly, and a bucket that is full reads as full for half of it."""
    at, word = proof.number("at", "u64"), proof.number("word", "u64")
    level = Number("u64", proof.term(word) & (2**56 - 1))
    ahead = proof.call("ahead", level, at)
    distance = proof.term(word) - proof.term(at)
    near = both(distance <= 2**54, distance > -(2**55))
    proof.claim(implies(near, proof.term(ahead) == distance), "the distance is read back")
    proof.claim(both(proof.term(ahead) < 2**55, proof.term(ahead) >= -(2**55)), "it is within half a circle")


# CLAIM: KeyedLimiter
@proved("levels", INTEGERS, cases=EACH["level"])
def level_reads_as_a_legal_debt_or_as_full(proof):
    """Whatever a level holds, its word owes at most the deepest debt and the clock's step back, or nothing, and is never behind the position."""
    line, _ = token_line(proof, "level")
    at, ahead, skew = proof.number("at", "u64"), proof.number("ahead", "i64", -(2**55), 2**55 - 1), proof.number("skew", "u64")
    proof.instead("saturating_units", lambda machine, frame, args: skew)
    word = proof.call("TokenLine::word_ahead", line, ahead, at, clock(proof))
    owed = proof.wide(proof.call("TokenLine::debt", word, at))
    ever = proof.wide(line.fields["timeline"].fields["deepest_ever"]) * 2**proof.case
    # The step back is rounded up.
    proof.claim(owed <= ever + proof.wide(skew) + 1, "it owes no more than a legal debt")
    proof.claim(either(owed == 0, owed == ahead.value), "it owes what the level says, or nothing")
    proof.claim(implies(both(ahead.value <= ever, ahead.value > 0), owed == ahead.value), "a legal debt is never forgiven")
