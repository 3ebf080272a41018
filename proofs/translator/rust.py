"""Reads Rust: tokens, the items of a file, and the expressions of the functions that are translated.

Bodies are parsed when they are first used, so a file may contain anything outside of the functions that a proof calls. Inside of them a
construct that this parser does not know is an `Unknown`, which names the file and the line.
"""

import re

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<str>b?"(?:\\.|[^"\\])*"|r\#*".*?"\#*)
      | (?P<char>b?'(?:\\[^']+|[^'\\])')
      | (?P<life>'[A-Za-z_]\w*)
      | (?P<num>0x[0-9A-Fa-f_]+|0b[01_]+|[0-9][0-9_]*(?:\.[0-9][0-9_]*)?(?:[iuf](?:8|16|32|64|128|size))?)
      | (?P<id>[A-Za-z_]\w*)
      | (?P<op><<=|>>=|\.\.=|::|->|=>|<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|%=|\|=|&=|\^=|\.\.|[-+*/%&|^!<>=.,;:()\[\]{}?@\#$~])""",
    re.X | re.S,
)


class Unknown(Exception):
    """A construct outside of the subset."""


class Token:
    __slots__ = ("kind", "text", "line")

    def __init__(self, kind, text, line):
        self.kind, self.text, self.line = kind, text, line

    def __repr__(self):
        return self.text


def tokens(path, text):
    found, at, line = [], 0, 1
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise Unknown(f"{path}:{line}: no token: {text[at:at + 20]!r}")
        if match.lastgroup != "skip":
            found.append(Token(match.lastgroup, match[0], line))
        line += match[0].count("\n")
        at = match.end()
    return found


class Node:
    """A node of the tree: its kind, its place, and fields that depend on the kind."""

    def __init__(self, kind, line, **fields):
        self.kind, self.line = kind, line
        self.__dict__.update(fields)


class Type:
    """A type: a name with arguments. References are left out; a tuple has the name `()` and an array `[]`."""

    def __init__(self, name, args=(), path=()):
        self.name, self.args, self.path = name, list(args), list(path)

    def __repr__(self):
        return self.name + (f"<{', '.join(map(repr, self.args))}>" if self.args else "")


CLOSING = {"(": ")", "[": "]", "{": "}"}
LEVELS = [["||"], ["&&"], ["==", "!=", "<", ">", "<=", ">="], ["|"], ["^"], ["&"], ["<<", ">>"], ["+", "-"], ["*", "/", "%"]]
ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>="}
BLOCKS = {"if", "match", "while", "for", "loop", "block"}


class Parser:
    def __init__(self, path, toks, at=0):
        self.path, self.toks, self.at = path, toks, at

    def unknown(self, what=None):
        token = self.toks[min(self.at, len(self.toks) - 1)]
        raise Unknown(f"{self.path}:{token.line}: {what or 'unknown construct'} at {token.text!r}")

    def peek(self, ahead=0):
        at = self.at + ahead
        return self.toks[at].text if at < len(self.toks) else ""

    def kind(self, ahead=0):
        at = self.at + ahead
        return self.toks[at].kind if at < len(self.toks) else ""

    @property
    def line(self):
        return self.toks[min(self.at, len(self.toks) - 1)].line

    def next(self):
        token = self.toks[self.at]
        self.at += 1
        return token.text

    def eat(self, text):
        if self.peek() == text:
            self.at += 1
            return True
        return False

    def need(self, text):
        # `>>` closes two lists of type arguments, `||` is a closure without parameters, `&&` a double reference.
        if len(text) == 1 and self.peek() != text and self.peek().startswith(text) and text in ">&|":
            token = self.toks[self.at]
            self.toks[self.at : self.at + 1] = [Token("op", text, token.line), Token("op", token.text[1:], token.line)]
        if not self.eat(text):
            self.unknown(f"expected {text!r}")

    def name(self):
        if self.kind() != "id":
            self.unknown("expected a name")
        return self.next()

    def skip_group(self):
        """Skips a bracketed group and returns the tokens inside."""
        start, depth = self.at, 0
        while True:
            text = self.next()
            if text in CLOSING:
                depth += 1
            elif text in CLOSING.values():
                depth -= 1
                if depth == 0:
                    return self.toks[start + 1 : self.at - 1]

    # Types

    def type(self):
        if self.peek() in ("&", "&&"):
            self.need("&")
            if self.kind() == "life":
                self.next()
            self.eat("mut")
            return self.type()
        if self.eat("("):
            args = []
            while not self.eat(")"):
                args.append(self.type())
                self.eat(",")
            return Type("()", args)
        if self.eat("["):
            element = self.type()
            length = self.expr() if self.eat(";") else None
            self.need("]")
            return Type("[]", [element, length])
        if self.eat("{"):
            value = self.expr()
            self.need("}")
            return Type("const", [value])
        if self.peek() in ("impl", "dyn"):
            self.next()
            bounds = self.type()
            while self.eat("+"):
                self.type()
            return Type("impl", [bounds])
        if self.kind() == "num":
            return Type("const", [self.expr_level(len(LEVELS))])
        if self.eat("!"):
            return Type("!")
        if self.peek() == "<":
            # `<Self as Trait>::Name`: the type itself stands for it.
            self.need("<")
            inner = self.type()
            if self.eat("as"):
                self.type()
            self.need(">")
            while self.eat("::"):
                inner = Type(self.name(), [], [inner])
            return inner
        path, args = [self.name()], []
        while True:
            if self.peek() == "<" or (self.peek() == "::" and self.peek(1) == "<"):
                self.eat("::")
                args = self.type_args()
            elif self.peek() == "::":
                self.next()
                path.append(self.name())
            elif self.peek() == "(" and path[-1] in ("Fn", "FnOnce", "FnMut"):
                self.skip_group()
                if self.eat("->"):
                    self.type()
            else:
                return Type(path[-1], args, path[:-1])

    def type_args(self):
        self.need("<")
        args = []
        while self.peek()[:1] != ">":
            if self.kind() == "life":
                self.next()
            elif self.kind() == "id" and self.peek(1) == "=":
                self.at += 2
                self.type()
            else:
                args.append(self.type())
            self.eat(",")
        self.need(">")
        return args

    def generics(self):
        """The names of the generic parameters."""
        names = []
        if self.peek() != "<":
            return names
        self.need("<")
        while self.peek()[:1] != ">":
            if self.kind() == "life":
                self.next()
                while self.peek() not in (",", ">"):
                    self.next()
            else:
                is_const = self.eat("const")
                names.append(self.name())
                if self.eat(":"):
                    if is_const:
                        self.type()
                    else:
                        while self.peek() not in (",", ">"):
                            if self.eat("?") or self.eat("+"):
                                continue
                            if self.kind() == "life":
                                self.next()
                            else:
                                self.type()
                if self.eat("="):
                    self.type()
            self.eat(",")
        self.need(">")
        return names

    # Patterns

    def pattern(self):
        first = self.pattern_one()
        if self.peek() != "|":
            return first
        options = [first]
        while self.eat("|"):
            options.append(self.pattern_one())
        return Node("p_or", first.line, options=options)

    def pattern_one(self):
        line = self.line
        if self.peek() in ("&", "&&"):
            self.need("&")
            self.eat("mut")
            return self.pattern_one()
        if self.eat("_"):
            return Node("p_any", line)
        if self.eat("("):
            parts = []
            while not self.eat(")"):
                parts.append(self.pattern())
                self.eat(",")
            return Node("p_tuple", line, parts=parts)
        if self.eat("["):
            parts = []
            while not self.eat("]"):
                parts.append(self.pattern())
                self.eat(",")
            return Node("p_tuple", line, parts=parts)
        if self.kind() == "num" or self.peek() == "-":
            low = self.expr_level(len(LEVELS))
            return self.pattern_range(low, line)
        if self.peek() in ("true", "false"):
            return Node("p_value", line, value=Node("bool", line, value=self.next() == "true"))
        self.eat("ref")
        self.eat("mut")
        path = [self.name()]
        while self.eat("::"):
            path.append(self.name())
        if self.eat("("):
            parts = []
            while not self.eat(")"):
                parts.append(self.pattern())
                self.eat(",")
            return Node("p_variant", line, path=path, parts=parts, fields=None)
        if self.eat("{"):
            fields = {}
            while not self.eat("}"):
                if self.eat(".."):
                    continue
                self.eat("ref")
                self.eat("mut")
                field = self.name()
                fields[field] = self.pattern() if self.eat(":") else Node("p_bind", line, name=field)
                self.eat(",")
            return Node("p_variant", line, path=path, parts=None, fields=fields)
        if len(path) == 1 and not path[0][0].isupper():
            if self.eat("@"):
                self.unknown("a bound pattern")
            return Node("p_bind", line, name=path[0])
        return self.pattern_range(Node("path", line, path=path, args={}), line)

    def pattern_range(self, low, line):
        if self.eat("..="):
            return Node("p_range", line, low=low, high=self.expr_level(len(LEVELS)))
        return Node("p_value", line, value=low)

    # Expressions

    def expr(self, struct=True):
        line = self.line
        if self.peek() in ("return", "break", "continue"):
            kind = self.next()
            value = None if self.peek() in (";", "}", ",", ")") else self.expr(struct)
            return Node(kind, line, value=value)
        if self.peek() in ("|", "||", "move"):
            return self.closure()
        left = self.expr_range(struct)
        if self.peek() in ASSIGN:
            op = self.next()
            return Node("assign", line, op=op, place=left, value=self.expr(struct))
        return left

    def closure(self):
        line, names = self.line, []
        self.eat("move")
        if not self.eat("||"):
            self.need("|")
            while not self.eat("|"):
                names.append(self.pattern_one())
                if self.eat(":"):
                    self.type()
                self.eat(",")
        return Node("closure", line, params=names, body=self.expr())

    def expr_range(self, struct):
        line = self.line
        left = self.expr_level(0, struct)
        if self.peek() in ("..", "..="):
            op = self.next()
            return Node("range", line, low=left, high=self.expr_level(0, struct), inclusive=op == "..=")
        return left

    def expr_level(self, level, struct=True):
        if level == len(LEVELS):
            return self.expr_as(struct)
        left = self.expr_level(level + 1, struct)
        while self.peek() in LEVELS[level] and self.kind() == "op":
            line, op = self.line, self.next()
            left = Node("binary", line, op=op, left=left, right=self.expr_level(level + 1, struct))
        return left

    def expr_as(self, struct):
        value = self.unary(struct)
        while self.peek() == "as":
            line = self.line
            self.next()
            value = Node("as", line, value=value, type=self.type())
        return value

    def unary(self, struct):
        line = self.line
        if self.peek() in ("&", "&&") and self.kind() == "op":
            self.need("&")
            return Node("ref", line, mutable=self.eat("mut"), value=self.unary(struct))
        if self.peek() in ("-", "!", "*") and self.kind() == "op":
            op = self.next()
            return Node("unary", line, op=op, value=self.unary(struct))
        return self.postfix(self.primary(struct), struct)

    def postfix(self, value, struct):
        while True:
            line = self.line
            if self.eat("?"):
                value = Node("try", line, value=value)
            elif self.peek() == "(" and value.kind not in BLOCKS:
                value = Node("call", line, function=value, args=self.args())
            elif self.peek() == "[":
                self.next()
                value = Node("index", line, value=value, at=self.expr())
                self.need("]")
            elif self.peek() == ".":
                self.next()
                if self.kind() == "num":
                    for part in self.next().split("."):
                        value = Node("field", line, value=value, name=part)
                    continue
                name = self.name()
                targs = []
                if self.peek() == "::":
                    self.next()
                    targs = self.type_args()
                if self.peek() == "(":
                    value = Node("method", line, value=value, name=name, args=self.args(), targs=targs)
                else:
                    value = Node("field", line, value=value, name=name)
            else:
                return value

    def args(self):
        self.need("(")
        args = []
        while not self.eat(")"):
            args.append(self.expr())
            self.eat(",")
        return args

    def primary(self, struct):
        line = self.line
        kind, text = self.kind(), self.peek()
        if kind == "num":
            return self.number()
        if kind == "str":
            return Node("str", line, value=self.next())
        if text in ("true", "false"):
            return Node("bool", line, value=self.next() == "true")
        if text == "(":
            self.next()
            parts, is_tuple = [], False
            while not self.eat(")"):
                parts.append(self.expr())
                is_tuple |= self.eat(",")
            return parts[0] if len(parts) == 1 and not is_tuple else Node("tuple", line, parts=parts)
        if text == "[":
            self.next()
            parts = []
            while not self.eat("]"):
                parts.append(self.expr())
                if self.eat(";"):
                    count = self.expr()
                    self.need("]")
                    return Node("repeat", line, value=parts[0], count=count)
                self.eat(",")
            return Node("array", line, parts=parts)
        if text == "{":
            return self.block()
        if text == "const" and self.peek(1) == "{":
            self.next()
            return self.block()
        if text == "if":
            self.next()
            condition = self.condition()
            then = self.block()
            other = None
            if self.eat("else"):
                other = self.primary(True) if self.peek() == "if" else self.block()
            return Node("if", line, condition=condition, then=then, other=other)
        if text == "match":
            self.next()
            value = self.expr(False)
            self.need("{")
            arms = []
            while not self.eat("}"):
                self.attributes()
                pattern = self.pattern()
                guard = self.expr(False) if self.eat("if") else None
                self.need("=>")
                body = self.expr()
                arms.append((pattern, guard, body))
                self.eat(",")
            return Node("match", line, value=value, arms=arms)
        if text == "while":
            self.next()
            condition = self.condition()
            return Node("while", line, condition=condition, body=self.block())
        if text == "for":
            self.next()
            pattern = self.pattern()
            self.need("in")
            value = self.expr(False)
            return Node("for", line, pattern=pattern, value=value, body=self.block())
        if kind == "id":
            return self.path_or_struct(struct)
        self.unknown()

    def condition(self):
        """A condition, which may be a chain of `let`s and expressions."""
        line = self.line
        if self.peek() != "let":
            condition = self.expr(False)
            return condition
        parts = []
        while True:
            if self.eat("let"):
                pattern = self.pattern()
                self.need("=")
                parts.append((pattern, self.expr_level(2, False)))
            else:
                parts.append((None, self.expr_level(2, False)))
            if not self.eat("&&"):
                return Node("chain", line, parts=parts)

    def number(self):
        line, text = self.line, self.next()
        match = re.fullmatch(r"(0x[0-9A-Fa-f_]+|0b[01_]+|[0-9_]+)((?:[iu])(?:8|16|32|64|128|size))?", text)
        if not match:
            self.unknown(f"the number {text}")
        return Node("number", line, value=int(match[1].replace("_", ""), 0), type=match[2])

    def path_or_struct(self, struct):
        line, path, args = self.line, [self.name()], {}
        while self.peek() == "::":
            self.next()
            if self.peek() == "<":
                args[len(path) - 1] = self.type_args()
            else:
                path.append(self.name())
        if self.peek() == "!" and self.peek(1) in CLOSING and len(path) == 1:
            self.next()
            return Node("macro", line, name=path[0], tokens=self.skip_group())
        if struct and self.peek() == "{" and (path[-1][0].isupper()):
            self.next()
            fields, base = {}, None
            while not self.eat("}"):
                self.attributes()
                if self.eat(".."):
                    base = self.expr()
                    continue
                name = self.next()
                fields[name] = self.expr() if self.eat(":") else Node("path", line, path=[name], args={})
                self.eat(",")
            return Node("struct", line, path=path, fields=fields, base=base, args=args)
        return Node("path", line, path=path, args=args)

    def attributes(self):
        """The attributes here; returns whether the compiler leaves out what follows."""
        left_out = False
        while self.peek() == "#":
            self.next()
            self.eat("!")
            left_out |= not is_compiled([token.text for token in self.skip_group()])
        return left_out

    def block(self):
        line = self.line
        self.need("{")
        statements, value = [], None
        while not self.eat("}"):
            left_out = self.attributes()
            at = self.line
            if self.eat(";"):
                continue
            if self.eat("let"):
                pattern = self.pattern()
                annotation = self.type() if self.eat(":") else None
                init = self.expr() if self.eat("=") else None
                other = self.block() if self.eat("else") else None
                self.need(";")
                statement = Node("let", at, pattern=pattern, type=annotation, value=init, other=other)
            elif self.peek() == "const" and self.kind(1) == "id":
                self.next()
                name = self.name()
                self.need(":")
                annotation = self.type()
                self.need("=")
                init = self.expr()
                self.need(";")
                statement = Node("let", at, pattern=Node("p_bind", at, name=name), type=annotation, value=init, other=None)
            else:
                statement = self.expr()
                if self.eat(";"):
                    statement = Node("statement", at, value=statement)
                elif self.peek() == "}":
                    if not left_out:
                        value = statement
                    continue
                elif statement.kind in BLOCKS or statement.kind == "macro":
                    statement = Node("statement", at, value=statement)
                else:
                    self.unknown("expected a semicolon")
            if not left_out:
                statements.append(statement)
        return Node("block", line, statements=statements, value=value)


def is_compiled(words):
    """Whether the code under this attribute is compiled: with all features, for 64 bits, without tests and loom."""
    if words[:2] != ["cfg", "("]:
        return True

    def value(at):
        name = words[at]
        if name in ("all", "any", "not"):
            at, parts = at + 2, []
            while words[at] != ")":
                part, at = value(at)
                parts.append(part)
                at += words[at] == ","
            result = {"all": all, "any": any, "not": lambda parts: not parts[0]}[name](parts)
            return result, at + 1
        if at + 1 < len(words) and words[at + 1] == "=":
            stated = words[at + 2].strip('"')
            is_of_target = name == "target_pointer_width" and stated == "64" or name == "target_has_atomic" and stated in ("32", "64", "ptr")
            return (name == "feature" and stated != "defmt") or is_of_target, at + 3
        return name in ("debug_assertions", "std"), at + 1

    return value(2)[0]


class Function:
    def __init__(self, path, name, generics, params, result, body, line, owner):
        self.path, self.name, self.generics, self.params, self.result = path, name, generics, params, result
        self.body_tokens, self.line, self.owner = body, line, owner
        self.parsed = None

    def body(self):
        if self.parsed is None:
            self.parsed = Parser(self.path, list(self.body_tokens)).block()
        return self.parsed


class Constant:
    def __init__(self, path, name, type, tokens, line, owner):
        self.path, self.name, self.type, self.tokens, self.line, self.owner = path, name, type, tokens, line, owner

    def expr(self):
        return Parser(self.path, list(self.tokens)).expr()


class Owner:
    """An `impl` or a trait: the generic names, the type and the trait that it is of."""

    def __init__(self, generics, type, trait):
        self.generics, self.type, self.trait = generics, type, trait
        self.functions, self.constants, self.types = {}, {}, {}


class Crate:
    """The items of the files that were read."""

    def __init__(self):
        self.functions, self.constants, self.structs, self.enums = {}, {}, {}, {}
        self.impls, self.traits, self.files = {}, {}, []

    def read(self, path, text):
        self.files.append(path)
        parser = Parser(path, tokens(path, text))
        self.items(parser, None, {})

    def items(self, parser, owner, macros):
        while parser.at < len(parser.toks) and parser.peek() != "}":
            if self.item(parser, owner, macros):
                continue

    def item(self, parser, owner, macros):
        left_out = parser.attributes()
        start = parser.at
        if parser.eat("pub") and parser.peek() == "(":
            parser.skip_group()
        while parser.peek() in ("const", "unsafe", "async", "extern") and parser.peek(1) in ("fn", "unsafe", "extern"):
            parser.next()
        word, line = parser.peek(), parser.line
        if word == "fn":
            parser.next()
            self.function(parser, owner, left_out, line)
        elif word in ("const", "static"):
            parser.next()
            name = parser.next()
            parser.need(":")
            type = parser.type()
            value = []
            if parser.eat("="):
                value = self.until_semicolon(parser)
            parser.need(";")
            if not left_out and name != "_":
                constant = Constant(parser.path, name, type, value, line, owner)
                if owner:
                    owner.constants[name] = constant
                else:
                    self.constants.setdefault(name, []).append(constant)
        elif word == "struct":
            parser.next()
            name = parser.name()
            generics = parser.generics()
            fields = {}
            if parser.eat("("):
                index = 0
                while not parser.eat(")"):
                    parser.attributes()
                    if parser.eat("pub") and parser.peek() == "(":
                        parser.skip_group()
                    fields[str(index)] = parser.type()
                    index += 1
                    parser.eat(",")
                parser.need(";")
            elif parser.eat("{"):
                while not parser.eat("}"):
                    skipped = parser.attributes()
                    if parser.eat("pub") and parser.peek() == "(":
                        parser.skip_group()
                    field = parser.name()
                    parser.need(":")
                    type = parser.type()
                    if not skipped:
                        fields[field] = type
                    parser.eat(",")
            else:
                self.until_semicolon(parser)
                parser.need(";")
            if not left_out:
                self.structs.setdefault(name, []).append((parser.path, generics, fields))
        elif word == "enum":
            parser.next()
            name = parser.name()
            parser.generics()
            parser.need("{")
            variants = {}
            while not parser.eat("}"):
                skipped = parser.attributes()
                variant = parser.name()
                parts = None
                if parser.eat("("):
                    parts = []
                    while not parser.eat(")"):
                        parser.attributes()
                        parts.append(parser.type())
                        parser.eat(",")
                elif parser.eat("{"):
                    parts = {}
                    while not parser.eat("}"):
                        parser.attributes()
                        field = parser.name()
                        parser.need(":")
                        parts[field] = parser.type()
                        parser.eat(",")
                parser.eat(",")
                if not skipped:
                    variants[variant] = parts
            if not left_out:
                self.enums.setdefault(name, []).append((parser.path, variants))
        elif word == "impl":
            parser.next()
            generics = parser.generics()
            type, trait = parser.type(), None
            if parser.eat("for"):
                type, trait = parser.type(), type
            while parser.peek() != "{":
                parser.next()
            inside = parser.skip_group()
            if not left_out:
                inner = Owner(generics, type, trait.name if trait else None)
                self.impls.setdefault(type.name, []).append((parser.path, inner))
                self.items(Parser(parser.path, inside), inner, macros)
        elif word == "trait":
            parser.next()
            name = parser.name()
            while parser.peek() != "{":
                parser.next()
            inside = parser.skip_group()
            if not left_out:
                inner = Owner([], Type("Self"), name)
                self.traits.setdefault(name, []).append((parser.path, inner))
                self.items(Parser(parser.path, inside), inner, macros)
        elif word == "type":
            parser.next()
            name = parser.name()
            parser.generics()
            if parser.eat(":"):
                self.until_semicolon(parser)
            elif parser.eat("="):
                type = parser.type()
                self.until_semicolon(parser)
                if owner and not left_out:
                    owner.types[name] = type
            parser.need(";")
        elif word == "use" or word == "extern":
            self.until_semicolon(parser)
            parser.need(";")
        elif word == "mod":
            parser.at += 2
            if parser.peek() == "{":
                inside = parser.skip_group()
                if not left_out:
                    self.items(Parser(parser.path, inside), owner, macros)
            else:
                parser.need(";")
        elif word == "macro_rules":
            parser.at += 2
            name = parser.name()
            macros[name] = parser.skip_group()
        elif parser.kind() == "id" and parser.peek(1) in ("!", "::"):
            name = parser.next()
            while parser.eat("::"):
                name = parser.name()
            parser.need("!")
            braces = parser.peek() == "{"
            inside = parser.skip_group()
            if not braces:
                parser.need(";")
            if name == "const_unless_loom":
                self.items(Parser(parser.path, list(inside)), owner, macros)
            elif name in macros and not left_out:
                self.items(Parser(parser.path, expand(parser.path, macros[name], inside)), owner, macros)
        else:
            parser.at = start
            parser.unknown("an item")
        return True

    @staticmethod
    def until_semicolon(parser):
        start = parser.at
        while parser.peek() != ";":
            if parser.peek() in CLOSING:
                parser.skip_group()
            else:
                parser.next()
        return parser.toks[start : parser.at]

    def function(self, parser, owner, left_out, line):
        name = parser.name()
        generics = parser.generics()
        params = []
        parser.need("(")
        while not parser.eat(")"):
            parser.attributes()
            start = parser.at
            if parser.peek() in ("&", "mut", "self"):
                mutable = False
                while parser.peek() in ("&", "mut") or parser.kind() == "life":
                    mutable |= parser.peek() == "&" and (parser.peek(1) == "mut" or parser.peek(2) == "mut")
                    parser.next()
                if parser.eat("self"):
                    params.append(("self", None, mutable))
                    parser.eat(",")
                    continue
                parser.at = start
            pattern = parser.pattern()
            parser.need(":")
            mutable = parser.peek() == "&" and parser.peek(1) == "mut"
            params.append((pattern, parser.type(), mutable))
            parser.eat(",")
        result = parser.type() if parser.eat("->") else Type("()")
        while parser.peek() not in ("{", ";"):
            parser.next()
        if parser.eat(";"):
            return
        start = parser.at
        parser.skip_group()
        if left_out:
            return
        function = Function(parser.path, name, generics, params, result, parser.toks[start : parser.at], line, owner)
        if owner:
            owner.functions[name] = function
        else:
            self.functions.setdefault(name, []).append(function)


def expand(path, rule, given):
    """The items of a macro of one rule, whose parameters are separated by commas."""
    parser = Parser(path, list(rule))
    pattern = parser.skip_group()
    parser.need("=>")
    body = parser.skip_group()
    names = [pattern[at + 1].text for at, token in enumerate(pattern) if token.text == "$"]
    parts, depth = [[]], 0
    for token in given:
        depth += (token.text in CLOSING) - (token.text in CLOSING.values())
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    if len(parts) != len(names):
        raise Unknown(f"{path}:{given[0].line}: a macro with other parameters")
    values, out, at = dict(zip(names, parts)), [], 0
    while at < len(body):
        if body[at].text == "$":
            out += [Token(token.kind, token.text, body[at].line) for token in values[body[at + 1].text]]
            at += 2
        else:
            out.append(body[at])
            at += 1
    return out
