"""A question about integers as one about rationals, which the solver answers at once.

Each integer becomes a rational, each product of integers a rational of its own with its sign, and each quotient by a constant a rational between
the two bounds that define it. `a < b` becomes `a + 1 <= b`. Integers that satisfy the question satisfy this one too. So if nothing satisfies this
one, nothing satisfies the question. The reverse does not hold: if something does, the question itself has to be asked.
"""

import z3

COMPARISONS = {
    z3.Z3_OP_LE: lambda one, other: one <= other,
    z3.Z3_OP_GE: lambda one, other: one >= other,
    z3.Z3_OP_LT: lambda one, other: one + 1 <= other,
    z3.Z3_OP_GT: lambda one, other: one >= other + 1,
}
CONNECTIVES = {z3.Z3_OP_AND: z3.And, z3.Z3_OP_OR: z3.Or}
DUAL = {z3.Z3_OP_AND: z3.Z3_OP_OR, z3.Z3_OP_OR: z3.Z3_OP_AND}
NEGATED = {z3.Z3_OP_LE: z3.Z3_OP_GT, z3.Z3_OP_GE: z3.Z3_OP_LT, z3.Z3_OP_LT: z3.Z3_OP_GE, z3.Z3_OP_GT: z3.Z3_OP_LE}


def relaxed(conditions):
    """The conditions about rationals that follow from these about integers."""
    # As sums of products, so that equal products are equal terms.
    terms = [z3.simplify(condition, som=True) for condition in conditions]
    relaxation = Relaxation()
    return [relaxation.of(term) for term in terms] + relaxation.bounds


def name(term):
    """A name that no other term has: that of a variable, or the number that the solver has given the term. Its text may be cut."""
    return term.decl().name() if z3.is_const(term) else f"#{term.get_id()}"


class Relaxation:
    def __init__(self):
        # By the number of a term, which is used again once nothing refers to the term: so the term is kept beside.
        self.known, self.bounds = {}, []

    def of(self, term):
        if term.get_id() not in self.known:
            self.known[term.get_id()] = (term, self.number(term) if term.sort() == z3.IntSort() else self.condition(term))
        return self.known[term.get_id()][1]

    def number(self, term):
        kind, parts = term.decl().kind(), term.children()
        if z3.is_int_value(term):
            return z3.RealVal(term.as_long())
        if kind == z3.Z3_OP_ADD:
            return z3.Sum([self.of(part) for part in parts])
        if kind == z3.Z3_OP_MUL:
            factor, rest = 1, []
            for part in parts:
                if z3.is_int_value(part):
                    factor *= part.as_long()
                else:
                    rest.append(part)
            if len(rest) == 1:
                return factor * self.of(rest[0])
            product = z3.Real("·".join(sorted(map(name, rest))))
            self.bounds.append(z3.Or([self.of(part) < 0 for part in rest] + [product >= 0]))
            return factor * product
        if kind == z3.Z3_OP_ITE:
            return z3.If(*(self.of(part) for part in parts))
        if kind in (z3.Z3_OP_IDIV, z3.Z3_OP_MOD) and z3.is_int_value(parts[1]) and parts[1].as_long() > 0:
            divided, by = self.of(parts[0]), parts[1].as_long()
            quotient = z3.Real(f"{name(parts[0])}/{by}")
            self.bounds += [by * quotient <= divided, divided <= by * quotient + (by - 1), z3.Or(divided < 0, quotient >= 0)]
            return quotient if kind == z3.Z3_OP_IDIV else divided - by * quotient
        # A variable, or something that is not known of.
        return z3.Real(name(term))

    def condition(self, term):
        kind, parts = term.decl().kind(), term.children()
        if kind == z3.Z3_OP_NOT:
            return self.negated(parts[0])
        if kind in COMPARISONS:
            return COMPARISONS[kind](self.of(parts[0]), self.of(parts[1]))
        if kind == z3.Z3_OP_EQ:
            return self.of(parts[0]) == self.of(parts[1])
        if kind in CONNECTIVES:
            return CONNECTIVES[kind]([self.of(part) for part in parts])
        if kind == z3.Z3_OP_ITE:
            return z3.If(*(self.of(part) for part in parts))
        if kind in (z3.Z3_OP_TRUE, z3.Z3_OP_FALSE):
            return term
        # A variable, or something that is not known of.
        return z3.Bool(name(term))

    def negated(self, term):
        """The negation, in which no rational lies between two integers where that is easily had."""
        kind, parts = term.decl().kind(), term.children()
        if kind in NEGATED:
            return COMPARISONS[NEGATED[kind]](self.of(parts[0]), self.of(parts[1]))
        if kind in DUAL:
            return CONNECTIVES[DUAL[kind]]([self.negated(part) for part in parts])
        if kind == z3.Z3_OP_EQ and parts[0].sort() == z3.IntSort():
            one, other = self.of(parts[0]), self.of(parts[1])
            return z3.Or(one + 1 <= other, other + 1 <= one)
        if kind == z3.Z3_OP_NOT:
            return self.of(parts[0])
        return z3.Not(self.of(term))
