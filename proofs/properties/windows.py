"""The line of windows: `limit/windows/line.rs`, and the counts of `limit/fixed_window.rs` and `limit/sliding_counter.rs`."""

import z3

from proof import proved
from translator.values import INTEGERS, Number, Struct, both, implies, negated

from .inputs import EACH, WINDOW_LINE, clock, window_line

# The bits of a window's number: of a limiter with counts of 32, 24 and 16 bits, and of a level.
NUMBER_BITS = [32, 24, 16]


def field(offset, bits):
    return Struct("Field", [], {"offset": Number("u32", offset), "bits": Number("u32", bits)})


def counted(proof, line, bits):
    """The window that counts at any position, for any number in the word."""
    at, number = proof.number("at", "u64"), proof.number("number", "u64", 0, (1 << bits) - 1)
    skew = proof.number("skew", "u64")
    proof.instead("saturating_units", lambda machine, frame, args: skew)
    found = proof.call("CountedWindow::of", line, at, number, field(0, bits), clock(proof))
    return at, number, found.fields


@proved("windows", cases=[(bits, number) for bits in EACH["window"] for number in NUMBER_BITS if bits < 58])
def window_that_counts_is_never_an_earlier_one(proof):
    """A reading in a later window counts there, one in an earlier window counts in the word's, or in the next one after a step back; it
    ends when that window does, and no sum overflows."""
    proof.case, number_bits = proof.case
    line = window_line(proof)
    at, number, found = counted(proof, line, number_bits)
    shift, bits = proof.case, min(number_bits, 64 - proof.case)
    new, ends, passed = (proof.term(found[name]) for name in ("number", "ends_in", "passed"))
    here, most = z3.LShR(at.value, shift), (1 << number_bits) - 1
    # How far the reading's window is after the word's, as a signed number of the circle.
    later = z3.SignExt(64 - bits, z3.Extract(bits - 1, 0, here - number.value))
    rest = (1 << shift) - (at.value & (1 << shift) - 1)
    proof.claim(implies(later >= 0, both(passed == later, ends == rest, new == here & most)), "in the word's window or later: the reading's")
    proof.claim(implies(later < 0, passed == 0), "an earlier reading opens no window")
    kept = both(new == number.value, ends == rest - (later << shift))
    moved = both(new == (here + 1) & most, ends == rest + (1 << shift), later < -1)
    proof.claim(implies(later < 0, z3.Or(kept, moved)), "it counts in the word's window, or after a step back in the next")
    proof.claim(ends != 0, "a window that counts has not ended")
    proof.fails_as(WINDOW_LINE + "    let _ = CountedWindow::of(&line, {at}, {number}, Field::lowest(32), &Steady({max_step_back}));\n")


@proved("windows", cases=["word", "level"])
def fixed_window_survives_packing(proof):
    """Number and count of a fixed window are read back as they were put, in a limiter's word and in a level."""
    bits = 64 if proof.case == "word" else 56
    fields = proof.call("FixedWindowFields::of_bits", Number("u32", bits)).fields
    number, count = proof.number("number", "u64", 0, (1 << bits - 32) - 1), proof.number("count", "u64", 0, 2**32 - 1)
    window = Struct("CountedWindow", [], {"number": number, "passed": Number("u64", 0), "ends_in": Number("u64", 1)})
    its = Struct("FixedWindowFields", [], fields)
    word = proof.call("FixedWindowFields::put", its, Struct("FixedWindowCount", [], {"window": window, "count": count}))
    proof.claim(proof.machine.equal(proof.call("Field::get", fields["number"], word), number), "the number")
    proof.claim(proof.machine.equal(proof.call("Field::get", fields["count"], word), count), "the count")
    proof.claim(z3.LShR(proof.term(word), bits) == 0 if bits < 64 else True, "nothing beyond the level")


@proved("windows", cases=[(64, bits) for bits in range(16, 25)] + [(56, 20)])
def sliding_counter_survives_packing(proof):
    """Number and both counts of a sliding counter are read back as they were put, for each width of its counts."""
    bits, of_count = proof.case
    its = proof.call("SlidingCounterFields::new", Number("u32", bits), Number("u32", of_count))
    number = proof.number("number", "u64", 0, (1 << bits - 2 * of_count) - 1)
    counts = {name: proof.number(name, "u64", 0, (1 << of_count) - 1) for name in ("previous", "current")}
    window = Struct("CountedWindow", [], {"number": number, "passed": Number("u64", 0), "ends_in": Number("u64", 1)})
    word = proof.call("SlidingCounterFields::put", its, Struct("SlidingCounts", [], {"window": window, **counts}))
    for name, value in {"number": number, **counts}.items():
        proof.claim(proof.machine.equal(proof.call("Field::get", its.fields[name], word), value), name)


@proved("windows", INTEGERS)
def fixed_window_never_counts_beyond_its_limit(proof):
    """What is left and what is taken never exceed the limit, whatever the count was before, and the count fits its field."""
    proof.case = 0
    line = window_line(proof)
    count, n = proof.number("count", "u64", 0, 2**32 - 1), proof.number("n", "u32")
    window = Struct("CountedWindow", [], {name: proof.number(name, "u64") for name in ("number", "passed", "ends_in")})
    counts = Struct("FixedWindowCount", [], {"window": window, "count": count})
    left = proof.call("FixedWindowCount::left", counts, line)
    limit = proof.wide(line.fields["limit"])
    proof.claim(proof.wide(left) == z3.If(limit > count.value, limit - count.value, 0), "what is left is the difference")
    proof.assume(proof.domain.compare("<=", n, left))
    after = proof.term(proof.call("FixedWindowCount::and", counts, n).fields["count"])
    proof.claim(after <= 2**32 - 1, "the count fits its field")
    proof.claim(z3.Implies(n.value > 0, after <= limit), "it is at most the limit")


@proved("windows", INTEGERS, cases=range(58))
def sliding_counter_never_counts_beyond_its_limit(proof):
    """`left` is the most that the weighted sum of both windows allows, computed exactly, and no product overflows."""
    bits = proof.case
    line = window_line(proof)
    previous, current = (proof.number(name, "u64", 0, 2**24 - 1) for name in ("previous", "current"))
    ends = proof.number("ends_in", "u64", 1)
    window = Struct("CountedWindow", [], {"number": proof.number("number", "u64"), "passed": proof.number("passed", "u64"), "ends_in": ends})
    counts = Struct("SlidingCounts", [], {"window": window, "previous": previous, "current": current})
    left = proof.wide(proof.call("SlidingCounts::left", counts, line))
    one = 1 << bits
    rest = z3.If(ends.value < one, ends.value, z3.IntVal(one)) - 1
    share = z3.If(ends.value < one, previous.value * (ends.value - 1), previous.value * (one - 1))
    limit = proof.wide(line.fields["limit"])
    proof.claim(z3.Implies(left > 0, (current.value + left) * one + share <= limit * one), "what is left fits")
    proof.claim((current.value + left + 1) * one + share > limit * one, "and one more does not")
    proof.claim(rest >= 0, "the rest of a window is at least 0")


@proved("windows", INTEGERS, cases=range(58))
def wait_of_a_sliding_counter_is_the_least_that_suffices(proof):
    """Tokens that are not there are, once the position has moved by the units of the wait, and not a unit earlier."""
    line, one = window_line(proof), 1 << proof.case
    previous, current = (proof.number(name, "u64", 0, 2**24 - 1) for name in ("previous", "current"))
    # At most half a circle and two windows.
    ends, n = proof.number("ends_in", "u64", 1, 2**63 + 2**60), proof.number("n", "u32", 1)
    window = Struct("CountedWindow", [], {"number": proof.number("number", "u64"), "passed": proof.number("passed", "u64"), "ends_in": ends})
    asked = []

    def wait(machine, frame, args):
        asked.append(proof.term(args[1]))
        return Struct("Ticks", [], {"0": args[1]})

    proof.instead("wait", wait)
    limit, c, p, n_, e = (proof.wide(number) for number in (line.fields["limit"], current, previous, n, ends))

    def is_there(previous, current, ends):
        """As `sliding_counter_never_counts_beyond_its_limit` shows."""
        share = z3.If(ends < one, previous * (ends - 1), previous * (one - 1))
        return (current + n_) * one + share <= limit * one

    proof.assume(n_ <= limit, negated(is_there(p, c, e)))
    proof.call("SlidingCounts::wait", Struct("SlidingCounts", [], {"window": window, "previous": previous, "current": current}), line, n)
    (units,) = asked
    ((rest, *_),) = proof.machine.quotients.values()
    here = c + n_ <= limit
    # In this window they come when enough of the previous one has left it. In the next one this one is the previous one.
    for branch, count, end in ((here, p, e), (negated(here), c, e + one)):
        proof.product(count, rest - (one - 1), given=both(branch, rest >= one - 1))
        proof.product(count, rest - (e - 1), given=both(branch, rest >= e - 1))
        proof.claim(implies(branch, both(units == end - rest - 1, units >= 1)), "the wait is what remains until then")
        proof.claim(implies(branch, rest < one), "it is at most a window before the end")
    proof.claim(implies(here, is_there(p, c, rest + 1)), "in this window they are there")
    proof.claim(implies(here, both(rest + 2 <= e, negated(is_there(p, c, rest + 2)))), "and not a unit earlier")
    there = negated(here)
    proof.claim(implies(there, both(units >= e, is_there(c, 0, rest + 1))), "in the next window they are there")
    earlier = z3.If(units > e, is_there(c, 0, rest + 2), is_there(p, c, 1))
    proof.claim(implies(there, negated(earlier)), "and not a unit earlier, nor in this one")
