"""Symbolic inputs that several properties share, with the ranges that the constructors establish."""

from translator.values import Enum, Foreign, Number, Struct, negated

# The most bits of the deepest debt, in units: of a limiter, of a level in the keyed table, of a window.
DEBT_BITS = {"limiter": 61, "level": 54, "window": 58}

# The fraction bits that a line can have.
EACH = {kind: range(bits + 1) for kind, bits in DEBT_BITS.items()}


def quota(proof, unlimited=False):
    """Any quota with a limit; any quota at all if `unlimited`."""
    own = proof.boolean("has_own_max_debt")
    max_debt = Enum("Option", {"Some": own, "None": negated(own)}, {"Some": [proof.number("max_debt", "u32")], "None": []})
    fields = {
        "limit": proof.number("limit", "u32"),
        "burst": proof.number("burst", "u32"),
        "window": proof.number("window", "u64", 0 if unlimited else 1),
        "max_debt": max_debt,
    }
    return Struct("Quota", [], fields)


def shape(proof, bits):
    """The shape of a line with these fraction bits; the other fields are any."""
    low = bits << 58
    return proof.number("shape", "u64", low, low | (1 << 58) - 1)


def clock(proof, skew=None):
    """A clock that may step back by any number of ticks."""
    step = skew or proof.number("max_step_back", "u64")
    return Foreign("clock", max_step_back=lambda: step)


def timeline(proof, deepest, debt_bits, unlimited=False):
    """Any timeline with as many fraction bits as the case says, whose deepest debts fit; its tempo counts any rate."""
    bits = proof.case
    ever = proof.number("deepest_ever", "u64", 0, (1 << debt_bits - bits) - 1)
    proof.assume(proof.domain.compare("<=", deepest, ever))
    tempo = {"mult": "u64", "inverse": "u64", "brought": "u64"}
    fields = {name: proof.number(name, type) for name, type in tempo.items()} | {"shape": shape(proof, bits)}
    fields = {
        "origin": proof.number("origin", "u64"),
        "start": proof.number("start", "u64"),
        "tempo": Struct("Tempo", [], fields),
        "deepest_debt": deepest,
        "deepest_ever": ever,
        "unlimited": unlimited,
        "behind": proof.number("behind", "u64"),
    }
    return Struct("Timeline", [], fields)


def token_line(proof, kind="limiter", unlimited=False):
    """Any line of tokens, made of any quota by the code: the line and the quota."""
    of = quota(proof, unlimited)
    deepest = proof.call("TokenLine::deepest_debt", of)
    line = timeline(proof, deepest, DEBT_BITS[kind], proof.call("Quota::is_unlimited", of))
    return proof.call("TokenLine::new", line, of), of


TOKEN_LINE = """\
    let quota = Quota::from_parts({limit}, {window}, {burst}, {max_debt:option});
    let line = token_line(&quota, [{origin}, {start}, {mult}, {inverse}, {brought}, {shape}, {deepest_ever}, {behind}]);
"""


def window_line(proof):
    """Any line of windows."""
    of = quota(proof)
    line = timeline(proof, proof.call("WindowLine::deepest_debt", of), DEBT_BITS["window"])
    return proof.call("WindowLine::new", line, of)


WINDOW_LINE = """\
    let quota = Quota::from_parts({limit}, {window}, {burst}, {max_debt:option});
    let line = window_line(&quota, [{origin}, {start}, {mult}, {inverse}, {brought}, {shape}, {deepest_ever}, {behind}]);
"""
