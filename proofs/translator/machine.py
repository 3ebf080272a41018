"""Runs Rust on symbolic values: a function becomes a formula, with a list of what must hold for it not to panic.

All paths of a function are run at once. A branch on a symbolic condition runs both sides and joins their values; an early return joins
the function's result. Each operation that panics (or wraps in a release build) adds an obligation: the condition of its path implies that
it does not overflow, divide by 0 or shift too far. A construct that is not known is an `Unknown` with its file and line.
"""

import z3

from .rust import Node, Parser, Type, Unknown, tokens
from .values import (
    BITS,
    INTEGERS,
    UNIT,
    WIDTHS,
    Closure,
    Enum,
    Foreign,
    Number,
    Struct,
    Tuple,
    both,
    either,
    highest,
    implies,
    is_signed,
    lowest,
    negated,
    variant,
)

# The types of locals that Rust infers from a later use.
INFERRED = {
    ("quota/timeline.rs", "changed", ("most",)): "u64",
    ("breaker/state_word.rs", "packed", ("state", "payload")): Type("()", [Type("u64"), Type("u64")]),
}


class Obligation:
    def __init__(self, condition, what, place):
        self.condition, self.what, self.place = condition, what, place


class Frame:
    def __init__(self, path, name, types, self_type, pc):
        self.path, self.name, self.types, self.self_type, self.pc = path, name, types, self_type, pc
        self.env, self.store, self.returns, self.cells = {}, {}, [], 0

    def bind(self, name, value):
        self.cells += 1
        self.env[name] = self.cells
        self.store[self.cells] = value


class Machine:
    def __init__(self, crate, domain):
        self.crate, self.domain = crate, domain
        self.obligations, self.constants, self.used = [], {}, set()
        # Whether a quotient of bit vectors may be any number up to the dividend, for claims that do not depend on it.
        self.loose, self.fresh = False, 0
        # What stands for a function, by its name, instead of its body.
        self.instead = {}
        # What defines names of the solver that the translator made up, such as quotients.
        self.facts, self.quotients = [], {}
        # For loops whose number of rounds is not known: the variables that they change, and what holds before each round.
        self.invariants = {}

    # What a proof calls

    def call(self, path, *args, types=None, pc=True):
        """Calls `Type::function` or `function` with values; a function of a struct has `self` first."""
        self_type, name = None, path
        if "::" in path:
            owner, name = path.rsplit("::", 1)
            self_type = self.resolve(Parser("call", tokens("call", owner)).type(), Frame("", name, {}, None, True))
        function, bound, self_type = self.find(self_type, name, None) if self_type else (self.free(name, None), {}, None)
        return self.run(function, list(args), {**bound, **(types or {})}, self_type, pc)[0]

    def const(self, name, path=None):
        frame = Frame(path or "", name, {}, None, True)
        return self.constant(self.find_constant(name, frame), frame)

    def number(self, type, value):
        return Number(type, value)

    # Look-ups

    def fail(self, frame, node, what):
        raise Unknown(f"{frame.path}:{node.line}: {what}, in {frame.name}")

    def free(self, name, path):
        found = self.crate.functions.get(name, [])
        local = [function for function in found if function.path == path]
        if len(local or found) != 1:
            return None
        return (local or found)[0]

    def find(self, type, name, frame):
        """The method of a type, what its generic names stand for, and the type."""
        for path, owner in self.crate.impls.get(type.name, []):
            if name not in owner.functions or not self.fits(owner, type):
                continue
            return owner.functions[name], self.bindings(owner, type), type
        for path, owner in self.crate.impls.get(type.name, []):
            if owner.trait and self.fits(owner, type):
                for path, trait in self.crate.traits.get(owner.trait, []):
                    if name in trait.functions:
                        return trait.functions[name], self.bindings(owner, type), type
        # An implementation for all types of a trait.
        for generic in self.crate.impls:
            for path, owner in self.crate.impls[generic]:
                if generic in owner.generics and name in owner.functions:
                    return owner.functions[name], {generic: type}, type
        raise Unknown(f"{frame.path if frame else 'proof'}: no function {type}::{name}")

    @staticmethod
    def fits(owner, type):
        mine = [arg for arg in owner.type.args]
        for one, other in zip(mine, type.args):
            if isinstance(one, Type) and one.name not in owner.generics and one.name != "const":
                if isinstance(other, Type) and one.name != other.name:
                    return False
        return True

    def bindings(self, owner, type):
        bound = {}
        for one, other in zip(owner.type.args, type.args):
            if isinstance(one, Type) and one.name in owner.generics:
                bound[one.name] = other
        for name, aliased in owner.types.items():
            bound[f"Self::{name}"] = aliased
        return bound

    def resolve(self, type, frame):
        """A type without generic names."""
        if type is None or not isinstance(type, Type):
            return type
        if type.name == "Self" and frame.self_type:
            return frame.self_type
        if type.name in frame.types and not type.path:
            bound = frame.types[type.name]
            return bound if isinstance(bound, Type) else Type("const", [bound])
        if type.path and type.path[-1] == "Self" and f"Self::{type.name}" in frame.types:
            return self.resolve(frame.types[f"Self::{type.name}"], frame)
        if type.name == "const":
            value = type.args[0]
            if isinstance(value, Node):
                value = self.eval(value, frame, "u32")
            return Type("const", [value])
        if type.name == "[]":
            return type
        return Type(type.name, [self.resolve(arg, frame) for arg in type.args], type.path)

    def expected(self, type, frame):
        """What a value of this type has to be: the name of an integer, or a type."""
        type = self.resolve(type, frame)
        return type.name if type is not None and type.name in WIDTHS else type

    def find_constant(self, name, frame):
        found = self.crate.constants.get(name, [])
        local = [constant for constant in found if constant.path == frame.path]
        if local:
            return local[0]
        if len(found) == 1:
            return found[0]
        return None

    def constant(self, constant, frame, self_type=None, types=None):
        key = (id(constant), repr(self_type), repr(types), self.domain.kind)
        if key not in self.constants:
            if not constant.tokens:
                raise Unknown(f"{constant.path}:{constant.line}: the constant {constant.name} has no value")
            inner = Frame(constant.path, constant.name, types or {}, self_type, True)
            before, self.obligations = self.obligations, []
            self.constants[key] = self.coerce(self.eval(constant.expr(), inner, self.expected(constant.type, inner)), constant.type, inner)
            self.obligations = before
        return self.constants[key]

    def associated(self, type, name, frame):
        """A constant of a type; None if there is none."""
        for path, owner in self.crate.impls.get(type.name, []):
            if name in owner.constants and self.fits(owner, type):
                return self.constant(owner.constants[name], frame, type, self.bindings(owner, type))
        return None

    # Calls

    def run(self, function, args, types, self_type, pc):
        """The result of a function, and its `self` afterwards."""
        self.used.add((function.path, function.line, function.name))
        frame = Frame(function.path, function.name, dict(types), self_type, pc)
        if function.owner:
            for name, aliased in function.owner.types.items():
                frame.types.setdefault(f"Self::{name}", aliased)
        own, written = None, []
        if len(args) != len(function.params):
            raise Unknown(f"{function.path}:{function.line}: {function.name} has {len(function.params)} parameters, not {len(args)}")
        for (pattern, type, mutable), value in zip(function.params, args):
            if pattern == "self":
                frame.bind("self", value)
                own = frame.env["self"]
                continue
            value = self.coerce(value, type, frame)
            condition, bound = self.match(pattern, value, frame)
            for name, part in bound.items():
                frame.bind(name, part)
        value = self.coerce(self.eval(function.body(), frame, self.expected(function.result, frame)), function.result, frame)
        ends = list(frame.returns)
        result = None
        mine = frame.store.get(own)
        if frame.pc is not False:
            result = value
        for condition, returned, its in reversed(ends):
            returned = self.coerce(returned, function.result, frame)
            if result is None:
                result, mine = returned, its
            else:
                result = self.domain.join(condition, returned, result)
                mine = self.domain.join(condition, its, mine) if own else None
        return result, mine

    def coerce(self, value, type, frame):
        """A value of a known type: a literal gets it."""
        type = self.resolve(type, frame) if type is not None else None
        if isinstance(value, Number) and value.type is None and type is not None and type.name in WIDTHS:
            return self.typed(value, type.name)
        if isinstance(value, Enum) and type is not None and type.name in ("Option", "Result") and type.args:
            which = dict(zip(("Some",) if type.name == "Option" else ("Ok", "Err"), type.args))
            payloads = {
                name: [self.coerce(parts[0], which[name], frame)] if name in which and isinstance(parts, list) and parts else parts
                for name, parts in value.payloads.items()
            }
            return Enum(value.name, value.conditions, payloads)
        if isinstance(value, Tuple) and type is not None and type.name == "()" and len(type.args) == len(value.parts):
            return Tuple([self.coerce(part, its, frame) for part, its in zip(value.parts, type.args)])
        if isinstance(value, Tuple) and type is not None and type.name == "[]":
            return Tuple([self.coerce(part, type.args[0], frame) for part in value.parts])
        return value

    def typed(self, value, type):
        if value.type is not None:
            return value
        if not lowest(type) <= value.value <= highest(type):
            raise Unknown(f"the literal {value.value} is no {type}")
        return Number(type, value.value, power=value.power)

    def must(self, frame, node, condition, what):
        if condition is not True:
            self.obligations.append(Obligation(implies(frame.pc, condition), what, f"{frame.path}:{node.line}"))

    # Expressions

    def eval(self, node, frame, expect=None):
        if frame.pc is False:
            return None
        return getattr(self, "on_" + node.kind, self.on_unknown)(node, frame, expect)

    def on_unknown(self, node, frame, expect):
        self.fail(frame, node, f"`{node.kind}` is not translated")

    def on_number(self, node, frame, expect):
        type = node.type or (expect if isinstance(expect, str) else None)
        power = node.value.bit_length() - 1 if node.value > 0 and node.value & (node.value - 1) == 0 else None
        return Number(type, node.value, power=power)

    def on_bool(self, node, frame, expect):
        return node.value

    def on_str(self, node, frame, expect):
        return Foreign(node.value)

    def on_tuple(self, node, frame, expect):
        types = expect.args if isinstance(expect, Type) and expect.name == "()" else [None] * len(node.parts)
        return Tuple([self.eval(part, frame, self.expected(type, frame)) for part, type in zip(node.parts, types)])

    def on_array(self, node, frame, expect):
        type = self.expected(expect.args[0], frame) if isinstance(expect, Type) and expect.name == "[]" else None
        return Tuple([self.eval(part, frame, type) for part in node.parts])

    def on_repeat(self, node, frame, expect):
        type = self.expected(expect.args[0], frame) if isinstance(expect, Type) and expect.name == "[]" else None
        count = self.eval(node.count, frame, "usize")
        return Tuple([self.eval(node.value, frame, type)] * count.value)

    def on_ref(self, node, frame, expect):
        return self.eval(node.value, frame, expect)

    def on_closure(self, node, frame, expect):
        return Closure(node, frame)

    def apply(self, closure, args, frame, expect=None):
        if not isinstance(closure, Closure):
            # The name of a function.
            return closure(args)
        saved = frame.env
        inner = closure.frame
        frame.env = dict(inner.env)
        for pattern, value in zip(closure.node.params, args, strict=True):
            condition, bound = self.match(pattern, value, inner)
            for name, part in bound.items():
                inner.bind(name, part)
        if inner is not frame:
            # A closure that a caller passed: it runs in the caller's frame, on this path.
            pc, inner.pc = inner.pc, both(inner.pc, frame.pc)
            value = self.eval(closure.node.body, inner, expect)
            inner.pc = pc
            frame.env = saved
            return value
        value = self.eval(closure.node.body, frame, expect)
        frame.env = saved
        return value

    def on_block(self, node, frame, expect):
        saved = frame.env
        frame.env = dict(saved)
        value = UNIT
        for statement in node.statements:
            if frame.pc is False:
                break
            self.eval(statement, frame)
        if node.value is not None:
            value = self.eval(node.value, frame, expect)
        elif node.statements and frame.pc is False:
            value = None
        frame.env = saved
        return None if frame.pc is False else value

    def on_statement(self, node, frame, expect):
        self.eval(node.value, frame)

    def on_let(self, node, frame, expect):
        type = self.expected(node.type, frame) if node.type else None
        if type is None:
            parts = node.pattern.parts if node.pattern.kind == "p_tuple" else [node.pattern]
            type = INFERRED.get((frame.path, frame.name, tuple(getattr(part, "name", None) for part in parts)))
        value = self.coerce(self.eval(node.value, frame, type), node.type, frame)
        if frame.pc is False:
            return
        condition, bound = self.match(node.pattern, value, frame)
        if node.other is not None and condition is not True:
            self.branch(frame, condition, lambda: UNIT, lambda: self.eval(node.other, frame))
        for name, part in bound.items():
            frame.bind(name, part)

    def on_return(self, node, frame, expect):
        value = self.eval(node.value, frame, None) if node.value is not None else UNIT
        self.leave(frame, frame.pc, value)
        frame.pc = False

    def leave(self, frame, condition, value):
        frame.returns.append((condition, value, frame.store.get(frame.env.get("self"))))

    def branch(self, frame, condition, then, other):
        """The value of one of two computations."""
        if isinstance(condition, bool):
            return then() if condition else other()
        pc, store = frame.pc, frame.store
        ends = []
        for side, part in ((condition, then), (negated(condition), other)):
            before = both(pc, side)
            frame.pc, frame.store = before, dict(store)
            value = part()
            ends.append((frame.pc, frame.store, value, frame.pc is before))
        (pc1, store1, value1, same1), (pc2, store2, value2, same2) = ends
        if pc1 is False or pc2 is False:
            frame.pc, frame.store, value = (pc2, store2, value2) if pc1 is False else (pc1, store1, value1)
            return value
        frame.pc = pc if same1 and same2 else either(pc1, pc2)
        frame.store = {
            cell: old if store1[cell] is store2[cell] is old else self.domain.join(condition, store1[cell], store2[cell])
            for cell, old in store.items()
        }
        return self.domain.join(condition, value1, value2)

    def on_if(self, node, frame, expect):
        other = (lambda: self.eval(node.other, frame, expect)) if node.other is not None else (lambda: UNIT)
        if node.condition.kind != "chain":
            condition = self.eval(node.condition, frame)
            return self.branch(frame, condition, lambda: self.eval(node.then, frame, expect), other)

        def rest(parts):
            if not parts:
                return self.eval(node.then, frame, expect)
            pattern, value = parts[0]
            if pattern is None:
                return self.branch(frame, self.eval(value, frame), lambda: rest(parts[1:]), other)
            condition, bound = self.match(pattern, self.eval(value, frame), frame)

            def inside():
                saved, frame.env = frame.env, dict(frame.env)
                for name, part in bound.items():
                    frame.bind(name, part)
                result = rest(parts[1:])
                frame.env = saved
                return result

            return self.branch(frame, condition, inside, other)

        return rest(node.condition.parts)

    def on_match(self, node, frame, expect):
        value = self.eval(node.value, frame)

        def arm(at):
            pattern, guard, body = node.arms[at]
            condition, bound = self.match(pattern, value, frame)
            is_last = at + 1 == len(node.arms)

            def with_bound(what):
                saved, frame.env = frame.env, dict(frame.env)
                for name, part in bound.items():
                    frame.bind(name, part)
                result = what()
                frame.env = saved
                return result

            if guard is not None and condition is not False:
                pc = frame.pc
                frame.pc = both(pc, condition)
                condition = both(condition, with_bound(lambda: self.eval(guard, frame)))
                frame.pc = pc
            # A match is complete, so the last arm needs no condition.
            if is_last and guard is None:
                condition = True
            if is_last:
                if self.match(pattern, value, frame)[0] is False:
                    # No value of this type is that variant.
                    frame.pc = False
                    return None
                return with_bound(lambda: self.eval(body, frame, expect))
            return self.branch(frame, condition, lambda: with_bound(lambda: self.eval(body, frame, expect)), lambda: arm(at + 1))

        return arm(0)

    def on_while(self, node, frame, expect):
        if (frame.path, frame.name) in self.invariants:
            return self.by_invariant(node, frame, *self.invariants[frame.path, frame.name])
        for _ in range(10_000):
            condition = self.eval(node.condition, frame)
            if not isinstance(condition, bool):
                self.fail(frame, node, "a loop on a symbolic condition")
            if not condition:
                return UNIT
            self.eval(node.body, frame)
        self.fail(frame, node, "a loop that does not end")

    def by_invariant(self, node, frame, variables, invariant, step):
        """A loop by induction: its invariant holds at first, each round keeps it, and nothing else is known after the loop."""

        def values():
            return {name: self.typed(frame.store[frame.env[name]], type) for name, (type, _, _) in variables.items()}

        self.must(frame, node, invariant(values()), "the invariant holds before the loop")
        for name, (type, low, high) in variables.items():
            self.fresh += 1
            value, within = self.domain.variable(f"{name} {self.fresh}", type, low, high)
            self.facts.append(within)
            frame.store[frame.env[name]] = value
        before = values()
        self.facts.append(implies(frame.pc, invariant(before)))
        condition = self.eval(node.condition, frame)
        pc, store = frame.pc, dict(frame.store)
        frame.pc = both(pc, condition)
        self.eval(node.body, frame)
        after = values()
        for name, (type, low, high) in variables.items():
            within = both(self.domain.compare(">=", after[name], Number(type, low)), self.domain.compare("<=", after[name], Number(type, high)))
            self.must(frame, node, within, f"{name} stays in its range")
        self.must(frame, node, step(before, after), "each round keeps the invariant and comes closer to the end")
        frame.pc, frame.store = pc, store
        self.facts.append(implies(pc, negated(condition)))
        return UNIT

    def on_assign(self, node, frame, expect):
        cell, path = self.place(node.place, frame)
        old = self.at_path(frame.store[cell], path)
        type = old.type if isinstance(old, Number) else None
        if node.op == "=":
            value = self.eval(node.value, frame, type)
        else:
            value = self.binary(node, node.op[:-1], old, node.value, frame, type)
        if frame.pc is False:
            return UNIT
        if isinstance(value, Number) and type and value.type is None:
            value = self.typed(value, type)
        frame.store[cell] = self.set_path(frame.store[cell], path, value)
        return UNIT

    def place(self, node, frame):
        """The cell of a place and the fields on the way to it."""
        if node.kind == "path" and len(node.path) == 1 and node.path[0] in frame.env:
            return frame.env[node.path[0]], []
        if node.kind == "field":
            cell, path = self.place(node.value, frame)
            return cell, [*path, node.name]
        if node.kind == "index":
            cell, path = self.place(node.value, frame)
            at = self.eval(node.at, frame, "usize")
            if not at.is_concrete:
                self.fail(frame, node, "a symbolic index")
            return cell, [*path, at.value]
        if node.kind == "unary" and node.op == "*":
            return self.place(node.value, frame)
        if node.kind == "method" and not node.args:
            # A method whose body is `&mut self.field` stands for that place.
            cell, path = self.place(node.value, frame)
            value = self.at_path(frame.store[cell], path)
            if isinstance(value, Struct):
                function = self.find(Type(value.name, value.targs), node.name, frame)[0]
                body = function.body().value
                if body is not None and body.kind == "ref" and body.mutable and body.value.kind == "field":
                    self.used.add((function.path, function.line, function.name))
                    return cell, [*path, body.value.name]
        self.fail(frame, node, "a place that is not known")

    @staticmethod
    def at_path(value, path):
        for part in path:
            value = value.parts[part] if isinstance(part, int) else value.parts[int(part)] if isinstance(value, Tuple) else value.fields[part]
        return value

    def set_path(self, value, path, new):
        if not path:
            return new
        first = path[0]
        if isinstance(value, Tuple):
            at = int(first)
            return Tuple([*value.parts[:at], self.set_path(value.parts[at], path[1:], new), *value.parts[at + 1 :]])
        return value.with_field(first, self.set_path(value.fields[first], path[1:], new))

    # Patterns

    def match(self, pattern, value, frame):
        """The condition under which a value matches, and what the names are then."""
        kind = pattern.kind
        if kind == "p_any":
            return True, {}
        if kind == "p_bind":
            return True, {pattern.name: value}
        if kind == "p_tuple":
            conditions, bound = [], {}
            for part, its in zip(pattern.parts, value.parts, strict=True):
                condition, names = self.match(part, its, frame)
                conditions.append(condition)
                bound |= names
            return both(*conditions), bound
        if kind == "p_or":
            conditions = []
            for option in pattern.options:
                condition, names = self.match(option, value, frame)
                if names:
                    self.fail(frame, pattern, "names in a pattern of several")
                conditions.append(condition)
            return either(*conditions), {}
        if kind == "p_range":
            low, high = (self.eval(end, frame, value.type) for end in (pattern.low, pattern.high))
            low, high = (self.typed(end, value.type) for end in (low, high))
            return both(self.domain.compare(">=", value, low), self.domain.compare("<=", value, high)), {}
        if kind == "p_value":
            if isinstance(value, Enum):
                name = pattern.value.path[-1]
                return value.is_(name), {}
            wanted = self.eval(pattern.value, frame, value.type if isinstance(value, Number) else None)
            return self.equal(value, wanted), {}
        if kind == "p_variant":
            name = pattern.path[-1]
            if isinstance(value, Struct):
                parts = value.fields
                condition = True
            elif isinstance(value, Enum):
                condition, parts = value.is_(name), value.payloads.get(name)
            else:
                self.fail(frame, pattern, f"the pattern {name} of {value!r}")
            if condition is False or parts is None:
                return False, {}
            conditions, bound = [condition], {}
            if pattern.fields is not None:
                pairs = [(its, parts[field]) for field, its in pattern.fields.items()]
            else:
                own = list(parts.values()) if isinstance(parts, dict) else parts
                pairs = list(zip(pattern.parts, own, strict=True))
            for part, its in pairs:
                inner, names = self.match(part, its, frame)
                conditions.append(inner)
                bound |= names
            return both(*conditions), bound
        self.fail(frame, pattern, f"the pattern {kind}")

    def equal(self, one, other):
        if isinstance(one, Number):
            type = one.type or other.type
            return self.domain.compare("==", self.typed(one, type) if type else one, self.typed(other, type) if type else other)
        if isinstance(one, (bool, z3.BoolRef)):
            if isinstance(one, bool):
                return other if one else negated(other)
            return one if other is True else negated(one) if other is False else one == other
        if isinstance(one, Struct):
            return both(*(self.equal(one.fields[name], other.fields[name]) for name in one.fields))
        if isinstance(one, Tuple):
            return both(*(self.equal(a, b) for a, b in zip(one.parts, other.parts, strict=True)))
        if isinstance(one, Enum):
            options = []
            for name in one.conditions:
                if other.is_(name) is False:
                    continue
                mine, its = one.payloads.get(name) or [], other.payloads.get(name) or []
                pairs = zip(mine.values(), its.values()) if isinstance(mine, dict) else zip(mine, its)
                options.append(both(one.is_(name), other.is_(name), *(self.equal(a, b) for a, b in pairs)))
            return either(*options)
        if isinstance(one, Foreign):
            return one.name == other.name
        raise Unknown(f"{one!r} and {other!r} cannot be compared")

    # Names and constructors

    def on_path(self, node, frame, expect):
        path = node.path
        name = path[-1]
        if len(path) == 1:
            if name in frame.env:
                return frame.store[frame.env[name]]
            if name == "None":
                return variant("Option", "None")
            if name in frame.types:
                bound = frame.types[name]
                value = bound.args[0] if isinstance(bound, Type) else bound
                return value
            constant = self.find_constant(name, frame)
            if constant:
                return self.constant(constant, frame)
            function = self.free(name, frame.path)
            if function:
                return lambda args: self.run(function, args, {}, None, frame.pc)[0]
            self.fail(frame, node, f"the name {name}")
        type = self.owner_type(node, frame)
        if type.name in WIDTHS:
            bits = WIDTHS[type.name]
            known = {"BITS": ("u32", bits), "MAX": (type.name, highest(type.name)), "MIN": (type.name, lowest(type.name))}
            if name in known:
                return Number(*known[name])
        if type.name == "Duration" and name == "ZERO":
            return Struct("Duration", [], {"nanos": Number("u128", 0)})
        if type.name == "NonZeroU8" and name == "MIN":
            return Number("u8", 1)
        value = self.associated(type, name, frame)
        if value is not None:
            return value
        for path_of, variants in self.crate.enums.get(type.name, []):
            if name in variants:
                if variants[name] is None:
                    return variant(type.name, name)
                return lambda args: variant(type.name, name, *args)
        constant = self.find_constant(name, frame) if path[0][0].islower() else None
        if constant:
            return self.constant(constant, frame)
        if type.name in ("Some", "Ok", "Err"):
            return lambda args: variant({"Some": "Option"}.get(name, "Result"), name, *args)
        self.fail(frame, node, f"the name {'::'.join(path)}")

    def owner_type(self, node, frame):
        name = node.path[-2]
        args = node.args.get(len(node.path) - 2, []) if isinstance(node.args, dict) else []
        return self.resolve(Type(name, args), frame)

    def on_struct(self, node, frame, expect):
        name = node.path[-1]
        if len(node.path) > 1 or name not in ("Self", *self.crate.structs):
            # A variant with named fields.
            type = self.owner_type(node, frame)
            for path, variants in self.crate.enums.get(type.name, []):
                if isinstance(variants.get(name), dict):
                    parts = {}
                    for field, its in variants[name].items():
                        parts[field] = self.coerce(self.eval(node.fields[field], frame, self.expected(its, frame)), its, frame)
                    return Enum(type.name, {name: True}, {name: parts})
            self.fail(frame, node, f"the struct {'::'.join(node.path)}")
        type = frame.self_type if name == "Self" else Type(name)
        fields = self.fields_of(type.name, frame.path)
        if fields is None:
            self.fail(frame, node, f"the struct {type.name}")
        generics, fields = fields
        bound = dict(zip(generics, type.args))
        inner = Frame(frame.path, frame.name, {**frame.types, **bound}, type, True)
        base = self.eval(node.base, frame).fields if node.base is not None else {}
        values = dict(base)
        # In the order in which they are written, as Rust evaluates them.
        for field, value in node.fields.items():
            its = fields[field]
            values[field] = self.coerce(self.eval(value, frame, self.expected(its, inner)), its, inner)
        if frame.pc is False:
            return None
        return Struct(type.name, type.args, {field: values[field] for field in fields})

    def fields_of(self, name, path):
        found = self.crate.structs.get(name, [])
        local = [one for one in found if one[0] == path] or found
        return (local[0][1], local[0][2]) if len(local) == 1 else None

    def on_macro(self, node, frame, expect):
        parser = Parser(frame.path, list(node.tokens))
        if node.name in ("assert", "debug_assert"):
            condition = self.eval(parser.expr(), frame)
            self.must(frame, node, condition, "an assertion")
            return UNIT
        if node.name == "matches":
            value = self.eval(parser.expr(), frame)
            parser.need(",")
            return self.match(parser.pattern(), value, frame)[0]
        if node.name == "check":
            check = parser.name()
            setting, value, allowed = parser.args()
            its = self.eval(value, frame, "u64" if check == "check_count" else None)
            span = self.eval(allowed, frame, "u64" if check == "check_count" else None)
            if check == "check_duration":
                its, low, high = its.fields["nanos"], span.fields["low"].fields["nanos"], span.fields["high"].fields["nanos"]
            elif check == "check_count":
                low, high = (self.typed(span.fields[end], "u64") for end in ("low", "high"))
            else:
                self.fail(frame, node, f"the check {check}")
            inside = both(self.domain.compare(">=", its, low), self.domain.compare("<=", its, high))
            if inside is not True:
                self.leave(frame, both(frame.pc, negated(inside)), variant("Result", "Err", Foreign("OutOfRange")))
                frame.pc = both(frame.pc, inside)
            return UNIT
        self.fail(frame, node, f"the macro {node.name}!")

    def on_range(self, node, frame, expect):
        low, high = self.eval(node.low, frame, expect), self.eval(node.high, frame, expect)
        if isinstance(low, Number) and isinstance(high, Number):
            type = low.type or high.type
            if type:
                low, high = self.typed(low, type), self.typed(high, type)
        if not node.inclusive:
            self.fail(frame, node, "a half-open range")
        return Struct("Range", [], {"low": low, "high": high})

    def on_try(self, node, frame, expect):
        value = self.eval(node.value, frame)
        if frame.pc is False:
            return None
        good, bad = ("Some", "None") if value.name == "Option" else ("Ok", "Err")
        passed = value.is_(good)
        if passed is not True:
            failed = Enum(value.name, {bad: True}, {bad: value.payloads.get(bad, [])})
            self.leave(frame, both(frame.pc, negated(passed)), failed)
            frame.pc = both(frame.pc, passed)
        return value.payloads[good][0] if frame.pc is not False else None

    def on_field(self, node, frame, expect):
        value = self.eval(node.value, frame)
        if value is None:
            return None
        if isinstance(value, Tuple):
            return value.parts[int(node.name)]
        if isinstance(value, Struct) and node.name in value.fields:
            return value.fields[node.name]
        self.fail(frame, node, f"the field {node.name} of {value!r}")

    def on_index(self, node, frame, expect):
        value, at = self.eval(node.value, frame), self.eval(node.at, frame, "usize")
        if at.is_concrete:
            self.must(frame, node, 0 <= at.value < len(value.parts), "an index in range")
            return value.parts[at.value]
        self.must(frame, node, self.domain.compare("<", at, Number(at.type, len(value.parts))), "an index in range")
        result = value.parts[-1]
        for index in reversed(range(len(value.parts) - 1)):
            result = self.domain.join(self.domain.compare("==", at, Number(at.type, index)), value.parts[index], result)
        return result

    def on_call(self, node, frame, expect):
        function = node.function
        if function.kind != "path":
            self.fail(frame, node, "a call of a value")
        path, name = function.path, function.path[-1]
        if len(path) == 1:
            if name in frame.env:
                closure = frame.store[frame.env[name]]
                return self.apply(closure, [self.eval(arg, frame, "usize") for arg in node.args], frame)
            if name in ("Some", "Ok", "Err"):
                inner = None
                if isinstance(expect, Type) and expect.args and expect.name in ("Option", "Result"):
                    inner = self.expected(expect.args[1 if name == "Err" and len(expect.args) > 1 else 0], frame)
                value = self.eval(node.args[0], frame, inner)
                return None if frame.pc is False else variant("Option" if name == "Some" else "Result", name, value)
            if name == "Self" or name in self.crate.structs:
                type = frame.self_type if name == "Self" else Type(name)
                fields = self.fields_of(type.name, frame.path)[1]
                values = [self.coerce(self.eval(arg, frame, self.expected(its, frame)), its, frame) for arg, its in zip(node.args, fields.values())]
                return Struct(type.name, type.args, dict(zip(fields, values)))
            target = self.free(name, frame.path)
            if target is None:
                self.fail(frame, node, f"the function {name}")
            types = dict(zip(target.generics, (self.resolve(arg, frame) for arg in function.args.get(0, []))))
            return self.invoke(node, target, node.args, types, None, frame)
        type = self.owner_type(function, frame)
        if type.name in WIDTHS:
            if name in ("from", "try_from"):
                value = self.eval(node.args[0], frame)
                if isinstance(value, (bool, z3.BoolRef)):
                    return self.cast(node, value, type.name, frame)
                value = self.typed(value, value.type or type.name)
                if name == "from":
                    return self.cast(node, value, type.name, frame)
                fits = both(
                    self.domain.compare("<=", value, Number(value.type, min(highest(type.name), highest(value.type)))),
                    self.domain.compare(">=", value, Number(value.type, max(lowest(type.name), lowest(value.type)))),
                )
                return Enum("Result", {"Ok": fits, "Err": negated(fits)}, {"Ok": [self.cast(node, value, type.name, frame)], "Err": [Foreign("error")]})
            for path_of, owner in self.crate.impls.get(type.name, []):
                if name in owner.functions:
                    return self.invoke(node, owner.functions[name], node.args, {}, type, frame)
            self.fail(frame, node, f"{type.name}::{name}")
        if type.name == "Duration":
            if name in ("from_nanos", "from_secs", "from_millis"):
                scale = {"from_nanos": 1, "from_secs": 10**9, "from_millis": 10**6}[name]
                value = self.eval(node.args[0], frame, "u64")
                nanos = self.arithmetic(node, "*", self.cast(node, value, "u128", frame), Number("u128", scale), frame)
                return Struct("Duration", [], {"nanos": nanos})
            self.fail(frame, node, f"Duration::{name}")
        if type.name in ("NonZeroU8", "NonZeroU64", "NonZeroU32"):
            value = self.eval(node.args[0], frame, type.name[7:].lower())
            if name == "new":
                there = self.domain.compare("!=", value, Number(value.type, 0))
                return Enum("Option", {"Some": there, "None": negated(there)}, {"Some": [value], "None": []})
            self.fail(frame, node, f"{type.name}::{name}")
        for path_of, variants in self.crate.enums.get(type.name, []):
            if isinstance(variants.get(name), list):
                values = [self.coerce(self.eval(arg, frame, self.expected(its, frame)), its, frame) for arg, its in zip(node.args, variants[name])]
                return variant(type.name, name, *values)
        target, bound, self_type = self.find(type, name, frame)
        # `Self::name(..)` keeps what the generic names stand for.
        kept = frame.types if function.path[-2] == "Self" else {}
        given = dict(zip(target.generics, (self.resolve(arg, frame) for arg in function.args.get(len(path) - 1, []))))
        types = {**kept, **bound, **self.inferred(target, expect), **given}
        return self.invoke(node, target, node.args, types, self_type, frame)

    @staticmethod
    def inferred(target, expect):
        """The generic name that the result of a function stands for, where the caller says what it expects."""
        name = target.result.name
        return {name: expect} if name in target.generics and isinstance(expect, Type) else {}

    def invoke(self, node, target, args, types, self_type, frame):
        inner = Frame(target.path, target.name, types, self_type, True)
        if target.owner:
            for name, aliased in target.owner.types.items():
                inner.types.setdefault(f"Self::{name}", aliased)
        values = []
        for arg, (pattern, type, mutable) in zip(args, target.params, strict=True):
            values.append(self.eval(arg, frame, self.expected(type, inner) if type is not None else None))
        if frame.pc is False:
            return None
        if target.name in self.instead:
            return self.instead[target.name](self, frame, values)
        return self.run(target, values, types, self_type, frame.pc)[0]

    def on_method(self, node, frame, expect):
        value = self.eval(node.value, frame, expect if isinstance(expect, str) else None)
        if frame.pc is False:
            return None
        name = node.name
        if isinstance(value, Foreign):
            if name in value.methods:
                return value.methods[name](*[self.eval(arg, frame) for arg in node.args])
            self.fail(frame, node, f"the method {name} of {value.name}")
        if isinstance(value, Struct) and value.name == "Duration":
            if name == "as_nanos":
                return value.fields["nanos"]
            self.fail(frame, node, f"Duration::{name}")
        if isinstance(value, Struct) and value.name == "Range" and name in ("start", "end"):
            return value.fields["low" if name == "start" else "high"]
        if isinstance(value, (Struct, Enum)) and not (isinstance(value, Enum) and value.name in ("Option", "Result")):
            if name in ("min", "max") and node.args and isinstance(value, Struct) and len(value.fields) == 1:
                # A derived order of a struct with one field.
                (field,) = value.fields
                (other,) = (self.eval(arg, frame).fields[field] for arg in node.args)
                return Struct(value.name, value.targs, {field: self.picked(name, value.fields[field], other)})
            type = Type(value.name, value.targs if isinstance(value, Struct) else [])
            target, bound, self_type = self.find(type, name, frame)
            if not target.params or target.params[0][0] != "self":
                self.fail(frame, node, f"{type}::{name} has no self")
            mutable = target.params[0][2]
            given = dict(zip(target.generics, (self.resolve(arg, frame) for arg in node.targs)))
            types = {**bound, **self.inferred(target, expect), **given}
            inner = Frame(target.path, target.name, types, self_type, True)
            for alias, aliased in target.owner.types.items():
                inner.types.setdefault(f"Self::{alias}", aliased)
            args = [self.eval(arg, frame, self.expected(its, inner)) for arg, (_, its, _) in zip(node.args, target.params[1:], strict=True)]
            if frame.pc is False:
                return None
            if target.name in self.instead:
                return self.instead[target.name](self, frame, [value, *args])
            result, own = self.run(target, [value, *args], types, self_type, frame.pc)
            if mutable:
                cell, path = self.place(node.value, frame)
                frame.store[cell] = self.set_path(frame.store[cell], path, own)
            return result
        if isinstance(value, Enum):
            return self.option(node, value, frame, expect)
        if isinstance(value, (bool, z3.BoolRef)):
            if name == "then":
                return self.branch(
                    frame,
                    value,
                    lambda: variant("Option", "Some", self.apply(self.eval(node.args[0], frame), [], frame)),
                    lambda: variant("Option", "None"),
                )
            if name == "into" and isinstance(expect, str):
                return self.cast(node, value, expect, frame)
            self.fail(frame, node, f"bool::{name}")
        if isinstance(value, Tuple):
            if name == "len":
                return Number("usize", len(value.parts))
            if name == "map":
                closure = self.eval(node.args[0], frame)
                return Tuple([self.apply(closure, [part], frame) for part in value.parts])
            self.fail(frame, node, f"the method {name} of a tuple")
        if isinstance(value, Number):
            return self.numeric(node, value, frame, expect)
        self.fail(frame, node, f"the method {name} of {value!r}")

    def option(self, node, value, frame, expect):
        """Methods of `Option` and `Result`."""
        good, bad = ("Some", "None") if value.name == "Option" else ("Ok", "Err")
        name, there = node.name, value.is_(good)
        inside = (value.payloads.get(good) or [None])[0]
        if name in ("is_some", "is_ok"):
            return there
        if name in ("is_none", "is_err"):
            return negated(there)
        if name == "ok":
            return Enum("Option", {"Some": there, "None": negated(there)}, {"Some": [inside], "None": []})
        if name in ("unwrap_or", "map_or", "unwrap_or_else", "unwrap_or_default", "ok_or", "ok_or_else"):
            if name == "map_or":
                default = self.eval(node.args[0], frame, expect if isinstance(expect, str) else None)
                closure = self.eval(node.args[1], frame)
                return self.branch(frame, there, lambda: self.apply(closure, [inside], frame, expect), lambda: default)
            type = inside.type if isinstance(inside, Number) else expect
            if name == "ok_or_else":
                closure = self.eval(node.args[0], frame)
                return self.branch(
                    frame, there, lambda: variant("Result", "Ok", inside), lambda: variant("Result", "Err", self.apply(closure, [], frame))
                )
            if name == "unwrap_or":
                default = self.eval(node.args[0], frame, type)
                return self.branch(frame, there, lambda: inside, lambda: default)
        if name == "map":
            closure = self.eval(node.args[0], frame)
            if there is False:
                return value
            mapped = self.branch(frame, there, lambda: self.apply(closure, [inside], frame), lambda: None)
            return Enum(value.name, value.conditions, {**value.payloads, good: [mapped]})
        if name == "and_then":
            closure = self.eval(node.args[0], frame)
            return self.branch(frame, there, lambda: self.apply(closure, [inside], frame), lambda: Enum(value.name, {bad: True}, {bad: []}))
        self.fail(frame, node, f"{value.name}::{name}")

    # Numbers

    def cast(self, node, value, type, frame):
        width = WIDTHS[type]
        if isinstance(value, bool):
            return Number(type, int(value))
        if isinstance(value, z3.BoolRef):
            return self.domain.pick(value, Number(type, 1), Number(type, 0))
        if value.is_concrete:
            number = value.value & ((1 << width) - 1)
            if is_signed(type) and number >> (width - 1):
                number -= 1 << width
            return Number(type, number, power=value.power if number == value.value else None)
        if self.domain.kind == INTEGERS:
            if lowest(type) <= value.low and value.high <= highest(type):
                return Number(type, value.value, value.low, value.high, value.power)
            return self.wrapped(value.value, type, value.low, value.high)
        term, its = value.value, WIDTHS[value.type]
        if width > its:
            term = z3.SignExt(width - its, term) if is_signed(value.type) else z3.ZeroExt(width - its, term)
        elif width < its:
            term = z3.Extract(width - 1, 0, term)
        if lowest(type) <= value.low and value.high <= highest(type):
            return Number(type, term, value.low, value.high, value.power)
        return Number(type, term)

    def wrapped(self, term, type, low, high):
        """A term of integers with these bounds, modulo the circle of the type."""
        circle = 1 << WIDTHS[type]
        if lowest(type) - circle <= low and high <= highest(type) + circle:
            # It wraps at most once each way, which spares the solver a division.
            result = term
            if high > highest(type):
                result = z3.If(term > highest(type), term - circle, result)
            if low < lowest(type):
                result = z3.If(term < lowest(type), term + circle, result)
            return Number(type, result)
        if not is_signed(type):
            # The division stands apart, because in correct code no path needs it.
            return Number(type, z3.If(z3.And(term >= 0, term < circle), term, term % circle))
        half = circle >> 1
        return Number(type, (term + half) % circle - half)

    def on_as(self, node, frame, expect):
        type = self.resolve(node.type, frame)
        if type.name not in WIDTHS:
            self.fail(frame, node, f"a cast to {type}")
        value = self.eval(node.value, frame)
        if value is None:
            return None
        if isinstance(value, Number) and value.type is None:
            return self.typed(value, type.name)
        return self.cast(node, value, type.name, frame)

    def on_unary(self, node, frame, expect):
        if node.op == "*":
            return self.eval(node.value, frame, expect)
        value = self.eval(node.value, frame, expect)
        if value is None:
            return None
        if node.op == "!":
            if isinstance(value, (bool, z3.BoolRef)):
                return negated(value)
            if value.is_concrete:
                return Number(value.type, ~value.value & highest(value.type)) if not is_signed(value.type) else Number(value.type, ~value.value)
            if self.domain.kind == INTEGERS:
                return Number(value.type, highest(value.type) - value.value if not is_signed(value.type) else -1 - value.value)
            return Number(value.type, ~value.value)
        if value.is_concrete:
            return Number(value.type, -value.value)
        return self.arithmetic(node, "-", Number(value.type, 0), value, frame)

    def on_binary(self, node, frame, expect):
        op = node.op
        if op in ("&&", "||"):
            left = self.eval(node.left, frame)
            if isinstance(left, bool) and left == (op == "||"):
                return left
            pc = frame.pc
            # The right side runs only where the left one does not decide.
            frame.pc = both(pc, left if op == "&&" else negated(left))
            right = self.eval(node.right, frame)
            frame.pc = pc
            return both(left, right) if op == "&&" else either(left, right)
        return self.binary(node, op, None, node.right, frame, None if op in ("==", "!=", "<", ">", "<=", ">=") else expect)

    def binary(self, node, op, left, right, frame, expect):
        """An operation on a value, or on the node's left side, and a node."""
        expect = expect if isinstance(expect, str) else None
        if op in ("<<", ">>"):
            if left is None:
                left = self.eval(node.left, frame, expect)
            right = self.eval(right, frame)
            return None if left is None else self.shift(node, op, left, right, frame)
        if left is None:
            if is_literal(node.left) and not is_literal(right):
                right_value = self.eval(right, frame, expect)
                left = self.eval(node.left, frame, right_value.type if isinstance(right_value, Number) else None)
            else:
                left = self.eval(node.left, frame, expect)
                right_value = self.eval(right, frame, left.type if isinstance(left, Number) else None)
        else:
            right_value = self.eval(right, frame, left.type if isinstance(left, Number) else None)
        right = right_value
        if left is None or right is None:
            return None
        if isinstance(left, Struct) and isinstance(right, Struct) and op in ("<", ">", "<=", ">="):
            # A derived order of a struct with one field.
            if len(left.fields) != 1:
                self.fail(frame, node, "an order of a struct with several fields")
            (left,), (right,) = left.fields.values(), right.fields.values()
        if isinstance(left, Number) and isinstance(right, Number):
            type = left.type or right.type
            if type is None and not (left.is_concrete and right.is_concrete):
                self.fail(frame, node, "numbers of an unknown type")
            if type:
                left, right = self.typed(left, type), self.typed(right, type)
                if left.type != right.type:
                    self.fail(frame, node, f"a {left.type} and a {right.type}")
            if op in ("==", "!=", "<", ">", "<=", ">="):
                return self.domain.compare(op, left, right)
            return self.arithmetic(node, op, left, right, frame)
        if op in ("==", "!="):
            same = self.equal(left, right)
            return same if op == "==" else negated(same)
        if isinstance(left, (bool, z3.BoolRef)) and op in ("&", "|", "^"):
            return both(left, right) if op == "&" else either(left, right) if op == "|" else negated(self.equal(left, right))
        self.fail(frame, node, f"{op} of {left!r} and {right!r}")

    def picked(self, name, one, other):
        """The lesser of two numbers of one type for `min`, and the greater for `max`."""
        is_less = self.domain.compare("<=", one, other)
        picked = self.domain.pick(is_less, *((one, other) if name == "min" else (other, one)))
        if not picked.is_concrete:
            bound = min if name == "min" else max
            picked.low, picked.high = bound(one.low, other.low), bound(one.high, other.high)
        return picked

    def arithmetic(self, node, op, one, other, frame):
        type = one.type
        if one.is_concrete and other.is_concrete:
            a, b = one.value, other.value
            if op in ("/", "%"):
                self.must(frame, node, b != 0, "the divisor is not 0")
                if b == 0:
                    frame.pc = False
                    return None
                quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
                return Number(type, quotient if op == "/" else a - quotient * b)
            value = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}[op]
            if type and not lowest(type) <= value <= highest(type):
                self.must(frame, node, False, f"`{op}` does not overflow")
                frame.pc = False
                return None
            return Number(type, value)
        if op in "+-*":
            return self.sum_or_product(node, op, one, other, frame)
        if op in "/%":
            self.must(frame, node, True if other.low > 0 else self.domain.compare("!=", other, Number(type, 0)), "the divisor is not 0")
            if is_signed(type):
                self.fail(frame, node, "a division of signed numbers")
            return self.quotient(op, one, other)
        return self.bitwise(node, op, one, other, frame)

    def span(self, op, one, other):
        ends = [(a, b) for a in (one.low, one.high) for b in (other.low, other.high)]
        values = [a + b if op == "+" else a - b if op == "-" else a * b for a, b in ends]
        return min(values), max(values)

    def sum_or_product(self, node, op, one, other, frame, wrapping=False):
        type = one.type
        low, high = self.span(op, one, other)
        fits = lowest(type) <= low and high <= highest(type)
        if self.domain.kind == INTEGERS:
            a, b = self.domain.term(one), self.domain.term(other)
            value = a + b if op == "+" else a - b if op == "-" else product(a, b)
            if fits:
                return Number(type, value, low, high)
            if wrapping:
                return self.wrapped(value, type, low, high)
            self.must(frame, node, both(value >= lowest(type), value <= highest(type)), f"`{op}` does not overflow")
            return Number(type, value, max(low, lowest(type)), min(high, highest(type)))
        if op == "*" and (one.power is not None or other.power is not None) and not is_signed(type):
            return self.scaled(node, one, other, frame, (low, high), wrapping)
        a, b = self.domain.term(one), self.domain.term(other)
        value = a + b if op == "+" else a - b if op == "-" else a * b
        if fits:
            return Number(type, value, low, high)
        if wrapping:
            return Number(type, value)
        self.must(frame, node, self.no_overflow(op, a, b, is_signed(type)), f"`{op}` does not overflow")
        return Number(type, value, max(low, lowest(type)), min(high, highest(type)))

    def scaled(self, node, one, other, frame, span, wrapping):
        """A product with a power of two, as a shift."""
        if other.power is None:
            one, other = other, one
        type = one.type
        power = other.power if isinstance(other.power, Number) else Number(type, other.power)
        by, a = self.domain.term(self.cast(node, power, type, frame)), self.domain.term(one)
        value = a << by
        if span[1] > highest(type) and not wrapping:
            self.must(frame, node, z3.LShR(value, by) == a, "`*` does not overflow")
        return Number(type, value, *(span if span[1] <= highest(type) else (None, None)))

    def no_overflow(self, op, a, b, signed):
        if not signed:
            if op == "+":
                return z3.ULE(a, ~b)
            if op == "-":
                return z3.UGE(a, b)
            return z3.BVMulNoOverflow(a, b, False)
        wide = z3.SignExt(1, a), z3.SignExt(1, b)
        if op in "+-":
            value = wide[0] + wide[1] if op == "+" else wide[0] - wide[1]
            return value == z3.SignExt(1, a + b if op == "+" else a - b)
        return z3.And(z3.BVMulNoOverflow(a, b, True), z3.BVMulNoUnderflow(a, b))

    def quotient(self, op, one, other):
        type = one.type
        high = one.high // max(other.low, 1) if op == "/" else min(one.high, max(other.high - 1, 0))
        if self.domain.kind == INTEGERS:
            a, b = self.domain.term(one), self.domain.term(other)
            if not other.is_concrete:
                # By what defines them: q * d <= n < q * d + d.
                key = (a.get_id(), b.get_id())
                if key not in self.quotients:
                    self.fresh += 1
                    q, r = z3.Int(f"quotient {self.fresh}"), z3.Int(f"rest {self.fresh}")
                    self.facts.append(z3.Implies(b > 0, z3.And(a == product(q, b) + r, r >= 0, r < b, q >= 0, q <= a)))
                    self.quotients[key] = q, r, a, b
                q, r = self.quotients[key][:2]
                return Number(type, q if op == "/" else r, 0, high)
            return Number(type, a / b if op == "/" else a % b, 0, high)
        if other.power is not None:
            power = other.power if isinstance(other.power, Number) else Number(type, other.power)
            shift = self.domain.term(self.cast(None, power, type, None))
            a = self.domain.term(one)
            if op == "/":
                return Number(type, z3.LShR(a, shift), 0, high)
            return Number(type, a & (self.domain.term(other) - 1), 0, high)
        a, b = self.domain.term(one), self.domain.term(other)
        if self.loose:
            self.fresh += 1
            number, within = self.domain.variable(f"quotient {self.fresh}", type, 0, high)
            self.facts.append(within)
            return number
        return Number(type, z3.UDiv(a, b) if op == "/" else z3.URem(a, b), 0, high)

    def bitwise(self, node, op, one, other, frame):
        type = one.type
        high = min(one.high, other.high) if op == "&" else (1 << max(one.high, other.high).bit_length()) - 1
        low = 0
        if is_signed(type):
            low, high = lowest(type), highest(type)
        if self.domain.kind == INTEGERS:
            if one.is_concrete:
                one, other = other, one
            if other.is_concrete:
                mask = other.value
                if op == "&" and mask & (mask + 1) == 0:
                    return Number(type, self.domain.term(one) % (mask + 1), 0, min(one.high, mask))
                if op == "|" and mask == 1:
                    return Number(type, one.value + 1 - one.value % 2, max(one.low, 1), high)
                if op == "|" and mask == 0:
                    return one
            for upper, lower in ((one, other), (other, one)):
                if op == "|" and lower.low >= 0 and upper.zeros and lower.high < 1 << upper.zeros:
                    return Number(type, self.domain.term(upper) + self.domain.term(lower), upper.low + lower.low, upper.high + lower.high)
            self.fail(frame, node, f"`{op}` of integers")
        a, b = self.domain.term(one), self.domain.term(other)
        return Number(type, a & b if op == "&" else a | b if op == "|" else a ^ b, low, high)

    def shift(self, node, op, one, count, frame):
        if one.type is None and not (one.is_concrete and count.is_concrete):
            self.fail(frame, node, "a shift of a number of an unknown type")
        width = WIDTHS[one.type] if one.type else None
        if width and not (count.low >= 0 and count.high < width):
            if count.is_concrete:
                self.must(frame, node, False, "a shift by less than the width")
                frame.pc = False
                return None
            self.must(frame, node, self.domain.compare("<", count, Number(count.type, width)), "a shift by less than the width")
            count = Number(count.type, count.value, max(count.low, 0), min(count.high, width - 1))
        if one.is_concrete and count.is_concrete:
            if op == ">>":
                return Number(one.type, one.value >> count.value)
            value = one.value << count.value
            power = one.power + count.value if isinstance(one.power, int) else None
            if one.type is None:
                return Number(None, value, power=power)
            return self.cut(value, one.type, power)
        type = one.type
        power = None
        if op == "<<" and one.is_concrete and one.value == 1:
            power = count if not count.is_concrete else count.value
        if op == ">>":
            low, high = (one.low >> count.low if one.low < 0 else one.low >> count.high), one.high >> count.low
        else:
            low, high = one.low << count.low if one.low >= 0 else lowest(type), one.high << count.high
            if high > highest(type) or low < lowest(type) or one.low < 0:
                low, high = lowest(type), highest(type)
        if self.domain.kind == INTEGERS:
            if not count.is_concrete:
                self.fail(frame, node, "a shift of integers by a symbolic count")
            scale = 1 << count.value
            term = self.domain.term(one)
            if op == ">>":
                return Number(type, term / scale if scale > 1 else term, low, high)
            if one.low >= 0 and one.high << count.value <= highest(type):
                result = Number(type, term * scale, low, high)
                result.zeros = count.value
                return result
            return self.wrapped(term * scale, type, one.low * scale, one.high * scale)
        by = self.cast(node, Number(count.type or "u32", count.value, count.low, count.high), "u" + str(width), frame)
        a, b = self.domain.term(one), self.domain.term(by)
        value = a << b if op == "<<" else a >> b if is_signed(type) else z3.LShR(a, b)
        return Number(type, value, low, high, power)

    @staticmethod
    def cut(value, type, power):
        bits = WIDTHS[type]
        kept = value & ((1 << bits) - 1)
        if is_signed(type) and kept >> (bits - 1):
            kept -= 1 << bits
        return Number(type, kept, power=power if kept == value else None)

    def numeric(self, node, value, frame, expect):
        """Methods of integers."""
        name, type = node.name, value.type
        if name in ("get", "clone"):
            return value
        if name == "into":
            target = expect if isinstance(expect, str) else None
            if target is None:
                self.fail(frame, node, "`into` an unknown type")
            return self.cast(node, self.typed(value, value.type or target), target, frame)
        if type is None:
            self.fail(frame, node, f"the method {name} of a number of an unknown type")
        domain = self.domain
        zero, one, top = Number(type, 0), Number(type, 1), Number(type, highest(type))
        args = [self.eval(arg, frame, "u32" if name == "pow" else type) for arg in node.args]
        if any(arg is None for arg in args):
            return None
        args = [self.typed(arg, type) if isinstance(arg, Number) and arg.type is None else arg for arg in args]
        ops = {"add": "+", "sub": "-", "mul": "*"}
        if name in ("min", "max"):
            return self.picked(name, value, *args)
        if name == "wrapping_neg":
            return self.wrapping(node, "-", zero, value, frame)
        if name == "wrapping_add_signed":
            return self.wrapping(node, "+", value, self.cast(node, args[0], type, frame), frame)
        kind, _, op = name.partition("_")
        if op in ops and kind in ("wrapping", "saturating", "overflowing", "checked"):
            (other,) = args
            wrapped = self.wrapping(node, ops[op], value, other, frame)
            if kind == "wrapping":
                return wrapped
            fits = self.fits_type(ops[op], value, other)
            if kind == "overflowing":
                return Tuple([wrapped, negated(fits)])
            if kind == "checked":
                return Enum("Option", {"Some": fits, "None": negated(fits)}, {"Some": [wrapped], "None": []})
            if is_signed(type):
                self.fail(frame, node, f"{name} of signed numbers")
            low, high = self.span(ops[op], value, other)
            result = domain.pick(fits, wrapped, zero if op == "sub" else top)
            if not result.is_concrete:
                result.low, result.high = max(0, min(low, highest(type))), max(0, min(high, highest(type)))
            return result
        if name == "checked_div":
            (other,) = args
            there = domain.compare("!=", other, zero)
            if there is False:
                return variant("Option", "None")
            pc, frame.pc = frame.pc, both(frame.pc, there)
            result = self.arithmetic(node, "/", value, other, frame)
            frame.pc = pc
            return Enum("Option", {"Some": there, "None": negated(there)}, {"Some": [result], "None": []})
        if name == "div_ceil":
            (other,) = args
            if domain.kind == INTEGERS and not other.is_concrete and other.low > 0:
                self.fresh += 1
                up, n, d = z3.Int(f"quotient {self.fresh}"), domain.term(value), domain.term(other)
                self.facts.append(z3.And(up * d >= n, up * d < n + d, up >= 0))
                return Number(type, up, 0, (value.high + other.low - 1) // other.low)
            quotient, rest = self.arithmetic(node, "/", value, other, frame), self.arithmetic(node, "%", value, other, frame)
            if quotient is None:
                return None
            more = domain.compare("!=", rest, zero)
            more = Number(type, int(more)) if isinstance(more, bool) else domain.pick(more, one, zero)
            result = self.wrapping(node, "+", quotient, more, frame)
            high = (value.high + max(other.low, 1) - 1) // max(other.low, 1)
            return result if result.is_concrete else Number(type, result.value, 0, high)
        if name == "unsigned_abs":
            unsigned = "u" + type[1:]
            if value.is_concrete:
                return Number(unsigned, abs(value.value))
            negative = self.wrapping(node, "-", zero, value, frame)
            result = domain.pick(domain.compare("<", value, zero), self.cast(node, negative, unsigned, frame), self.cast(node, value, unsigned, frame))
            result.low, result.high = 0, max(abs(value.low), abs(value.high))
            return result
        if name in ("leading_zeros", "trailing_zeros", "is_power_of_two", "ilog2", "count_ones"):
            return self.bits_of(node, name, value, frame)
        for path, owner in self.crate.impls.get(type, []):
            if name in owner.functions:
                return self.run(owner.functions[name], [value, *args], {}, Type(type), frame.pc)[0]
        self.fail(frame, node, f"{type}::{name}")

    def wrapping(self, node, op, one, other, frame):
        if one.is_concrete and other.is_concrete:
            a, b = one.value, other.value
            return self.cut(a + b if op == "+" else a - b if op == "-" else a * b, one.type, None)
        return self.sum_or_product(node, op, one, other, frame, wrapping=True)

    def fits_type(self, op, one, other):
        type = one.type
        low, high = self.span(op, one, other)
        if lowest(type) <= low and high <= highest(type):
            return True
        if one.is_concrete and other.is_concrete:
            return False
        a, b = self.domain.term(one), self.domain.term(other)
        if self.domain.kind == INTEGERS:
            value = a + b if op == "+" else a - b if op == "-" else a * b
            return both(value >= lowest(type), value <= highest(type))
        return self.no_overflow(op, a, b, is_signed(type))

    def bits_of(self, node, name, value, frame):
        width = WIDTHS[value.type]
        if value.is_concrete:
            number = value.value & ((1 << width) - 1)
            if name == "is_power_of_two":
                return number > 0 and number & (number - 1) == 0
            if name == "ilog2":
                self.must(frame, node, number > 0, "the logarithm of a number above 0")
                if number <= 0:
                    frame.pc = False
                    return None
                return Number("u32", number.bit_length() - 1)
            zeros = (number & -number).bit_length() - 1 if number else width
            known = {"leading_zeros": width - number.bit_length(), "trailing_zeros": zeros, "count_ones": number.bit_count()}
            return Number("u32", known[name])
        if self.domain.kind == INTEGERS:
            # As far as the bounds say it.
            bits = value.high.bit_length()
            if name == "leading_zeros" and value.low.bit_length() == bits:
                return Number("u32", width - bits)
            if name == "is_power_of_two" and value.low > 1 << bits - 1 and value.high < 1 << bits:
                return False
            self.fail(frame, node, f"{name} of integers")
        term = value.value
        if name == "is_power_of_two":
            return z3.And(term != 0, term & (term - 1) == 0)
        if name == "trailing_zeros":
            term = term & -term
            result = z3.BitVecVal(width, 32)
            for bit in range(width):
                result = z3.If(z3.Extract(bit, bit, term) == 1, z3.BitVecVal(bit, 32), result)
            return Number("u32", result, 0, width)
        if name == "count_ones":
            self.fail(frame, node, name)
        result = z3.BitVecVal(0, 32)
        for bit in range(width):
            result = z3.If(z3.Extract(bit, bit, term) == 1, z3.BitVecVal(bit + 1, 32), result)
        bits = Number("u32", result, value.low.bit_length(), value.high.bit_length())
        if name == "ilog2":
            self.must(frame, node, self.domain.compare("!=", value, Number(value.type, 0)), "the logarithm of a number above 0")
            return Number("u32", result - 1, max(bits.low - 1, 0), bits.high - 1)
        return Number("u32", width - result, width - bits.high, width - bits.low)


def product(a, b):
    """A product of integers, with a choice between two factors outside of it, where the solver sees the products."""
    for one, other in ((a, b), (b, a)):
        if z3.is_app_of(one, z3.Z3_OP_ITE):
            return z3.If(one.arg(0), product(one.arg(1), other), product(one.arg(2), other))
    return a * b


def is_literal(node):
    """Whether the type of a node is that of the other side: a literal, or an operation on literals."""
    if node.kind == "number":
        return node.type is None
    if node.kind == "binary" and node.op in ("<<", ">>"):
        return is_literal(node.left)
    if node.kind == "binary":
        return is_literal(node.left) and is_literal(node.right)
    return False
