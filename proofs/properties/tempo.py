"""Positions at the ticks of a clock, and waits: `quota/timeline.rs`."""

import z3

from proof import proved
from translator.values import INTEGERS, UNIT, Enum, Number, Struct, Tuple, both, implies

from .scales import SHIFTS

# Where the fields of a shape begin: checked by `shape_is_read_back`.
LINE = 1 << 14


def rates():
    """The scales that `ratio_is_the_least_fraction_that_suffices` leaves: 62 bits, or a shift of 63. With the exact powers of two apart."""
    found = [(shift, 62, False) for shift in range(64)] + [(63, bits, False) for bits in range(2, 62)]
    return found + [(shift, bits, True) for shift in range(64) for bits in (62, 63)] + [(63, bits, True) for bits in range(1, 62)]


def tempo(proof, shift, bits, power):
    """A tempo of such a scale, with the inverse that `inverse_is_rounded_up_by_less_than_one` describes."""
    low, high = (1 << bits - 1, 1 << bits - 1) if power else ((1 << bits - 1) + 1, (1 << bits) - 1)
    exponent = 63 + bits - power
    mult, inverse = proof.number("mult", "u64", low, high), proof.number("inverse", "u64", 1 << 63)
    m, i = proof.term(mult), proof.term(inverse)
    proof.assume(i * m >= 2**exponent, i * m < 2**exponent + m)
    shape = Number("u64", LINE | (exponent - shift) << 6 | shift)
    proof.inputs["shape"] = shape
    return Struct("Tempo", [], {"mult": mult, "inverse": inverse, "brought": proof.number("brought", "u64"), "shape": shape}), exponent - shift


@proved("tempo", INTEGERS, cases=rates())
def wait_is_the_least_that_suffices(proof):
    """A wait of up to 2^62 ticks brings its units, and one tick less does not. A longer one is never too short. No product overflows."""
    shift, bits, power = proof.case
    rate, inverse_shift = tempo(proof, shift, bits, power)
    units = proof.number("units", "u64", 1, (1 << 63) - 1)
    part = proof.number("part", "u64")
    proof.instead("part", lambda machine, frame, args: part)
    asked = []

    def brings(machine, frame, args):
        ticks = args[1]
        asked.append(ticks)
        return proof.term(ticks) * proof.term(rate.fields["mult"]) * 2 ** (64 - shift) + part.value >= units.value * 2**64

    # `brings_is_exact` shows that.
    proof.instead("brings", brings)
    result = proof.term(proof.call("Tempo::wait", rate, units).fields["0"])
    (ticks,) = asked
    d, m, i, u, p = (proof.term(number) for number in (ticks, rate.fields["mult"], rate.fields["inverse"], units, part))
    exponent = inverse_shift + shift
    enough = u * i * 2**64 - p * i
    if not power:
        proof.product(u * 2**64 - p, i * m - 2**exponent)
        proof.product(u * 2**64 - p, 2**exponent + m - i * m)
    proof.product(m - 1, (d + 1) * 2 ** (inverse_shift + 64) - enough)
    proof.product(m - 1, enough + 2**64 - d * 2 ** (inverse_shift + 64))
    scaled = 2 ** (64 - shift)
    proof.claim(z3.Implies(result < 2**64 - 2, result * m * scaled + p >= u * 2**64), "the wait suffices")
    least = both(u < 2**inverse_shift - 1, result < 2**64 - 2)
    proof.claim(z3.Implies(least, (result - 1) * m * scaled + p < u * 2**64), "one tick less does not")
    proof.fails_as(
        """\
    let tempo = tempo([{mult}, {inverse}, {brought}, {shape}]);
    let _ = tempo.wait({units});
"""
    )
