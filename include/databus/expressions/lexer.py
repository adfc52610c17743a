"""Lexer of Spark SQL expressions (SqlBaseLexer.g4): words, quoted names, strings, numbers, signs.

Ours because sqlglot's tokens and trees are rewritten on the way (1L becomes a cast, functions get other names), and
precedence differs; it still parses every text first, as it does for Spark's lane (ADR 64).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from databus.expressions.errors import NotCompiledError

_TOKEN = re.compile(
    r"""
      (?P<space>\s+ | --[^\n\\]*(?:\n|$))
    | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?P<exponent>[eE][+-]?\d+)?(?P<suffix>(?:BD|[LSYDF])(?![A-Za-z0-9_]))?)
    | (?P<string>(?P<prefix>[rRxX])?(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"))
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign><=>|<>|!=|==|<=|>=|>>>|<<|>>|\|\||::|[-+*/%<>=!~&|^(),.])
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\(?:([0-3][0-7]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))|(''|\"\")", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@dataclass(frozen=True)
class Lexeme:
    """Token of an expression's text.

    Attributes:
        kind: "number", "string", "bytes", "name" (quoted), "word", "sign" or "end".
        text: a word in lower case, a string's or name's value, a number without suffix, hex digits of bytes.
        suffix: of a number, in upper case: "", "BD", "L", "S", "Y", "D" or "F".
        raw: as written.
    """

    kind: str
    text: str
    suffix: str = ""
    raw: str = ""


def lexemes(text: str) -> list[Lexeme]:
    """Return the tokens of a text, with one of kind "end".

    Raises:
        NotCompiledError: a sign, string or number that is not read here.
    """
    found: list[Lexeme] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise NotCompiledError(f"the text at {text[place : place + 20]!r}")
        place = match.end()
        if match[0] == "-" and text.startswith("-", place):
            raise NotCompiledError("a comment with a backslash")
        if match.lastgroup is None or match["space"] is not None:
            continue
        found.append(_lexeme(match, text[place : place + 1]))
    return [*found, Lexeme("end", "")]


def _lexeme(match: re.Match[str], after: str) -> Lexeme:
    raw = match[0]
    if (number := match["number"]) is not None:
        if after == "_" or after.isalnum() or after == ".":
            raise NotCompiledError(f"the number {raw}{after}")
        suffix = match["suffix"] or ""
        return Lexeme("number", number[: len(number) - len(suffix)], suffix.upper(), raw)
    if match["string"] is not None:
        return _string(match, raw)
    if match["quoted"] is not None:
        return Lexeme("name", raw[1:-1].replace("``", "`"), raw=raw)
    if match["word"] is not None:
        return Lexeme("word", raw.lower(), raw=raw)
    return Lexeme("sign", raw, raw=raw)


def _string(match: re.Match[str], raw: str) -> Lexeme:
    prefix = (match["prefix"] or "").lower()
    body = raw[len(prefix) + 1 : -1]
    if prefix == "x":
        return Lexeme("bytes", body, raw=raw)
    if prefix == "r":
        if "''" in body or '""' in body or "\\'" in body or '\\"' in body:
            raise NotCompiledError(f"the string {raw}")
        return Lexeme("string", body, raw=raw)
    quote = raw[-1]
    value = _ESCAPE.sub(lambda found: _unescaped(found, quote), body)
    if any(0xD800 <= ord(each) < 0xE000 for each in value):
        raise NotCompiledError("a string with half a surrogate pair")
    return Lexeme("string", value, raw=raw)


def _unescaped(found: re.Match[str], quote: str) -> str:
    octal, four, eight, other, doubled = found.groups()
    if doubled is not None:
        return quote if doubled[0] == quote else str(doubled)
    if octal is not None:
        if octal[0] in "23":  # read as three digits by some versions of Spark only
            raise NotCompiledError(f"the escape {found[0]}")
        return chr(int(octal, 8))
    if four is not None or eight is not None:
        number = int(four or eight, 16)
        if number > 0x10FFFF:
            raise NotCompiledError(f"the escape {found[0]}")
        return chr(number)
    return _ESCAPED.get(other, other)
