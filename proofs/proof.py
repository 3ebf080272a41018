"""Proofs: a claim about the code, the question to the solver, and its answer.

A property is a function that gets a `Proof`. It makes symbolic inputs, calls functions of the crate, and claims what holds of the results. All
that the translator demands (no overflow, no division by 0, no shift too far) belongs to the claims. The solver then looks for inputs that
the assumptions allow and that break one of them.
"""

import time

import z3

from relaxed import relaxed
from translator.machine import Machine
from translator.values import BITS, INTEGERS, Domain, Number, Struct, both, implies, negated

PROPERTIES = []


class Property:
    def __init__(self, function, name, group, kind, cases):
        self.function, self.name, self.group, self.kind, self.cases = function, name, group, kind, cases
        self.sentence = " ".join(function.__doc__.split())


def proved(group, kind=BITS, cases=(None,)):
    """Marks a property. Its name is that of the function, its sentence the function's comment.

    It is proved once for each of the cases, such as each number of fraction bits: `proof.case`.
    """

    def register(function):
        PROPERTIES.append(Property(function, function.__name__, group, kind, list(cases)))
        return function

    return register


class Broken(Exception):
    """A claim does not hold."""

    def __init__(self, claim, place, values):
        self.claim, self.place, self.values = claim, place, values


class Undecided(Exception):
    """The solver gave up."""


class Proof:
    def __init__(self, crate, kind, patience):
        self.kind, self.patience = kind, patience
        self.crate = crate
        self.count = self.instances = 0
        self.used = set()
        self.start(None)

    def start(self, case):
        """Forgets all inputs: the next claims are those of another case."""
        self.case = case
        self.domain = Domain(self.kind)
        old = getattr(self, "machine", None)
        self.machine = Machine(self.crate, self.domain)
        if old:
            self.used |= old.used
            self.machine.constants = old.constants
        self.assumed, self.claims, self.inputs, self.text = [], [], {}, None

    # What properties use

    def number(self, name, type, low=None, high=None):
        """An input."""
        value, within = self.domain.variable(name, type, low, high)
        self.assumed.append(within)
        self.inputs[name] = value
        return value

    def boolean(self, name):
        value = z3.Bool(name)
        self.inputs[name] = value
        return value

    def let(self, type, value):
        return Number(type, value)

    def assume(self, *conditions):
        self.assumed += conditions

    def call(self, path, *args, **types):
        return self.machine.call(path, *args, types=types or None)

    def instead(self, name, function):
        """What stands for a function that another property is about: it gets the machine, the frame and the arguments."""
        self.machine.instead[name] = function

    def const(self, name, path=None):
        return self.machine.const(name, path)

    def product(self, one, other, given=True):
        """Proves that two terms are not negative, and assumes the same of their product, which is what makes it linear.

        Both only where `given` holds.
        """
        for term in (one, other):
            answer, model = self.ask(both(given, term < 0))
            if answer != z3.unsat:
                self.blame([(implies(given, term >= 0), "a factor is not negative", None)], answer, model)
        self.assumed.append(implies(given, one * other >= 0))
        self.count += 1

    def claim(self, condition, what):
        self.claims.append((condition, what, None))

    def fails_as(self, text):
        """The body of a Rust test that fails where a claim is broken, with `{name}` for each input."""
        self.text = text

    def term(self, number):
        return self.domain.term(number)

    def wide(self, number, bits=128):
        """A term wide enough that sums of several numbers do not wrap."""
        term = self.term(number)
        if self.kind == INTEGERS:
            return term
        if isinstance(number.value, int):
            return z3.BitVecVal(number.value, bits)
        extra = bits - term.size()
        return z3.SignExt(extra, term) if number.type[0] == "i" else z3.ZeroExt(extra, term)

    def check(self):
        """Asks the solver about all claims since the last question."""
        claims = [*self.claims, *((its.condition, its.what, its.place) for its in self.machine.obligations)]
        open_claims = [claim for claim in claims if claim[0] is not True and not self.is_easy(negated(claim[0]))]
        self.count += len(claims)
        self.instances += 1
        if open_claims:
            everything = both(*(condition for condition, _, _ in open_claims))
            answer, model = self.ask(negated(everything))
            if answer is not z3.unsat:
                self.blame(open_claims, answer, model)
        self.claims, self.machine.obligations = [], []

    def is_easy(self, question):
        """Whether nothing satisfies what is asked of integers, not even rationals. That decides most claims within hundredths of a second."""
        return self.kind == INTEGERS and self.decide(z3.Solver(), relaxed(self.conditions(question))) == z3.unsat

    def ask(self, question):
        """Whether the assumptions allow what is asked, with a model if they do."""
        if self.is_easy(question):
            return z3.unsat, None
        solver = z3.SolverFor("QF_BV") if self.kind == BITS else z3.Solver()
        answer = self.decide(solver, self.conditions(question))
        return answer, solver.model() if answer == z3.sat else None

    def conditions(self, question):
        conditions = (*self.assumed, *self.machine.facts, question)
        return [z3.BoolVal(its) if isinstance(its, bool) else its for its in conditions if its is not True]

    def decide(self, solver, conditions):
        solver.set("timeout", self.patience * 1000)
        solver.add(conditions)
        return solver.check()

    def holds_vacuously(self):
        """Whether no input satisfies the assumptions, so that a proof would say nothing."""
        return self.ask(z3.BoolVal(True))[0] == z3.unsat

    def blame(self, claims, answer, model):
        """Raises the first claim that is broken."""
        if model is None:
            # Which of them is hard?
            for condition, what, place in claims:
                answer, model = self.ask(negated(condition))
                if answer == z3.sat:
                    break
                if answer == z3.unknown:
                    raise Undecided(f"{what}{f' ({place})' if place else ''}")
            else:
                return
        for condition, what, place in claims:
            if condition is False or z3.is_false(model.eval(condition, model_completion=True)):
                raise Broken(what, place, {name: self.read(model, value) for name, value in self.inputs.items()})
        raise Undecided("the model breaks no claim")

    def read(self, model, value):
        if isinstance(value, Number):
            if value.is_concrete:
                return value.value
            found = model.eval(value.value, model_completion=True)
            if self.kind == INTEGERS or value.type[0] != "i":
                return found.as_long()
            return found.as_signed_long()
        return z3.is_true(model.eval(value, model_completion=True)) if not isinstance(value, bool) else value


class Result:
    def __init__(self, property, seconds, proof, broken=None, undecided=None):
        self.property, self.seconds, self.proof, self.broken, self.undecided = property, seconds, proof, broken, undecided


def prove(property, crate, patience):
    """Proves a property, or says what breaks it."""
    began = time.process_time()
    proof = Proof(crate, property.kind, patience)
    broken = undecided = None
    try:
        for case in property.cases:
            proof.start(case)
            property.function(proof)
            proof.check()
            if case == property.cases[0] and proof.holds_vacuously():
                raise Undecided("the assumptions exclude every input")
    except Broken as error:
        broken = error
    except Undecided as error:
        undecided = str(error)
    proof.used |= proof.machine.used
    return Result(property, time.process_time() - began, proof, broken, undecided)
