"""Values in JSON texts by a path, as Spark's `get_json_object` gives them.

A number with a fraction or an exponent is written anew by Java there, whose digits differ between its versions: where
it is asked for as text, Spark alone knows it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from databus.expressions.errors import SparkNeededError
from databus.expressions.text import json_kernels as kernels
from databus.rows.columns import string_array, text
from databus.rows.json_kernels import gather

_PATH = re.compile(r"\$(?:\.[^\s.\[\]'*?][^.\[\]'*?]*|\[\d{1,9}\]|\['[^\s'\[\]*?][^'\[\]*?]*'\])+")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\['([^']+)'\]")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile('["\\\\\x00-\x1f\U00010000-\U0010ffff]')


@dataclass(frozen=True)
class JsonPath:
    """Path to one value in a JSON document.

    Attributes:
        steps: names of members and numbers of elements.
        digits: whether numbers with a fraction are given as they stand, for what reads them as doubles.
    """

    steps: tuple[str | int, ...]
    digits: bool = False

    @classmethod
    def of(cls, path: str, *, digits: bool = False) -> JsonPath | None:
        """Return a path such as "$.a.b[0]['odd key']"; None for another form, which Spark may read."""
        if not _PATH.fullmatch(path):
            return None
        found = _STEP.findall(path)
        return cls(tuple(int(index) if index else member or quoted for member, index, quoted in found), digits)

    def values(self, texts: pa.StringArray) -> pa.StringArray:
        """Return the value in each text: texts without quotes, objects and arrays as JSON; null where there is none.

        Raises:
            SparkNeededError: of a value that Spark alone writes, or a text that may be JSON to it alone.
        """
        offsets, data = text(texts)
        kinds, starts, stops = kernels.find(offsets, data, *self._for_kernel)
        if texts.null_count:
            kinds[np.asarray(texts.is_null())] = kernels.NOTHING
        if (kinds == kernels.UNSURE).any():
            raise SparkNeededError("a JSON text is read by Spark alone")
        floats = kinds == kernels.FLOAT
        if floats.any() and not self.digits:
            raise SparkNeededError("a number in a JSON text has a fraction or exponent, whose text Spark alone writes")
        spans = (kinds == kernels.PLAIN) | (kinds == kernels.LITERAL) | floats
        found = _spans(data, starts, stops, spans)
        slow = np.flatnonzero((kinds == kernels.VALUE) | (kinds == kernels.DOCUMENT))
        if not len(slow):
            return found
        made = found.to_pylist()
        for row in slow.tolist():
            if kinds[row] == kernels.VALUE:
                made[row] = self._written(_read(data[starts[row] : stops[row]].tobytes().decode()))
            else:
                made[row] = self.read(texts[row].as_py())
        return pa.array(made, pa.string())

    def read(self, document: str) -> str | None:
        """Return the value in one text, without the kernel.

        Raises:
            SparkNeededError: as `values`.
        """
        try:
            found = _followed(_read(document), self.steps)
        except ValueError:
            return None
        return None if found is _NOTHING else self._written(found)

    def _written(self, value: Any) -> str:
        if isinstance(value, str):
            if any("\ud800" <= c <= "\udfff" for c in value):
                raise SparkNeededError("a JSON text has half of a surrogate pair")
            return value
        if isinstance(value, _Number) and value.fraction:
            if self.digits:
                return value.digits
            raise SparkNeededError("a number in a JSON text has a fraction or exponent, whose text Spark alone writes")
        return _json(value)

    @cached_property
    def _for_kernel(self) -> tuple[Any, ...]:
        names = [step.encode() if isinstance(step, str) else b"" for step in self.steps]
        return (
            np.array([kernels.NAME if isinstance(step, str) else step for step in self.steps], np.int64),
            np.cumsum([0, *map(len, names)], dtype=np.int64),
            np.frombuffer(b"".join(names) or b" ", np.uint8),
        )


@dataclass(frozen=True)
class _Number:
    digits: str
    fraction: bool


_NOTHING = object()


class _Members(list[tuple[str, Any]]):
    """Members of an object, in order; a name may come twice."""


def _refused(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Members,
    parse_int=lambda digits: _Number("0" if digits == "-0" else digits, False),
    parse_float=lambda digits: _Number(digits, True),
    parse_constant=_refused,
    strict=False,
)


def _read(document: str) -> Any:
    return _DECODER.raw_decode(document.lstrip(" \t\n\r"))[0]


def _followed(value: Any, steps: tuple[str | int, ...]) -> Any:
    """Return the first value on the path that there is, as Spark looks for it."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        plain = isinstance(value, list) and not isinstance(value, _Members)
        return _followed(value[step], rest) if plain and step < len(value) else _NOTHING
    if not isinstance(value, _Members):
        return _NOTHING
    for name, member in value:
        if name == step and member is not None:
            found = _followed(member, rest)
            if found is not _NOTHING:
                return found
    return _NOTHING


def _json(value: Any) -> str:
    """Return a value as Jackson writes it, without spaces."""
    if isinstance(value, _Members):
        return "{" + ",".join(f"{_quoted(name)}:{_json(member)}" for name, member in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, _Number):
        if value.fraction:
            raise SparkNeededError("a number in a JSON text has a fraction or exponent, whose text Spark alone writes")
        return value.digits
    return {None: "null", True: "true", False: "false"}[value]


def _quoted(value: str) -> str:
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise SparkNeededError("a JSON text has half of a surrogate pair")
    return f'"{_ESCAPED.sub(_escape, value)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in _ESCAPES:
        return _ESCAPES[character]
    units = character.encode("utf-16-be")  # beyond 16 bits Jackson writes both halves
    return "".join(f"\\u{units[k]:02X}{units[k + 1]:02X}" for k in range(0, len(units), 2))


def _spans(data: Any, starts: Any, stops: Any, chosen: Any) -> pa.StringArray:
    """Return pieces of a buffer as texts; null where none is chosen."""
    lengths = np.where(chosen, stops - starts, 0)
    where = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=where[1:])
    values = np.empty(int(where[-1]), np.uint8)
    gather(data, np.where(chosen, starts, 0), where, values)
    return string_array(where, values, chosen)
