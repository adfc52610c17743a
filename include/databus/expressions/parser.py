"""Parser of Spark SQL expressions: the grammar of SqlBaseParser.g4, as far as it is compiled.

Precedence, from loose to tight: OR, AND, NOT, one predicate (IS, IN, LIKE, BETWEEN, …), comparison, |, ^, &, shifts,
+ - ||, * / % DIV, sign. Signs of one level group from the left.
"""

from __future__ import annotations

from databus.expressions.errors import NotCompiledError
from databus.expressions.lexer import Lexeme, lexemes
from databus.expressions.literals import WORDS, bytes_literal, number_literal, time_literal
from databus.expressions.tree import NULL, Call, Cases, Conversion, Literal, Name, Tree, depth_of, names_in
from databus.rows.frames.expression import IMAGES, parse_expression

_LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="}),
    frozenset({"|"}),
    frozenset({"^"}),
    frozenset({"&"}),
    frozenset({"<<", ">>", ">>>"}),
    frozenset({"+", "-", "||"}),
    frozenset({"*", "/", "%", "div"}),
)
_SAME = {"==": "=", "!=": "<>", "regexp": "rlike"}
_CONSTANTS = {"null": NULL, "true": Literal(True, "boolean"), "false": Literal(False, "boolean")}
_RESERVED = frozenset(
    {
        *("and", "or", "not", "between", "in", "like", "ilike", "rlike", "regexp", "is", "escape", "div"),
        *("case", "when", "then", "else", "end", "interval", "exists", "as", "from", "distinct", "all", "any", "some"),
        *("at", "collate", "over", "filter", "within", "select"),
    }
)
"""Words that are read as themselves only: a column of such a name has quotes."""
_WITH_UNITS = frozenset({"timestampadd", "timestampdiff", "date_add", "dateadd", "datediff", "date_diff"})
_MOST_DEEP = 30
"""Parentheses inside one another: each takes some 16 calls here, and 20 in the parser of Spark's lane."""
_LONGEST = 150
"""Depth of a tree, of a chain of OR its length, that Python's stack has room for in whatever calls this."""


def parse(text: str) -> Tree:
    """Return the tree of an expression.

    Raises:
        NotCompiledError: not of the grammar that is compiled, or read differently by the parser of Spark's lane.
    """
    if "${" in text:  # variables of a session that has their substitution on
        raise NotCompiledError("a text with ${")
    try:
        tree = _Parser(lexemes(text)).whole()
    except RecursionError:
        raise NotCompiledError("expressions this deep") from None
    if depth_of(tree) > _LONGEST:
        raise NotCompiledError("expressions this deep")
    try:
        names = {(found.name, found.image) for found in parse_expression(text).identifiers}
    except ValueError as error:
        raise NotCompiledError(str(error)) from None
    except RecursionError:
        raise NotCompiledError("expressions this deep") from None
    if {(found.name, found.image) for found in names_in(tree)} != names:
        raise NotCompiledError("names that are not surely columns")
    return tree


class _Parser:
    def __init__(self, tokens: list[Lexeme]):
        self._tokens = tokens
        self._at = 0
        self._deep = 0

    def whole(self) -> Tree:
        tree = self._disjunction()
        if self._next.kind != "end":
            raise self._refused()
        return tree

    @property
    def _next(self) -> Lexeme:
        return self._tokens[self._at]

    def _refused(self) -> NotCompiledError:
        return NotCompiledError(f"{self._next.raw.upper() or 'the end of the text'} in this place")

    def _is(self, *texts: str, ahead: int = 0) -> bool:
        token = self._tokens[min(self._at + ahead, len(self._tokens) - 1)]
        return token.kind in ("word", "sign") and token.text in texts

    def _took(self, *texts: str) -> str:
        """Take the next token where it is one of these; return it, else ""."""
        if not self._is(*texts):
            return ""
        self._at += 1
        return self._tokens[self._at - 1].text

    def _expect(self, text: str) -> None:
        if not self._took(text):
            raise self._refused()

    def _disjunction(self) -> Tree:
        self._deep += 1
        if self._deep > _MOST_DEEP:
            raise NotCompiledError("expressions this deep")
        left = self._conjunction()
        while self._took("or"):
            left = Call("or", (left, self._conjunction()))
        self._deep -= 1
        return left

    def _conjunction(self) -> Tree:
        left = self._negation()
        while self._took("and"):
            left = Call("and", (left, self._negation()))
        return left

    def _negation(self) -> Tree:
        negations = 0
        while self._took("not", "!"):
            negations += 1
        tree = self._predicate()
        for _ in range(negations):
            tree = Call("not", (tree,))
        return tree

    def _predicate(self) -> Tree:
        left = self._binary(0)
        if self._took("is"):
            return self._is_predicate(left)
        negated = bool(self._took("not", "!"))
        found: Tree
        if self._took("between"):
            low = self._binary(0)
            self._expect("and")
            found = Call("and", (Call(">=", (left, low)), Call("<=", (left, self._binary(0)))))
        elif self._took("in"):
            self._expect("(")
            found = Call("in", (left, *self._list()))
        elif word := self._took("like", "ilike"):
            pattern = self._binary(0)
            escape = (self._string(),) if self._took("escape") else ()
            found = Call(word, (left, pattern, *escape))
        elif word := self._took("rlike", "regexp"):
            found = Call("rlike", (left, self._binary(0)))
        elif negated:
            raise self._refused()
        else:
            return left
        return Call("not", (found,)) if negated else found

    def _is_predicate(self, left: Tree) -> Tree:
        negated = bool(self._took("not", "!"))
        found: Tree
        if self._took("null", "unknown"):
            found = Call("isnull", (left,))
        elif word := self._took("true", "false"):
            found = Call("<=>", (left, _CONSTANTS[word]))
        elif self._took("distinct"):
            self._expect("from")
            negated, found = not negated, Call("<=>", (left, self._binary(0)))
        else:
            raise self._refused()
        return Call("not", (found,)) if negated else found

    def _string(self) -> Literal:
        if self._next.kind != "string":
            raise self._refused()
        self._at += 1
        return Literal(self._tokens[self._at - 1].text, "string")

    def _binary(self, level: int) -> Tree:
        if level == len(_LEVELS):
            return self._signed()
        left = self._binary(level + 1)
        while sign := self._took(*_LEVELS[level]):
            left = Call(_SAME.get(sign, sign), (left, self._binary(level + 1)))
        return left

    def _signed(self) -> Tree:
        if self._is("-") and self._tokens[self._at + 1].kind == "number":
            self._at += 2
            return self._converted(number_literal(self._tokens[self._at - 1], negative=True))
        if sign := self._took("-", "+", "~"):
            self._deep += 1
            if self._deep > _MOST_DEEP:
                raise NotCompiledError("expressions this deep")
            value = self._signed()
            self._deep -= 1
            return Call({"-": "negative", "+": "positive", "~": "~"}[sign], (value,))
        return self._converted(self._primary())

    def _converted(self, value: Tree) -> Tree:
        while self._took("::"):
            value = Conversion(value, self._type(), trying=False)
        if self._is(".", "collate", "over", "at") or self._next.kind in ("string", "number"):
            raise self._refused()
        return value

    def _primary(self) -> Tree:
        token = self._next
        self._at += 1
        if token.kind == "number":
            return number_literal(token, negative=False)
        if token.kind == "string":
            return Literal(token.text, "string")
        if token.kind == "bytes":
            return bytes_literal(token)
        if token.kind == "sign" and token.text == "(":
            tree = self._disjunction()
            self._expect(")")
            return tree
        if token.kind == "name" and not self._is("("):
            return self._column(token.text)
        if token.kind == "word":
            return self._word(token)
        self._at -= 1
        raise self._refused()

    def _word(self, token: Lexeme) -> Tree:
        word = token.text
        if word == "case":
            return self._cases()
        if word in WORDS and self._next.kind == "string":
            return time_literal(word, self._string().value)
        if self._took("("):
            return self._call(word)
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        if word in _RESERVED:
            self._at -= 1
            raise self._refused()
        return self._column(token.raw)

    def _column(self, first: str) -> Tree:
        if not self._took("."):
            return Name(first, "row")
        token = self._next
        if first.lower() not in IMAGES or token.kind not in ("name", "word"):
            raise self._refused()
        self._at += 1
        return Name(token.text if token.kind == "name" else token.raw, first.lower())

    def _call(self, name: str) -> Tree:
        if name in ("cast", "try_cast"):
            value = self._disjunction()
            self._expect("as")
            kind = self._type()
            self._expect(")")
            return Conversion(value, kind, trying=name == "try_cast")
        if name == "extract" and self._tokens[self._at].kind == "word" and self._is("from", ahead=1):
            field = self._tokens[self._at].text
            self._at += 2
            value = self._disjunction()
            self._expect(")")
            return Call("extract", (Literal(field, "string"), value))
        if name in _RESERVED and name not in ("like", "ilike", "rlike", "regexp"):
            raise NotCompiledError(f"{name.upper()}(…)")
        arguments = self._list()
        if self._is("filter", "over", "within", "ignore", "respect"):
            raise self._refused()
        if name in _WITH_UNITS and len(arguments) == 3:
            raise NotCompiledError(f"{name} with a unit")
        return Call(_SAME.get(name, name), arguments)

    def _list(self) -> tuple[Tree, ...]:
        found: list[Tree] = []
        if self._took(")"):
            return ()
        while True:
            found.append(self._disjunction())
            if self._took(")"):
                return tuple(found)
            self._expect(",")

    def _type(self) -> str:
        token = self._next
        if token.kind != "word":
            raise self._refused()
        self._at += 1
        text = token.text
        if self._took("("):
            parts: list[str] = []
            while self._next.kind == "number":
                parts.append(self._next.text)
                self._at += 1
                if not self._took(","):
                    break
            self._expect(")")
            text += f"({','.join(parts)})"
        if self._is("<", "with", "without"):
            raise self._refused()
        return text

    def _cases(self) -> Tree:
        value = None if self._is("when") else self._disjunction()
        branches: list[tuple[Tree, Tree]] = []
        while self._took("when"):
            condition = self._disjunction()
            self._expect("then")
            branches.append((condition if value is None else Call("=", (value, condition)), self._disjunction()))
        otherwise = self._disjunction() if self._took("else") else NULL
        if not branches:
            raise self._refused()
        self._expect("end")
        return Cases(tuple(branches), otherwise)
