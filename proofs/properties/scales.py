"""Rates as binary fractions: `time/scale.rs`, `time/frequency.rs`, `time/ticks.rs`."""

import z3

from proof import proved
from translator.values import INTEGERS, Number, Struct, both, implies

# The shifts of a scale.
SHIFTS = range(64)
SCALE = "    let scale = Scale {{ mult: {mult}, shift: {shift} }};\n"


def scale(proof, shift):
    """A scale with this shift: `mult` is at most 2^62."""
    proof.inputs["shift"] = Number("u32", shift)
    return Struct("Scale", [], {"mult": proof.number("mult", "u64", 0, 1 << 62), "shift": Number("u32", shift)})


@proved("scales", INTEGERS, cases=[62, 55, 52, 42, 34, 31])
def ratio_is_the_least_fraction_that_suffices(proof):
    """`mult / 2^shift` is the least fraction of its denominator that is no less than units / ticks, and has as many bits as are allowed."""
    bits = proof.case
    units, ticks = proof.number("units", "u128", 1), proof.number("ticks", "u128", 1)
    u, t = units.value, ticks.value
    # Callers' rates: at most 2^62 units a tick.
    proof.assume(u <= t * 2**62)
    scaled = [z3.Int("units 2^shift")]

    def bounded(its):
        return both(its <= t * 2**62, implies(u <= t * 2 ** (bits - 1), its <= t * 2**bits))

    def invariant(now):
        if now["shift"].is_concrete:
            scaled[0] = u
        else:
            scaled[0] = z3.Int("units 2^shift")
        return both(now["quotient"].value * t + now["remainder"].value == scaled[0], now["remainder"].value < t, bounded(scaled[0]))

    def step(before, after):
        return both(
            after["quotient"].value * t + after["remainder"].value == 2 * scaled[0],
            after["remainder"].value < t,
            bounded(2 * scaled[0]),
            after["shift"].value == before["shift"].value + 1,
        )

    ranges = {"quotient": ("u128", 0, 1 << 62), "remainder": ("u128", 0, (1 << 128) - 1), "shift": ("u32", 0, 63)}
    proof.machine.invariants["time/scale.rs", "ratio_below"] = (ranges, invariant, step)
    found = proof.call("Scale::ratio_below", units, ticks, Number("u32", bits)).fields
    mult, shift = found["mult"].value, found["shift"].value
    proof.claim(both(mult * t >= scaled[0], mult * t < scaled[0] + t), "it is rounded up, by less than one")
    proof.claim(both(shift <= 63, mult <= 2**62), "it fits its fields")
    proof.claim(z3.Or(shift == 63, mult >= 2 ** (bits - 1)), "no more bits are possible")
    proof.claim(implies(u <= t * 2 ** (bits - 1), mult <= 2**bits), "it has at most the bits that are allowed")
    proof.fails_as(
        """\
    let scale = Scale::ratio_below({units}, {ticks}, 62);
    assert!(scale.shift <= 63 && scale.mult <= 1 << 62, "{{scale:?}}");
"""
    )


def bit_lengths():
    """A number of bits, and whether the number is the power of two."""
    return [(bits, power) for bits in range(1, 64) for power in (True, False) if power or 1 < bits < 63]


@proved("scales", INTEGERS, cases=bit_lengths())
def inverse_is_rounded_up_by_less_than_one(proof):
    """The inverse has 64 significant bits: `mult * inverse` is at least a power of two, and less than `mult` above it."""
    bits, power = proof.case
    low, high = (1 << bits - 1, 1 << bits - 1) if power else ((1 << bits - 1) + 1, (1 << bits) - 1)
    shift = proof.number("shift", "u32", 0, 63)
    mult = proof.number("mult", "u64", low, high)
    found = proof.call("Scale::inverse", Struct("Scale", [], {"mult": mult, "shift": shift})).fields
    exponent = 63 + bits - power
    product = proof.wide(found["mult"]) * proof.wide(mult)
    proof.claim(both(product >= 2**exponent, product < 2**exponent + proof.wide(mult)), "it is rounded up, by less than one")
    proof.claim(both(proof.wide(found["mult"]) >= 2**63, proof.wide(found["mult"]) < 2**64), "it has 64 bits")
    proof.claim(proof.wide(found["shift"]) == exponent - proof.wide(shift), "its shift is the difference")
    proof.claim(proof.wide(found["shift"]) <= 127, "its shift fits seven bits")
    proof.fails_as("    let inverse = Scale {{ mult: {mult}, shift: {shift} }}.inverse();\n    assert!(u128::from(inverse.mult) * {mult} >= 1 << (inverse.shift + {shift}));\n")


@proved("scales", INTEGERS, cases=SHIFTS)
def units_are_the_product_rounded_down(proof):
    """`units` is floor(ticks * mult / 2^shift) for every signed number of ticks; `saturating_units` is the same, cut at 2^64 - 1."""
    rate = scale(proof, proof.case)
    ticks, many = proof.number("ticks", "i64"), proof.number("many", "u64")
    units, low = proof.call("Scale::units", rate, ticks).parts
    product = ticks.value * rate.fields["mult"].value
    found = proof.wide(units)
    proof.assume(product < 2 ** (63 + proof.case), product >= -(2 ** (63 + proof.case)))
    proof.claim(both(found * 2**proof.case <= product, product < (found + 1) * 2**proof.case), "it is the floor")
    proof.claim(proof.wide(low) == product % 2**64, "with the lowest 64 bits of the product")
    whole = many.value * rate.fields["mult"].value
    cut = proof.wide(proof.call("Scale::saturating_units", rate, many))
    proof.claim(z3.Or(both(cut * 2**proof.case <= whole, whole < (cut + 1) * 2**proof.case), both(cut == 2**64 - 1, whole >= 2 ** (64 + proof.case))), "or cut")
    proof.fails_as(SCALE + "    let floor = (i128::from({ticks}_i64) * {mult}) >> {shift};\n    assert_eq!(i128::from(scale.units({ticks}).0), floor);\n")


@proved("scales", cases=SHIFTS)
def fraction_is_what_is_rounded_off(proof):
    """`fraction` of the lowest 64 bits of a product is the product modulo 2^shift, in 2^-64 units."""
    shift = proof.case
    product = z3.BitVec("product", 128)
    low = Number("u64", z3.Extract(63, 0, product))
    proof.inputs["low"] = low
    found = proof.call("Scale::fraction", scale(proof, shift), low)
    proof.claim(proof.wide(found) == (product & (2**shift - 1)) << (64 - shift), "it is the rest")
    proof.fails_as(SCALE + "    assert_eq!(u128::from(scale.fraction({low})), (u128::from({low}_u64) & ((1 << {shift}) - 1)) << (64 - {shift}));\n")


def exact_fraction(product, shift):
    """What stands for `fraction` in proofs with integers: the rest of a product, which the property above shows."""
    return lambda machine, frame, args: Number("u64", product % 2**shift * 2 ** (64 - shift))


@proved("scales", INTEGERS, cases=SHIFTS)
def brings_is_exact(proof):
    """`brings` is true exactly if the ticks bring the units, with the part that was there before, to the last of 64 fraction bits."""
    shift = proof.case
    rate = scale(proof, shift)
    ticks, units, part = (proof.number(name, "u64") for name in ("ticks", "units", "part"))
    product = ticks.value * rate.fields["mult"].value
    # Less than 2^64 - 1 units, as `Tempo::wait` asks.
    proof.assume(product < (2**64 - 1) * 2**shift)
    proof.instead("fraction", exact_fraction(product, shift))
    found = proof.call("Scale::brings", rate, ticks, units, part)
    proof.claim(found == (product * 2 ** (64 - shift) + part.value >= units.value * 2**64), "it is exact")
    proof.fails_as(SCALE + "    let _ = scale.brings({ticks}, {units}, {part});\n")


@proved("scales", cases=range(65))
def frequency_in_32_bits_is_rounded_down(proof):
    """A frequency loses less than its 2^-25th part, never grows, and is read back from its bits."""
    # Each number of bits by itself.
    hertz = proof.number("hertz", "u64", 1 << proof.case - 1 if proof.case else 0, (1 << proof.case) - 1)
    packed = proof.call("Frequency::from_hertz", hertz)
    read = proof.call("Frequency::hertz", packed)
    given, found = proof.wide(hertz), proof.wide(read)
    proof.claim(z3.ULE(found, given), "it does not grow")
    proof.claim(z3.ULE((given - found) << 25, given), "it loses less than its 2^-25th part")
    again = proof.call("Frequency::from_bits", proof.call("Frequency::to_bits", packed))
    proof.claim(proof.wide(proof.call("Frequency::hertz", again)) == found, "it is read back")
    proof.fails_as("    let rounded = Frequency::from_hertz({hertz}).hertz();\n    assert!(rounded <= {hertz} && u128::from({hertz}_u64 - rounded) << 25 <= {hertz});\n")


@proved("scales")
def rest_of_a_wait_is_the_difference(proof):
    """A wait less another one is their difference or 0, and one that never ends stays one."""
    one, other = proof.number("one", "u64"), proof.number("other", "u64")
    rest = proof.call("Ticks::less", Struct("Ticks", [], {"0": one}), Struct("Ticks", [], {"0": other})).fields["0"]
    a, b = proof.term(one), proof.term(other)
    never = z3.BitVecVal(2**64 - 1, 64)
    proof.claim(proof.term(rest) == z3.If(a == never, never, z3.If(z3.UGT(a, b), a - b, 0)), "it is the difference")
    proof.fails_as("    assert_eq!(Ticks::of_count({one}).less(Ticks::of_count({other})).count() == u64::MAX, {one} == u64::MAX);\n")
