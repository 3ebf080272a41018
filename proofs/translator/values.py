"""The values that the translator computes with: numbers, booleans, structs, enums, and how two of them are joined.

A number or a boolean is concrete (one of Python's) or symbolic (one of the solver's). What is concrete is computed at once, so the same
translator is an interpreter of Rust, and proofs see no constant that they need not see.

Numbers of bits (`BITS`) are bit vectors. Numbers of arithmetic (`INTEGERS`) are unbounded integers with the wrapping of Rust written out.
The first suit shifts and masks, the second products.
"""

import z3

BITS, INTEGERS = "bits", "integers"
WIDTHS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64, "u128": 128, "usize": 64}
WIDTHS |= {"i" + name[1:]: bits for name, bits in WIDTHS.items()}
WIDTHS["isize"] = WIDTHS.pop("isize", 64)


def is_signed(type):
    return type[0] == "i"


def lowest(type):
    return -(1 << WIDTHS[type] - 1) if is_signed(type) else 0


def highest(type):
    return (1 << WIDTHS[type] - is_signed(type)) - 1


class Number:
    """A number of a type, which is None while it is not known, with bounds that hold on every path."""

    __slots__ = ("type", "value", "low", "high", "power", "zeros")

    def __init__(self, type, value, low=None, high=None, power=None):
        self.type, self.value = type, value
        if isinstance(value, int):
            low = high = value
        self.low = lowest(type) if low is None else low
        self.high = highest(type) if high is None else high
        if self.low == self.high:
            # Only one number is within the bounds, as the fraction bits of a shape of which these are given.
            self.value = self.low
        # The exponent, if this is a power of two.
        self.power = power
        # How many of the lowest bits are 0.
        self.zeros = 0

    @property
    def is_concrete(self):
        return isinstance(self.value, int)

    def __repr__(self):
        return f"{self.value}{self.type or ''}"


class Struct:
    def __init__(self, name, targs, fields):
        self.name, self.targs, self.fields = name, targs, fields

    def with_field(self, name, value):
        return Struct(self.name, self.targs, {**self.fields, name: value})

    def __repr__(self):
        return f"{self.name} {self.fields}"


class Tuple:
    """A tuple or an array."""

    def __init__(self, parts):
        self.parts = parts

    def __repr__(self):
        return f"({', '.join(map(repr, self.parts))})"


UNIT = Tuple([])


class Enum:
    """A variant: the condition under which it is each of them, and what each has then."""

    def __init__(self, name, conditions, payloads):
        self.name, self.conditions, self.payloads = name, conditions, payloads

    def is_(self, variant):
        return self.conditions.get(variant, False)

    def __repr__(self):
        return f"{self.name} " + ", ".join(f"{name}{self.payloads.get(name)} if {when}" for name, when in self.conditions.items())


class Closure:
    def __init__(self, node, frame):
        self.node, self.frame = node, frame


class Foreign:
    """A value of Rust that is not translated, such as a clock or an error, with the methods that a proof gives it."""

    def __init__(self, name, **methods):
        self.name, self.methods = name, methods

    def __repr__(self):
        return self.name


def variant(name, which, *parts):
    return Enum(name, {which: True}, {which: list(parts)})


# Booleans


def both(*parts):
    parts = [part for part in parts if part is not True]
    if any(part is False for part in parts):
        return False
    return True if not parts else parts[0] if len(parts) == 1 else z3.And(*parts)


def either(*parts):
    parts = [part for part in parts if part is not False]
    if any(part is True for part in parts):
        return True
    return False if not parts else parts[0] if len(parts) == 1 else z3.Or(*parts)


def negated(part):
    return (not part) if isinstance(part, bool) else z3.Not(part)


def implies(one, other):
    return either(negated(one), other)


def chosen(condition, one, other):
    """A boolean of one of two."""
    if isinstance(condition, bool):
        return one if condition else other
    if isinstance(one, bool) and isinstance(other, bool) and one == other:
        return one
    return either(both(condition, one), both(negated(condition), other))


class Domain:
    """The terms of numbers in one of the two kinds."""

    def __init__(self, kind):
        self.kind = kind
        self.fresh = 0

    def term(self, number):
        if not isinstance(number.value, int):
            return number.value
        if self.kind == INTEGERS:
            return z3.IntVal(number.value)
        return z3.BitVecVal(number.value, WIDTHS[number.type])

    def variable(self, name, type, low=None, high=None):
        """A symbolic number, and the assumption of its bounds."""
        value = z3.Int(name) if self.kind == INTEGERS else z3.BitVec(name, WIDTHS[type])
        number = Number(type, value, low, high)
        return number, self.within(number)

    def within(self, number):
        """That the number is within its bounds; for bit vectors only where they are narrower than the type."""
        if number.is_concrete:
            return True
        parts = []
        # Without bounds: a comparison with what they say is true at once.
        free = Number(number.type, number.value, *((-(1 << 200), 1 << 200) if self.kind == INTEGERS else ()))
        for bound, of_type, op in ((number.low, lowest, "<="), (number.high, highest, ">=")):
            if self.kind == INTEGERS or bound != of_type(number.type):
                parts.append(self.compare(op, Number(number.type, bound), free))
        return both(*parts)

    def compare(self, op, one, other):
        if one.is_concrete and other.is_concrete:
            one, other = one.value, other.value
            return {"==": one == other, "!=": one != other, "<": one < other, ">": one > other, "<=": one <= other, ">=": one >= other}[op]
        if op == "<" and one.high < other.low or op == "<=" and one.high <= other.low or op == ">" and one.low > other.high:
            return True
        if op == ">=" and one.low >= other.high:
            return True
        if op == "<" and one.low >= other.high or op == "<=" and one.low > other.high or op == ">" and one.high <= other.low:
            return False
        if op == ">=" and one.high < other.low:
            return False
        signed = is_signed(one.type)
        one, other = self.term(one), self.term(other)
        if op == "==":
            return one == other
        if op == "!=":
            return one != other
        if self.kind == INTEGERS or signed:
            return {"<": one < other, ">": one > other, "<=": one <= other, ">=": one >= other}[op]
        return {"<": z3.ULT, ">": z3.UGT, "<=": z3.ULE, ">=": z3.UGE}[op](one, other)

    def pick(self, condition, one, other):
        """One of two numbers."""
        if isinstance(condition, bool):
            return one if condition else other
        type = one.type or other.type
        one, other = Number(type, one.value, one.low, one.high, one.power), Number(type, other.value, other.low, other.high, other.power)
        if one.is_concrete and other.is_concrete and one.value == other.value:
            return one
        if type is None:
            raise TypeError("two literals of an unknown type are joined")
        low, high = min(one.low, other.low), max(one.high, other.high)
        return Number(type, z3.If(condition, self.term(one), self.term(other)), low, high)

    def join(self, condition, one, other):
        """The value that is `one` under a condition, else `other`."""
        if isinstance(condition, bool):
            return one if condition else other
        if one is other:
            return one
        if one is None or other is None:
            return one or other
        if isinstance(one, Number):
            return self.pick(condition, one, other)
        if isinstance(one, (bool, z3.BoolRef)):
            return chosen(condition, one, other)
        if isinstance(one, Struct):
            return Struct(one.name, one.targs, {name: self.join(condition, one.fields[name], other.fields[name]) for name in one.fields})
        if isinstance(one, Tuple):
            return Tuple([self.join(condition, a, b) for a, b in zip(one.parts, other.parts, strict=True)])
        if isinstance(one, Enum):
            conditions, payloads = {}, {}
            for name in [*one.conditions, *(name for name in other.conditions if name not in one.conditions)]:
                conditions[name] = chosen(condition, one.is_(name), other.is_(name))
                mine, its = one.payloads.get(name), other.payloads.get(name)
                if mine is None or its is None:
                    payloads[name] = mine if its is None else its
                elif isinstance(mine, dict):
                    payloads[name] = {field: self.join(condition, mine[field], its[field]) for field in mine}
                else:
                    payloads[name] = [self.join(condition, a, b) for a, b in zip(mine, its, strict=True)]
            return Enum(one.name, conditions, payloads)
        if isinstance(one, (Foreign, Closure)):
            return one
        raise TypeError(f"{one!r} and {other!r} cannot be joined")
