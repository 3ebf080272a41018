"""The token bucket in 32 bits: `word32/line.rs`."""

import z3

from proof import proved
from translator.values import INTEGERS, Number, Struct, both, implies, negated

# The fraction bits of a line whose burst is below 2^28 units.
BITS = range(29)


def line(proof, bits=0, shift=0):
    """Any line with these fraction bits and this shift: the burst is below 2^28 units, and the reach at most two bursts."""
    burst = proof.number("burst", "u32", 0, max(0, (1 << 28 - bits) - 1))
    fields = {
        "mult": proof.number("mult", "u32", 0, 1 << 31),
        "shift": Number("u32", shift),
        "fraction_bits": Number("u32", bits),
        "burst": burst,
        "reach": proof.number("reach", "u32", 0, (1 << 29) - 1),
        "pace": proof.number("pace", "u64", 0, 1 << 34),
        "pace_shift": proof.number("pace_shift", "u32", 0, 63),
    }
    return Struct("Line32", [], fields)


@proved("word32", INTEGERS, cases=BITS)
def take_in_32_bits_keeps_the_envelope(proof):
    """A take of 1 to a burst of tokens costs exactly these and leaves at most a burst of debt, or says what is owed."""
    bits = proof.case
    its = line(proof, bits)
    word, at, n = (proof.number(name, "u32") for name in ("word", "at", "n"))
    proof.assume(proof.call("Line32::is_takeable", its, n))
    owed = proof.term(proof.call("Line32::owed", word, at))
    result = proof.call("Line32::take", its, word, at, n)
    after, taken = result.payloads["Taken"][0], result.is_("Taken")
    full, cost = proof.wide(its.fields["burst"]) * 2**bits, n.value * 2**bits
    behind = proof.term(proof.call("Line32::owed", after, at))
    proof.claim(implies(taken, both(behind == owed + cost, behind <= full)), "it costs its tokens, within the burst")
    proof.claim(implies(negated(taken), both(owed + cost > full, proof.term(result.payloads["Owed"][0]) == owed)), "a refusal says what is owed")
    proof.claim(proof.wide(n) <= proof.wide(its.fields["burst"]), "more than a burst is never tried")
    proof.claim(n.value >= 1, "nor nothing")


@proved("word32", INTEGERS, cases=BITS)
def circled_word_reads_as_full(proof):
    """A debt beyond the reach counts as none, and what remains is rounded down and at most the burst."""
    its = line(proof, proof.case)
    word, at = proof.number("word", "u32"), proof.number("at", "u32")
    owed, surely = (proof.call(f"Line32::{name}", *args) for name, args in (("owed", (word, at)), ("surely_owed", (its, word, at))))
    reach = proof.wide(its.fields["reach"])
    proof.claim(proof.term(surely) == z3.If(proof.term(owed) > reach, 0, proof.term(owed)), "beyond the reach it is none")
    remaining, one = proof.term(proof.call("Line32::remaining", its, surely)), 2**proof.case
    full = proof.wide(its.fields["burst"]) * one
    left = z3.If(full > proof.term(surely), full - proof.term(surely), 0)
    proof.claim(both(remaining * one <= left, left < (remaining + 1) * one), "what remains is rounded down")


@proved("word32", cases=range(64))
def wait_in_32_bits_is_rounded_up(proof):
    """The wait is the product with the pace, rounded up, and does not overflow: 0 for nothing, never where the pace is unknown."""
    its = line(proof)
    its = its.with_field("pace_shift", Number("u32", proof.case))
    units = proof.number("units", "u32", 0, (1 << 29) - 1)
    # The product does not matter here, only that it and the sum fit: at most 29 bits and 34.
    wait = proof.call("Line32::wait", its, units).fields["0"]
    proof.claim(implies(units.value == 0, proof.term(wait) == 0), "nothing takes no time")
    unknown = both(units.value != 0, its.fields["pace"].value == 0)
    proof.claim(implies(unknown, proof.term(wait) == 2**64 - 1), "an unknown pace never ends")



@proved("word32", cases=range(64))
def position_in_32_bits_is_the_product_rounded_down(proof):
    """A position is floor(ticks * mult / 2^shift) modulo 2^32, for every reading of 64 bits; its two products do not overflow."""
    its = line(proof, shift=proof.case)
    now = proof.number("now", "u64")
    found = proof.term(proof.call("Line32::position", its, now))
    mult = z3.ZeroExt(32, its.fields["mult"].value)
    # The product by its halves, each below 2^63: the solver sees that they are those of the code, and need not multiply.
    low, high = (now.value & 0xFFFFFFFF) * mult, z3.LShR(now.value, 32) * mult
    product = (z3.ZeroExt(64, high) << 32) + z3.ZeroExt(64, low)
    proof.claim(found == z3.Extract(31, 0, z3.LShR(product, proof.case)), "it is the floor")


@proved("word32", INTEGERS, cases=range(64))
def wait_in_32_bits_is_never_too_short(proof):
    """After a wait the clock has brought its units, by the rounded rate that positions follow, and a wait is too long by at most a tick and its rounding."""
    its = line(proof)
    its = its.with_field("pace_shift", Number("u32", proof.case))
    units = proof.number("units", "u32", 1, (1 << 29) - 1)
    pace, mult = its.fields["pace"].value, its.fields["mult"].value
    # The exact rate: so many units in so many ticks. `ratio_is_the_least_fraction_that_suffices` shows how both fractions are rounded.
    brought, ticks = proof.number("rate units", "u128", 1).value, proof.number("rate ticks", "u128", 1).value
    scale = proof.number("2^shift", "u64", 1).value
    proof.assume(pace > 0, mult * ticks >= brought * scale)
    proof.assume(pace * brought >= ticks * 2**proof.case, pace * brought < ticks * 2**proof.case + brought)
    wait, u = proof.term(proof.call("Line32::wait", its, units).fields["0"]), units.value
    proof.product(wait * 2**proof.case - u * pace, brought)
    proof.product(pace * brought - ticks * 2**proof.case, u)
    proof.product(mult * ticks - brought * scale, wait)
    proof.product(wait * brought - u * ticks, scale)
    proof.product(u * scale - 1 - wait * mult, ticks, given=wait * mult < u * scale)
    proof.claim(wait * mult >= u * scale, "it brings its units")
    proof.product(u * pace - 1 - (wait - 1) * 2**proof.case, brought)
    proof.product(ticks * 2**proof.case + brought - 1 - pace * brought, u)
    proof.claim((wait - 1) * brought * 2**proof.case < u * (ticks * 2**proof.case + brought), "a tick less is too short, but for the rounding of the pace")
