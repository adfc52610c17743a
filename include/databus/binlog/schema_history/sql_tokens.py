"""Tokens of a definition statement, and a reader that walks over them."""

from __future__ import annotations

import re
from dataclasses import dataclass


class UndecidedError(ValueError):
    """A statement, or a part of one, whose effect on a table cannot be determined exactly."""


ANSI_QUOTES, NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20
"""Bits of sql_mode that change how a statement reads."""

_PATTERN = r"""(?P<blank>\s+ | \#[^\n]*(?:\n|$) | --(?=\s|$)[^\n]*(?:\n|$) | /\*(?!M?!).*?\*/ | /\*M?!\d* | \*/)
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<double>"(?:[^"%s]|""%s)*") | (?P<single>'(?:[^'%s]|''%s)*')
      | (?P<number>\d+(?![\w$\u0080-\uffff]))
      | (?P<word>[\w$@\u0080-\uffff]+) | (?P<sign>.)"""
_TOKEN = re.compile(_PATTERN % (("\\\\", r"|\\.") * 2), re.VERBOSE | re.DOTALL)
_TOKEN_UNESCAPED = re.compile(_PATTERN % (("", "") * 2), re.VERBOSE | re.DOTALL)
_CONDITIONAL = re.compile(r"/\*M?!(\d*)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}
"""What a backslash and a character stand for; before % and _, which LIKE reads so, the backslash stays."""


@dataclass(frozen=True)
class SqlToken:
    """One token.

    Attributes:
        text: as written.
        word: upper case of a bare word; "" for anything else.
        name: the identifier it can be; "" when it can be none.
        string: the literal's value; None when it is none.
        number: the value of a whole number; None when it is none.
    """

    text: str
    word: str = ""
    name: str = ""
    string: str | None = None
    number: int | None = None


def tokens_of(sql: str, flavor: str, sql_mode: int = 0, *, strict: bool = True) -> list[SqlToken]:
    """Return the tokens of a statement; `strict=False` is enough for the names of its tables.

    Raises:
        UndecidedError: it holds a comment of which only the server's version says whether it is run, or backslashes
            that its sql_mode reads in another way.
    """
    found: list[SqlToken] = []
    for match in (_TOKEN_UNESCAPED if sql_mode & NO_BACKSLASH_ESCAPES else _TOKEN).finditer(sql):
        text = match[0]
        if match["blank"]:
            if strict:
                _check_conditional(text, flavor)
        elif match["quoted"]:
            found.append(SqlToken(text, name=text[1:-1].replace("``", "`")))
        elif match["double"] and sql_mode & ANSI_QUOTES:
            found.append(SqlToken(text, name=text[1:-1].replace('""', '"')))
        elif match["double"] or match["single"]:
            if strict and "\\" in text and sql_mode & NO_BACKSLASH_ESCAPES:
                raise UndecidedError("a literal with a backslash under NO_BACKSLASH_ESCAPES")
            found.append(SqlToken(text, string=_literal(text)))
        elif match["number"]:
            found.append(SqlToken(text, number=int(text)))
        elif match["word"]:
            found.append(SqlToken(text, word=text.upper(), name=text))
        else:
            found.append(SqlToken(text))
    return found


def _check_conditional(text: str, flavor: str) -> None:
    match = _CONDITIONAL.match(text)
    if match is None:
        return
    version = int(match[1] or 0)
    if text.startswith("/*M!") and flavor == "mysql":
        raise UndecidedError(f"a comment {text} that MariaDB alone runs")
    # MySQL 8.0 runs all up to 80000; MariaDB leaves out 50700 to 99999, which are of MySQL's later versions.
    if version > (80000 if flavor == "mysql" else 50699) and not (flavor == "mariadb" and 100000 <= version <= 101100):
        raise UndecidedError(f"a comment {text} that some versions run and others do not")


def _literal(text: str) -> str:
    inside = text[1:-1].replace(text[0] * 2, text[0])
    if "\\" not in inside:
        return inside
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), inside, flags=re.DOTALL)


class TokenReader:
    """Walks over tokens; a statement that reads otherwise than expected is undecided."""

    def __init__(self, tokens: list[SqlToken]):
        self.tokens = tokens
        self.at = 0

    @property
    def done(self) -> bool:
        """Return whether nothing is left."""
        return self.at >= len(self.tokens)

    def peek(self, ahead: int = 0) -> SqlToken:
        """Return a token to come; an empty one at the end."""
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else SqlToken("")

    def next(self) -> SqlToken:
        """Take a token."""
        token = self.peek()
        self.at += 1
        return token

    def take(self, *words: str) -> bool:
        """Take these words when exactly they come."""
        if all(self.peek(i).word == word for i, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def take_sign(self, sign: str) -> bool:
        """Take a sign when it comes."""
        token = self.peek()
        if token.text == sign and not token.word and not token.name and token.string is None:
            self.at += 1
            return True
        return False

    def expect_sign(self, sign: str) -> None:
        """Take a sign that must come."""
        if not self.take_sign(sign):
            raise UndecidedError(f"{sign!r} expected before {self.peek().text!r}")

    def identifier(self) -> str:
        """Take an identifier."""
        token = self.next()
        if not token.name:
            raise UndecidedError(f"a name expected at {token.text!r}")
        return token.name

    def qualified(self, database: str) -> tuple[str, str]:
        """Take `table` or `database.table`."""
        first = self.identifier()
        if self.take_sign("."):
            return first, self.identifier()
        return database, first

    def group(self) -> list[SqlToken]:
        """Take what stands between a parenthesis and its partner."""
        self.expect_sign("(")
        depth, start = 1, self.at
        while depth:
            if self.done:
                raise UndecidedError("a parenthesis is not closed")
            if self.take_sign("("):
                depth += 1
            elif self.take_sign(")"):
                depth -= 1
            else:
                self.at += 1
        return self.tokens[start : self.at - 1]

    def rest_of_item(self) -> list[SqlToken]:
        """Take everything up to the next comma outside parentheses, without the comma."""
        start = self.at
        while not self.done and not (self.peek().text == "," and self.peek().string is None):
            if self.peek().text == "(" and self.peek().string is None:
                self.group()
            else:
                self.at += 1
        return self.tokens[start : self.at]


def items(tokens: list[SqlToken]) -> list[list[SqlToken]]:
    """Split at the commas outside parentheses."""
    reader, found = TokenReader(tokens), []
    while not reader.done:
        found.append(reader.rest_of_item())
        if not reader.done:
            reader.expect_sign(",")
    return found
