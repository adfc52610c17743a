"""Random JSON texts, whole and broken, and paths into them."""

from __future__ import annotations

import json
import random
from typing import Any

PATHS = (
    "$.a",
    "$.b",
    "$.a.b",
    "$.a[0]",
    "$.a[1].b",
    "$[0]",
    "$[1].a",
    "$['odd key']",
    "$.a['odd key'][0]",
    "$.é",
    "$.a.a.a",
)
_NAMES = ("a", "b", "odd key", "é", "c", "😀")
_TEXTS = ("", "x", 'q"\\', "é😀", "\n\t\x1f\x7f", "/", "null", "a" * 40)
_BITS = ("'", '"', "{", "}", "[", "]", ",", ":", "\\", "0", "-", ".", "1e5", "nul", " ", "/*", "\\u12", "é")


def value(r: random.Random, depth: int) -> Any:
    kind = r.randrange(8 if depth else 5)
    if kind == 0:
        return r.choice([None, True, False])
    if kind == 1:
        return r.choice([0, -1, 7, 2**31, -(2**63), 10**25])
    if kind < 5:
        return r.choice(_TEXTS)
    if kind == 5:
        return [value(r, depth - 1) for _ in range(r.randrange(3))]
    return {r.choice(_NAMES): value(r, depth - 1) for _ in range(r.randrange(4))}


def document(r: random.Random, *, floats: bool = False) -> str:
    """Return a text that is JSON, or nearly."""
    found = json.dumps(
        value(r, 4),
        ensure_ascii=r.random() < 0.3,
        indent=r.choice([None, None, 1]),
        separators=r.choice([(",", ":"), (", ", ": "), (" ,", " : ")]),
    )
    found = found.replace("-1", r.choice(["-1", "-0", "-1"]))
    if floats:
        found = found.replace("7", r.choice(["7", "7.50", "0.7", "7e2", "-7E-2"]))
    chance = r.random()
    if chance < 0.1:
        return found + r.choice([" x", "}", ' {"a":1}'])
    if chance < 0.3 and found:
        place = r.randrange(len(found))
        return found[:place] + r.choice(_BITS) + found[place + r.randrange(2) :]
    if chance < 0.35:
        return found[: r.randrange(len(found))]
    if chance < 0.4:
        return '{"a": 1, "a": ' + found + ', "a": {"b": 2}}'
    return found
