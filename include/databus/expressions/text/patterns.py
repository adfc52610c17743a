r"""Regular expressions whose meaning is the same in Java and in Python, translated; all others are not compiled.

Known are literals, classes, `.`, `^ $ \A \z \Z`, groups, alternatives, greedy and lazy quantifiers, and `(?i)` at the
beginning. Not known, among others: possessive quantifiers, look-around, back references, `\b` (its meaning depends on
Java's release), properties, nested classes, quantifiers over what may be empty or is itself unbounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from databus.expressions.errors import NotCompiledError

_BREAKS = "\n\r\x85\u2028\u2029"
_ANY = f"[^{_BREAKS}]"
_END = "(?:\\Z|(?=\r\n\\Z|[\r\x85\u2028\u2029]\\Z|(?<!\r)\n\\Z))"
_CLASSES = {"d": "0-9", "w": "0-9A-Z_a-z", "s": " \t\n\x0b\f\r"}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_MOST_REPEATS = 1000
_MOST_CHARACTERS = 1000
_MOST_WAYS = 10_000


@dataclass(frozen=True)
class Pattern:
    """A regular expression with the same meaning in Python.

    Attributes:
        text: as Python reads it.
        ignores_case: of ASCII letters.
        groups: how many there are.
        repeated: groups that stand under a quantifier.
        may_be_empty: whether it can match no character.
        is_plain: whether RE2 reads the text the same (it would ignore the case of other letters too).
    """

    text: str
    ignores_case: bool
    groups: int
    repeated: frozenset[int]
    may_be_empty: bool
    is_plain: bool

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """Return Python's pattern."""
        return re.compile(self.text, re.ASCII | re.IGNORECASE if self.ignores_case else re.ASCII)


def translated(text: str) -> Pattern:
    """Return a Java pattern as Python's.

    Raises:
        NotCompiledError: it uses more than what is known to mean the same.
    """
    if len(text) > _MOST_CHARACTERS or any(ord(each) > 0xFFFF or 0xD800 <= ord(each) <= 0xDFFF for each in text):
        raise NotCompiledError(f"the pattern {text[:40]!r}: its length, or a character beyond U+FFFF")
    ignores_case = text.startswith("(?i)")
    parser = _PatternReader(text, 4 if ignores_case else 0, ignores_case=ignores_case)
    whole = parser.alternatives()
    if parser.at != len(text):
        raise parser.refused()
    return Pattern(
        whole.text,
        ignores_case,
        parser.groups,
        frozenset(parser.repeated),
        whole.may_be_empty,
        parser.is_plain and not ignores_case,
    )


@dataclass(frozen=True)
class _Piece:
    """Part of a pattern.

    Attributes:
        text: as Python reads it.
        may_be_empty: whether it can match no character.
        ways: in how many ways it can match at one place, at most; None without a bound.
        is_anchor: whether it is a place.
    """

    text: str
    may_be_empty: bool = False
    ways: int | None = 1
    is_anchor: bool = False


@dataclass
class _PatternReader:
    pattern: str
    at: int
    ignores_case: bool
    groups: int = 0
    is_plain: bool = True
    repeated: set[int] = field(default_factory=set)

    def refused(self) -> NotCompiledError:
        return NotCompiledError(f"the pattern {self.pattern[:60]!r} from character {self.at + 1} on")

    @property
    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _take(self) -> str:
        found = self._next
        if not found:
            raise self.refused()
        self.at += 1
        return found

    def alternatives(self) -> _Piece:
        pieces = [self._sequence()]
        while self._next == "|":
            self.at += 1
            pieces.append(self._sequence())
        if len(pieces) > 1 and not all(piece.text for piece in pieces):
            raise self.refused()
        return _Piece(
            "|".join(piece.text for piece in pieces),
            any(piece.may_be_empty for piece in pieces),
            _bounded(pieces, sum),
        )

    def _sequence(self) -> _Piece:
        pieces: list[_Piece] = []
        while self._next not in ("", "|", ")"):
            pieces.append(self._quantified())
        return _Piece(
            "".join(piece.text for piece in pieces),
            all(piece.may_be_empty for piece in pieces),
            _bounded(pieces, math.prod),
        )

    def _quantified(self) -> _Piece:
        before = self.groups
        piece = self._atom()
        if self._next not in ("*", "+", "?", "{"):
            return piece
        text, least, most = self._quantifier()
        if piece.is_anchor or piece.may_be_empty or _too_many_ways(piece.ways, most):
            raise self.refused()
        self.repeated.update(range(before + 1, self.groups + 1))
        ways = None if most is None or piece.ways is None else (most - least + 1) * piece.ways**most
        return _Piece(piece.text + text, least == 0, ways)

    def _quantifier(self) -> tuple[str, int, int | None]:
        """Return (text, least, most) of a quantifier; most is None without a bound."""
        sign = self._take()
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1), "{": (0, None)}[sign]
        if sign == "{":
            found = re.compile(r"(\d+)(,(\d+)?)?\}", re.ASCII).match(self.pattern, self.at)
            if found is None:
                raise self.refused()
            self.at = found.end()
            sign += found[0]
            least = int(found[1])
            most = least if not found[2] else int(found[3]) if found[3] else None
            if max(least, most or 0) > _MOST_REPEATS or (most is not None and (most < least or most == 0)):
                raise self.refused()
        if self._next == "?":
            sign += self._take()
        if self._next in ("+", "*", "?", "{") and self._next:
            raise self.refused()
        return sign, least, most

    def _atom(self) -> _Piece:
        character = self._take()
        if character in "([":
            return self._group() if character == "(" else _Piece(self._class())
        if character == ".":
            return _Piece(_ANY)
        if character == "^":
            return _Piece("\\A", may_be_empty=True, is_anchor=True)
        if character in "$\\":
            return self._end(_END) if character == "$" else self._escaped()
        if character in "*+?{}])|":
            self.at -= 1
            raise self.refused()
        return _Piece(re.escape(character))

    def _end(self, text: str) -> _Piece:
        self.is_plain = False
        return _Piece(text, may_be_empty=True, is_anchor=True)

    def _escaped(self) -> _Piece:
        character = self._take()
        if character == "A":
            return _Piece("\\A", may_be_empty=True, is_anchor=True)
        if character in "zZ":
            return self._end("\\Z" if character == "z" else _END)
        if character.lower() in _CLASSES:
            return _Piece(f"[{'^' if character.isupper() else ''}{_CLASSES[character.lower()]}]")
        return _Piece(re.escape(self._escaped_character(character)))

    def _escaped_character(self, character: str) -> str:
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isalnum() or not character.isascii():
            raise self.refused()
        return character

    def _group(self) -> _Piece:
        if self._next == "?":
            if self.pattern[self.at : self.at + 2] != "?:":
                raise self.refused()
            self.at += 2
            opening = "(?:"
        else:
            opening = "("
            self.groups += 1
        inner = self.alternatives()
        if not inner.text or self._take() != ")":
            raise self.refused()
        return _Piece(f"{opening}{inner.text})", inner.may_be_empty, inner.ways)

    def _class(self) -> str:
        negated = self._next == "^"
        self.at += negated
        parts: list[str] = []
        while self._next != "]" or not parts:
            parts.append(self._class_item(first=not parts))
        self.at += 1
        return f"[{'^' if negated else ''}{''.join(parts)}]"

    def _class_item(self, *, first: bool) -> str:
        character = self._take()
        if character == "\\":
            character = self._take()
            if character in _CLASSES:
                if self._next == "-":
                    raise self.refused()
                return _CLASSES[character]
            character = self._escaped_character(character)
        elif character in "[]^&" or (character == "-" and not (first or self._next == "]")):
            self.at -= 1
            raise self.refused()
        elif character == "-":
            if self._next == "-":
                raise self.refused()
            return "\\-"
        if self._next != "-" or self.pattern[self.at + 1 : self.at + 2] == "]":
            return re.escape(character)
        self.at += 1
        last = self._take()
        if last == "\\":
            last = self._escaped_character(self._take())
        elif last in "[]^&-":
            raise self.refused()
        if last < character or (self.ignores_case and not _is_of_one_kind(character, last)):
            raise self.refused()
        return f"{re.escape(character)}-{re.escape(last)}"


def _bounded(pieces: Sequence[_Piece], join: Callable[[Iterable[int]], int]) -> int | None:
    """Return the joined ways of pieces, None where one has no bound."""
    ways = [piece.ways for piece in pieces]
    return None if None in ways else join(each for each in ways if each is not None)


def _too_many_ways(ways: int | None, most: int | None) -> bool:
    """Return whether a repeated part could be tried in too many ways (both engines go back and try others)."""
    if ways == 1 or most == 1:
        return False
    return ways is None or most is None or most > 100 or ways**most > _MOST_WAYS


def _is_of_one_kind(first: str, last: str) -> bool:
    kinds = (str.isdigit, str.islower, str.isupper)
    return first.isascii() and last.isascii() and any(kind(first) and kind(last) for kind in kinds)
