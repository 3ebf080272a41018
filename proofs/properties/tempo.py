"""Positions at the ticks of a clock, and waits: `quota/timeline.rs`."""

import z3

from proof import proved
from translator.machine import product as machine_product
from translator.values import INTEGERS, UNIT, Number, Struct, Tuple, both, implies

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


def times(term, factor):
    """The product of a factor with a sum, or with one of two: of each part, because the solver does not see into a product."""
    if z3.is_app_of(term, z3.Z3_OP_ADD):
        return z3.Sum([times(part, factor) for part in term.children()])
    if z3.is_app_of(term, z3.Z3_OP_ITE):
        condition, one, other = term.children()
        return z3.If(condition, times(one, factor), times(other, factor))
    return term * factor


# CLAIM: RateLimiter
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
        return times(proof.term(ticks), proof.term(rate.fields["mult"])) * 2 ** (64 - shift) + part.value >= units.value * 2**64

    # `brings_is_exact` shows that.
    proof.instead("brings", brings)
    result = proof.term(proof.call("Tempo::wait", rate, units).fields["0"])
    (ticks,) = asked
    # Before the cast to 64 bits, which cuts nothing off on the path that goes on.
    ticks = ticks.value
    if z3.is_app_of(ticks, z3.Z3_OP_ITE):
        ticks = ticks.arg(1) if z3.is_and(ticks.arg(0)) else ticks.arg(2)
    d, m, i, u, p = ticks, *(proof.term(number) for number in (rate.fields["mult"], rate.fields["inverse"], units, part))
    exponent = inverse_shift + shift
    enough = u * i * 2**64 - p * i
    proof.product(i, u * 2**64 - p)
    if not power:
        proof.product(u * 2**64 - p, i * m - 2**exponent)
        proof.product(u * 2**64 - p, 2**exponent + m - i * m)
    proof.product(m - 1, (d + 1) * 2 ** (inverse_shift + 64) - enough)
    proof.product(m - 1, enough + 2**64 - d * 2 ** (inverse_shift + 64))
    scaled = 2 ** (64 - shift)
    brought = times(result, m) * scaled + p
    proof.claim(z3.Implies(result < 2**64 - 2, brought >= u * 2**64), "the wait suffices")
    is_short = u < 2**inverse_shift - 1
    proof.product(m, 2 ** (inverse_shift + 64) - 2**64 - (u * 2**64 - p), given=is_short)
    least = both(is_short, result < 2**64 - 2)
    proof.claim(z3.Implies(least, brought - m * scaled < u * 2**64), "one tick less does not")
    proof.fails_as(
        """\
    let tempo = tempo([{mult}, {inverse}, {brought}, {shape}]);
    let _ = tempo.wait({units});
"""
    )


@proved("tempo", INTEGERS, cases=SHIFTS)
def waits_count_from_the_reading(proof):
    """After a reading, the position is `units` further once the wait is over, and not a tick earlier."""
    shift = proof.case
    line = timeline(proof, shift)
    elapsed, units = proof.number("elapsed", "i64", -(2**62), 2**62 - 1), proof.number("units", "u64", 1, (1 << 61) - 1)
    now = proof.machine.wrapping(None, "+", line.fields["origin"], proof.machine.cast(None, elapsed, "u64", None), None)
    mult = line.fields["tempo"].fields["mult"].value

    def floor(ticks):
        return ticks * mult / 2**shift

    here = floor(elapsed.value)
    # As `units_are_the_product_rounded_down` shows.
    proof.instead("units", lambda machine, frame, args: Tuple([Number("i64", here), Number("u64", elapsed.value * mult % 2**64)]))
    proof.assume(here < 2**63, here >= -(2**63))
    moved = proof.machine.wrapping(None, "+", line.fields["start"], proof.machine.cast(None, Number("i64", here), "u64", None), None)
    for name in ("reading", "position"):
        proof.claim(proof.machine.equal(proof.call(f"Timeline::{name}", line, now), moved), f"{name}: the start, moved by what the ticks bring")
    wait = proof.number("wait", "u64", 1, 1 << 62)
    # The part of a unit at the reading, as `fraction_is_what_is_rounded_off` has it, and the wait that the property above describes.
    part = elapsed.value * mult % 2**shift * 2 ** (64 - shift)
    scaled = 2 ** (64 - shift)
    proof.assume(wait.value * mult * scaled + part >= units.value * 2**64, (wait.value - 1) * mult * scaled + part < units.value * 2**64)
    then, before = floor(elapsed.value + wait.value), floor(elapsed.value + wait.value - 1)
    proof.claim(then >= here + units.value, "the wait suffices")
    proof.claim(before < here + units.value, "one tick less does not")
    proof.claim(floor(elapsed.value + 1) >= here, "time does not run backwards")
    proof.fails_as(
        """\
    let mut timeline = timeline([{origin}, {start}, {mult}, {inverse}, {brought}, {shape}, {deepest_ever}, {behind}]);
    let now = {origin}_u64.wrapping_add_signed({elapsed});
    assert_eq!(timeline.position(now), {start}_u64.wrapping_add_signed(((i128::from({elapsed}_i64) * {mult}) >> ({shape} & 63)) as i64));
    assert_eq!(timeline.reading(now), timeline.position(now));
"""
    )


@proved("tempo", INTEGERS, cases=SHIFTS)
def units_for_a_wait_take_at_least_as_long(proof):
    """The units for a wait take no less than that wait, and are what it brings, or the fewest that take as long."""
    shift = proof.case
    line = timeline(proof, shift)
    mult, scaled = line.fields["tempo"].fields["mult"].value, 2 ** (64 - shift)
    asked, part = proof.number("asked", "u64", 0, 1 << 62), proof.number("part", "u64").value
    waits = []

    def wait(machine, frame, args):
        """The least wait that suffices, as `wait_is_the_least_that_suffices` shows."""
        units, found = proof.term(args[1]), proof.number(f"wait {len(waits)}", "u64", 0, 1 << 63)
        ticks = found.value
        machine.facts.append(z3.If(units == 0, ticks == 0, both(ticks >= 1, ticks * mult * scaled + part >= units * 2**64, ticks * mult * scaled - mult * scaled + part < units * 2**64)))
        waits.append((units, ticks))
        return Struct("Ticks", [], {"0": found})

    proof.instead("wait", wait)
    brought = z3.Int("brought")
    # As `units_are_the_product_rounded_down` shows.
    proof.instead("saturating_units", lambda machine, frame, args: Number("u64", brought, 0, (1 << 62) - 1))
    product = asked.value * mult
    proof.assume(mult > 0, product < 2 ** (62 + shift), brought >= 0, brought * 2**shift <= product, product < (brought + 1) * 2**shift)
    found = proof.term(proof.call("Timeline::units_for", line, Struct("Ticks", [], {"0": asked})))
    for _, ticks in waits:
        proof.product(mult, ticks - asked.value, given=ticks >= asked.value)
        proof.product(mult, asked.value - 1 - ticks, given=ticks < asked.value)
    before = product * scaled - mult * scaled + part
    proof.claim(implies(asked.value > 0, before < found * 2**64), "a tick less does not bring them")
    proof.claim(z3.Or(found == brought, before >= (found - 1) * 2**64), "they are what the wait brings, or a unit less takes less time")
    proof.claim(both(found >= brought, found <= brought + 2), "or one or two more")


def timeline(proof, shift):
    """A timeline whose scale has this shift; positions and readings are any."""
    shape = Number("u64", LINE | 63 << 6 | shift)
    fields = {"mult": proof.number("mult", "u64", 0, 1 << 62), "inverse": proof.number("inverse", "u64"), "brought": proof.number("brought", "u64")}
    proof.inputs["shape"] = shape
    return Struct(
        "Timeline",
        [],
        {
            "origin": proof.number("origin", "u64"),
            "start": proof.number("start", "u64"),
            "tempo": Struct("Tempo", [], {**fields, "shape": shape}),
            "deepest_debt": proof.number("deepest_debt", "u64"),
            "deepest_ever": proof.number("deepest_ever", "u64"),
            "unlimited": False,
            "behind": proof.number("behind", "u64"),
        },
    )


# CLAIM: a new quota
@proved("tempo", INTEGERS, cases=SHIFTS)
def bent_line_gives_nothing_twice(proof):
    """A changed line continues exactly where the old one is: position, part of a unit and lag together stay the same, to 2^-64 units."""
    line = timeline(proof, proof.case)
    position, part = proof.number("position", "u64"), proof.number("part", "u64")
    proof.instead("reading", lambda machine, frame, args: position)
    proof.instead("part", lambda machine, frame, args: part)
    now = proof.number("now", "u64")
    old = timeline_like(proof, line)
    new = proof.call("Timeline::starting", line, now, old).fields
    tick = line.fields["tempo"].fields["mult"].value * 2 ** (64 - proof.case)
    less = proof.machine.wrapping
    ticks = proof.term(less(None, "-", now, new["origin"], None))
    brought = part.value + old.fields["behind"].value
    carry = z3.If(brought >= 2**64, 1, 0)
    proof.claim(proof.term(less(None, "-", new["start"], position, None)) == carry, "it starts at the old position, and a whole unit more if the parts make one")
    product = machine_product(ticks, tick)
    proof.claim(product + proof.term(new["behind"]) == brought - carry * 2**64, "the part of a unit is kept, to the last bit")
    proof.claim(implies(tick > 0, both(product < 2**64, z3.Or(proof.term(new["behind"]) < tick, ticks == 2**62))), "it lags by less than a tick")


def timeline_like(proof, line):
    return line.with_field("behind", proof.number("old_behind", "u64"))


@proved("tempo")
def slower_is_decided_without_overflow(proof):
    """`is_slower_than` compares two rates exactly: no bit of the shifted products is lost."""
    scales = [(proof.number(f"{name} mult", "u64", 0, 1 << 62), proof.number(f"{name} shape", "u64")) for name in ("own", "other")]
    lines = []
    for mult, shape in scales:
        fields = {name: proof.let("u64", 0) for name in ("inverse", "brought")} | {"mult": mult, "shape": shape}
        lines.append(Struct("Timeline", [], {"tempo": Struct("Tempo", [], fields)}))
    found = proof.call("Timeline::is_slower_than", *lines)
    (m1, s1), (m2, s2) = ((proof.wide(mult, 160), proof.wide(shape, 160) & 63) for mult, shape in scales)
    proof.claim(found == z3.ULT(m1 << s2, m2 << s1), "it is the comparison of the fractions")


@proved("tempo")
def fraction_bits_leave_room_for_the_debt(proof):
    """The fraction bits are the most with which the deepest debt fits its bits and a tick is at most 4 units; nothing overflows."""
    bits = proof.number("debt_bits", "u32", 1, 61)
    brought, ticks = proof.number("brought", "u128", 0, (1 << 62) - 1), proof.number("ticks", "u128")
    deepest = proof.number("deepest", "u64")
    limit = z3.LShR(z3.BitVecVal(2**61 - 1, 64), z3.ZeroExt(32, 61 - bits.value))
    proof.assume(z3.ULE(deepest.value, limit))
    proof.instead("rate", lambda machine, frame, args: Tuple([brought, ticks]))
    proof.instead("deepest_debt", lambda machine, frame, args: deepest)
    fits = lambda now: z3.ULE(z3.ZeroExt(64, deepest.value) << z3.ZeroExt(96, now), z3.ZeroExt(64, limit))  # noqa: E731
    ranges = {"bits": ("u32", 0, 61)}
    proof.machine.invariants["quota/timeline.rs", "most_fraction_bits"] = (
        ranges,
        lambda now: fits(proof.term(now["bits"])),
        lambda before, after: both(fits(proof.term(after["bits"])), proof.term(after["bits"]) == proof.term(before["bits"]) - 1),
    )
    from translator.rust import Type

    found = proof.term(proof.call("most_fraction_bits", UNIT, Number("u64", 0), bits, L=Type("TokenLine")))
    idle = z3.Or(brought.value == 0, ticks.value == 0)
    proof.claim(fits(found), "the deepest debt fits")
    by = z3.ZeroExt(96, found)
    proof.claim(z3.LShR(brought.value << by, by) == brought.value, "the rate in units keeps all of its bits")
    wide = (z3.ZeroExt(64, brought.value) << z3.ZeroExt(160, found), z3.ZeroExt(64, ticks.value) << 2)
    proof.claim(z3.Or(idle, found == 0, z3.ULE(*wide)), "a tick is at most 4 units, or there are no fraction bits")


@proved("tempo")
def shape_is_read_back(proof):
    """A tempo gives back the scale, the fraction bits, the frequency and the mark of no limit that it was made of."""
    mult, shift = proof.number("mult", "u64", 0, 1 << 62), proof.number("shift", "u32", 0, 63)
    bits, frequency = proof.number("fraction_bits", "u32", 0, 63), proof.number("frequency", "u32")
    inverse = Struct("Inverse", [], {"mult": proof.number("inverse", "u64"), "shift": proof.number("inverse_shift", "u32", 0, 127)})
    unlimited = proof.boolean("unlimited")
    proof.instead("inverse", lambda machine, frame, args: inverse)
    scale = Struct("Scale", [], {"mult": mult, "shift": shift})
    made = proof.call("Tempo::new", scale, bits, Struct("Frequency", [], {"0": frequency}), unlimited)
    equal = proof.machine.equal
    proof.claim(equal(proof.call("Tempo::scale", made), scale), "the scale")
    proof.claim(equal(proof.call("Tempo::fraction_bits", made), bits), "the fraction bits")
    proof.claim(equal(proof.call("Tempo::frequency", made).fields["0"], frequency), "the frequency")
    proof.claim(proof.call("Tempo::is_unlimited", made) == unlimited, "the mark of no limit")
    shape = made.fields["shape"].value
    proof.claim(z3.LShR(shape, 6) & 127 == z3.ZeroExt(32, inverse.fields["shift"].value), "the inverse's shift is where `Tempo::wait` reads it")
    proof.claim(proof.call("Tempo::waits", made).is_("None"), "it has no known waits")
