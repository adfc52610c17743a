"""LIKE with a constant pattern: % stands for any text, _ for one character, also a line break."""

from __future__ import annotations

import re
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from databus.expressions.functions.registry import Arguments, Kernel, Resolved, Value, register

_SPECIAL = re.compile(r"([\\.+*?()|\[\]{}^$])")


def _like(arguments: Arguments) -> Resolved:
    if len(arguments) not in (2, 3) or set(arguments.types) != {"string"}:
        raise arguments.refused()
    pattern = arguments.literal(1)
    escape = arguments.literal(2) if len(arguments) == 3 else "\\"
    if pattern is None or len(escape or "") != 1:
        raise arguments.refused("its pattern or escape")
    if any(character > "\uffff" for character in pattern):  # Spark takes its halves apart, and finds none
        raise arguments.refused("a character beyond the basic plane")
    pieces = like_pieces(pattern, escape)
    if pieces is None:
        raise arguments.refused("an escape before another character")
    kernel = _matcher(pieces)
    return Resolved("boolean", arguments.types, lambda text, *_: kernel(text))


def like_pieces(pattern: str, escape: str) -> list[str | None] | None:
    """Return a pattern's pieces: texts, None for %, "" for _; None where Spark refuses it."""
    pieces: list[str | None] = []
    text = ""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None or escaped not in ("_", "%", escape):
                return None
            text += escaped
        elif character in "%_":
            pieces += [*([text] if text else []), None if character == "%" else ""]
            text = ""
        else:
            text += character
    return [*pieces, *([text] if text else [])]


def _matcher(pieces: list[str | None]) -> Kernel:
    texts = [piece for piece in pieces if piece is not None]
    if len(texts) <= 1 and "" not in texts:
        text = texts[0] if texts else ""
        if not pieces or (texts and len(pieces) == 1):
            return lambda values: pc.equal(values, pa.scalar(text))
        if not texts or (pieces[0] is None and pieces[-1] is None):
            return partial(_found, pc.match_substring, text)
        return partial(_found, pc.starts_with if pieces[-1] is None else pc.ends_with, text)
    parts = (".*" if piece is None else "." if not piece else _SPECIAL.sub(r"\\\1", piece) for piece in pieces)
    return partial(_found, pc.match_substring_regex, rf"\A(?s:{''.join(parts)})\z")


def _found(test: Kernel, pattern: str, values: Value) -> Value:
    return test(values, pattern=pattern)


register("like", resolve=_like)
